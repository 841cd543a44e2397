"""Exports and imports a run as one file, to continue it on another machine.

The file has one JSON value per line: a header, then the rows of the journal. It may come from a stranger, so
every row is checked before the first is stored, and the rights of its author (such as consent) are dropped.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

import msgspec

from strands_cli.documents.files import protected_part
from strands_cli.documents.reader import MAX_BYTES as MAX_FILE_BYTES
from strands_cli.errors import SessionError
from strands_cli.exec.history import read_run
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.recording import Block, Message
from strands_cli.exec.run_records import CHAT
from strands_cli.exec.step_rows import OWN_NAME
from strands_cli.exec.stores import RUN_ID
from strands_cli.secrets import without_credentials
from strands_cli.types.run_results import StepResult, Usage

T = TypeVar("T")

FORMAT = "strands-run"
VERSION = 1
MAX_BYTES = 256_000_000
MAX_ROWS = 500_000
MAX_VALUES = 10_000_000
"""In all rows, estimated by the characters that begin a value: each takes about 100 bytes of memory."""
MAX_DEPTH = 100
"""Of nested values; our own rows have less than 30 levels."""
MAX_FILES = 1000
"""Of a workflow, including those that it runs."""
_KEY = re.compile(r"(?!(?:[^/]*/){100})[^\x00-\x20\x7f]{1,1000}")
_ASKED = re.compile(r"(?P<step>.+)/(?P<what>consent|ask)/(?P<number>[0-9]+)/(?P<part>question|answer)")
_GRANTS = {"host": "--host", "force": "--force", "allow_write": "--allow-write", "yes": "--yes"}
_WHERE = "Export it again: strands runs export ID"


class _FirstLine(msgspec.Struct, kw_only=True):
    format: str
    version: int
    id: str = ""
    rows: int = 0


class _Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    key: str
    value: msgspec.Raw


class _Options(msgspec.Struct, kw_only=True):
    provider: str = ""
    model_id: str = ""
    out: str = ""
    trace: bool = False


class _Head(msgspec.Struct, kw_only=True):
    """The fields that a run needs to continue."""

    name: str
    pattern: str
    file: str
    project: str
    directory: str
    created: float
    variables: dict[str, Any]
    environment: dict[str, str]
    options: _Options


class _Spec(msgspec.Struct):
    files: dict[str, str]


class _Answer(msgspec.Struct):
    last_response: str
    output: Any


class _Status(msgspec.Struct):
    """The status of a finished run; an unfinished run needs none."""

    status: str
    answer: _Answer
    usage: Usage
    seconds: float
    done: list[str]


class _Kept(msgspec.Struct, kw_only=True):
    at: float


class _Begun(_Kept, kw_only=True):
    kind: str
    prompt: str
    fingerprint: str


class _Question(_Kept, kw_only=True):
    question: str


class _GivenAnswer(_Kept, kw_only=True):
    text: str


class _Content(msgspec.Struct):
    content: list[Block]


class _Sent(_Kept, kw_only=True):
    content: list[Block]


class _ModelAnswer(_Kept, kw_only=True):
    model: str
    message: Message
    stop_reason: str
    usage: Usage


class _Called(_Kept, kw_only=True):
    result: _Content


class _Compaction(_Kept, kw_only=True):
    before: int
    messages: list[Message]


class _Result(StepResult, frozen=True, kw_only=True):
    at: float


_KINDS: Mapping[str, Any] = {
    "begun": _Begun,
    "question": _Question,
    "answer": _GivenAnswer,
    "result": _Result,
    "user": _Sent,
    "model": _ModelAnswer,
    "summary": _ModelAnswer,
    "tool": _Called,
    "compaction": _Compaction,
}
"""The form that the engine expects of a step's rows, by the name of the row."""


class Archive(msgspec.Struct, frozen=True):
    """A run that was read from a file."""

    id: str
    rows: dict[str, Any]
    left: tuple[str, ...] = ()
    """The rights of its author that were dropped, in words."""

    def encoded(self) -> dict[str, bytes]:
        return {key: encode_row(row) for key, row in self.rows.items()}


def archive_lines(run: str, rows: Mapping[str, bytes]) -> Iterator[bytes]:
    """The lines of a file with a run."""
    first = {"format": FORMAT, "version": VERSION, "id": run, "rows": len(rows), "exported": time.time()}
    yield msgspec.json.encode(first) + b"\n"
    for key, row in rows.items():
        row = _without_password(row) if key == "head" else row
        yield b'{"key":' + msgspec.json.encode(key) + b',"value":' + row + b"}\n"


def _without_password(row: bytes) -> bytes:
    """The head of a run without a password in `--host`: nobody who gets the file needs it."""
    head = decode_row(row)
    host = head.get("options", {}).get("host")
    return (
        encode_row({**head, "options": {**head["options"], "host": without_credentials(host)}})
        if host
        else row
    )


def read_archive(data: bytes, name: str) -> Archive:
    """The run in a file; SessionError with the line if it is invalid or incomplete."""
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise _refused(f"{name} has more than {MAX_VALUES} values.")
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    first = _first_line(lines, name)
    rows: dict[str, bytes] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            row = msgspec.json.decode(line, type=_Row)
            rows[row.key] = data = bytes(row.value)
            value = decode_row(data)
        except (ValueError, RecursionError, SessionError) as error:
            raise _refused(f"{name}:{number} is not a row of a run: {error}.") from None
        if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_deep(value):
            raise _refused(f"{name}:{number}: values are nested more than {MAX_DEPTH} deep.")
        if not _KEY.fullmatch(row.key):
            raise _refused(f"{name}:{number}: the key of this row is not valid.")
    if len(rows) != first.rows:
        raise _refused(f"{name} is incomplete: it has {len(rows)} rows instead of {first.rows}.")
    try:
        read_run(first.id, rows, time.time())
    except SessionError as error:
        raise _refused(f"{name}: {error.message}") from None
    decoded = {key: decode_row(row) for key, row in rows.items()}
    _check_rows(decoded, name)
    return Archive(first.id, decoded)


def _first_line(lines: Sequence[bytes], name: str) -> _FirstLine:
    hint = "Use a file that 'strands runs export' has written."
    try:
        first = msgspec.json.decode(lines[0] if lines else b"", type=_FirstLine)
    except (ValueError, RecursionError):
        raise SessionError(f"{name} is not an exported run.", hint=hint) from None
    if first.format != FORMAT or not RUN_ID.fullmatch(first.id):
        raise SessionError(f"{name} is not an exported run.", hint=hint)
    if first.version > VERSION:
        reason = f"{name} was written by a newer version of strands-cli."
        update = f"Update strands-cli. The file has version {first.version}; this one supports {VERSION}."
        raise SessionError(reason, hint=update)
    if len(lines) > MAX_ROWS:
        raise _refused(f"{name} has more than {MAX_ROWS} rows.")
    return first


def _is_deep(value: Any, left: int = MAX_DEPTH) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left < 0 or any(_is_deep(one, left - 1) for one in inner)


def _check_rows(rows: Mapping[str, Any], name: str) -> None:
    """Checks the form that the engine expects of rows."""
    if (
        _checked("head", rows.get("head"), _Head, name).pattern == CHAT
    ):  # its tools would be used without asking
        hint = "Save it as text with /save in the chat."
        raise SessionError(f"{name} is a chat, which cannot be imported.", hint=hint)
    files = _checked("spec", rows.get("spec"), _Spec, name).files
    if (rows.get("status") or {}).get("status") == "done":
        for step in _checked("status", rows["status"], _Status, name).done:
            _checked(f"{step}/result", rows.get(f"{step}/result"), _Result, name)
    for key, row in rows.items():
        if row is not None and (own := OWN_NAME.fullmatch(key)):
            parts = own["name"].split("/")
            _checked(key, row, _KINDS[parts[-1] if parts[0] in ("consent", "ask") else parts[0]], name)
    if not files or len(files) > MAX_FILES:
        raise _refused(f"{name} has no workflow, or one of more than {MAX_FILES} files.")
    if large := [file for file, text in files.items() if len(text) > MAX_FILE_BYTES]:
        raise _refused(f"{name}: the workflow's file {large[0]!r} has more than {MAX_FILE_BYTES} characters.")


def _checked(key: str, row: Any, kind: type[T], name: str) -> T:
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise _refused(f"{name}: the row {key!r} is invalid: {error}.") from None


def _refused(reason: str) -> SessionError:
    return SessionError(reason, hint=_WHERE)


# --- On another machine -----------------------------------------------------------------------------------


def moved_run(archive: Archive, run: str, *, project: Path, directory: Path) -> Archive:
    """The run adapted to this project, without the rights that its author had."""
    rows, left = dict(archive.rows), list[str]()
    head, moved = rows["head"], MovedPaths(rows["head"]["project"], project)
    options = dict(head["options"])
    for key, word in _GRANTS.items():
        if options.pop(key, None):
            left.append(word)
    begun = moved.place(head["directory"])
    begun = begun if begun is not None and begun.is_dir() and moved.is_inside(begun) else directory
    if (given := options.get("out") or ".") != ".":
        out = moved.place(given) if _pure(given).is_absolute() else begun / given
        fits = out is not None and moved.is_inside(out) and not moved.is_protected(out)
        options["out"] = os.path.realpath(out) if out is not None and fits else "."
        left += [] if fits else ["--out"]
    file = moved.place(head["file"])
    if file is None or file == project:
        file = project / (_pure(head["file"]).name.replace("..", "") or "workflow.yaml")
    rows["head"] = {
        **head,
        "id": run,
        "file": str(file),
        "project": str(project),
        "directory": str(begun),
        "options": options,
        "imported": True,
    }
    status = dict(rows.get("status") or {})
    status.pop("owner", None)
    if status.get("status", "running") in ("running", "queued"):
        status["status"] = "interrupted"
    rows["status"] = status
    for name in ("engine", "workflow"):  # workers of another machine run it no longer
        rows["head"].pop(name, None)
    rows.pop("artifacts", None)  # the run did not write the files on this machine
    left += _dropped_answers(rows)
    return Archive(run, rows, tuple(dict.fromkeys(left)))


def _dropped_answers(rows: dict[str, Any]) -> Iterator[str]:
    """Drops consent and answers that would cause calls on this machine; yields what was dropped, in words.

    Finished steps never run again, so they keep theirs for display. Open consent questions are kept; an
    answer counts only if the question showed exactly the calls that are to be made.
    """
    for found in [*filter(None, map(_ASKED.fullmatch, rows))]:
        step, number = found["step"], int(found["number"])
        if rows.get(f"{step}/begun") is not None and rows.get(f"{step}/result") is not None:
            continue
        is_open = _has_open_calls(rows, step, number)
        if found["part"] == "answer":
            del rows[found[0]]
            if found["what"] == "ask":
                yield "answers to questions of tools"
            elif is_open:
                yield "consent to calls that were not made yet"
        elif found["what"] == "ask" or not is_open or rows[found[0]] is None:
            del rows[found[0]]
        else:
            rows[found[0]] = {**rows[found[0]], "imported": True}


def _has_open_calls(rows: Mapping[str, Any], step: str, turn: int) -> bool:
    """Whether a call of a turn has no result yet."""
    answer = rows.get(f"{step}/model/{turn}") or {"message": {"content": [{"toolUse": {}}]}}
    calls = sum("toolUse" in block for block in answer["message"]["content"])
    return not calls or any(rows.get(f"{step}/tool/{turn}/{place}") is None for place in range(calls))


class MovedPaths:
    """Maps paths of the old project to this one."""

    def __init__(self, old: str, new: Path) -> None:
        self._old, self._new = _pure(old), Path(os.path.realpath(new))

    def place(self, path: str) -> Path | None:
        """The same path in this project; None if it was outside the old one."""
        pure = _pure(path)
        if type(pure) is not type(self._old) or not pure.is_relative_to(self._old) or ".." in pure.parts:
            return None
        return self._new.joinpath(*pure.relative_to(self._old).parts)

    def is_inside(self, path: Path) -> bool:
        """Whether the real path is inside the project: links may lead anywhere."""
        return Path(os.path.realpath(path)).is_relative_to(self._new)

    def is_protected(self, path: Path) -> bool:
        """Users may write artifacts to a protected directory, but an imported run must not choose one."""
        return protected_part(Path(os.path.realpath(path)), self._new) is not None


def _pure(path: str) -> PurePath:
    return PureWindowsPath(path) if PureWindowsPath(path).drive else PurePosixPath(path)
