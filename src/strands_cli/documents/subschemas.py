"""Ways through a JSON Schema: behind its local references, and into what it is composed of."""

from typing import Any

OPENING_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
"""Where a schema speaks of properties that it does not name."""


def local_target(reference: object, root: dict[str, Any]) -> Any:
    """What a `$ref` into the schema itself points at; None where it points elsewhere, or at nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target: Any = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = target[int(name)] if name.isdecimal() and int(name) < len(target) else None
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target


def composed_of(schema: Any, root: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema and those it is composed of, behind a local `$ref` and in allOf, anyOf, oneOf, then, else."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, dict) or any(part is seen for seen in found):
            continue
        found.append(part)
        waiting += [local_target(part.get("$ref"), root), part.get("then"), part.get("else")]
        for keyword in ("allOf", "anyOf", "oneOf"):
            waiting += part.get(keyword, [])
    return found


def schemas_at(schema: dict[str, Any], *path: str | int) -> list[dict[str, Any]]:
    """What a schema says of a place in its instances, as far as it says so plainly; alternatives included."""
    parts = composed_of(schema, schema)
    for step in path:
        parts = members(parts, step, schema)
    return parts


def members(parts: list[dict[str, Any]], step: str | int, root: dict[str, Any]) -> list[dict[str, Any]]:
    """What schemas of one place say of a member of it."""
    inner: list[Any] = []
    for part in parts:
        named = part.get("properties", {})
        if isinstance(step, int):
            inner.append(part.get("items"))
        else:
            inner.append(named[step] if step in named else part.get("additionalProperties"))
    return [found for schema in inner for found in composed_of(schema, root)]


def relocated(schema: Any, place: str) -> Any:
    """A schema as it reads at another place of a larger one: its references to itself point there."""
    if isinstance(schema, list):
        return [relocated(part, place) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: relocated(part, place) for key, part in schema.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#{place}{reference[1:]}"
    return moved
