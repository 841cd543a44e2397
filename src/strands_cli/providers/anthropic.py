"""Anthropic's messages."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strands_cli.providers.choice import NO_KEY, READ_SECONDS, ModelChoice, Provider, client_options

if TYPE_CHECKING:
    from strands.models import Model
    from strands.types.streaming import StreamEvent

_MAX_TOKENS = 8192
"""The longest answer where the workflow says nothing: Anthropic wants to be told one."""
_COUNTS = ("input_tokens", "output_tokens")


def build(choice: ModelChoice, read_seconds: float = READ_SECONDS) -> "Model":
    import httpx
    from strands.models.anthropic import AnthropicModel

    class CountedModel(AnthropicModel):
        """The SDK's model, for hosts that speak the protocol and do not count."""

        def format_chunk(self, event: dict[str, Any]) -> "StreamEvent":
            if event["type"] != "metadata":
                return super().format_chunk(event)
            counted = {**event["usage"], **{name: event["usage"].get(name) or 0 for name in _COUNTS}}
            return super().format_chunk({**event, "usage": counted})

    return CountedModel(
        client_args={
            "api_key": os.environ.get("ANTHROPIC_API_KEY") or NO_KEY,
            "max_retries": 0,
            "http_client": httpx.AsyncClient(**client_options(read_seconds)),
            "base_url": choice.host,
        },
        model_id=str(choice.model_id),
        max_tokens=choice.inference.max_tokens or _MAX_TOKENS,
        params=choice.options(stop="stop_sequences", max_tokens="", seed=""),
    )


def _takes(kind: str, media: Mapping[str, Any]) -> bool:
    data, form = media["source"].get("bytes"), media["format"]
    if kind == "image":
        return data is not None and form in ("gif", "jpeg", "jpg", "png", "webp")
    if kind != "document" or data is None or form not in ("csv", "html", "md", "pdf", "txt"):
        return False
    try:
        return form == "pdf" or bool(data.decode())
    except UnicodeDecodeError:
        return False


PROVIDER = Provider(
    build=build,
    takes=_takes,
    default_model="claude-sonnet-4-6",
    package="anthropic",
    extra="anthropic",
    credentials=("ANTHROPIC_API_KEY",),
    secrets=("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
    hosts=(r"api\.anthropic\.com",),
    host_variables=("ANTHROPIC_BASE_URL",),
    ignores=("seed",),
    errors={
        "timeout": ("anthropic.APITimeoutError",),
        "answer": ("anthropic.APIResponseValidationError",),
        "connection": ("anthropic.APIConnectionError",),
        "refused": ("anthropic.AnthropicError",),
    },
)
