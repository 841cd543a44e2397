"""The directories of plugins: where they lie, what is in one, and what a user has decided about it.

Switched off are directories, in `plugins.json` of the user's configuration directory. Approved are the files
of a plugin, by their hashes, in a `strands-plugins.lock` beside the `plugins/` directory: the project's for
its plugins, the user's for the user's. A plugin that no lock names is trusted like any file of its project;
one that is named runs only as it was approved.

Light, since every listing asks.
"""

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from strands_cli.errors import SpecError, ToolFailed
from strands_cli.settings import Settings, config_directory

MANIFEST_NAME = "plugin.json"
_LEFT_OUT = frozenset({".git", "__pycache__"})
"""What a program that runs, or a version control, writes by itself."""

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
            names = sorted(entry.name for entry in listing if entry.name[0] not in "._" and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [root / name for name in names if os.path.lexists(f"{root}/{name}/{MANIFEST_NAME}")]


# --- What is in one --------------------------------------------------------------------------------------


def plugin_digests(directory: Path) -> dict[str, str]:
    """Every file below a directory, by its relative path: `sha256:…`, or `link:…` with where a link leads."""
    root = str(directory)
    return {path[len(root) + 1 :]: _file_digest(path, entry) for path, entry in _walk_plugin(root)}


def plugin_paths(directory: Path) -> list[str]:
    """Every file and directory that `plugin_digests` rests on, for whoever remembers what came of it."""
    files = [path for path, _ in _walk_plugin(str(directory))]
    return [*sorted({os.path.dirname(path) for path in files} | {str(directory)}), *files]


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


def _walk_plugin(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(root) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk_plugin(entry.path)
        else:
            yield entry.path, entry


def _file_digest(path: str, entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"link:{os.readlink(path)}"
    if not entry.is_file():
        return "special"
    identity = file_identity(entry.stat())
    known = _hashes.get(path)
    if known is not None and known[0] == identity:
        return known[1]
    from hashlib import file_digest

    with open(path, "rb") as stream:
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
    """One plugin as it was when somebody approved it."""

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


class Approval(msgspec.Struct, frozen=True):
    """What a lock says about a plugin, and how the plugin differs from that."""

    lock: Path
    approved: Approved
    changes: Changes


def read_plugin_state() -> State:
    """SpecError where the file is damaged: what was switched off must not come on again by itself."""
    user = user_directory()
    return (_read_lock_or_state(user / STATE_NAME, State) if user else None) or State()


def is_plugin_disabled(place: Path, state: State) -> bool:
    return str(place.resolve()) in state.disabled


def write_plugin_state(state: State) -> None:
    write_lock_or_state(config_directory() / STATE_NAME, state)


def lock_files(project: Path) -> tuple[Path, ...]:
    """The locks that may name a plugin: the project's, the user's."""
    user = user_directory()
    return (project / LOCK_NAME, *((user / LOCK_NAME,) if user else ()))


def read_plugin_lock(file: Path) -> Lock:
    """An empty one where there is no file; SpecError where it is damaged or of another version."""
    lock = _read_lock_or_state(file, Lock) or Lock()
    if lock.version != LOCK_VERSION:
        reason = f"{file} has the version {lock.version}, and this is for {LOCK_VERSION}."
        raise SpecError(reason, hint="Use the strands-cli that wrote it.")
    return lock


def write_lock_or_state(file: Path, lock: Lock | State) -> None:
    from strands_cli.documents.files import write_file

    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, msgspec.json.format(msgspec.json.encode(lock, order="sorted"), indent=2) + b"\n")


def lock_key(place: Path, lock: Path) -> str | None:
    """The name of a plugin in a lock: where it was found, relative to the lock's directory; None outside."""
    place, root = plugin_place(place), lock.parent.resolve()
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else None


def approvals_in_locks(place: Path, project: Path) -> Iterator[tuple[Path, Approved]]:
    """What the locks say about a plugin, with the lock that says it."""
    for file in lock_files(project):
        plugins = read_plugin_lock(file).plugins
        key = lock_key(place, file) if plugins else None
        if key in plugins:
            yield file, plugins[key]


def changes_since_approval(approved: Approved, place: Path) -> Changes:
    now = plugin_digests(place.resolve())
    then = approved.files
    return Changes(
        tuple(sorted(now.keys() - then.keys())),
        tuple(sorted(name for name in now.keys() & then.keys() if now[name] != then[name])),
        tuple(sorted(then.keys() - now.keys())),
    )


def approval_of(place: Path, project: Path) -> Approval | None:
    """What the first lock that names a plugin says about it."""
    for lock, approved in approvals_in_locks(place, project):
        return Approval(lock, approved, changes_since_approval(approved, place))
    return None


def unapproved_changes(place: Path, project: Path) -> Changes | None:
    """How a plugin differs from what was approved; None where it does not, or where no lock names it."""
    for _, approved in approvals_in_locks(place, project):
        if changes := changes_since_approval(approved, place):
            return changes
    return None


def refuse_unapproved(name: str, place: Path, project: Path) -> None:
    """ToolFailed (`denied`) where a plugin is not as it was approved."""
    try:
        changes = unapproved_changes(place, project)
    except SpecError as error:
        raise ToolFailed(error.message, code="denied", hint=error.hint) from None
    if changes:
        reason = f"The plugin {name} has changed since it was approved ({changes})"
        raise ToolFailed(reason, code="denied", hint=plugin_update_hint(name))


def plugin_update_hint(name: str) -> str:
    return f"'strands plugin update {name}' shows the difference and approves it."


def _read_lock_or_state(file: Path, kind: type[_Document]) -> _Document | None:
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
    return msgspec.json.decode(file.read_bytes(), type=kind)
