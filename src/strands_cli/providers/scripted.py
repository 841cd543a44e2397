"""A model that gives scripted answers: a real Model of the SDK, for tests of agents and workflows."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from strands.models import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolSpec

from strands_cli.providers.choice import PROVIDERS, Provider


@dataclass(frozen=True)
class ScriptedCall:
    """One tool use in a model's answer; `input` is an object, or the very text that the model sends."""

    name: str
    input: dict[str, Any] | str
    id: str = ""
    pieces: int = 1
    """Over how many deltas the input is spread."""


@dataclass(frozen=True)
class ScriptedPause:
    """The model is silent for a while, before or between what it says."""

    seconds: float


Part = str | ScriptedCall | ScriptedPause


@dataclass(frozen=True)
class ScriptedRequest:
    """What the model was asked."""

    messages: Messages
    tool_specs: list[ToolSpec]
    system_prompt: str | None
    tool_choice: Any = None

    @property
    def results(self) -> list[dict[str, Any]]:
        """The tool results in the last message."""
        return [dict(block["toolResult"]) for block in self.messages[-1]["content"] if "toolResult" in block]


def call(name: str, /, **arguments: Any) -> ScriptedCall:
    return ScriptedCall(name, arguments)


@dataclass
class ScriptedModel(Model):
    """`enqueue` tells it one answer: texts, calls and pauses in a row, or an exception to raise."""

    config: dict[str, Any] = field(default_factory=lambda: {"model_id": "scripted"})
    answers: deque[list[Part] | Exception] = field(default_factory=deque)
    requests: list[ScriptedRequest] = field(default_factory=list)
    default_answer: str | None = None
    """What it answers when the script is at its end."""
    tokens: int = 10
    """What each answer costs, half of it for the input."""
    _calls: int = 0

    def enqueue(self, *parts: Part | Exception) -> "ScriptedModel":
        error = next((part for part in parts if isinstance(part, Exception)), None)
        self.answers.append(error or [part for part in parts if not isinstance(part, Exception)])
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
        yield {"messageStart": {"role": "assistant"}}
        for part in answer:
            if isinstance(part, ScriptedPause):
                await asyncio.sleep(part.seconds)
                continue
            for chunk in self._chunks(part):
                yield chunk
        is_asking = any(isinstance(part, ScriptedCall) for part in answer)
        yield {"messageStop": {"stopReason": "tool_use" if is_asking else "end_turn"}}
        half = self.tokens // 2
        usage = {"inputTokens": self.tokens - half, "outputTokens": half, "totalTokens": self.tokens}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}  # type: ignore[typeddict-item]

    async def structured_output(
        self, output_model: Any, prompt: Messages, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        self.requests.append(ScriptedRequest(prompt, [], system_prompt))
        (part,) = self._next()
        if not isinstance(part, ScriptedCall) or not isinstance(part.input, dict):
            raise AssertionError("a structured answer is scripted as a call with an object")
        yield {"output": output_model(**part.input)}

    def _next(self) -> list[Part]:
        if not self.answers and self.default_answer is not None:
            return [self.default_answer]
        if not self.answers:
            raise AssertionError(f"the model was asked more often than the script says: {self.requests[-1]}")
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

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


@contextmanager
def installed(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """The model in the place of every provider's, entered through the table of providers."""
    theirs = dict(PROVIDERS)
    row = Provider(build=lambda choice: model, default_model="scripted")
    for name, their in theirs.items():
        PROVIDERS[name] = msgspec.structs.replace(row, errors=their.errors)
    try:
        yield model
    finally:
        PROVIDERS.update(theirs)
