"""Write a text file, as a whole or not at all."""

import errno
import os
import stat
from contextlib import ExitStack

from strands_cli.documents.files import NotRegular, Place
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "file_write",
    "description": (
        "Write text (as UTF-8) to a file in the workspace. Missing directories are made. The file is "
        "replaced in one step: it never holds a part of the new content. Only a file of more than 10 MB is "
        "appended to in place."
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


_MAX_COPIED = 10_000_000
"""To how many bytes can be appended by copying them, so that nobody ever sees a part of what is new."""
_ROOM_TO_GROW = 65_536


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="file_ops",
    requires_consent=True,
    effects={"writes": ["file:{path}"]},
    annotations={"destructiveHint": True, "openWorldHint": False},
)
def file_write(path: str, content: str, mode: str = "create", *, context: ToolContext) -> str:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(content[error.start]):04x}"
        raise ToolFailed(
            f"The content has {half} at position {error.start + 1}, which is half of a character",
            hint="Surrogates come in pairs; write the whole character.",
        ) from None
    with context.workspace.place(path, "written", make=True) as place, place.locked():
        old = _replaceable_file(place, path, mode)
        try:
            if old and mode == "append" and old.st_size > _MAX_COPIED:
                _append_in_place(place, data, path)
            else:
                _write_file_content(place, data, mode, old)
        except FileExistsError:
            raise _file_exists(path) from None
    verb = "Appended" if mode == "append" else "Wrote"
    plural = "" if len(data) == 1 else "s"
    return f"{verb} {len(data)} byte{plural} to {context.workspace.display(place.path)}"


def _replaceable_file(place: Place, path: str, mode: str) -> os.stat_result | None:
    """What is there already; ToolFailed where it may not be replaced."""
    old = place.stat()
    if old is None:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise ToolFailed(f"{path} is a directory", code="conflict", hint="Name a file in it.")
    if not stat.S_ISREG(old.st_mode):
        raise NotRegular(place.path)
    if mode == "create":
        raise _file_exists(path)
    if not place.is_writable():  # putting another file in its place would not need this permission
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _file_exists(path: str) -> ToolFailed:
    return ToolFailed(
        f"{path} already exists",
        code="conflict",
        hint="Use the mode 'overwrite' to replace it, 'append' to add to it, or another path.",
    )


def _write_file_content(place: Place, data: bytes, mode: str, old: os.stat_result | None) -> None:
    """Writes a file beside the old one and puts it in its place; a kill at any moment leaves the old one."""
    with ExitStack() as opened:
        if old and mode == "append":
            source = opened.enter_context(os.fdopen(place.open(), "rb"))
            known = os.fstat(source.fileno())
            draft = opened.enter_context(place.draft(known))
            bound = min(known.st_size, _MAX_COPIED) + _ROOM_TO_GROW
            kept = source.read(bound)
            if len(kept) == bound:  # it has grown meanwhile, and may go on growing
                raise BlockingIOError(errno.EAGAIN, "another program is writing to it")
            draft.stream.write(kept)
        else:
            draft = opened.enter_context(place.draft(old))
        draft.stream.write(data)
        draft.sync()
        draft.publish(replace=mode != "create")


def _append_in_place(place: Place, data: bytes, path: str) -> None:
    """Appends to a file that is too large to be copied. What could not be written whole is taken back."""
    descriptor = place.open(os.O_WRONLY | os.O_APPEND)
    with os.fdopen(descriptor, "wb", buffering=0) as stream:
        before = os.fstat(descriptor)
        if before.st_nlink > 1:  # the other name may be one that must not be written
            raise ToolFailed(
                f"{path} has {before.st_size:,} bytes and other names (hard links), which would change too",
                code="conflict",
                hint="Write to a new file.",
            )
        try:
            if stream.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            if os.fstat(descriptor).st_size <= before.st_size + len(
                data
            ):  # else somebody else has written too
                os.ftruncate(descriptor, before.st_size)
            raise


__getattr__ = with_tool_specs(__name__)
