"""YAML and JSON text to plain values, with the place of each.

What is JSON is read as JSON, since YAML refuses some of it (an escaped emoji, a colon on the next line). Both
are taken in events, so that depth, size and aliases are bounded before anything is made of them, and
duplicate keys are seen. YAML's scalars follow YAML 1.2: `yes`, `12:30` and `2026-01-01` are text.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.documents.problems import (
    JsonPath,
    Problem,
    Refusal,
    follow_path,
    json_pointer,
    schemas_at,
    written_form,
)
from strands_cli.errors import Issue, Severity, written_pointer

MAX_BYTES = 2_000_000
MAX_VALUES = 20_000
"""Of a YAML text, which may repeat a value by its name; one of JSON is as large as it looks."""
DEEPEST = 50
LONGEST_POINTER = 2000

Position = tuple[str, int, int]
"""File, line and column, which count from 1."""

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
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s,:\[\]{}"]+')

_Kind = Literal["scalar", "mapping", "list", "end", "alias"]
_KINDS: dict[str, _Kind] = {
    "ScalarEvent": "scalar",
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "list",
    "MappingEndEvent": "end",
    "SequenceEndEvent": "end",
    "AliasEvent": "alias",
}
_JSON_KINDS: dict[str, _Kind] = {"{": "mapping", "[": "list", "}": "end", "]": "end"}


class Document(msgspec.Struct):
    """The value of a text, as far as it has one, and what is wrong with it."""

    file: str
    value: Any = None
    positions: dict[str, Position] = {}
    """The place of each value by its pointer: that of its key, where it has one."""
    issues: list[Issue] = []
    text: str = ""
    origins: dict[str, str] = {}
    """Where the text has what was moved, by its pointer now."""

    def issue(self, path: JsonPath, reason: str, remedy: str) -> Issue:
        return self.issue_at(json_pointer(path), reason, remedy)

    def issue_at(self, pointer: str, reason: str, remedy: str, severity: Severity = "error") -> Issue:
        """Something wrong at a place; with the position of the nearest one around it that is there."""
        place = pointer
        while place and place not in self.positions:
            place = place.rpartition("/")[0]
        file, line, column = self.positions.get(place, (self.file, 1, 1))
        return Issue(
            pointer=written_pointer(pointer, self.origins),
            reason=reason,
            remediation=remedy,
            severity=severity,
            file=file,
            line=line,
            column=column,
        )

    def schema_issue(
        self, problem: Problem, whole: str, remedy: str, schema: dict[str, Any] | None = None
    ) -> Issue:
        """What a schema refuses; `whole` names the document, `remedy` is for a problem without a hint.

        With the `schema`, what was probably meant is written out.
        """
        name, hint = problem.path[-1] if problem.path else "", problem.hint
        if isinstance(name, str) and self.origins:
            name = written_pointer(json_pointer(problem.path), self.origins).rpartition("/")[2]
        if problem.keyword == "required":
            reason = f"The key {name!r} is missing."
        elif "name" in problem.facts:
            reason = f"There is no key {name!r} here."
        else:
            subject = "This item" if isinstance(name, int) else repr(name) if problem.path else whole
            reason = f"{subject} must {problem.requirement}, got {problem.got}."
        if problem.keyword == "type" and not hint and schema is not None:
            reached, value = follow_path(self.value, problem.path)
            is_there = reached == problem.path
            form = written_form(value, schemas_at(schema, *problem.path), schema) if is_there else ""
            key = f"{name}: " if name and isinstance(name, str) else ""
            hint = f"Write {key}{form}" if form else ""
        return self.issue(problem.path, reason, hint or remedy)


def read_document_file(
    path: Path,
    remedy: str,
    *,
    is_json: bool = False,
    max_bytes: int = MAX_BYTES,
    below: Iterable[Path] | None = None,
) -> Document:
    """The document in a regular file, below one of some roots; `remedy` is for one that cannot be read."""
    try:
        text = read_regular_file(path, max_bytes, below).decode("utf-8-sig")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return read_document(text, str(path), is_json=is_json)
    except (OSError, ValueError) as error:
        issue = Issue(file=str(path), reason=unread_reason(error), remediation=remedy)
        return Document(str(path), issues=[issue])


def read_document(text: str, file: str, *, is_json: bool = False) -> Document:
    """The values of a YAML or JSON text, or with `is_json` of nothing but JSON."""
    document = Document(file, text=text)
    try:
        events = _parser_events(text, is_json=is_json)
        max_values, max_length = len(text) if is_json else MAX_VALUES, max(len(text), MAX_BYTES)
        document.value = _DocumentBuilder(document, events, max_values, max_length).build()
    except _UnreadableText as error:
        document.issues.append(error.issue(file))
    return document


def parse_strict_json(text: str | bytes) -> Any:
    """The value of a JSON text, which has no NaN and no Infinity; ValueError or RecursionError otherwise."""
    return json.loads(text, parse_constant=_refuse_json_constant)


def _refuse_json_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested more than so many levels deep; asked without recursion."""
    kinds = (dict, list)
    level = [value] if isinstance(value, kinds) else []
    for _ in range(levels + 1):
        if not level:
            return False
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [part for parts in inner for part in parts if isinstance(part, kinds)]
    return True


def with_whole_numbers(value: Any) -> Any:
    """To a schema 4.0 is an integer; to the types it is not."""
    if isinstance(value, dict):
        return {key: with_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- Events -----------------------------------------------------------------------------------------------


class _ParserEvent(NamedTuple):
    kind: _Kind
    line: int
    column: int
    value: Any = None
    """Of a scalar."""
    text: str = ""
    """A scalar as it is written, without quotes: what it is as a key."""
    anchor: str = ""
    is_quoted: bool = True


class _UnreadableText(Refusal):
    """The text cannot be read beyond a place."""

    def __init__(self, reason: str, remedy: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason, remedy)
        self.line, self.column = line, column

    def issue(self, file: str, pointer: str = "") -> Issue:
        return Issue(
            reason=self.reason,
            remediation=self.remedy,
            pointer=pointer,
            file=file,
            line=self.line,
            column=self.column,
        )


def _parser_events(text: str, *, is_json: bool) -> Iterator[_ParserEvent]:
    if not is_json and text.lstrip()[:1] not in ("{", "["):
        return _yaml_events(text)
    remedy = "Correct the file."
    try:
        parse_strict_json(text)
        return _json_events(text)
    except json.JSONDecodeError as error:
        problem = _UnreadableText(f"Invalid JSON: {error.msg}.", remedy, error.lineno, error.colno)
    except ValueError as error:
        problem = _UnreadableText(f"Invalid JSON: {error}.", remedy)
    except RecursionError:
        problem = _UnreadableText(f"The file is nested more than {DEEPEST} levels deep.", "Flatten it.")
    if is_json:
        raise problem
    return _yaml_events(text)


def _json_events(text: str) -> Iterator[_ParserEvent]:
    """Of a text that is known to be JSON."""
    at, line, begin = 0, 1, 0
    for token in _JSON_TOKEN.finditer(text):
        start, written = token.start(), token[0]
        if lines := text.count("\n", at, start):
            line, begin = line + lines, text.rindex("\n", at, start) + 1
        at = start
        if kind := _JSON_KINDS.get(written):
            yield _ParserEvent(kind, line, start - begin + 1)
        else:
            value = json.loads(written)
            yield _ParserEvent("scalar", line, start - begin + 1, value, str(value))


def _yaml_events(text: str) -> Iterator[_ParserEvent]:
    import yaml

    documents = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            name, line, column = type(event).__name__, event.start_mark.line + 1, event.start_mark.column + 1
            documents += name == "DocumentStartEvent"
            if documents > 1:
                reason = "The file contains more than one document."
                raise _UnreadableText(reason, "Keep one workflow in each file.", line, column)
            if name == "ScalarEvent":
                yield _yaml_scalar(event, line, column)
            elif name in _KINDS:
                yield _ParserEvent(_KINDS[name], line, column, anchor=getattr(event, "anchor", None) or "")
    except yaml.MarkedYAMLError as error:
        raise _yaml_syntax_error(error) from None
    except yaml.YAMLError as error:
        raise _UnreadableText(f"Invalid YAML: {error}", "Save the file as UTF-8 text.", 0, 0) from None
    except (ValueError, RecursionError) as error:
        raise _UnreadableText(f"Invalid YAML: {error}", "Correct the file.", 0, 0) from None


def _yaml_scalar(event: Any, line: int, column: int) -> _ParserEvent:
    if event.tag and event.tag not in _PLAIN_TAGS:
        raise _UnreadableText(f"Unsupported tag {event.tag}.", "Leave it out.", line, column)
    is_quoted = bool(event.style)
    is_text = is_quoted or (event.tag or "").endswith(":str")
    value = event.value if is_text else _plain_scalar_value(event.value)
    return _ParserEvent("scalar", line, column, value, event.value, event.anchor or "", is_quoted)


def _plain_scalar_value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _yaml_syntax_error(error: Any) -> _UnreadableText:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    remedy = "Correct the line."
    if "cannot start any token" in problem:
        remedy = "Indent with spaces."
    elif "expected ',' or '}'" in problem:
        remedy = "Put text that contains { or } in quotes."
    return _UnreadableText(f"Invalid YAML: {problem}.", remedy, mark.line + 1, mark.column + 1)


# --- Values -----------------------------------------------------------------------------------------------


class _DocumentBuilder:
    """Makes the value of a document from its events, and notes where each part of it stands."""

    def __init__(
        self, document: Document, events: Iterator[_ParserEvent], max_values: int, max_length: int
    ) -> None:
        self._document = document
        self._positions = document.positions
        self._events = events
        self._max_values = max_values
        self._max_length = max_length
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._total = 0
        self._length = 0

    def build(self) -> Any:
        value: Any = None
        for event in self._events:
            value = self._value(event, "", 0)
        return value

    def _value(self, event: _ParserEvent, place: str, depth: int) -> Any:
        self._count(event, 1, len(event.text))
        if depth > DEEPEST:
            raise _unreadable_at(event, f"The file is nested more than {DEEPEST} levels deep.", "Flatten it.")
        if len(place) > LONGEST_POINTER:
            raise _unreadable_at(event, "The keys around this are too long.", "Use shorter keys.")
        self._positions.setdefault(place, (self._document.file, event.line, event.column))
        if event.kind == "alias":
            if event.anchor not in self._anchors:
                reason = f"There is no anchor &{event.anchor} before this alias."
                raise _unreadable_at(event, reason, "Put the anchor first.")
            value, size, length = self._anchors[event.anchor]
            self._count(event, size, length)
            return value
        before, start = self._total, self._length - len(event.text)
        value = event.value
        if event.kind == "mapping":
            value = self._mapping(place, depth)
        elif event.kind == "list":
            value = []
            for inner in self._events:
                if inner.kind == "end":
                    break
                value.append(self._value(inner, f"{place}/{len(value)}", depth + 1))
        if event.anchor:
            self._anchors[event.anchor] = (value, self._total - before + 1, self._length - start)
        return value

    def _count(self, event: _ParserEvent, number: int, length: int) -> None:
        if not event.text.isascii() and _HALF_CHARACTER.search(event.text):
            reason = "The text has half of a surrogate pair, which is not a character."
            raise _unreadable_at(event, reason, "Write the whole character.")
        self._total += number
        if self._total > self._max_values:
            reason = f"The file contains more than {self._max_values} values."
            raise _unreadable_at(event, reason, "Split it, or use fewer aliases.")
        self._length += length
        if self._length > self._max_length:
            reason = (
                f"The file contains more than {self._max_length} characters, counting what aliases repeat."
            )
            raise _unreadable_at(event, reason, "Use fewer aliases.")

    def _mapping(self, place: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if event.kind == "end":
                break
            if event.kind != "scalar":
                raise _unreadable_at(event, "A key must be a single word.", "Write the key as text.")
            self._count(event, 1, len(event.text))
            key = event.text
            at = place + json_pointer((key,))
            if key == "<<" and not event.is_quoted:
                merged |= _merged_mapping(event, self._value(next(self._events), at, depth + 1))
                continue
            if key in mapping:
                _, first, _ = self._positions[at]
                reason = f"The key {key!r} is used twice; the first is on line {first}."
                twice = _unreadable_at(event, reason, "Keep only one.")
                self._document.issues.append(twice.issue(self._document.file, at))
            self._positions[at] = (self._document.file, event.line, event.column)
            mapping[key] = self._value(next(self._events), at, depth + 1)
        return {**merged, **mapping}


def _merged_mapping(event: _ParserEvent, value: Any) -> dict[str, Any]:
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise _unreadable_at(
            event, "'<<' takes an alias of a mapping, or a list of them.", "Write <<: *name."
        )
    return {key: inner for part in reversed(parts) for key, inner in part.items()}


def _unreadable_at(event: _ParserEvent, reason: str, remedy: str) -> _UnreadableText:
    return _UnreadableText(reason, remedy, event.line, event.column)
