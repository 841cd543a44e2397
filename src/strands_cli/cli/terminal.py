"""What a terminal can show: its size, signs and colours, and a block of lines that is painted over."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import TextIO

import msgspec

from strands_cli.cli.output import may_colour

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_KEEP_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know these show a frame at once or not at all
_CLEAR_BELOW, _CLEAR_LINE = "\x1b[J", "\x1b[K"
_EXIT_SIGNALS = ("SIGTERM", "SIGHUP", "SIGTSTP")
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def is_live(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor, with a human before it."""
    if os.name == "nt":
        can_move = "WT_SESSION" in os.environ  # older consoles print the sequences
    else:
        can_move = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    if not can_move or os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return not stream.closed and stream.isatty()


def size_of(stream: TextIO, otherwise: tuple[int, int] = (80, 24)) -> tuple[int, int]:
    """Columns and lines."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return otherwise
    return columns or otherwise[0], lines or otherwise[1]


def can_ask() -> bool:
    """Whether a user at the terminal can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def discard_typed_input() -> None:
    """Discards what was typed before a question was shown: it is not an answer to it."""
    with suppress(ImportError, OSError, ValueError):  # not on Windows; or it is not a terminal
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class Signs(msgspec.Struct, frozen=True):
    done: str = "✓"
    failed: str = "✗"
    stopped: str = "■"
    again: str = "↻"
    trouble: str = "!"
    note: str = "•"
    dots: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII_SIGNS = Signs(done="+", failed="x", stopped="-", again="~", note="*", dots="...", spinner="|/-\\")


class StreamStyle:
    """The signs and the colours that a stream can show."""

    def __init__(self, stream: TextIO, *, coloured: bool) -> None:
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._coloured = coloured and may_colour()
        self.signs = Signs()
        try:
            "".join(msgspec.structs.astuple(self.signs)).encode(self._encoding)
        except UnicodeEncodeError:
            self.signs = ASCII_SIGNS

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour of the table; unchanged if there are no colours."""
        if not self._coloured or not colour or not text:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def encodable(self, text: str) -> str:
        """The text with a '?' for what the stream cannot take."""
        if self.signs.dots != "…":
            text = text.replace("…", self.signs.dots)
        return text.encode(self._encoding, "replace").decode(self._encoding)


class LiveBlock:
    """A block of lines at the end of a terminal, below lines that stay.

    Between two frames the cursor rests at the block's first line, which is empty. So a window that changes
    its size, Ctrl-C's echo and what others print find the next frame painted from the right place:
    everything below the cursor is ours, whatever happened to it. Whoever calls sees to it that only one
    thread does.
    """

    def __init__(self, stream: TextIO, style: StreamStyle) -> None:
        self._stream = stream
        self._style = style
        self._painted: list[str] = []
        self._gone = False

    def paint(self, lasting: Sequence[str], frame: list[str]) -> None:
        """Adds lines that stay, and paints the block anew below them; without a frame, takes it away."""
        stay = "".join(f"{line}\r\n" for line in lasting)
        if not frame:
            self._write(f"\r{_CLEAR_BELOW}{stay}{_SHOW}" if self._painted else stay)
        elif lasting or frame != self._painted:
            block = f"{_CLEAR_LINE}\r\n".join(frame) + _CLEAR_LINE + _CLEAR_BELOW
            up = f"\x1b[{len(frame) - 1}A" if len(frame) > 1 else ""
            above = f"\r{_CLEAR_BELOW if lasting else ''}{stay}"
            self._write(f"{_BEGIN}{_HIDE}{above}{_KEEP_LINES}{block}{up}\r{_WRAP_LINES}{_END}")
        self._painted = frame

    def _write(self, text: str) -> None:
        if self._gone or not text:
            return
        try:
            self._stream.write(self._style.encodable(text))
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone: the run goes on without being watched
            self._gone = True

    @contextmanager
    def left_clean(self) -> Iterator[None]:
        """Signals that end or stop the process leave a visible cursor, unless they are handled elsewhere."""
        taken = []
        if current_thread() is main_thread():
            numbers = [getattr(signal, name) for name in _EXIT_SIGNALS if hasattr(signal, name)]
            taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
        for number in taken:
            signal.signal(number, self._leave)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, signal.SIG_DFL)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        self._gone, before = True, self._gone
        # Past the stream and its lock, which the interrupted code may hold.
        os.write(self._stream.fileno(), f"{_WRAP_LINES}\r{_CLEAR_BELOW}{_SHOW}".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._leave)  # it was stopped, and goes on now
        self._gone, self._painted = before, []
