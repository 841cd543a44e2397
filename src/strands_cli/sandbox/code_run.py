"""One piece of code in one confined process: what is sent to it, and what comes back."""

import asyncio
import json
import marshal
import posixpath
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from strands_cli.documents.reader import parse_strict_json
from strands_cli.sandbox import messages
from strands_cli.sandbox.launcher import Child, ZygoteLost
from strands_cli.sandbox.process_tree import signal_name
from strands_cli.sandbox.profile import Profile

CallTool = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]
"""Calls a tool for confined code: `{"value": …}`, or `{"error": {"code", "message"}}`."""

MAX_FILES_BYTES = 10_000_000
_ROOM_BYTES = 100_000
"""What an outcome may take beyond its value: the error, its text, the frames around."""
_GRACE_SECONDS = 10.0
"""How much later than the zygote the host gives up: the zygote may have to be started first."""
_CHUNK = 1 << 16
_MAX_FRAMES = 200_000
_LONGEST_MESSAGE = 10_000
_LONGEST_NAME = 200
_NO_JSON = {"code": "output_invalid", "message": "The tool's answer has no JSON form"}
_NO_TOOLS = {"code": "unavailable", "message": "There are no tools to call here"}


class PythonError(msgspec.Struct, frozen=True):
    """An exception that the code did not catch, or what the sandbox says about its end."""

    type: str
    message: str
    line: int | None = None


class PythonOutcome(msgspec.Struct, kw_only=True):
    """All that is known about a piece of code that ran."""

    stdout: str = ""
    stderr: str = ""
    value: Any = None
    """The last expression's value, if it has a JSON form."""
    representation: str | None = None
    """Its `repr`, where it has none."""
    error: PythonError | None = None
    files: dict[str, bytes] = {}
    """The files that the code has written or changed."""
    dropped_bytes: int = 0
    """How much output went beyond the limit and is lost."""
    timed_out: bool = False
    calls: int = 0
    """How many tools the code has called."""
    new_session: bool = False
    """Whether the session began with this code."""
    is_whole: bool = False
    """Whether the process has given an outcome of its own: if not, it was killed."""


class CodeRun:
    """One piece of code in one confined process, from the request to the outcome."""

    def __init__(self, child: Child, profile: Profile, call_tool: CallTool | None) -> None:
        self.outcome = PythonOutcome(files={})
        self._child = child
        self._profile = profile
        self._call_tool = call_tool
        self._received = bytearray()
        self._room = 3 * profile.output_bytes + MAX_FILES_BYTES + 10 * _ROOM_BYTES
        self._frames_left = _MAX_FRAMES
        self._streams = {messages.STDOUT: bytearray(), messages.STDERR: bytearray()}
        self._line: int | None = None
        self._until = 0.0

    async def run(self, code: str, files: Mapping[str, bytes], *, session: bool) -> PythonOutcome:
        self._until = time.monotonic() + self._profile.seconds
        try:
            async with asyncio.timeout(self._profile.seconds + _GRACE_SECONDS):
                await self._send(self._encode_request(code, files, session))
                ended = await self._listen()
        except TimeoutError:
            # Neither outcome nor end: the zygote itself no longer answers.
            self._child.zygote.kill()
            raise ZygoteLost from None
        self.outcome.stdout, self.outcome.stderr = (
            bytes(data).decode("utf-8", "replace") for data in self._streams.values()
        )
        if not ended:
            await self._explain_end()
        return self.outcome

    def _encode_request(self, code: str, files: Mapping[str, bytes], session: bool) -> bytes:
        request = {
            "code": code,
            "until": self._until,
            "output_bytes": self._profile.output_bytes,
            "files_bytes": MAX_FILES_BYTES,
            "session": session,
        }
        parts = [
            messages.encode_frame(messages.FILE, messages.file_content(name, data))
            for name, data in files.items()
        ]
        parts.append(messages.encode_frame(messages.CODE, json.dumps(request).encode()))
        return b"".join(parts)

    async def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended already; how, is in its status
            await asyncio.get_running_loop().sock_sendall(self._child.channel, data)

    async def _listen(self) -> bool:
        """Takes in frames until the outcome (true) or the end of the process (false)."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._child.channel, _CHUNK)
            except ConnectionResetError:
                return False
            if not data:
                return False
            self._room -= len(data)
            self._received += data
            while (taken := self._next_frame()) is not None:
                if await self._take(*taken):
                    return True
            if self._room < 0 or self._frames_left < 0:
                self.outcome.error = PythonError("SandboxError", "the code sent more than it may")
                return True

    def _next_frame(self) -> tuple[bytes, bytes] | None:
        if len(self._received) < messages.HEADER.size:
            return None
        kind, length = messages.HEADER.unpack_from(self._received)
        end = messages.HEADER.size + length
        if len(self._received) < end:
            return None
        content = bytes(self._received[messages.HEADER.size : end])
        del self._received[:end]
        self._frames_left -= 1
        return kind, content

    async def _take(self, kind: bytes, content: bytes) -> bool:
        """Notes one frame; true if it was the last one. What is not understood ends the run."""
        try:
            most = MAX_FILES_BYTES if kind == messages.FILE else self._profile.output_bytes
            if len(content) > most + _ROOM_BYTES:
                raise ValueError("a frame of this kind cannot be so long")
            if kind in self._streams:
                kept = content[: most - len(self._streams[kind])]
                self._streams[kind] += kept
                self.outcome.dropped_bytes += len(content) - len(kept)
            elif kind == messages.FILE:
                name, data = messages.split_file(content)
                self.outcome.files[_checked_file_name(name)] = data
            elif kind == messages.LATE:
                line = json.loads(content)["line"]
                self._line = line if isinstance(line, int) else None
            elif kind == messages.CALL:
                await self._answer(content)
            elif kind == messages.REFUSED:
                self.outcome.error = PythonError("SandboxError", f"not confined: {content[:1000]!r}")
                return True
            else:
                self._note_outcome(msgspec.convert(parse_strict_json(content), _ReportedOutcome))
                return True
        except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError):
            self.outcome.error = PythonError("SandboxError", "the code has tampered with its own answer")
            return True
        return False

    def _note_outcome(self, reported: "_ReportedOutcome") -> None:
        self.outcome.value, self.outcome.representation = reported.value, reported.repr
        if reported.error is not None:
            text = reported.error.message[:_LONGEST_MESSAGE]
            self.outcome.error = PythonError(reported.error.type[:_LONGEST_NAME], text, reported.error.line)
        self.outcome.is_whole = True
        self.outcome.dropped_bytes += sum(reported.dropped)

    async def _answer(self, content: bytes) -> None:
        """Calls the tool that the code asks for, for as long as the code itself may live."""
        request = msgspec.convert(parse_strict_json(content), _ToolCallRequest)
        self.outcome.calls += 1
        answer: dict[str, Any] = {"error": _NO_TOOLS}
        if self._call_tool is not None:
            try:
                async with asyncio.timeout(self._until - time.monotonic()):
                    answer = await self._call_tool(request.name, request.arguments)
            except TimeoutError:
                return  # the process is being killed at this moment; its end is the next thing to be read
        try:
            encoded = json.dumps(answer).encode()
        except (TypeError, ValueError):
            encoded = json.dumps({"error": _NO_JSON}).encode()
        await self._send(messages.encode_frame(messages.ANSWER, encoded))

    async def _explain_end(self) -> None:
        """Notes how the process ended; ZygoteLost where nobody is left to say it."""
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                data = await asyncio.get_running_loop().sock_recv(self._child.status, _CHUNK)
        except TimeoutError:
            data = b""
        if not data:
            self._child.zygote.is_lost = True
            raise ZygoteLost
        code, is_late = marshal.loads(data)
        kind = "SandboxError"
        if is_late:
            self.outcome.timed_out = True
            kind, text = "TimeoutError", f"the code did not end within {self._profile.seconds:g} s"
        elif code == -signal.SIGXCPU:
            text = "the code used more CPU time than it may"
        elif code < 0:
            text = f"the process was ended by {signal_name(-code)}"
        else:
            text = f"the process ended with exit status {code} before the code was done"
        self.outcome.error = PythonError(kind, text, self._line)


class _ReportedOutcome(msgspec.Struct):
    """The last frame, as far as it can be believed: it comes from the process that ran the code."""

    value: Any = None
    repr: str | None = None
    error: PythonError | None = None
    dropped: tuple[int, int] = (0, 0)


class _ToolCallRequest(msgspec.Struct):
    name: str
    arguments: dict[str, Any]


def _checked_file_name(name: str) -> str:
    """A file's name as the tree in memory gives it: one that stays below the directory it is put into."""
    is_plain = name and not name.startswith("/") and posixpath.normpath(f"/{name}") == f"/{name}"
    if not is_plain or "\0" in name:
        raise ValueError("a name that leads elsewhere")
    return name
