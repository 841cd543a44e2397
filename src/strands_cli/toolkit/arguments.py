"""From what a caller sent to the arguments of a body: parsed, mended where nothing is lost, completed."""

import json
import re
from copy import deepcopy
from typing import Any, NoReturn

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.schema.problems import JsonPath, Problem, describe, shorten
from strands_cli.schema.references import local_target
from strands_cli.schema.validator import Validator

_INTEGER = re.compile(r"-?\d{1,300}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_UNCHANGED = object()


def parse_object(sent: object) -> dict[str, Any]:
    """The JSON object in a call's input. Text that is none never becomes `{}`."""
    if isinstance(sent, dict):
        return sent
    if not isinstance(sent, str | bytes):
        raise _malformed(f"it is {describe(sent)}")
    try:
        value = json.loads(sent, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed(_where(sent, error)) from None
    if not isinstance(value, dict):
        raise _malformed(f"it is {describe(value)}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _where(sent: str | bytes, error: Exception) -> str:
    if not sent:
        return "it is empty"
    if not isinstance(error, json.JSONDecodeError):
        return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    place = f"{error.msg} at line {error.lineno} column {error.colno}"
    return (
        f"{place}, near {shorten(error.doc[error.pos : error.pos + 20])!r}"
        if error.pos < len(error.doc)
        else place
    )


def _malformed(reason: str) -> ToolFailed:
    return ToolFailed(
        f"The input is not a JSON object: {reason}",
        code="input_malformed",
        hint='Send one JSON object, such as {"name": "value"}.',
        details=[{"pointer": "", "expected": "a JSON object", "got": reason, "hint": ""}],
    )


def fit(sent: dict[str, Any], accepted: Validator) -> dict[str, Any]:
    """The input as the schema accepts it, after lossless coercions; ToolFailed with every problem."""
    if accepted.accepts(sent):
        return sent
    mended = sent
    for problem in accepted.problems(sent):
        value = _coerce(problem, _value_at(sent, problem.path))
        if value is not _UNCHANGED:
            mended = _with_value(mended, problem.path, value)
    if mended is not sent and accepted.accepts(mended):
        return mended
    raise _invalid(accepted.problems(mended))


def _invalid(problems: list[Problem]) -> ToolFailed:
    sentences = "; ".join(problem.sentence for problem in problems)
    return ToolFailed(
        f"The input does not fit: {sentences}",
        code="input_invalid",
        details=[problem.as_detail() for problem in problems],
    )


def _coerce(problem: Problem, value: object) -> object:
    """What a string plainly means where another type is asked, or `_UNCHANGED`."""
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
    if "number" in types and _NUMBER.fullmatch(value):
        return float(value)
    if "boolean" in types and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return _UNCHANGED


def _value_at(document: Any, path: JsonPath) -> object:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _with_value(document: Any, path: JsonPath, value: object) -> Any:
    """A copy of the document with one value replaced; what the caller sent stays as it was."""
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = _with_value(document[path[0]], path[1:], value)
    return copy


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
        for name, shape in self.nested.items():
            if isinstance(done.get(name), dict):
                done[name] = shape.complete(done[name])
        for name, shape in self.items.items():
            if isinstance(done.get(name), list):
                done[name] = [shape.complete(item) if isinstance(item, dict) else item for item in done[name]]
        return done


def shape_of(schema: dict[str, Any]) -> Shape | None:
    """The shape of a schema, or None where it adds nothing."""
    return _shape(schema, schema, ())


def _shape(schema: Any, root: dict[str, Any], above: tuple[str, ...]) -> Shape | None:
    schema, above = _follow(schema, root, above)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return None
    plain = {name: part for name, part in properties.items() if isinstance(part, dict)}
    nested = {name: _shape(part, root, above) for name, part in plain.items()}
    items = {name: _shape(part.get("items"), root, above) for name, part in plain.items()}
    shape = Shape(
        tuple((name, part["default"]) for name, part in plain.items() if "default" in part),
        frozenset(name for name, part in plain.items() if _is_integer(part.get("type"))),
        {name: inner for name, inner in nested.items() if inner},
        {name: inner for name, inner in items.items() if inner},
    )
    return shape if any((shape.defaults, shape.integers, shape.nested, shape.items)) else None


def _is_integer(kind: object) -> bool:
    return kind == "integer" or (isinstance(kind, list) and "integer" in kind and "number" not in kind)


def _follow(schema: Any, root: dict[str, Any], above: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """Follows a local `$ref`, once on each way down: a recursive schema has no finite shape."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if not isinstance(reference, str) or not reference.startswith("#/") or reference in above:
        return ({}, above) if reference else (schema, above)
    return local_target(reference, root), (*above, reference)
