"""The redactor: what is emitted, recorded or written goes through it, and no secret comes out.

A secret is also hidden where it stands in a form that programs give to text on the way: percent-encoded, in
base64 (as a part of something longer too: `Authorization: Basic …`), escaped as in JSON or as Python shows
it, and each long line of one that has several. What changes it further (a hash, letters in reverse order) is
not recognised: a secret that must not be shown must not be sent to a model in the first place.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import msgspec

MASK = "***"
SHORTEST = 4
"""Shorter values are left alone: they occur everywhere by chance, and masks would reveal them as well."""
_SHORTEST_LINE = 16
_SHORTEST_ENCODED_PART = 6
DEEPEST = 200
"""Levels of a value that keep their form. What is further down becomes text."""
_CONTAINERS = (dict, list, tuple, set, frozenset, msgspec.Struct)


class Redactor:
    """Hides these values. It never changes once it is made, so any number of threads may use one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        whole = {part for value in values for part in _secret_parts(value)}
        self._forms = sorted({form for part in whole for form in _secret_forms(part)}, key=len, reverse=True)
        forms = "|".join(map(re.escape, self._forms))
        self._pattern = re.compile(forms) if forms else None
        self._overlapping = re.compile(f"(?=({forms}))")
        """Also finds secrets that overlap, but is slow on text without any."""
        self.is_empty = self._pattern is None
        """Whether there is nothing to hide."""

    def text(self, text: str) -> str:
        """The text with `***` in place of each secret, and of secrets that overlap."""
        shown: list[str] = []
        at = 0
        for start, end in self._spans(text):
            shown += (text[at:start], MASK)
            at = end
        return "".join((*shown, text[at:]))

    def value(self, value: Any) -> Any:
        """The same for all text and bytes in a value, keys included; what has none to hide stays as it is.

        What is nested more deeply than anybody reads becomes a text.
        """
        return value if self._pattern is None else self._shown(value, DEEPEST)

    def _shown(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes | bytearray):
            shown = self.text(value.decode("utf-8", "surrogateescape"))
            return type(value)(shown.encode("utf-8", "surrogateescape"))
        if not isinstance(value, _CONTAINERS):
            return value
        if levels == 0:
            try:
                return self.text(repr(value))
            except RecursionError:
                return "(nested too deeply)"
        deeper = repeat(levels - 1)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            shown_fields = zip(fields, map(self._shown, fields.values(), deeper), strict=False)
            changed = {name: shown for name, shown in shown_fields if shown != fields[name]}
            return msgspec.structs.replace(value, **changed) if changed else value
        if isinstance(value, dict):
            keys = map(self._shown, value.keys(), deeper)
            return dict(zip(keys, map(self._shown, value.values(), deeper), strict=True))
        inside = map(self._shown, value, deeper)
        return type(value)(*inside) if hasattr(value, "_fields") else type(value)(inside)

    def stream(self) -> "RedactedStream":
        """For one text that arrives in pieces."""
        return RedactedStream(self)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets are, in order; secrets that overlap are one span."""
        spans: list[tuple[int, int]] = []
        if self._pattern is None or self._pattern.search(text) is None:
            return spans
        for found in self._overlapping.finditer(text):
            start, end = found.span(1)
            if spans and start < spans[-1][1]:
                start, before = spans.pop()
                end = max(end, before)
            spans.append((start, end))
        return spans

    def unfinished(self, text: str) -> int:
        """Where the end of a text begins that may be the beginning of a secret; its length if nowhere."""
        begins = min((_start_of_partial_secret(text, form) for form in self._forms), default=len(text))
        for start, end in self._spans(text):
            if end > begins:
                return min(start, begins)
        return begins


class RedactedStream:
    """One text that arrives in pieces: a secret that is divided over several of them is hidden too.

    Only as much is kept back as may be the beginning of a secret. What comes out is in the end the same as
    if the whole text had been redacted at once. For one task at a time.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        if self._redactor.is_empty:
            return piece
        text = self._kept + piece
        cut = self._redactor.unfinished(text)
        self._kept = text[cut:]
        return self._redactor.text(text[:cut])

    def end(self) -> str:
        """What was kept back; the stream can be used for another text then."""
        kept, self._kept = self._kept, ""
        return self._redactor.text(kept)


NOTHING_SECRET = Redactor()


def _start_of_partial_secret(text: str, form: str) -> int:
    """The first place from which the rest of the text is a beginning of the form, but not all of it."""
    at = text.find(form[0], max(0, len(text) - len(form) + 1))
    while at >= 0:
        if form.startswith(text[at:]):
            return at
        at = text.find(form[0], at + 1)
    return len(text)


def _secret_parts(value: str) -> Iterator[str]:
    """The value itself, without blanks around it, and its long lines."""
    stripped = value.strip()
    yield from (part for part in (value, stripped) if len(stripped) >= SHORTEST)
    lines = [line.strip() for line in stripped.splitlines()]
    yield from (line for line in lines if len(line) >= _SHORTEST_LINE)


def _secret_forms(value: str) -> Iterator[str]:
    import json
    from urllib.parse import quote, quote_plus

    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    yield repr(value)[1:-1]
    raw = value.encode("utf-8", "surrogatepass")
    for quoted in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield quoted
        yield re.sub("%..", lambda code: code[0].lower(), quoted)
    for encoded in _base64_forms(raw):
        yield encoded
        yield encoded.replace("+", "-").replace("/", "_")


def _base64_forms(raw: bytes) -> Iterator[str]:
    """All of it; and at each of the three ways to stand in something longer, the letters that it decides."""
    from base64 import b64encode

    whole = b64encode(raw).decode()
    yield whole
    yield whole.rstrip("=")
    for before in range(3):
        letters = b64encode(bytes(before) + raw).decode()
        part = letters[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(part) >= _SHORTEST_ENCODED_PART:
            yield part


def without_userinfo(url: str) -> str:
    """A URL without the name and the password before its host."""
    return re.sub(r"://[^/?#]*@", "://", url, count=1)
