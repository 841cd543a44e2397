"""Tasks that need each other: each begins as soon as those that it needs are done."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from strands_cli.errors import Issue, did_you_mean
from strands_cli.patterns.outline import END, NEVER, ONCE, START, Arrow, task_stages
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    AnyStep,
    Parts,
    Pattern,
    StepRunner,
    agent_place,
    all_answers,
    amount_text,
    at_a_time,
    results_by_key,
    shaped_step,
    step_box,
)
from strands_cli.patterns.scope import Names, reachable_names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


class Task(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    step: AnyStep
    description: str = ""
    needs: tuple[str, ...] = ()


def check_needs(pattern: "Workflow", spec: BaseSpec) -> Iterator[Issue]:
    for index, task in enumerate(pattern.tasks):
        for number, need in enumerate(task.needs):
            at, key = f"{CONFIG}/tasks/{index}/needs/{number}", spec.key_at(f"{CONFIG}/tasks/{index}/needs")
            if need == task.id:
                yield spec.issue(at, f"The task {need!r} needs itself.", f"Remove it from its own {key}.")
            elif need not in pattern.needs:
                hint = did_you_mean(need, pattern.needs) or f"Available: {', '.join(sorted(pattern.needs))}."
                yield spec.issue(at, f"There is no task {need!r}.", hint)
    from graphlib import CycleError, TopologicalSorter

    needs = {task.id: [need for need in task.needs if need != task.id] for task in pattern.tasks}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        index = next(index for index, task in enumerate(pattern.tasks) if task.id in cycle)
        at = f"{CONFIG}/tasks/{index}/needs"
        yield spec.issue(
            at,
            f"These tasks wait for each other: {' -> '.join(reversed(cycle))}.",
            f"Remove one of them from the other's {spec.key_at(at)}.",
        )


class Workflow(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "workflow"
    title = "workflow"
    names = ("tasks",)
    checks = {check_needs: (f"{CONFIG}/tasks",)}

    tasks: tuple[Task, ...]

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "tasks": [_shaped_task(**task) for task in config["tasks"]]}

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """The tasks in the order of the file, each with those that it needs."""
        return {task.id: task.needs for task in self.tasks}

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        needs = self.needs
        known = self._results(spec)
        for index, task in enumerate(self.tasks):
            scope = partial(_task_scope, spec, needs, known, task.id)
            yield agent_place(f"{CONFIG}/tasks/{index}", task.step, scope)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        return {"tasks": Names(self._results(spec), "task")}

    def _results(self, spec: BaseSpec) -> dict[str, Names | None]:
        return results_by_key(spec, {task.id: task.step for task in self.tasks})

    def id_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        yield f"{CONFIG}/tasks", [task.id for task in self.tasks]

    def outline(self, spec: BaseSpec) -> Parts:
        keys: dict[str, str] = {}
        for index, task in enumerate(self.tasks):
            keys.setdefault(task.id, f"tasks/{index}")
        needs = {
            f"tasks/{index}": [keys[name] for name in dict.fromkeys(task.needs) if name in keys]
            for index, task in enumerate(self.tasks)
        }
        when = task_stages(needs, spec.runtime.max_parallel)
        boxes = []
        for key, task in zip(needs, self.tasks, strict=True):
            needed = [name for name in dict.fromkeys(task.needs) if name in keys]
            note = f"after {', '.join(needed)}" if needed else ""
            calls = ONCE if key in when else NEVER
            stage, about = when.get(key, 0), task.description
            boxes.append(
                step_box(key, task.step, task.id, stage=stage, note=note, description=about, calls=calls)
            )
        needed_keys = {other for others in needs.values() for other in others}
        arrows = [Arrow(source=START, target=key) for key, others in needs.items() if not others]
        arrows += [Arrow(source=other, target=key) for key, others in needs.items() for other in others]
        arrows += [Arrow(source=key, target=END) for key in needs if key not in needed_keys]
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        tasks = amount_text(len(self.tasks), "task")
        return f"{tasks} run, each as soon as those that it needs are finished, {at_a_time(spec)}."

    async def run(self, run: StepRunner) -> StepResult:
        import asyncio  # here, since commands that only look at a workflow do without

        needs = self.needs
        running: dict[str, asyncio.Future[StepResult]] = {}
        done: dict[str, StepResult] = {}
        run.names["tasks"] = {}

        async def work(index: int, task: Task) -> StepResult:
            needed = {name: await running[name] for name in task.needs}
            seen = reachable_names(needs, task.needs)
            names: dict[str, Any] = {"tasks": {name: done[name] for name in needs if name in seen}}
            if len(needed) == 1:
                names["last_response"] = needed[task.needs[0]].response
            default_input = all_answers(needed) if len(needed) > 1 else ""
            done[task.id] = await run.step(
                f"tasks/{index}", task.step, title=task.id, names=names, default_input=default_input
            )
            run.names["tasks"] = {name: done[name] for name in needs if name in done}
            return done[task.id]

        for index, task in enumerate(self.tasks):
            running[task.id] = asyncio.ensure_future(work(index, task))
        results = await run.together(list(running.values()))
        needed = {name for task in self.tasks for name in task.needs}
        return next(result for result in reversed(results) if result.id not in needed)


def _shaped_task(needs: Sequence[str] = (), description: str = "", **step: Any) -> dict[str, Any]:
    return {"id": step["id"], "description": description, "needs": needs, "step": shaped_step(step)}


def _task_scope(
    spec: BaseSpec, needs: Mapping[str, Sequence[str]], known: Mapping[str, Names | None], name: str
) -> Names:
    """What a task sees: all that it needs, directly or not."""
    before = cache(partial(reachable_names, needs, needs[name]))

    def blocked(key: str) -> str:
        return "" if key in before() else f"the task does not need {key!r}"

    last: dict[str, Names | None] = {"last_response": None} if len(needs[name]) == 1 else {}
    why = "it is clear only in a task that needs exactly one other; write tasks.ID.response"
    return scope_names(spec, why, tasks=Names(known, "task", blocked=blocked), **last)
