"""The rows of one run: `put` keeps them in memory, and a thread writes them to the store.

The thread writes all waiting rows in one transaction, so neither the event loop nor a step waits for the
disk. To be sure that a row is stored, call `put`, then `await committed()`.
"""

import asyncio
import json
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import msgspec

from strands_cli.errors import SessionError
from strands_cli.exec.stores import Store
from strands_cli.secrets import NOTHING_SECRET, Redactor

_BYTES = "$bytes"
_MARK = b"$bytes"
_PACKING, _JSON = msgspec.msgpack.Encoder(enc_hook=str), msgspec.json.Encoder(enc_hook=str)
_ESCAPED = re.compile(r"\$+bytes")
_FLUSH_SECONDS = 60.0
_DELAY_SECONDS = 0.005
"""Shorter than a model takes to answer, so a crash during the next request rarely loses a tool result."""


class _Batch:
    """Rows that are written together, and the futures of those who wait for them."""

    __slots__ = ("is_done", "is_queued", "rows", "waiting")

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.is_queued = False
        self.waiting: list[asyncio.Future[None]] = []
        self.is_done = False


class Journal:
    """The journal of one run in one process and one event loop; `put` can be called from any thread."""

    def __init__(
        self,
        store: Store,
        run: str,
        fence: int,
        rows: Mapping[str, bytes],
        redactor: Redactor = NOTHING_SECRET,
    ) -> None:
        self.run, self.redactor = run, redactor
        self.on_row: Callable[[str, Any], None] | None = None
        """Called with every row, in its recorded (redacted) form."""
        self.on_failure: Callable[[SessionError], None] | None = None
        """Called once if rows cannot be written, in the writer thread."""
        self.failure: SessionError | None = None
        """The error after which nothing more is written."""
        self._store, self._fence = store, fence
        self._rows = dict(rows)
        self._lock = threading.Lock()
        self._next: _Batch | None = None
        self._last: _Batch | None = None
        self._batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self._timed_by: asyncio.AbstractEventLoop | None = None
        self._writer: threading.Thread | None = None
        self._is_closed = False
        self._ended: list[asyncio.Future[None]] = []

    @classmethod
    def open(
        cls,
        store: Store,
        run: str,
        *,
        redactor: Redactor = NOTHING_SECRET,
        take_over: bool = False,
        fence: int = 0,
    ) -> "Journal":
        """Takes ownership of a run, or creates it. Raises SessionError if another process owns it.

        `fence`: of a caller that has taken it already.
        """
        fence = fence or store.take(run, take_over=take_over)
        return cls(store, run, fence, store.load(run), redactor)

    # --- rows -------------------------------------------------------------------------------------------

    def get(self, key: str) -> Any | None:
        """The value of a row, a new object each time, or None."""
        data = self._rows.get(key)
        return None if data is None else decode_row(data)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def keys(self) -> list[str]:
        return list(self._rows)

    def rows(self) -> Iterator[tuple[str, Any]]:
        """All rows with their values, in the order in which their keys were first put."""
        for key, data in list(self._rows.items()):
            yield key, decode_row(data)

    def put(self, key: str, value: Any) -> None:
        """Sets a row, with secrets redacted. `get` returns it at once; the store has it a little later."""
        data = encode_row(self.redactor.value(value))
        with self._lock:
            self._rows[key] = data
            if self.failure is None and not self._is_closed:
                if self._next is None:
                    self._next = self._last = _Batch()
                    self._hand_over_soon(self._next)
                self._next.rows[key] = data
        if self.on_row is not None:
            self.on_row(key, decode_row(data))

    async def committed(self) -> None:
        """Waits until everything put so far is in the store; SessionError if it cannot be written."""
        waiting = None
        with self._lock:
            if self._last is not None and not self._last.is_done:
                self._hand_over(self._last)
                waiting = asyncio.get_running_loop().create_future()
                self._last.waiting.append(waiting)
        if waiting is not None:
            await waiting
        self.check()

    def check(self) -> None:
        """SessionError if rows could not be written."""
        if self.failure is not None:
            raise type(self.failure)(self.failure.message, hint=self.failure.hint)

    def close(self) -> None:
        """Writes the remaining rows and releases the run. Rows put afterwards are not written."""
        self._end().join(_FLUSH_SECONDS)

    async def closed(self) -> None:
        """Like `close`, without blocking the event loop. Call it once."""
        ended = asyncio.get_running_loop().create_future()
        self._ended.append(ended)
        writer = self._end()
        try:
            await asyncio.wait({ended}, timeout=_FLUSH_SECONDS)
        except asyncio.CancelledError:
            writer.join(_FLUSH_SECONDS)  # or the process may end before the thread
            raise

    def _end(self) -> threading.Thread:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                if self._next is not None:
                    self._hand_over(self._next)
                self._start().put(None)
        assert self._writer is not None
        return self._writer

    # --- the thread that writes -------------------------------------------------------------------------

    def _hand_over_soon(self, batch: _Batch) -> None:
        """Schedules rows that nobody waits for: it is cheaper to write many together."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # another thread
            self._hand_over(batch)
            return
        if self._timed_by is not loop:  # otherwise the timer of an earlier batch runs already
            self._timed_by = loop
            loop.call_later(_DELAY_SECONDS, self._on_time)

    def _on_time(self) -> None:
        with self._lock:
            self._timed_by = None
            if self._next is not None:
                self._hand_over(self._next)

    def _hand_over(self, batch: _Batch) -> None:
        if not batch.is_queued:
            batch.is_queued = True
            self._start().put(batch)

    def _start(self) -> "SimpleQueue[_Batch | None]":
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name=f"journal {self.run}", daemon=True)
            self._writer.start()
        return self._batches

    def _write_all(self) -> None:
        while (batch := self._batches.get()) is not None:
            with self._lock:
                if batch is self._next:
                    self._next = None
            if self.failure is None:
                self._write(batch.rows)
            with self._lock:
                batch.is_done = True
            _wake(batch.waiting)
        try:
            with suppress(SessionError):
                self._store.release(self.run, self._fence)
        finally:
            _wake(self._ended)

    def _write(self, rows: dict[str, bytes]) -> None:
        try:
            self._store.put(self.run, self._fence, rows)
        except SessionError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001 - a store may be anybody's
            self.failure = SessionError(f"The run cannot be recorded: {type(error).__name__}: {error}")
        if self.failure is not None and self.on_failure is not None:
            self.on_failure(self.failure)


def _wake(waiting: "list[asyncio.Future[None]]") -> None:
    if waiting:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            waiting[0].get_loop().call_soon_threadsafe(_settle, waiting)


def _settle(waiting: "list[asyncio.Future[None]]") -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)


# --- values as bytes ----------------------------------------------------------------------------------------


def encode_row(value: Any) -> bytes:
    """JSON, with bytes as `{"$bytes": base64}`. Objects that JSON does not have become text."""
    try:
        # A quick check in another format: these markers, which letters may contain too, begin all bytes.
        packed = _PACKING.encode(value)
        if not (b"\xc4" in packed or b"\xc5" in packed or b"\xc6" in packed or _MARK in packed):
            return _JSON.encode(value)
    except (UnicodeEncodeError, OverflowError):
        pass
    plain = _without_bytes(
        msgspec.to_builtins(value, builtin_types=(bytes, bytearray), str_keys=True, enc_hook=str)
    )
    try:
        return _JSON.encode(plain)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer of more than 64 bits
        return json.dumps(plain).encode("ascii")


def decode_row(data: bytes) -> Any:
    """The value of a row; SessionError if the bytes are damaged."""
    try:
        try:
            value = msgspec.json.decode(data)
        except msgspec.DecodeError:
            value = json.loads(data)
        return _with_bytes(value) if b'$bytes"' in data else value
    except (ValueError, RecursionError):
        reason = f"The journal has a damaged row: {data[:40]!r}."
        raise SessionError(reason, hint="Start the workflow again.") from None


def _without_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and _ESCAPED.fullmatch(name := next(iter(value))):
            return {f"${name}": _without_bytes(value[name])}
        return {key: _without_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return {_BYTES: b64encode(value).decode("ascii")}
    return value


def _with_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(name, inner)] = value.items()
        if name == _BYTES and isinstance(inner, str):
            return b64decode(inner)
        if _ESCAPED.fullmatch(name):
            return {name[1:]: _with_bytes(inner)}
    return {key: _with_bytes(item) for key, item in value.items()}
