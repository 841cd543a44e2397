"""List a directory."""

from typing import Any

from strands_cli.documents.files import walk_directory
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs
from strands_cli.tools.file_operations._globs import glob_filter, is_searched

TOOL_SPEC = {
    "name": "file_list",
    "description": (
        "List the files and directories in a directory in the workspace, sorted by path, with type (file, "
        "directory, link or other) and size in bytes. Links are not followed. At most 1000 entries are "
        "returned; truncated says that there are more."
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

_MAX_ENTRIES = 1000


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def file_list(
    path: str = ".", pattern: str = "", recursive: bool = False, *, context: ToolContext
) -> dict[str, Any]:
    fits = glob_filter(pattern)
    entries: list[dict[str, Any]] = []
    is_cut = False
    with context.workspace.place(path, "listed") as directory:
        for entry in walk_directory(directory, descend=lambda entry: recursive and is_searched(entry)):
            if context.cancelled:
                break
            is_cut |= recursive and entry.is_too_deep
            if not fits(entry.parts):
                continue
            if len(entries) == _MAX_ENTRIES:
                return {"entries": entries, "truncated": True}
            shown = context.workspace.display(directory.path.joinpath(*entry.parts))
            entries.append({"path": shown, "type": entry.kind, "size": entry.size})
    return {"entries": entries, "truncated": is_cut}


__getattr__ = with_tool_specs(__name__)
