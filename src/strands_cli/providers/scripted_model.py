"""`ScriptedModel`: an SDK model with scripted answers, for tests of agents and workflows."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands.models import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolSpec

from strands_cli.providers.scripts import Part, ScriptedCall, ScriptedPause, ScriptedRequest, ScriptedUsage

Reply = Callable[[ScriptedRequest], Part | Sequence[Part | Exception]]
"""A function that answers a request: it returns a text, a call or several parts, or raises."""


@dataclass
class ScriptedModel(Model):
    """An SDK model that returns the enqueued answers in order, and then those of `reply`."""

    reply: Reply | None = None
    """Called with the request when nothing is enqueued; returns a text, a call, or a list of both."""
    default_answer: str | None = None
    """The answer if there is neither an enqueued one nor `reply`; without it, AssertionError."""
    tokens: int = 10
    """The tokens of each answer, half of them for the input."""
    config: dict[str, Any] = field(default_factory=lambda: {"model_id": "scripted"})
    answers: deque[list[Part | Exception] | Exception | Reply] = field(default_factory=deque)
    requests: list[ScriptedRequest] = field(default_factory=list)
    """The requests it received."""
    _calls: int = 0

    def enqueue(self, *parts: Part | Exception | Reply) -> "ScriptedModel":
        """Adds one answer: any number of texts, calls and pauses, or a function that gets the request.

        An exception among the parts is raised at that point, so an answer can break off.
        """
        if len(parts) == 1 and (isinstance(parts[0], Exception) or callable(parts[0])):
            self.answers.append(parts[0])
        elif any(map(callable, parts)):
            raise TypeError("a function is a complete answer and cannot be combined with other parts")
        else:
            self.answers.append([part for part in parts if not callable(part)])
        return self

    def update_config(self, **model_config: Any) -> None:
        self.config.update(model_config)

    def get_config(self) -> dict[str, Any]:
        return self.config

    async def stream(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        self.requests.append(ScriptedRequest(messages, tool_specs or [], system_prompt, tool_choice))
        answer = self._next()
        half = self.tokens // 2
        usage = ScriptedUsage(self.tokens - half, half)
        yield {"messageStart": {"role": "assistant"}}
        for part in answer:
            if isinstance(part, ScriptedPause):
                await asyncio.sleep(part.seconds)
            elif isinstance(part, ScriptedUsage):
                usage = part
            elif isinstance(part, Exception):
                raise part
            else:
                for chunk in self._chunks(part):
                    yield chunk
        is_asking = any(isinstance(part, ScriptedCall) for part in answer)
        yield {"messageStop": {"stopReason": "tool_use" if is_asking else "end_turn"}}
        tokens = {"inputTokens": usage.input, "outputTokens": usage.output}
        total = usage.input + usage.output
        yield {"metadata": {"usage": {**tokens, "totalTokens": total}, "metrics": {"latencyMs": 1}}}  # type: ignore[typeddict-item]

    async def structured_output(
        self, output_model: Any, prompt: Messages, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        self.requests.append(ScriptedRequest(prompt, [], system_prompt))
        (part,) = self._next()
        if not isinstance(part, ScriptedCall) or not isinstance(part.input, dict):
            raise AssertionError("script structured output as a tool call with an object")
        yield {"output": output_model(**part.input)}

    def _next(self) -> Sequence[Part | Exception]:
        answer = self.answers.popleft() if self.answers else self.reply
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            given = answer(self.requests[-1])
            return [given] if isinstance(given, Part) else given
        if answer is not None:
            return answer
        if self.default_answer is None:
            raise AssertionError(f"no scripted answer is left for this request: {self.requests[-1]}")
        return [self.default_answer]

    def _chunks(self, part: str | ScriptedCall) -> list[StreamEvent]:
        if isinstance(part, str):
            return [
                {"contentBlockStart": {"start": {}}},
                {"contentBlockDelta": {"delta": {"text": part}}},
                {"contentBlockStop": {}},
            ]
        self._calls += 1
        use = {"toolUseId": part.id or f"call-{self._calls}", "name": part.name}
        text = part.input if isinstance(part.input, str) else json.dumps(part.input)
        size = max(1, -(-len(text) // part.pieces))
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        start: StreamEvent = {"contentBlockStart": {"start": {"toolUse": use}}}  # type: ignore[typeddict-item]
        deltas: list[StreamEvent] = [
            {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}} for piece in pieces
        ]
        return [start, *deltas, {"contentBlockStop": {}}]
