"""What a user has decided about plugins: which are switched off, and which contents have been approved.

Switched off are directories, in `plugins.json` of the user's configuration directory. Approved are the files
of a plugin, by their hashes, in a `strands-plugins.lock` beside the `plugins/` directory: the project's for
its plugins, the user's for the user's. A plugin that no lock names is trusted like any file of its project;
one that is named runs only as it was approved.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from strands_cli.documents.files import write_file
from strands_cli.errors import SpecError, ToolFailed
from strands_cli.plugins.directories import digests, located, user_directory
from strands_cli.settings import config_directory

LOCK_NAME = "strands-plugins.lock"
LOCK_VERSION = 1

_Document = TypeVar("_Document", bound=msgspec.Struct)


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    disabled: tuple[str, ...] = ()
    """The resolved directories of plugins that are switched off."""


class Approved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One plugin as it was when somebody approved it."""

    files: dict[str, str]
    """Every file of the plugin, relative to its directory, with its hash: see `digests`."""
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


def state_file() -> Path:
    return config_directory() / "plugins.json"


def read_state() -> State:
    """SpecError where the file is damaged: what was switched off must not come on again by itself."""
    return (_read(state_file(), State) if user_directory() else None) or State()


def is_disabled(place: Path, state: State) -> bool:
    return str(place.resolve()) in state.disabled


def write_state(state: State) -> None:
    _write(state_file(), state)


def lock_files(project: Path) -> tuple[Path, ...]:
    """The locks that may name a plugin: the project's, the user's."""
    user = user_directory()
    return (project / LOCK_NAME, *((user / LOCK_NAME,) if user else ()))


def read_lock(file: Path) -> Lock:
    """An empty one where there is no file; SpecError where it is damaged or of another version."""
    lock = _read(file, Lock) or Lock()
    if lock.version != LOCK_VERSION:
        raise SpecError(
            f"{file} has the version {lock.version}, and this is for {LOCK_VERSION}.",
            hint="Use the strands-cli that wrote it.",
        )
    return lock


def write_lock(file: Path, lock: Lock) -> None:
    _write(file, lock)


def lock_key(place: Path, lock: Path) -> str | None:
    """The name of a plugin in a lock: where it was found, relative to the lock's directory; None outside."""
    place, root = located(place), lock.parent.resolve()
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else None


def approvals(place: Path, project: Path) -> Iterator[tuple[Path, Approved]]:
    """What the locks say about a plugin, with the lock that says it."""
    for file in lock_files(project):
        plugins = read_lock(file).plugins
        key = lock_key(place, file) if plugins else None
        if key in plugins:
            yield file, plugins[key]


def changes_since(approved: Approved, place: Path) -> Changes:
    now = digests(place.resolve())
    then = approved.files
    return Changes(
        tuple(sorted(now.keys() - then.keys())),
        tuple(sorted(name for name in now.keys() & then.keys() if now[name] != then[name])),
        tuple(sorted(then.keys() - now.keys())),
    )


def approval_of(place: Path, project: Path) -> Approval | None:
    """What the first lock that names a plugin says about it."""
    for lock, approved in approvals(place, project):
        return Approval(lock, approved, changes_since(approved, place))
    return None


def unapproved(place: Path, project: Path) -> Changes | None:
    """How a plugin differs from what was approved; None where it does not, or where no lock names it."""
    for _, approved in approvals(place, project):
        if changes := changes_since(approved, place):
            return changes
    return None


def refuse_unapproved(name: str, place: Path, project: Path) -> None:
    """ToolFailed (`denied`) where a plugin is not as it was approved."""
    try:
        changes = unapproved(place, project)
    except SpecError as error:
        raise ToolFailed(error.message, code="denied", hint=error.hint) from None
    if changes:
        raise ToolFailed(
            f"The plugin {name} has changed since it was approved ({changes})",
            code="denied",
            hint=update_hint(name),
        )


def update_hint(name: str) -> str:
    return f"'strands plugin update {name}' shows the difference and approves it."


_known: dict[tuple[Path, type], tuple[tuple[int, int, int], msgspec.Struct]] = {}
"""What was read last of each file, with its identity: every call of a tool asks for the locks."""


def _read(file: Path, kind: type[_Document]) -> _Document | None:
    try:
        found = file.stat()
        identity = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = _known.get((file, kind))
        if known is None or known[0] != identity:
            known = identity, msgspec.json.decode(file.read_bytes(), type=kind)
            _known[file, kind] = known
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SpecError(
            f"{file} cannot be read: {error}", hint="Correct it, or restore it from your version control."
        ) from None
    value = known[1]
    assert isinstance(value, kind)
    return value


def _write(file: Path, value: msgspec.Struct) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n")
