"""OpenAI's chat completions as server-sent events, and the server of llama.cpp, which speaks the same."""

import re
from collections.abc import Iterator
from typing import Any

from tests.fakes import Call
from tests.standins.base import Standin, Status, event, pieces, spread


class OpenAIStandin(Standin):
    path = re.compile("/v1/chat/completions")

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def opening(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def words(self, text: str) -> Iterator[bytes]:
        for piece in pieces(text):
            yield self._chunk({"content": piece})

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        _, deltas = spread(call)
        identity = {"id": call.id or f"call_{len(self.requests)}_{number}", "type": "function"}
        named = {"index": number, **identity, "function": {"name": call.name, "arguments": ""}}
        yield self._chunk({"tool_calls": [named]})
        for delta in deltas:
            yield self._chunk({"tool_calls": [{"index": number, "function": {"arguments": delta}}]})

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        yield self._chunk({}, "tool_calls" if is_asking else "stop")
        usage = {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }
        yield event({**self._head(), "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def complaint(self, text: str) -> bytes:
        return event({"error": {"message": text, "type": "server_error", "code": "server_error"}})

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        return {}, {"error": {"message": status.text, "type": "stand_in", "code": None, "param": None}}

    def _head(self) -> dict[str, Any]:
        model = self.requests[-1].body.get("model")
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event({**self._head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


class LlamaCppStandin(OpenAIStandin):
    @property
    def url(self) -> str:
        return self.origin
