"""Protected paths inside writable directories: see `files.PROTECTED_NAMES`.

Protected paths that exist when a call begins are mounted read-only. A path that does not exist yet cannot be
mounted, so the directory is searched again after the call, and new protected paths are renamed.
"""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from strands_cli.documents.files import is_protected_name, locate, protected_part

MAX_DIRECTORIES = 64
"""How many directories are searched, the nearest first: a large workspace must not slow down every call."""
_RENAMED = ".refused"
_log = logging.getLogger(__name__)


class Guard(msgspec.Struct, frozen=True):
    """The protected paths of the directories that a call may write, as they are when it begins."""

    roots: tuple[Path, ...]
    """The roots of the workspace."""
    writes: tuple[str, ...]
    """Real paths."""
    found: dict[str, str]
    """Each protected path, with a mark that changes if another file replaces it."""

    @property
    def has_directories(self) -> bool:
        return any(Path(path).is_dir() for path in self.writes)

    @property
    def kept(self) -> tuple[str, ...]:
        """The paths to mount read-only: files and directories, but no links."""
        return tuple(path for path, mark in self.found.items() if not mark.startswith("link"))

    def rename_new(self, tool_id: str) -> str:
        """Renames protected paths that are new or were replaced. Returns a message if there are any."""
        if not self.has_directories:
            return ""
        now = guard_of(self.writes, self.roots).found
        renamed = [
            f"{path} (now {new})"
            for path, mark in now.items()
            if mark != self.found.get(path)
            if (new := self._rename(path))
        ]
        if not renamed:
            return ""
        message = f"{tool_id} created a protected path, which was renamed: {', '.join(renamed)}"
        _log.warning(message)
        return message

    def _rename(self, path: str) -> str:
        top = next(Path(place) for place in self.writes if Path(path).is_relative_to(place))
        parent, name = os.path.split(path)
        # By descriptor: the parent could have become a link in the meantime.
        with suppress(OSError), locate(parent, top, [top], links=False) as place, place.directory() as inside:
            assert isinstance(inside, int)
            new = name + _RENAMED
            if new in os.listdir(inside):
                new += f"-{os.urandom(4).hex()}"
            os.rename(name, new, src_dir_fd=inside, dst_dir_fd=inside)
            return new
        return ""


def guard_of(writes: tuple[str, ...], roots: tuple[Path, ...]) -> Guard:
    """Guards the paths that a call may write. A protected path that the tool declares by name is left out."""
    found: dict[str, str] = {}
    for place in writes:
        if not any(protected_part(Path(place), root) for root in roots):
            found.update((path, mark) for path, mark in _protected_below(place, roots) if path not in writes)
    return Guard(roots, writes, found)


def _protected_below(top: str, roots: Iterable[Path]) -> Iterator[tuple[str, str]]:
    ahead, tops = deque([top]), {str(root) for root in roots}
    for _ in range(MAX_DIRECTORIES):
        if not ahead:
            return
        place = ahead.popleft()
        for entry in _entries(place):
            inner = entry.is_dir(follow_symlinks=False)
            if is_protected_name(entry.name, below_root=place in tops, is_directory=inner):
                yield entry.path, _mark(entry, place)
            elif inner:
                ahead.append(entry.path)


def _entries(directory: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(directory) as entries:
            return [*entries]
    except OSError:  # a file, or not ours to read
        return []


def _mark(entry: "os.DirEntry[str]", directory: str) -> str:
    """A directory by its inode, a link by its target, a file by its directory: editors replace files."""
    with suppress(OSError):  # gone again
        if entry.is_symlink():
            return f"link to {os.readlink(entry.path)}"
        if not entry.is_dir(follow_symlinks=False):
            return f"file in {os.stat(directory).st_ino}"
    return f"directory {entry.inode()}"
