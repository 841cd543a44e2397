"""Branches at the same time, then maybe one step over all of them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from strands_cli.errors import Issue
from strands_cli.patterns.outline import END, START, Arrow, Box, Frame, task_stages
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    AnyStep,
    HumanStep,
    Parts,
    Pattern,
    StepRunner,
    Steps,
    actor_text,
    agent_place,
    all_answers,
    amount_text,
    arrows_in_a_row,
    at_a_time,
    results_by_key,
    shaped_steps,
    step_box,
    step_places,
    whole_result,
    with_shaped,
)
from strands_cli.patterns.review import check_review_default, reduce_parts, reduced_result, review_place
from strands_cli.patterns.scope import Names, list_names, scope_names, with_alias
from strands_cli.types.run_results import StepResult, detailed_result
from strands_cli.types.sections import BaseSpec


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    steps: Steps


def check_reduce_review(pattern: "Parallel", spec: BaseSpec) -> Iterator[Issue]:
    return check_review_default(spec, "reduce", pattern.reduce_review)


class Parallel(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "parallel"
    title = "parallel branches"
    names = ("steps", "branches")
    review_names = ("review",)
    checks = {check_reduce_review: ("/pattern*",)}

    branches: tuple[Branch, ...]
    reduce: AnyStep | None = None
    reduce_review: HumanStep | None = None

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        branches = [shaped_steps(branch) for branch in config["branches"]]
        return with_shaped({**config, "branches": branches}, "reduce")

    @property
    def has_review(self) -> bool:
        return self.reduce_review is not None

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        for index, branch in enumerate(self.branches):
            yield from step_places(spec, f"{CONFIG}/branches/{index}/steps", branch.steps)
        if self.reduce:
            why = "several branches have answered; write branches.ID.response"
            names = self.artifact_names(spec)
            reducing = {**names, "review": None} if self.has_review else names
            yield agent_place(f"{CONFIG}/reduce", self.reduce, partial(scope_names, spec, why, **reducing))
            reviewing = partial(scope_names, spec, last_response=None, **names)
            yield from review_place("reduce", self.reduce_review, reviewing)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        last = {branch.id: branch.steps[-1] for branch in self.branches if branch.steps}
        results = with_alias(results_by_key(spec, last), step_history=list_names(None, "step"))
        return {"branches": Names(results, "branch")}

    def id_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        yield f"{CONFIG}/branches", [branch.id for branch in self.branches]
        for index, branch in enumerate(self.branches):
            yield f"{CONFIG}/branches/{index}/steps", [step.id for step in branch.steps]

    def outline(self, spec: BaseSpec) -> Parts:
        keys = [
            [f"branches/{number}/steps/{index}" for index in range(len(branch.steps))]
            for number, branch in enumerate(self.branches)
        ]
        needs = {key: row[index - 1 : index] for row in keys for index, key in enumerate(row)}
        when = task_stages(needs, spec.runtime.max_parallel)
        boxes, arrows, frames = list[Box](), list[Arrow](), list[Frame]()
        for branch, row in zip(self.branches, keys, strict=True):
            boxes += [
                step_box(key, step, f"step {index + 1}", stage=when[key], note=f"branch {branch.id}")
                for index, (key, step) in enumerate(zip(row, branch.steps, strict=True))
            ]
            arrows += arrows_in_a_row([START, *row, "reduce" if self.reduce else END])
            frames.append(Frame(title=f"branch {branch.id}", boxes=tuple(row)))
        if self.reduce:
            last = max(when.values()) + 1
            closing = reduce_parts(self.reduce, self.reduce_review, stage=last, note="over all branches")
            boxes += closing[0]
            arrows += closing[1]
        return boxes, arrows, frames

    def story(self, spec: BaseSpec) -> str:
        branches = amount_text(len(self.branches), "branch", "branches")
        then = f" Then {actor_text(self.reduce)} works on all their results." if self.reduce else ""
        together = f"{branches} run at the same time, {at_a_time(spec)}"
        return f"{together}; within each, one step after the other.{then}"

    async def run(self, run: StepRunner) -> StepResult:
        ended: dict[str, StepResult] = {}
        run.names["branches"] = {}

        async def work(index: int, branch: Branch) -> None:
            done = await run.steps(f"branches/{index}/steps", branch.steps, titles=branch.id)
            ended[branch.id] = detailed_result(done[-1], id=branch.id, step_history=tuple(done))
            # For a run that does not finish.
            in_order = [other.id for other in self.branches if other.id in ended]
            run.names["branches"] = {name: ended[name] for name in in_order}

        await run.together([work(index, branch) for index, branch in enumerate(self.branches)])
        if self.reduce is None:
            return _all_results(ended)
        names, answers = {"branches": run.names["branches"]}, all_answers(run.names["branches"])
        return await reduced_result(run, self.reduce, self.reduce_review, names=names, default_input=answers)


def _all_results(ended: Mapping[str, StepResult]) -> StepResult:
    """The result where no step sums up: all branches, sorted by their ids."""
    parts = sorted(ended.items())
    text = "\n\n---\n\n".join(f"Branch {name}:\n{result.response}" for name, result in parts)
    return whole_result(text, {name: result.output for name, result in parts})
