"""An orchestrator makes tasks, workers do them, maybe one step sums them up."""

from collections.abc import Mapping
from typing import Any

from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions, together
from strands_cli.exec.steps import Wanted, all_answers, run_step
from strands_cli.types import OrchestratorWorkers, RunResult, Spec, StepResult


async def run_orchestrator_workers(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _orchestrator_workers, OrchestratorWorkers)


async def _orchestrator_workers(run: Run, pattern: OrchestratorWorkers) -> StepResult:
    run.names["tasks"] = done = list[StepResult]()
    for turn in range(1, pattern.max_rounds + 1):
        planned = await _plan(run, pattern, done, turn)
        tasks = planned.output["tasks"]
        if not tasks:
            break
        done += await together(
            run, [_work(run, pattern, task, index, turn) for index, task in enumerate(tasks)]
        )
    if pattern.reduce is not None:
        answers = {f"task {number}": result for number, result in enumerate(done, 1)}
        wanted = Wanted(turn=pattern.max_rounds + 1, otherwise=all_answers(answers))
        names = {"tasks": done}
        return await run_step(run, "reduce", pattern.reduce, title="reduce", names=names, wanted=wanted)
    return done[-1] if done else planned


async def _plan(run: Run, pattern: OrchestratorWorkers, done: list[StepResult], turn: int) -> StepResult:
    wanted = Wanted(turn=turn, schema=_schema(pattern), instructions=_instructions(pattern, done, turn))
    title = "orchestrator" if turn == 1 else f"orchestrator, round {turn}"
    return await run_step(
        run, f"orchestrator#{turn}", pattern.orchestrator, title=title, names={"tasks": done}, wanted=wanted
    )


async def _work(run: Run, pattern: OrchestratorWorkers, task: str, index: int, turn: int) -> StepResult:
    round_ = f", round {turn}" if turn > 1 else ""
    return await run_step(
        run,
        f"worker/{index}#{turn}",
        pattern.worker,
        title=f"task {index + 1}{round_}",
        names={"task": task},
        wanted=Wanted(turn=turn, otherwise=task),
    )


def _schema(pattern: OrchestratorWorkers) -> dict[str, Any]:
    task = {"type": "string", "minLength": 1, "description": "What a worker has to do, complete in itself"}
    tasks = {"type": "array", "items": task, "maxItems": pattern.max_tasks}
    return {"type": "object", "properties": {"tasks": tasks}, "required": ["tasks"]}


def _instructions(pattern: OrchestratorWorkers, done: list[StepResult], turn: int) -> str:
    most = (
        f"Make tasks for workers, at most {pattern.max_tasks}. A worker sees its own task and nothing else."
    )
    if pattern.max_rounds == 1:
        return most
    answers = "".join(f"\n\n{result.response}" for result in done)
    so_far = f"\n\nThe workers have answered:{answers}" if done else ""
    last = " This is the last round." if turn == pattern.max_rounds else ""
    times = f"You may make tasks {pattern.max_rounds} times; make none when there is nothing left."
    return f"{most} {times}{last}{so_far}"
