"""Which model an agent asks, and where that is."""

import msgspec

from strands_cli.types import Spec

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_LOCAL_PROVIDERS = {"llamacpp", "ollama"}


class Model(msgspec.Struct, frozen=True):
    provider: str
    model_id: str | None = None
    host: str | None = None
    region: str | None = None

    def __str__(self) -> str:
        where = self.host or self.region
        name = f"{self.provider} {self.model_id or '(its default model)'}"
        return f"{name} at {where}" if where else name

    @property
    def is_local(self) -> bool:
        from urllib.parse import urlsplit

        if self.host is None:
            return self.provider in _LOCAL_PROVIDERS
        return urlsplit(self.host).hostname in _LOCAL_HOSTS


def model_of(spec: Spec, agent: str) -> Model | None:
    """The model of an agent: its own settings over those of the runtime.

    Another provider is not asked for the runtime's model, nor at its host.
    """
    own, runtime = spec.agents.get(agent), spec.runtime
    if own is None:
        return None
    if own.provider is not None and own.provider != runtime.provider:
        return Model(own.provider, own.model_id, own.host, own.region)
    return Model(
        runtime.provider,
        own.model_id or runtime.model_id,
        own.host or runtime.host,
        own.region or runtime.region,
    )
