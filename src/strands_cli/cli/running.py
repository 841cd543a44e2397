"""What `strands run` and `strands resume` share: options, progress, the result, and how to continue."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    allow_write_option,
    debug_option,
    grant_all_but_protected,
    json_option,
    trust_option,
    yes_option,
)
from strands_cli.cli.output import (
    can_ask,
    hide_secrets,
    is_debugging,
    print_json,
    print_text,
    result_document,
    tool_output_aside,
)
from strands_cli.cli.terminal import terminal_size
from strands_cli.errors import ArtifactError, BudgetExceeded, Paused, StrandsError
from strands_cli.types import RunResult

if TYPE_CHECKING:
    from strands_cli.cli.progress import Progress
    from strands_cli.cli.transcript import LiveTranscript
    from strands_cli.exec.run import Prepared
    from strands_cli.toolkit.cancellation import Cancellation


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """The options that `strands run` and `strands resume` share."""

    verbose: bool
    yes: bool
    force: bool
    allowed: tuple[Path, ...]
    answers: tuple[str, ...]
    accept_changes: bool
    take_over: bool
    as_json: bool


def execution_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that `strands run` and `strands resume` share; the command gets them as `how`."""

    @wraps(command)
    def gathered(*args: Any, **values: Any) -> None:
        values["answers"] += values.pop("hitl_responses")
        how = Execution(**{name: values.pop(name) for name in Execution.__struct_fields__})
        command(*args, how=how, **values)

    options = (
        click.option("--force", is_flag=True, help="Let artifacts and the recording replace existing files."),
        click.option("--verbose", "-v", is_flag=True, help="Show the inputs of tools."),
        yes_option,
        allow_write_option,
        trust_option,
        debug_option,
        click.option(
            "--answer",
            "answers",
            multiple=True,
            metavar="[NAME=]TEXT",
            help="When resuming: answer an open question. Can be repeated.",
        ),
        click.option("--hitl-response", "hitl_responses", multiple=True, hidden=True),
        click.option(
            "--accept-changes",
            is_flag=True,
            help="When resuming: use the current workflow file; unchanged steps are kept.",
        ),
        click.option(
            "--take-over", is_flag=True, help="Resume a run even if another process is working on it."
        ),
        json_option,
    )
    decorated: Callable[..., None] = gathered
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def execute(prepared: "Prepared", how: Execution) -> None:
    """Runs it, shows its progress and prints its answer. An error says how to resume it."""
    from strands_cli.toolkit.cancellation import Cancellation

    hide_secrets(prepared.resources.redactor)
    cancel = Cancellation()
    try:
        with tool_output_aside():
            result = run_async(_run_with_progress(prepared, cancel, how), on_interrupt=cancel.set)
    except StrandsError as error:
        say_way_on(error)
        raise
    finally:
        if prepared.options.store is not None:
            prepared.options.store.close()
    print_result(result, how)


def print_result(result: RunResult, how: Execution) -> None:
    if how.as_json:
        print_json(result_document(result))
    else:
        print_text(result.last_response)


def say_way_on(error: StrandsError) -> None:
    """Adds to the hint of an error how to resume the run that it ended."""
    is_question = bool(error.run_id and isinstance(error, Paused) and error.questions)
    error.hint = _way_on(error) if is_question else f"{error.hint}\n{_way_on(error)}".strip()


def _way_on(error: StrandsError) -> str:
    """How to resume a run that did not finish."""
    from strands_cli.exec.ownership import Lost

    if not error.run_id or isinstance(error, Lost):  # another process owns the run now
        return ""
    command = f"strands resume {error.run_id}"
    if isinstance(error, Paused) and error.questions:
        from strands_cli.exec.history import question_names

        texts = {one.key: "yes" if one.kind == "consent" else "TEXT" for one in error.questions}
        names = question_names(error.questions)
        answers = (
            [f"{names[key]}={text}" for key, text in texts.items()] if len(texts) > 1 else texts.values()
        )
        return f"Answer: {command} {' '.join(f'--answer {answer}' for answer in answers)}"
    if isinstance(error, BudgetExceeded):
        return f"Then resume it: {command} --accept-changes"
    return f"Resume: {command}{' --force' if isinstance(error, ArtifactError) else ''}"


async def _run_with_progress(prepared: "Prepared", cancel: "Cancellation", how: Execution) -> RunResult:
    from strands_cli.cli.progress import open_progress
    from strands_cli.exec.engines import LocalEngine

    with open_progress(verbose=how.verbose) as progress:
        options = msgspec.structs.replace(prepared.options, listeners=(progress,), cancel=cancel)
        if can_ask():
            from strands_cli.cli.questions import Questions

            questions = Questions(lambda: cancel, progress.asking)
            options = msgspec.structs.replace(options, ask_human=questions.ask, ask_consent=questions.consent)
        if how.yes or prepared.resources.settings.bypass_consent:
            consent = grant_all_but_protected(options.ask_consent)
            options = msgspec.structs.replace(options, ask_consent=consent)
        if is_debugging():
            live = _live_transcript(progress)
            if options.store is not None and options.resume:
                live.remember(options.store.load(options.resume))
            options = msgspec.structs.replace(options, on_row=live.row)
        engine = LocalEngine(options.store)
        return await engine.result(engine.start(msgspec.structs.replace(prepared, options=options)))


def _live_transcript(progress: "Progress") -> "LiveTranscript":
    """Prints the transcript during the run, for --debug. It replaces the event log, which has less."""
    import logging

    from strands_cli.cli.transcript import LiveTranscript

    if not os.environ.get("STRANDS_LOG"):
        for name in ("runs", "models"):
            logging.getLogger(f"strands_cli.{name}").setLevel(logging.INFO)
    width = terminal_size(sys.stderr)[0] if sys.stderr.isatty() else None
    return LiveTranscript(progress.write, width)
