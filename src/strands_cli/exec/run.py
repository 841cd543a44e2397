"""`run`: all of `strands run` for Python. Check, run, write the artifacts."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.artifacts import check_targets, write_artifacts
from strands_cli.capability import check_capability
from strands_cli.errors import ArtifactError, SpecError, StrandsError, UnsupportedError, UsageError
from strands_cli.events import Event, Listener, RunNoticed
from strands_cli.exec.patterns import PATTERNS
from strands_cli.exec.state import DEFAULTS, RunOptions
from strands_cli.loader import load_spec
from strands_cli.loader.run_values import read_secrets, resolve_inputs
from strands_cli.runtime.strands_adapter import provider_keys
from strands_cli.secrets import Redactor
from strands_cli.telemetry.collector import open_telemetry
from strands_cli.telemetry.recorders import Trace
from strands_cli.templates import TemplateError, render
from strands_cli.toolkit.workspace import current_directory
from strands_cli.types import RunResult, Spec
from strands_cli.types.spec import Artifact


class _Writing(msgspec.Struct, frozen=True):
    """How the artifacts of a run are written."""

    options: RunOptions
    trace: Trace
    begun_in: Path

    @property
    def directory(self) -> Path:
        """As the caller gave it, unless a tool has changed the current directory meanwhile."""
        given = self.options.directory
        return given if current_directory() == self.begun_in else self.begun_in / given


async def run(
    source: Spec | Path | str,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
) -> RunResult:
    """Runs a workflow and writes its artifacts.

    A StrandsError that ends it has what is finished as `kept`, a RunResult; artifacts that can be made of it
    are written.
    """
    spec = source if isinstance(source, Spec) else load_spec(source)
    require_supported(spec)
    spec = _with_trace(spec) if options.trace else spec
    inputs = resolve_inputs(spec, variables)
    check_targets(spec, options.directory, force=options.force, scope={**inputs, "inputs": inputs})
    exporting = open_telemetry(spec.telemetry, warn=partial(_warn, options))
    try:
        heard = (*options.listeners, *([exporting.listener] if exporting.listener else ()))
        return await _run(spec, variables, msgspec.structs.replace(options, listeners=heard))
    finally:
        await asyncio.to_thread(exporting.close)  # a collector may take its time


async def _run(spec: Spec, variables: Mapping[str, Any] | None, options: RunOptions) -> RunResult:
    trace = Trace(spec.telemetry.redact)
    writing = _Writing(options, trace, current_directory())
    traced = msgspec.structs.replace(options, listeners=(*options.listeners, trace))
    try:
        result = await PATTERNS[type(spec.pattern)](spec, variables, traced)
    except StrandsError as error:
        _keep(spec, error, writing)
        raise
    try:
        return _written(spec, result, writing)
    except ArtifactError as error:
        error.kept = result
        raise


def run_sync(
    source: Spec | Path | str,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
) -> RunResult:
    """As `run`, for programs without a loop of their own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(source, variables, options))
    raise UsageError("run_sync cannot be called in a loop that runs.", hint="Write: await run(…)")


def require_supported(spec: Spec) -> None:
    """UnsupportedError where the workflow cannot run here, SpecError where only its secrets are missing."""
    found = list(check_capability(spec).errors)
    try:
        read_secrets(spec)
    except SpecError as unread:
        if not found:
            raise
        found += unread.issues
    errors = sorted(found, key=lambda issue: (issue.file, issue.line, issue.column))
    if errors:
        raise UnsupportedError(
            f"{errors[0].place}: {errors[0].reason}", hint=errors[0].remediation, issues=errors
        )


def _with_trace(spec: Spec) -> Spec:
    added = Artifact(path=f"./{spec.name}-trace.json", content="{{ TRACE }}")
    outputs = msgspec.structs.replace(spec.outputs, artifacts=(*spec.outputs.artifacts, added))
    return msgspec.structs.replace(spec, outputs=outputs)


def _written(spec: Spec, result: RunResult, writing: _Writing) -> RunResult:
    paths = write_artifacts(
        spec,
        {**result.scope, "TRACE": writing.trace.text()},
        writing.directory,
        force=writing.options.force,
        redactor=Redactor([*read_secrets(spec).values(), *provider_keys(spec)]),
        emit=_to_all(writing.options.listeners),
    )
    return msgspec.structs.replace(result, artifacts=paths)


def _keep(spec: Spec, error: StrandsError, writing: _Writing) -> None:
    """Writes what can be written of a run that failed; what cannot must not hide the failure."""
    if not isinstance(error.kept, RunResult):
        return
    try:
        error.kept = _written(_makeable(spec, error, writing.trace), error.kept, writing)
    except ArtifactError as unwritten:
        _warn(writing.options, unwritten.message)


def _makeable(spec: Spec, error: StrandsError, trace: Trace) -> Spec:
    """The workflow with those of its artifacts that can be made of what is there.

    A run that its budget ends keeps what it has. After a failure, `last_response` is not what the artifact
    was meant to hold, and an artifact with it is left out.
    """
    scope = {**error.kept.scope, "TRACE": trace.text()}
    if error.code != "budget":
        scope.pop("last_response", None)
    made = tuple(artifact for artifact in spec.outputs.artifacts if _can_render(artifact, scope))
    return msgspec.structs.replace(spec, outputs=msgspec.structs.replace(spec.outputs, artifacts=made))


def _can_render(artifact: Artifact, scope: Mapping[str, Any]) -> bool:
    try:
        render(artifact.path, scope)
        render(artifact.content, scope)
    except TemplateError:
        return False
    return True


def _to_all(listeners: Sequence[Listener]) -> Listener:
    def emit(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return emit


def _warn(options: RunOptions, text: str) -> None:
    _to_all(options.listeners)(RunNoticed(text))
