"""What a terminal can show: text made harmless and measured in cells, signs, colours, a block of live lines.

What models, tools and files say may contain anything. Nothing of it reaches a terminal but through
`clean_text`, which drops what is not text, or `visible_text`, which shows it.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, TextIO

import msgspec

_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, movements, modes; also one that is cut off
    # Titles, links, the clipboard: with their text, where they have an end near.
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]?"
)
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Controls, what is invisible or blank though it counts as a letter, and what turns the direction of what
# stands around it. Joiners and the selectors of emoji are kept: some scripts need them.
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DROPPED = re.compile(f"[{_HIDDEN}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
ODD_CHARACTERS = f"{_HIDDEN}\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ud800-\udfff"
"""The inside of a class for patterns: all that is not text, but for newlines and tabs."""
_ODD = re.compile(f"[{ODD_CHARACTERS}]")
_ODD_OR_BREAK = re.compile(f"[{ODD_CHARACTERS}\n\t]")


def clean_text(text: str) -> str:
    """The text without anything that would act on a terminal; only newlines and tabs are left of controls."""
    if text.isascii() and text.isprintable():
        return text
    text = _BREAK.sub("\n", _SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _DROPPED.sub("", text))


def visible_text(text: str, *, lines: bool = False) -> str:
    """The text with `\\x1b` or `\\u202e` for what would act on a terminal, hide or turn something.

    It stays on one line, with `\\n` for a newline; with `lines`, newlines and tabs are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    if lines:
        return _ODD.sub(_escaped_character, text.replace("\r\n", "\n"))
    return _ODD_OR_BREAK.sub(_escaped_character, text)


def _escaped_character(found: re.Match[str]) -> str:
    return escaped(found[0])


def escaped(character: str) -> str:
    """A character as Python writes it: `\\n`, `\\x1b`, `\\u202e`, `\\U000e0041`."""
    return character.encode("unicode_escape").decode("ascii")


def guarded_text(text: str) -> str:
    """For questions of consent: on one line, with everything escaped that does not show as itself."""
    from unicodedata import combining

    marks, shown = 0, list[str]()
    for character in text:
        marks = marks + 1 if combining(character) else 0
        is_plain = character.isprintable() and character not in _BLANK and marks <= _MOST_MARKS
        shown.append(character if is_plain else escaped(character))
    return visible_text("".join(shown))


_BLANK = frozenset(
    "\u2800\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f"
)
_MOST_MARKS = 2
"""On one letter; more would be painted over the lines around it."""


def one_line(text: str) -> str:
    """The text made harmless, on one line, with single spaces."""
    return " ".join(clean_text(text).split())


# --- Measured in cells -------------------------------------------------------------------------------------


def cell_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import width

    return width(text)


def cut_text(text: str, room: int, dots: str = "…") -> str:
    """The text if it fits; else its beginning and the dots."""
    if cell_width(text) <= room:
        return text
    from wcwidth import clip

    if room <= len(dots):
        return dots[: max(room, 0)]
    return clip(text, 0, room - len(dots)).rstrip() + dots


def fit_text(text: str, room: int, dots: str = "…", *, right: bool = False) -> str:
    """The text in exactly so many cells: cut, or filled up with spaces."""
    shown = cut_text(text, room, dots)
    gap = " " * (room - cell_width(shown))
    return gap + shown if right else shown + gap


def text_tail(text: str, room: int) -> str:
    """The end of the text, as much as fits, from the beginning of a word if one is near."""
    text = text[-4 * room :] if room > 0 else ""  # room for zero-width characters, and no more work than that
    taken = cell_width(text)
    if taken <= room:
        return text.lstrip()
    from wcwidth import clip

    shown = clip(text, taken - room, taken)
    if shown and text[-len(shown) - 1 : -len(shown)] == " ":
        return shown.lstrip()
    return shown[shown.find(" ", 0, room // 3) + 1 :].lstrip()


def wrapped_text(text: str, room: int) -> list[str]:
    """The words of the text in lines of at most so many cells; a longer word gets its own line."""
    from wcwidth import wrap

    return wrap(" ".join(text.split()), max(room, 1), break_long_words=False, break_on_hyphens=False)


# --- Formatted ---------------------------------------------------------------------------------------------


def duration_text(seconds: float) -> str:
    """For something that is over: '340 ms', '3.2 s', '2 m 05 s', '1 h 02 m'."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def clock_text(seconds: float) -> str:
    """For something that goes on, and should change once a second: '3 s', '1:05', '1:02:05'."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def tokens_text(number: int, *, about: bool = False) -> str:
    """'1,234 tokens', '12.35 M tokens'; with a tilde if it is an estimate."""
    amount = f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:.2f} M"
    return f"{'~' if about else ''}{amount} {'token' if number == 1 else 'tokens'}"


def bytes_text(number: int) -> str:
    """Bytes for people: '12 B', '1.2 kB', '3.4 MB'."""
    amount = float(number)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


# --- What tools are called with, and what they say ---------------------------------------------------------

_SHOWN_ITEMS = 8
_SHOWN_DEPTH = 3
_LONGEST_PROGRESS = 300


def call_text(tool_id: str, arguments: Any, room: int) -> str:
    """A call as it is written: `search(query="owls", limit=3)`."""
    name = one_line(tool_id)
    room = max(room - cell_width(name) - 2, 8)
    if not isinstance(arguments, dict):
        return f"{name}({value_text(arguments, room)})"
    each = room if len(arguments) == 1 else room // 2
    pairs = [
        f"{one_line(str(key)[:each])}={value_text(value, max(each - len(str(key)) - 1, 8))}"
        for key, value in islice(arguments.items(), _SHOWN_ITEMS)
    ]
    inside = ", ".join(pairs + ["…"] * (len(arguments) > _SHOWN_ITEMS))
    return f"{name}({cut_text(inside, room)})"


def failure_text(tool_id: str, content: Any, room: int) -> str:
    """Why a call failed, as the first line of its result has it, and where a crash was; else nothing."""
    blocks = (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list | tuple) else []
    )
    text = next((block["text"] for block in blocks if isinstance(block.get("text"), str)), "")
    line = clean_text(text[: 4 * room]).strip().partition("\n")[0]
    why = cut_text(one_line(line).removeprefix(f"{one_line(tool_id)} ").rstrip("."), room)
    error = next(
        (block["json"].get("error") for block in blocks if isinstance(block.get("json"), dict)), None
    )
    place = crash_place(error)
    return f"{why}, at {place}" if why and place else why


def crash_place(error: Any) -> str:
    """`tools/greet.py:12`: where the code of a tool that crashed raised; nothing for other errors."""
    if not isinstance(error, dict) or error.get("code") != "crashed":
        return ""
    place = next(iter(error.get("details") or ()), None)
    if not isinstance(place, dict) or not place.get("file"):
        return ""
    return one_line(f"{place['file']}:{place.get('line')}")


def progress_text(data: Any) -> str:
    """What a tool says before it is done, on one line."""
    if isinstance(data, str):
        return cut_text(one_line(data[: 4 * _LONGEST_PROGRESS]), _LONGEST_PROGRESS)
    return value_text(data, _LONGEST_PROGRESS)


def progress_lines(head: str, progress: str, room: int, dots: str = "…") -> list[str]:
    """A call and its progress: on one line if that fits, else the progress in at most two lines below."""
    if cell_width(head) + 1 + cell_width(progress) <= room:
        return [f"{head} {progress}".rstrip()]
    return [cut_text(head, room, dots), *lines_below(progress, room, dots)]


def lines_below(progress: str, room: int, dots: str = "…") -> list[str]:
    """The progress in at most two indented lines."""
    first, *more = wrapped_text(progress, room - 4) or [""]
    lines = [first, " ".join(more)] if more else [first]
    return [f"    {cut_text(line, room - 4, dots)}" for line in lines if line]


def value_text(value: Any, room: int, depth: int = _SHOWN_DEPTH) -> str:
    """A glance at a value: at most so many cells of it, and no more work than that, however large it is."""
    if isinstance(value, str):
        shown = one_line(value[: 4 * room]).replace('"', '\\"')
        return f'"{cut_text(shown, room - 2)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return cut_text(f"{value:.6g}", room)
    if isinstance(value, int):
        return cut_text(str(value) if value.bit_length() < 300 else f"{value.bit_length()}-bit integer", room)
    if not isinstance(value, dict | list | tuple):
        return type(value).__name__
    left, right = "{}" if isinstance(value, dict) else "[]"
    if depth == 0 and value:
        parts = ["…"]
    elif isinstance(value, dict):
        parts = [
            f'"{one_line(str(key)[:room])}": {value_text(item, room, depth - 1)}'
            for key, item in islice(value.items(), _SHOWN_ITEMS)
        ]
    else:
        parts = [value_text(item, room, depth - 1) for item in islice(value, _SHOWN_ITEMS)]
    more = ["…"] if depth > 0 and len(value) > _SHOWN_ITEMS else []
    return cut_text(left + ", ".join(parts + more) + right, room)


# --- The terminal itself ------------------------------------------------------------------------------------

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_KEEP_LINES, _WRAP_LINES = "\x1b[?7l", "\x1b[?7h"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know these show a frame at once or not at all
_CLEAR_BELOW, _CLEAR_LINE = "\x1b[J", "\x1b[K"
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


def terminal_size(stream: TextIO, default: tuple[int, int] = (80, 24)) -> tuple[int, int]:
    """Columns and lines."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return default
    return columns or default[0], lines or default[1]


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
    call: str = "•"
    note: str = "•"
    dots: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII_SIGNS = Signs(
    done="+", failed="x", stopped="-", again="~", call="*", note="*", dots="...", spinner="|/-\\"
)


class StreamStyle:
    """The signs and the colours that a stream can show."""

    def __init__(self, stream: TextIO, *, coloured: bool) -> None:
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._coloured = coloured
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
    thread does. Elsewhere than on a terminal there are only the lines that stay.
    """

    def __init__(self, stream: TextIO, style: StreamStyle, *, is_live: bool) -> None:
        self._stream = stream
        self._style = style
        self._is_live = is_live
        self._painted: list[str] = []
        self._gone = False

    def paint(self, lasting: Sequence[str], frame: list[str]) -> None:
        """Adds lines that stay, and paints the block anew below them; without a frame, takes it away."""
        stay = "".join(f"{line}\n" for line in lasting)
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
        except (OSError, ValueError):
            # A terminal is gone then, and the run goes on without being watched; a pipe may only be full.
            self._gone = self._is_live

    @contextmanager
    def left_clean(self) -> Iterator[None]:
        """Ctrl-Z leaves a visible cursor. Signals that end the process unwind the stack, and so do too."""
        number = getattr(signal, "SIGTSTP", None)  # not on Windows
        is_ours = number and current_thread() is main_thread() and signal.getsignal(number) is signal.SIG_DFL
        if not number or not is_ours:
            yield
            return
        signal.signal(number, self._leave)
        try:
            yield
        finally:
            signal.signal(number, signal.SIG_DFL)

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        self._gone, before = True, self._gone
        # Past the stream and its lock, which the interrupted code may hold.
        os.write(self._stream.fileno(), f"{_WRAP_LINES}\r{_CLEAR_BELOW}{_SHOW}".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._leave)  # it was stopped, and goes on now
        self._gone, self._painted = before, []
