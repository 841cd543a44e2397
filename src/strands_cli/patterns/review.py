"""Review gates: a human looks at what an agent has decided, before the run goes on with it.

A gate is asked under the key of the step that it stands behind: `router/review#1`, then `#2`. One function
judges all answers, `judge_answer`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec

from strands_cli.errors import Issue, RunError
from strands_cli.patterns.outline import END, ONCE, Arrow, Box, Calls
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    AnyStep,
    HumanStep,
    StepRunner,
    arrows_in_a_row,
    matching_choice,
    step_box,
)
from strands_cli.patterns.scope import Names
from strands_cli.templates import names_in_template
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec

Role = Literal["router", "evaluator", "orchestrator", "reduce"]
Action = Literal["approve", "accept", "reject", "route", "feedback"]

MAX_CHANGES = 5
"""How often in a row a review may ask for changes of the same thing."""
CHANGES_LABEL = f"changes, at most {MAX_CHANGES} times"
_MAX_QUESTIONS = 5
"""How often in a row a gate asks again after an answer that means nothing to it."""
_REVIEWED = {"router": "route", "evaluator": "draft", "orchestrator": "tasks", "reduce": "result"}
_APPROVE = frozenset(["", "y", "yes", "ok", "okay", "approve", "approved", "continue"])
_REJECT = frozenset(["n", "no", "stop", "abort", "reject", "rejected"])
_ACCEPT = frozenset(["accept", "accepted", "stop", "abort", "end", "done"])
"""Ends the rounds of an evaluator with the draft as it is."""
_UNCLEAR = frozenset(["n", "no"])
"""To an evaluator's gate, that may mean that the draft is bad, or that no other is wanted."""
_ALLOWED: Mapping[Role, str] = {
    "router": "yes: take this route; no: stop the run; or the name of a route: {}",
    "evaluator": "yes: another draft; accept: end with this one; reject: stop the run; other text: feedback",
    "orchestrator": "yes: continue; no: stop the run; other text: what to change",
    "reduce": "yes: continue; no: stop the run; other text: what to change",
}
_AGAIN = "That is not one of the answers here."


class ReviewAnswer(msgspec.Struct, frozen=True):
    """What a reviewer has decided."""

    action: Action
    text: str = ""
    """The route, or the feedback."""


def judge_answer(role: Role, answer: str, routes: Collection[str] = ()) -> ReviewAnswer | None:
    """What an answer means at a gate; None where it means nothing there, so that it is asked again."""
    text = answer.strip()
    word = text.rstrip(".!").casefold()
    if role == "router":
        named = matching_choice(text, routes) or matching_choice(text.removeprefix("route:"), routes)
        if named is not None:
            return ReviewAnswer("route", named)
    if role == "evaluator" and word in _ACCEPT:
        return ReviewAnswer("accept")
    if word in _APPROVE:
        return ReviewAnswer("approve")
    if role == "evaluator" and word in _UNCLEAR:
        return None
    if word in _REJECT:
        return ReviewAnswer("reject")
    return None if role == "router" else ReviewAnswer("feedback", text)


class Review:
    """The gate behind one step, during one run."""

    def __init__(
        self, run: StepRunner, gate: HumanStep | None, role: Role, routes: Collection[str] = ()
    ) -> None:
        self._run, self._role, self._routes = run, role, routes
        allowed = f"({_ALLOWED[role].format(', '.join(routes))})"
        self._gate = gate and msgspec.structs.replace(gate, prompt=f"{gate.prompt.rstrip()}\n{allowed}")
        self._asked = self._changes = 0

    async def decide(self, names: Mapping[str, Any], turn: int = 0) -> ReviewAnswer:
        """What the reviewer decides; without a gate, all is approved. RunError if it is rejected."""
        if self._gate is None:
            return ReviewAnswer("approve")
        gate = self._gate
        for _ in range(_MAX_QUESTIONS):
            answer = await self._ask(gate, names, turn)
            decision = judge_answer(self._role, answer.response, self._routes)
            if decision is not None:
                return self._checked(decision, answer)
            gate = msgspec.structs.replace(gate, prompt=f"{_AGAIN}\n{self._gate.prompt}")
        noun = _REVIEWED[self._role]
        raise RunError(
            f"No usable answer to the review of the {noun} after {_MAX_QUESTIONS} questions.",
            hint=f"Answers: {_ALLOWED[self._role].format(', '.join(self._routes))}.",
            step=answer.key,
        )

    async def _ask(self, gate: HumanStep, names: Mapping[str, Any], turn: int) -> StepResult:
        self._asked += 1
        time = f", time {self._asked}" if self._asked > 1 else ""
        before = self._run.names.get("last_response")
        answer = await self._run.step(
            f"{self._role}/review#{self._asked}",
            gate,
            title=f"{_title(self._role)}{time}",
            names=names,
            turn=turn,
            input_at=f"{CONFIG}/{self._role}/review/prompt",
        )
        if before is not None:  # what artifacts see is the work, not what was said about it
            self._run.names["last_response"] = before
        return answer

    def _checked(self, decision: ReviewAnswer, answer: StepResult) -> ReviewAnswer:
        noun = _REVIEWED[self._role]
        if decision.action == "reject":
            raise RunError(f"The reviewer rejected the {noun} with {answer.response!r}.", step=answer.key)
        self._changes = self._changes + 1 if decision.action == "feedback" else 0
        if self._changes > MAX_CHANGES and self._role != "evaluator":
            raise RunError(
                f"The reviewer has asked for other {noun} {MAX_CHANGES} times, the limit."
                if noun == "tasks"
                else f"The reviewer has asked for changes of the {noun} {MAX_CHANGES} times, the limit.",
                hint="Change the prompts of the workflow, and run it again.",
                step=answer.key,
            )
        return decision


def change_request(spec: BaseSpec, step: AnyStep, feedback: str, before: str = "", *templates: str) -> str:
    """Feedback as instructions to the agent of a step; none if one of its templates has {{ review }}."""
    agent = spec.agents.get(getattr(step, "agent", ""))
    texts = (getattr(step, "input", ""), agent.prompt if agent else "", *templates)
    if not feedback or any(name.name == "review" for text in texts for name in names_in_template(text)[0]):
        return ""
    before = f"Your last answer was:\n{before}\n\n" if before else ""
    return f"{before}A reviewer asks for this:\n{feedback}"


async def reduced_result(
    run: StepRunner,
    step: AnyStep,
    gate: HumanStep | None,
    *,
    names: Mapping[str, Any],
    default_input: str,
    turn: int = 0,
) -> StepResult:
    """The result of `reduce`, which is done again as long as its review asks for changes."""
    review = Review(run, gate, "reduce")
    feedback = last = ""
    number = 0
    while True:
        number += 1
        again, time = (f"#{number}", f", time {number}") if number > 1 else ("", "")
        result = await run.step(
            f"reduce{again}",
            step,
            title=f"reduce{time}",
            names={**names, "review": feedback} if gate else names,
            turn=turn + number - 1,
            default_input=default_input,
            instructions=change_request(run.spec, step, feedback, last),
        )
        last = result.response
        decision = await review.decide({**names, "last_response": last}, turn + number - 1)
        if decision.action != "feedback":
            return result
        feedback = decision.text


# --- What is checked and drawn ----------------------------------------------------------------------------


def review_place(role: Role, gate: HumanStep | None, names: Callable[[], Names]) -> Iterator[AgentPlace]:
    if gate is not None:
        at = f"{CONFIG}/{role}/review"
        yield AgentPlace(at, names, None, gate.prompt, f"{at}/prompt")


def review_boxes(role: Role, gate: HumanStep | None, stage: int, **more: Any) -> list[Box]:
    if gate is None:
        return []
    return [step_box(f"{role}/review", gate, _title(role), stage=stage, **more)]


def _title(role: Role) -> str:
    return f"{_REVIEWED[role].removesuffix('s')} review"


def reduce_parts(
    step: AnyStep, gate: HumanStep | None, *, stage: int, note: str, then: str = END
) -> tuple[list[Box], list[Arrow]]:
    """The end of a pattern that has a `reduce`, with its review; `then` is what follows it."""
    calls = Calls(1, 1 + MAX_CHANGES) if gate else ONCE
    boxes = [step_box("reduce", step, "reduce", "reduce", stage=stage, note=note, calls=calls)]
    boxes += review_boxes("reduce", gate, stage + 1)
    arrows = arrows_in_a_row([*(box.key for box in boxes), then])
    if gate:
        arrows.append(Arrow(source="reduce/review", target="reduce", label=CHANGES_LABEL))
    return boxes, arrows


def check_review_default(
    spec: BaseSpec, role: Role, gate: HumanStep | None, routes: Collection[str] = ()
) -> Iterator[Issue]:
    """The default of a gate decides: where nobody answers, it would be given again and again."""
    if gate is None or gate.default is None:
        return
    decision = judge_answer(role, gate.default, routes)
    if decision is None or decision.action == "feedback":
        allowed = _ALLOWED[role].format(", ".join(routes))
        yield spec.issue(
            f"{CONFIG}/{role}/review/default",
            f"The default {gate.default!r} is not an answer to a review of the {_REVIEWED[role]}.",
            f"Answers: {allowed}.",
        )
