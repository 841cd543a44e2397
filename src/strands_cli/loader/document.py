"""YAML and JSON text to plain values, with the place of each.

Built from the parser's events, so that depth, size and aliases are bounded before anything is made of them,
and duplicate keys are seen. Scalars follow YAML 1.2: `yes`, `12:30` and `2026-01-01` are text.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, pointer
from strands_cli.documents.refusal import Refusal
from strands_cli.errors import Issue
from strands_cli.types.spec import Position

MOST_BYTES = 2_000_000
MOST_VALUES = 20_000
DEEPEST = 50
LONGEST_POINTER = 2000

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "int", "float", "bool", "null")
)


class Document(msgspec.Struct):
    value: Any
    positions: dict[str, Position]
    issues: list[Issue]


class _Unreadable(Refusal):
    """The text cannot be read any further; where that is."""

    def __init__(self, reason: str, remedy: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason, remedy)
        self.line, self.column = line, column


def read_document(text: str, file: str) -> Document:
    """The values of a YAML or JSON text; what is wrong with it is in `issues`, the value may be partial."""
    reader = _Reader(file)
    try:
        value = reader.read(text)
    except _Unreadable as error:
        reader.issues.append(
            Issue(
                file=file,
                line=error.line,
                column=error.column,
                reason=error.reason,
                remediation=error.remedy,
            )
        )
        value = None
    return Document(value, reader.positions, reader.issues)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.positions: dict[str, Position] = {}
        self.issues: list[Issue] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._made = 0
        self._events: Iterator[Any] = iter(())

    def read(self, text: str) -> Any:
        import yaml

        # Inside JSON, a tab is white space; YAML takes none for indentation, and none stands inside a string.
        is_json = text.lstrip()[:1] in ("{", "[")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events = yaml.parse(text.replace("\t", " ") if is_json else text, Loader=loader)
        try:
            return self._document(yaml)
        except yaml.MarkedYAMLError as error:
            raise _syntax_error(error) from None
        except yaml.YAMLError as error:
            raise _Unreadable(f"This is not YAML: {error}", "Save the file as UTF-8 text.") from None
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"This is not YAML: {error}", "Correct the file.") from None

    def _document(self, yaml: Any) -> Any:
        value: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _at(
                        event, "The file holds more than one document", "Keep one workflow in each file."
                    )
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, ())
        return value

    def _value(self, event: Any, path: JsonPath) -> Any:
        self._count(event, 1)
        if len(path) > DEEPEST:
            raise _at(event, f"The file is nested more than {DEEPEST} levels deep", "Flatten it.")
        mark = event.start_mark
        place = pointer(path)
        if len(place) > LONGEST_POINTER:
            raise _at(event, "The keys around this are too long", "Use shorter keys.")
        self.positions.setdefault(place, (self.file, mark.line + 1, mark.column + 1))
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event)
        before = self._made
        value = _MAKERS[kind](self, event, path)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._made - before + 1)
        return value

    def _count(self, event: Any, number: int) -> None:
        self._made += number
        if self._made > MOST_VALUES:
            raise _at(
                event, f"The file holds more than {MOST_VALUES} values", "Split it, or use fewer aliases."
            )

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _at(event, f"There is no anchor &{event.anchor} before this alias", "Put the anchor first.")
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        return value

    def _scalar(self, event: Any, path: JsonPath) -> Any:
        if event.tag and event.tag not in _PLAIN_TAGS:
            raise _at(event, f"The tag {event.tag} has no meaning here", "Leave it out.")
        text: str = event.value
        if event.style or (event.tag or "").endswith(":str"):
            return text
        return _plain(text)

    def _sequence(self, event: Any, path: JsonPath) -> list[Any]:
        items: list[Any] = []
        for inner in self._events:
            if type(inner).__name__ == "SequenceEndEvent":
                break
            items.append(self._value(inner, (*path, len(items))))
        return items

    def _mapping(self, event: Any, path: JsonPath) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_event in self._events:
            if type(key_event).__name__ == "MappingEndEvent":
                break
            key = self._key(key_event)
            if key == "<<" and not key_event.style:
                merged |= self._merged(key_event, self._value(next(self._events), (*path, key)))
                continue
            if key in made:
                self._duplicate(key_event, (*path, key))
            mark = key_event.start_mark
            self.positions[pointer((*path, key))] = (self.file, mark.line + 1, mark.column + 1)
            made[key] = self._value(next(self._events), (*path, key))
        return {**merged, **made}

    def _key(self, event: Any) -> str:
        if type(event).__name__ != "ScalarEvent":
            raise _at(event, "A key must be a single word", "Write the key as text.")
        self._count(event, 1)
        return str(event.value)

    def _merged(self, event: Any, value: Any) -> dict[str, Any]:
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise _at(event, "'<<' takes an alias of a mapping, or a list of them", "Write <<: *name.")
        return {key: inner for part in reversed(parts) for key, inner in part.items()}

    def _duplicate(self, event: Any, path: JsonPath) -> None:
        _, line, _ = self.positions[pointer(path)]
        self.issues.append(
            Issue(
                file=self.file,
                line=event.start_mark.line + 1,
                column=event.start_mark.column + 1,
                pointer=pointer(path),
                reason=f"The key {event.value!r} stands here a second time; the first is in line {line}.",
                remediation="Keep one of the two.",
            )
        )


_MAKERS: dict[str, Callable[[_Reader, Any, JsonPath], Any]] = {
    "ScalarEvent": _Reader._scalar,
    "SequenceStartEvent": _Reader._sequence,
    "MappingStartEvent": _Reader._mapping,
}


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _at(event: Any, reason: str, remediation: str) -> _Unreadable:
    mark = event.start_mark
    return _Unreadable(f"{reason}.", remediation, mark.line + 1, mark.column + 1)


def _syntax_error(error: Any) -> _Unreadable:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    remedy = "Correct the line."
    if "cannot start any token" in problem:
        remedy = "Indent with spaces."
    elif "expected ',' or '}'" in problem:
        remedy = "Quote text that holds { or }."
    return _Unreadable(f"This is not YAML: {problem}.", remedy, mark.line + 1, mark.column + 1)
