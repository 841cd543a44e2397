"""Look into one text file: lines that match, its first lines, its last lines. All with their numbers."""

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from typing import Any

from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.toolkit.workspace import file_refusal
from strands_cli.tools import with_tool_specs
from strands_cli.tools.file_operations.file_read import (
    HEAD_BYTES,
    MAX_BYTES,
    not_a_text_file,
    too_much_to_read,
)
from strands_cli.tools.file_operations.file_search import refuse_malformed_pattern, search_in_process

_PATH = {"type": "string", "description": "The path of the file in the workspace", "minLength": 1}
_IGNORE_CASE = {"type": "boolean", "description": "Whether upper and lower case are the same"}
_MAX_MATCHES = {
    "type": "integer",
    "description": "How many matching lines to return at most",
    "minimum": 1,
    "maximum": 1000,
}
_LINES = {
    "type": "integer",
    "description": "How many lines to return",
    "minimum": 1,
    "maximum": 100000,
    "default": 10,
}
_BYTES_LIMIT = {
    "type": "integer",
    "description": "Return no more than this many bytes of the file, even if a line is cut",
    "minimum": 1,
    "maximum": 10000000,
}

GREP_SPEC = {
    "name": "grep",
    "description": (
        "Find the lines of one text file in the workspace that match a regular expression (Python's). "
        "Returns them with line numbers ('12: text') and the lines around them ('11- text')."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "The regular expression",
                    "minLength": 1,
                    "maxLength": 1000,
                },
                "path": _PATH,
                "context_lines": {
                    "type": "integer",
                    "description": "How many lines to show before and after each match",
                    "minimum": 0,
                    "maximum": 100,
                    "default": 3,
                },
                "ignore_case": {**_IGNORE_CASE, "default": False},
                "max_matches": {**_MAX_MATCHES, "default": 100},
            },
            "required": ["pattern", "path"],
        }
    },
}
SEARCH_SPEC = {
    "name": "search",
    "description": (
        "Find the lines of one text file in the workspace that contain a text. Returns them with their line "
        "numbers ('12: text')."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "The text to find",
                    "minLength": 1,
                    "maxLength": 1000,
                },
                "path": _PATH,
                "is_regex": {
                    "type": "boolean",
                    "description": "Whether the query is a regular expression (Python's)",
                    "default": False,
                },
                "ignore_case": {**_IGNORE_CASE, "default": True},
                "max_matches": {**_MAX_MATCHES, "default": 50},
            },
            "required": ["query", "path"],
        }
    },
}
HEAD_SPEC = {
    "name": "head",
    "description": "Read the first lines of a text file in the workspace, with line numbers ('1: text').",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {"path": _PATH, "lines": _LINES, "bytes_limit": _BYTES_LIMIT},
            "required": ["path"],
        }
    },
}
TAIL_SPEC = {
    "name": "tail",
    "description": "Read the last lines of a text file in the workspace, with line numbers ('98: text').",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {"path": _PATH, "lines": _LINES, "bytes_limit": _BYTES_LIMIT},
            "required": ["path"],
        }
    },
}

_PIECE = 1_000_000
_INNER_BYTES = bytes(range(0x80, 0xC0))
"""All bytes of a character in UTF-8 but its first."""


@tool(
    spec=GREP_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def grep(
    pattern: str,
    path: str,
    context_lines: int = 3,
    ignore_case: bool = False,
    max_matches: int = 100,
    *,
    context: ToolContext,
) -> str:
    request = {"pattern": pattern, "max_results": max_matches, "ignore_case": ignore_case}
    return _matching_lines({**request, "around": context_lines}, path, context)


@tool(
    spec=SEARCH_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def search(
    query: str,
    path: str,
    is_regex: bool = False,
    ignore_case: bool = True,
    max_matches: int = 50,
    *,
    context: ToolContext,
) -> str:
    pattern = query if is_regex else re.escape(query)
    request = {"pattern": pattern, "max_results": max_matches, "ignore_case": ignore_case, "around": 0}
    return _matching_lines(request, path, context)


@tool(
    spec=HEAD_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def head(path: str, lines: int = 10, bytes_limit: int | None = None, *, context: ToolContext) -> str:
    limit = bytes_limit or MAX_BYTES
    kept: list[bytes] = []
    with _open_text(path, context) as stream:
        while len(kept) < lines and limit and (line := stream.readline(limit)):
            kept.append(line)
            limit -= len(line)
        if not limit and bytes_limit is None:
            what = f"The first {lines} lines of {path} have {MAX_BYTES:,} bytes or more"
            raise too_much_to_read(what, "bytes_limit")
        return _numbered_lines(b"".join(kept), 1, path, stream)


@tool(
    spec=TAIL_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def tail(path: str, lines: int = 10, bytes_limit: int | None = None, *, context: ToolContext) -> str:
    limit = bytes_limit or MAX_BYTES
    with _open_text(path, context) as stream:
        start = max(0, os.fstat(stream.fileno()).st_size - limit)
        stream.seek(start)
        kept = BytesIO(stream.read(limit)).readlines()
        is_cut = start > 0 and len(kept) <= lines
        if is_cut and bytes_limit is None:
            what = f"The last {lines} lines of {path} have {MAX_BYTES:,} bytes or more"
            raise too_much_to_read(what, "bytes_limit")
        if is_cut:
            kept[0] = kept[0].lstrip(_INNER_BYTES)
        last = b"".join(kept[-lines:])
        first = _count_lines(stream, start, context) + max(0, len(kept) - lines) + 1
        return _numbered_lines(last, first, path, stream)


def _matching_lines(request: dict[str, Any], path: str, context: ToolContext) -> str:
    refuse_malformed_pattern(request["pattern"])
    with _open_text(path, context) as stream:
        answer = search_in_process(request, stream, context)
    if not answer["found"]:
        return f"No line of {path} matches."
    shown: list[str] = []
    before = 0
    for number, is_match, text in answer["lines"]:
        if before and number > before + 1 and request["around"]:
            shown.append("--")
        shown.append(f"{number}{':' if is_match else '-'} {text}")
        before = number
    if answer["truncated"]:
        shown.append(f"… There are more matches; {request['max_results']} are shown.")
    return "\n".join(shown)


@contextmanager
def _open_text(path: str, context: ToolContext) -> Iterator[BufferedReader]:
    """The file, at its beginning; ToolFailed where it is binary or cannot be read."""
    with context.workspace.open(path) as stream:
        try:
            _refuse_binary(stream.read(HEAD_BYTES), path, stream)
            stream.seek(0)
            os.lseek(stream.fileno(), 0, os.SEEK_SET)  # for the process that inherits it
            yield stream
        except OSError as error:
            raise file_refusal(error, path, "read") from None


def _refuse_binary(data: bytes, path: str, stream: BufferedReader) -> None:
    if b"\0" in data:
        raise not_a_text_file(path, os.fstat(stream.fileno()).st_size, data, "UTF-8")


def _count_lines(stream: BufferedReader, end: int, context: ToolContext) -> int:
    """How many lines end before a place in the file."""
    stream.seek(0)
    count = 0
    while end and not context.cancelled and (piece := stream.read(min(end, _PIECE))):
        count += piece.count(b"\n")
        end -= len(piece)
    return count


def _numbered_lines(data: bytes, first: int, path: str, stream: BufferedReader) -> str:
    _refuse_binary(data, path, stream)
    if not os.fstat(stream.fileno()).st_size:
        return f"{path} is empty."
    # A character that a limit has cut is left out.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data.removeprefix(codecs.BOM_UTF8))
    lines: Iterable[str] = text.removesuffix("\n").split("\n")
    return "\n".join(f"{number}: {line.rstrip(chr(13))}" for number, line in enumerate(lines, first))


__getattr__ = with_tool_specs(__name__)
