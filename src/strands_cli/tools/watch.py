"""What changes about the tools of a project while a program runs: `watch(registry)`.

Files are compared by their stamps, again and again. That works on every file system, in containers and over
the network; notifications of the kernel do not. See "Watching polls" in docs/internals.md.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from strands_cli.errors import Issue, StrandsError, ToolError
from strands_cli.toolkit.info import ToolFields, ToolInfo
from strands_cli.tools._discovery.project_files import MAX_ENTRIES, PythonSources, project_stamps
from strands_cli.tools._discovery.scan import MISSING, FileStamps
from strands_cli.tools.registry import ToolRegistry, is_behind
from strands_cli.tools.sources.modules import Project

T = TypeVar("T")

POLL_SECONDS = 0.3
SETTLE_SECONDS = 0.1
"""What was written within this time may be half a file: editors write in two steps."""
_LONGEST_SETTLE_SECONDS = 1.0
_ELSEWHERE_SECONDS = 2.0
"""How often to look at what lies outside of the project: packages, the user's settings and plugins."""
_COST = 50
"""Looking takes at most one part in so many of a processor."""
_TOO_LARGE = Issue(
    reason=f"The project has more than {MAX_ENTRIES:,} files and directories; not all of them are watched.",
    remediation="tools/ and plugins/ come first. Move data out of the project, or into a directory whose "
    "name begins with a dot.",
    severity="warning",
)


class ChangedTool(msgspec.Struct, frozen=True):
    """A tool that was edited."""

    info: ToolInfo
    """The tool as it is now."""
    parts: tuple[str, ...]
    """What differs: `description`, `input schema`, `version`, …, and `code` for its files and the project's
    modules that they import. Empty if only comments or the layout changed.
    """


class ToolChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the last time."""

    added: tuple[ToolInfo, ...] = ()
    changed: tuple[ChangedTool, ...] = ()
    removed: tuple[ToolInfo, ...] = ()
    broken: tuple[Issue, ...] = ()
    """What is wrong now and was not before, with file, line, reason and fix. Tools that were loaded stay as
    they were.
    """
    recovered: tuple[str, ...] = ()
    """The files that were broken and are not any more."""
    files: tuple[Path, ...] = ()
    """Every file that was written, created or deleted, such as helper modules, workflows and settings."""
    created: tuple[Path, ...] = ()
    """Those of `files` that did not exist before."""


def watch(registry: ToolRegistry, *paths: Path, preload: bool = False) -> AsyncIterator[ToolChanges]:
    """Yields what changes about a registry's tools, and keeps the registry up to date.

    Looks at the Python, YAML, JSON and TOML files of the project, at all files of its plugins, and at
    `paths`. Tools that have been loaded are loaded again when they change, so the next call uses the new
    code; calls in flight end on the old one. With `preload`, the tools of the project's `tools/` directory
    are loaded right away: then each of them has a version to keep, and errors in its imports are found too.
    What is broken from the start comes first then.
    """
    return _Watcher(registry, paths, preload).changes()


class _KnownTool(msgspec.Struct, frozen=True):
    info: ToolInfo
    code: int
    """A hash of what its files tell the interpreter."""
    saved: int
    """A hash of the stamps of its files."""


class _State(msgspec.Struct, frozen=True):
    """What is known at one moment."""

    files: FileStamps
    tools: dict[tuple[str, ...], _KnownTool]
    """By source, id, version and file. Of a broken file, the tools that it had before."""
    issues: tuple[Issue, ...]

    @property
    def broken(self) -> set[str]:
        return {issue.file for issue in self.issues if issue.file}


class _Watcher:
    def __init__(self, registry: ToolRegistry, paths: Iterable[Path], preload: bool) -> None:
        self._registry, self._preload = registry, preload
        self._paths = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - links stay as they are
        self._sources = PythonSources()
        self._state = self._observe(_State(FileStamps(), {}, ()), self._look(), ())

    async def changes(self) -> AsyncIterator[ToolChanges]:
        if self._preload and self._state.issues:
            yield ToolChanges(broken=self._state.issues)
        pause, look_elsewhere_at = POLL_SECONDS, time.monotonic() + _ELSEWHERE_SECONDS
        while True:
            await asyncio.sleep(pause)
            started = time.monotonic()
            files, cost = await asyncio.to_thread(_measured, self._look)
            pause = max(POLL_SECONDS, 2 * (time.monotonic() - started), _COST * cost)
            is_different = files != self._state.files
            if not is_different and time.monotonic() >= look_elsewhere_at:
                is_different, cost = _measured(self._has_changed_elsewhere)
                look_elsewhere_at = time.monotonic() + max(_ELSEWHERE_SECONDS, _COST * cost)
            if is_different and (found := await self._settled_changes()) != ToolChanges():
                yield found

    def _look(self) -> FileStamps:
        return project_stamps(self._registry.settings.project, self._paths)

    def _has_changed_elsewhere(self) -> bool:
        try:
            return self._registry.has_changed()
        except (StrandsError, OSError):
            return True  # a refresh says why

    async def _settled_changes(self) -> ToolChanges:
        """Refreshes the registry once nothing has been written for a moment, nor while it was read."""
        give_up_at, before = time.monotonic() + _LONGEST_SETTLE_SECONDS, FileStamps()
        while True:
            files = await asyncio.to_thread(self._look)
            if files == before or time.monotonic() > give_up_at:
                now = self._observe(self._state, files, self._refresh())
                if self._look() == files or time.monotonic() > give_up_at:
                    was, self._state = self._state, now
                    return _difference(was, now)
            before = files
            await asyncio.sleep(SETTLE_SECONDS)

    def _refresh(self) -> tuple[Issue, ...]:
        """Why the settings cannot be used now, so that all stays as it was; empty if they can."""
        try:
            self._registry.refresh()
            return ()
        except StrandsError as error:
            issues = getattr(error, "issues", ()) or (Issue(reason=error.message, remediation=error.hint),)
        except OSError as error:
            issues = (Issue(reason=f"{error.strerror}: {error.filename}."),)
        kept = "Until then, the tools stay as they were."
        return tuple(
            msgspec.structs.replace(issue, remediation=f"{issue.remediation} {kept}".strip())
            for issue in issues
        )

    def _observe(self, before: _State, files: FileStamps, refusals: tuple[Issue, ...]) -> _State:
        """What the registry has now. What was loaded and has changed is loaded again."""
        registry, failures = self._registry, dict.fromkeys(refusals)
        if not files.is_complete:
            failures[_TOO_LARGE] = None
        tools: dict[tuple[str, ...], _KnownTool] = {}
        for info in registry.list_all():
            key = (info.source, info.id, info.version, info.file)
            known = tools[key] = _KnownTool(
                info, *self._sources.hashes_of(info, registry.settings.project, files)
            )
            is_wanted = registry.has_loaded(info) or (self._preload and info.source == Project.name)
            if (
                is_wanted
                and not refusals
                and (known != before.tools.get(key) or is_behind(info, before.broken))
            ):
                failures |= dict.fromkeys(_load_problems(registry, info))
        failures |= dict.fromkeys(issue for issue in registry.problems if issue.severity == "error")
        state = _State(files, tools, tuple(failures))
        kept = {key: known for key, known in before.tools.items() if is_behind(known.info, state.broken)}
        return msgspec.structs.replace(state, tools={**tools, **kept})


def _load_problems(registry: ToolRegistry, info: ToolInfo) -> Iterator[Issue]:
    try:
        registry.load(info)
    except ToolError as error:
        yield error.issue or Issue(reason=error.message, remediation=error.hint, file=info.file)


def _difference(was: _State, now: _State) -> ToolChanges:
    files = [file for file in sorted({*was.files, *now.files}) if was.files.get(file) != now.files.get(file)]
    recovered = [file for file in sorted(was.broken - now.broken) if os.path.lexists(file)]
    gone = {key: known for key, known in was.tools.items() if key not in now.tools}
    new = {key: known for key, known in now.tools.items() if key not in was.tools}
    pairs = [(was.tools[key], known) for key, known in now.tools.items() if key in was.tools]
    for key in [*new]:  # one that has another version, or moved to another file, is not a new tool
        if same := next((other for other in gone if other[:2] == key[:2]), None):
            pairs.append((gone.pop(same), new.pop(key)))
    changed = [
        ChangedTool(known.info, tuple(_changed_parts(old, known))) for old, known in pairs if old != known
    ]
    return ToolChanges(
        added=tuple(known.info for known in new.values()),
        changed=tuple(tool for tool in changed if tool.parts or not is_behind(tool.info, recovered)),
        removed=tuple(known.info for known in gone.values()),
        broken=tuple(issue for issue in now.issues if issue not in was.issues or issue.file in files),
        recovered=tuple(recovered),
        files=tuple(map(Path, files)),
        created=tuple(Path(file) for file in files if was.files.get(file, MISSING) == MISSING),
    )


def _changed_parts(was: _KnownTool, now: _KnownTool) -> Iterator[str]:
    for name in ToolFields.__struct_fields__:
        if getattr(was.info, name) != getattr(now.info, name):
            yield name.replace("_", " ")
    if was.code != now.code:
        yield "code"
    if was.info.file != now.info.file:
        yield "file"


def _measured(work: Callable[[], T]) -> tuple[T, float]:
    """A result, and the seconds of processor time that it took."""
    started = time.thread_time()
    return work(), time.thread_time() - started
