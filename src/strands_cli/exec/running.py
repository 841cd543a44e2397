"""From a Spec to a RunResult: what all patterns do before their first step and after their last."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from strands_cli.errors import BudgetExceeded, Interrupted, SpecError, StrandsError, UsageError
from strands_cli.events import RunFinished, RunOutcome, RunStarted
from strands_cli.exec.state import Run, RunOptions
from strands_cli.loader.run_values import resolve_inputs
from strands_cli.runtime.strands_adapter import Surroundings
from strands_cli.toolkit.workspace import current_directory
from strands_cli.types import Chain, RunResult, Spec, StepResult

P = TypeVar("P")

_OUTCOMES: Mapping[str, RunOutcome] = {
    "budget": "budget",
    "paused": "paused",
    "interrupted": "interrupted",
}


async def run_pattern(
    spec: Spec,
    variables: Mapping[str, Any] | None,
    options: RunOptions,
    pattern: Callable[[Run, P], Awaitable[StepResult]],
    kind: type[P],
) -> RunResult:
    """Runs a workflow of one kind. A StrandsError that ends it has what is finished as `kept`."""
    if not isinstance(spec.pattern, kind):
        raise UsageError(
            f"{spec.name} is a {spec.pattern.__struct_config__.tag}, and no {kind.__name__.lower()}.",
            hint="Use strands_cli.run, which runs every pattern.",
        )
    inputs = resolve_inputs(spec, variables)
    around = Surroundings(spec, inputs=inputs, directory=current_directory() / options.directory)
    run = Run(spec, inputs, options, around)
    run.emit(RunStarted(spec.name, str(spec.pattern.__struct_config__.tag)))
    failure: StrandsError | None = None
    last: StepResult | None = None
    try:
        async with _time_limit(run):
            last = await _to_its_end(run, pattern(run, spec.pattern))
        if isinstance(run.stopped_by, BudgetExceeded):  # by its last answer
            raise run.stopped_by
    except StrandsError as error:
        failure = error
        _tell_plainly(run, error)
        raise
    except asyncio.CancelledError:
        failure = Interrupted("Interrupted.")
        raise
    finally:
        run.close()
        result = run.result(last)
        if failure is not None:
            failure.kept = result
        outcome = _outcome(last, failure)
        run.emit(RunFinished(outcome, result.duration, result.usage, failure.message if failure else ""))
    return result


def _tell_plainly(run: Run, error: StrandsError) -> None:
    """Says in which of several steps a run failed; and what is secret does not pass with an error either."""
    title = run.titles.get(error.step, "")
    is_alone = isinstance(run.spec.pattern, Chain) and len(run.spec.pattern.steps) == 1
    has_place = isinstance(error, SpecError)
    if title and not is_alone and not has_place and error.code not in _OUTCOMES:
        error.message = f"{title}: {error.message}"
    error.message = run.redactor.text(error.message)
    error.hint = run.redactor.text(error.hint)
    error.args = (error.message,)
    if isinstance(error, SpecError):
        error.issues = run.redactor.value(error.issues)


def _outcome(last: StepResult | None, failure: StrandsError | None) -> RunOutcome:
    if failure is not None:
        return _OUTCOMES.get(failure.code, "failed")
    return "done" if last is not None else "failed"


async def _to_its_end(run: Run, work: Awaitable[StepResult]) -> StepResult:
    """Waits for the pattern. Where the caller's own task is cancelled, the run is ended cleanly first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.stop(Interrupted("Interrupted."))
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains that it was not
        raise


@asynccontextmanager
async def _time_limit(run: Run) -> AsyncIterator[None]:
    seconds = run.spec.runtime.budgets.max_duration_s
    if seconds is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(seconds, run.ledger.end_time)
    try:
        yield
    finally:
        timer.cancel()
