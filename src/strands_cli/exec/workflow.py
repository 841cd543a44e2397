"""Tasks that need each other: each begins as soon as those that it needs are done."""

import asyncio
from collections.abc import Mapping
from typing import Any

from strands_cli.capability.scopes import reachable
from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions, together
from strands_cli.exec.steps import Wanted, all_answers, run_step
from strands_cli.types import RunResult, Spec, StepResult, Task, Workflow


async def run_workflow(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _workflow, Workflow)


async def _workflow(run: Run, pattern: Workflow) -> StepResult:
    running: dict[str, asyncio.Future[StepResult]] = {}
    done: dict[str, StepResult] = {}
    run.names["tasks"] = {}
    for index, task in enumerate(pattern.tasks):
        running[task.id] = asyncio.ensure_future(_task(run, index, task, running, done))
    results = await together(run, list(running.values()))
    needed = {name for task in pattern.tasks for name in task.needs}
    return next(result for result in reversed(results) if result.id not in needed)


async def _task(
    run: Run,
    index: int,
    task: Task,
    running: Mapping[str, "asyncio.Future[StepResult]"],
    done: dict[str, StepResult],
) -> StepResult:
    needed = {name: await running[name] for name in task.needs}
    needs = _needs(run.spec)
    seen = reachable(needs, task.needs)
    names: dict[str, Any] = {"tasks": {name: done[name] for name in needs if name in seen}}
    if len(needed) == 1:
        names["last_response"] = needed[task.needs[0]].response
    wanted = Wanted(otherwise=all_answers(needed) if len(needed) > 1 else "")
    done[task.id] = await run_step(run, f"tasks/{index}", task, title=task.id, names=names, wanted=wanted)
    run.names["tasks"] = {name: done[name] for name in needs if name in done}
    return done[task.id]


def _needs(spec: Spec) -> dict[str, tuple[str, ...]]:
    """The tasks in the order of the file, each with those that it needs."""
    return {task.id: task.needs for task in spec.pattern.tasks} if isinstance(spec.pattern, Workflow) else {}
