"""A confined process tree as the host holds it: three pipes, and a socket to its keeper."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.errors import ToolError
from strands_cli.sandbox import messages
from strands_cli.sandbox.process_tree import signal_name
from strands_cli.sandbox.profile import Profile
from strands_cli.sandbox.spawner_handle import SpawnerLost

Why = Literal[
    "exited",
    "answered",
    "timeout",
    "idle",
    "memory",
    "processes",
    "scratch",
    "output",
    "cancelled",
    "killed",
    "lost",
]
"""`exited`: by itself, be it by a signal. `lost`: its keeper was killed. All others: ended by us."""

_HINTS = {
    errno.ENOENT: "Is the file there, and is the interpreter of its first line installed?",
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
    peak_bytes: int = 0
    left_others: bool = False
    """Whether it ended before processes that it had started, which were then killed."""

    @property
    def text(self) -> str:
        if self.why != "exited":
            return _WHY_TEXT[self.why]
        if self.signal:
            return f"ended with signal {signal_name(self.signal)}"
        return f"ended with exit status {self.status}"


_WHY_TEXT: dict[Why, str] = {
    "answered": "was ended, since it had answered",
    "timeout": "did not end in time",
    "idle": "said nothing for too long",
    "memory": "used more memory than it may",
    "processes": "started more processes than it may",
    "scratch": "wrote more to its scratch directory than it may",
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
        self._has_news = asyncio.Event()
        self._why: Why | None = None
        self._reports: dict[str, dict[str, Any]] = {}
        """What its keeper and its runner have said, by kind; `gone` when neither is left."""

    @property
    def has_ended(self) -> bool:
        """Nothing of it is left."""
        return not self._reports.keys().isdisjoint(("ended", "gone"))

    async def exited(self) -> None:
        """Returns when the executable itself has ended; what it started may still run."""
        while "exited" not in self._reports and not self.has_ended:
            await self._next_report()

    async def wait(self) -> Exit:
        """How it ended, once nothing of it is left; ToolError where it could not be executed."""
        while not self.has_ended:
            await self._next_report()
        if "failed" in self._reports:
            raise self._cannot_start(**self._reports["failed"])
        if self._reports.keys() == {"gone"}:
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
        with suppress(OSError):  # its keeper has gone, and everything with it
            messages.send_value(self._control, order, *held)

    async def _next_report(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._control, self._read_report)
        self._has_news.clear()
        await self._has_news.wait()

    def _read_report(self) -> None:
        try:
            report, _ = messages.receive_value(self._control)
        except BlockingIOError:
            return
        except OSError:
            report = None
        kind, values = report or ("gone", {})
        self._reports[kind] = values
        if self.has_ended:
            self._stop_listening()
        self._has_news.set()

    def _stop_listening(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._loop = None

    def _exit(self) -> Exit:
        account = self._reports.get("ended") or self._reports.get("exited") or {"status": None}
        if account["status"] is None:
            return Exit(why=self._why or "lost")
        code = os.waitstatus_to_exitcode(account["status"])
        why = account["why"]
        return Exit(
            why=self._why or why if why == "exited" else why,
            status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            peak_bytes=account["peak"],
            left_others=account["survivors"],
        )

    def _cannot_start(self, step: str, number: int, text: str) -> ToolError:
        what, hint = f"confined ({step}): {text}", ""
        if step == "execute":
            what, hint = f"executed: {os.strerror(number)}", _HINTS.get(number, "")
        return ToolError(f"{self.argv[0]} cannot be {what}", code="unavailable", hint=hint)


# --- Moving bytes through the pipes: nothing here waits for the other side ---------------------------------

_CHUNK = 65536
_LONGEST_LINE = 65536


class Outlet:
    """Writes data to a pipe as fast as it is read there, then closes it. Who does not read is left alone."""

    def __init__(self, descriptor: int, data: bytes, close: Callable[[int], object]) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(data)
        self._close = close
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        # At once: a call that is cancelled before the loop turns must not look like one with empty input.
        if not self._write():
            self._loop.add_writer(descriptor, self._write)

    def stop(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._close(self._descriptor)

    def _write(self) -> bool:
        """Writes as much as the pipe takes, and says whether that was all."""
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except OSError:
            pass  # it closed its input, as it may
        self.stop()
        return True


class LineWriter:
    """Writes what it is given as fast as it is read on the other side."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        waits = bool(self._unsent)
        self._unsent += data
        if not waits:
            self._send()

    def stop(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._unsent.clear()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._descriptor, self._unsent[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._descriptor, self._send)
            return
        except OSError:
            pass  # it closed its input, or has ended, as will be seen
        self.stop()


class Intake:
    """Collects what a pipe brings: the first `limit` bytes, or the last ones. Closed at its end.

    A line that is too long is cut; with `on_long_line` it is reported instead, and no line after it counts.
    """

    def __init__(
        self,
        descriptor: int,
        limit: int,
        *,
        keep_last: bool = False,
        on_data: Callable[[int], object],
        on_line: Callable[[str], object] | None = None,
        longest_line: int = _LONGEST_LINE,
        on_long_line: Callable[[], object] | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._keep_last = keep_last
        self._on_data = on_data
        self._on_line = on_line
        self._longest_line = longest_line
        self._on_long_line = on_long_line
        self._line = bytearray()
        self._kept = bytearray()
        self.total = 0
        self._loop = asyncio.get_running_loop()
        self.at_end: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    @property
    def data(self) -> bytes:
        return bytes(self._kept[-self._limit :] if self._keep_last else self._kept)

    def stop(self) -> None:
        self._loop.remove_reader(self._descriptor)
        if not self.at_end.done():
            self.at_end.set_result(None)

    def drain(self) -> None:
        """Takes what is there now."""
        while not self.at_end.done() and self._read():
            pass

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._pass_lines(b"\n" if self._line else b"")
            self.stop()
            return False
        self.total += len(data)
        self._keep(data)
        self._pass_lines(data)
        self._on_data(self.total)
        return True

    def _keep(self, data: bytes) -> None:
        if not self._keep_last:
            self._kept += data[: max(0, self._limit - len(self._kept))]
            return
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def _pass_lines(self, data: bytes) -> None:
        if self._on_line is None:
            return
        *lines, rest = (bytes(self._line) + data).split(b"\n") if b"\n" in data else (data,)
        if lines:
            self._line.clear()
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))
        self._line += rest
        if len(self._line) > self._longest_line:
            del self._line[self._longest_line :]
            if self._on_long_line is not None:
                self._on_line = None
                self._on_long_line()
