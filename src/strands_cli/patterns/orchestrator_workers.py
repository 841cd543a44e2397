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
    AnyStep,
    HumanStep,
    Parts,
    Pattern,
    Step,
    StepRunner,
    actor_text,
    agent_place,
    all_answers,
    amount_text,
    arrows_in_a_row,
    at_a_time,
    replaced_schema,
    results_by_key,
    step_box,
    with_shaped,
)
from strands_cli.patterns.review import (
    CHANGES_LABEL,
    MAX_CHANGES,
    Review,
    change_request,
    check_review_default,
    reduce_parts,
    reduced_result,
    review_boxes,
    review_place,
)
from strands_cli.patterns.scope import Names, list_names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


def check_orchestrator_schema(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    return replaced_schema(spec, pattern.orchestrator.agent, "orchestrator", "the tasks that it makes")


def check_reviews(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    yield from check_review_default(spec, "orchestrator", pattern.orchestrator_review)
    yield from check_review_default(spec, "reduce", pattern.reduce_review)


class OrchestratorWorkers(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "orchestrator_workers"
    title = "orchestrator and workers"
    names = ("task", "tasks")
    review_names = ("plan", "review")
    checks = {check_orchestrator_schema: ("/pattern*",), check_reviews: ("/pattern*",)}

    orchestrator: Step
    worker: Step
    orchestrator_review: HumanStep | None = None
    reduce: AnyStep | None = None
    reduce_review: HumanStep | None = None
    max_tasks: int = 8
    max_rounds: int = 1

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return with_shaped(config, "orchestrator", "worker", "reduce")

    @property
    def has_review(self) -> bool:
        return self.orchestrator_review is not None or self.reduce_review is not None

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        tasks = self.artifact_names(spec)
        reviewed: dict[str, Names | None] = {**tasks, "review": None}
        planning = partial(scope_names, spec, **(reviewed if self.orchestrator_review else tasks))
        yield agent_place(f"{CONFIG}/orchestrator", self.orchestrator, planning)
        planned = partial(scope_names, spec, **tasks, plan=list_names(None, "task"))
        yield from review_place("orchestrator", self.orchestrator_review, planned)
        yield agent_place(f"{CONFIG}/worker", self.worker, partial(scope_names, spec, task=None))
        if self.reduce:
            why = "several workers have answered; go through tasks"
            reducing = partial(scope_names, spec, why, **(reviewed if self.reduce_review else tasks))
            yield agent_place(f"{CONFIG}/reduce", self.reduce, reducing)
            reduced = partial(scope_names, spec, last_response=None, **tasks)
            yield from review_place("reduce", self.reduce_review, reduced)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        (result,) = results_by_key(spec, {"": self.worker}).values()
        return {"tasks": list_names(result, "task")}

    def outline(self, spec: BaseSpec) -> Parts:
        rounds, tasks = self.max_rounds, self.max_tasks
        together = min(tasks, spec.runtime.max_parallel)
        note = f"up to {tasks} tasks{' a round' if rounds > 1 else ''}, {together} at a time"
        gate = self.orchestrator_review
        calls, work = Calls(1, rounds * (1 + MAX_CHANGES if gate else 1)), Calls(0, rounds * tasks)
        boxes = [
            step_box("orchestrator", self.orchestrator, "orchestrator", "orchestrator", stage=1, calls=calls,
                note="makes the tasks", instructions=self._instructions((), 1)),
            *review_boxes("orchestrator", gate, stage=2),
        ]  # fmt: skip
        arrows = [
            *arrows_in_a_row([START, *(box.key for box in boxes)]),
            Arrow(source=boxes[-1].key, target="worker", label="for each task"),
        ]
        if gate:
            arrows.append(Arrow(source=boxes[-1].key, target="orchestrator", label=CHANGES_LABEL))
        stage = len(boxes) + 1
        boxes.append(step_box("worker", self.worker, "worker", "worker", stage=stage, calls=work, note=note))
        if rounds > 1:
            arrows.append(
                Arrow(source="worker", target="orchestrator", label=f"next round, at most {rounds}")
            )
        arrows.append(Arrow(source="worker", target="reduce" if self.reduce else END))
        if self.reduce:
            closing = reduce_parts(self.reduce, self.reduce_review, stage=stage + 1, note="over all tasks")
            boxes += closing[0]
            arrows += closing[1]
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        rounds = f", in at most {amount_text(self.max_rounds, 'round')}" if self.max_rounds > 1 else ""
        then = f" Then {actor_text(self.reduce)} sums up." if self.reduce else ""
        return (
            f"{first_line(self.orchestrator.agent)} makes up to {amount_text(self.max_tasks, 'task')}, and "
            f"{first_line(self.worker.agent)} does each of them, {at_a_time(spec)}{rounds}.{then}"
        )

    async def run(self, run: StepRunner) -> StepResult:
        run.names["tasks"] = done = list[StepResult]()
        review = Review(run, self.orchestrator_review, "orchestrator")
        turn = 0
        for number in range(1, self.max_rounds + 1):
            planned, turn = await self._plan(run, review, done, number, turn)
            if not planned.output["tasks"]:
                break
            work = [
                run.step(
                    f"worker/{index}#{turn}",
                    self.worker,
                    title=f"task {index + 1}{_in_round(number)}",
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
        return await reduced_result(
            run,
            self.reduce,
            self.reduce_review,
            names={"tasks": done},
            turn=turn + 1,
            default_input=answers,
        )

    async def _plan(
        self, run: StepRunner, review: Review, done: Sequence[StepResult], number: int, turn: int
    ) -> tuple[StepResult, int]:
        """The tasks of a round, and how often the orchestrator has been asked: again for every change."""
        task = {
            "type": "string",
            "minLength": 1,
            "description": "What a worker has to do, complete in itself",
        }
        tasks = {"type": "array", "items": task, "maxItems": self.max_tasks}
        schema = {"type": "object", "properties": {"tasks": tasks}, "required": ["tasks"]}
        feedback = last = ""
        while True:
            turn += 1
            asked_for = change_request(run.spec, self.orchestrator, feedback, last)
            planned = await run.step(
                f"orchestrator#{turn}",
                self.orchestrator,
                title=f"orchestrator{_in_round(number)}{', again' if feedback else ''}",
                names={"tasks": done, **({"review": feedback} if self.orchestrator_review else {})},
                turn=turn,
                schema=schema,
                instructions="\n\n".join(filter(None, [self._instructions(done, number), asked_for])),
            )
            if done and not planned.output["tasks"]:
                return planned, turn  # the rounds are over: there is nothing to review
            decision = await review.decide({"tasks": done, "plan": planned.output["tasks"]}, turn)
            if decision.action != "feedback":
                return planned, turn
            feedback, last = decision.text, planned.response

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


def _in_round(number: int) -> str:
    return f", round {number}" if number > 1 else ""
