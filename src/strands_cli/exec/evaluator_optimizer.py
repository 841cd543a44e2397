"""A producer writes, an evaluator judges, until it is good enough."""

from collections.abc import Mapping
from typing import Any

from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions
from strands_cli.exec.steps import Wanted, run_step
from strands_cli.types import EvaluatorOptimizer, RunResult, Spec, StepResult

_VERDICT = {
    "score": {"type": "number", "minimum": 0, "maximum": 100, "description": "How good it is, from 0 to 100"},
    "feedback": {"type": "string", "description": "What must change"},
}
_REVISE = "{{ draft }}\n\nThis has to be better: {{ evaluation.feedback }}"
"""What the producer is told from the second time on, where the workflow does not say it."""


async def run_evaluator_optimizer(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _evaluator_optimizer, EvaluatorOptimizer)


async def _evaluator_optimizer(run: Run, pattern: EvaluatorOptimizer) -> StepResult:
    draft: StepResult | None = None
    for turn in range(1, pattern.max_iters + 1):
        draft = await _produce(run, pattern, turn)
        run.names["draft"] = draft.response
        verdict = await _judge(run, pattern, draft, turn)
        run.names["evaluation"] = verdict.output
        run.names["last_response"] = draft.response
        if verdict.output["score"] >= pattern.min_score:
            return draft
    assert draft is not None, "there is at least one turn"
    score = run.names["evaluation"]["score"]
    run.notice(f"After {pattern.max_iters} times the score is {score:g}, below {pattern.min_score:g}.")
    return draft


async def _produce(run: Run, pattern: EvaluatorOptimizer, turn: int) -> StepResult:
    is_first = turn == 1
    wanted = Wanted(
        turn=turn,
        input=None if is_first else pattern.revise or _REVISE,
        input_at="" if is_first else "/pattern/config/revise",
    )
    names = {} if is_first else _names(run)
    return await run_step(
        run, f"producer#{turn}", pattern.producer, title=_title("producer", turn), names=names, wanted=wanted
    )


async def _judge(run: Run, pattern: EvaluatorOptimizer, draft: StepResult, turn: int) -> StepResult:
    own = run.spec.agents[pattern.evaluator.agent].output_schema or {}
    wanted = Wanted(
        turn=turn,
        schema=_schema(own),
        instructions=f"Judge it with a score from 0 to 100; {pattern.min_score:g} is good enough.",
    )
    names = {"draft": draft.response, "last_response": draft.response}
    title = _title("evaluator", turn)
    return await run_step(
        run, f"evaluator#{turn}", pattern.evaluator, title=title, names=names, wanted=wanted
    )


def _names(run: Run) -> dict[str, Any]:
    return {name: run.names[name] for name in ("draft", "evaluation", "last_response")}


def _title(name: str, turn: int) -> str:
    return name if turn == 1 else f"{name}, time {turn}"


def _schema(own: Mapping[str, Any]) -> dict[str, Any]:
    """The evaluator's own schema, with what every verdict has."""
    required = dict.fromkeys([*own.get("required", ()), "score", "feedback"])
    properties = {**own.get("properties", {}), **_VERDICT}
    return {**own, "type": "object", "properties": properties, "required": list(required)}
