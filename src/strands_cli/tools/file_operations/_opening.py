"""Opening files of the workspace, and saying in one sentence why one cannot be opened."""

import errno
import io
import os
import stat
from pathlib import Path

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.workspace import Workspace, nearest_sibling

_REASONS = {
    errno.EACCES: ("permission is denied", "forbidden", "Choose another place, or change its permissions."),
    errno.EPERM: ("permission is denied", "forbidden", "Choose another place, or change its permissions."),
    errno.EROFS: ("the file system is read-only", "forbidden", "Choose another place."),
    errno.ENOSPC: ("the disk is full", "failed", "Free some space; nothing was changed."),
    errno.EDQUOT: ("the disk quota is used up", "failed", "Free some space; nothing was changed."),
    errno.EFBIG: ("it would be larger than a file may be here", "failed", "Write less; nothing was changed."),
    errno.ENAMETOOLONG: ("the name is too long", "failed", "Choose a shorter name."),
    errno.ELOOP: ("its links lead in a circle", "failed", "Name the file that is meant."),
    errno.ENOTDIR: (
        "a part of its path is a file, not a directory",
        "not_found",
        "file_list shows what is there.",
    ),
}


def open_regular(file: Path, path: str) -> io.BufferedReader:
    """A located file, opened for reading; ToolFailed where it is none. `path` is how the caller named it."""
    try:
        stream: io.BufferedReader = io.BufferedReader(io.FileIO(file, opener=_open_at_once))
    except OSError as error:
        raise refusal(error, file, path, "read") from None
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise ToolFailed(f"{path} is a pipe, a socket or a device, not a file", hint="Name a regular file.")


def _open_at_once(file: str, flags: int) -> int:
    """Without waiting for the writer of a named pipe, and not through a link put there since."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def refusal(error: OSError, file: Path, path: str, act: str) -> ToolFailed:
    """What to say of an error of the operating system; `act` is "read", "written", "listed" or "searched"."""
    if isinstance(error, FileNotFoundError):
        return ToolFailed(f"No such file or directory: {path}", code="not_found", hint=nearest_sibling(file))
    if isinstance(error, IsADirectoryError):
        return ToolFailed(f"{path} is a directory", hint="file_list shows what is in it.")
    reason, code, hint = _REASONS.get(error.errno or 0, (error.strerror or str(error), "failed", ""))
    return ToolFailed(f"{path} cannot be {act}: {reason}", code=code, hint=hint)


def displayed(workspace: Workspace, file: str | Path) -> str:
    """How a path is shown. A name need not be text, but what is told of it has to be."""
    return os.fsencode(workspace.display(Path(file))).decode("utf-8", "replace")
