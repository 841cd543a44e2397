"""List a directory."""

import os
from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.tools.file_operations._opening import displayed, refusal
from strands_cli.tools.file_operations._walking import glob_filter, walk

TOOL_SPEC = {
    "name": "file_list",
    "description": (
        "List the files and directories in a directory of the workspace, sorted by path, with type (file, "
        "directory, link or other) and size in bytes. Links are not followed. At most 1000 entries are "
        "returned; truncated tells that there are more."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The directory to list",
                    "default": ".",
                    "minLength": 1,
                },
                "pattern": {
                    "type": "string",
                    "description": "A glob that chooses the entries: '*.py' fits names in any directory, "
                    "'src/**/*.py' paths below the listed directory",
                    "maxLength": 1000,
                },
                "recursive": {
                    "type": "boolean",
                    "description": "Whether to list the directories below as well",
                    "default": False,
                },
            },
        }
    },
}

_MOST_ENTRIES = 1000


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    family="file_operations",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def file_list(
    path: str = ".", pattern: str = "", recursive: bool = False, *, context: ToolContext
) -> dict[str, Any]:
    directory = context.workspace.locate(path)
    fits = glob_filter(pattern)
    entries: list[dict[str, Any]] = []
    try:
        for parts, entry in walk(directory, recursive=recursive):
            if context.cancelled:
                break
            if not fits(parts):
                continue
            if len(entries) == _MOST_ENTRIES:
                return {"entries": entries, "truncated": True}
            entries.append({"path": displayed(context.workspace, entry.path), **_facts(entry)})
    except NotADirectoryError:
        raise ToolFailed(f"{path} is not a directory", hint="If it is a file, file_read reads it.") from None
    except OSError as error:
        raise refusal(error, directory, path, "listed") from None
    return {"entries": entries, "truncated": False}


def _facts(entry: "os.DirEntry[str]") -> dict[str, Any]:
    if entry.is_symlink():
        return {"type": "link", "size": None}
    if entry.is_dir(follow_symlinks=False):
        return {"type": "directory", "size": None}
    if not entry.is_file(follow_symlinks=False):
        return {"type": "other", "size": None}
    try:
        return {"type": "file", "size": entry.stat(follow_symlinks=False).st_size}
    except OSError:  # deleted in the meantime
        return {"type": "file", "size": None}
