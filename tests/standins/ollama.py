"""Ollama's `/api/chat`: one JSON document per line."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.fakes import Call
from tests.standins.base import Standin, Status, pieces


class OllamaStandin(Standin):
    path = re.compile("/api/chat")
    content_type = "application/x-ndjson"

    def words(self, text: str) -> Iterator[bytes]:
        for piece in pieces(text):
            yield self._line({"role": "assistant", "content": piece})

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        use = {"function": {"name": call.name, "arguments": call.input}}
        yield self._line({"role": "assistant", "content": "", "tool_calls": [use]})

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        yield self._line(
            {"role": "assistant", "content": ""},
            done=True,
            done_reason="stop",
            total_duration=2_000_000,
            prompt_eval_count=self.input_tokens,
            eval_count=self.output_tokens,
        )

    def complaint(self, text: str) -> bytes:
        return json.dumps({"error": text}).encode() + b"\n"

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        return {}, {"error": status.text}

    def _line(self, message: dict[str, Any], *, done: bool = False, **rest: Any) -> bytes:
        model = self.requests[-1].body.get("model")
        head = {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done}
        return json.dumps({**head, **rest}).encode() + b"\n"
