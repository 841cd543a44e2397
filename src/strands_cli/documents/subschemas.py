"""Ways through a schema: behind its local references, and into what it is composed of."""

from typing import Any

OPENING_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
"""Where a schema speaks of properties that it does not name."""


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


def local_target(reference: object, root: dict[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target
