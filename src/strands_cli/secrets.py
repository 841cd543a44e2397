"""The redactor: what is emitted, recorded or written goes through it, and no secret comes out.

A secret is also hidden where it stands in a form that programs give to text on the way: percent-encoded, in
base64 (as a part of something longer too: `Authorization: Basic …`), in hex, escaped as in JSON, in HTML or
as Python shows it, in capital or small letters only, and each long line of one that has several. What changes
it further (a hash, letters in reverse order) is not recognised: a secret that must not be shown must not be
sent to a model in the first place.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import msgspec

MASK = "***"
SHORTEST = 4
"""Shorter values are left alone: they occur everywhere by chance, and masks would reveal them as well."""
_SHORTEST_LINE = 16
_SHORTEST_ENCODED_PART = 6
_SHORTEST_NUMBER = 6
_CUT = "…"
"""What stands at the end of a text that was cut: before it may be the beginning of a secret."""
_SECRET_NAME = re.compile(
    r"(KEY|KEYS|TOKEN)(_|$)|(^|_)(PASS|PAT|AUTH|COOKIE|DSN|PRIVATE|JWT|SIG)(_|$)"
    r"|AUTHORIZATION|SIGNATURE|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_PWD$|DATABASE_URL",
    re.IGNORECASE,
)
# Before the host. A password with a slash in it, which does not belong there, counts too; a port does not.
_IN_FRONT_OF_HOST = re.compile(r"://(?:[^\s/?#]*@|[^\s/?#:@]+:(?!\d*[/?#])\S*@)")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.\[\]-]{1,64})=([^&;#\s'\"<>]+)")
DEEPEST = 200
"""Levels of a value that keep their form. What is further down becomes text."""
_NUMBERS = (int, float, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset, msgspec.Struct)


class Redactor:
    """Hides these values. It never changes once it is made, so any number of threads may use one."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(values)
        whole = {part for value in self._values for part in _secret_parts(value)}
        self._forms = sorted({form for part in whole for form in _secret_forms(part)}, key=len, reverse=True)
        forms = "|".join(map(re.escape, self._forms))
        self._pattern = re.compile(forms) if forms else None
        self._overlapping = re.compile(f"(?=({forms}))")
        """Also finds secrets that overlap, but is slow on text without any."""
        self._longest = len(self._forms[0]) if forms else 0
        self._digits = [part for part in whole if len(part) >= _SHORTEST_NUMBER and part.isdigit()]
        self.is_empty = self._pattern is None
        """Whether there is nothing to hide."""

    def also(self, values: Iterable[str]) -> "Redactor":
        """One that hides these values too."""
        more = [value for value in values if value not in self._values]
        return Redactor([*self._values, *more]) if more else self

    def text(self, text: str) -> str:
        """The text with `***` in place of each secret, and of secrets that overlap."""
        shown: list[str] = []
        at = 0
        for start, end in self._spans(text):
            shown += (text[at:start], MASK)
            at = end
        return "".join((*shown, text[at:]))

    def texts(self, pieces: Sequence[str]) -> list[str]:
        """The same for pieces that somebody may join: also hides what is divided over several of them."""
        spans = self._spans("".join(pieces))
        shown: list[str] = []
        start, number = 0, 0
        for piece in pieces:
            end = start + len(piece)
            parts, at = list[str](), start
            while piece and number < len(spans) and spans[number][0] < end:
                first, last = spans[number]
                parts += (piece[at - start : max(first, at) - start], MASK)
                at = min(last, end)
                if last > end:  # it goes on in the next piece
                    break
                number += 1
            shown.append("".join((*parts, piece[at - start :])))
            start = end
        return shown

    def value(self, value: Any) -> Any:
        """The same for all text and bytes in a value, keys included; what has none to hide stays as it is.

        What is nested more deeply than anybody reads becomes a text.
        """
        return value if self.is_empty else self._shown(value, DEEPEST)

    def _shown(self, value: Any, levels: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes | bytearray):
            shown = self.text(value.decode("utf-8", "surrogateescape"))
            return type(value)(shown.encode("utf-8", "surrogateescape"))
        if not isinstance(value, _CONTAINERS):
            return self._object(value)
        if levels == 0:
            try:
                return self.text(repr(value))
            except RecursionError:
                return "(nested too deeply)"
        deeper = repeat(levels - 1)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            # Not the numbers, which are counted with: those of a Struct are ours.
            texts = {name: part for name, part in fields.items() if not isinstance(part, _NUMBERS)}
            shown_fields = zip(texts, map(self._shown, texts.values(), deeper), strict=False)
            changed = {name: shown for name, shown in shown_fields if shown != fields[name]}
            return msgspec.structs.replace(value, **changed) if changed else value
        if isinstance(value, dict):
            keys = map(self._shown, value.keys(), deeper)
            return dict(zip(keys, map(self._shown, value.values(), deeper), strict=True))
        inside: Iterable[Any] = map(self._shown, value, deeper)
        if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
            inside = self.texts(value)
        return type(value)(*inside) if hasattr(value, "_fields") else type(value)(inside)

    def _object(self, value: Any) -> Any:
        """A number, a path, an exception: as it is, or as its text where that has a secret."""
        if isinstance(value, _NUMBERS) and not self._digits:
            return value
        try:
            text, written = str(value), repr(value)
            if isinstance(value, _NUMBERS):
                return MASK if any(digits in written for digits in self._digits) else value
            return self.text(text) if self._spans(text) or self._spans(written) else value
        except Exception:  # noqa: BLE001 - a value's own methods run here
            return f"(a {type(value).__name__} that cannot be shown)"

    def stream(self) -> "RedactedStream":
        """For one text that arrives in pieces."""
        return RedactedStream(self)

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets are, in order; secrets that overlap are one span."""
        spans: list[tuple[int, int]] = []
        if self._pattern is None:
            return spans
        found = [*self._cut_secrets(text)] if _CUT in text else []
        if self._pattern.search(text) is not None:
            found += (match.span(1) for match in self._overlapping.finditer(text))
            found.sort()
        for start, end in found:
            if spans and start < spans[-1][1]:
                first, before = spans.pop()
                spans.append((first, max(end, before)))
            else:
                spans.append((start, end))
        return spans

    def _cut_secrets(self, text: str) -> Iterator[tuple[int, int]]:
        """The beginnings of secrets where a text was cut."""
        for cut in re.finditer(_CUT, text):
            before = text[max(0, cut.start() - self._longest) : cut.start()]
            length = len(before) - min(_start_of_partial_secret(before, form) for form in self._forms)
            if length >= SHORTEST:
                yield cut.start() - length, cut.start()

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


class _UrlCredentials(Redactor):
    """Hides what stands in URLs, whatever it is."""

    def __init__(self) -> None:
        super().__init__()
        self.is_empty = False

    def text(self, text: str) -> str:
        return without_credentials(text)

    def texts(self, pieces: Sequence[str]) -> list[str]:
        return [*map(self.text, pieces)]

    def value(self, value: Any) -> Any:
        fields = value.__struct_fields__ if isinstance(value, msgspec.Struct) else ()
        parts = [getattr(value, name) for name in fields] or [value]
        return super().value(value) if any(map(_may_hold_url, parts)) else value  # each call comes by here


def _may_hold_url(value: Any, levels: int = 20) -> bool:
    """Whether a look at all of a value is needed; most arguments of tools are plainly without a URL."""
    if isinstance(value, str):
        return "://" in value or "=" in value
    if isinstance(value, dict) and levels:
        return any(_may_hold_url(part, levels - 1) for pair in value.items() for part in pair)
    if isinstance(value, list) and levels:
        return any(_may_hold_url(part, levels - 1) for part in value)
    return not isinstance(value, _NUMBERS)


NOTHING_SECRET = Redactor()
URL_CREDENTIALS = _UrlCredentials()


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
    from html import escape
    from urllib.parse import quote, quote_plus

    yield from (value, value.lower(), value.upper())
    escaped = json.dumps(value)[1:-1]
    yield escaped
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield escaped.replace("/", "\\/")
    yield repr(value)[1:-1]
    yield escape(value)
    yield escape(value).replace("&#x27;", "&#39;")
    raw = value.encode("utf-8", "surrogatepass")
    for letters in (raw.hex(), raw.hex(" "), raw.hex(":")):
        yield letters
        yield letters.upper()
    every = "".join(f"%{code:02X}" for code in raw)
    for quoted in (quote(raw), quote(raw, safe=""), quote_plus(raw), quote(quote(raw, safe="")), every):
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


def without_credentials(text: str) -> str:
    """A text to be shown, whose URLs have no name, password or key (`?api_key=…`, `&sig=…`) in them."""
    if "://" not in text and "=" not in text:
        return text
    return _PARAMETER.sub(
        lambda found: f"{found[1]}={MASK}" if looks_secret(found[1].replace("-", "_")) else found[0],
        _IN_FRONT_OF_HOST.sub("://", text),
    )


def looks_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a key or a password."""
    return _SECRET_NAME.search(name) is not None


def environment_of_helpers() -> dict[str, str]:
    """The variables for a process that works on a stranger's text. All others may be secrets."""
    names = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "SYSTEMROOT")
    return {name: os.environ[name] for name in names if name in os.environ}
