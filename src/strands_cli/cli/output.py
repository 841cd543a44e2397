"""What people and programs see: results on standard output, everything else on standard error.

Everything that the command prints goes through this module, or as a live display through `terminal`. What is
not our own text is escaped first, and our colours are added afterwards. What others write to the standard
streams (warnings, logs, tracebacks, tools) is escaped by the streams themselves.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import click
import msgspec

from strands_cli.cli.terminal import (
    ODD_CHARACTERS,
    cell_width,
    clean_text,
    terminal_size,
    visible_text,
    wrapped_text,
)
from strands_cli.errors import (
    Issue,
    Paused,
    SpecError,
    StrandsError,
    ToolError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    import logging

    from strands_cli.secrets import Redactor

# What JSON need not escape. A newline in it is our own: those of values are escaped.
_ODD_IN_JSON = re.compile(f"[{ODD_CHARACTERS}]")


# --- The streams ------------------------------------------------------------------------------------------


class EscapingStream:
    """A standard stream that escapes whatever is written to it; `unescaped` is the stream below, for us."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        self.unescaped.write(visible_text(text, lines=True))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __enter__(self) -> "EscapingStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.unescaped.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def own_stream(stream: TextIO) -> TextIO:
    """The stream that takes our colours and the movements of a cursor, for what is escaped already."""
    return stream.unescaped if isinstance(stream, EscapingStream) else stream


@contextmanager
def escaping_streams() -> Iterator[None]:
    """The standard streams escape what is written to them, until the end of the block."""
    _prepare_streams()
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, EscapingStream(stream)) for stream in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def _prepare_streams() -> None:
    """Makes the standard streams take any text, and puts something in the place of those that are closed.

    Else the next file that is opened would get their number, and what is printed. Writing a result to a
    closed standard output fails; what goes to a closed standard error is for nobody.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
    if sys.stdout is None:
        # Without a buffer: what is left in one would be tried again, and complained about, at the end.
        sys.stdout = TextIOWrapper(FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(OSError):  # it writes what is left of --version, on a full disk too
                stream.reconfigure(errors="replace")


def drop_unwritable() -> None:
    """What is left in a buffer and has nowhere to go is dropped: Python must not fail over it as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def can_ask() -> bool:
    """Whether a user at the terminal can read a question and answer it."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


def may_colour() -> bool:
    """Whether terminals get colours: not if the user wants none, or the terminal has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_debugging() -> bool:
    """Whether the command was called with --debug."""
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().params.get("debug"))


@contextmanager
def tool_output_aside() -> Iterator[None]:
    """What tools and their children print goes to standard error: standard output is for the result alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        if not sys.stdout.closed:
            sys.stdout.flush()
        os.dup2(kept, 1)
        if sys.stdout.closed:  # by the tool; the result still has to be printed
            sys.stdout = cast(TextIO, EscapingStream(os.fdopen(os.dup(kept), "w")))
        os.close(kept)


def configure_logging(setting: str) -> None:
    """`debug`, or `tools=debug,plugins=info`: levels for all of strands_cli, or for rooms of it."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_clean_formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    for part in filter(None, (item.strip() for item in setting.split(","))):
        room, _, level = part.rpartition("=")
        known = logging.getLevelNamesMapping().get(level.upper())
        if known is None:
            levels = "debug, info, warning or error"
            hint = f"Use {levels}, or room={levels}."
            raise UsageError(f"STRANDS_LOG: {level!r} is not a level", hint=hint)
        logging.getLogger(f"strands_cli.{room}" if room else "strands_cli").setLevel(known)


def _clean_formatter(form: str) -> "logging.Formatter":
    import logging

    chosen = os.environ.get("STRANDS_LOG_FORMAT") or "text"
    if chosen not in ("text", "json"):
        raise UsageError(f"STRANDS_LOG_FORMAT: {chosen!r} is not a format.", hint="Use json or text.")

    class CleanFormatter(logging.Formatter):
        """What models and tools say is in the log too; the stream escapes it."""

        def format(self, record: logging.LogRecord) -> str:
            text = without_secrets(super().format(record))
            if chosen == "text":
                return text
            line = {"time": record.created, "level": record.levelname, "logger": record.name, "message": text}
            return json.dumps(line)

    return CleanFormatter(form if chosen == "text" else "%(message)s")


_hidden: "list[Redactor]" = []


def hide_secrets(redactor: "Redactor") -> None:
    """For commands that run agents: no secret of the workflow gets into the log, an error or a traceback."""
    import logging

    _hidden.append(redactor)
    if logging.lastResort is not None:  # where nothing is logged, warnings of libraries still come out
        logging.lastResort.setFormatter(_clean_formatter("%(message)s"))


def without_secrets(text: str) -> str:
    """A message without the secrets of the command and without what URLs hold of such."""
    from strands_cli.secrets import without_credentials

    for redactor in _hidden:
        text = redactor.text(text)
    return without_credentials(text)


# --- Printing ---------------------------------------------------------------------------------------------


class Styled(NamedTuple):
    """A part of a line in a colour, or bold."""

    text: str
    colour: str | None = None
    bold: bool = True


def print_line(*parts: str | Styled, err: bool = False, end: str = "\n") -> None:
    """The parts on one line, whatever they contain."""
    shown = [visible_text(part if isinstance(part, str) else part.text) for part in parts]
    if has_colours(sys.stderr if err else sys.stdout):
        for index, part in enumerate(parts):
            if isinstance(part, Styled):
                shown[index] = click.style(shown[index], fg=part.colour, bold=part.bold or None)
    _write("".join(shown) + end, err=err)


def has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that gets colours."""
    return may_colour() and stream.isatty() and (os.name != "nt" or "WT_SESSION" in os.environ)


def print_message(text: str, *label: str | Styled, err: bool = True, indent: str = "") -> None:
    """A text behind its label. Lines after the first are indented, so that none of them looks like ours."""
    first, *more = without_secrets(text).replace("\r\n", "\n").expandtabs(4).split("\n")
    print_line(indent, *label, first, err=err)
    for line in more:
        print_line(f"{indent}  {line}".rstrip(), err=err)


def print_text(text: str) -> None:
    """A result on standard output: harmless on a terminal, as it is for everybody else."""
    _write(f"{clean_text(text) if sys.stdout.isatty() else text}\n", err=False)


def _write(text: str, *, err: bool) -> None:
    """Fails where a result cannot be written, but not for a message, nor if its reader is gone."""
    stream = own_stream(sys.stderr if err else sys.stdout)
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        drop_unwritable()
    except (OSError, ValueError):
        if not err:
            raise


def print_json(document: Any) -> None:
    """One JSON document, and nothing else, on standard output."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=json_default)
    _write(_ODD_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n", err=False)


def json_default(value: object) -> object:
    """What JSON cannot hold, as text."""
    if isinstance(value, bytes):
        from base64 import b64encode

        return b64encode(value).decode()
    return str(value)


def print_error(error: StrandsError, *, as_json: bool) -> None:
    issues = error.issues if isinstance(error, SpecError | UnsupportedError) else None
    if as_json:
        message, hint = map(without_secrets, (error.message, error.hint))
        document: dict[str, Any] = {"code": error.code, "message": message, "hint": hint}
        if issues is not None:
            document["issues"] = [issue_document(issue) for issue in issues]
        if error.step:
            document["step"] = error.step
        if error.run_id:
            document["run_id"] = error.run_id
        if isinstance(error, Paused) and error.questions:
            document["questions"] = [msgspec.structs.asdict(question) for question in error.questions]
        kept = {"kept": result_document(error.kept)} if error.kept is not None else {}
        print_json({"error": document, **kept})
    elif issues:
        print_issues(issues, err=True)
    else:
        is_resumable = isinstance(error, Paused) and bool(error.run_id)
        # The last line of the hint is ours where a run can be resumed; others may quote whoever has failed.
        hint, _, way_on = error.hint.rpartition("\n") if error.run_id else (error.hint, "", "")
        print_failure(error.message, hint, is_paused=is_resumable)
        if way_on:
            print_message(way_on, indent="  ")


def print_failure(message: str, hint: str, *, is_paused: bool = False) -> None:
    print_message(message, Styled("paused:", "yellow") if is_paused else Styled("error:", "red"), " ")
    if hint:
        print_message(hint, indent="  ")


def exit_code_of(error: StrandsError) -> int:
    """A tool's failure exits as the table of codes says, whether the tool or something before it failed."""
    if not isinstance(error, ToolError):
        return error.exit_code
    from strands_cli.toolkit.results import error_code_row

    return error_code_row(error.code).exit_code


def result_document(result: Any) -> dict[str, Any]:
    """A RunResult for programs."""
    document = {name: value for name, value in msgspec.structs.asdict(result).items() if name != "scope"}
    document["usage"] = _usage_document(result.usage)
    document["steps"] = [
        {**msgspec.structs.asdict(step), "usage": _usage_document(step.usage)} for step in result.steps
    ]
    return document


def _usage_document(usage: Any) -> dict[str, int]:
    return {**msgspec.structs.asdict(usage), "total_tokens": usage.total_tokens}


def print_bug(error: Exception, *, as_json: bool) -> None:
    import traceback

    sys.stderr.write(without_secrets(traceback.format_exc()))
    if as_json:
        message = without_secrets(f"{type(error).__name__}: {error}")
        print_json({"error": {"code": "bug", "message": message, "hint": ""}})
    print_line("This is a bug in strands-cli. Please report it with the text above.", err=True)


def print_note(text: str) -> None:
    print_message(text)


def print_warning(text: str) -> None:
    print_message(text, Styled("warning:", "yellow"), " ")


def issue_document(issue: Issue) -> dict[str, Any]:
    shown = {name: without_secrets(getattr(issue, name)) for name in ("reason", "remediation")}
    return {**msgspec.structs.asdict(issue), **shown}


def print_issues(issues: Iterable[Issue], *, err: bool) -> None:
    """Each issue in three lines at most, in the order of the file: where, why, what to do."""
    for issue in sorted(issues, key=lambda issue: (issue.file, issue.line, issue.column)):
        colour = "red" if issue.severity == "error" else "yellow"
        label = Styled(issue.severity, colour, bold=False)
        print_line(*([issue.place, "  "] if issue.place else []), label, err=err)
        print_message(issue.reason, err=err, indent="  ")
        if issue.remediation:
            print_message(issue.remediation, err=err, indent="  ")


def print_findings(issues: Sequence[Issue], *, document: dict[str, Any], summary: str, as_json: bool) -> int:
    """What a check has found, as one JSON document or for people; the answer is the exit code."""
    if as_json:
        print_json({**document, "issues": [issue_document(issue) for issue in issues]})
    else:
        print_issues(issues, err=False)
        print_note(summary)
    return SpecError.exit_code if any(issue.severity == "error" for issue in issues) else 0


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> None:
    """Rows with aligned columns; on a terminal the words of the last column are wrapped to the window."""
    for line in aligned_columns(rows, indent=indent, width=_window_width()):
        print_line(line)


def print_paragraphs(text: str) -> None:
    """Text with its own line breaks; on a terminal a line that is longer than the window is wrapped."""
    width = _window_width()
    for line in visible_text(text.strip(), lines=True).split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        parts = wrapped_text(line, width - 1 - len(indent)) if width else []
        for part in [indent + part for part in parts] if len(parts) > 1 else [line.expandtabs(4)]:
            print_line(part)


def _window_width() -> int | None:
    """The columns of the terminal that gets the output; None if it goes elsewhere."""
    return terminal_size(sys.stdout)[0] if sys.stdout.isatty() else None


def aligned_columns(
    rows: Sequence[Sequence[str]], *, indent: str = "  ", width: int | None = None
) -> Iterator[str]:
    """Rows as lines; a column with nothing in it is left out, and the last one is wrapped to the width.

    In a window so narrow that it would have little room, the last column stands below the others.
    """
    shown_rows = (
        [visible_text(" ".join(cell.split()) if "\n" in cell else cell) for cell in row] for row in rows
    )
    columns = [column for column in zip(*shown_rows, strict=True) if any(column)]
    widths = [max(cell_width(cell) for cell in column) for column in columns[:-1]]
    begin = len(indent) + sum(widths) + 2 * len(widths)
    is_below = bool(width and widths and width - 1 - begin < _NARROWEST)
    hanging = indent + " " * 4 if is_below else " " * begin
    for *cells, last in zip(*columns, strict=True):
        padded = [cell + " " * (room - cell_width(cell)) for cell, room in zip(cells, widths, strict=True)]
        shown = [last]
        if width and (is_below or begin + cell_width(last) >= width):
            shown = wrapped_text(last, width - 1 - len(hanging)) or [""]
        if is_below:
            yield (indent + "  ".join(padded)).rstrip()
        else:
            yield (indent + "  ".join([*padded, shown.pop(0)])).rstrip()
        yield from (hanging + part for part in shown if part)


_NARROWEST = 30
"""How many cells of text are worth a column."""


def markdown_text(text: str) -> str:
    """A text as one line in which nothing means something to Markdown or HTML."""
    return re.sub(r"([\\`*\[\]<>|&])", r"\\\1", visible_text(" ".join(text.split())))


def count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
