"""What an expression can turn out to be, besides plain data."""

from collections.abc import Iterator
from typing import Any

import msgspec

_LARGEST = 1e300
"""Beyond it a number is infinite, or no number, or an integer that nobody meant."""

ONLY_RUNNING = "which only running the module can answer"


class Unread(msgspec.Struct, frozen=True):
    """In place of a value: where and why reading stopped. The reason goes on from the name of the value."""

    file: str
    line: int
    reason: str


class SpecCall(msgspec.Struct, frozen=True, eq=False):
    """`ToolSpec(…)`, with the arguments as they were written."""

    file: str
    line: int
    arguments: dict[str, Any]
    lines: dict[str, int]


def first_unread(value: object, key: str) -> tuple[str, Unread] | None:
    """The first part of a value that could not be read, with the dotted path to it from `key`."""
    if isinstance(value, Unread):
        return key, value
    for name, part in _parts(value):
        found = first_unread(part, f"{key}.{name}" if name else key)
        if found:
            return found
    return None


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple | set):
        yield from (("", part) for part in value)


class NotJson(ValueError):
    """A value that no JSON document can hold."""


def as_json(value: object, path: str = "") -> Any:
    """The value as JSON has it, tuples as lists; NotJson says what has no place there."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, list | tuple):
        return [as_json(part, f"{path}/{index}") for index, part in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: as_json(part, f"{path}/{name}") for name, part in value.items()}
    kind = "dictionary whose keys are not all strings" if isinstance(value, dict) else type(value).__name__
    raise NotJson(f"there is a {kind} at {path or '/'}, which JSON does not have")
