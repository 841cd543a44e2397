"""Plugins put into place, replaced and taken away, each in one step, together with their entries in the lock.

The lock is written first. Whoever is ended between the two steps leaves a plugin that differs from its lock,
which is refused until it is approved, never one that nobody approved.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from strands_cli.cli.plugin.copying import copy_plugin
from strands_cli.errors import StrandsError, UsageError
from strands_cli.plugins.contents import digests
from strands_cli.plugins.state import Approved, Lock, lock_files, lock_key, read_lock, write_lock
from strands_cli.settings import Settings

_STAGE = ".staging-"
"""Beside the plugins, so that a rename is enough; names that begin with a dot are nobody's plugin."""
_STALE_SECONDS = 3600.0
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def lock_of(owner: str, settings: Settings) -> Path:
    """The lock for the plugins of the project, or of the user."""
    return dict(zip(("project", "user"), lock_files(settings.project), strict=False))[owner]


def put_plugin(directory: Path, place: Path, lock: Path, approved: Approved) -> None:
    """A copy of a plugin at its place, approved; what was there before is replaced."""
    with staging(place.parent) as stage:
        copy = stage / place.name
        copy_plugin(directory, copy)
        if digests(copy) != approved.files:
            raise StrandsError(f"{directory} was changed while it was copied.", hint="Try it again.")
        with _entry(place, lock, approved):
            if os.path.lexists(place):
                _exchange(copy, place)
            else:
                copy.rename(place)


def approve_in_place(place: Path, lock: Path, approved: Approved) -> None:
    with _entry(place, lock, approved):
        pass


def take_away(place: Path, lock: Path) -> None:
    """Removes a plugin, or the link that stands for it, and its entry."""
    with staging(place.parent) as stage:
        gone = stage / place.name
        with ExitStack() as undo:
            place.rename(gone)
            undo.callback(gone.rename, place)
            with _entry(place, lock, None):
                undo.pop_all()


@contextmanager
def staging(root: Path) -> Iterator[Path]:
    """A directory beside the plugins of a root for what is not yet, or no longer, one; gone afterwards."""
    is_new = not root.exists()
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    stage = Path(mkdtemp(prefix=_STAGE, dir=root))
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if is_new and not any(root.iterdir()):
            root.rmdir()


def _sweep(root: Path) -> None:
    """What commands left behind that were killed."""
    for stage in root.glob(f"{_STAGE}*"):
        try:
            is_stale = stage.lstat().st_mtime < time.time() - _STALE_SECONDS
        except FileNotFoundError:  # its own command has ended meanwhile
            continue
        if is_stale:
            shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def _entry(place: Path, file: Path, approved: Approved | None) -> Iterator[None]:
    """Writes what the lock says of a plugin, and takes it back if the rest fails."""
    key = lock_key(place, file)
    if key is None:
        raise UsageError(
            f"{place} lies outside {file.parent}, so {file.name} cannot name it.",
            hint="'plugins' must be a directory there, not a link.",
        )
    with _alone(file.parent):
        before = read_lock(file)
        others = {name: entry for name, entry in before.plugins.items() if name != key}
        with ExitStack() as undo:
            if file.exists():
                undo.callback(write_lock, file, before)
            else:
                undo.callback(file.unlink, missing_ok=True)
            if approved is not None or key in before.plugins:
                write_lock(file, Lock(plugins={**others, **({key: approved} if approved else {})}))
            yield
            undo.pop_all()


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One command at a time changes a lock; the directory itself is what they wait for."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    """Each gets the other's name, in one step where the system has one for it."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return _exchange_in_steps(one, other)
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return None
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return _exchange_in_steps(one, other)
    raise OSError(code, os.strerror(code), str(other))


def _exchange_in_steps(one: Path, other: Path) -> None:
    aside = one.with_name(f"{one.name}.old")
    with ExitStack() as undo:
        other.rename(aside)
        undo.callback(aside.rename, other)
        one.rename(other)
        undo.pop_all()
