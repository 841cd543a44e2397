"""Invocations of any length.

The SDK's loop calls itself once per turn, and Python ends that near 300 turns. An invocation is therefore
made in slices, each of which goes on where the last one stopped.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

from strands import Agent
from strands.agent import AgentResult
from strands.types.agent import AgentInput, Limits

TURNS_PER_SLICE = 25
"""Well below the end, and cheap: what a turn costs grows with the number of turns before it in its slice."""


async def invoke_in_slices(
    agent: Agent,
    prompt: AgentInput = None,
    *,
    turns: int = TURNS_PER_SLICE,
    limits: Limits | None = None,
    **options: Any,
) -> AgentResult:
    """As `agent.invoke_async`, for any number of turns."""
    result: Any = None
    async for event in stream_in_slices(agent, prompt, turns=turns, limits=limits, **options):
        result = event.get("result")
    return cast(AgentResult, result)


async def stream_in_slices(
    agent: Agent,
    prompt: AgentInput = None,
    *,
    turns: int = TURNS_PER_SLICE,
    limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[dict[str, Any]]:
    """As `agent.stream_async`, for any number of turns; `limits` bound all slices together.

    Only the last result is an event, and it is the last one. Hooks for the beginning and the end of an
    invocation are called for each slice.
    """
    left = cast(dict[str, int], dict(limits or {}))
    result: AgentResult | None = None
    while result is None or (result.stop_reason == "limit_turns" and not _reached(left)):
        bounds = cast(Limits, {**left, "turns": min(turns, left.get("turns", turns))})
        async for event in agent.stream_async(prompt, limits=bounds, **options):
            if isinstance(event.get("result"), AgentResult):
                result = event["result"]
            else:
                yield event
        assert result is not None, "a stream ends with its result"
        left = _left_after(result, left)
        prompt = None
    if result.stop_reason == "limit_turns":
        result = replace(result, stop_reason=cast(Any, f"limit_{_reached(left)}"))
    yield {"result": result}


def _reached(left: dict[str, int]) -> str:
    """The limit that is used up, in the order in which the SDK looks at them; nothing where none is."""
    names = ("turns", "total_tokens", "output_tokens")
    return next((name for name in names if left.get(name, 1) <= 0), "")


def _left_after(result: AgentResult, left: dict[str, int]) -> dict[str, int]:
    spent = result.metrics.latest_agent_invocation
    if spent is None:
        return left
    used = {
        "turns": len(spent.cycles),
        "total_tokens": spent.usage["totalTokens"],
        "output_tokens": spent.usage["outputTokens"],
    }
    return {name: count - used[name] for name, count in left.items()}
