"""Anthropic's messages."""

import os

import httpx
from strands.models import Model
from strands.models.anthropic import AnthropicModel

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice

_MAX_TOKENS = 8192
"""The longest answer where the workflow says nothing: Anthropic wants to be told one."""


def build(choice: ModelChoice, read_seconds: float = clients.READ_SECONDS) -> Model:
    inference = choice.inference
    return AnthropicModel(
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
