"""Bedrock's converse-stream: binary frames, each with two checksums."""

import json
import re
import struct
from binascii import crc32
from collections.abc import Iterator
from typing import Any

from tests.fakes import Call
from tests.standins.base import Standin, Status, pieces, spread

_STRING = 7
_TYPES = {
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class BedrockStandin(Standin):
    path = re.compile(r"/model/[^/]+/converse-stream")
    content_type = "application/vnd.amazon.eventstream"

    def opening(self) -> Iterator[bytes]:
        self._blocks = 0
        yield _event("messageStart", {"role": "assistant"})

    def words(self, text: str) -> Iterator[bytes]:
        index = self._next()
        for piece in pieces(text):
            yield _event("contentBlockDelta", {"contentBlockIndex": index, "delta": {"text": piece}})
        yield _event("contentBlockStop", {"contentBlockIndex": index})

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        index = self._next()
        use = {"toolUseId": call.id or f"tooluse_{len(self.requests)}_{number}", "name": call.name}
        yield _event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})
        for delta in spread(call)[1]:
            content = {"contentBlockIndex": index, "delta": {"toolUse": {"input": delta}}}
            yield _event("contentBlockDelta", content)
        yield _event("contentBlockStop", {"contentBlockIndex": index})

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        yield _event("messageStop", {"stopReason": "tool_use" if is_asking else "end_turn"})
        usage = {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "totalTokens": self.input_tokens + self.output_tokens,
        }
        yield _event("metadata", {"usage": usage, "metrics": {"latencyMs": 2}})

    def complaint(self, text: str) -> bytes:
        headers = {":message-type": "exception", ":exception-type": "modelStreamErrorException"}
        return frame(headers, {"message": text})

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        kind = _TYPES.get(
            status.code, "InternalServerException" if status.code >= 500 else "ValidationException"
        )
        return {"x-amzn-ErrorType": kind}, {"message": status.text}

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks - 1


def _event(kind: str, payload: dict[str, Any]) -> bytes:
    return frame({":message-type": "event", ":event-type": kind}, payload)


def frame(headers: dict[str, str], payload: dict[str, Any]) -> bytes:
    """A message: lengths and their checksum, headers, payload, and the checksum of all of it."""
    named = {**headers, ":content-type": "application/json"}
    head = b"".join(_header(name.encode(), value.encode()) for name, value in named.items())
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 12 + len(head) + len(body) + 4, len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + body
    return message + struct.pack("!I", crc32(message))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack("!B", len(name)) + name + struct.pack("!BH", _STRING, len(value)) + value
