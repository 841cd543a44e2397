"""The directories of plugins: where they lie, and what is in one. Light, since every listing asks."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

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


def located(place: Path) -> Path:
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


def digests(directory: Path) -> dict[str, str]:
    """Every file below a directory, by its relative path: `sha256:…`, or `link:…` with where a link leads."""
    root = str(directory)
    return {path[len(root) + 1 :]: _digest(path, entry) for path, entry in _walk(root)}


def paths_of(directory: Path) -> list[str]:
    """Every file and directory that `digests` rests on, for whoever remembers what came of it."""
    files = [path for path, _ in _walk(str(directory))]
    return [*sorted({os.path.dirname(path) for path in files} | {str(directory)}), *files]


def identity_of(status: os.stat_result) -> Identity:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def neighbourhood(executable: Path) -> tuple[tuple[str, Identity], ...]:
    """The files beside an executable, itself included: what it is likely to consist of."""
    try:
        with os.scandir(executable.parent) as listing:
            found = [(entry.name, identity_of(entry.stat())) for entry in listing if entry.is_file()]
    except OSError:
        return ()  # it is gone, and starting it will say so
    return tuple(sorted(found))


def _walk(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(root) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry.path, entry


def _digest(path: str, entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"link:{os.readlink(path)}"
    if not entry.is_file():
        return "special"
    identity = identity_of(entry.stat())
    known = _hashes.get(path)
    if known is not None and known[0] == identity:
        return known[1]
    digest = _sha256(path)
    if time.time_ns() - max(identity[:2]) > _TICK_NANOSECONDS:
        _hashes[path] = identity, digest
    return digest


def _sha256(path: str) -> str:
    from hashlib import file_digest

    with open(path, "rb") as stream:
        return f"sha256:{file_digest(stream, 'sha256').hexdigest()}"
