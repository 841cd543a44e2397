"""The schemas of tools that are made of tools: what fits together, what it takes, what it gives."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec

from strands_cli.documents.problems import OPENING_KEYWORDS, composed_of, local_target, pointer, relocated
from strands_cli.errors import ToolError
from strands_cli.toolkit.contract import Tool

Schema = dict[str, Any]

_PLAIN = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}
"""The keywords of input schemas that can be merged property by property."""
_ADAPT = "Put a function between the two, from the value of the first to the arguments of the second."


def refusal(reason: str, hint: str = "") -> ToolError:
    return ToolError(f"The composition is refused: {reason}", code="unavailable", hint=hint)


def _properties(schema: Schema) -> dict[str, list[Any]]:
    """All that a schema says of each property, wherever it says so."""
    found: dict[str, list[Any]] = {}
    for branch in composed_of(schema, schema):
        for name, part in branch.get("properties", {}).items():
            found.setdefault(name, []).append(part)
    return found


def _takes(tool: Tool) -> frozenset[str] | None:
    """The names of a tool's arguments; None if it takes any."""
    branches = composed_of(tool.input_schema, tool.input_schema)
    takes_others = any(branch.get(keyword) for branch in branches for keyword in OPENING_KEYWORDS)
    names_some = any("properties" in branch for branch in branches)
    return frozenset(_properties(tool.input_schema)) if names_some and not takes_others else None


def taken_arguments(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    names = _takes(tool)
    return arguments if names is None else {name: value for name, value in arguments.items() if name in names}


def only_property(tool: Tool) -> str | None:
    """Where a value goes that is not an object: to the only required property, or to the only one."""
    for names in (tool.input_schema.get("required", []), list(_properties(tool.input_schema))):
        if len(names) == 1:
            return str(names[0])
    return None


def refuse_misfit(first: Tool, second: Tool) -> None:
    """Refuses two steps of which the second can never take what the first gives."""
    output, taken = first.output_schema or {}, _properties(second.input_schema)
    types = _types(output, output) or {"object"}
    matched = {name: parts for name, parts in _properties(output).items() if name in taken}
    if "object" not in types:
        name = only_property(second)
        if name is None:
            raise refusal(
                f"{first.id} does not give an object, and {second.id} takes several arguments", _ADAPT
            )
        matched = {name: [output]}
    for name, parts in matched.items():
        if _disjoint(parts, output, taken.get(name, []), second.input_schema):
            raise refusal(f"what {first.id} gives is of another type than {name!r} of {second.id}", _ADAPT)


def _disjoint(some: list[Any], root: Schema, others: list[Any], other_root: Schema) -> bool:
    types, other_types = _types({"anyOf": some}, root), _types({"anyOf": others}, other_root)
    return types is not None and other_types is not None and not types & other_types


def _types(schema: Any, root: Schema, depth: int = 8) -> set[str] | None:
    """The JSON types that a schema allows; None if it does not plainly say."""
    if not isinstance(schema, dict) or depth == 0:
        return None
    named = schema.get("type")
    if named:
        types = {named} if isinstance(named, str) else set(named)
        return types | {"integer"} if "number" in types else types
    if "$ref" in schema:
        return _types(local_target(schema["$ref"], root), root, depth - 1)
    options = [_types(option, root, depth - 1) for option in schema.get("anyOf") or schema.get("oneOf") or ()]
    known = [types for types in options if types is not None]
    return set().union(*known) if options and len(known) == len(options) else None


def shared_input(tools: Sequence[Tool]) -> Schema:
    """What the tools take together. If two ask for different types under one name, no input fits."""
    schemas = [tool.input_schema for tool in tools]
    for tool, other in combinations(tools, 2):
        parts, others = _properties(tool.input_schema), _properties(other.input_schema)
        for name in parts.keys() & others.keys():
            if _disjoint(parts[name], tool.input_schema, others[name], other.input_schema):
                raise refusal(f"{tool.id} and {other.id} take different types of {name!r}")
    is_open = any(_takes(tool) is None for tool in tools)
    if all(schema.keys() <= _PLAIN and b'"$ref"' not in msgspec.json.encode(schema) for schema in schemas):
        return _merged(schemas) | ({"additionalProperties": True} if is_open else {})
    members = [
        {key: part for key, part in relocated(schema, f"/allOf/{index}").items() if part is not False}
        for index, schema in enumerate(schemas)
    ]
    return {"type": "object", "allOf": members, "unevaluatedProperties": is_open}


def _merged(schemas: Sequence[Schema]) -> Schema:
    properties: dict[str, Any] = {}
    for schema in schemas:
        for name, part in schema.get("properties", {}).items():
            known = properties.setdefault(name, part)
            properties[name] = part if known == part else {"allOf": [known, part]}
    required = dict.fromkeys(name for schema in schemas for name in schema.get("required", []))
    return {"type": "object", "properties": properties, "required": list(required)}


def output_at(path: tuple[str | int, ...], tool: Tool, partial: bool = False) -> Schema:
    """What a tool gives, at a place of the composition's output schema."""
    schema: Schema = relocated(tool.output_schema or {}, pointer((*path, "anyOf", 0) if partial else path))
    return {"anyOf": [schema, {"type": "object", "required": ["error"]}]} if partial else schema
