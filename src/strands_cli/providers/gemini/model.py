"""Google's Gemini."""

import os

import httpx
from google import genai
from strands.models import Model
from strands.models.gemini import GeminiModel

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice


def build(choice: ModelChoice, read_seconds: float = clients.READ_SECONDS) -> Model:
    inference = choice.inference
    options = genai.types.HttpOptions(
        base_url=choice.host,
        timeout=int(read_seconds * 1000),
        retry_options=genai.types.HttpRetryOptions(attempts=1),
        httpx_async_client=httpx.AsyncClient(
            event_hooks={"request": [_connect_soon]}, **clients.options(read_seconds)
        ),
    )
    key = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY") or clients.NO_KEY
    return GeminiModel(
        client=genai.Client(api_key=key, http_options=options),
        model_id=str(choice.model_id),
        params=clients.said(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_output_tokens=inference.max_tokens,
            stop_sequences=list(inference.stop),
            seed=inference.seed,
        ),
    )


async def _connect_soon(request: httpx.Request) -> None:
    """Google's client has one timeout for all, and would wait for a connection as long as for an answer."""
    request.extensions["timeout"]["connect"] = clients.CONNECT_SECONDS
