"""From what a caller sent to the arguments of a body: parsed, repaired where nothing is lost, completed."""

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from decimal import Decimal
from functools import cached_property
from math import isfinite
from types import MappingProxyType
from typing import Any

import msgspec

from strands_cli.documents.problems import (
    Problem,
    describe_value,
    follow_path,
    joined_sentences,
    local_reference_target,
    relocated_schema,
    shorten_text,
)
from strands_cli.documents.reader import parse_strict_json
from strands_cli.errors import ToolFailed
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.results import sendable_text

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,299})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_DEEPEST = 200
_TOO_DEEP = "it is nested too deeply"
_UNCHANGED = object()
Convert = Callable[[dict[str, Any]], dict[str, Any]]
"""From validated arguments to the objects that a body declared; InputInvalid where that fails."""
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
CONTAINERS = (dict, list)
"""As a tuple: a union would be made anew for each argument of each call."""


def parse_object(sent: object) -> dict[str, Any]:
    """The JSON object in a call's input. Text that is not JSON never becomes `{}`."""
    if isinstance(sent, dict):
        return sent
    try:
        value = parse_strict_json(sent) if isinstance(sent, str | bytes) else sent
        reason = _unsendable_reason(value) if isinstance(value, dict) else f"got {describe_value(value)}"
    except (ValueError, RecursionError) as error:
        reason = _parse_problem(error)
    if not reason:
        return value  # type: ignore[return-value]
    raise _malformed_input(reason)


def _malformed_input(reason: str) -> ToolFailed:
    return ToolFailed(
        f"Invalid input, not a JSON object: {reason}",
        code="input_malformed",
        hint='Send one JSON object, such as {"name": "value"}.',
        details=[{"pointer": "", "expected": "a JSON object", "got": reason, "hint": ""}],
    )


def _unsendable_reason(value: Any) -> str:
    """Why a parsed value could not be sent on as JSON, or nothing."""
    level = [value]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, float) and not isfinite(item):
                return "it contains a number that is too large"
            if isinstance(item, str) and not item.isascii() and sendable_text(item) != item:
                return "a string contains half of a surrogate pair"
            if isinstance(item, dict):
                inner += [*item, *item.values()]
            elif isinstance(item, list):
                inner += item
        if not inner:
            return ""
        level = inner
    return _TOO_DEEP


def copied_json(value: Any, levels: int = _DEEPEST) -> Any:
    """A copy that a body may change: what the caller sent is the caller's, and may stand in a history.

    ToolFailed (`input_malformed`) for what is nested too deeply, or contains itself.
    """
    if not levels:
        raise _malformed_input(_TOO_DEEP)
    inside = levels - 1
    if isinstance(value, dict):
        return {
            key: copied_json(inner, inside) if isinstance(inner, CONTAINERS) else inner
            for key, inner in value.items()
        }
    return [copied_json(inner, inside) if isinstance(inner, CONTAINERS) else inner for inner in value]


def _parse_problem(error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return _TOO_DEEP if isinstance(error, RecursionError) else str(error)
    if not error.doc:
        return "it is empty"
    near = shorten_text(error.doc[error.pos : error.pos + 20])
    place = f"{error.msg} at line {error.lineno} column {error.colno}"
    return f"{place}, near {near!r}" if near else place


class InputInvalid(ToolFailed):
    """Invalid input: every problem, as far as a reader can take them."""

    def __init__(self, problems: list[Problem]) -> None:
        details = [problem.as_detail() for problem in problems]
        message = f"Invalid input: {joined_sentences(problems)}"
        super().__init__(message, code="input_invalid", details=details)
        self.problems = problems


def conversion_problems(convert: Convert, arguments: dict[str, Any]) -> list[Problem]:
    try:
        convert(arguments)
    except InputInvalid as refused:
        return refused.problems
    return []


def fit_arguments(
    sent: dict[str, Any],
    accepted: Validator,
    convert: Convert | None = None,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> dict[str, Any]:
    """The input as the schema accepts it, after lossless coercions; ToolFailed with every problem.

    `convert` finds out what is wrong with the arguments that the schema alone would let through; `aliases`
    are other names of arguments.
    """
    if accepted.accepts(sent):
        return sent
    if aliases.keys() & sent.keys():
        meant = {name: own for name, own in aliases.items() if own not in sent}
        return fit_arguments({meant.get(name, name): sent[name] for name in sent}, accepted, convert)
    problems = accepted.problems(sent)
    changes = [
        (problem.path, _coerce_string(problem, follow_path(sent, problem.path)[1])) for problem in problems
    ]
    changes = [(path, value) for path, value in changes if value is not _UNCHANGED]
    if changes:
        sent = copied_json(sent)
        for path, value in changes:
            _, holder = follow_path(sent, path[:-1])
            holder[path[-1]] = value
        problems = accepted.problems(sent)
    if not problems:
        return sent
    if convert:
        refused = {problem.path[0] for problem in problems if problem.path}
        problems += conversion_problems(convert, {name: sent[name] for name in sent if name not in refused})
    raise InputInvalid(problems)


def _coerce_string(problem: Problem, value: object) -> object:
    """What a string plainly means if another type is expected, or `_UNCHANGED`."""
    if not isinstance(value, str):
        return _UNCHANGED
    if problem.keyword == "enum":
        same = [option for option in problem.facts.get("options", ()) if str(option).lower() == value.lower()]
        return same[0] if len(same) == 1 and isinstance(same[0], str) else _UNCHANGED
    if problem.keyword != "type":
        return _UNCHANGED
    types = problem.facts.get("types", ())
    if ("integer" in types or "number" in types) and _INTEGER.fullmatch(value):
        return int(value)
    if "number" in types and _NUMBER.fullmatch(value) and Decimal(value) == Decimal(repr(float(value))):
        return float(value)
    if "boolean" in types and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return _UNCHANGED


class Shape(msgspec.Struct, frozen=True):
    """What a schema adds to a valid value: defaults, and `5` where `5.0` was sent for an integer."""

    defaults: tuple[tuple[str, Any], ...] = ()
    integers: frozenset[str] = frozenset()
    """The properties that are integers."""
    members: dict[str, "Shape"] = {}
    named: frozenset[str] = frozenset()
    others: "Shape | None" = None
    """Of the properties that are not named."""
    items: "Shape | None" = None
    is_integer: bool = False
    parts: "tuple[Shape | Alternatives, ...]" = ()
    """What holds for the same value: those of allOf, anyOf and oneOf, and behind a reference."""

    def complete(self, value: Any) -> Any:
        """The value with what is added to it; the one that was sent stays as it is."""
        for part in self.parts:
            value = part.complete(value)
        if isinstance(value, dict):
            return self._complete_object(value)
        if isinstance(value, list) and self.items:
            return [self.items.complete(item) for item in value]
        return int(value) if self.is_integer and type(value) is float else value

    def _complete_object(self, value: dict[str, Any]) -> dict[str, Any]:
        done = value.copy()
        for name, default in self.defaults:
            if name not in done:
                done[name] = deepcopy(default) if type(default) in CONTAINERS else default
        for name in self.integers:
            if type(done.get(name)) is float:
                done[name] = int(done[name])
        if self.members or self.others:
            for name, inner in done.items():
                member = self.members.get(name) if name in self.named else self.others
                if member:
                    done[name] = member.complete(inner)
        return done


class Alternatives:
    """The parts of an anyOf or oneOf: the first that accepts a value counts. Compiled when first needed."""

    def __init__(self, schemas: list[Any], shapes: list[Shape | None], root: dict[str, Any]) -> None:
        self._schemas, self._shapes, self._root = schemas, shapes, root

    @cached_property
    def _accepted(self) -> list[Validator]:
        rooted = {"$defs": {"root": relocated_schema(self._root, "/$defs/root")}}
        if "$schema" in self._root:
            rooted["$schema"] = self._root["$schema"]
        parts = [relocated_schema(schema, "/$defs/root") for schema in self._schemas]
        return [Validator({**rooted, "allOf": [part]}) for part in parts]

    def complete(self, value: Any) -> Any:
        if not isinstance(value, dict | list | float):
            return value  # to which nothing is ever added
        for accepted, shape in zip(self._accepted, self._shapes, strict=True):
            if accepted.accepts(value):
                return shape.complete(value) if shape else value
        return value


def shape_of(
    schema: Any,
    root: dict[str, Any] | None = None,
    known: dict[str, Shape | None] | None = None,
) -> Shape | None:
    """The shape of a schema, or None if it adds nothing; `known` are those behind references.

    A recursive schema is followed once.
    """
    if not isinstance(schema, dict):
        return None
    root = schema if root is None else root
    known = {"#": None} if known is None else known

    def inner(part: Any) -> Shape | None:
        return shape_of(part, root, known)

    parts: list[Shape | Alternatives | None] = [inner(part) for part in schema.get("allOf", ())]
    reference = schema.get("$ref")
    if reference and reference not in known:
        known[reference] = None  # for references to itself
        known[reference] = inner(local_reference_target(reference, root))
    parts.append(known.get(reference) if reference else None)
    for keyword in ("anyOf", "oneOf"):
        schemas = [part for part in schema.get(keyword, ()) if part != {"type": "null"}]
        shapes = [inner(part) for part in schemas]
        if any(shapes):
            parts.append(shapes[0] if len(shapes) == 1 else Alternatives(schemas, shapes, root))
    properties = {name: part for name, part in schema.get("properties", {}).items() if isinstance(part, dict)}
    members = {name: inner(part) for name, part in properties.items()}
    shape = Shape(
        defaults=tuple((name, part["default"]) for name, part in properties.items() if "default" in part),
        integers=frozenset(name for name, member in members.items() if member == _INTEGER_SHAPE),
        members={name: member for name, member in members.items() if member and member != _INTEGER_SHAPE},
        named=frozenset(schema.get("properties", {})),
        others=None if "patternProperties" in schema else inner(schema.get("additionalProperties")),
        items=None if "prefixItems" in schema else inner(schema.get("items")),
        is_integer=_is_integer(schema.get("type")),
        parts=tuple(part for part in parts if part),
    )
    adds = (shape.defaults, shape.integers, shape.members, shape.others, shape.items, shape.parts)
    return shape if any(adds) or shape.is_integer else None


def _is_integer(kind: object) -> bool:
    return kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)


_INTEGER_SHAPE = Shape(is_integer=True)
