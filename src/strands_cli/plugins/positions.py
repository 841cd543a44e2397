"""Where each value of a JSON text stands, by its pointer."""

import json
from bisect import bisect_right
from typing import Any, NoReturn

import msgspec

from strands_cli.documents.problems import JsonPath, pointer
from strands_cli.errors import Issue

DEEPEST = 50

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"


class Document(msgspec.Struct):
    """A JSON text with the places of its values; `issues` says what keeps it from being one."""

    file: str
    value: Any = None
    positions: dict[str, tuple[int, int]] = {}
    """Line and column; those of its key where a value has one."""
    issues: list[Issue] = []

    def issue(self, path: JsonPath, reason: str, remediation: str) -> Issue:
        """Something wrong at a place, or at the nearest one around it that is there."""
        place = path
        while place and pointer(place) not in self.positions:
            place = place[:-1]
        line, column = self.positions.get(pointer(place), (1, 1))
        return Issue(
            pointer=pointer(path),
            reason=reason,
            remediation=remediation,
            file=self.file,
            line=line,
            column=column,
        )


def read_json(text: str, file: str) -> Document:
    """The value of a JSON text and the places in it. A key that stands twice is an issue."""
    document = Document(file)
    try:
        document.value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"This is not JSON: {error.msg}."
        document.issues.append(_unreadable(file, reason, error.lineno, error.colno))
        return document
    except (ValueError, RecursionError) as error:
        reason = (
            "It is nested too deep." if isinstance(error, RecursionError) else f"This is not JSON: {error}."
        )
        document.issues.append(_unreadable(file, reason, 1, 1))
        return document
    walk = _Walk(text, document)
    try:
        walk.value(())
    except _TooDeep:
        document.value = None
        document.issues.append(_unreadable(file, f"It is nested deeper than {DEEPEST} levels.", 1, 1))
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _unreadable(file: str, reason: str, line: int, column: int) -> Issue:
    remedy = "Correct the file: a plugin.json is one JSON object."
    return Issue(file=file, line=line, column=column, reason=reason, remediation=remedy)


class _TooDeep(Exception):
    pass


class _Walk:
    """Goes through a text that is known to be JSON."""

    def __init__(self, text: str, document: Document) -> None:
        self._text = text
        self._document = document
        self._at = 0
        self._lines = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]

    def value(self, path: JsonPath) -> None:
        self._skip(_BLANK)
        self._note(path)
        opening = self._text[self._at]
        if opening not in "{[":
            _, self._at = _DECODER.raw_decode(self._text, self._at)
        elif len(path) >= DEEPEST:
            raise _TooDeep
        else:
            self._at += 1
            (self._members if opening == "{" else self._items)(path)
            self._at += 1

    def _members(self, path: JsonPath) -> None:
        seen: set[str] = set()
        while self._more("}"):
            start = self._at
            name, self._at = _DECODER.raw_decode(self._text, self._at)
            inner = (*path, name)
            if name in seen:
                self._document.positions[pointer(inner)] = self._place(start)
                reason = f"The key {name!r} stands twice."
                self._document.issues.append(self._document.issue(inner, reason, "Keep one of them."))
            seen.add(name)
            self._skip(_BLANK + ":")
            self.value(inner)
            self._document.positions[pointer(inner)] = self._place(start)

    def _items(self, path: JsonPath) -> None:
        index = 0
        while self._more("]"):
            self.value((*path, index))
            index += 1

    def _more(self, closing: str) -> bool:
        self._skip(_BLANK + ",")
        return self._text[self._at] != closing

    def _skip(self, characters: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1

    def _note(self, path: JsonPath) -> None:
        self._document.positions[pointer(path)] = self._place(self._at)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1
