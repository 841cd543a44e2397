"""`strands resume`: continues an unfinished run."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import click
import msgspec

from strands_cli.cli.options import complete_runs
from strands_cli.cli.output import count_text, print_issues, print_note
from strands_cli.cli.running import Execution, execute, execution_options, print_result
from strands_cli.cli.terminal import one_line
from strands_cli.errors import SessionError, TrustError, UsageError, closest
from strands_cli.exec.history import Asked, RunSummary, id_in_title, list_runs, question_names, read_run
from strands_cli.exec.journal import decode_row
from strands_cli.exec.run import prepare
from strands_cli.exec.run_records import (
    CHAT,
    as_imported,
    changes_since,
    run_head,
    stored_options,
    stored_result,
    stored_spec,
    with_stored_models,
    workflow_path,
)
from strands_cli.exec.step_rows import answer_rows
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import Store, find_run, open_store
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import matching_choice
from strands_cli.providers.choice import require_models
from strands_cli.settings import load_settings

_MOST_CHANGES = 4
_MOST_LISTED = 5
_ATTEMPT = re.compile(r"/tried/\d+")
_CONSENT = {**dict.fromkeys(("y", "yes"), "yes"), **dict.fromkeys(("n", "no"), "no")}


@click.command()
@click.argument("run_id", metavar="[ID]", required=False, shell_complete=complete_runs)
@execution_options
def resume(run_id: str | None, how: Execution) -> None:
    """Continue a run that was interrupted, failed, or is waiting for an answer.

    ID is the id of a run or its first characters; by default, the latest unfinished run of this project.
    Finished steps are not repeated, and the workflow is used as it was when the run began.
    """
    resume_run(run_id or "", how)


def resume_run(run_id: str, how: Execution) -> None:
    """Resumes a run, by default the latest unfinished one of this project."""
    store = open_store(load_settings())
    run_id = find_run(store, run_id) if run_id else _latest_unfinished(store)
    rows = store.load(run_id)
    if "head" not in rows:
        raise SessionError(f"Run {run_id} ended before its first step.", hint="Start the workflow again.")
    began: dict[str, Any] = {key: decode_row(rows[key]) for key in ("head", "spec", "status") if key in rows}
    head, status = began["head"], began.get("status", {}).get("status", "")
    if head["pattern"] == CHAT:
        raise SessionError(f"Run {run_id} is a chat.", hint=f"Continue it: strands chat --continue {run_id}")
    if status == "done" and not how.accept_changes:
        if how.answers:
            raise UsageError(f"Run {run_id} is finished.", hint="Leave out --answer to see its result.")
        print_note(f"Run {run_id} ({head['name']}) is finished; this is its result.")
        store.close()
        print_result(stored_result(rows), how)
        return
    answers: dict[str, str] = {}
    if how.answers:
        waiting = read_run(run_id, rows, time.time()).waiting
        answers = chosen_answers(how.answers, [asked for asked in waiting if not _ATTEMPT.search(asked.key)])
    if head.get("engine"):
        from strands_cli.cli.cluster import resume_on_engine

        changed = _spec_to_resume(began, how) if how.accept_changes else None
        store.close()
        resume_on_engine(run_id, rows, answers, changed, how)
        return
    enter_directory(run_id, head)
    print_note(f"Resuming run {run_id} ({head['name']}).")
    spec = _spec_to_resume(began, how)
    options = stored_options(head, store=store, resume=run_id, take_over=how.take_over)
    options = msgspec.structs.replace(
        options,
        accept_changes=how.accept_changes,
        force=options.force or how.force,
        allow_write=(*options.allow_write, *how.allowed),
        rows=answer_rows(answers, by="resume"),
    )
    try:
        prepared = prepare(spec, options=options)
    except TrustError as error:  # the file on disk may have changed, or be gone
        once = f"trust it for this run alone: strands resume {run_id} --trust"
        error.hint += f", or {once}"
        if head.get("imported"):  # trust in the file here may not cover it
            error.hint = f"Look at the run: strands runs show {run_id}. You can {once}"
        raise
    require_models(spec, spec.agents)
    print_issues(prepared.resources.redactor.value(prepared.warnings), err=True)
    execute(prepared, how)


def enter_directory(run_id: str, head: Mapping[str, Any]) -> None:
    """Changes to the directory in which the run began, for its settings, tools and relative paths."""
    directory = Path(head["directory"])
    try:
        os.chdir(directory)
    except OSError as error:
        raise SessionError(
            f"Run {run_id} began in {directory}, which cannot be used: {error.strerror}.",
            hint=f"To use this project: strands runs export {run_id} - | strands runs import - --force",
        ) from None


def _spec_to_resume(began: Mapping[str, Any], how: Execution) -> Spec:
    """The workflow of the run, or with --accept-changes the current one."""
    head = began["head"]
    if how.accept_changes:
        if not (file := workflow_path(head)).exists():
            hint = "Leave out --accept-changes: the run has a copy of its workflow."
            raise SessionError(f"{file} was not found, so there is no change to accept.", hint=hint)
        spec = with_stored_models(load_spec(file, head["variables"]), head)
        return as_imported(spec) if head.get("imported") else spec
    if changes := changes_since(began):
        more = f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
        print_note(
            f"The workflow has changed since the run began: {'; '.join(changes[:_MOST_CHANGES])}{more}."
        )
        print_note(
            "The run uses the old version; --accept-changes uses the new one and repeats the changed steps."
        )
    return stored_spec(began)


# --- Which run --------------------------------------------------------------------------------------------


def _unfinished(store: Store) -> Iterator[tuple[RunSummary, dict[str, Any]]]:
    """The unfinished runs of workflows with their heads, the most recently active first."""
    listed = store.runs()
    for run in sorted(list_runs(listed), key=lambda one: one.updated, reverse=True):
        if run.status not in ("done", "damaged") and "head" in listed[run.id]:
            head = decode_row(listed[run.id]["head"])
            if head["pattern"] != CHAT:
                yield run, head


def _latest_unfinished(store: Store) -> str:
    project = str(load_settings().project)
    found = [*_unfinished(store)]
    here = [run for run, head in found if head["project"] == project]
    waiting = [run for run in here if run.status != "running"]
    if waiting or here:
        return (waiting or here)[0].id
    others = "; ".join(
        f"{run.id} ({head['name']}, in {head['project']})" for run, head in found[:_MOST_LISTED]
    )
    hint = f"Runs of other projects: {others}." if others else "List all runs: strands runs list --all"
    raise SessionError("There is no unfinished run in this project.", hint=hint)


def run_to_go_on_with(spec: Spec, options: RunOptions) -> str:
    """The id of the latest unfinished run of the same file, inputs and models, or an empty text."""
    new = msgspec.to_builtins(run_head(spec, options, id=""), enc_hook=str)
    store = open_store(load_settings())
    found = [*_unfinished(store)]
    store.close()
    return next((run.id for run, head in found if _marks(head) == _marks(new)), "")


def _marks(head: Mapping[str, Any]) -> list[Any]:
    """The facts that must be the same for --auto-resume to continue a run."""
    options = (head["options"].get(name) for name in ("provider", "model_id", "host", "out"))
    return [head["file"], head["variables"], head["directory"], *options]


# --- Answers ----------------------------------------------------------------------------------------------


def chosen_answers(given: Iterable[str], waiting: Iterable[Asked]) -> dict[str, str]:
    """The answer to each question, by the question's key. If there are several questions, an answer names its
    question by the key, or by the title or id of the step."""
    questions = {asked.key: asked for asked in waiting}
    if not questions:
        raise UsageError(
            "The run is not waiting for an answer.",
            hint="Leave out --answer. The run asks when it needs one.",
        )
    answers: dict[str, str] = {}
    for text in given:
        name, separator, rest = text.partition("=")
        named = [key for key, asked in questions.items() if name in _names(asked)] if separator else []
        if len(named) != 1:
            _refuse_unclear(text, name if separator else "", questions)
        key = named[0] if named else next(iter(questions))
        if key in answers:
            raise UsageError(f"There are two answers to {key}.", hint="Keep only one of them.")
        answers[key] = _fitting_answer(questions[key], rest if named else text)
    return answers


def _names(asked: Asked) -> tuple[str, str, str]:
    """The names of a question that --answer accepts."""
    return asked.key, asked.title, id_in_title(asked.title)


def _refuse_unclear(text: str, name: str, questions: Mapping[str, Asked]) -> None:
    """UsageError if an answer could be for several questions, or seems to have a typo in the name."""
    if len(questions) > 1:
        raise UsageError(
            f"{count_text(len(questions), 'question')} are open, and {text!r} does not name one.",
            hint=f"Write --answer NAME=TEXT. The names are {_listed_questions(questions)}.",
        )
    (asked,) = questions.values()
    if name and (meant := closest(name, _names(asked))):
        raise UsageError(
            f"There is no question {name!r}.",
            hint=f"Did you mean {meant!r}? If {text!r} is the whole answer, write "
            f"--answer {quote(f'{asked.key}={text}')}.",
        )


def _listed_questions(questions: Mapping[str, Asked]) -> str:
    names = question_names(questions.values())
    return "; ".join(f"{names[key]} ({one_line(asked.question)})" for key, asked in questions.items())


def _fitting_answer(asked: Asked, text: str) -> str:
    if asked.kind == "consent":
        answer = _CONSENT.get(text.strip().lower())
        if answer is None:
            raise UsageError(f"{text!r} is neither yes nor no: {asked.question}", hint="Answer yes or no.")
        return answer
    if text and asked.choices and matching_choice(text, map(str, asked.choices)) is None:
        options = ", ".join(map(str, asked.choices))
        raise UsageError(
            f"{text!r} is not an answer to: {one_line(asked.question)}", hint=f"Answer one of {options}."
        )
    return text or asked.default or ""
