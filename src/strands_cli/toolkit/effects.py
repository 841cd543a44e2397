"""What a call touches, and the bodies that go on touching it after their calls have been answered."""

import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from itertools import product
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from strands_cli.documents.files import MAX_BYTES
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import CallContext, ToolContext, tool_of, workspace_of
from strands_cli.toolkit.contract import PLACEHOLDER, Effects, Tool
from strands_cli.toolkit.workspace import Workspace, current_directory

Resource = tuple[str, ...]
"""What can be in conflict: equal ones, and one that begins with another, as a file's path does with its
directory's."""

_FOLDS_CASE = sys.platform in ("darwin", "win32")


class Resources(NamedTuple):
    reads: frozenset[Resource] = frozenset()
    writes: frozenset[Resource] = frozenset()
    exclusive: bool = False

    def must_wait_for(self, left: "Resources") -> bool:
        """Whether a body that was left behind may still change what this call touches."""
        touched = self.reads | self.writes
        return (
            self.exclusive
            or left.exclusive
            or any(
                mine[: len(other)] == other[: len(mine)]  # equal, or one is below the other
                for other in left.writes
                for mine in touched
            )
        )


def resources_of(
    effects: Effects | None, arguments: dict[str, Any], workspace: Workspace | None = None
) -> Resources:
    """What a call with these arguments touches; relative paths are relative to the workspace's base."""
    if effects is None:
        return Resources()
    base = workspace.base if workspace else current_directory()
    reads, writes = (
        frozenset(
            key
            for item in side
            for text in _filled_templates(item, arguments)
            for key in _resource_keys(text, base)
        )
        for side in (effects.reads, effects.writes)
    )
    return Resources(reads, writes, effects.exclusive)


def protected_writes(tool: Tool, arguments: dict[str, Any], context: CallContext) -> tuple[Path, ...]:
    """The protected paths that a call with these arguments would write, as real paths."""
    if tool.effects is None or not tool.effects.writes:
        return ()
    workspace, found = workspace_of(context), list[Path]()
    for text in (text for item in tool.effects.writes for text in _filled_templates(item, arguments)):
        with suppress(OSError, RuntimeError, ValueError):  # no usable path: the call says so itself
            if text.startswith("file:") and workspace.is_protected(real := _real_path(text, workspace.base)):
                found.append(real)
    return tuple(found)


def _filled_templates(template: str, arguments: dict[str, Any]) -> Iterator[str]:
    names = PLACEHOLDER.findall(template)
    for chosen in product(*(list(_argument_texts(arguments, name.split("."))) for name in names)):
        values = iter(chosen)
        yield PLACEHOLDER.sub(lambda _: next(values), template)  # noqa: B023 - used up before it changes


def _argument_texts(value: Any, path: list[str]) -> Iterator[str]:
    """The values at a path, as text; each item of a list on the way counts."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _argument_texts(item, path)
    elif path:
        if isinstance(value, dict) and path[0] in value:
            yield from _argument_texts(value[path[0]], path[1:])
    elif value is not None:
        yield value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


def _real_path(text: str, base: Path) -> Path:
    if len(text) > MAX_BYTES:  # which no system opens, and which takes long to resolve
        raise ValueError("the path is too long")
    return (base / text.removeprefix("file:")).resolve()


def _resource_keys(text: str, base: Path) -> Iterator[Resource]:
    if not text.startswith("file:"):
        yield (text,)
        return
    try:
        file = _real_path(text, base)
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


# --- bodies that were left behind -------------------------------------------------------------------------

LONGEST_GRACE_SECONDS = 5.0
"""How long after the answer of its call other calls wait for a body that still runs."""


class LeftBody(NamedTuple):
    """A body that still ran when its call was answered: its time was up, or the call was cancelled."""

    context: ToolContext
    touches: Resources
    ended: Cancellation
    is_running: Callable[[], bool]
    since: float


_left: list[LeftBody] = []
_lock = Lock()


def note_left_body(
    context: ToolContext, touches: Resources, ended: Cancellation, is_running: Callable[[], bool]
) -> None:
    with _lock:
        _left.append(LeftBody(context, touches, ended, is_running, monotonic()))


def are_bodies_left() -> bool:
    """Whether there may be any; without a lock, since every call asks."""
    return bool(_left)


def _left_bodies() -> list[LeftBody]:
    with _lock:
        _left[:] = [body for body in _left if not body.ended.is_set() and body.is_running()]
        return _left.copy()


async def wait_for_left_bodies(tool: Tool, arguments: dict[str, Any], context: CallContext) -> None:
    """Waits for what earlier calls left running and this one conflicts with.

    ToolFailed (`busy`) if that goes on for longer than a body is waited for. Bodies that only read are left
    alone: nobody waits for what they find.
    """
    touches: Resources | None = None
    for body in _left_bodies():
        other = tool_of(body.context)
        if other.annotations.get("readOnlyHint"):
            continue
        touches = touches or resources_of(tool.effects, arguments, context.workspace)
        if touches.must_wait_for(body.touches) and not await _has_ended(body, context.cancel):
            raise ToolFailed(
                f"{tool.id} did not run: an earlier call of {other.id} was given up and still runs, and both "
                "touch the same things",
                code="busy",
                hint="Make the call again later.",
            )


async def has_body_ended(context: ToolContext, cancel: Cancellation | None) -> bool:
    """Whether the body of a call that has been answered ends within the time that it is waited for."""
    for body in _left_bodies():
        if body.context is context:
            return await _has_ended(body, cancel)
    return True


async def _has_ended(body: LeftBody, cancel: Cancellation | None) -> bool:
    """Also True where the one who waits was cancelled, which the call looks at itself."""
    either = Cancellation()
    with body.ended.on_set(either.set), cancel.on_set(either.set) if cancel else nullcontext():
        return await either.wait(body.since + LONGEST_GRACE_SECONDS - monotonic())
