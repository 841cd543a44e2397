"""Gemini's streamGenerateContent as server-sent events."""

import re
from collections.abc import Iterator
from typing import Any

from tests.fakes import Call
from tests.standins.base import Standin, Status, event, pieces

_STATUSES = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class GeminiStandin(Standin):
    path = re.compile(r"/v1beta/models/[^:/]+:streamGenerateContent\?alt=sse")

    def words(self, text: str) -> Iterator[bytes]:
        for piece in pieces(text):
            yield self._candidate({"text": piece})

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        yield self._candidate({"functionCall": {"name": call.name, "args": call.input}})

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        yield self._candidate({"text": ""}, finishReason="STOP")

    def complaint(self, text: str) -> bytes:
        return event({"error": {"code": 503, "message": text, "status": "UNAVAILABLE"}})

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        word = _STATUSES.get(status.code, "INTERNAL")
        return {}, {"error": {"code": status.code, "message": status.text, "status": word}}

    def _candidate(self, part: dict[str, Any], **rest: Any) -> bytes:
        usage = {
            "promptTokenCount": self.input_tokens,
            "candidatesTokenCount": self.output_tokens,
            "totalTokenCount": self.input_tokens + self.output_tokens,
        }
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **rest}
        return event({"candidates": [candidate], "usageMetadata": usage})
