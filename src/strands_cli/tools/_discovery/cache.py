"""What was read before, for as long as the files that it rests on are the same.

One file per scanned directory. It is only ever a shortcut: a cache that is missing, damaged, of another
version or not writable makes a scan slower and nothing else.
"""

import functools
import gc
import os
import sys
import time
from binascii import crc32  # hashlib would cost more than everything else here
from pathlib import Path

import msgspec

from strands_cli.settings import cache_directory
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery.reading import Entry, EntryPoint, Reading, Stamp

FORMAT = 1

_CHECKSUM_BYTES = 4
_MAX_FILES = 256
_TICK_NANOSECONDS = 15_000_000
"""File systems date a change by the kernel's last tick: what is younger may change again under one date."""

_MISSING: Stamp = (0, 0, 0, 0)


class Stamps(dict[str, Stamp]):
    """The stamps of files, each taken once, when it is first asked for."""

    def __missing__(self, path: str) -> Stamp:
        try:
            stamp = stamp_of(os.stat(path))  # noqa: PTH116 - a Path per file would double the cost of a scan
        except (OSError, ValueError):
            stamp = _MISSING
        self[path] = stamp
        return stamp


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


class _Page(msgspec.Struct, array_like=True):
    key: str
    entries: dict[str, Entry]


class Shelf:
    """The remembered entries of one scan: ask with `find`, add with `keep`, end with `close`."""

    def __init__(self, file: Path | None, key: str) -> None:
        self._file = file
        fields = ",".join(ToolInfo.__struct_fields__)
        self._key = f"{FORMAT}|{fields}|{sys.hexversion:x}|{_state_of_this_code()}|{key!a}"
        self._entries = self._load()
        self._used: dict[str, Entry] = {}
        self._changed = False
        self._opened = time.time_ns()
        self.stamps = Stamps()

    def find(self, name: str) -> Entry | None:
        """What is known under a name, if all the files that it rests on are as they were."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        stamps = self.stamps
        for path, stamp in entry.stamps.items():
            if stamps[path] != stamp:
                return None
        self._used[name] = entry
        return entry

    def keep(self, name: str, reading: Reading, entry_points: tuple[EntryPoint, ...] = ()) -> None:
        """Remembers something, unless a file is so young that it may still change without a trace."""
        self._changed = True
        stamps = {path: self.stamps[path] for path in reading.files}
        now = time.time_ns()
        for written, changed, _, _ in stamps.values():
            if self._opened - _TICK_NANOSECONDS <= max(written, changed) <= now + _TICK_NANOSECONDS:
                return
        entry = Entry(stamps, reading.infos, reading.issues, entry_points)
        if _can_be_written(entry):
            self._used[name] = entry

    def close(self) -> None:
        """Writes what was used or added, where that is not what was there before."""
        if self._file is None or not (self._changed or len(self._used) != len(self._entries)):
            return
        if self._used or self._entries:
            _write(self._file, _encoded(_Page(self._key, self._used)))

    def _load(self) -> dict[str, Entry]:
        if self._file is None:
            return {}
        try:
            data = self._file.read_bytes()
            body = data[_CHECKSUM_BYTES:]
            if crc32(body).to_bytes(_CHECKSUM_BYTES, "big") != data[:_CHECKSUM_BYTES]:
                return {}
            page = _decoded(body)
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return {}
        return page.entries if page.key == self._key else {}


class Cache:
    """A directory of shelves. Several processes may use it at once: the last one to write wins."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or _default_directory()

    def shelf(self, key: str) -> Shelf:
        name = f"{crc32(key.encode(errors='surrogateescape')):08x}-{len(key)}.msgpack"
        return Shelf(self._directory / name if self._directory else None, key)


def open_shelf(cache: Cache | None, key: str) -> Shelf:
    """A shelf of the cache; without a cache, one that forgets."""
    return cache.shelf(key) if cache else Shelf(None, key)


@functools.cache
def _state_of_this_code() -> int:
    """When this code was last written: who works on it wants its answer, not that of the code before."""
    try:
        with os.scandir(os.path.dirname(__file__)) as listing:  # noqa: PTH120 - as above
            return max(entry.stat().st_mtime_ns for entry in listing if entry.name.endswith(".py"))
    except (OSError, ValueError):
        return 0


def _default_directory() -> Path | None:
    try:
        return cache_directory() / "discovery"
    except RuntimeError:  # there is no home directory
        return None


def _decoded(body: bytes) -> _Page:
    """Without the garbage collector, which would walk through the new objects again and again for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return msgspec.msgpack.decode(body, type=_Page)
    finally:
        if was_enabled:
            gc.enable()


def _encoded(page: _Page) -> bytes:
    body = msgspec.msgpack.encode(page)
    return crc32(body).to_bytes(_CHECKSUM_BYTES, "big") + body


def _can_be_written(entry: Entry) -> bool:
    """A literal may hold what msgpack does not, such as an integer of a hundred digits."""
    try:
        msgspec.msgpack.encode(entry)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        return False
    return True


def _write(file: Path, data: bytes) -> None:
    """Replaces the file in one step, so that a reader sees the old content or the new."""
    from strands_cli.documents.files import write_file

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data, sync=False)
        _drop_oldest(file.parent)
    except OSError:
        return  # the next scan reads the files again


def _drop_oldest(directory: Path) -> None:
    """Directories come and go, and their shelves would stay; half of them go when there are too many."""
    files = list(directory.iterdir())
    if len(files) > _MAX_FILES:
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[: len(files) // 2]:
            file.unlink(missing_ok=True)
