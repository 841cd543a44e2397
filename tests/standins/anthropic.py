"""Anthropic's messages as server-sent events."""

import re
from collections.abc import Iterator
from typing import Any

from tests.fakes import Call
from tests.standins.base import Standin, Status, event, pieces, spread

_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicStandin(Standin):
    path = re.compile("/v1/messages")

    def opening(self) -> Iterator[bytes]:
        self._blocks = 0
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": self.requests[-1].body.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": 1},
        }
        yield _named({"type": "message_start", "message": message})

    def words(self, text: str) -> Iterator[bytes]:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(text)]
        yield from self._block({"type": "text", "text": ""}, deltas)

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        deltas = [{"type": "input_json_delta", "partial_json": delta} for delta in spread(call)[1]]
        identity = call.id or f"toolu_{len(self.requests)}_{number}"
        yield from self._block({"type": "tool_use", "id": identity, "name": call.name, "input": {}}, deltas)

    def _block(self, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[bytes]:
        index = self._blocks
        self._blocks += 1
        yield _named({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        delta = {"stop_reason": "tool_use" if is_asking else "end_turn", "stop_sequence": None}
        usage = {"output_tokens": self.output_tokens}
        yield _named({"type": "message_delta", "delta": delta, "usage": usage})
        yield _named({"type": "message_stop"})

    def complaint(self, text: str) -> bytes:
        return _named({"type": "error", "error": {"type": "overloaded_error", "message": text}})

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        kind = _TYPES.get(status.code, "api_error" if status.code >= 500 else "invalid_request_error")
        return {}, {"type": "error", "error": {"type": kind, "message": status.text}}


def _named(document: dict[str, Any]) -> bytes:
    return event(document, document["type"])
