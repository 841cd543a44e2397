"""What a tool may not write although it lies in a directory that it may write: see `files.PROTECTED_NAMES`.

What exists when a call begins is mounted read-only over the directory. A name that does not exist cannot be
kept free that way, so the directory is looked at again after the call, and what has appeared is renamed.
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
"""How many directories are looked at, the nearest first: a large workspace must not slow every call."""
_RENAMED = ".refused"
_log = logging.getLogger(__name__)


class Guard(msgspec.Struct, frozen=True):
    """The protected paths of the directories that a call may write, as they are when it begins."""

    roots: tuple[Path, ...]
    """Those of the workspace."""
    writes: tuple[str, ...]
    """Real paths."""
    found: dict[str, str]
    """Each protected path with what tells it from another that takes its place."""

    @property
    def has_directories(self) -> bool:
        return any(Path(path).is_dir() for path in self.writes)

    @property
    def kept(self) -> tuple[str, ...]:
        """What a mount can protect: files and directories, except those that the tool declares by name."""
        return tuple(path for path, mark in self.found.items() if not mark.startswith("link"))

    def rename_new(self, tool_id: str) -> str:
        """Renames the protected paths that appeared since, or were replaced, and tells which; often empty."""
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
        # By descriptor: what it stands in could have become a link meanwhile.
        with suppress(OSError), locate(parent, top, [top], links=False) as place, place.directory() as inside:
            assert isinstance(inside, int)
            new = name + _RENAMED
            if new in os.listdir(inside):
                new += f"-{os.urandom(4).hex()}"
            os.rename(name, new, src_dir_fd=inside, dst_dir_fd=inside)
            return new
        return ""


def guard_of(writes: tuple[str, ...], roots: tuple[Path, ...]) -> Guard:
    """Guards what a call may write. A path that is protected itself was declared by name, and is left out."""
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
    """A directory by its number, a link by its target; a file, which editors replace, by its directory."""
    with suppress(OSError):  # gone again
        if entry.is_symlink():
            return f"link to {os.readlink(entry.path)}"
        if not entry.is_dir(follow_symlinks=False):
            return f"file in {os.stat(directory).st_ino}"
    return f"directory {entry.inode()}"
