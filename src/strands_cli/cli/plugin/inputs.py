"""Inputs made from a schema: good ones, and ones that must be refused."""

from collections.abc import Iterator
from typing import Any

import msgspec

_DEEPEST = 8
HUGE_CHARACTERS = 500_000
"""More than a pipe holds, more than an argument may have, and less than an answer may have."""
_FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "12345678-1234-4234-8234-123456789abc",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}
_OTHER_THINGS = ({"unexpected": "object"}, ["unexpected", "list"], "unexpected text", 1.5, None)


class Example(msgspec.Struct, frozen=True):
    value: Any
    is_invented: bool
    """Whether some of it is made from a type alone, and so may mean nothing to the tool."""


def good_input(schema: dict[str, Any]) -> Example:
    """An input from `examples`, defaults and enums, and only then from types."""
    return _example(schema, schema, 0)


def _example(schema: Any, root: dict[str, Any], depth: int) -> Example:
    schema = _resolved(schema, root)
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return Example(schema[key][0], False)
    for key in ("const", "default"):
        if key in schema:
            return Example(schema[key], False)
    for key in ("oneOf", "anyOf"):
        if schema.get(key) and depth < _DEEPEST:
            rest = {name: value for name, value in schema.items() if name != key}
            return _example(_merged(rest, _resolved(schema[key][0], root)), root, depth + 1)
    if schema.get("allOf") and depth < _DEEPEST:
        whole = {name: value for name, value in schema.items() if name != "allOf"}
        for part in schema["allOf"]:
            whole = _merged(whole, _resolved(part, root))
        return _example(whole, root, depth + 1)
    return _invented(schema, root, depth)


def _invented(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Example:
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        count = schema.get("minItems", 1) if depth < _DEEPEST else 0
        item = _example(schema.get("items", {}), root, depth + 1) if count else Example(None, False)
        return Example([item.value] * count, item.is_invented)
    if kind in ("integer", "number"):
        return Example(_number(schema), True)
    if kind == "boolean":
        return Example(False, False)
    return Example(None, False) if kind == "null" else Example(_text(schema), True)


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Example:
    """What is required, and what has examples of its own."""
    value: dict[str, Any] = {}
    is_invented = False
    properties = schema.get("properties", {})
    names = [name for name in properties if name in schema.get("required", ())]
    names += [name for name, part in properties.items() if name not in names and _has_examples(part)]
    for name in names if depth < _DEEPEST else ():
        made = _example(properties[name], root, depth + 1)
        value[name] = made.value
        is_invented |= made.is_invented
    return Example(value, is_invented)


def _has_examples(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema.get("examples"))


def _number(schema: dict[str, Any]) -> float:
    step = schema.get("multipleOf", 1)
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + step  # type: ignore[no-any-return]
    for key in ("minimum", "maximum"):
        if key in schema:
            return schema[key]  # type: ignore[no-any-return]
    return schema["exclusiveMaximum"] - step if "exclusiveMaximum" in schema else step  # type: ignore[no-any-return]


def _text(schema: dict[str, Any]) -> str:
    text = _FORMATS.get(schema.get("format", ""), "text")
    text = text.ljust(schema.get("minLength", 0), "x")
    return text[: schema["maxLength"]] if "maxLength" in schema else text


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The schema that a local `$ref` means; of any other, what stands beside it."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target: Any = root
        for part in reference[2:].split("/"):
            target = (
                target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            )
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        schema = _merged(rest, target if isinstance(target, dict) else {})
    return {}


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return (
        {
            **one,
            **other,
            "properties": {**one.get("properties", {}), **other.get("properties", {})},
            "required": [*one.get("required", ()), *other.get("required", ())],
        }
        if "properties" in one or "properties" in other
        else {**one, **other}
    )


def incomplete_inputs(good: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The good input without each argument that is required."""
    for name in schema.get("required", ()):
        yield name, {key: value for key, value in good.items() if key != name}


def other_inputs(good: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """For each argument, the good input with things in its place that are probably of another type."""
    for name in schema.get("properties", {}):
        yield name, [{**good, name: other} for other in _OTHER_THINGS]


def huge_inputs(good: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The good input with a very long text in one argument."""
    for name in schema.get("properties", {}) or ("text",):
        yield name, {**good, name: "x" * HUGE_CHARACTERS}
