"""The tools of one directory, from the cache where nothing has changed.

A cache is only ever a shortcut: one that is missing, damaged, of another version or not writable makes a scan
slower and nothing else.
"""

import functools
import os
import sys
import time
from binascii import crc32  # hashlib would cost more than everything else here
from collections.abc import Collection
from pathlib import Path

import msgspec

from strands_cli.documents.files import is_directory, read_regular_file, write_file
from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import MAX_MODULES, Discovered, is_module_name, join_discovered

# `tool_files` is imported where something has to be read: on a second run that is nowhere, without `ast`.

FORMAT = 3

_CHECKSUM_BYTES = 4
_MAX_FILES = 256
_MAX_CACHE_BYTES = 50_000_000
TICK_NANOSECONDS = 15_000_000
"""File systems date a change by the kernel's last tick: what is younger may change again under one date."""

Stamp = tuple[int, int, int, int]
"""When a file was written, when anything about it changed, its size and its number."""
MISSING: Stamp = (0, 0, 0, 0)


# --- the cache --------------------------------------------------------------------------------------------


class _CacheEntry(msgspec.Struct, frozen=True, array_like=True):
    """What was found under a name, with the state of the files that it rests on."""

    found: Discovered
    stamps: tuple[Stamp, ...]


class FileStamps(dict[str, Stamp]):
    """The stamps of files, each taken once, when it is first asked for."""

    is_complete = True
    """Whether all files are in it that somebody looked for."""

    def __missing__(self, path: str) -> Stamp:
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        except (OSError, ValueError):
            stamp = MISSING
        self[path] = stamp
        return stamp


class CacheFile:
    """What is remembered of one scan: ask with `find`, add with `keep`, end with `close`."""

    def __init__(self, file: Path | None, key: str) -> None:
        self._file = file
        fields = ",".join(ToolInfo.__struct_fields__)
        self._key = f"{FORMAT}|{fields}|{sys.hexversion:x}|{_state_of_this_code()}|{key!a}"
        self._entries = self._load()
        self._used: dict[str, _CacheEntry] = {}
        self._opened = time.time_ns()
        self._stamps = FileStamps()

    def find(self, name: str) -> Discovered | None:
        """What is known under a name, if all the files that it rests on are as they were."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        for path, stamp in zip(entry.found.files, entry.stamps, strict=True):
            if self._stamps[path] != stamp:
                return None
        self._used[name] = entry
        return entry.found

    def keep(self, name: str, found: Discovered) -> None:
        """Remembers something, unless a file is so young that it may still change without a trace."""
        stamps = tuple(self._stamps[path] for path in found.files)
        now = time.time_ns()
        for written, changed, _, _ in stamps:
            if self._opened - TICK_NANOSECONDS <= max(written, changed) <= now + TICK_NANOSECONDS:
                return
        entry = _CacheEntry(found, stamps)
        try:
            msgspec.msgpack.encode(entry)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            return  # a literal may hold what msgpack does not, such as an integer of a hundred digits
        self._used[name] = entry

    def close(self) -> None:
        """Writes what was used or added, where that is not what was there before."""
        if self._file is None or self._used == self._entries:
            return
        body = msgspec.msgpack.encode((self._key, self._used))
        _write_cache_file(self._file, crc32(body).to_bytes(_CHECKSUM_BYTES, "big") + body)

    def _load(self) -> dict[str, _CacheEntry]:
        if self._file is None:
            return {}
        try:
            data = read_regular_file(self._file, _MAX_CACHE_BYTES)
            body = data[_CHECKSUM_BYTES:]
            if crc32(body).to_bytes(_CHECKSUM_BYTES, "big") != data[:_CHECKSUM_BYTES]:
                return {}
            key, entries = msgspec.msgpack.decode(body, type=tuple[str, dict[str, _CacheEntry]])
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
            return {}
        return entries if key == self._key else {}


class Cache:
    """A directory of cache files; without a directory, nothing is remembered.

    Several processes may use it at once: the last one to write wins.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def file(self, key: str) -> CacheFile:
        name = f"{crc32(key.encode(errors='surrogateescape')):08x}-{len(key)}.msgpack"
        return CacheFile(self._directory / name if self._directory else None, key)


NO_CACHE = Cache()


@functools.cache
def _state_of_this_code() -> int:
    """When this code was last written: who works on it wants its answer, not that of the code before."""
    here = Path(__file__).parent
    directories = (here, here.parent / "sources", here.parents[1] / "plugins", here.parents[1] / "mcp")
    files = [file for directory in directories for file in directory.glob("*.py") if file.is_file()]
    return max((file.stat().st_mtime_ns for file in files), default=0)


def _write_cache_file(file: Path, data: bytes) -> None:
    """Replaces the file in one step, so that a reader sees the old content or the new."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data, sync=False)
        # Directories come and go, and their files would stay: half of them go when there are too many.
        files = list(file.parent.iterdir())
        if len(files) > _MAX_FILES:
            for old in sorted(files, key=lambda file: file.stat().st_mtime_ns)[: len(files) // 2]:
                old.unlink(missing_ok=True)
    except OSError:
        return  # the next scan reads the files again


# --- directories ------------------------------------------------------------------------------------------


def scan_directory(
    directory: Path,
    *,
    package: str,
    source: str,
    origin: str,
    cache: Cache = NO_CACHE,
    skip: Collection[str] = (),
) -> Discovered:
    """What the modules and families of a tools directory declare, in the order of their names.

    `package` is the dotted name that the directory is loaded as; `skip` has names without suffix. Without an
    `origin`, each tool gets its own file, relative to the directory that holds this one.
    """
    root = os.path.abspath(directory)  # the cheap one: nothing is asked of the file system
    known = cache.file(f"{root}|{package}|{source}|{origin}")
    try:
        candidates = _tool_candidates(root)
    except FileNotFoundError:
        return Discovered()
    except OSError as error:
        return Discovered(issues=(unreadable_directory(root, error),))
    parts: list[Discovered] = []
    directories = {name for name, is_module, _ in candidates if not is_module}
    for name, is_module, path in candidates[:MAX_MODULES]:
        if name in skip:
            continue
        found = known.find(path)
        if is_module and name in directories and _is_family(f"{root}{os.sep}{name}"):
            reason = f"{name}.py can never be loaded: Python prefers the package {name}/ beside it."
            found = _unloadable_module(path, reason, f"Rename one of them, or move {name}.py into {name}/.")
        elif found is None:
            found = _read_candidate(Path(path), f"{package}.{name}", is_module, source, origin)
            known.keep(path, found)
        parts.append(found)
    known.close()
    if len(candidates) > MAX_MODULES:
        reason = f"The directory has {len(candidates):,} modules and families; {MAX_MODULES:,} are read."
        issue = Issue(file=root, reason=reason, remediation="Move what is not a tool to another directory.")
        parts.append(Discovered(issues=(issue,)))
    return join_discovered(parts)


def _tool_candidates(root: str) -> list[tuple[str, bool, str]]:
    """The names without suffix, whether each is a module, and the paths."""
    found: list[tuple[str, bool, str]] = []
    with os.scandir(root) as listing:
        for entry in listing:
            if is_module_name(entry.name):
                found.append((entry.name[:-3], True, entry.path))
            elif entry.name[0] not in "_." and entry.name != "tests" and is_directory(entry):
                found.append((entry.name, False, entry.path))
    return sorted(found)


def _is_family(directory: str) -> bool:
    return os.path.isfile(f"{directory}{os.sep}__init__.py")


def _read_candidate(path: Path, module_path: str, is_module: bool, source: str, origin: str) -> Discovered:
    if "." in (path.stem if is_module else path.name):
        reason = f"{path.name} can never be loaded: there is a dot in its name."
        return _unloadable_module(str(path), reason, "Rename it.")
    if not is_module and not _is_family(str(path)):
        return _read_plain_directory(path)
    from strands_cli.tools._discovery.tool_files import read_tools

    return read_tools(path, module_path=module_path, source=source, origin=origin, is_family=not is_module)


def _unloadable_module(path: str, reason: str, remedy: str) -> Discovered:
    return Discovered(issues=(Issue(file=path, line=1, reason=reason, remediation=remedy),), files=(path,))


def _read_plain_directory(directory: Path) -> Discovered:
    """Without an `__init__.py` a directory is not a family; a likely mistake where it holds modules."""
    files = (str(directory), str(directory / "__init__.py"))
    try:
        modules = sorted(file.name for file in directory.iterdir() if is_module_name(file.name))
    except OSError as error:
        return Discovered(issues=(unreadable_directory(directory, error),), files=files)
    if not modules:
        return Discovered(files=files)
    issue = Issue(
        severity="warning",
        file=files[0],
        reason=f"The directory holds {modules[0]}, but it is not a family: it has no __init__.py.",
        remediation=f"Add {files[1]}, or rename the directory to _{directory.name}.",
    )
    return Discovered(issues=(issue,), files=files)


def unreadable_directory(path: str | Path, error: OSError) -> Issue:
    reason = f"The directory cannot be read: {error.strerror}."
    return Issue(file=str(path), reason=reason, remediation="Make it readable, or remove it.")
