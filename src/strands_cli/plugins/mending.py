"""Manifests that do not fit their schema: what is left of one, so that all mistakes are told at once."""

import copy
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem
from strands_cli.documents.subschemas import composed_of
from strands_cli.plugins.manifest import Manifest, manifest_schema


def mended_manifest(document: Any, problems: Sequence[Problem]) -> Manifest | None:
    """The manifest without what is wrong with it; None where too little is left.

    Nothing is moved: every pointer still means the same place.
    """
    if not isinstance(document, dict):
        return None
    left = copy.deepcopy(document)
    for problem in problems:
        _take_out(left, problem.path)
    left.setdefault("name", "plugin")
    tools = left.get("cli_tools")
    left["cli_tools"] = [
        {"name": f"tool{index}", "path": ".", **(tool if isinstance(tool, dict) else {})}
        for index, tool in enumerate(tools if isinstance(tools, list) else ())
    ]
    try:
        return msgspec.convert(with_whole_numbers(left), Manifest)
    except msgspec.ValidationError:
        return None


def _take_out(document: dict[str, Any], path: JsonPath) -> None:
    """Removes a key; where an item of a list is wrong, the key that holds the list. Tools stay in place."""
    holder: Any = document
    if path[:1] == ("cli_tools",) and len(path) > 1:
        holder, path = document["cli_tools"][path[1]], path[2:]
    names = [*takewhile(lambda step: isinstance(step, str), path)]
    for name in names[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else None
    if names and isinstance(holder, dict):
        holder.pop(names[-1], None)


def with_whole_numbers(value: Any) -> Any:
    """To a schema 4.0 is an integer, to the types it is none."""
    if isinstance(value, dict):
        return {key: with_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def described(path: JsonPath) -> str:
    """What the schema says that a place is for, with an example where it has one."""
    schema = manifest_schema()
    parts = composed_of(schema, schema)
    for step in path:
        inner = [_member(part, step) for part in parts]
        parts = [found for part in inner for found in composed_of(part, schema)]
    text = next((part["description"] for part in parts if "description" in part), "")
    examples = next((part["examples"] for part in parts if "examples" in part), ())
    shown = f" For example: {msgspec.json.encode(examples[0]).decode()}." if examples else ""
    return f"{text}{shown}"


def _member(part: dict[str, Any], step: str | int) -> Any:
    if isinstance(step, int):
        return part.get("items")
    named = part.get("properties", {})
    return named[step] if step in named else part.get("additionalProperties")
