"""Which model an agent asks, and where that is."""

from collections.abc import Mapping
from typing import Any

import msgspec

from strands_cli.errors import UsageError
from strands_cli.types import Spec
from strands_cli.types.spec import Inference

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
HOST_HINT = "Write it as http://localhost:11434 or https://models.example.com."
_LOCAL_PROVIDERS = {"llamacpp", "local", "ollama"}


class ModelChoice(msgspec.Struct, frozen=True):
    provider: str
    model_id: str | None = None
    host: str | None = None
    region: str | None = None
    inference: Inference = Inference()

    def __str__(self) -> str:
        where = _shown(self.host) or self.region
        name = f"{self.provider} {self.model_id or '(its default model)'}"
        return f"{name} at {where}" if where else name

    @property
    def address(self) -> dict[str, str | None]:
        """The model and where it is, without how it generates."""
        return {name: getattr(self, name) for name in ("provider", "model_id", "host", "region")}

    @property
    def is_local(self) -> bool:
        from urllib.parse import urlsplit

        if self.host is None:
            return self.provider in _LOCAL_PROVIDERS
        if problem_of_host(self.host):
            return False
        return urlsplit(self.host).hostname in _LOCAL_HOSTS


def _shown(host: str | None) -> str | None:
    """A host without the name and the password that its URL may have."""
    scheme, mark, rest = (host or "").partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}" if mark else host


def problem_of_host(host: str) -> str:
    """One sentence where a host is no address that can be asked; nothing where it is one."""
    problem = _problem_of_host(host)
    return f"{_shown(host)!r} is no address: {problem}." if problem else ""


def _problem_of_host(host: str) -> str:
    from urllib.parse import urlsplit

    if any(character.isspace() or not character.isprintable() for character in host):
        return "it has blanks or control characters in it"
    has_scheme = "://" in host
    try:
        parts = urlsplit(host if has_scheme else f"//{host}")
    except ValueError:
        return "its brackets have no address in them"
    try:
        _ = parts.port
    except ValueError:
        return "its port is no number from 0 to 65535"
    return "it has no name of a host" if has_scheme and not parts.hostname else ""


def model_of(spec: Spec, agent: str) -> ModelChoice | None:
    """The model of an agent: its own settings over those of the runtime.

    Another provider is not asked for the runtime's model, nor at its host.
    """
    own, runtime = spec.agents.get(agent), spec.runtime
    if own is None:
        return None
    inference = _over(own.inference, runtime.inference)
    if own.provider is not None and own.provider != runtime.provider:
        return ModelChoice(own.provider, own.model_id, own.host, own.region, inference)
    return ModelChoice(
        runtime.provider,
        own.model_id or runtime.model_id,
        own.host or runtime.host,
        own.region or runtime.region,
        inference,
    )


def _over(own: Inference, runtime: Inference) -> Inference:
    said = {name: value for name, value in msgspec.structs.asdict(own).items() if value not in (None, ())}
    return msgspec.structs.replace(runtime, **said) if said else runtime


def with_choice(
    spec: Spec, *, provider: str | None = None, model: str | None = None, host: str | None = None
) -> Spec:
    """The workflow as the command line wants it: what is said there counts for every agent that it can mean.

    A provider other than the file's takes neither the file's model nor its host and region. A model or a host
    without a provider is meant for the runtime's provider, and for no agent that has another one.
    """
    if problem := problem_of_host(host or ""):
        raise UsageError(f"The host {problem}", hint=HOST_HINT)
    given: Mapping[str, Any] = {"provider": provider, "model_id": model, "host": host}
    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        return spec
    wanted = provider or spec.runtime.provider
    agents = {
        name: _rechosen(agent, said, agent.provider or spec.runtime.provider, wanted)
        if provider or agent.provider in (None, wanted)
        else agent
        for name, agent in spec.agents.items()
    }
    runtime = _rechosen(spec.runtime, said, spec.runtime.provider, wanted)
    return msgspec.structs.replace(spec, runtime=runtime, agents=agents)


def _rechosen(part: Any, said: Mapping[str, Any], provider: str, wanted: str) -> Any:
    dropped = dict.fromkeys(("model_id", "host", "region")) if provider != wanted else {}
    return msgspec.structs.replace(part, **{**dropped, **said})
