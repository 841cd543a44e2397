"""Lines to and from a process that stays. Nothing here waits for the other side."""

import asyncio
import os
from collections.abc import Callable

_CHUNK = 65536


class LineReader:
    """Calls `hear` with each line that a pipe brings, and `flooded` where one is longer than `most` bytes."""

    def __init__(
        self, descriptor: int, most: int, hear: Callable[[bytes], object], flooded: Callable[[], object]
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._hear = hear
        self._flooded = flooded
        self._begun = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Takes what is there now."""
        while self._read():
            pass

    def stop(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.stop()
            return False
        *lines, rest = (bytes(self._begun) + data).split(b"\n") if b"\n" in data else (data,)
        if lines:
            self._begun.clear()
        for line in lines:
            if line.strip():
                self._hear(line)
        self._begun += rest
        if len(self._begun) > self._most:
            self._begun.clear()
            self._flooded()
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
