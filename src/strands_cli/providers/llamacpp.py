"""A server of llama.cpp's."""

from typing import TYPE_CHECKING

import msgspec

from strands_cli.providers.choice import (
    PATIENT_READ_SECONDS,
    ModelChoice,
    Provider,
    client_options,
    takes_images,
)

if TYPE_CHECKING:
    import httpx
    from strands.models import Model

_DEFAULT_HOST = "http://localhost:8080"


def build(choice: ModelChoice, read_seconds: float = PATIENT_READ_SECONDS) -> "Model":
    import httpx
    from strands.models.llamacpp import LlamaCppModel

    model = LlamaCppModel(
        base_url=(choice.host or _DEFAULT_HOST).rstrip("/").removesuffix("/v1"),
        model_id=str(choice.model_id),
        params=choice.options(),
    )
    model.client = httpx.AsyncClient(
        base_url=model.base_url, **client_options(read_seconds, on_response=[_raise_streamed_error])
    )
    return model


class BrokenOff(Exception):
    """The server failed in the middle of an answer."""

    status_code = 500


async def _raise_streamed_error(response: "httpx.Response") -> None:
    """The SDK's model reads over an error in a stream, and takes half an answer for a whole one."""
    if not response.is_success:
        return
    for line in (await response.aread()).splitlines():
        kind, _, text = line.partition(b": ")
        if kind == b"error" or (kind == b"data" and text.startswith(b'{"error"')):
            try:
                raise BrokenOff(str(msgspec.json.decode(text)["error"]["message"]))
            except (msgspec.DecodeError, KeyError, TypeError):
                raise BrokenOff(text.decode(errors="replace")) from None


PROVIDER = Provider(
    build=build,
    takes=takes_images,
    default_model="default",
    is_local=True,
    hints={"connection": "Is it running? Start llama-server, or name another host with --host."},
)
