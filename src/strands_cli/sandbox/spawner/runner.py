"""The runner: waits for a call, gives up whatever the call's profile does not grant, becomes the executable.

It is forked ahead, so that a call pays for neither the fork nor the namespaces.
"""

import _socket
import marshal
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from strands_cli.sandbox import namespaces, seccomp
from strands_cli.sandbox.landlock import READ, READ_EXECUTE, READ_WRITE, Ruleset, no_new_privileges
from strands_cli.sandbox.spawner import rooms
from strands_cli.sandbox.spawner.cgroups import Group
from strands_cli.sandbox.spawner.keeper import pass_on, receive

Request = dict[str, Any]
"""What `executables` makes: it crosses as marshalled data."""


class Runner:
    def __init__(
        self, ruleset: Ruleset | None, scratch: str, group: Group | None, others: int | None
    ) -> None:
        self._ruleset = ruleset
        self._scratch = scratch
        """A directory on the host's disk; empty in a room, which has its own."""
        self._group = group
        self._others = others
        """How many processes RLIMIT_NPROC counts besides the call's; None where it does not hold."""

    def run(self, calls: _socket.socket, pair: _socket.socket, tell_taken: Callable[[], object]) -> NoReturn:
        """Takes the next call, hands its socket to the keeper and becomes the executable."""
        message, descriptors = receive(calls, 4)
        if len(descriptors) != 4:
            os._exit(0)  # the host has gone
        request: Request = marshal.loads(message)
        # Said here and not by the keeper, which may be killed before it hears of the call: the host makes a
        # call again that nobody has taken.
        _try_to_write(descriptors[0], marshal.dumps(("taken", {})))
        pass_on(pair, marshal.dumps(request["watch"]), descriptors[0])
        steps = self._steps(request, descriptors, tell_taken)
        step = ""
        try:
            for name, act in steps.items():
                step = name
                act()
        except OSError as error:
            pair.send(marshal.dumps({"step": step, "errno": error.errno or 0, "text": str(error)}))
        os._exit(127)

    def _steps(
        self, request: Request, descriptors: list[int], tell_taken: Callable[[], object]
    ) -> dict[str, Callable[[], object]]:
        return {
            "see": lambda: self._see(request),
            "directory": lambda: os.chdir(request["directory"]),
            "streams": lambda: _take_streams(descriptors[1:]),
            "limits": lambda: self._limit(request),
            "capabilities": namespaces.clear_capabilities,
            "files": lambda: self._restrict_files(request),
            "calls": lambda: _load(request["filters"]),
            "next": tell_taken,
            "execute": lambda: self._execute(request),
        }

    def rehearse(self) -> None:
        """Goes through what a call will do, without effect.

        The pages that this touches are copied now, which after a fork is most of what a call would cost.
        """
        namespaces.empty_bounding_set()
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        pass_on(ours, marshal.dumps({"argv": ["x" * 100] * 30, "filters": [bytes(4000)]}), ours.fileno())
        request, descriptors = receive(theirs, 4)
        self._steps(marshal.loads(request), descriptors, ours.close)
        os.close(descriptors[0])
        namespaces.apply_limits({"CORE": 0})
        if not self._scratch:
            rooms.rehearse()
        if self._ruleset is not None:
            self._ruleset.allow(READ, "/dev/null")
        try:
            seccomp.load(bytes(8))
        except OSError:
            pass  # as it should: that is not a filter
        theirs.close()
        ours.close()

    def _see(self, request: Request) -> None:
        if not self._scratch:
            rooms.admit(request["reads"], request["writes"], request["scratch"])

    def _limit(self, request: Request) -> None:
        limits = dict(request["limits"])
        most = limits.pop("NPROC")
        if self._others is not None:
            limits["NPROC"] = most + self._others
        namespaces.apply_limits(limits)
        if self._group is not None:
            self._group.limit(most + 1)  # the keeper is in it too

    def _restrict_files(self, request: Request) -> None:
        no_new_privileges()
        if self._ruleset is not None:
            self._ruleset.allow(READ_EXECUTE, *request["reads"])
            self._ruleset.allow(READ_WRITE, *request["writes"])
            self._ruleset.enter()

    def _execute(self, request: Request) -> None:
        home, temporary = (f"{self._scratch}/home", f"{self._scratch}/tmp")
        if not self._scratch:
            home, temporary = rooms.HOME, rooms.SCRATCH
        environment = {**request["environment"], "HOME": home, "TMPDIR": temporary}
        os.execvpe(request["argv"][0], request["argv"], environment)


def _try_to_write(descriptor: int, data: bytes) -> None:
    try:
        os.write(descriptor, data)
    except OSError:
        pass  # the host no longer listens; the keeper finds out, and ends this


def _load(filters: list[bytes]) -> None:
    for program in filters:
        seccomp.load(program)


def _take_streams(descriptors: list[int]) -> None:
    for stream, descriptor in enumerate(descriptors):
        os.dup2(descriptor, stream)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these two, and an executable would inherit it


def prepared_ruleset(abi: int, scratch: str, *, network: bool) -> Ruleset | None:
    """The rules that every call has, made before there is one; None where the kernel has no Landlock."""
    if not abi:
        return None
    ruleset = Ruleset(abi, network=network)
    ruleset.allow(READ_EXECUTE, *rooms.SYSTEM_DIRECTORIES)
    if scratch:
        ruleset.allow(READ, "/proc", *(f"/etc/{name}" for name in rooms.SETTINGS))
        ruleset.allow(READ_WRITE, *rooms.DEVICES, scratch)
    else:  # a room has nothing else there
        ruleset.allow(READ, "/proc", "/etc")
        ruleset.allow(READ_WRITE, "/dev", rooms.SCRATCH)
    return ruleset
