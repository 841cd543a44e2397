"""Queries: a JSON pointer (`/users/0/name`), or a path with dots and brackets (`users[*].name`)."""

import re
from collections.abc import Iterator
from typing import Any

from strands_cli.documents.problems import describe, pointer, shorten
from strands_cli.errors import ToolFailed, closest

Found = tuple[tuple[str | int, ...], Any]
"""Where a value stands in the document, and the value."""

_EVERY = None
_PART = re.compile(
    r"\[\s*(?:(?P<index>-?[0-9]{1,18}|\*)|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")\s*\]"
    r"|(?:^|\.)(?P<name>[^.\[\]]+)"
)
_INDEX = re.compile(r"-?[0-9]{1,18}")
_SHOWN_KEYS = 20


def select(document: Any, query: str) -> Any:
    """What the query names: one value, or with wildcards the list of all that there are."""
    found: list[Found] = [((), document)]
    is_many = False
    for step in _pointer_steps(query) if query.startswith("/") else _path_steps(query):
        if step is _EVERY:
            found = [inner for outer in found for inner in _children(outer)]
            is_many = True
        elif is_many:
            found = _those_with(step, found)
        else:
            found = [_child(found[0], step)]
    return [value for _, value in found] if is_many else found[0][1]


def _pointer_steps(query: str) -> Iterator[str | None]:
    for part in query[1:].split("/"):
        yield part.replace("~1", "/").replace("~0", "~")


def _path_steps(query: str) -> Iterator[str | None]:
    position = 1 if re.match(r"\$(?=[.\[]|$)", query) else 0
    while position < len(query):
        match = _PART.match(query, position)
        if match is None or match.lastgroup is None:
            rest = shorten(query[position:], 20)
            raise ToolFailed(
                f"The query cannot be read from {rest!r} at position {position + 1} on",
                hint="Write it like users[0].name, users[*].name or users[0]['first name'].",
            )
        yield _EVERY if match[match.lastgroup] == "*" else match[match.lastgroup]
        position = match.end()


def _children(outer: Found) -> list[Found]:
    path, value = outer
    if isinstance(value, dict):
        return [((*path, key), inner) for key, inner in value.items()]
    if isinstance(value, list):
        return [((*path, index), inner) for index, inner in enumerate(value)]
    raise ToolFailed(f"{_place(path)} is {_what(value)}, which contains nothing", code="not_found")


def _those_with(step: str, found: list[Found]) -> list[Found]:
    """The step's value of each that has one: the items of real arrays are not all alike."""
    kept, failure = [], None
    for outer in found:
        try:
            kept.append(_child(outer, step))
        except ToolFailed as failed:
            failure = failure or failed
    if failure and not kept:
        raise failure
    return kept


def _child(outer: Found, step: str) -> Found:
    path, value = outer
    if isinstance(value, dict):
        if step in value:
            return (*path, step), value[step]
        raise _no_key(path, value, step)
    if not isinstance(value, list):
        raise ToolFailed(
            f"{_place(path)} is {_what(value)}, so there is no {shorten(step)!r} in it", code="not_found"
        )
    count = len(value)
    if not _INDEX.fullmatch(step):
        raise ToolFailed(
            f"{_place(path)} is {_what(value)}, so it has no key {shorten(step)!r}",
            code="not_found",
            hint="Take one item by its index, such as [0], or all of them with [*].",
        )
    if not -count <= int(step) < count:
        raise ToolFailed(
            f"{_place(path)} has no item {step}: it is {_what(value)}",
            code="not_found",
            hint=f"The indexes are 0 to {count - 1}." if count else "",
        )
    return (*path, int(step) % count), value[int(step)]


def _no_key(path: tuple[str | int, ...], value: dict[str, Any], step: str) -> ToolFailed:
    keys = ", ".join(shorten(key) for key in list(value)[:_SHOWN_KEYS])
    more = f" and {len(value) - _SHOWN_KEYS} more" if len(value) > _SHOWN_KEYS else ""
    match = closest(step, value)
    return ToolFailed(
        f"{_place(path)} has no key {shorten(step)!r}",
        code="not_found",
        hint=(f"Did you mean {match!r}? " if match else "")
        + (f"Its keys are {keys}{more}." if keys else "It has no keys."),
    )


def _what(value: Any) -> str:
    described = describe(value)
    if described in ("null", "true", "false"):
        return described
    return f"an {described}" if described[0] in "aio" else f"a {described}"


def _place(path: tuple[str | int, ...]) -> str:
    return pointer(path) or "The document"
