"""The files that confined code sees: a small tree in memory behind `open`, `os` and `pathlib`.

Runs in the zygote and its children, so it imports nothing of ours. It is a convenience and no wall: what
keeps code away from real files is the kernel.
"""

# ruff: noqa: PLR0917, PTH116 - the functions stand in for those of `os`, with their parameters

import builtins
import errno
import io
import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

BACKGROUND = "/usr/share/"
_LONGEST_PATH = 4096
_FILE_MODE, _DIRECTORY_MODE = 0o100644, 0o040755
_real_open = io.open
_real_stat = os.stat


class MemoryFiles:
    """Files by absolute path. Directories are there when they were made or when something is below them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.given: dict[str, bytes] = {}
        """What came from outside, or has been sent there already."""
        self.folders: set[str] = {"/", "/tmp"}
        self.background: dict[str, bytes] = {}
        """Files that are there to be read and are not the code's own, such as time zones."""
        self.here = "/"

    def put(self, name: str, data: bytes) -> None:
        self.files[self.place(name)] = self.given[self.place(name)] = data

    def changed(self) -> Iterator[tuple[str, bytes]]:
        """The files that are new or differ, by their names from the root; each is told once."""
        for path, data in sorted(self.files.items()):
            if self.given.get(path) != data:
                self.given[path] = data
                yield path.lstrip("/"), data

    def place(self, path: Any) -> str:
        text = os.fsdecode(path)
        return posixpath.normpath(posixpath.join(self.here, text)).replace("//", "/")

    def content(self, path: str) -> bytes | None:
        found = self.files.get(path)
        return self.background.get(path) if found is None else found

    def is_folder(self, path: str) -> bool:
        below = path.rstrip("/") + "/"
        return path in self.folders or any(known.startswith(below) for known in self._known(path))

    def names_in(self, path: str) -> list[str]:
        below = path.rstrip("/") + "/"
        known = (name for name in (*self._known(path), *self.folders) if name.startswith(below))
        return sorted({name[len(below) :].split("/")[0] for name in known} - {""})

    def _known(self, path: str) -> Iterable[str]:
        """The background is seen only by who asks for a place in it."""
        return (*self.files, *self.background) if path.startswith(BACKGROUND) else self.files


class _WritableFile(io.BytesIO):
    """A file that is being written: what is in it is in the tree as soon as it is flushed."""

    def __init__(self, tree: MemoryFiles, path: str, data: bytes) -> None:
        super().__init__(data)
        self.name = path
        self._tree = tree

    def flush(self) -> None:
        super().flush()
        self._tree.files[self.name] = self.getvalue()

    def close(self) -> None:
        if not self.closed:
            self.flush()
        super().close()


class _ReadOnlyFile(io.BytesIO):
    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(data)
        self.name = path

    def writable(self) -> bool:
        return False

    def write(self, _data: Any) -> int:
        raise io.UnsupportedOperation("not writable")


class _AppendedFile(_WritableFile):
    def write(self, data: Any) -> int:
        self.seek(0, io.SEEK_END)
        return super().write(data)


def _open_memory_file(tree: MemoryFiles, path: str, given: Any, mode: str) -> io.BytesIO:
    found = tree.content(path)
    if len(path) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), given)
    if tree.is_folder(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
    if found is None and "r" in mode:
        raise _no_such_file(given)
    if found is not None and "x" in mode:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), given)
    if "r" in mode and "+" not in mode:
        return _ReadOnlyFile(path, found or b"")
    if not tree.is_folder(posixpath.dirname(path)):
        raise _no_such_file(given)
    start = b"" if found is None or "w" in mode else found
    stored = (_AppendedFile if "a" in mode else _WritableFile)(tree, path, start)
    stored.flush()
    return stored


class _DirectoryEntry:
    """As much of `os.DirEntry` as programs look at."""

    def __init__(self, tree: MemoryFiles, folder: Any, name: str) -> None:
        self.name = name
        self.path = posixpath.join(os.fspath(folder), name)
        self._is_folder = tree.is_folder(tree.place(self.path))

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is_folder

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return not self._is_folder

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path)


class _DirectoryEntries:
    """As much of what `os.scandir` returns: an iterator that can be closed."""

    def __init__(self, entries: Iterable[_DirectoryEntry]) -> None:
        self._rest = iter(list(entries))

    def __enter__(self) -> "_DirectoryEntries":
        return self

    __iter__ = __enter__

    def __next__(self) -> _DirectoryEntry:
        return next(self._rest)

    def close(self, *_error: object) -> None:
        self._rest = iter([])

    __exit__ = close


class _FileFunctions:
    """`open`, and the functions of `os` that speak of paths."""

    def __init__(self, tree: MemoryFiles) -> None:
        self._tree = tree

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if isinstance(file, int):
            return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        letters = set(mode)
        if letters - set("rwxabt+") or len(letters & set("rwxa")) != 1 or {"b", "t"} <= letters:
            raise ValueError(f"invalid mode: {mode!r}")
        if "b" in mode and (encoding or errors or newline):
            raise ValueError("binary mode doesn't take an encoding argument")
        raw = _open_memory_file(self._tree, self._tree.place(file), file, mode)
        if "b" in mode:
            return raw
        text = io.TextIOWrapper(raw, encoding or "utf-8", errors, newline)
        text.mode = mode  # type: ignore[misc]  # the attribute that open() gives to its own
        return text

    def stat(self, path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True) -> os.stat_result:
        if isinstance(path, int):
            return _real_stat(path)
        place = self._tree.place(path)
        data = self._tree.content(place)
        if data is None and not self._tree.is_folder(place):
            raise _no_such_file(path)
        mode = _DIRECTORY_MODE if data is None else _FILE_MODE
        return os.stat_result((mode, hash(place) & 0xFFFFFFFF, 1, 1, 0, 0, len(data or b""), 0, 0, 0))

    def access(self, path: Any, mode: int, **_options: Any) -> bool:
        place = self._tree.place(path)
        return self._tree.content(place) is not None or self._tree.is_folder(place)

    def listdir(self, path: Any = ".") -> list[str]:
        place = self._tree.place(path)
        if not self._tree.is_folder(place):
            raise _no_such_file(path)
        return self._tree.names_in(place)

    def scandir(self, path: Any = ".") -> _DirectoryEntries:
        return _DirectoryEntries(_DirectoryEntry(self._tree, path, name) for name in self.listdir(path))

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        place = self._tree.place(path)
        if self._tree.content(place) is not None or self._tree.is_folder(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not self._tree.is_folder(posixpath.dirname(place)):
            raise _no_such_file(path)
        self._tree.folders.add(place)

    def rmdir(self, path: Any, *, dir_fd: Any = None) -> None:
        place = self._tree.place(path)
        if not self._tree.is_folder(place):
            raise _no_such_file(path)
        if self._tree.names_in(place):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._tree.folders.discard(place)

    def remove(self, path: Any, *, dir_fd: Any = None) -> None:
        if self._tree.files.pop(self._tree.place(path), None) is None:
            raise _no_such_file(path)

    def rename(self, src: Any, dst: Any, **_options: Any) -> None:
        place = self._tree.place(src)
        if place not in self._tree.files:
            raise _no_such_file(src)
        self._tree.files[self._tree.place(dst)] = self._tree.files.pop(place)

    def chdir(self, path: Any) -> None:
        if not self._tree.is_folder(self._tree.place(path)):
            raise _no_such_file(path)
        self._tree.here = self._tree.place(path)


def _no_such_file(path: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def install_memory_files(tree: MemoryFiles) -> None:
    """From here on, `open`, `io.open` and the functions of `os` on paths see the tree and nothing else."""
    calls = _FileFunctions(tree)
    names = "stat access listdir scandir mkdir rmdir remove rename chdir"
    for name in names.split():
        setattr(os, name, getattr(calls, name))
    os.lstat, os.unlink, os.replace = calls.stat, calls.remove, calls.rename
    os.getcwd = lambda: tree.here
    builtins.open = io.open = calls.open
