"""The directories of plugins: where they lie, what is in one, and what a user has decided about it.

Switched off are directories, in `plugins.json` of the user's configuration directory. A
`strands-plugins.lock` beside the `plugins/` directory has the hashes of a plugin's files: the project's for
its plugins, the user's for the user's. A plugin that a lock names runs only with these files. That a lock
names it approves nothing: what the user approved is in `approvals`.

Light, since every listing asks.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from strands_cli.documents.files import (
    is_directory,
    locked_directory,
    open_regular_file,
    read_regular_file,
    write_file,
)
from strands_cli.errors import SpecError, UsageError
from strands_cli.settings import Settings, config_directory

MANIFEST_NAME = "plugin.json"
LEFT_OUT = frozenset({".git", "__pycache__"})
"""What a program that runs, or a version control, writes by itself. It is not hashed and not copied, so it is
not there when an approved plugin runs."""
MAX_FILES = 20_000
MAX_PLUGIN_BYTES = 512 * 1024**2
MAX_LEVELS = 32
LINK, SPECIAL = "link:", "special"
_MAX_DECISION_BYTES = 32 * 1024**2
_TICK_NANOSECONDS = 20_000_000
"""File systems date a change by the kernel's last tick: what is younger may change again under one date."""

Identity = tuple[int, int, int, int]
"""When a file was written, when anything about it changed, its size and its number."""

_hashes: dict[str, tuple[Identity, str]] = {}
"""The hash of each file that has been looked at, for as long as the file is the same."""


def plugin_roots(settings: Settings) -> dict[str, Path]:
    """The directories that plugins are looked for in, by whose they are, in order of precedence."""
    roots = {"project": settings.project / "plugins"}
    if user := user_directory():
        roots["user"] = user / "plugins"
    return roots


def user_directory() -> Path | None:
    try:
        return config_directory()
    except RuntimeError:  # there is no home directory
        return None


def plugin_place(place: Path) -> Path:
    """A plugin's place without detours, but under the name that it has there, be it that of a link."""
    return place.parent.resolve() / place.name if place.name not in ("", "..") else place.resolve()


def plugins_in(root: Path) -> list[Path]:
    """The directories with a manifest, in the order of their names; OSError where the root cannot be read.

    Other directories are nobody's plugin, and no mistake.
    """
    try:
        with os.scandir(root) as listing:
            found = (entry for entry in listing if entry.name[0] not in "._" and is_directory(entry))
            names = sorted(entry.name for entry in found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [root / name for name in names if os.path.lexists(f"{root}/{name}/{MANIFEST_NAME}")]


# --- What is in one --------------------------------------------------------------------------------------


def plugin_digests(directory: Path, *, must_be_our_own: bool = False) -> dict[str, str]:
    """Every file below a directory, by its relative path: `sha256:…`, or `link:…` with where a link leads.

    SpecError where there is too much of it, or where another user may write what must be our own.
    """
    root, size = str(directory), 0
    digests: dict[str, str] = {}
    for path, entry in _walk_plugin(root):
        status = entry.stat(follow_symlinks=False)
        size += status.st_size
        if len(digests) >= MAX_FILES or size > MAX_PLUGIN_BYTES:
            limit = f"{MAX_FILES:,} files and {MAX_PLUGIN_BYTES // 1024**2} MB"
            reason = f"{directory} is too large for a plugin: at most {limit} are allowed."
            raise SpecError(reason, hint="Remove what its tools do not need.")
        if must_be_our_own and not is_our_own(status):
            raise SpecError(f"{path} can be written by another user.")
        digests[path[len(root) + 1 :]] = _file_digest(path, status)
    return digests


def plugin_paths(directory: Path) -> list[str]:
    """Every file and directory that `plugin_digests` rests on, for whoever remembers what came of it."""
    files = [path for path, _ in _walk_plugin(str(directory))]
    return [*sorted({os.path.dirname(path) for path in files} | {str(directory)}), *files]


def is_our_own(status: os.stat_result) -> bool:
    """Whether a file belongs to the user who runs this, or to root, and no other user may write it."""
    if not hasattr(os, "geteuid"):  # Windows
        return True
    return status.st_uid in (0, os.geteuid()) and (
        stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def file_identity(status: os.stat_result) -> Identity:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def files_beside_executable(executable: Path) -> tuple[tuple[str, Identity], ...]:
    """The files beside an executable, itself included: what it is likely to consist of."""
    try:
        with os.scandir(executable.parent) as listing:
            found = [(entry.name, file_identity(entry.stat())) for entry in listing if entry.is_file()]
    except OSError:
        return ()  # it is gone, and starting it will say so
    return tuple(sorted(found))


def _walk_plugin(root: str, levels: int = MAX_LEVELS) -> Iterator[tuple[str, os.DirEntry[str]]]:
    if not levels:
        reason = f"{root} is too deep for a plugin: at most {MAX_LEVELS} levels are allowed."
        raise SpecError(reason, hint="Remove what its tools do not need.")
    with os.scandir(root) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in LEFT_OUT:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_plugin(entry.path, levels - 1)
        else:
            yield entry.path, entry


def _file_digest(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return f"{LINK}{os.readlink(path)}"
    if not stat.S_ISREG(status.st_mode):
        return SPECIAL
    identity = file_identity(status)
    known = _hashes.get(path)
    if known is not None and known[0] == identity:
        return known[1]
    from hashlib import file_digest

    with open_regular_file(Path(path)) as stream:
        digest = f"sha256:{file_digest(stream, 'sha256').hexdigest()}"
    if time.time_ns() - max(identity[:2]) > _TICK_NANOSECONDS:
        _hashes[path] = identity, digest
    return digest


# --- What a user has decided ------------------------------------------------------------------------------

STATE_NAME = "plugins.json"
LOCK_NAME = "strands-plugins.lock"
LOCK_VERSION = 1

_Document = TypeVar("_Document", bound=msgspec.Struct)


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    disabled: tuple[str, ...] = ()
    """The resolved directories of plugins that are switched off."""


class Approved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One plugin as it was when somebody locked it."""

    files: dict[str, str]
    """Every file of the plugin, relative to its directory, with its hash: see `plugin_digests`."""
    source: str = ""
    """Where it was added from: a path, or the URL of a repository."""
    ref: str = ""
    commit: str = ""


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = LOCK_VERSION
    plugins: dict[str, Approved] = {}
    """By the plugin's directory, relative to that of the lock: a plugin cannot leave it by another name."""


class Changes(msgspec.Struct, frozen=True):
    """How a plugin's files differ from those that were approved."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        parts = {"new": self.added, "changed": self.changed, "gone": self.removed}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)


def read_plugin_state() -> State:
    """SpecError where the file is damaged: what was switched off must not come on again by itself."""
    user = user_directory()
    return (read_decision(user / STATE_NAME, State) if user else None) or State()


def is_plugin_disabled(place: Path, state: State) -> bool:
    return str(place.resolve()) in state.disabled


def switch_plugin(directory: Path, *, is_enabled: bool) -> None:
    """Switches the plugin in a directory on or off."""
    file = config_directory() / STATE_NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked_directory(file.parent.resolve()):
        others = [one for one in read_plugin_state().disabled if one != str(directory)]
        write_decision(file, State(disabled=(*others, *([] if is_enabled else [str(directory)]))))


def lock_files(project: Path) -> tuple[Path, ...]:
    """The locks that may name a plugin: the project's, the user's."""
    user = user_directory()
    return (project / LOCK_NAME, *((user / LOCK_NAME,) if user else ()))


def read_plugin_lock(file: Path) -> Lock:
    """An empty one where there is no file; SpecError where it is damaged or of another version."""
    lock = read_decision(file, Lock) or Lock()
    if lock.version != LOCK_VERSION:
        reason = f"{file} has the version {lock.version}, and this is for {LOCK_VERSION}."
        raise SpecError(reason, hint="Use the strands-cli that wrote it.")
    return lock


def write_decision(file: Path, decision: msgspec.Struct, *, is_private: bool = False) -> None:
    """Writes a lock, or another file of what was decided."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(decision, order="sorted"), indent=2) + b"\n"
    write_file(file, text, is_private=is_private)


def lock_key(place: Path, lock: Path) -> str | None:
    """The name of a plugin in a lock: where it was found, relative to the lock's directory; None outside."""
    place, root = plugin_place(place), lock.parent.resolve()
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else None


@contextmanager
def changed_lock(place: Path, file: Path, approved: Approved | None) -> Iterator[None]:
    """Writes what a lock says of a plugin, and takes it back if the rest fails."""
    key = lock_key(place, file)
    if key is None:
        reason = f"{place} lies outside {file.parent}, so {file.name} cannot name it."
        raise UsageError(reason, hint="'plugins' must be a directory there, not a link.")
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked_directory(file.parent.resolve()), ExitStack() as undo:
        before = read_plugin_lock(file)
        if file.exists():
            undo.callback(write_decision, file, before)
        else:
            undo.callback(file.unlink, missing_ok=True)
        after = {**before.plugins, key: approved}
        if approved is not None or key in before.plugins:
            write_decision(file, Lock(plugins={name: entry for name, entry in after.items() if entry}))
        yield
        undo.pop_all()


def entries_of_locks(place: Path, project: Path) -> Iterator[tuple[Path, Approved]]:
    """What the locks say about a plugin, with the lock that says it."""
    for file in lock_files(project):
        plugins = read_plugin_lock(file).plugins
        key = lock_key(place, file) if plugins else None
        if key in plugins:
            yield file, plugins[key]


def file_changes(then: dict[str, str], now: dict[str, str]) -> Changes:
    return Changes(
        tuple(sorted(now.keys() - then.keys())),
        tuple(sorted(name for name in now.keys() & then.keys() if now[name] != then[name])),
        tuple(sorted(then.keys() - now.keys())),
    )


def read_decision(file: Path, kind: type[_Document]) -> _Document | None:
    """The decisions in a file, or None if the file does not exist. SpecError if it is damaged."""
    try:
        document: _Document = _decoded_file(file, kind, file_identity(file.stat()))
        return document
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        hint = "Fix it, or restore it from your version control."
        raise SpecError(f"{file} cannot be read: {error}", hint=hint) from None


@lru_cache(maxsize=8)
def _decoded_file(file: Path, kind: type[msgspec.Struct], identity: Identity) -> Any:
    """Remembered for as long as the file is the same: every call of a tool asks for the locks."""
    return msgspec.json.decode(read_regular_file(file, _MAX_DECISION_BYTES), type=kind)
