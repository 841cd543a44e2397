"""A slot: what is made ready before there is a call, a keeper and a runner in namespaces of their own."""

import _socket
import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from strands_cli.sandbox import namespaces, tree
from strands_cli.sandbox.spawner import rooms
from strands_cli.sandbox.spawner.cgroups import Group
from strands_cli.sandbox.spawner.keeper import Keeper
from strands_cli.sandbox.spawner.runner import Runner, prepared_ruleset

_FAILED = 9
"""A keeper that could not be made ends with this status."""
_SPARE_PROCESSES = 16


class Slot:
    """How slots are made here."""

    def __init__(self, abi: int, temporary: str, *, network: bool, in_room: bool) -> None:
        self.abi = abi
        self.network = network
        self.in_room = in_room
        self.taken, self._tells_taken = os.pipe2(os.O_CLOEXEC)
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

    def _tell_taken(self, number: int) -> None:
        _try_to(os.write, self._tells_taken, number.to_bytes(4, sys.byteorder))

    def scratch(self, number: int) -> str:
        return f"{self._temporary}/strands-{os.getpid()}-{number}"

    def enter_room(self) -> None:
        if self._user:
            _keep_ids(self._user, self._group)
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
            made.run(calls, runners_end, partial(self._tell_taken, slot))
        runners_end.close()
        calls.close()
        disk = os.open(rooms.SCRATCH, os.O_RDONLY | os.O_CLOEXEC) if self.in_room else -1
        return Keeper(runner, pair, host, proc, disk)


def _keep_ids(user: int, group: int) -> None:
    """In a new user namespace: the ids stay what they were."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


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
