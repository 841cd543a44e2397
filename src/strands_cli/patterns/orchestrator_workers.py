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
    whole_result,
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
from strands_cli.patterns.scope import Names, list_names, scope_names, with_alias
from strands_cli.types.run_results import StepResult, detailed_result
from strands_cli.types.sections import BaseSpec

_REQUEST = "Divide this work into tasks:"
"""What an orchestrator without an input is asked, with all inputs."""


def check_orchestrator_schema(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    return replaced_schema(spec, pattern.orchestrator.agent, "orchestrator", "the tasks that it makes")


def check_reviews(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    yield from check_review_default(spec, "orchestrator", pattern.orchestrator_review)
    yield from check_review_default(spec, "reduce", pattern.reduce_review)


def check_writeup(pattern: "OrchestratorWorkers", spec: BaseSpec) -> Iterator[Issue]:
    if pattern.writeup is not None and pattern.reduce is None:
        reason = "'writeup' needs a 'reduce' to work on."
        yield spec.issue(f"{CONFIG}/writeup", reason, "Add 'reduce', or rename 'writeup' to 'reduce'.")


class OrchestratorWorkers(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "orchestrator_workers"
    title = "orchestrator and workers"
    names = ("task", "tasks", "reduce_response", "writeup_response")
    review_names = ("plan", "review")
    checks = {
        check_orchestrator_schema: ("/pattern*",),
        check_reviews: ("/pattern*",),
        check_writeup: ("/pattern*",),
    }

    orchestrator: Step
    worker: Step
    orchestrator_review: HumanStep | None = None
    reduce: AnyStep | None = None
    reduce_review: HumanStep | None = None
    writeup: AnyStep | None = None
    max_workers: int | None = None
    max_tasks: int = 8
    max_rounds: int = 1

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return with_shaped(config, "orchestrator", "worker", "reduce", "writeup")

    @property
    def has_review(self) -> bool:
        return self.orchestrator_review is not None or self.reduce_review is not None

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        tasks = self._task_names(spec)
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
        if self.writeup:
            writing = partial(scope_names, spec, last_response=None, reduce_response=None, **tasks)
            yield agent_place(f"{CONFIG}/writeup", self.writeup, writing)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        closing = {"reduce_response": self.reduce, "writeup_response": self.writeup}
        return {**self._task_names(spec), **{name: None for name, step in closing.items() if step}}

    def _task_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        (result,) = with_alias(results_by_key(spec, {"": self.worker}), task=None).values()
        return {"tasks": list_names(result, "task")}

    def outline(self, spec: BaseSpec) -> Parts:
        rounds, tasks = self.max_rounds, self.max_tasks
        together = min(tasks, spec.runtime.max_parallel, self.max_workers or tasks)
        note = f"up to {tasks} tasks{' a round' if rounds > 1 else ''}, {together} at a time"
        gate = self.orchestrator_review
        calls, work = Calls(1, rounds * (1 + MAX_CHANGES if gate else 1)), Calls(0, rounds * tasks)
        boxes = [
            step_box("orchestrator", self._asked(spec), "orchestrator", "orchestrator", stage=1, calls=calls,
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
            then = "writeup" if self.writeup else END
            closing = reduce_parts(
                self.reduce, self.reduce_review, stage=stage + 1, note="over all tasks", then=then
            )
            boxes += closing[0]
            arrows += closing[1]
            if self.writeup:
                note = "over the answer of reduce"
                last = boxes[-1].stage + 1
                boxes.append(step_box("writeup", self.writeup, "writeup", stage=last, note=note))
                arrows.append(Arrow(source="writeup", target=END))
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        rounds = f", in at most {amount_text(self.max_rounds, 'round')}" if self.max_rounds > 1 else ""
        then = f" Then {actor_text(self.reduce)} sums up." if self.reduce else ""
        then += f" Last, {actor_text(self.writeup)} writes it up." if self.reduce and self.writeup else ""
        return (
            f"{first_line(self.orchestrator.agent)} makes up to {amount_text(self.max_tasks, 'task')}, and "
            f"{first_line(self.worker.agent)} does each of them, "
            f"{at_a_time(spec, self.max_workers)}{rounds}.{then}"
        )

    def _asked(self, spec: BaseSpec) -> Step:
        """The orchestrator as it is drawn: with what it is asked if it has no input."""
        has_inputs = spec.inputs.declared or spec.inputs.values or spec.variables
        if self.orchestrator.input.strip() or not has_inputs:
            return self.orchestrator
        return msgspec.structs.replace(self.orchestrator, input=f"{_REQUEST} (all inputs as JSON)")

    async def run(self, run: StepRunner) -> StepResult:
        import asyncio  # here, since commands that only look at a workflow do without

        run.names["tasks"] = done = list[StepResult]()
        free = asyncio.Semaphore(self.max_workers or self.max_tasks)

        async def work(index: int, task: str) -> StepResult:
            key, title = f"worker/{index}#{turn}", f"task {index + 1}{_in_round(number)}"
            async with free:
                return await run.step(
                    key, self.worker, title=title, names={"task": task}, turn=turn, default_input=task
                )

        review = Review(run, self.orchestrator_review, "orchestrator")
        turn = 0
        for number in range(1, self.max_rounds + 1):
            planned, turn = await self._plan(run, review, done, number, turn)
            if not planned.output["tasks"]:
                break
            tasks = planned.output["tasks"]
            answers = await run.together([work(*one) for one in enumerate(tasks)])
            done += (detailed_result(one, task=task) for one, task in zip(answers, tasks, strict=True))
        if self.reduce is None:
            texts = (f"Worker {number}: {result.response}" for number, result in enumerate(done, 1))
            return whole_result("\n\n".join(texts), [one.output for one in done]) if done else planned
        return await self._close(run, self.reduce, done, turn + 1)

    async def _close(
        self, run: StepRunner, reduce: AnyStep, done: Sequence[StepResult], turn: int
    ) -> StepResult:
        """The answer of `reduce`, or of the writeup after it."""
        names: dict[str, Any] = {"tasks": done}
        answers = all_answers({f"task {number}": result for number, result in enumerate(done, 1)})
        last = await reduced_result(
            run, reduce, self.reduce_review, names=names, turn=turn, default_input=answers
        )
        run.names["reduce_response"] = last.response
        if self.writeup is not None:
            names |= {"reduce_response": last.response, "last_response": last.response}
            turn += 1 + MAX_CHANGES  # after all that the review of `reduce` may ask for
            last = await run.step("writeup", self.writeup, title="writeup", names=names, turn=turn)
            run.names["writeup_response"] = last.response
        return last

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
        inputs = msgspec.json.format(msgspec.json.encode(run.inputs), indent=2).decode()
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
                default_input=f"{_REQUEST}\n\n{inputs}" if run.inputs else "",
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
