"""OpenAI's chat completions, there or at any host that speaks the same protocol."""

import os
from urllib.parse import urlsplit

import httpx
from openai import AsyncOpenAI
from strands.models import Model
from strands.models.openai import OpenAIModel

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice


def build(choice: ModelChoice, read_seconds: float = clients.READ_SECONDS) -> Model:
    client = AsyncOpenAI(
        api_key=os.environ.get("OPENAI_API_KEY") or clients.NO_KEY,
        base_url=_base_url(choice.host),
        max_retries=0,
        http_client=httpx.AsyncClient(**clients.options(read_seconds)),
    )
    return OpenAIModel(client=client, model_id=str(choice.model_id), params=_parameters(choice))


def _base_url(host: str | None) -> str | None:
    """A bare host stands for its `/v1`, where all such servers listen."""
    if host is None or urlsplit(host).path.strip("/"):
        return host
    return host.rstrip("/") + "/v1"


def _parameters(choice: ModelChoice) -> dict[str, object]:
    inference = choice.inference
    # OpenAI's newer models refuse the old name; most other servers know no other.
    is_openai = choice.host is None or (urlsplit(choice.host).hostname or "").endswith("openai.com")
    longest = "max_completion_tokens" if is_openai else "max_tokens"
    return clients.said(
        temperature=inference.temperature,
        top_p=inference.top_p,
        stop=list(inference.stop),
        seed=inference.seed,
        **{longest: inference.max_tokens},
    )
