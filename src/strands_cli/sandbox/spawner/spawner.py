"""The spawner: a small process that keeps runners ready and starts executables in place of the host.

Started fresh by the host, never forked from it, so that a large host costs nothing and none of its memory is
here. Its standard input is the socket on which calls arrive; whichever runner is free takes the next one. It
ends when the other end of that socket, or the host, does. One that is killed takes no call with it.
"""

import _socket
import ctypes
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from strands_cli.sandbox import landlock, messages, namespaces, process_tree
from strands_cli.sandbox.spawner import cgroups
from strands_cli.sandbox.spawner.slot import Slot, remove_scratch

READY = 3
"""How many runners wait for a call."""
REST_SECONDS = 0.01
"""How long a call is left alone with the processors before the next runner is made."""
RETRY_SECONDS = 0.2
_MAX_FAILURES = 5
_WIND_UP_SECONDS = 3.0
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_ROOM = namespaces.NEWPID | namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS


class Spawner:
    def __init__(self, calls: _socket.socket, host: int, slot: Slot) -> None:
        self._calls = calls
        self._host = host
        self._slot = slot
        self._proc = process_tree.open_proc()
        # An ordinary user's processes are counted by RLIMIT_NPROC.
        controllers = ("memory",) if os.geteuid() else ("pids", "memory")
        self._groups = cgroups.parent_groups(*controllers)
        self._keepers: dict[int, int] = {}
        """The number of every keeper that has not ended."""
        self._idle: set[int] = set()
        self._made = 0
        self._rests_until = 0.0
        self._failures = 0

    def serve(self) -> None:
        process_tree.become_subreaper()
        cgroups.remove_abandoned_groups(self._groups)
        why_not_alone = self._leave_network()
        # Whether there can be rooms is tried once; without them executables run on the host's root.
        why_no_room = "not asked for"
        if self._slot.in_room:
            why_no_room = try_in_child(self._slot.enter_room, clone_into_room)
            self._slot.in_room = not why_no_room
        counted = "rlimit" if self._slot.in_room else "rlimit, roughly"
        counted_for_root = "cgroup" if "pids" in self._groups else "watched"  # no rlimit counts them
        abilities = {
            "landlock": self._slot.abi,
            "room": self._slot.in_room,
            "why_no_room": why_no_room,
            "why_not_alone": why_not_alone,
            "processes": counted if os.geteuid() else counted_for_root,
            "memory": "cgroup" if "memory" in self._groups else "watched",
        }
        messages.send_value(self._calls, abilities)
        wake = process_tree.wake_on_child()
        watched = select.poll()
        watched.register(self._calls, 0)  # only the hang-up: what arrives is for the runners
        for descriptor in (self._host, self._slot.taken, wake):
            watched.register(descriptor, select.POLLIN)
        while self._failures < _MAX_FAILURES:
            rest = self._fill()
            ready = {descriptor for descriptor, _ in watched.poll(rest)}
            if self._host in ready or self._calls.fileno() in ready:
                break
            if wake in ready:
                os.read(wake, 4096)
                self._reap_keepers()
            if self._slot.taken in ready:
                self._idle.difference_update(memoryview(os.read(self._slot.taken, 4096)).cast("i"))
                self._failures = 0
                self._rests_until = time.monotonic() + REST_SECONDS
        # The keepers end by themselves now; their control groups are removed as they do.
        self._calls.close()
        deadline = time.monotonic() + _WIND_UP_SECONDS
        while self._reap_keepers() and time.monotonic() < deadline:
            if select.select([wake], [], [], 0.1)[0]:
                os.read(wake, 4096)

    def _leave_network(self) -> str:
        """Goes where no network is, for all who may use none; otherwise says why that cannot be."""
        if self._slot.network:
            return ""
        reason = try_in_child(lambda: namespaces.unshare(namespaces.NEWNET), os.fork)
        if not reason:
            namespaces.unshare(namespaces.NEWNET)
        return reason

    def _fill(self) -> float | None:
        """Makes the runners that are missing; the milliseconds after which there will be time for that."""
        if self._idle and (rest := self._rests_until - time.monotonic()) > 0:
            return 1 + 1000 * rest
        while len(self._idle) < READY:
            self._made += 1
            group = cgroups.group_paths(self._groups, self._made)
            try:
                keeper = clone_into_room() if self._slot.in_room else os.fork()
            except OSError:  # too many processes for now, or too little memory
                self._failures += 1
                return 1000 * RETRY_SECONDS
            if not keeper:
                os._exit(self._slot.live(self._calls, self._host, self._made, group))
            self._keepers[keeper] = self._made
            self._idle.add(self._made)
        return None

    def _reap_keepers(self) -> bool:
        """Takes note of the children that have ended, and ends strays; False when there is no child left.

        Where no namespace ends with a keeper that was killed, what it leaves behind is this process's child
        by and by: what is below the runner only when that has ended. So the end of a stray is followed by
        another look, which comes at last when none is left.
        """
        ended: dict[int, int] = {}
        any_left = True
        try:
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                ended.update([child])
        except ChildProcessError:
            any_left = False
        numbers = {process: self._keepers.pop(process, None) for process in ended}
        if None in numbers.values() or any(ended.values()):
            process_tree.end_descendants(os.getpid(), self._proc, spared=self._keepers)
        for process, number in numbers.items():
            if number is None:
                continue
            self._failures += number in self._idle
            self._idle.discard(number)
            if ended[process]:
                remove_scratch(self._slot.scratch(os.getpid(), number))
            cgroups.remove_groups(cgroups.group_paths(self._groups, number))
        return any_left


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


def try_in_child(act: Callable[[], object], fork: Callable[[], int]) -> str:
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
    """HOST_PROCESS network|alone room|plain TEMPORARY_DIRECTORY; the socket of calls is standard input."""
    host, network, room, temporary = sys.argv[1:]
    watched = os.pidfd_open(int(host))
    if os.getppid() != int(host):
        return
    calls = messages.take_standard_input()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    slot = Slot(landlock.abi_version(), temporary, network=network == "network", in_room=room == "room")
    gc.freeze()
    gc.disable()
    Spawner(calls, watched, slot).serve()
