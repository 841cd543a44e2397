"""The text of a tool file as a syntax tree, and the files that its imports mean."""

import ast
import stat
import warnings
from pathlib import Path

from strands_cli.errors import Issue

MAX_SOURCE_BYTES = 1_000_000

_UNREADABLE = "Make the file readable, or move it out of the tools directory."


def parse(file: Path) -> ast.Module | Issue:
    """The file's syntax tree, or why there is none."""
    data = _read(file)
    if isinstance(data, Issue):
        return data
    try:
        with warnings.catch_warnings():
            # A warning about somebody's backslash is for whoever runs that file.
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except SyntaxError as error:
        return _syntax_issue(file, data, error)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = f"It cannot be parsed: {str(error) or type(error).__name__}"
        return _refusal(file, reason, line=_line_of_null(data))


def _read(file: Path) -> bytes | Issue:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return _refusal(file, "It is not a regular file", remedy=_UNREADABLE)
        if status.st_size > MAX_SOURCE_BYTES:
            size = f"It has {status.st_size:,} bytes; at most {MAX_SOURCE_BYTES:,} are read"
            return _refusal(file, size, remedy="Move its data into a file of its own.")
        with file.open("rb") as stream:
            return stream.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        return _refusal(file, f"It cannot be read: {error.strerror}", remedy=_UNREADABLE)


def _syntax_issue(file: Path, data: bytes, error: SyntaxError) -> Issue:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        if b"coding" not in data[:200]:
            line = data.count(b"\n", 0, wrong.start) + 1
            reason = f"It is not UTF-8: the byte 0x{data[wrong.start]:02x} on line {line} cannot be decoded"
            return _refusal(file, reason, line=line, remedy="Save the file as UTF-8.")
    line = error.lineno or _line_of_null(data) or 1
    remedy = "Correct the syntax; nothing of the file can be used until then."
    return _refusal(file, f"Syntax error: {error.msg}", line=line, column=error.offset or 0, remedy=remedy)


def _line_of_null(data: bytes) -> int:
    place = data.find(b"\0")
    return data.count(b"\n", 0, place) + 1 if place >= 0 else 1


def _refusal(file: Path, reason: str, *, line: int = 0, column: int = 0, remedy: str = "") -> Issue:
    remedy = remedy or "Correct the file; nothing of it can be used until then."
    return Issue(file=str(file), line=line, column=max(column, 0), reason=f"{reason}.", remediation=remedy)


def resolve_import(file: Path, root: Path, module: str, level: int) -> Path | None:
    """The path, without a suffix, that an import in `file` means; None where that is outside of `root`.

    An absolute import is matched by the names of the directories around the file, since the package that a
    tools directory will be loaded as is not always the one that its author had in mind.
    """
    here = file.parent
    parts = module.split(".") if module else []
    if level:
        base = [here, *here.parents][min(level - 1, len(here.parents))]
        return base.joinpath(*parts) if base.is_relative_to(root) else None
    if len(parts) == 1:
        return here / parts[0]
    for anchor in (here, here.parent):
        if anchor.is_relative_to(root) and anchor.name in parts:
            last = len(parts) - 1 - parts[::-1].index(anchor.name)
            return anchor.joinpath(*parts[last + 1 :])
    return None
