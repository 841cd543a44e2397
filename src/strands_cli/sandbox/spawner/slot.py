"""A slot for one call: a keeper and a runner, made before there is a call, so that none pays for that.

The runner waits for a call, gives up whatever the call's profile does not grant, and becomes the executable.
The keeper, its parent, watches the process tree of the executable, and ends it. In a PID namespace it is the
first process, with which all others die; elsewhere it is a subreaper, below which all of them are found. It
reports how the call went over the call's own socket, and takes the end of that socket, or of the host, as the
order to end everything.
"""

import _socket
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

from strands_cli.sandbox import messages, namespaces, process_tree, seccomp
from strands_cli.sandbox.landlock import READ, READ_EXECUTE, READ_WRITE, Ruleset, no_new_privileges
from strands_cli.sandbox.spawner import mounts
from strands_cli.sandbox.spawner.cgroups import Group

LOOK_SECONDS = 0.025
"""How often the memory of a tree is looked at."""
_LOOKS_ASIDE, _LOOKS_AT_DISK = 4, 20
"""How many looks there are between two at what takes longer to see."""
_FAILED = 9
"""A keeper that could not be made ends with this status."""
_SPARE_PROCESSES = 16


class Slot:
    """How slots are made here."""

    def __init__(self, abi: int, temporary: str, *, network: bool, in_room: bool) -> None:
        self.abi = abi
        self.network = network
        self.in_room = in_room
        self.taken, self._taken_end = os.pipe2(os.O_CLOEXEC)
        """Runners write the number of their slot here when they take a call."""
        self._temporary = temporary
        self._user, self._group = os.geteuid(), os.getegid()

    def scratch(self, spawner: int, number: int) -> str:
        """The scratch directory of a slot; empty in a room, which has its own."""
        return "" if self.in_room else f"{self._temporary}/strands-{spawner}-{number}"

    def enter_room(self) -> None:
        if self._user:
            namespaces.keep_ids(self._user, self._group)
        mounts.mount_system()

    def live(self, calls: _socket.socket, host: int, number: int, group: list[str]) -> int:
        """The life of a keeper, from its birth to its exit status."""
        scratch = self.scratch(os.getppid(), number)
        try:
            self._prepare(calls, host, number, group, scratch).keep()
        except OSError as error:
            os.write(2, f"strands spawner: {error}\n".encode())
            return _FAILED
        finally:
            remove_scratch(scratch)
        return 0

    def _prepare(
        self, calls: _socket.socket, host: int, slot: int, group: list[str], scratch: str
    ) -> "Keeper":
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        own = Group(group) if group else None
        if self.in_room:
            self.enter_room()
        else:
            process_tree.become_subreaper()
            for place in ("", "/home", "/tmp"):
                os.mkdir(scratch + place, 0o700)
        proc = process_tree.open_proc()

        def others() -> int:
            # RLIMIT_NPROC counts a user's processes in one user namespace. A room has one for itself;
            # elsewhere those that the user has already are added, so that the limit is only about right.
            return 1 if self.in_room else process_tree.tasks_of_user(proc) + _SPARE_PROCESSES

        ruleset = self._ruleset(scratch) if self.abi else None
        namespaces.hide_memory()
        pair, runners_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        keeper = os.getpid()
        runner = os.fork()
        if not runner:
            os.setsid()
            namespaces.die_with_parent(keeper)
            if own is not None:
                own.enter()  # now, since it may take a while
            tell_taken = partial(try_to, os.write, self._taken_end, slot.to_bytes(4, sys.byteorder))
            Runner(ruleset, scratch, own, others if self._user else None, tell_taken).run(calls, runners_end)
        runners_end.close()
        calls.close()
        disk = os.open(mounts.SCRATCH if self.in_room else scratch, os.O_RDONLY | os.O_CLOEXEC)
        return Keeper(runner, pair, host, Holdings(proc, disk, own, in_room=self.in_room))

    def _ruleset(self, scratch: str) -> Ruleset:
        """The rules that every call has, made before there is one."""
        ruleset = Ruleset(self.abi, network=self.network)
        ruleset.allow(READ_EXECUTE, *messages.SYSTEM_DIRECTORIES)
        if scratch:
            ruleset.allow(READ, "/proc", *mounts.SETTINGS)
            ruleset.allow(READ_WRITE, *mounts.DEVICES)
        else:  # a room has nothing else there
            ruleset.allow(READ, "/proc", "/etc", mounts.SCRATCH)
            ruleset.allow(READ_WRITE, "/dev")
        return ruleset


def remove_scratch(path: str) -> None:
    """Removes a scratch directory with all that is in it; links are not followed.

    Directories are moved side by side before they are emptied: they may be nested deeper than a path can say.
    """
    if not path:
        return
    aside = f"{path}-{os.urandom(8).hex()}"
    os.mkdir(aside, 0o700)
    waiting = [path]
    for here in waiting:
        try_to(os.chmod, here, 0o700)
        for entry in _entries(here):
            if entry.is_dir(follow_symlinks=False):
                try_to(os.chmod, entry.path, 0o700)
                waiting.append(f"{aside}/{len(waiting)}")
                try_to(os.rename, entry.path, waiting[-1])
            else:
                try_to(os.unlink, entry.path)
        try_to(os.rmdir, here)
    try_to(os.rmdir, aside)


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return [*found]
    except OSError:
        return []


def try_to(act: Callable[..., object], *arguments: Any) -> None:
    try:
        act(*arguments)
    except OSError:
        pass  # gone already, or not ours: what is left lies in the system's own temporary directory


class Runner(NamedTuple):
    ruleset: Ruleset | None
    """None where the kernel has no Landlock."""
    scratch: str
    """A directory on the host's disk; empty in a room, which has its own."""
    group: Group | None
    others: Callable[[], int] | None
    """How many processes RLIMIT_NPROC counts besides the call's, asked when it begins; None for root."""
    tell_taken: Callable[[], object]

    def run(self, calls: _socket.socket, pair: _socket.socket) -> NoReturn:
        """Takes the next call, hands its socket to the keeper and becomes the executable."""
        request, descriptors = messages.receive_value(calls)
        if len(descriptors) != 4:
            os._exit(0)  # the host has gone
        control = _socket.socket(fileno=descriptors[0])
        # Said here and not by the keeper, which may be killed before it hears of the call: the host makes a
        # call again that nobody has taken. Where the host no longer listens, the keeper finds out.
        try_to(messages.send_value, control, ("taken", {}))
        messages.send_value(pair, request["watch"], control.fileno())
        step = ""
        try:
            for step in self._steps(request, descriptors[1:]):  # noqa: B007 - the last one counts
                pass
        except OSError as error:
            messages.send_value(pair, {"step": step, "number": error.errno or 0, "text": str(error)})
        os._exit(127)

    def _steps(self, request: dict[str, Any], streams: list[int]) -> Iterator[str]:
        """From this process to the executable; the name of each step comes before it is taken."""
        yield "see"
        writable: dict[str, bool] = request["paths"]
        if self.scratch:
            opened = mounts.open_call_paths([*writable])
        else:
            opened = mounts.mount_call_paths(writable, request["links"], request["watch"]["scratch"])
        yield "directory"
        os.fchdir(mounts.open_without_links(request["directory"]))
        yield "streams"
        for stream, descriptor in enumerate(streams):
            os.dup2(descriptor, stream)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # Python ignores both, and an executable would inherit it
        yield "limits"
        limits = dict(request["limits"])
        most = limits.pop("NPROC")
        if self.others is not None:
            limits["NPROC"] = most + self.others()
        namespaces.apply_limits(limits)
        if self.group is not None:
            self.group.limit(most, request["watch"]["memory"])
        yield "capabilities"
        namespaces.drop_capabilities()
        yield "files"
        no_new_privileges()
        scratch = self._scratch_places(writable)
        if self.ruleset is not None:
            self.ruleset.allow(READ_WRITE, *scratch.values())
            for path, descriptor in opened.items():
                self.ruleset.allow_opened(READ_WRITE if writable[path] else READ_EXECUTE, descriptor)
            self.ruleset.enter()
        yield "calls"
        for program in request["filters"]:
            seccomp.load_filter(program)
        yield "next"
        self.tell_taken()
        yield "execute"
        environment = {**request["environment"], "HOME": scratch["HOME"], "TMPDIR": scratch["TMPDIR"]}
        os.execvpe(request["argv"][0], request["argv"], environment)

    def _scratch_places(self, seen: Iterable[str]) -> dict[str, str]:
        """Where a call may write whatever it likes."""
        if self.scratch:
            return {"HOME": f"{self.scratch}/home", "TMPDIR": f"{self.scratch}/tmp", "": self.scratch}
        # What is mounted below the scratch directory would be writable with it: a pipe even if it is mounted
        # read-only.
        is_below = any(mounts.is_path_below(path, mounts.SCRATCH) for path in seen)
        temporary = mounts.TEMPORARY if is_below else mounts.SCRATCH
        return {"HOME": mounts.HOME, "TMPDIR": temporary, "": mounts.MEMORY}


class Holdings:
    """What a call holds of the machine: its processes, their memory, and what they put aside elsewhere."""

    def __init__(self, proc: int, disk: int, group: Group | None, *, in_room: bool) -> None:
        self.proc = proc
        self.in_room = in_room
        self._disk = disk
        """The scratch directory: in a room a file system in memory."""
        self._group = group
        self._is_counted = group is not None and group.has_limit("memory")
        self._looks = 0
        self._aside = process_tree.Aside()
        self._scratch = 0

    def processes(self) -> list[int]:
        if not self.in_room:
            return process_tree.likely_descendants(os.getpid(), self.proc)
        return [int(name) for name in os.listdir(self.proc) if name.isdigit() and name != "1"]

    def memory(self, processes: list[int], limit: int) -> int:
        """The bytes that a call holds. What no process shows is looked for less often, as it takes longer."""
        self._looks += 1
        if not self._is_counted and self._looks % _LOOKS_ASIDE == 1:
            self._aside = process_tree.memory_aside(processes, self.proc)
        files = 0
        if self.in_room:
            used = os.statvfs(self._disk)
            files = (used.f_blocks - used.f_bfree) * used.f_frsize
        return process_tree.memory_in_use(processes, self.proc, limit, self._aside) + files

    def scratch(self, processes: list[int]) -> int:
        """The bytes of a scratch directory on the host's disk; a room's has a size of its own."""
        if not self.in_room and self._looks % _LOOKS_AT_DISK == 1:
            self._scratch = process_tree.bytes_below(".", self._disk)
            self._scratch += process_tree.deleted_bytes(processes, self.proc)
        return self._scratch

    def ran_out_of_memory(self) -> bool:
        return self._group is not None and self._group.ran_out_of_memory()


class Keeper:
    def __init__(self, runner: int, pair: _socket.socket, host: int, holdings: Holdings) -> None:
        self._runner = runner
        self._pair = pair
        self._host = host
        self._holdings = holdings
        self._proc, self._in_room = holdings.proc, holdings.in_room
        self._why = "exited"
        self._status: int | None = None
        self._reported = False
        self._peak = 0
        self._kill_at: float | None = None

    def keep(self) -> None:
        """Waits for a call, then sees it through; returns when nothing is left of it."""
        limits, descriptors = messages.receive_value(self._pair)
        if not descriptors:
            return  # the host has gone, and with it the runner
        self._control = _socket.socket(fileno=descriptors[0])
        self._limits: dict[str, int] = limits
        self._look_at = time.monotonic() + LOOK_SECONDS
        wake = process_tree.wake_on_child()
        watched = select.poll()
        for descriptor in (self._control.fileno(), self._host, self._pair.fileno(), wake):
            watched.register(descriptor, select.POLLIN)
        while self._reap():
            self._look()
            for descriptor, _ in watched.poll(LOOK_SECONDS * 1000):
                if descriptor == wake:
                    os.read(wake, 4096)
                elif descriptor == self._pair.fileno():
                    watched.unregister(descriptor)
                    self._read_refusal()
                elif descriptor == self._control.fileno() and self._order() == "terminate":
                    self._end("", 0.001 * self._limits["grace"])
                else:
                    self._end("", 0)
        self._read_refusal()
        self._report("ended", self._account())

    def _order(self) -> str | None:
        """What the host says. The pipe that may come with it is held until this process ends."""
        try:
            order: str | None = messages.receive_value(self._control)[0]
        except OSError:
            return None
        return order

    def _read_refusal(self) -> None:
        """What the runner says if it cannot become the executable; nothing where it has."""
        try:
            refusal, _ = messages.receive_value(self._pair, _socket.MSG_DONTWAIT)
        except OSError:
            return
        if refusal is not None:
            self._report("failed", refusal)

    def _end(self, why: str, grace: float) -> None:
        """TERM now and KILL after the grace; without one, KILL at once."""
        self._why = why or self._why
        if grace and self._kill_at is None:
            self._kill_at = time.monotonic() + grace
            self._send(signal.SIGTERM)
        elif not grace:
            self._kill_at = 0

    def _send(self, number: int) -> None:
        if self._in_room:
            with suppress(ProcessLookupError):  # nobody is left
                os.kill(-1, number)
        elif number == signal.SIGKILL:
            process_tree.end_descendants(os.getpid(), self._proc)
        else:
            process_tree.send_signal(number, process_tree.descendants(os.getpid(), self._proc))

    def _look(self) -> None:
        """Ends the tree where its time is up, or where it holds more than it may."""
        now = time.monotonic()
        if self._kill_at is None and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            below = self._holdings.processes()
            held = self._holdings.memory(below, self._limits["memory"])
            self._peak = max(self._peak, held)
            if held > self._limits["memory"] or self._holdings.ran_out_of_memory():
                self._end("memory", 0)
            elif len(below) > self._limits["processes"]:
                self._end("processes", 0)
            elif self._holdings.scratch(below) > self._limits["scratch"]:
                self._end("scratch", 0)
        if self._kill_at is not None and now >= self._kill_at:
            self._send(signal.SIGKILL)

    def _reap(self) -> bool:
        """Reaps the children that have ended; False when none is left."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not process:
                break
            if process == self._runner:
                self._status = status
                if self._why == "exited" and self._holdings.ran_out_of_memory():
                    self._why = "memory"
                self._peak = max(self._peak, usage.ru_maxrss * 1024)
        if self._status is not None and not self._reported:
            # The executable has ended and left others behind: the host says how long they may go on.
            self._reported = True
            self._report("exited", self._account())
        return True

    def _account(self) -> dict[str, Any]:
        return {
            "status": self._status,
            "why": self._why,
            "peak": self._peak,
            "survivors": self._reported,
        }

    def _report(self, kind: str, values: dict[str, Any]) -> None:
        with suppress(OSError):  # the host no longer listens, so the call is to end
            messages.send_value(self._control, (kind, values), flags=_socket.MSG_DONTWAIT)
