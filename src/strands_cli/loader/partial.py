"""A Spec in spite of problems, so that one look at a file finds the mistakes of every kind.

What keeps the types from being filled is taken out where it may be absent, and replaced by something empty
where it may not. Nothing is moved: every pointer still means the same place.
"""

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, members, schemas_at
from strands_cli.loader.spec import Spec, spec_of

# What is asked of a value beyond its type is asked by the schema alone: the types take it as it is.
_HARMLESS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "propertyNames",
        "uniqueItems",
    }
)
_EMPTY: dict[str, Any] = {
    "string": "",
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
}
_NO_PATTERN = {"type": "chain", "config": {"steps": []}}
_DEEPEST = 8


def partial_spec(
    document: dict[str, Any], problems: Sequence[Problem], schema: dict[str, Any]
) -> Spec | None:
    """The workflow that is left of a document; None where that is too little."""
    repaired = copy.deepcopy(document)
    for problem in problems:
        if problem.keyword not in _HARMLESS:
            _repair(repaired, problem, schema)
    return _converted(repaired) or _converted({**repaired, "pattern": _NO_PATTERN})


def _converted(document: dict[str, Any]) -> Spec | None:
    try:
        return spec_of(document)
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        # Not every combination of problems can be repaired; there is a Spec or there is none.
        return None


def _repair(document: dict[str, Any], problem: Problem, schema: dict[str, Any]) -> None:
    *way, last = problem.path or ("",)
    holder: Any = document
    for step in way:
        holder = _inside(holder, step)
    if isinstance(holder, dict) and ("name" in problem.facts or _may_be_absent(schema, tuple(way), last)):
        holder.pop(last, None)
    elif isinstance(holder, dict | list):
        holder[last] = _stand_in(schemas_at(schema, *problem.path), schema)  # type: ignore[index]


def _inside(holder: Any, step: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(str(step))
    return holder[step] if isinstance(holder, list) and isinstance(step, int) and step < len(holder) else None


def _may_be_absent(schema: dict[str, Any], holder: JsonPath, key: str | int) -> bool:
    """Whether a key is one that the schema names and does not require."""
    parts = schemas_at(schema, *holder)
    is_named = any(key in part.get("properties", {}) for part in parts)
    return is_named and not any(key in part.get("required", ()) for part in parts)


def _stand_in(parts: list[dict[str, Any]], schema: dict[str, Any], depth: int = 0) -> Any:
    """Something empty that fits the types."""
    for part in parts:
        if "const" in part:
            return part["const"]
        if "enum" in part:
            return part["enum"][0]
        if part.get("type") == "object" and depth < _DEEPEST:
            # What any of the parts requires: a key too many does no harm here.
            required = [name for part in parts for name in part.get("required", ())]
            return {name: _stand_in(members(parts, name, schema), schema, depth + 1) for name in required}
        if part.get("type") in _EMPTY:
            return copy.deepcopy(_EMPTY[part["type"]])
    return None
