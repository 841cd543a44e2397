"""How wide text is, without a font: as in the widest of the usual ones, so that it fits in all of them."""

import unicodedata

_NARROW = frozenset("iljI.,:;'|! ()[]{}/\\-rtf`\"")
_WIDE = frozenset("mwMW@%—…")
LINE_HEIGHT = 1.35


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    return sum(map(_share, text)) * size * (1.12 if bold else 1)


def _share(letter: str) -> float:
    if letter in _NARROW:
        return 0.43
    if letter in _WIDE:
        return 1.0
    if letter.isascii():
        return 0.8 if letter.isupper() else 0.66
    if unicodedata.combining(letter):
        return 0.0
    wide = unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0xFFFF
    return 1.4 if wide else 0.85


def wrapped(text: str, room: float, size: float, *, lines: int, bold: bool = False) -> list[str]:
    """The text in lines that fit, broken between words where that is possible; what is left ends in '…'."""
    rest, made = " ".join(text.split()), list[str]()
    while rest:
        if len(made) == lines:
            made[-1] = _shortened(made[-1], room, size, bold)
            break
        taken = _fitting(rest, room, size, bold)
        made.append(rest[:taken].rstrip())
        rest = rest[taken:].lstrip()
    return made


def balanced(text: str, room: float, size: float, *, lines: int, bold: bool = False) -> list[str]:
    """As `wrapped`, in as few lines, but of about the same length."""
    made = wrapped(text, room, size, lines=lines, bold=bold)
    if len(made) < 2 or made[-1].endswith("…"):
        return made
    longest = max(width_of(word, size, bold=bold) for word in text.split())
    for share in (0.55, 0.65, 0.75, 0.85):
        narrower = wrapped(text, max(room * share, longest), size, lines=len(made) + 1, bold=bold)
        if len(narrower) == len(made):
            return narrower
    return made


def _fitting(text: str, room: float, size: float, bold: bool) -> int:
    """How many letters stand in the first line: whole words, or as much of the first one as fits."""
    used, taken = 0.0, 0
    for letter in text:
        used += width_of(letter, size, bold=bold)
        if used > room:
            break
        taken += 1
    if taken == len(text):
        return taken
    space = text.rfind(" ", 1, taken + 1)
    return space if space > 0 else max(taken, 1)


def _shortened(line: str, room: float, size: float, bold: bool) -> str:
    while line and width_of(line + "…", size, bold=bold) > room:
        line = line[:-1]
    return line.rstrip() + "…"
