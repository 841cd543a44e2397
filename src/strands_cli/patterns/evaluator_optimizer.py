"""A producer writes, an evaluator judges, until it is good enough."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue
from strands_cli.patterns.outline import END, START, Arrow, Calls, first_line
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    HumanStep,
    Parts,
    Pattern,
    Step,
    StepRunner,
    agent_place,
    arrows_in_a_row,
    step_box,
    times_text,
    with_names,
    with_shaped,
)
from strands_cli.patterns.review import (
    Review,
    change_request,
    check_review_default,
    review_boxes,
    review_place,
)
from strands_cli.patterns.scope import Names, complete_evaluation, list_names, schema_names, scope_names
from strands_cli.toolkit.provider_schema import ASKED
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec

_VERDICT: dict[str, dict[str, Any]] = {
    "score": {"type": "number", "minimum": 0, "maximum": 100, "description": "How good it is, from 0 to 100"},
    "feedback": {"type": "string", "description": "What must change"},
}
"""What every evaluation has, whatever the evaluator's own schema says of it."""
_DETAILS: dict[str, dict[str, Any]] = {
    name: {"type": "array", "items": {"type": "string"}, "description": text}
    for name, text in {
        "issues": "What is wrong, one by one",
        "fixes": "What would be better, one by one",
    }.items()
}
"""What it has besides, in this form unless the evaluator's own schema has another."""
_REVISE = (
    "{{ draft }}\n\nImprove it: {{ evaluation.feedback }}"
    "{% if evaluation.fixes %}\n\nProposals:"
    "{% for fix in evaluation.fixes %}\n- {{ fix }}{% endfor %}{% endif %}"
)
"""The producer's prompt from the second time on, unless the workflow has one."""


def check_evaluator_schema(pattern: "EvaluatorOptimizer", spec: BaseSpec) -> Iterator[Issue]:
    """Of the evaluator's `output_schema`, what every evaluation has already has no effect."""
    own = pattern.own_schema(spec)
    at = ("agents", pattern.evaluator.agent, "output_schema")
    if own.get("type", "object") != "object":
        reason = "An evaluation is always an object with a score and feedback: this type has no effect."
        yield spec.issue(json_pointer((*at, "type")), reason, "Write object, and name properties.", "warning")
    properties: Any = own.get("properties")
    for part, verdict in _VERDICT.items():
        declared = properties.get(part) if isinstance(properties, dict) else None
        if not isinstance(declared, dict):
            continue
        described = {**verdict, "description": declared.get("description")}
        if not declared.items() <= described.items():
            reason = (
                f"Every evaluation has a {part} of its own form: what the schema says of it has no effect."
            )
            yield spec.issue(
                json_pointer((*at, "properties", part)),
                reason,
                "Remove it, or give it another name.",
                "warning",
            )


def check_evaluator_review(pattern: "EvaluatorOptimizer", spec: BaseSpec) -> Iterator[Issue]:
    yield from check_review_default(spec, "evaluator", pattern.evaluator_review)
    if pattern.evaluator_review is not None and pattern.max_iters == 1:
        yield spec.issue(
            f"{CONFIG}/evaluator/review",
            "This review has no effect: there is only one draft, and nothing follows it.",
            "Set max_iters to 2 or more, or remove the review.",
            "warning",
        )


class EvaluatorOptimizer(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "evaluator_optimizer"
    title = "evaluator and optimizer"
    names = ("draft", "evaluation")
    review_names = ("review", "round")
    checks = {check_evaluator_schema: ("/pattern*",), check_evaluator_review: ("/pattern*",)}

    producer: Step
    evaluator: Step
    evaluator_review: HumanStep | None = None
    revise: str = ""
    min_score: float = 80
    max_iters: int = 3

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return with_shaped(config, "producer", "evaluator")

    @property
    def has_review(self) -> bool:
        return self.evaluator_review is not None

    def own_schema(self, spec: BaseSpec) -> dict[str, Any]:
        agent = spec.agents.get(self.evaluator.agent)
        return (agent.output_schema if agent else None) or {}

    @property
    def instructions(self) -> str:
        return f"Judge it with a score from 0 to 100; {self.min_score:g} is good enough."

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        yield agent_place(f"{CONFIG}/producer", self.producer, partial(scope_names, spec))
        judging = partial(scope_names, spec, draft=None, last_response=None)
        yield agent_place(f"{CONFIG}/evaluator", self.evaluator, judging)
        at = f"{CONFIG}/revise"
        names: dict[str, Names | None] = {"last_response": None, **self.artifact_names(spec)}
        revised = {**names, "review": None} if self.has_review else names
        revising = partial(with_names, partial(scope_names, spec, **revised), self.producer.vars)
        yield AgentPlace(at, revising, None, self.revise, at)
        reviewing = partial(scope_names, spec, **names, round=None)
        yield from review_place("evaluator", self.evaluator_review, reviewing)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        """Score, feedback, issues, fixes, and what the evaluator's own schema adds to them."""
        own = self.own_schema(spec)
        added = schema_names(own, own) if own else Names({})
        if added is None:
            return {"draft": None, "evaluation": None}
        lists = dict.fromkeys(_DETAILS, list_names(None, "item"))
        known = {**lists, **added.known, "score": None, "feedback": None}
        return {"draft": None, "evaluation": Names(known, "part of an evaluation")}

    def outline(self, spec: BaseSpec) -> Parts:
        score, most = f"{self.min_score:g}", self.max_iters
        calls = Calls(1, most)
        note = "once" if most == 1 else f"until score >= {score}, at most {most} times"
        boxes = [
            step_box("producer", self.producer, "producer", stage=1, calls=calls, note=note),
            step_box(
                "evaluator",
                self.evaluator,
                "evaluator",
                "evaluator",
                stage=2,
                calls=calls,
                note=note,
                instructions=self.instructions,
            ),
        ]
        done = f"score >= {score}, or after {most} times" if most > 1 else ""
        arrows = [
            *arrows_in_a_row([START, "producer", "evaluator"]),
            Arrow(source="evaluator", target=END, label=done),
        ]
        back = "evaluator"
        if most > 1 and self.has_review:
            boxes += review_boxes("evaluator", self.evaluator_review, stage=3, when=f"score < {score}")
            back = boxes[-1].key
            arrows.append(Arrow(source="evaluator", target=back, label=f"score < {score}"))
            arrows.append(Arrow(source=back, target=END, label="accepted"))
        if most > 1:
            arrows.append(Arrow(source=back, target="producer", label=note))
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        producer, evaluator = first_line(self.producer.agent), first_line(self.evaluator.agent)
        enough = f"until the score is {self.min_score:g} of 100 or more"
        return f"{producer} writes and {evaluator} judges, {enough}, at most {times_text(self.max_iters)}."

    async def run(self, run: StepRunner) -> StepResult:
        schema = self._schema(run.spec)
        order: dict[str, Any] = {"names": {}}
        review = Review(run, self.evaluator_review, "evaluator")
        for turn in range(1, self.max_iters + 1):
            time = f", time {turn}" if turn > 1 else ""
            draft = await run.step(
                f"producer#{turn}",
                self.producer,
                title=f"producer{time}",
                turn=turn,
                conversation="producer",
                **order,
            )
            run.names["draft"] = draft.response
            verdict = await run.step(
                f"evaluator#{turn}",
                self.evaluator,
                title=f"evaluator{time}",
                names={"draft": draft.response, "last_response": draft.response},
                turn=turn,
                schema=schema,
                instructions=self.instructions,
                conversation="evaluator",
            )
            run.names["evaluation"] = evaluation = complete_evaluation(verdict.output)
            run.names["last_response"] = draft.response
            if evaluation["score"] >= self.min_score:
                return draft
            if turn == self.max_iters:
                break
            names = {"draft": draft.response, "evaluation": evaluation, "last_response": draft.response}
            decision = await review.decide({**names, "round": turn}, turn)
            if decision.action == "accept":
                return draft
            order = {"names": names, "input": self.revise or _REVISE, "input_at": f"{CONFIG}/revise"}
            if self.has_review:
                feedback = change_request(run.spec, self.producer, decision.text, "", self.revise)
                order |= {"names": {**names, "review": decision.text}, "instructions": feedback}
        score = evaluation["score"]
        run.notice(f"After {self.max_iters} rounds the score is {score:g}, below {self.min_score:g}.")
        return draft

    def _schema(self, spec: BaseSpec) -> dict[str, Any]:
        """The form of an evaluation: the evaluator's own, with what every evaluation has."""
        own = self.own_schema(spec)
        either = {"anyOf": [{"required": ["feedback"]}, {"required": ["issues"]}]}
        return {
            **own,
            "type": "object",
            "properties": {**_DETAILS, **own.get("properties", {}), **_VERDICT},
            "required": list(dict.fromkeys([*own.get("required", ()), "score"])),
            "allOf": [*own.get("allOf", ()), either],
            ASKED: ["feedback"],
        }
