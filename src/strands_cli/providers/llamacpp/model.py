"""A server of llama.cpp's."""

import httpx
import msgspec
from strands.models import Model
from strands.models.llamacpp import LlamaCppModel

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice

DEFAULT_HOST = "http://localhost:8080"


def build(choice: ModelChoice, read_seconds: float = clients.PATIENT_READ_SECONDS) -> Model:
    inference = choice.inference
    model = LlamaCppModel(
        base_url=(choice.host or DEFAULT_HOST).rstrip("/").removesuffix("/v1"),
        model_id=str(choice.model_id),
        params=clients.said(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_tokens=inference.max_tokens,
            stop=list(inference.stop),
            seed=inference.seed,
        ),
    )
    model.client = httpx.AsyncClient(
        base_url=model.base_url,
        event_hooks={"response": [_look_for_error]},
        **clients.options(read_seconds),
    )
    return model


class BrokenOff(Exception):
    """The server failed in the middle of an answer."""

    status_code = 500


async def _look_for_error(response: httpx.Response) -> None:
    """The SDK's model reads over an error in a stream, and takes half an answer for a whole one."""
    if not response.is_success:
        return
    for line in (await response.aread()).splitlines():
        kind, _, text = line.partition(b": ")
        if kind == b"error" or (kind == b"data" and text.startswith(b'{"error"')):
            raise BrokenOff(_told(text))


def _told(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return text.decode(errors="replace")
