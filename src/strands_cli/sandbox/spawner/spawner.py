"""The spawner: a small process that keeps runners ready and starts executables in place of the host.

Started fresh by the host, never forked from it, so that a large host costs nothing and none of its memory is
here. Descriptor 3 is the socket on which calls arrive; whichever runner is free takes the next one. It ends
when the other end of that socket, or the host, does. One that is killed takes no call with it.
"""

import _socket
import ctypes
import gc
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from strands_cli.sandbox import landlock, namespaces, tree
from strands_cli.sandbox.spawner import cgroups, rooms
from strands_cli.sandbox.spawner.cgroups import Group
from strands_cli.sandbox.spawner.keeper import Keeper
from strands_cli.sandbox.spawner.runner import Runner, prepared_ruleset

CALLS = 3
READY = 3
"""How many runners wait for a call."""
REST_SECONDS = 0.01
"""How long a call is left alone with the processors before the next runner is made."""
_MOST_FAILURES = 5
_WIND_UP_SECONDS = 3.0
_FAILED = 9
"""A keeper that could not be made ends with this status."""
_SPARE_PROCESSES = 16
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_ROOM = namespaces.NEWPID | namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS


class Slot:
    """How a slot is made here: a keeper and a runner, in namespaces of their own, before there is a call."""

    def __init__(self, abi: int, temporary: str, *, network: bool, in_room: bool) -> None:
        self.abi = abi
        self.network = network
        self.in_room = in_room
        self.taken, self._taken_end = os.pipe2(os.O_CLOEXEC)
        """Runners write the number of their slot here when they take a call."""
        self._temporary = temporary
        self._user, self._group = os.geteuid(), os.getegid()

    @property
    def counted(self) -> str:
        """How processes are counted where there is no control group: by RLIMIT_NPROC, except for root.

        It counts a user's processes in one user namespace. Each room has one for itself; elsewhere those that
        the user has already are added, so that the limit is only about right.
        """
        return "watched" if self._user == 0 else "rlimit" if self.in_room else "rlimit, roughly"

    def _others(self, proc: int) -> int | None:
        if self._user == 0:
            return None
        return 1 if self.in_room else tree.tasks_of_user(proc) + _SPARE_PROCESSES

    def _report_taken(self, number: int) -> None:
        _try_to(os.write, self._taken_end, number.to_bytes(4, sys.byteorder))

    def scratch(self, number: int) -> str:
        return f"{self._temporary}/strands-{os.getpid()}-{number}"

    def enter_room(self) -> None:
        if self._user:
            namespaces.keep_ids(self._user, self._group)
        rooms.furnish()

    def live(self, calls: _socket.socket, host: int, number: int, group: str) -> int:
        """The life of a keeper, from its birth to its exit status."""
        scratch = "" if self.in_room else f"{self._temporary}/strands-{os.getppid()}-{number}"
        try:
            keeper = self._prepare(calls, host, number, group, scratch)
            keeper.rehearse()
            keeper.keep()
        except OSError as error:
            os.write(2, f"strands spawner: {error}\n".encode())
            return _FAILED
        finally:
            remove_scratch(scratch)
        return 0

    def _prepare(self, calls: _socket.socket, host: int, slot: int, group: str, scratch: str) -> Keeper:
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        own = Group(group) if group else None
        if self.in_room:
            self.enter_room()
        else:
            tree.become_subreaper()
            for place in ("", "/home", "/tmp"):
                os.mkdir(scratch + place, 0o700)
        proc = tree.open_proc()
        others = self._others(proc)
        ruleset = prepared_ruleset(self.abi, scratch, network=self.network)
        namespaces.hide_memory()
        pair, runners_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        keeper = os.getpid()
        runner = os.fork()
        if not runner:
            os.setsid()
            namespaces.die_with_parent(keeper)
            made = Runner(ruleset, scratch, own, others)
            made.rehearse()
            made.run(calls, runners_end, partial(self._report_taken, slot))
        runners_end.close()
        calls.close()
        disk = os.open(rooms.SCRATCH, os.O_RDONLY | os.O_CLOEXEC) if self.in_room else -1
        return Keeper(runner, pair, host, proc, disk)


def remove_scratch(path: str) -> None:
    """A scratch directory with all that is in it; links are not followed."""
    if not path:
        return
    for place, directories, _ in os.walk(path):
        for name in directories:
            _try_to(os.chmod, f"{place}/{name}", 0o700)
    for place, directories, files in os.walk(path, topdown=False):
        for name in files:
            _try_to(os.unlink, f"{place}/{name}")
        for name in directories:
            _try_to(os.rmdir, f"{place}/{name}")
            _try_to(os.unlink, f"{place}/{name}")  # a link to a directory
    _try_to(os.rmdir, path)


def _try_to(act: Callable[..., object], *arguments: object) -> None:
    try:
        act(*arguments)
    except OSError:
        pass  # gone already, or not ours: what is left lies in the system's own temporary directory


class Spawner:
    def __init__(self, calls: _socket.socket, host: int, slot: Slot) -> None:
        self._calls = calls
        self._host = host
        self._slot = slot
        self._proc = tree.open_proc()
        self._groups = cgroups.parent_group() if os.geteuid() == 0 else ""
        self._keepers: dict[int, int] = {}
        """The number of every keeper that has not ended."""
        self._idle: set[int] = set()
        self._made = 0
        self._rests_until = 0.0
        self._failures = 0

    def serve(self) -> None:
        tree.become_subreaper()
        if self._groups:
            cgroups.sweep(self._groups)
        why_not_alone = self._leave_network()
        why_no_room = self._find_room()
        self._calls.send(marshal.dumps(self._level(why_no_room, why_not_alone)))
        wake, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        watched = select.poll()
        watched.register(self._calls, 0)  # only the hang-up: what arrives is for the runners
        for descriptor in (self._host, self._slot.taken, wake):
            watched.register(descriptor, select.POLLIN)
        while self._failures < _MOST_FAILURES:
            rest = self._fill()
            ready = {descriptor for descriptor, _ in watched.poll(rest)}
            if self._host in ready or self._calls.fileno() in ready:
                break
            if wake in ready:
                os.read(wake, 4096)
                self._reap_keepers()
            if self._slot.taken in ready:
                self._note_taken()
        self._wind_up(wake)

    def _wind_up(self, wake: int) -> None:
        """The keepers end by themselves now; their control groups are removed as they do."""
        self._calls.close()
        deadline = time.monotonic() + _WIND_UP_SECONDS
        while self._reap_keepers() and time.monotonic() < deadline:
            if select.select([wake], [], [], 0.1)[0]:
                os.read(wake, 4096)

    def _level(self, why_no_room: str, why_not_alone: str) -> dict[str, object]:
        return {
            "landlock": self._slot.abi,
            "room": self._slot.in_room,
            "why_no_room": why_no_room,
            "why_not_alone": why_not_alone,
            "processes": "cgroup" if self._groups else self._slot.counted,
        }

    def _leave_network(self) -> str:
        """Goes where no network is, for all who may use none; otherwise says why that cannot be."""
        if self._slot.network:
            return ""
        leave = namespaces.unshare if os.geteuid() == 0 else namespaces.unshare_with_user
        reason = attempt(lambda: leave(namespaces.NEWNET), os.fork)
        if not reason:
            leave(namespaces.NEWNET)
        return reason

    def _find_room(self) -> str:
        """Whether there can be rooms is tried once; without them executables run on the host's root."""
        if not self._slot.in_room:
            return "not asked for"
        reason = attempt(self._slot.enter_room, clone_into_room)
        self._slot.in_room = not reason
        return reason

    def _fill(self) -> float | None:
        """Makes the runners that are missing; the milliseconds after which there will be time for that."""
        if self._idle and (rest := self._rests_until - time.monotonic()) > 0:
            return 1 + 1000 * rest
        while len(self._idle) < READY:
            self._make_slot()
        return None

    def _make_slot(self) -> None:
        self._made += 1
        group = cgroups.group_path(self._groups, self._made) if self._groups else ""
        keeper = clone_into_room() if self._slot.in_room else os.fork()
        if not keeper:
            os._exit(self._slot.live(self._calls, self._host, self._made, group))
        self._keepers[keeper] = self._made
        self._idle.add(self._made)

    def _note_taken(self) -> None:
        numbers = memoryview(os.read(self._slot.taken, 4096)).cast("i")
        self._idle.difference_update(numbers)
        self._failures = 0
        self._rests_until = time.monotonic() + REST_SECONDS

    def _reap_keepers(self) -> bool:
        """Takes note of the children that have ended, and ends strays; False when there is no child left.

        Where no namespace ends with a keeper that was killed, what it leaves behind is this process's child
        by and by: what is below the runner only when that has ended. So the end of a stray is followed by
        another look, which comes at last when none is left.
        """
        ended, any_left = _reap()
        numbers = {process: self._keepers.pop(process, None) for process in ended}
        if None in numbers.values() or any(ended.values()):
            tree.end_descendants(os.getpid(), self._proc, spared=self._keepers)
        for process, number in numbers.items():
            if number is not None:
                self._forget(number, was_killed=ended[process] != 0)
        return any_left

    def _forget(self, number: int, *, was_killed: bool) -> None:
        self._failures += number in self._idle
        self._idle.discard(number)
        if was_killed:
            remove_scratch(self._slot.scratch(number))
        if self._groups:
            cgroups.remove_group(cgroups.group_path(self._groups, number))


def _reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, each with its status, and whether there are others."""
    ended: dict[int, int] = {}
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.update([child])
    except ChildProcessError:
        return ended, False
    return ended, True


def clone_into_room() -> int:
    """`fork` into namespaces of its own; for an ordinary user in a user namespace too."""
    number = _CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(f"namespaces are not tried on {os.uname().machine}")
    flags = _ROOM | signal.SIGCHLD | (namespaces.NEWUSER if os.geteuid() else 0)
    zero = ctypes.c_long(0)
    # PyDLL: the interpreter's lock is held throughout, so that the child finds it as the parent left it.
    call = ctypes.PyDLL(None, use_errno=True).syscall
    process = int(call(ctypes.c_long(number), ctypes.c_long(flags), zero, zero, zero, zero))
    if process < 0:
        raise OSError(ctypes.get_errno(), f"clone: {os.strerror(ctypes.get_errno())}")
    return process


def attempt(act: Callable[[], object], fork: Callable[[], int]) -> str:
    """Does something in a child that ends at once; empty where it works, otherwise the reason why not."""
    reading, writing = os.pipe()
    try:
        process = fork()
    except OSError as error:
        return str(error)
    if not process:
        try:
            act()
        except OSError as error:
            os.write(writing, str(error).encode() or b"refused")
        os._exit(0)
    os.close(writing)
    reason = os.read(reading, 4096).decode()
    os.close(reading)
    os.waitpid(process, 0)
    return reason


def main() -> None:
    """SOURCE_DIRECTORY HOST_PROCESS network|alone room|plain TEMPORARY_DIRECTORY"""
    _, host, network, room, temporary = sys.argv[1:]
    watched = os.pidfd_open(int(host))
    if os.getppid() != int(host):
        return
    os.setsid()
    os.set_inheritable(CALLS, False)
    os.closerange(CALLS + 1, watched)  # whatever the host let its children inherit
    os.closerange(watched + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    slot = Slot(landlock.abi(), temporary, network=network == "network", in_room=room == "room")
    gc.freeze()
    gc.disable()
    Spawner(_socket.socket(fileno=CALLS), watched, slot).serve()
