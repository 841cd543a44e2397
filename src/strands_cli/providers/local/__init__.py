"""The embedded model: llama.cpp in this process, with weights that are fetched once and verified."""

from typing import TYPE_CHECKING

from strands_cli.providers.choice import ModelChoice, Provider

if TYPE_CHECKING:
    from strands.models import Model


def build(choice: ModelChoice) -> "Model":
    from strands_cli.providers.local.model import local_model

    return local_model(choice)


PROVIDER = Provider(
    build=build,
    takes=lambda _kind, _media: False,
    default_model="qwen2.5-coder-0.5b",
    package="xllamacpp",
    extra="local",
    places=(),
    is_local=True,
)
