"""An orchestrator makes tasks, workers do them, maybe one step sums them up."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from strands_cli.errors import Issue
from strands_cli.patterns.outline import END, START, Arrow, Calls, first_line
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    Parts,
    Pattern,
    Step,
    StepRunner,
    agent_place,
    all_answers,
    amount_text,
    arrows_in_a_row,
    at_a_time,
    replaced_schema,
    step_box,
    with_shaped,
)
from strands_cli.patterns.scope import Names, list_names, result_names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


def check_orchestrator_schema(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    return replaced_schema(spec, pattern.orchestrator.agent, "orchestrator", "the tasks that it makes")


class OrchestratorWorkers(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "orchestrator_workers"
    title = "orchestrator and workers"
    names = ("task", "tasks")
    checks = {check_orchestrator_schema: ("/pattern*",)}

    orchestrator: Step
    worker: Step
    reduce: Step | None = None
    max_tasks: int = 8
    max_rounds: int = 1

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return with_shaped(config, "orchestrator", "worker", "reduce")

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        tasks = self.artifact_names(spec)
        yield agent_place(f"{CONFIG}/orchestrator", self.orchestrator, partial(scope_names, spec, **tasks))
        yield agent_place(f"{CONFIG}/worker", self.worker, partial(scope_names, spec, task=None))
        if self.reduce:
            why = "several workers have answered; go through tasks"
            yield agent_place(f"{CONFIG}/reduce", self.reduce, partial(scope_names, spec, why, **tasks))

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        (result,) = result_names(spec, {"": self.worker.agent}).values()
        return {"tasks": list_names(result, "task")}

    def outline(self, spec: BaseSpec) -> Parts:
        rounds, tasks = self.max_rounds, self.max_tasks
        together = min(tasks, spec.runtime.max_parallel)
        note = f"up to {tasks} tasks{' a round' if rounds > 1 else ''}, {together} at a time"
        calls, work = Calls(1, rounds), Calls(0, rounds * tasks)
        boxes = [
            step_box("orchestrator", self.orchestrator, "orchestrator", "orchestrator", stage=1, calls=calls,
                note="makes the tasks", instructions=self._instructions((), 1)),
            step_box("worker", self.worker, "worker", "worker", stage=2, calls=work, note=note),
        ]  # fmt: skip
        arrows = [
            Arrow(source=START, target="orchestrator"),
            Arrow(source="orchestrator", target="worker", label="for each task"),
        ]
        if rounds > 1:
            arrows.append(
                Arrow(source="worker", target="orchestrator", label=f"next round, at most {rounds}")
            )
        if self.reduce:
            boxes.append(step_box("reduce", self.reduce, "reduce", "reduce", stage=3, note="over all tasks"))
        arrows += arrows_in_a_row(["worker", *(["reduce"] if self.reduce else []), END])
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        rounds = f", in at most {amount_text(self.max_rounds, 'round')}" if self.max_rounds > 1 else ""
        then = f" Then {first_line(self.reduce.agent)} sums up." if self.reduce else ""
        return (
            f"{first_line(self.orchestrator.agent)} makes up to {amount_text(self.max_tasks, 'task')}, and "
            f"{first_line(self.worker.agent)} does each of them, {at_a_time(spec)}{rounds}.{then}"
        )

    async def run(self, run: StepRunner) -> StepResult:
        task = {
            "type": "string",
            "minLength": 1,
            "description": "What a worker has to do, complete in itself",
        }
        tasks = {"type": "array", "items": task, "maxItems": self.max_tasks}
        schema = {"type": "object", "properties": {"tasks": tasks}, "required": ["tasks"]}
        run.names["tasks"] = done = list[StepResult]()
        for turn in range(1, self.max_rounds + 1):
            in_round = f", round {turn}" if turn > 1 else ""
            planned = await run.step(
                f"orchestrator#{turn}",
                self.orchestrator,
                title=f"orchestrator{in_round}",
                names={"tasks": done},
                turn=turn,
                schema=schema,
                instructions=self._instructions(done, turn),
            )
            if not planned.output["tasks"]:
                break
            work = [
                run.step(
                    f"worker/{index}#{turn}",
                    self.worker,
                    title=f"task {index + 1}{in_round}",
                    names={"task": task},
                    turn=turn,
                    default_input=task,
                )
                for index, task in enumerate(planned.output["tasks"])
            ]
            done += await run.together(work)
        if self.reduce is None:
            return done[-1] if done else planned
        answers = all_answers({f"task {number}": result for number, result in enumerate(done, 1)})
        return await run.step(
            "reduce",
            self.reduce,
            title="reduce",
            names={"tasks": done},
            turn=self.max_rounds + 1,
            default_input=answers,
        )

    def _instructions(self, done: Sequence[StepResult], turn: int) -> str:
        most = (
            f"Make tasks for workers, at most {self.max_tasks}. A worker sees its own task and nothing else."
        )
        if self.max_rounds == 1:
            return most
        answers = "".join(f"\n\n{result.response}" for result in done)
        so_far = f"\n\nThe workers have answered:{answers}" if done else ""
        last = " This is the last round." if turn == self.max_rounds else ""
        rounds = f"You may make tasks {self.max_rounds} times; make none when there is nothing left."
        return f"{most} {rounds}{last}{so_far}"
