"""From what a caller sent to the arguments of a body: parsed, repaired where nothing is lost, completed."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from math import isfinite
from typing import Any

import msgspec

from strands_cli.documents.problems import (
    Problem,
    describe_value,
    follow_path,
    joined_sentences,
    local_reference_target,
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
CONTAINERS = (dict, list)
"""As a tuple: a union would be made anew for each argument of each call."""


def parse_object(sent: object) -> dict[str, Any]:
    """The JSON object in a call's input. Text that is not JSON never becomes `{}`."""
    if isinstance(sent, dict):
        return sent
    try:
        value = parse_strict_json(sent) if isinstance(sent, str | bytes) else sent
        reason = _unsendable_reason(value) if isinstance(value, dict) else f"it is {describe_value(value)}"
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
    sent: dict[str, Any], accepted: Validator, convert: Convert | None = None
) -> dict[str, Any]:
    """The input as the schema accepts it, after lossless coercions; ToolFailed with every problem.

    `convert` finds out what is wrong with the arguments that the schema alone would let through.
    """
    if accepted.accepts(sent):
        return sent
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
        same = [option for option in problem.facts["options"] if str(option).lower() == value.lower()]
        return same[0] if len(same) == 1 and isinstance(same[0], str) else _UNCHANGED
    if problem.keyword != "type":
        return _UNCHANGED
    types = problem.facts["types"]
    if ("integer" in types or "number" in types) and _INTEGER.fullmatch(value):
        return int(value)
    if "number" in types and _NUMBER.fullmatch(value) and Decimal(value) == Decimal(repr(float(value))):
        return float(value)
    if "boolean" in types and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return _UNCHANGED


class Shape(msgspec.Struct, frozen=True):
    """What a schema adds to a valid object: defaults, and `5` where `5.0` was sent for an integer."""

    defaults: tuple[tuple[str, Any], ...]
    integers: frozenset[str]
    nested: dict[str, "Shape"]
    items: dict[str, "Shape"]

    def complete(self, value: dict[str, Any]) -> dict[str, Any]:
        done = value.copy()
        for name, default in self.defaults:
            if name not in done:
                done[name] = deepcopy(default) if type(default) in (dict, list) else default
        for name in self.integers:
            if type(done.get(name)) is float:
                done[name] = int(done[name])
        if not self.nested and not self.items:
            return done
        for name, shape in self.nested.items():
            if isinstance(done.get(name), dict):
                done[name] = shape.complete(done[name])
        for name, shape in self.items.items():
            if isinstance(done.get(name), list):
                done[name] = [shape.complete(item) if isinstance(item, dict) else item for item in done[name]]
        return done


def shape_of(
    schema: Any, root: dict[str, Any] | None = None, above: tuple[str, ...] = ("#",)
) -> Shape | None:
    """The shape of a schema, or None if it adds nothing; `above` are the references on the way to it."""
    root = schema if root is None else root
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if reference:
        if reference in above:  # a recursive schema has no finite shape
            return None
        schema, above = local_reference_target(reference, root), (*above, reference)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None

    def is_integer(kind: object) -> bool:
        return kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)

    plain = {name: part for name, part in properties.items() if isinstance(part, dict)}
    nested = {name: shape_of(part, root, above) for name, part in plain.items()}
    items = {name: shape_of(part.get("items"), root, above) for name, part in plain.items()}
    shape = Shape(
        tuple((name, part["default"]) for name, part in plain.items() if "default" in part),
        frozenset(name for name, part in plain.items() if is_integer(part.get("type"))),
        {name: inner for name, inner in nested.items() if inner},
        {name: inner for name, inner in items.items() if inner},
    )
    return shape if any((shape.defaults, shape.integers, shape.nested, shape.items)) else None
