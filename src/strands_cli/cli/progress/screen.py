"""A block of lines at the end of a terminal that is painted over and over, below lines that stay.

Between two frames the cursor rests at the block's first line, which is empty. So a window that changes its
size, Ctrl-C's echo and what others print find the next frame painted from the right place: everything below
the cursor is ours, whatever happened to it.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import TextIO

from strands_cli.cli.progress.look import Look

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_KEEP_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know these show a frame at once or not at all
_CLEAR_BELOW, _CLEAR_LINE = "\r\x1b[J", "\x1b[K"
_LEAVING = ("SIGTERM", "SIGHUP", "SIGTSTP")


class Screen:
    """Writes; whoever calls it sees to it that only one thread does."""

    def __init__(self, stream: TextIO, look: Look) -> None:
        self._stream = stream
        self._look = look
        self._painted: list[str] = []
        self._gone = False

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return columns or 80, lines or 24

    def paint(self, lasting: Sequence[str], frame: list[str]) -> None:
        """Adds lines that stay, and paints the block anew below them."""
        if not frame:
            self.clear(lasting)
        if not frame or (not lasting and frame == self._painted):
            return
        stay = "".join(f"{line}\r\n" for line in lasting)
        block = f"{_CLEAR_LINE}\r\n".join(frame)
        up = f"\x1b[{len(frame) - 1}A" if len(frame) > 1 else ""
        parts = [_BEGIN, _HIDE, _CLEAR_BELOW if lasting else "\r", stay]
        parts += [_KEEP_LINES, block, _CLEAR_LINE, _CLEAR_BELOW[1:], up, "\r", _WRAP_LINES, _END]
        self._painted = frame
        self._write("".join(parts))

    def clear(self, lasting: Sequence[str] = ()) -> None:
        """Takes the block away and leaves a terminal that others may use."""
        stay = "".join(f"{line}\r\n" for line in lasting)
        self._write(f"{_CLEAR_BELOW}{stay}{_SHOW}" if self._painted else stay)
        self._painted = []

    def _write(self, text: str) -> None:
        if self._gone or not text:
            return
        try:
            self._stream.write(self._look.encodable(text))
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone: the run goes on without being watched
            self._gone = True

    @contextmanager
    def left_clean(self) -> Iterator[None]:
        """Signals that end or stop the process leave a visible cursor, where nobody else cares for them."""
        kept = {}
        if current_thread() is main_thread():
            numbers = [getattr(signal, name) for name in _LEAVING if hasattr(signal, name)]
            kept = {number: signal.getsignal(number) for number in numbers}
            kept = {number: before for number, before in kept.items() if before is signal.SIG_DFL}
        for number in kept:
            signal.signal(number, self._leave)
        try:
            yield
        finally:
            for number, before in kept.items():
                signal.signal(number, before)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        self._gone, before = True, self._gone
        # Past the stream and its lock, which the interrupted code may hold.
        os.write(self._stream.fileno(), f"{_WRAP_LINES}{_CLEAR_BELOW}{_SHOW}".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._leave)  # it was stopped, and goes on now
        self._gone, self._painted = before, []
