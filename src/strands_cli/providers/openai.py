"""OpenAI's chat completions, there or at any host that speaks the same protocol."""

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from strands_cli.providers.choice import (
    NO_KEY,
    READ_SECONDS,
    ModelChoice,
    Provider,
    client_options,
    takes_images,
)

if TYPE_CHECKING:
    from strands.models import Model


def build(choice: ModelChoice, read_seconds: float = READ_SECONDS) -> "Model":
    import httpx
    from openai import AsyncOpenAI
    from strands.models.openai import OpenAIModel

    host = choice.host
    # OpenAI's newer models refuse the old name; most other servers know no other.
    is_openai = host is None or (urlsplit(host).hostname or "").endswith("openai.com")
    longest = "max_completion_tokens" if is_openai else "max_tokens"
    if host is not None and not urlsplit(host).path.strip("/"):
        host = host.rstrip("/") + "/v1"  # where all such servers listen
    client = AsyncOpenAI(
        api_key=os.environ.get("OPENAI_API_KEY") or NO_KEY,
        base_url=host,
        max_retries=0,
        http_client=httpx.AsyncClient(**client_options(read_seconds)),
    )
    return OpenAIModel(
        client=client, model_id=str(choice.model_id), params=choice.options(max_tokens=longest)
    )


PROVIDER = Provider(
    build=build,
    takes=takes_images,
    default_model="gpt-4o-mini",
    package="openai",
    extra="openai",
    credentials=("OPENAI_API_KEY",),
    secrets=("OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"),
    hosts=(r"([a-z]+\.)?api\.openai\.com",),
    host_variables=("OPENAI_BASE_URL",),
    errors={
        "timeout": ("openai.APITimeoutError",),
        "answer": ("openai.APIResponseValidationError",),
        "connection": ("openai.APIConnectionError",),
        "refused": ("openai.OpenAIError",),
    },
)
