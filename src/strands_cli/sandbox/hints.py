"""Which key of a manifest an executable would have needed, guessed from its standard error."""

import os
import re
import tempfile
from pathlib import Path

import msgspec

from strands_cli.sandbox.profile import Profile

_UNREACHABLE = re.compile(
    r"EAI_AGAIN|ENETUNREACH|name resolution|could not resolve|name or service not known"
    r"|network is unreachable",
    re.IGNORECASE,
)
_NOT_PERMITTED = re.compile(r"not permitted|EPERM", re.IGNORECASE)
_SOCKET = re.compile(r"socket|connect|getaddrinfo|/dev/tcp", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|EACCES", re.IGNORECASE)
_READ_ONLY = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_MISSING = re.compile(r"no such file|ENOENT", re.IGNORECASE)
_CREATES = re.compile(
    r"cannot (?:create|touch|remove|move|make)|mkdir|unlink|rename|touch|rm:|mv:", re.IGNORECASE
)
_PATH = re.compile(r"(?<![^\s'\"`:;,()<>|])[^\s'\"`:;,()<>|]*/[^\s'\"`:;,()<>|]+")
_SCRATCH, _SCRATCH_DEPTH = "/tmp", 3
_CONTEXT_LINES = 10
"""How far above an error its circumstances are looked for, as in a traceback."""


class Hint(msgspec.Struct, frozen=True):
    """What its author may have forgotten to declare. A guess, for people and models to read."""

    key: str
    """`network`, `files.read` or `files.write`."""
    path: str
    text: str


def hint_from(stderr: str, profile: Profile, directory: str) -> Hint | None:
    """The last line that looks like a refusal by the sandbox decides."""
    lines = stderr.splitlines()[-40:]
    for number in range(len(lines) - 1, -1, -1):
        around = "\n".join(lines[max(0, number - _CONTEXT_LINES) : number + 1])
        if not profile.network and _is_about_network(lines[number], around):
            return Hint("network", "", "It tried to use the network: declare `network: true` if it may.")
        if hint := _about_files(lines[number], profile, directory):
            return hint
    return None


def _is_about_network(line: str, around: str) -> bool:
    if _UNREACHABLE.search(line):
        return True
    return bool(_NOT_PERMITTED.search(line) and _SOCKET.search(around))


def _about_files(line: str, profile: Profile, directory: str) -> Hint | None:
    visible = (*profile.reads, directory)
    found = [os.path.normpath(Path(directory, path)) for path in _PATH.findall(line)]
    found = [path for path in found if not _is_within(path, profile.writes) and not _is_scratch(path)]
    hidden = next((path for path in found if not _is_within(path, visible)), "")
    if hidden and (_DENIED.search(line) or _MISSING.search(line)):
        return _write(hidden) if _CREATES.search(line) or not _is_there(hidden) else _read(hidden)
    if _READ_ONLY.search(line) or (found and _DENIED.search(line)):
        return _write(found[-1] if found else "")
    return None


def _write(path: str) -> Hint:
    where = f" {path}" if path else " outside its scratch directory"
    return Hint(
        "files.write", path, f"It tried to write{where}: declare the place under `files.write` if it may."
    )


def _read(path: str) -> Hint:
    return Hint("files.read", path, f"It tried to read {path}: declare it under `files.read` if it may.")


def _is_scratch(path: str) -> bool:
    """A path in a room's own scratch, or in one of the directories that serve where there is no room."""
    own = path.startswith(f"{_SCRATCH}/") and not _is_there(path) and path.count("/") <= _SCRATCH_DEPTH
    return own or path.startswith(f"{tempfile.gettempdir()}/strands-")


def _is_within(path: str, places: tuple[str, ...]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # out of our own reach, so certainly out of its
