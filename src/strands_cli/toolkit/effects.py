"""What a tool touches: `{"reads": ["file:{path}"], "writes": ["database"]}`, or `"exclusive"`."""

import re
import stat
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from strands_cli.documents.problems import OPENING_KEYWORDS, composed_of, describe
from strands_cli.errors import ToolError, did_you_mean
from strands_cli.toolkit.info import bare_schema
from strands_cli.toolkit.workspace import Workspace, current_directory


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool touches, as templates over its validated input.

    `{path}` is an argument and `{options.path}` a part of one; a list stands for each of its items. Where the
    argument is missing or null the template drops out, so one that means something when it is left out needs
    a `default` in the schema. Text without a placeholder is a resource too.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    exclusive: bool = False


PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def parse_effects(value: object, schema: dict[str, Any]) -> Effects:
    """What a tool declares, checked against its input schema; ToolError says what is wrong with it."""
    if isinstance(value, Effects):
        value = "exclusive" if value.exclusive else {"reads": value.reads, "writes": value.writes}
    if value == "exclusive":
        return Effects(exclusive=True)
    if not isinstance(value, dict):
        raise _refusal(f"they are {describe(value)}", 'Write {"reads": ["file:{path}"]}, or "exclusive".')
    for key in value:
        if key not in ("reads", "writes"):
            hint = did_you_mean(str(key), ("reads", "writes")) or "The keys are reads and writes."
            raise _refusal(f"they have the unknown key {key!r}", hint)
    root = bare_schema(schema)
    return Effects(
        reads=_templates("reads", value.get("reads", ()), root),
        writes=_templates("writes", value.get("writes", ()), root),
    )


def _templates(side: str, value: object, root: dict[str, Any]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise _refusal(f"{side} is {describe(value)}, not a list of strings", "Write a list of templates.")
    for template in value:
        for name in PLACEHOLDER.findall(template):
            _check_placeholder(f"{side}: {template!r}", name, root)
        if set("{}") & set(PLACEHOLDER.sub("", template)):
            raise _refusal(f"{side}: {template!r} has a brace that belongs to no placeholder", "")
    return tuple(value)


def _check_placeholder(where: str, name: str, root: dict[str, Any]) -> None:
    parts: list[Any] = [root]
    for word in name.split("."):
        branches = [branch for part in parts for branch in composed_of(part, root)]
        lists = [branch["items"] for branch in branches if isinstance(branch.get("items"), dict)]
        branches += [branch for part in lists for branch in composed_of(part, root)]
        known = {key: value for branch in branches for key, value in branch.get("properties", {}).items()}
        takes_others = any(branch.get(keyword) for branch in branches for keyword in OPENING_KEYWORDS)
        if word not in known and (known or not word) and not takes_others:
            hint = did_you_mean(word, known) or f"The properties are {', '.join(known)}."
            raise _refusal(f"{where} names {word!r}, which the input schema does not have", hint)
        parts = [branch["properties"][word] for branch in branches if word in branch.get("properties", {})]


def _refusal(reason: str, hint: str) -> ToolError:
    return ToolError(f"The tool's effects are refused: {reason}", code="unavailable", hint=hint)


Resource = tuple[str, ...]
"""What can be in conflict: equal ones, and one that begins with another, as a file's path does with its
directory's."""

_FOLDS_CASE = sys.platform in ("darwin", "win32")


class Touched(NamedTuple):
    reads: frozenset[Resource] = frozenset()
    writes: frozenset[Resource] = frozenset()
    exclusive: bool = False


def resources(effects: Effects, arguments: dict[str, Any], workspace: Workspace | None = None) -> Touched:
    """What a call with these arguments touches; relative paths are relative to the workspace's base."""
    base = workspace.base if workspace else current_directory()
    reads, writes = (
        frozenset(key for item in side for text in _filled(item, arguments) for key in _keys(text, base))
        for side in (effects.reads, effects.writes)
    )
    return Touched(reads, writes, effects.exclusive)


def _filled(template: str, arguments: dict[str, Any]) -> Iterator[str]:
    names = PLACEHOLDER.findall(template)
    for chosen in product(*(list(_texts(arguments, name.split("."))) for name in names)):
        values = iter(chosen)
        yield PLACEHOLDER.sub(lambda _: next(values), template)  # noqa: B023 - used up before it changes


def _texts(value: Any, path: list[str]) -> Iterator[str]:
    """The values at a path, as text; each item of a list on the way counts."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, path)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _texts(value[path[0]], path[1:])
    elif value is not None:
        yield value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


def _keys(text: str, base: Path) -> Iterator[Resource]:
    if not text.startswith("file:"):
        yield (text,)
        return
    try:
        file = (base / text.removeprefix("file:")).resolve()
    except (OSError, RuntimeError, ValueError):
        yield (text,)  # no usable path: the call will say so itself
        return
    yield ("file:", *(part.casefold() if _FOLDS_CASE else part for part in file.parts))
    try:
        known = file.stat()
    except (OSError, ValueError):
        return
    if not stat.S_ISDIR(known.st_mode):  # one file by another name: a hard link, or another case of it
        yield ("inode:", f"{known.st_dev}:{known.st_ino}")
