"""The plugins that a user has approved: a record, and a read-only copy of each, which is what runs.

Both are in the user's data directory. `approvals.json` maps the directory of each approved plugin to its
hash. `plugins/<hash>/` is the copy, created atomically. Changes in the plugin's own directory, before a call
or during one, never run; the directory is only compared, to report changes to the user. Files that are not
hashed (`.git`, `__pycache__`) are not in the copy either.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import msgspec

from strands_cli.documents.files import TooLarge, locked_directory, open_regular_file
from strands_cli.errors import SpecError, StrandsError
from strands_cli.plugins.directories import (
    LINK,
    MAX_PLUGIN_BYTES,
    is_our_own,
    plugin_digests,
    plugin_place,
    read_decision,
    user_directory,
    write_decision,
)
from strands_cli.settings import data_directory

APPROVALS_NAME = "approvals.json"
_STORE = "plugins"
_STAGE = ".staging-"
_STALE_SECONDS = 3600.0
_CHUNK_BYTES = 1 << 20

_in_use: dict[Path, int] = {}
"""A descriptor of each copy that this process runs from: its lock keeps the copy from being deleted."""


class PluginApproval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The approval of one plugin."""

    name: str
    digest: str
    """The hash of all its files: the name of its copy."""
    permissions: tuple[str, ...] = ()
    """The permissions that were shown, for each tool."""
    approved: str = ""
    """When it was approved."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plugins: dict[str, PluginApproval] = {}
    """By the directory of the plugin."""


def approvals_file() -> Path | None:
    """The record of approvals; None without a home directory."""
    try:
        return data_directory() / APPROVALS_NAME
    except RuntimeError:
        return None


def read_approvals() -> Approvals:
    """All approvals. SpecError if the file is damaged: then nothing counts as approved."""
    file = approvals_file()
    approvals = read_decision(file, Approvals) if file else None
    if approvals is None or file is None:
        return Approvals()
    if not is_our_own(file.stat()):
        hint = "Delete it, or change its owner and mode. Then approve your plugins again."
        raise SpecError(f"{file} can be written by another user, so it is not used.", hint=hint)
    return approvals


def approval_of_place(place: Path) -> PluginApproval | None:
    """The approval of the plugin in a directory, as `plugin_place` returns it."""
    return read_approvals().plugins.get(str(place))


def other_owner_of_name(name: str, place: Path, project: Path) -> Path | None:
    """The directory of another plugin that owns the name in a project; None if `place` may use it.

    The user's approval gives a name to one plugin, in the project or for all projects.
    """
    plugins = read_approvals().plugins
    owners = [Path(where) for where, approval in plugins.items() if approval.name == name]
    if not owners or str(place) in plugins:
        return None
    scopes = [project.resolve(), *([user.resolve()] if (user := user_directory()) else [])]
    return next((owner for scope in scopes for owner in owners if owner.is_relative_to(scope)), None)


@contextmanager
def recorded_approval(
    place: Path, name: str, origin: Path, files: dict[str, str], permissions: tuple[str, ...] = ()
) -> Iterator[None]:
    """Approves a plugin with these files, copied from `origin`; undone if the block fails.

    The plugin now owns its name: another approval with the same name is dropped.
    """
    with _decisions() as file:
        digest = _store_copy(origin, files)
        before = read_approvals()
        key = str(plugin_place(place))
        kept = {
            where: approval
            for where, approval in before.plugins.items()
            if approval.name != name or Path(where).parent != Path(key).parent
        }
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        mine = PluginApproval(name=name, digest=digest, permissions=permissions, approved=when)
        write_decision(file, Approvals(plugins={**kept, key: mine}), is_private=True)
        with ExitStack() as undo:
            undo.callback(_drop_unused_copies)
            undo.callback(write_decision, file, before, is_private=True)
            yield
            undo.pop_all()
        _drop_unused_copies()


def forget_approvals(*places: Path) -> None:
    """Deletes the approvals of plugins in these directories, and copies that are no longer needed."""
    keys = {str(plugin_place(place)) for place in places}
    if not keys & read_approvals().plugins.keys():
        return
    with _decisions() as file:
        plugins = read_approvals().plugins
        if keys & plugins.keys():
            left = {where: one for where, one in plugins.items() if where not in keys}
            write_decision(file, Approvals(plugins=left), is_private=True)
        _drop_unused_copies()


@contextmanager
def _decisions() -> Iterator[Path]:
    """The file of approvals, locked against other commands."""
    file = approvals_file()
    if file is None:
        raise StrandsError("There is no home directory for your approvals.", hint="Set XDG_DATA_HOME.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _store().mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        reason = f"Your approvals cannot be written: {error.strerror}: {error.filename}."
        raise StrandsError(reason, hint="Make the directory writable, or set XDG_DATA_HOME.") from None
    with locked_directory(_store().resolve()):
        yield file


# --- The copies -------------------------------------------------------------------------------------------


def approved_copy(approval: PluginApproval, place: Path) -> Path:
    """The verified copy of an approved plugin; created again if it was deleted or changed.

    SpecError if that is impossible, because the plugin's own directory has changed too.
    """
    copy = _store() / approval.digest
    if copy not in _in_use:
        with suppress(OSError):
            _hold(copy)
    if not _is_intact(copy, approval.digest):
        if digest_of_files(plugin_digests(place.resolve())) != approval.digest:
            reason = f"The approved copy of the plugin {approval.name} in {copy} was changed or deleted."
            raise SpecError(reason, hint=f"'strands plugin update {approval.name}' shows and approves it.")
        with _decisions():
            _store_copy(place.resolve(), plugin_digests(place.resolve()))
        _hold(copy)
    return copy


def kept_copy(approval: PluginApproval) -> Path | None:
    """The copy of an approved plugin; None if it was deleted or changed."""
    copy = _store() / approval.digest
    return copy if _is_intact(copy, approval.digest) else None


def copy_plugin(origin: Path, target: Path) -> None:
    """Copies the hashed files of a plugin: no repository, no caches, no empty directories."""
    target.mkdir()
    left = MAX_PLUGIN_BYTES
    for name, digest in plugin_digests(origin).items():
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if digest.startswith(LINK):
            copied.symlink_to(digest.removeprefix(LINK))
        else:
            left -= _copy_file(origin / name, copied, left)


def _copy_file(origin: Path, target: Path, max_bytes: int) -> int:
    """Copies a regular file, even if it is growing; returns its size."""
    size = 0
    with open_regular_file(origin) as source, target.open("xb") as copy:
        while data := source.read(_CHUNK_BYTES):
            size += copy.write(data)
            if size > max_bytes:
                raise TooLarge(origin, size, max_bytes)
        mode = os.fstat(source.fileno()).st_mode
    target.chmod(0o755 if mode & 0o111 else 0o644)
    return size


def _store() -> Path:
    return data_directory() / _STORE


def _hold(copy: Path) -> None:
    """Locks a copy against deletion while this process lives."""
    with suppress(ImportError):  # Windows, which runs no plugins
        import fcntl

        descriptor = os.open(copy, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if (old := _in_use.pop(copy, None)) is not None:
            os.close(old)
        _in_use[copy] = descriptor


def digest_of_files(files: dict[str, str]) -> str:
    from hashlib import sha256

    lines = (os.fsencode(f"{name}\0{files[name]}\0") for name in sorted(files))
    return sha256(b"".join(lines)).hexdigest()


def _is_intact(copy: Path, digest: str) -> bool:
    """Whether a copy matches its hash, and only the user can change it."""
    try:
        if not (is_our_own(copy.parent.stat()) and is_our_own(copy.lstat())):
            return False
        return digest_of_files(plugin_digests(copy, must_be_our_own=True)) == digest
    except (OSError, SpecError):
        return False


def _store_copy(origin: Path, files: dict[str, str]) -> str:
    """Copies a plugin into the store, unless it is there; StrandsError if its files have changed."""
    digest, store = digest_of_files(files), _store()
    target = store / digest
    if _is_intact(target, digest):
        return digest
    stage = Path(mkdtemp(prefix=_STAGE, dir=store))
    with ExitStack() as undo:
        undo.callback(_delete_tree, stage)
        copy = stage / digest
        copy_plugin(origin, copy)
        if plugin_digests(copy) != files:
            raise StrandsError(f"{origin} was changed while it was copied.", hint="Try again.")
        for file in copy.rglob("*"):
            if not file.is_symlink():
                file.chmod(0o555)  # the execute bit grants nothing inside the sandbox
        if os.path.lexists(target):  # damaged
            if not target.is_symlink():
                target.chmod(0o700)  # a directory that cannot be written cannot be moved
            target.rename(stage / "damaged")
        copy.rename(target)
        target.chmod(0o555)
    return digest


def _drop_unused_copies() -> None:
    """Deletes copies without an approval that no process runs from."""
    named = {approval.digest for approval in read_approvals().plugins.values()}
    with suppress(FileNotFoundError):
        for copy in sorted(_store().iterdir()):
            is_young_stage = copy.name.startswith(_STAGE) and _age(copy) < _STALE_SECONDS
            if copy.name not in named and not is_young_stage:
                _delete_unless_in_use(copy)


def _age(file: Path) -> float:
    return time.time() - file.lstat().st_mtime


def _delete_unless_in_use(copy: Path) -> None:
    with suppress(OSError), ExitStack() as undo:
        with suppress(ImportError):
            import fcntl

            descriptor = os.open(copy, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            undo.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _delete_tree(copy)


def _delete_tree(tree: Path) -> None:
    for directory, _, _ in os.walk(tree):
        with suppress(OSError):
            Path(directory).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)
