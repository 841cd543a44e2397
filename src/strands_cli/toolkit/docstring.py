"""What a docstring says: of the function in its first paragraph, of each parameter in its section."""

import re
from inspect import cleandoc

import msgspec

# A section of parameters in each of the three styles: only where there is one is the parser worth its import.
_GOOGLE = re.compile(r"^(?:Args|Arguments|Parameters|Params|Attributes):[ \t]*$", re.MULTILINE)
_NUMPY = re.compile(r"^(?:Other )?(?:Parameters|Attributes)[ \t]*\n-{3,}[ \t]*$", re.MULTILINE)
_SPHINX = re.compile(r"^:(?:param|parameter|arg|argument|key|keyword|attribute)\b", re.MULTILINE)

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
    return Docstring(_one_line(first_paragraph), _documented_parameters(clean))


def _documented_parameters(clean: str) -> dict[str, str]:
    if _GOOGLE.search(clean):
        from docstring_parser.google import parse
    elif _NUMPY.search(clean):
        from docstring_parser.numpydoc import parse
    elif _SPHINX.search(clean):
        from docstring_parser.rest import parse
    else:
        return {}
    from docstring_parser.common import ParseError

    try:
        found = parse(clean).params
    except ParseError:  # a docstring is prose: what only looks like a section is ignored
        return {}
    # NumPy's style may document several parameters at once: `x, y : int`.
    return {
        name.strip().lstrip("*"): _one_line(item.description or "")
        for item in found
        for name in item.arg_name.split(",")
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())
