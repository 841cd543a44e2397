"""`run`: `strands run` for Python. It prepares the run, runs the pattern and writes the artifacts.

`prepare` reads, resolves and checks everything that is known before a run begins; the rest only uses it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.artifacts import check_artifact_files, safe_name, write_artifacts
from strands_cli.capability import all_asks, check_capability
from strands_cli.errors import (
    ArtifactError,
    BudgetExceeded,
    Interrupted,
    Issue,
    SpecError,
    StrandsError,
    UnsupportedError,
    UsageError,
)
from strands_cli.events import Event, RunFinished, RunNoticed, RunOutcome, RunStarted
from strands_cli.exec.step_kinds import AnyRun
from strands_cli.exec.step_rows import asked_before, spent_on_attempts
from strands_cli.exec.steps import DEFAULTS, Run, RunOptions
from strands_cli.loader import load_spec
from strands_cli.loader.run_values import read_secrets, resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.patterns.scope import known_aliases
from strands_cli.runtime.resources import RunResources
from strands_cli.telemetry import Trace, open_telemetry
from strands_cli.templates import TemplateError, render
from strands_cli.toolkit.workspace import current_directory
from strands_cli.tools.toolset import ToolSet
from strands_cli.trust import refuse_untrusted
from strands_cli.types import RunResult, StepResult
from strands_cli.types.sections import Artifact

if TYPE_CHECKING:
    from strands_cli.exec.journal import Journal
    from strands_cli.exec.recording import Replay, RequestRecorder

OUTCOMES: dict[str, RunOutcome] = {"budget": "budget", "paused": "paused", "interrupted": "interrupted"}


class Prepared(msgspec.Struct, frozen=True):
    """A run that can begin. `resources` has the inputs, the secrets, the redactor and the tools."""

    spec: Spec
    resources: RunResources
    options: RunOptions
    warnings: tuple[Issue, ...] = ()
    """Problems in the workflow that do not prevent the run."""
    recorder: "RequestRecorder | None" = None
    replay: "Replay | None" = None


def prepare(
    spec: Spec,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
    *,
    with_artifacts: bool = True,
) -> Prepared:
    """Checks a workflow and collects everything its run needs; StrandsError if it cannot run."""
    if options.resume and options.store is None:
        raise UsageError("To resume a run, its store is needed.", hint="Pass RunOptions(store=…).")
    tools = ToolSet(spec)
    if spec.positions:  # a Spec that a program built needs no trust
        refuse_untrusted(all_asks(spec, tools), str(spec.file))
    if any(one.servers for one in tools.family):
        known = {one.file: read_secrets(one) for one in spec.family}
        if tools.learn_servers(known):
            tools = ToolSet(spec)
            if spec.positions:  # whether a tool needs consent is known only now
                refuse_untrusted(all_asks(spec, tools), str(spec.file))
    asks_models = options.model is None and options.replay is None
    warnings, secrets = _checked_secrets(spec, tools, asks_models=asks_models)
    if options.trace:
        added = Artifact(path=f"./{safe_name(spec.name)}-trace.json", content="{{ TRACE }}")
        outputs = msgspec.structs.replace(spec.outputs, artifacts=(*spec.outputs.artifacts, added))
        spec = msgspec.structs.replace(spec, outputs=outputs)
    inputs = resolve_inputs(spec, variables)
    if with_artifacts:
        scope = {**known_aliases(spec), **inputs, "inputs": inputs}
        # The files may be those that the resumed run wrote itself: that is checked at the end.
        force = options.force or bool(options.resume)
        check_artifact_files(spec, options.directory, force=force, allowed=options.allow_write, scope=scope)
    resources = RunResources(
        spec,
        inputs=inputs,
        directory=options.directory,
        secrets=secrets,
        tools=tools,
        workspace=options.workspace,
        allow_write=options.allow_write,
        model=options.model,
    )
    recorder, replay = _open_recordings(options, resources)
    resources.recorder, resources.recorded = recorder, replay
    return Prepared(spec, resources, options, warnings, recorder, replay)


def _open_recordings(
    options: RunOptions, resources: RunResources
) -> "tuple[RequestRecorder | None, Replay | None]":
    begun_in, redactor = resources.begun_in, resources.redactor
    if options.record is not None and options.resume:
        reason = "A resumed run cannot be recorded: its earlier requests are answered from the journal."
        raise UsageError(reason, hint="Record a run from its beginning.")
    if options.replay_ignore and options.replay is None:
        raise UsageError("--replay-ignore needs --replay.", hint="Add --replay FILE.")
    if options.replay is None and options.record is None:
        return None, None
    from strands_cli.exec.recording import Replay, RequestRecorder

    recorder, replay = None, None
    if options.replay is not None:
        replay = Replay(options.replay, begun_in, redactor, ignored=options.replay_ignore)
    if options.record is not None:
        name = resources.spec.name
        recorder = RequestRecorder(options.record, begun_in, redactor, name=name, force=options.force)
    return recorder, replay


def _checked_secrets(
    spec: Spec, tools: ToolSet, *, asks_models: bool
) -> tuple[tuple[Issue, ...], dict[Path, dict[str, str]]]:
    """The warnings about a workflow, and the secrets of its file and of the workflows that it runs.

    UnsupportedError if it cannot run here, SpecError if only its secrets are missing.
    """
    report = check_capability(spec, tools=tools, asks_models=asks_models)
    found = list(report.errors)
    secrets: dict[Path, dict[str, str]] = {}
    try:
        secrets = {one.file: read_secrets(one) for one in spec.family}
    except SpecError as unread:
        if not found:
            raise
        found += unread.issues
    errors = sorted(found, key=lambda issue: (issue.file, issue.line, issue.column))
    if errors:
        raise UnsupportedError(
            f"{errors[0].place}: {errors[0].reason}", hint=errors[0].remediation, issues=errors
        )
    return report.warnings, secrets


async def run(
    source: Spec | Path | str,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
) -> RunResult:
    """Runs a workflow and writes its artifacts.

    If it fails, the StrandsError has the finished steps in `kept`, a RunResult. Artifacts that depend only on
    these are written.
    """
    spec = source if isinstance(source, Spec) else load_spec(source)
    return await run_prepared(prepare(spec, variables, options), variables)


def run_sync(
    source: Spec | Path | str,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
) -> RunResult:
    """Like `run`, for programs without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(source, variables, options))
    raise UsageError("run_sync cannot be called in a running event loop.", hint="Write: await run(…)")


@asynccontextmanager
async def opened_journal(
    prepared: Prepared, variables: Mapping[str, Any] | None = None
) -> "AsyncIterator[Journal | None]":
    """The journal of a run, or None without a store. On exit, the final status is recorded."""
    options = prepared.options
    if options.store is None:
        yield None
        return
    from strands_cli.exec.journal import Journal
    from strands_cli.exec.ownership import this_process
    from strands_cli.exec.run_records import KEPT_IN_HEAD, run_head, spec_files, status_row
    from strands_cli.exec.stores import find_run, new_run_id

    run_id = find_run(options.store, options.resume) if options.resume else options.new_id or new_run_id()
    redactor = prepared.resources.redactor
    fence = options.taken.fence if options.taken else 0
    journal = Journal.open(options.store, run_id, redactor=redactor, take_over=options.take_over, fence=fence)
    for key, row in options.rows.items():
        journal.put(key, row)
    journal.on_row = options.on_row
    ended: StrandsError | None = None
    status = "failed"  # by a bug
    try:
        if not options.resume or options.accept_changes:
            head = run_head(prepared.spec, options, id=run_id, variables=variables)
            if (before := journal.get("head")) is not None:
                head |= {name: before[name] for name in KEPT_IN_HEAD if name in before}
                head["options"] = {**before["options"], **head["options"]}
            journal.put("head", head)
            journal.put("spec", {"files": spec_files(prepared.spec)})
        status_before = journal.get("status") or {}
        status_before.pop("done", None)
        journal.put("status", {**status_before, **status_row("running"), "owner": this_process()})
        await journal.committed()  # before a model is paid for an answer that cannot be saved
        yield journal
        status = "done"
    except StrandsError as error:
        ended, status = error, OUTCOMES.get(error.code, "failed")
        error.run_id = run_id
        if status == "interrupted" and options.taken is not None and options.taken.goes_on():
            ended, status = None, "queued"
        raise
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        status = "interrupted"
        raise
    finally:
        before = journal.get("status") or {}
        journal.put("status", {**before, **status_row(status, ended)})
        await journal.closed()
        if status == "done" and journal.failure is not None:
            if options.taken is not None:
                journal.check()  # who has dispatched the run reads its end in the store
            _to_listeners(options, RunNoticed(journal.failure.message))  # the run itself has succeeded


async def run_prepared(prepared: Prepared, variables: Mapping[str, Any] | None = None) -> RunResult:
    """Like `run`, for a prepared run."""
    artifacts = prepared.spec.outputs.artifacts
    shows_trace = any("TRACE" in artifact.path + artifact.content for artifact in artifacts)
    trace = Trace(prepared.spec.telemetry.redact) if shows_trace else None
    original = prepared.options
    exporting = open_telemetry(
        prepared.spec.telemetry, warn=lambda text: _to_listeners(original, RunNoticed(text))
    )
    try:
        recorders = [recorder for recorder in (exporting.listener, trace) if recorder is not None]
        options = msgspec.structs.replace(original, listeners=(*original.listeners, *recorders))
        prepared = msgspec.structs.replace(prepared, options=options)
        async with opened_journal(prepared, variables) as journal:
            return await _run_and_write(prepared, journal, trace)
    finally:
        if exporting.listener is not None:
            await asyncio.to_thread(exporting.close)  # a collector may take its time


async def _run_and_write(prepared: Prepared, journal: "Journal | None", trace: Trace | None) -> RunResult:
    try:
        result = await run_pattern(prepared, journal)
    except StrandsError as error:
        if isinstance(error.kept, RunResult):
            error.kept = _write_kept_artifacts(prepared, error, error.kept, trace, journal)
        raise
    try:
        return _write_results(prepared, prepared.spec, result, trace, journal)
    except ArtifactError as error:
        error.kept = result
        raise


async def run_pattern(prepared: Prepared, journal: "Journal | None" = None) -> RunResult:
    """Runs the pattern, without artifacts. A StrandsError that ends it has the finished steps in `kept`."""
    prepared.resources.load_tools()
    if journal is not None and prepared.options.resume:
        prepared.resources.asked_before = partial(asked_before, journal)
    run = AnyRun(prepared.resources, prepared.options, journal)
    if journal is not None:
        run.ledger.spend(spent_on_attempts(journal))
    pattern, budgets = run.spec.pattern, run.spec.runtime.budgets
    run.emit(RunStarted(run.spec.name, pattern.kind))
    failure: StrandsError | None = None
    last: StepResult | None = None
    timer = None
    if budgets.max_duration_s is not None:
        seconds = budgets.max_duration_s - run.earlier_seconds
        timer = asyncio.get_running_loop().call_later(seconds, run.ledger.end_time)
    try:
        last = await _run_to_end(run, _run_recorded(prepared, run, pattern.run(run)))
        if isinstance(run.stopped_by, BudgetExceeded):  # by its last answer
            raise run.stopped_by
    except StrandsError as error:
        failure = error
        run.fail(error)
        _describe_failure(run, error)
        raise
    except asyncio.CancelledError:
        failure = Interrupted("Interrupted.")
        raise
    finally:
        if timer is not None:
            timer.cancel()
        run.close()
        result = run.result(last)
        for text in run.done_without:
            run.notice(text)
        run.record_end(result)
        if failure is not None:
            failure.kept = result
            outcome = OUTCOMES.get(failure.code, "failed")
        else:
            outcome = "failed" if last is None else "done"
        run.emit(RunFinished(outcome, result.duration, result.usage, failure.message if failure else ""))
    return result


async def _run_recorded(prepared: Prepared, run: Run, work: Awaitable[StepResult]) -> StepResult:
    """Runs the pattern, then writes the recording, or checks that all of a replay was used."""
    recorder, replay = prepared.recorder, prepared.replay
    try:
        last = await work
        if replay is not None and not prepared.options.resume:
            replay.check_all_used()
    except StrandsError:
        try:
            if recorder is not None:
                recorder.write()
        except ArtifactError as unwritten:  # it must not hide the error that ended the run
            run.notice(unwritten.message)
        raise
    if recorder is not None:
        recorder.write()
    return last


async def _run_to_end(run: Run, work: Awaitable[StepResult]) -> StepResult:
    """Waits for the pattern. If the caller's task is cancelled, the run is stopped cleanly first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.interrupt()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, so asyncio does not warn
        raise


def _describe_failure(run: Run, error: StrandsError) -> None:
    """Adds the failed step to the error if there are several, and redacts secrets."""
    title = run.titles.get(error.step, "")
    has_place = isinstance(error, SpecError)
    is_alone = run.spec.pattern.is_single and len(run.titles) == 1  # and has no items, nor steps of its own
    if title and not is_alone and not has_place and error.code not in OUTCOMES:
        error.message = f"{title}: {error.message}"
    error.message = run.redactor.text(error.message)
    error.hint = run.redactor.text(error.hint)
    error.args = (error.message,)
    if isinstance(error, SpecError):
        error.issues = run.redactor.value(error.issues)


def _write_results(
    prepared: Prepared,
    spec: Spec,
    result: RunResult,
    trace: Trace | None,
    journal: "Journal | None",
    *,
    unfinished: bool = False,
) -> RunResult:
    written = (journal.get("artifacts") or {}) if journal else {}
    directory, begun_in = prepared.options.directory, prepared.resources.begun_in
    paths = write_artifacts(
        spec,
        _artifact_scope(result, trace),
        # As the caller gave it, unless a tool has changed the current directory.
        directory if current_directory() == begun_in else begun_in / directory,
        force=prepared.options.force,
        allowed=prepared.resources.allowed,
        redactor=prepared.resources.redactor,
        emit=lambda event: _to_listeners(prepared.options, event),
        unfinished=unfinished,
        resumed=bool(prepared.options.resume),
        written=written,
    )
    if journal is not None and paths:
        journal.put("artifacts", written)
    return msgspec.structs.replace(result, artifacts=paths)


def _write_kept_artifacts(
    prepared: Prepared,
    error: StrandsError,
    kept: RunResult,
    trace: Trace | None,
    journal: "Journal | None",
) -> RunResult:
    """Writes the artifacts of a failed run that depend only on its finished steps.

    If the budget ended the run, all possible artifacts are written. After any other failure, artifacts with
    `last_response` are left out, since it is not the intended answer. An artifact that cannot be written must
    not hide the failure.
    """
    scope = _artifact_scope(kept, trace)
    if error.code != "budget":
        scope = {name: value for name, value in scope.items() if name != "last_response"}

    def can_be_made(text: str) -> bool:
        try:
            render(text, scope)
        except TemplateError:
            return False
        return True

    outputs = prepared.spec.outputs
    made = [one for one in outputs.artifacts if can_be_made(one.path) and can_be_made(one.content)]
    outputs = msgspec.structs.replace(outputs, artifacts=tuple(made))
    try:
        spec = msgspec.structs.replace(prepared.spec, outputs=outputs)
        return _write_results(prepared, spec, kept, trace, journal, unfinished=True)
    except ArtifactError as unwritten:
        _to_listeners(prepared.options, RunNoticed(unwritten.message))
        return kept


def _artifact_scope(result: RunResult, trace: Trace | None) -> dict[str, Any]:
    return result.scope if trace is None else {**result.scope, "TRACE": trace.text()}


def _to_listeners(options: RunOptions, event: Event) -> None:
    for listener in options.listeners:
        listener(event)
