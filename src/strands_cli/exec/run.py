"""`run`: all of `strands run` for Python. Prepare once, run the pattern, write the artifacts.

Whatever is known before a run begins is read, resolved and checked in `prepare`, and handed down.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.artifacts import check_artifact_files, write_artifacts
from strands_cli.capability import check_capability
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
from strands_cli.exec.steps import DEFAULTS, Run, RunOptions
from strands_cli.loader import load_spec
from strands_cli.loader.run_values import read_secrets, resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.runtime.resources import RunResources
from strands_cli.telemetry import Trace, open_telemetry
from strands_cli.templates import TemplateError, render
from strands_cli.toolkit.workspace import current_directory
from strands_cli.tools.toolset import ToolSet
from strands_cli.types import RunResult, StepResult
from strands_cli.types.sections import Artifact

_OUTCOMES: dict[str, RunOutcome] = {"budget": "budget", "paused": "paused", "interrupted": "interrupted"}


class Prepared(msgspec.Struct, frozen=True):
    """A run that can begin. `resources` has the inputs, the secrets, the redactor and the tools."""

    spec: Spec
    resources: RunResources
    options: RunOptions
    warnings: tuple[Issue, ...] = ()
    """What a reader of the workflow should correct, though it runs as it is."""


def prepare(
    spec: Spec,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
    *,
    with_artifacts: bool = True,
) -> Prepared:
    """Checks a workflow and gathers what its run needs; StrandsError if it cannot run."""
    tools = ToolSet(spec)
    warnings, secrets = _checked_secrets(spec, tools)
    if options.trace:
        added = Artifact(path=f"./{spec.name}-trace.json", content="{{ TRACE }}")
        outputs = msgspec.structs.replace(spec.outputs, artifacts=(*spec.outputs.artifacts, added))
        spec = msgspec.structs.replace(spec, outputs=outputs)
    inputs = resolve_inputs(spec, variables)
    if with_artifacts:
        check_artifact_files(spec, options.directory, force=options.force, scope={**inputs, "inputs": inputs})
    resources = RunResources(spec, inputs=inputs, directory=options.directory, secrets=secrets, tools=tools)
    return Prepared(spec, resources, options, warnings)


def _checked_secrets(spec: Spec, tools: ToolSet) -> tuple[tuple[Issue, ...], dict[str, str]]:
    """The warnings about a workflow, and its secrets. UnsupportedError if it cannot run here, SpecError if
    only its secrets are missing."""
    report = check_capability(spec, tools=tools)
    found = list(report.errors)
    secrets: dict[str, str] = {}
    try:
        secrets = read_secrets(spec)
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

    If it fails, the StrandsError has the finished steps in `kept`, a RunResult. Artifacts that need only
    those are written.
    """
    spec = source if isinstance(source, Spec) else load_spec(source)
    return await run_prepared(prepare(spec, variables, options))


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
    raise UsageError("run_sync cannot be called in a loop that runs.", hint="Write: await run(…)")


async def run_prepared(prepared: Prepared) -> RunResult:
    """As `run`, for what `prepare` has made."""
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
        try:
            result = await run_pattern(prepared)
        except StrandsError as error:
            if isinstance(error.kept, RunResult):
                error.kept = _write_kept_artifacts(prepared, error, error.kept, trace)
            raise
        try:
            return _write_results(prepared, prepared.spec, result, trace)
        except ArtifactError as error:
            error.kept = result
            raise
    finally:
        if exporting.listener is not None:
            await asyncio.to_thread(exporting.close)  # a collector may take its time


async def run_pattern(prepared: Prepared) -> RunResult:
    """The run itself, without artifacts. A StrandsError that ends it has what is finished as `kept`."""
    prepared.resources.load_tools()
    run = Run(prepared.resources, prepared.options)
    pattern, budgets = run.spec.pattern, run.spec.runtime.budgets
    run.emit(RunStarted(run.spec.name, pattern.kind))
    failure: StrandsError | None = None
    last: StepResult | None = None
    timer = None
    if budgets.max_duration_s is not None:
        timer = asyncio.get_running_loop().call_later(budgets.max_duration_s, run.ledger.end_time)
    try:
        last = await _run_to_end(run, pattern.run(run))
        if isinstance(run.stopped_by, BudgetExceeded):  # by its last answer
            raise run.stopped_by
    except StrandsError as error:
        failure = error
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
        if failure is not None:
            failure.kept = result
            outcome = _OUTCOMES.get(failure.code, "failed")
        else:
            outcome = "failed" if last is None else "done"
        run.emit(RunFinished(outcome, result.duration, result.usage, failure.message if failure else ""))
    return result


async def _run_to_end(run: Run, work: Awaitable[StepResult]) -> StepResult:
    """Waits for the pattern. If the caller's own task is cancelled, the run is ended cleanly first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.interrupt()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain
        raise


def _describe_failure(run: Run, error: StrandsError) -> None:
    """Says in which of several steps a run failed, and takes secrets out of the error."""
    title = run.titles.get(error.step, "")
    has_place = isinstance(error, SpecError)
    if title and not run.spec.pattern.is_single and not has_place and error.code not in _OUTCOMES:
        error.message = f"{title}: {error.message}"
    error.message = run.redactor.text(error.message)
    error.hint = run.redactor.text(error.hint)
    error.args = (error.message,)
    if isinstance(error, SpecError):
        error.issues = run.redactor.value(error.issues)


def _write_results(
    prepared: Prepared, spec: Spec, result: RunResult, trace: Trace | None, *, unfinished: bool = False
) -> RunResult:
    directory, begun_in = prepared.options.directory, prepared.resources.begun_in
    paths = write_artifacts(
        spec,
        _artifact_scope(result, trace),
        # As the caller gave it, unless a tool has changed the current directory meanwhile.
        directory if current_directory() == begun_in else begun_in / directory,
        force=prepared.options.force,
        redactor=prepared.resources.redactor,
        emit=lambda event: _to_listeners(prepared.options, event),
        unfinished=unfinished,
    )
    return msgspec.structs.replace(result, artifacts=paths)


def _write_kept_artifacts(
    prepared: Prepared, error: StrandsError, kept: RunResult, trace: Trace | None
) -> RunResult:
    """Writes those artifacts of a failed run that can be made of what is there.

    A run that its budget ends keeps what it has. After a failure, `last_response` is not what the artifact
    was meant to hold, and an artifact with it is left out. What cannot be written must not hide the failure.
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
        return _write_results(prepared, spec, kept, trace, unfinished=True)
    except ArtifactError as unwritten:
        _to_listeners(prepared.options, RunNoticed(unwritten.message))
        return kept


def _artifact_scope(result: RunResult, trace: Trace | None) -> dict[str, Any]:
    return result.scope if trace is None else {**result.scope, "TRACE": trace.text()}


def _to_listeners(options: RunOptions, event: Event) -> None:
    for listener in options.listeners:
        listener(event)
