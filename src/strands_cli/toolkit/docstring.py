"""What a docstring says: of the function in its first paragraph, of each parameter in its section."""

import re
from inspect import cleandoc

import msgspec

_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(
    r"^(?:(?:Args|Arguments|Parameters|Params|Attributes|Returns?|Yields?|Raises|Examples?|Notes?):[ \t]*$"
    r"|[A-Z][\w ]*\n-{3,}[ \t]*$"
    r"|:\w+[^:\n]*:)",
    re.MULTILINE,
)


class Docstring(msgspec.Struct, frozen=True):
    description: str = ""
    """The first paragraph, on one line."""
    parameters: dict[str, str] = {}


def read_docstring(text: str | None) -> Docstring:
    """A docstring in Google's, NumPy's or Sphinx's style, or in none."""
    if not text:
        return Docstring()
    clean = cleandoc(text)
    section = _SECTION.search(clean)
    before = clean[: section.start()] if section else clean
    first_paragraph = _BLANK_LINE.split(before.strip(), maxsplit=1)[0]
    return Docstring(_one_line(first_paragraph), _documented_parameters(clean) if section else {})


def _documented_parameters(clean: str) -> dict[str, str]:
    from docstring_parser import parse

    # NumPy's style may document several parameters at once: `x, y : int`.
    return {
        name.strip().lstrip("*"): _one_line(item.description or "")
        for item in parse(clean).params
        for name in item.arg_name.split(",")
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())
