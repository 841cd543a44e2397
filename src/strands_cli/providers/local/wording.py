"""What a text says about a tool or an argument: shared words, and spans that were meant to be copied."""

import re
from collections.abc import Iterable
from typing import Any

_WORD = re.compile(r"[^\W_]+")
_QUOTES = "\"'`\\“”‘’„«»"
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_LOST = _QUOTES + "()[]{}/"
# Words that any request may have, whatever it is about.
_EMPTY_WORDS = """
a about after all an and any are as at be by can do does for from get give has have how i in into is it its me
my no of on or our please return returns set show such tell that the their them then there these this those to
up use used using was what when where which who will with without you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())


def words(text: str) -> set[str]:
    """The words of a text that say something, in lower case and without a plural's s."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    found = {word.lower() for word in _WORD.findall(spread)}
    return {word.removesuffix("s") if len(word) > 3 else word for word in found - _EMPTY}


_NAME_LIKE = re.compile(r"\w[./@\\:_]\w|\d-\d")
_EXAMPLES = re.compile(r",?\s*(?:such as|like|e\.g\.|for example)\s+'[^']*'(?:(?:,| or|, or)\s+'[^']*')*")
_BREAK = re.compile(
    r"(?<=[.!?;])\s+|,?\s+(?:and\s+)?(?:then|after that|afterwards),?\s+(?=\S)"
    r"|,?\s+and\s+(?=\w+\s+(?:the|a|an|it|its|this|that|them|him|her|these|those|what|whatever|which|to|into)\b)"
)
_LONG_WORD = 5
_MOST_OF_IT = 0.5
MANY = 4
"""More steps than this are no list of things to do, but a text."""


def spoken_words(text: str) -> set[str]:
    """The words of a text that belong to its language: not those inside of paths, addresses and the like."""
    return words(" ".join(token for token in text.split() if not _NAME_LIKE.search(token)))


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:])\s", text.strip(), maxsplit=1)[0].rstrip(".;:")


def without_examples(text: str) -> str:
    """A description's first sentence without quoted examples: a small model takes them for values."""
    return _EXAMPLES.sub("", first_sentence(text)).strip()


def steps(request: str) -> list[str]:
    """The things that a request asks for one after the other; one if it cannot be divided.

    What stands after a colon or in quotation marks is something to pass on, and is left whole.
    """
    asked = request.strip()
    end = next((found.start() for found in re.finditer(r":\s|[\"“«]|(?<!\w)'", asked)), len(asked))
    parts = [part.strip() for part in _BREAK.split(asked[:end])]
    parts[-1] = f"{parts[-1]}{' ' if asked[:end] != asked[:end].rstrip() else ''}{asked[end:]}"
    parts = [part for part in parts if words(part)]
    return parts if 0 < len(parts) <= MANY else [request]


def is_spoken_of(name: str, schema: dict[str, Any], text: str) -> bool:
    """Whether a text mentions an argument: one of its values, its name, or two words of its description."""
    said = words(text)
    if "enum" in schema:
        return any(words(str(value)) & said for value in schema["enum"])
    return bool(words(name) & said) or len(words(first_sentence(schema.get("description", ""))) & said) > 1


def is_grounded(value: str, text: str, description: str = "", taken: Iterable[str] = ()) -> bool:
    """Whether a value comes from the text: as a whole, or with a word of it that no other value has taken.

    One that only repeats its own description is an example, not a value.
    """
    if value and value in text:
        return True
    if value and value in description:
        return False
    others = {part for other in taken for part in _parts(other)}
    return bool((_parts(value) - others) & _parts(text))


def _parts(text: str) -> set[str]:
    return {part.lower() for part in _WORD.findall(text)}


def as_written(value: str, text: str) -> str:
    """The span of the text that a value repeats but for quotes, brackets and spaces; else the value.

    Small models copy words well and punctuation badly, above all inside JSON. A name they sometimes change a
    little: that is taken as it was written too.
    """
    value = value.strip() if value.strip() in text else value
    if not value or value in text:
        return value
    wanted, _ = _folded(value)
    folded, places = _folded(text)
    start = folded.find(wanted) if len(wanted) > 1 else -1
    if start < 0:
        return _nearly_said(value, text)
    first, last = places[start], places[start + len(wanted) - 1] + 1
    if value[-1] in _QUOTES and text[last : last + 1] and text[last] in _QUOTES:
        last += 1
    if value[0] in _QUOTES and first and text[first - 1] in _QUOTES:
        first -= 1
    return _balanced(text, first, last)


_HANDED_OVER = re.compile(r":\s+(?P<all>\S.*)\Z|[\"“«](?P<quoted>[^\"”»]+)[\"”»]", re.DOTALL)


def as_handed_over(value: str, request: str) -> str:
    """What a request hands over, after a colon or in quotes, where a value is most of it; else the value.

    Small models translate what they should only pass on.
    """
    found = _HANDED_OVER.search(request)
    if not value or value in request or found is None:
        return value
    from difflib import SequenceMatcher

    given = (found["all"] or found["quoted"]).strip()
    return given if SequenceMatcher(None, value, given).ratio() > _MOST_OF_IT else value


def _nearly_said(value: str, text: str) -> str:
    """What a word, a path or a date was meant to be, if it differs by a letter or has something added."""
    if " " in value or len(value) < _LONG_WORD or value.lower() in _parts(text):
        return value
    from difflib import get_close_matches

    tokens = [token.strip(".,;:!?" + _QUOTES) for token in text.split()]
    named = [token for token in tokens if _NAME_LIKE.search(token)]
    paths = [token for token in named if value.endswith(token) or value.startswith(token)]
    said = [token for token in tokens if token.isalpha() and token[0] == value[0]]
    near = [token for token in said if abs(len(token) - len(value)) < 2] if value.isalpha() else []
    return next(iter(paths or get_close_matches(value, near, n=1, cutoff=0.8)), value)


def _balanced(text: str, first: int, last: int) -> str:
    """A span, with the bracket before or after it that it lacks."""
    for opening, closing in _PAIRS:
        span = text[first:last]
        if span.count(closing) > span.count(opening) and text[first - 1 : first] == opening:
            first -= 1
        if span.count(opening) > span.count(closing) and text[last : last + 1] == closing:
            last += 1
    return text[first:last]


def _folded(text: str) -> tuple[str, list[int]]:
    """A text without what is easily lost in copying, and where each of its characters stood."""
    kept = [
        (character, place)
        for place, character in enumerate(text)
        if character not in _LOST and not character.isspace()
    ]
    return "".join(character for character, _ in kept), [place for _, place in kept]
