"""Search the text of files."""

import io
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from strands_cli.documents.files import NotRegular, Place, walk_directory
from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs
from strands_cli.tools.file_operations import _line_search
from strands_cli.tools.file_operations._globs import Parts, glob_filter, is_searched

if TYPE_CHECKING:
    from subprocess import Popen

TOOL_SPEC = {
    "name": "file_search",
    "description": (
        "Search the lines of text files in the workspace with a regular expression (Python's). Returns the "
        "matching lines with path and line number. Links are not followed; binary files, files above 5 MB "
        "and the data of version control are skipped."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "The regular expression; start it with (?i) to ignore case",
                    "minLength": 1,
                    "maxLength": 1000,
                },
                "path": {
                    "type": "string",
                    "description": "The directory to search, with those below it, or one file",
                    "default": ".",
                    "minLength": 1,
                },
                "glob": {
                    "type": "string",
                    "description": "Which files to search: '*.py' fits names in any directory, 'src/**/*.py' "
                    "paths below the searched directory",
                    "maxLength": 1000,
                },
                "max_results": {
                    "type": "integer",
                    "description": "How many matching lines to return at most",
                    "minimum": 1,
                    "maximum": 1000,
                    "default": 100,
                },
            },
            "required": ["pattern"],
        }
    },
}

_MAX_FILES = 20_000
_MAX_SECONDS = 20
_POLLS_PER_SECOND = 5


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def file_search(
    pattern: str, path: str = ".", glob: str = "", max_results: int = 100, *, context: ToolContext
) -> dict[str, Any]:
    refuse_malformed_pattern(pattern)
    with context.workspace.place(path, "searched") as start:
        files, is_cut = _files_to_search(start, glob, context)
        request = {"pattern": pattern, "max_results": max_results, "directory": start.descriptor}
        names = b"\0".join(os.fsencode("/".join((start.name, *parts))) for parts in files)
        answer = search_in_process(request, names, context)
    shown = [start.path.joinpath(*files[match["file"]]) for match in answer["matches"]]
    return {
        "matches": [
            {"path": context.workspace.display(file), "line": match["line"], "text": match["text"]}
            for file, match in zip(shown, answer["matches"], strict=True)
        ],
        "truncated": answer["truncated"] or is_cut,
        "files_searched": answer["searched"],
        "files_skipped": answer["skipped"],
    }


def _files_to_search(start: Place, glob: str, context: ToolContext) -> tuple[list[Parts], bool]:
    """The files to search, as paths below `start`, and whether there are more; `()` is `start` itself."""
    status = start.stat()
    if status is not None and stat.S_ISREG(status.st_mode):
        return [()], False
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise NotRegular(start.path)
    fits = glob_filter(glob)
    files: list[Parts] = []
    is_cut = False
    for entry in walk_directory(start, is_searched):
        if context.cancelled:
            break
        is_cut |= entry.is_too_deep
        if entry.kind == "file" and fits(entry.parts):
            if len(files) == _MAX_FILES:
                return files, True
            files.append(entry.parts)
    return files, is_cut


def refuse_malformed_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos + 1}"
        raise ToolFailed(
            f"{shorten_text(pattern)!r} is not a regular expression: {error.msg}{place}",
            code="input_invalid",
            hint=f"To search for the text itself, write {shorten_text(re.escape(pattern), 200)}",
        ) from None
    except (RecursionError, OverflowError) as error:
        raise ToolFailed(
            f"The regular expression is too complex: {error}",
            code="input_invalid",
            hint="Write a simpler one.",
        ) from None


def search_in_process(
    request: dict[str, Any], searched: bytes | io.BufferedReader, context: ToolContext
) -> dict[str, Any]:
    """Matches in a process of its own; see there for the reason. `searched` are names, or an open file."""
    import json
    import sys
    from subprocess import PIPE, Popen

    text = json.dumps({**request, "seconds": _MAX_SECONDS + 1})
    directory = request.get("directory")
    passed = () if directory is None else (directory,)
    program = [sys.executable, "-I", "-S", _line_search.__file__]
    stdin: int | io.BufferedReader = PIPE
    sent: bytes | None = None
    env = None
    if isinstance(searched, bytes):
        sent = text.encode() + b"\n" + searched
    else:
        stdin, env = searched, {**os.environ, _line_search.REQUEST: text}
    with Popen(program, stdin=stdin, stdout=PIPE, stderr=PIPE, pass_fds=passed, env=env) as process:
        try:
            output = _search_output(process, sent, context)
        finally:
            process.kill()
    answer: dict[str, Any] = json.loads(output)
    return answer


def _search_output(process: "Popen[bytes]", sent: bytes | None, context: ToolContext) -> bytes:
    from subprocess import TimeoutExpired

    for _ in range(_MAX_SECONDS * _POLLS_PER_SECOND):
        try:
            output, errors = process.communicate(sent, timeout=1 / _POLLS_PER_SECOND)
        except TimeoutExpired:
            sent = None  # it goes on being sent
            if context.cancelled:
                break
            continue
        if process.returncode:
            raise RuntimeError(errors.decode("utf-8", "replace") or f"exit {process.returncode}")
        return output
    raise ToolFailed(
        f"The search was not finished after {_MAX_SECONDS} s",
        code="timeout",
        hint="Search less at a time, and do without repeats of repeats such as (a+)+.",
    )


__getattr__ = with_tool_specs(__name__)
