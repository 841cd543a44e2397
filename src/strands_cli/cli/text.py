"""Texts for terminals: made harmless, measured in cells, cut and formatted.

What models and tools say may contain anything. Nothing of it reaches a terminal but through `clean`.
"""

import re
from itertools import islice
from typing import Any

_SEQUENCE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours, movements, modes; also one that is cut off
    # Titles, links, the clipboard: with their text, where they have an end near.
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\\\|\x9c)"
    "|\x1b[ -/]*[0-~]?"
)
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Controls, and what is invisible or turns the direction of what stands around it. Joiners are kept: some
# scripts and emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text without anything that would act on a terminal; only newlines and tabs are left of controls."""
    if text.isascii() and text.isprintable():
        return text
    text = _BREAK.sub("\n", _SEQUENCE.sub("", text))
    return _SURROGATE.sub("\ufffd", _HIDDEN.sub("", text))


def one_line(text: str) -> str:
    """The text made harmless, on one line, with single spaces."""
    return " ".join(clean(text).split())


# --- Measured in cells -------------------------------------------------------------------------------------


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import width

    return width(text)


def cut(text: str, room: int, dots: str = "…") -> str:
    """The text if it fits; else its beginning and the dots."""
    if cells(text) <= room:
        return text
    from wcwidth import clip

    if room <= len(dots):
        return dots[: max(room, 0)]
    return clip(text, 0, room - len(dots)).rstrip() + dots


def fit(text: str, room: int, dots: str = "…", *, right: bool = False) -> str:
    """The text in exactly so many cells: cut, or filled up with spaces."""
    shown = cut(text, room, dots)
    gap = " " * (room - cells(shown))
    return gap + shown if right else shown + gap


def tail(text: str, room: int) -> str:
    """The end of the text, as much as fits, from the beginning of a word if one is near."""
    text = text[-4 * room :] if room > 0 else ""  # room for zero-width characters, and no more work than that
    taken = cells(text)
    if taken <= room:
        return text.lstrip()
    from wcwidth import clip

    shown = clip(text, taken - room, taken)
    if shown and text[-len(shown) - 1 : -len(shown)] == " ":
        return shown.lstrip()
    return shown[shown.find(" ", 0, room // 3) + 1 :].lstrip()


def wrapped(text: str, room: int) -> list[str]:
    """The words of the text in lines of at most so many cells; a longer word gets its own line."""
    lines, line = list[str](), ""
    for word in text.split():
        if line and cells(line) + 1 + cells(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".lstrip()
    return [*lines, line] if line else lines


# --- Formatted ---------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """For something that is over: '340 ms', '3.2 s', '2 m 05 s', '1 h 02 m'."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} m"


def clock(seconds: float) -> str:
    """For something that goes on, and should change once a second: '3 s', '1:05', '1:02:05'."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def tokens(number: int, *, about: bool = False) -> str:
    """'1,234 tokens', '12.35 M tokens'; with a tilde if it is an estimate."""
    amount = f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:.2f} M"
    return f"{'~' if about else ''}{amount} {'token' if number == 1 else 'tokens'}"


def size(number: int) -> str:
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


def call_text(tool_id: str, arguments: Any, room: int, dots: str = "…") -> str:
    """A call as it is written: `search(query="owls", limit=3)`."""
    name = one_line(tool_id)
    room = max(room - cells(name) - 2, 8)
    if not isinstance(arguments, dict):
        return f"{name}({value_text(arguments, room, dots)})"
    each = room if len(arguments) == 1 else room // 2
    pairs = [
        f"{one_line(str(key)[:each])}={value_text(value, max(each - len(str(key)) - 1, 8), dots)}"
        for key, value in _first_items(arguments.items())
    ]
    inside = ", ".join(pairs + [dots] * (len(arguments) > _SHOWN_ITEMS))
    return f"{name}({cut(inside, room, dots)})"


def failure_text(tool_id: str, content: Any, room: int, dots: str = "…") -> str:
    """Why a call failed, as the first line of its result has it; nothing if it has no text."""
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            line = clean(block["text"][: 4 * room]).strip().partition("\n")[0]
            return cut(one_line(line).removeprefix(f"{one_line(tool_id)} ").rstrip("."), room, dots)
    return ""


def value_text(value: Any, room: int, dots: str = "…", depth: int = _SHOWN_DEPTH) -> str:
    """A glance at a value: at most so many cells of it, and no more work than that, however large it is."""
    if isinstance(value, str):
        shown = one_line(value[: 4 * room]).replace('"', '\\"')
        return f'"{cut(shown, room - 2, dots)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return cut(f"{value:.6g}" if isinstance(value, float) else _integer(value), room, dots)
    if isinstance(value, dict | list | tuple):
        return cut(_inside(value, room, dots, depth), room, dots)
    return type(value).__name__


def _inside(value: Any, room: int, dots: str, depth: int) -> str:
    left, right = "{}" if isinstance(value, dict) else "[]"
    if depth == 0 and value:
        return left + dots + right
    if isinstance(value, dict):
        parts = [
            f'"{one_line(str(key)[:room])}": {value_text(item, room, dots, depth - 1)}'
            for key, item in _first_items(value.items())
        ]
    else:
        parts = [value_text(item, room, dots, depth - 1) for item in _first_items(value)]
    return left + ", ".join(parts + [dots] * (len(value) > _SHOWN_ITEMS)) + right


def _first_items(items: Any) -> list[Any]:
    return list(islice(items, _SHOWN_ITEMS))


def _integer(value: int) -> str:
    return str(value) if value.bit_length() < 300 else f"{value.bit_length()}-bit integer"
