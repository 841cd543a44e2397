"""The signs and the colours of progress, as far as a stream can show them."""

from typing import TextIO

import msgspec

from strands_cli.cli.output import may_colour


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
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


class Look(msgspec.Struct, frozen=True):
    signs: Signs = Signs()
    encoding: str = "utf-8"
    coloured: bool = False

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour of the table; as it is where there are no colours."""
        if not self.coloured or not colour or not text:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def encodable(self, text: str) -> str:
        """The text with a '?' for what the stream cannot take."""
        if self.signs.dots != "…":
            text = text.replace("…", self.signs.dots)
        return text.encode(self.encoding, "replace").decode(self.encoding)


def look_of(stream: TextIO, *, coloured: bool) -> Look:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    signs = Signs()
    try:
        "".join(getattr(signs, name) for name in Signs.__struct_fields__).encode(encoding)
    except UnicodeEncodeError:
        signs = ASCII_SIGNS
    return Look(signs, encoding, coloured and may_colour())
