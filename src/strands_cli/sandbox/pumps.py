"""Moving bytes between the host and a confined process: nothing here waits for the other side."""

import asyncio
import os
from collections.abc import Callable

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
        if not self._is_done():
            self._loop.add_writer(descriptor, self._is_done)

    def stop(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._close(self._descriptor)

    def _is_done(self) -> bool:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except OSError:
            pass  # it closed its input, as it may
        self.stop()
        return True


class Intake:
    """Collects what a pipe brings: the first `most` bytes, or the last ones. Closed at its end."""

    def __init__(
        self,
        descriptor: int,
        most: int,
        *,
        keep_last: bool = False,
        on_data: Callable[[int], object],
        on_line: Callable[[str], object] | None = None,
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._keep_last = keep_last
        self._on_data = on_data
        self._on_line = on_line
        self._line = b""
        self._kept = bytearray()
        self.total = 0
        self._loop = asyncio.get_running_loop()
        self.at_end: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    @property
    def data(self) -> bytes:
        return bytes(self._kept[-self._most :] if self._keep_last else self._kept)

    @property
    def is_truncated(self) -> bool:
        return self.total > self._most

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
            self._kept += data[: max(0, self._most - len(self._kept))]
            return
        self._kept += data
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]

    def _pass_lines(self, data: bytes) -> None:
        if self._on_line is None:
            return
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[:_LONGEST_LINE]
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))
