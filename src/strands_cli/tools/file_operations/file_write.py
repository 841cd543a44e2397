"""Write a text file, as a whole or not at all."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.tools.file_operations._opening import displayed, refusal

TOOL_SPEC = {
    "name": "file_write",
    "description": (
        "Write text (as UTF-8) to a file of the workspace. Missing directories are made. The file is "
        "replaced in one step: it never holds a part of the new content."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The path of the file in the workspace",
                    "minLength": 1,
                },
                "content": {"type": "string", "description": "The text to write"},
                "mode": {
                    "type": "string",
                    "description": "create: only where there is no such file yet; overwrite: replace what is "
                    "there; append: add to the end of what is there",
                    "enum": ["create", "overwrite", "append"],
                    "default": "create",
                },
            },
            "required": ["path", "content"],
        }
    },
}

_NEW_FILE = 0o666


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    family="file_operations",
    category="file_ops",
    requires_consent=True,
    effects={"writes": ["file:{path}"]},
    annotations={"destructiveHint": True, "openWorldHint": False},
)
def file_write(path: str, content: str, mode: str = "create", *, context: ToolContext) -> str:
    file = context.workspace.locate(path)
    data = _encoded(content)
    _refuse_unwritable(file, path, mode)
    try:
        _make_directory(file.parent, path)
        with _alone_in(file.parent):
            _write(file, data, mode)
    except FileExistsError:
        raise _conflict(path) from None
    except OSError as error:
        raise refusal(error, file, path, "written") from None
    verb = "Appended" if mode == "append" else "Wrote"
    plural = "" if len(data) == 1 else "s"
    return f"{verb} {len(data)} byte{plural} to {displayed(context.workspace, file)}"


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(content[error.start]):04x}"
        raise ToolFailed(
            f"The content has {half} at position {error.start + 1}, which is half of a character",
            hint="Such halves come in pairs; write the whole character.",
        ) from None


def _refuse_unwritable(file: Path, path: str, mode: str) -> None:
    try:
        kind = file.stat().st_mode
    except OSError:
        return  # nothing there yet, or writing it will tell what is wrong
    if stat.S_ISDIR(kind):
        raise ToolFailed(f"{path} is a directory", code="conflict", hint="Name a file in it.")
    if not stat.S_ISREG(kind):
        raise ToolFailed(f"{path} is a pipe, a socket or a device, not a file", hint="Name a regular file.")
    if mode == "create":
        raise _conflict(path)
    if not os.access(file, os.W_OK):  # putting another file in its place would not need this permission
        raise refusal(PermissionError(errno.EACCES, ""), file, path, "written")


def _conflict(path: str) -> ToolFailed:
    return ToolFailed(
        f"{path} already exists",
        code="conflict",
        hint="Use the mode 'overwrite' to replace it, 'append' to add to it, or another path.",
    )


def _make_directory(directory: Path, path: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ToolFailed(
            f"{path} cannot be written: {directory.name} is a file, not a directory",
            code="conflict",
            hint="Choose another directory.",
        ) from None


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keeps other calls, also those of other processes, from replacing what this one is adding to."""
    descriptor = _locked(directory)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(directory: Path) -> int | None:
    """A lock that closing the descriptor ends; None where the system or the file system has none."""
    try:
        import fcntl

        descriptor = os.open(directory, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _write(file: Path, data: bytes, mode: str) -> None:
    """Writes a file beside the old one and puts it in its place; a kill at any moment leaves the old one."""
    old = file.stat() if mode != "create" and file.exists() else None
    temporary = file.with_name(f".strands-{os.urandom(8).hex()}.tmp")
    permissions = stat.S_IMODE(old.st_mode) & 0o777 if old else _NEW_FILE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, permissions)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            if old:
                _take_over(descriptor, old)
            if old and mode == "append":
                _copy(file, stream)
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        _put_in_place(temporary, file, mode)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(file.parent)


def _take_over(descriptor: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # only root may give files away
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def _copy(file: Path, target: BinaryIO) -> None:
    with file.open("rb") as source:
        while piece := source.read(1_000_000):
            target.write(piece)


def _put_in_place(temporary: Path, file: Path, mode: str) -> None:
    if mode != "create":
        temporary.replace(file)
        return
    try:
        file.hardlink_to(temporary)  # unlike replace, refuses where somebody else was faster
    except FileExistsError:
        raise
    except OSError:  # file systems without hard links
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        temporary.replace(file)


def _sync(directory: Path) -> None:
    """Makes the new name outlast a power failure, where directories can be synced."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
