"""Anthropic's messages."""

import os
from typing import Any

import httpx
from strands.models import Model
from strands.models.anthropic import AnthropicModel
from strands.types.streaming import StreamEvent

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice

_MAX_TOKENS = 8192
"""The longest answer where the workflow says nothing: Anthropic wants to be told one."""
_COUNTS = ("input_tokens", "output_tokens")


def build(choice: ModelChoice, read_seconds: float = clients.READ_SECONDS) -> Model:
    inference = choice.inference
    return _Anthropic(
        client_args={
            "api_key": os.environ.get("ANTHROPIC_API_KEY") or clients.NO_KEY,
            "max_retries": 0,
            "http_client": httpx.AsyncClient(**clients.options(read_seconds)),
            **clients.said(base_url=choice.host),
        },
        model_id=str(choice.model_id),
        max_tokens=inference.max_tokens or _MAX_TOKENS,
        params=clients.said(
            temperature=inference.temperature, top_p=inference.top_p, stop_sequences=list(inference.stop)
        ),
    )


class _Anthropic(AnthropicModel):
    """The SDK's model, for hosts that speak the protocol and do not count."""

    def format_chunk(self, event: dict[str, Any]) -> StreamEvent:
        if event["type"] != "metadata":
            return super().format_chunk(event)
        counted = {**event["usage"], **{name: event["usage"].get(name) or 0 for name in _COUNTS}}
        return super().format_chunk({**event, "usage": counted})
