"""Google's Gemini."""

import os
from typing import TYPE_CHECKING

from strands_cli.providers.choice import (
    CONNECT_SECONDS,
    NO_KEY,
    READ_SECONDS,
    ModelChoice,
    Provider,
    client_options,
)

if TYPE_CHECKING:
    import httpx
    from strands.models import Model


def build(choice: ModelChoice, read_seconds: float = READ_SECONDS) -> "Model":
    import httpx
    from google import genai
    from strands.models.gemini import GeminiModel

    options = genai.types.HttpOptions(
        base_url=choice.host,
        timeout=int(read_seconds * 1000),
        retry_options=genai.types.HttpRetryOptions(attempts=1),
        httpx_async_client=httpx.AsyncClient(
            **client_options(read_seconds, on_request=[_limit_connect_time])
        ),
    )
    key = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY") or NO_KEY
    return GeminiModel(
        client=genai.Client(api_key=key, http_options=options),
        model_id=str(choice.model_id),
        params=choice.options(max_tokens="max_output_tokens", stop="stop_sequences"),
    )


async def _limit_connect_time(request: "httpx.Request") -> None:
    """Google's client has one timeout for all, and would wait for a connection as long as for an answer."""
    request.extensions["timeout"]["connect"] = CONNECT_SECONDS


PROVIDER = Provider(
    build=build,
    takes=lambda _kind, _media: False,
    default_model="gemini-2.5-flash",
    package="google.genai",
    extra="gemini",
    credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    hosts=(r"generativelanguage\.googleapis\.com",),
    host_variables=("GOOGLE_GEMINI_BASE_URL",),
    errors={
        "refused": (
            "google.APIError",
            "google.FunctionInvocationError",
            "google.UnknownApiResponseError",
            "google.UnknownFunctionCallArgumentError",
            "google.UnsupportedFunctionError",
        )
    },
)
