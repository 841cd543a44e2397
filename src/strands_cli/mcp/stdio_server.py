"""MCP's stdio transport for a server: one JSON message in each line.

The official package's own reads in a thread that nothing can interrupt, so that a signal would not end the
server before the next line comes. It also needs three changes of thread for each call.
"""

import asyncio
import os
import select
import threading
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from strands_cli.toolkit.cancellation import call_in_loop

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_MOST_WAITING = 1000
"""Lines that are read ahead; the client has to wait with the next ones."""
_MOST_UNSENT_BYTES = 1024 * 1024
_LAST_ANSWERS_SECONDS = 1.0
"""How long the end of the input is held back while requests that came before it are answered."""

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class StdioStreams:
    """What a server reads and writes, over two descriptors that it owns."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.output = Outgoing(output_fd, self._loop)
        self.input = Incoming(input_fd, self._loop, self.output)


class ProtocolStream:
    """A stream as the official package takes it: closed at the end of its block."""

    async def aclose(self) -> None:
        """By default there is nothing to do."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Incoming(ProtocolStream):
    """The client's messages, as the official package reads them from a stream."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop, output: "Outgoing") -> None:
        self._descriptor, self._loop, self._output = descriptor, loop, output
        self._lines: deque[bytes | None] = deque()
        """None for a line that is too long."""
        self._arrived = asyncio.Event()
        self._room = threading.Semaphore(_MOST_WAITING)
        self._ended = False
        threading.Thread(target=self._read, name="mcp-stdin", daemon=True).start()

    def _read(self) -> None:
        """Runs in a thread of its own, which ends with the input or with the process."""
        parts, size = list[bytes](), 0
        while chunk := self._chunk():
            pieces = chunk.split(b"\n")
            for index, piece in enumerate(pieces):
                size += len(piece)
                if size <= MAX_MESSAGE_BYTES:
                    parts.append(piece)
                else:
                    parts.clear()  # of a line that is too long nothing is kept
                if index < len(pieces) - 1:
                    self._deliver(parts, size)
                    parts, size = [], 0
        self._deliver(parts, size)
        call_in_loop(self._loop, self._end)

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK_BYTES)
        except OSError:  # a terminal that is gone
            return b""

    def _deliver(self, parts: list[bytes], size: int) -> None:
        line = b"".join(parts).strip() if size <= MAX_MESSAGE_BYTES else None
        if line != b"":
            self._room.acquire()
            call_in_loop(self._loop, self._arrive, line)

    def _arrive(self, line: bytes | None) -> None:
        self._lines.append(line)
        self._arrived.set()

    def _end(self) -> None:
        self._ended = True
        self._arrived.set()

    async def receive(self) -> "SessionMessage | Exception":
        from anyio import EndOfStream

        while True:
            while self._lines:
                line = self._lines.popleft()
                self._room.release()
                if (message := await self._message(line)) is not None:
                    return message
            if self._ended:
                await self._output.all_answered(_LAST_ANSWERS_SECONDS)
                raise EndOfStream
            self._arrived.clear()
            await self._arrived.wait()

    async def _message(self, line: bytes | None) -> "SessionMessage | None":
        """The message in a line; one that is not a message is answered with an error."""
        from mcp.shared.message import SessionMessage
        from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
        from pydantic import ValidationError

        if line is None:
            reason = f"The message is longer than {MAX_MESSAGE_BYTES} bytes"
            await self._output.refuse(INVALID_REQUEST, reason)
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            is_json = error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid"
            batch = is_json and line.startswith(b"[")
            reason = "Batches are not supported" if batch else "Not a JSON-RPC message"
            code = INVALID_REQUEST if is_json else PARSE_ERROR
            await self._output.refuse(code, reason if is_json else "Not valid JSON")
            return None
        if isinstance(message, JSONRPCRequest):
            self._output.expect(message.id)
        return SessionMessage(message)

    async def aclose(self) -> None:
        self._end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None


class Outgoing(ProtocolStream):
    """The server's messages.

    A short one is written at once if that cannot block; all others by a thread, so that a client that does
    not read holds up nobody else.
    """

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor, self._loop = descriptor, loop
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLOUT)
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._queued = threading.Condition()
        self._changed = asyncio.Event()
        self._open_requests: set[Any] = set()
        self.is_broken = False
        threading.Thread(target=self._write, name="mcp-stdout", daemon=True).start()

    def expect(self, request: Any) -> None:
        """A request came, which will be answered."""
        self._open_requests.add(request)

    async def send(self, item: "SessionMessage", /) -> None:
        from anyio import BrokenResourceError

        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        await self._send(data)
        if getattr(message, "method", None) is None:
            self._open_requests.discard(getattr(message, "id", None))
            self._changed.set()
        if self.is_broken:
            raise BrokenResourceError

    async def refuse(self, code: int, message: str) -> None:
        """Answers what is not a message, and so has no id."""
        from mcp_types import ErrorData, JSONRPCError

        error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
        await self._send(error.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async def _send(self, data: bytes) -> None:
        if self._poll and not self._unsent_bytes and len(data) <= select.PIPE_BUF and self._poll.poll(0):
            self._write_all(data)
            return
        with self._queued:
            self._unsent.append(data)
            self._unsent_bytes += len(data)
            self._queued.notify()
        while self._unsent_bytes > _MOST_UNSENT_BYTES and not self.is_broken:
            self._changed.clear()
            await self._changed.wait()

    def _write(self) -> None:
        while True:
            with self._queued:
                self._queued.wait_for(lambda: self._unsent)
                data = self._unsent[0]
            self._write_all(data)
            with self._queued:
                self._unsent.popleft()
                self._unsent_bytes -= len(data)
            call_in_loop(self._loop, self._changed.set)

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left and not self.is_broken:
                left = left[os.write(self._descriptor, left) :]
        except OSError:  # the client is gone
            self.is_broken = True

    async def all_answered(self, seconds: float) -> None:
        """Returns when every request is answered and all is written, or after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                while (self._open_requests or self._unsent_bytes) and not self.is_broken:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    async def aclose(self) -> None:
        """The messages so far are written; the descriptor stays open."""
        self._open_requests.clear()
        await self.all_answered(_LAST_ANSWERS_SECONDS)
