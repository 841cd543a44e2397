"""`strands runs`: lists, shows and deletes the runs in the journal."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from strands_cli.cli.app import LazyGroup
from strands_cli.cli.options import complete_runs, json_option
from strands_cli.cli.output import (
    Styled,
    can_ask,
    count_text,
    print_columns,
    print_json,
    print_line,
    print_note,
)
from strands_cli.cli.terminal import cut_text, duration_text, one_line, terminal_size, tokens_text
from strands_cli.cli.timeline import (
    moment_text,
    question_lines,
    run_facts,
    timeline_lines,
    waiting_questions,
    way_on,
)
from strands_cli.cli.transcript import transcript_lines
from strands_cli.errors import SessionError, UsageError
from strands_cli.exec.history import CHAT, RunSummary, RunView, list_runs, read_run
from strands_cli.exec.stores import Store, find_run, open_store
from strands_cli.settings import load_settings

STATUSES = ("queued", "running", "paused", "interrupted", "failed", "budget", "done")
# Commands in other modules, as in `app.COMMANDS`; those of this module are added below.
COMMANDS: dict[str, tuple[str, str]] = {
    "watch": ("strands_cli.cli.cluster:watch_command", "Show the progress of a run that goes on elsewhere."),
    "cancel": ("strands_cli.cli.cluster:cancel_command", "Cancel a run that goes on elsewhere."),
    "export": ("strands_cli.cli.run_transfer:export_run", "Write a run to a file, for another machine."),
    "import": ("strands_cli.cli.run_transfer:import_run", "Import a run from a file."),
}
_DAY = 86_400.0
_SHORT = 80
_LONGEST_NAME = 64
_PIPE_WIDTH = 120


@click.group(cls=LazyGroup, table=COMMANDS, aliases={"cleanup": "clean"})
def runs() -> None:
    """List, show, watch, cancel, delete, export and import runs. `strands sessions` is the same."""


@contextmanager
def opened_store() -> Iterator[Store]:
    """The user's journal, closed at the end of the block."""
    store = open_store(load_settings(Path()))
    try:
        yield store
    finally:
        store.close()


# --- list -------------------------------------------------------------------------------------------------


@runs.command("list")
@click.option(
    "--status",
    type=click.Choice([*STATUSES, "completed"]),
    help="List only runs with this status; completed is the same as done.",
)
@click.option(
    "-n",
    "most",
    type=click.IntRange(0),
    default=20,
    help="The maximum number of runs; 20 by default, 0 for all.",
)
@click.option("--all", "everywhere", is_flag=True, help="List the runs of all projects.")
@click.option("--verbose", "-v", is_flag=True, help="Also show when each was last active, and its file.")
@json_option
def list_command(status: str | None, most: int, everywhere: bool, verbose: bool, as_json: bool) -> None:
    """List the runs of this project with their status and cost, the newest first."""
    status = "done" if status == "completed" else status
    with opened_store() as store:
        found = list_runs(store.runs())
    here = found if everywhere else [*_of_this_project(found)]
    chosen = [run for run in here if status in (None, run.status)]
    shown = chosen[:most] if most else chosen
    if as_json:
        print_json({"runs": [msgspec.to_builtins(run) for run in shown]})
        return
    print_columns([_row(run, verbose=verbose, shows_project=everywhere) for run in shown], indent="")
    if len(shown) < len(chosen):
        hidden = len(chosen) - len(shown)
        verb = "is" if hidden == 1 else "are"
        print_note(f"{count_text(hidden, 'older run')} {verb} not shown; -n 0 lists all.")
    if not chosen:
        print_note("There are no such runs." if here else "There are no runs yet.")
    if not here and found:
        print_note(_ELSEWHERE)


_ELSEWHERE = "'strands runs list --all' lists the runs of other projects."


def _of_this_project(found: Sequence[RunSummary]) -> Iterator[RunSummary]:
    """Yields the runs that began in this project, and those that cannot be read."""
    project = str(load_settings().project)
    return (run for run in found if run.project in (project, ""))


def _row(run: RunSummary, *, verbose: bool = False, shows_project: bool = False) -> tuple[str, ...]:
    return (
        run.id,
        cut_text(one_line(run.name), _LONGEST_NAME) or "-",
        run.status,
        count_text(run.steps, "step"),
        tokens_text(run.usage.total_tokens) if run.usage.total_tokens else "",
        duration_text(run.seconds),
        moment_text(run.created),
        *((run.project,) if shows_project else ()),
        *((f"active {moment_text(run.updated)}", run.file) if verbose else ()),
        cut_text(one_line(run.error[: 4 * _SHORT]), _SHORT),
    )


# --- show -------------------------------------------------------------------------------------------------


@runs.command()
@click.argument("run", metavar="[ID]", default="", shell_complete=complete_runs)
@click.option(
    "--transcript", is_flag=True, help="Print every prompt, message, tool call and result, step by step."
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write everything to FILE as one page for a browser.",
)
@click.option(
    "-n",
    "most",
    type=click.IntRange(0),
    default=200,
    help="The maximum number of steps to draw; 200 by default, 0 for all.",
)
@json_option
def show(run: str, transcript: bool, html: Path | None, most: int, as_json: bool) -> None:
    """Show what a run did, with a line for each step on a common time axis.

    ID is the id of a run or its first characters; by default, the latest run of this project.
    """
    if transcript + as_json + (html is not None) > 1:
        raise UsageError("--transcript, --html and --json cannot be combined.", hint="Use one of them.")
    view = load_view(run)
    if as_json:
        print_json(msgspec.to_builtins(view, builtin_types=(bytes,)))
    elif transcript:
        _print_transcript(view)
    elif html is not None:
        _write_page(view, html)
    else:
        _print_timeline(view, most)


def load_view(run: str) -> RunView:
    """The run with this id, or the latest one of this project. Raises SessionError if it does not exist."""
    with opened_store() as store:
        if not run:
            found = list_runs(store.runs())
            latest = next(_of_this_project(found), None)
            if latest is None:
                hint = f"Start one: strands run FILE{f'; {_ELSEWHERE}' if found else ''}"
                raise SessionError("There are no runs yet.", hint=hint)
            run = latest.id
        run = find_run(store, run)
        return read_run(run, store.load(run), time.time())


def _window_width() -> int | None:
    return terminal_size(sys.stdout)[0] if sys.stdout.isatty() else None


def _print_transcript(view: RunView) -> None:
    colours = {"step": "cyan", "label": "green", "trouble": "red"}
    _print_head(view)
    for line in transcript_lines(view, _window_width()):
        print_line(
            Styled(line.text, colours[line.kind], bold=line.kind == "step")
            if line.kind in colours
            else line.text
        )


def _print_timeline(view: RunView, most: int) -> None:
    _print_head(view)
    width = _window_width()
    if view.steps:
        print_line()
        for parts in timeline_lines(view, sys.stdout, width or _PIPE_WIDTH, most):
            print_line(*parts)
    for notice in view.notices:
        print_line(f"  notice: {one_line(notice.text)}")
    for asked, command in waiting_questions(view):
        print_line()
        for parts in question_lines(asked, command, width):
            print_line(*parts)
    if command := way_on(view):
        print_line()
        print_line(f"  {command}")


def _print_head(view: RunView) -> None:
    head, status = view.head, view.status
    print_line(Styled(f"{one_line(head.name) or 'run'} {view.id}"), f"  {status.status}")
    print_line(f"  {', '.join(run_facts(view))}")
    if head.pattern != CHAT:
        print_line(f"  {head.file}")
    for name, value in head.variables.items():
        print_line(f"  {one_line(name)} = {cut_text(one_line(str(value)[: 4 * _SHORT]), _SHORT)}")
    for path in view.artifacts:
        print_line(f"  wrote {path}")
    if status.error and status.status != "paused":
        print_line("  ", Styled(one_line(status.error), "red", bold=False))


def _write_page(view: RunView, file: Path) -> None:
    from strands_cli.cli.run_page import page_text

    text = page_text(view)
    from strands_cli.artifacts import write_named_file

    try:
        write_named_file(file, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.", hint="Use another file.") from None
    print_note(f"Wrote {file}")


# --- delete and clean -------------------------------------------------------------------------------------


_unasked_option = click.option(
    "--yes", "-y", "--force", "-f", "yes", is_flag=True, help="Delete them without asking."
)


@runs.command()
@click.argument("ids", metavar="ID…", nargs=-1, required=True, shell_complete=complete_runs)
@_unasked_option
@json_option
def delete(ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete runs. If one of them does not exist or is running, none is deleted.

    On a terminal you are asked to confirm.
    """
    with opened_store() as store:
        known = {run.id: run for run in list_runs(store.runs())}
        chosen = [known[run] for run in dict.fromkeys(find_run(store, one) for one in ids)]
        for run in chosen:
            if run.is_in_use:
                hint = f"Wait until it ends, or cancel it first: strands runs cancel {run.id}"
                raise SessionError(f"Run {run.id} is {run.status}.", hint=hint)
        if not yes and not as_json and can_ask():
            _agree_to_delete(chosen, as_json=as_json)
        _delete(store, chosen, as_json=as_json)


@runs.command()
@click.option(
    "--older-than",
    "--max-age-days",
    "days",
    type=click.FloatRange(0),
    default=30,
    metavar="DAYS",
    help="Delete runs that ended more than DAYS ago; 30 by default.",
)
@click.option("--all", "also_unfinished", is_flag=True, help="Also delete runs that could be resumed.")
@click.option("--keep-completed", is_flag=True, help="Delete only runs that could be resumed.")
@_unasked_option
@json_option
def clean(days: float, also_unfinished: bool, keep_completed: bool, yes: bool, as_json: bool) -> None:
    """Delete old runs of all projects: those that are done, and with --all those that could be resumed.

    The runs are listed first, and deleted after you confirm. Running ones are never deleted.
    """
    with opened_store() as store:
        oldest, found = time.time() - days * _DAY, list_runs(store.runs())
        statuses = set() if keep_completed else {"done"}
        if also_unfinished or keep_completed:
            statuses |= {run.status for run in found if not run.is_in_use} - {"done"}
        chosen = [
            run for run in found if run.updated < oldest and run.status in statuses and not run.is_in_use
        ]
        if chosen and not yes:
            _agree_to_delete(chosen, as_json=as_json)
        _delete(store, chosen, as_json=as_json)


def _agree_to_delete(chosen: Sequence[RunSummary], *, as_json: bool) -> None:
    if as_json or not can_ask():
        if not as_json:
            print_columns([_row(run, shows_project=True) for run in chosen], indent="")
        number = count_text(len(chosen), "run")
        raise UsageError(
            f"{number} would be deleted, and nobody can be asked here.", hint="Add --yes to delete them."
        )
    from strands_cli.cli.questions import confirm

    print_columns([_row(run, shows_project=True) for run in chosen], indent="")
    if not confirm(f"Delete {count_text(len(chosen), 'run')}?"):
        raise click.Abort


def _delete(store: Store, chosen: Sequence[RunSummary], *, as_json: bool) -> None:
    for run in chosen:
        store.delete(run.id)
        if not as_json:
            print_note(f"Deleted {run.id} ({one_line(run.name)}, {run.status}).")
    if as_json:
        print_json({"deleted": [run.id for run in chosen]})
    elif not chosen:
        print_note("There is nothing to delete.")
