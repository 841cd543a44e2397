"""A confined process tree as the host holds it: three pipes, and a socket to its keeper."""

import asyncio
import errno
import os
import signal
import socket
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.errors import ToolError
from strands_cli.sandbox import messages
from strands_cli.sandbox.profile import Profile
from strands_cli.sandbox.spawner_handle import SpawnerLost

Why = Literal[
    "exited", "answered", "timeout", "idle", "memory", "processes", "output", "cancelled", "killed", "lost"
]
"""`exited`: by itself, be it by a signal. `lost`: its keeper was killed. All others: ended by us."""

_HINTS = {
    errno.ENOENT: "Is the file there, and is the interpreter of its first line in a system directory?",
    errno.EACCES: "It must be executable (chmod +x) and lie in a directory that its profile lets it read.",
    errno.ENOEXEC: "Its first line must name its interpreter, as in #!/bin/sh.",
}


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How an executable ended, and all that it had started with it."""

    why: Why
    status: int | None = None
    """Its exit status, where it ended by itself."""
    signal: int | None = None
    """The signal that ended it."""
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    left_others: bool = False
    """Whether it ended before processes that it had started, which were then killed."""

    @property
    def text(self) -> str:
        if self.why == "exited":
            how = (
                f"signal {signal.Signals(self.signal).name}" if self.signal else f"exit status {self.status}"
            )
            return f"ended with {how}"
        return _WHY_TEXT[self.why]


_WHY_TEXT: dict[Why, str] = {
    "answered": "was ended, since it had answered",
    "timeout": "did not end in time",
    "idle": "said nothing for too long",
    "memory": "used more memory than it may",
    "processes": "started more processes than it may",
    "output": "wrote more than it may",
    "cancelled": "was cancelled",
    "killed": "was ended",
    "lost": "was lost: the process that watched it has been killed",
}


class Confined:
    """A started executable; `stdin`, `stdout` and `stderr` are the host's ends of its pipes, as descriptors.

    It belongs to no event loop until `exited` or `wait` is awaited; `terminate` and `kill` may be called from
    any thread. Closing it ends the whole tree, and so does the end of this process.
    """

    def __init__(
        self,
        control: socket.socket,
        pipes: tuple[int, int, int],
        argv: list[str],
        profile: Profile,
        cwd: Path,
    ) -> None:
        self.stdin, self.stdout, self.stderr = pipes
        self.argv, self.profile, self.cwd = argv, profile, cwd
        control.setblocking(False)
        self._control = control
        self._open = set(pipes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._why: Why | None = None
        self._taken = False
        self._refusal: dict[str, Any] = {}
        self._account: dict[str, Any] = {}
        self.has_exited = False
        """The executable itself has ended; what it started may still run."""
        self.has_ended = False
        """Nothing of it is left."""

    async def exited(self) -> None:
        """Returns when the executable itself has ended."""
        while not self.has_exited:
            await self._next_report()

    async def wait(self) -> Exit:
        """How it ended, once nothing of it is left; ToolError where it could not be executed."""
        while not self.has_ended:
            await self._next_report()
        if self._refusal:
            raise self._cannot_start()
        if not self._taken:
            raise SpawnerLost("the spawner ended before it took the call")
        return self._exit()

    def terminate(self, why: Why = "killed") -> None:
        """Asks the whole tree to end, and makes it end after a short grace."""
        self._order("terminate", why)

    def kill(self, why: Why = "killed") -> None:
        """Ends the whole tree at once. It sees no end of its input before."""
        self._order("kill", why)

    def close(self) -> None:
        """Ends the tree, if any of it is left, and lets go of everything."""
        self.kill()
        self._stop_listening()
        self._control.close()
        for descriptor in tuple(self._open):
            self.close_pipe(descriptor)

    def close_pipe(self, descriptor: int) -> None:
        """Closes one of the three pipes, once."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def _order(self, order: str, why: Why) -> None:
        if not self.has_ended and self._why is None:
            self._why = why
        # The keeper holds the pipe until the tree is dead, so that a tree we end never sees the end of its
        # input first: an executable that was started ahead would take that for a call without arguments.
        held = [self.stdin] if self.stdin in self._open else []
        try:
            messages.send(self._control, order, *held)
        except OSError:
            pass  # its keeper has gone, and everything with it

    async def _next_report(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._control, self._read_report)
        waiting = loop.create_future()
        self._waiting.append(waiting)
        await waiting

    def _read_report(self) -> None:
        try:
            report, _ = messages.receive(self._control)
        except BlockingIOError:
            return
        except OSError:
            report = None
        self._note(*report or ("gone", {}))
        if self.has_ended:
            self._stop_listening()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _note(self, kind: str, values: dict[str, Any]) -> None:
        self._taken = self._taken or kind != "gone"
        self.has_exited = self.has_exited or kind in ("exited", "ended", "gone")
        self.has_ended = kind in ("ended", "gone")
        if kind in ("exited", "ended"):
            self._account = values
        elif kind == "failed":
            self._refusal = values

    def _stop_listening(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._loop = None

    def _exit(self) -> Exit:
        status = self._account.get("status")
        if status is None:
            return Exit(why=self._why or "lost")
        code = os.waitstatus_to_exitcode(status)
        why = self._account["why"]
        return Exit(
            why=self._why or why if why == "exited" else why,
            status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            cpu_seconds=self._account["cpu"],
            peak_bytes=self._account["peak"],
            left_others=self._account["survivors"],
        )

    def _cannot_start(self) -> ToolError:
        step, number = self._refusal["step"], self._refusal["errno"]
        if step == "execute":
            reason = os.strerror(number)
            return ToolError(
                f"{self.argv[0]} cannot be executed: {reason}",
                code="unavailable",
                hint=_HINTS.get(number, ""),
            )
        return ToolError(
            f"{self.argv[0]} cannot be confined ({step}): {self._refusal['text']}", code="unavailable"
        )
