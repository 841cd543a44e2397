"""What people and programs see: results on standard output, everything else on standard error."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.terminal import cell_width, clean_text, terminal_size, wrapped_text
from strands_cli.errors import Issue, SpecError, StrandsError, ToolError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from strands_cli.secrets import Redactor

# Controls that JSON need not escape, and some terminals obey.
_CONTROL = re.compile("[\x7f-\x9f]")


def prepare_streams() -> None:
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
            sys.stdout = os.fdopen(os.dup(kept), "w")
        os.close(kept)


def configure_logging(setting: str) -> None:
    """`debug`, or `tools=debug,plugins=info`: levels for all of strands_cli, or for rooms of it."""
    import logging

    class CleanFormatter(logging.Formatter):
        """What models and tools say is in the log too, and must not act on a terminal."""

        def format(self, record: logging.LogRecord) -> str:
            return clean_text(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CleanFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    for part in filter(None, (item.strip() for item in setting.split(","))):
        room, _, level = part.rpartition("=")
        known = logging.getLevelNamesMapping().get(level.upper())
        if known is None:
            levels = "debug, info, warning or error"
            hint = f"Use {levels}, or room={levels}."
            raise UsageError(f"STRANDS_LOG: {level!r} is not a level", hint=hint)
        logging.getLogger(f"strands_cli.{room}" if room else "strands_cli").setLevel(known)


def redact_logs(redactor: "Redactor") -> None:
    """For commands that run agents: no secret of the workflow gets into the log."""
    import logging

    def redact(record: logging.LogRecord) -> bool:
        record.msg, record.args = redactor.text(record.getMessage()), None
        if record.exc_info:
            record.exc_text = redactor.text(logging.Formatter().formatException(record.exc_info))
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(redact)


def print_text(text: str) -> None:
    """A result on standard output: harmless on a terminal, as it is for everybody else."""
    sys.stdout.write(f"{clean_text(text) if sys.stdout.isatty() else text}\n")
    sys.stdout.flush()


def print_json(document: Any) -> None:
    """One JSON document, and nothing else, on standard output."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=json_default)
    click.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def json_default(value: object) -> object:
    """What JSON cannot hold, as text."""
    if isinstance(value, bytes):
        from base64 import b64encode

        return b64encode(value).decode()
    return str(value)


def print_error(error: StrandsError, *, as_json: bool) -> None:
    issues = error.issues if isinstance(error, SpecError | UnsupportedError) else None
    if as_json:
        document: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
        if issues is not None:
            document["issues"] = [issue_document(issue) for issue in issues]
        if error.step:
            document["step"] = error.step
        kept = {"kept": result_document(error.kept)} if error.kept is not None else {}
        print_json({"error": document, **kept})
    elif issues:
        print_issues(issues, err=True)
    else:
        print_failure(error.message, error.hint)


def print_failure(message: str, hint: str) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {clean_text(message)}", err=True)
    if hint:
        click.echo(f"  {clean_text(hint)}", err=True)


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

    traceback.print_exc(file=sys.stderr)
    if as_json:
        print_json({"error": {"code": "bug", "message": f"{type(error).__name__}: {error}", "hint": ""}})
    click.echo("This is a bug in strands-cli. Please report it with the text above.", err=True)


def print_note(text: str) -> None:
    click.echo(clean_text(text), err=True)


def print_warning(text: str) -> None:
    click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {clean_text(text)}", err=True)


def issue_document(issue: Issue) -> dict[str, Any]:
    return msgspec.structs.asdict(issue)


def print_issues(issues: Iterable[Issue], *, err: bool) -> None:
    """Each issue in three lines at most: where, why, what to do."""
    for issue in issues:
        colour = "red" if issue.severity == "error" else "yellow"
        label = click.style(issue.severity, fg=colour)
        click.echo(f"{clean_text(issue.place)}  {label}" if issue.place else label, err=err)
        click.echo(f"  {clean_text(issue.reason)}", err=err)
        if issue.remediation:
            click.echo(f"  {clean_text(issue.remediation)}", err=err)


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
        click.echo(line)


def print_paragraphs(text: str) -> None:
    """Text with its own line breaks; on a terminal a line that is longer than the window is wrapped."""
    width = _window_width()
    for line in text.strip().splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        parts = wrapped_text(line, width - 1 - len(indent)) if width else []
        click.echo("\n".join(indent + part for part in parts) if len(parts) > 1 else line)


def _window_width() -> int | None:
    """The columns of the terminal that gets the output; None if it goes elsewhere."""
    return terminal_size(sys.stdout)[0] if sys.stdout.isatty() else None


def aligned_columns(
    rows: Sequence[Sequence[str]], *, indent: str = "  ", width: int | None = None
) -> Iterator[str]:
    """Rows as lines; a column with nothing in it is left out, and the last one is wrapped to the width.

    In a window so narrow that it would have little room, the last column stands below the others.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column)]
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


def count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
