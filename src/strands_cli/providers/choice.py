"""Which model an agent asks, the providers there are, and how the model of one is built.

A provider is a module with a `PROVIDER`: ours are those of the table, others come from installed packages,
through entry points. Each is imported when it is asked for, and imports its client when it builds a model.
"""

import os
from collections import UserDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue, ProviderError, UsageError, install_hint
from strands_cli.secrets import without_credentials
from strands_cli.settings import Settings
from strands_cli.trust import KeyUse
from strands_cli.types import BaseSpec
from strands_cli.types.sections import Compaction, Inference
from strands_cli.types.settings_file import Price

if TYPE_CHECKING:
    import ssl

    import httpx
    from strands.models import Model

S = TypeVar("S", bound=BaseSpec)
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_SHORTEST_KEY = 12
HOST_HINT = "Write it as http://localhost:11434 or https://models.example.com."


class ModelChoice(msgspec.Struct, frozen=True):
    provider: str
    model_id: str | None = None
    host: str | None = None
    region: str | None = None
    inference: Inference = Inference()
    directory: Path = Path()
    """The workflow's directory, from which a provider finds the files that it reads."""

    def __str__(self) -> str:
        where = without_credentials(self.host or "") or self.region
        name = f"{self.provider} {self.model_id or '(its default model)'}"
        return f"{name} at {where}" if where else name

    @property
    def address(self) -> dict[str, str | None]:
        """The model and where it is, to be shown, without how it generates."""
        parts = {name: getattr(self, name) for name in ("provider", "model_id", "host", "region")}
        return {**parts, "host": self.host and without_credentials(self.host)}

    def options(self, **names: str) -> dict[str, Any]:
        """What is set of `inference`, under the names that a client has for it; without those named ''."""
        values = {**msgspec.structs.asdict(self.inference), "stop": list(self.inference.stop)}
        named = {names.get(name, name): value for name, value in values.items() if value not in (None, [])}
        named.pop("", None)
        return named

    @property
    def is_local(self) -> bool:
        from urllib.parse import urlsplit

        if self.host is None:
            return self.provider in PROVIDERS and PROVIDERS[self.provider].is_local
        return not host_problem(self.host) and urlsplit(self.host).hostname in _LOCAL_HOSTS


def price_of(choice: ModelChoice, settings: Settings) -> Price | None:
    """What the settings say that a model costs: by `provider:model`, else by the model alone."""
    name = choice.model_id or ""
    return settings.prices.get(f"{choice.provider}:{name}") or settings.prices.get(name)


# --- The providers -----------------------------------------------------------------------------------------

FailureKind = Literal[
    "overflow",
    "throttled",
    "busy",
    "server",
    "connection",
    "timeout",
    "answer",
    "trust",
    "credentials",
    "not_found",
    "refused",
    "unknown",
]


TakesMedia = Callable[[str, Mapping[str, Any]], bool]
"""Whether an image, a document or a video, given with its format and source, may be in a tool's result."""


def takes_images(kind: str, media: Mapping[str, Any]) -> bool:
    return kind == "image" and "bytes" in media["source"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    build: "Callable[[ModelChoice], Model]"
    """Answers with a model of the SDK's; imports what it needs itself."""
    default_model: str
    package: str = ""
    """The package that must be importable; empty where the SDK itself has all that is needed."""
    extra: str = ""
    """The extra of strands-cli that installs the package."""
    credentials: tuple[str, ...] = ()
    """Environment variables, one of which must be set, unless a host is given that needs none."""
    secrets: tuple[str, ...] = ()
    """Further ones that its client may read, and whose values must not be shown either."""
    hosts: tuple[str, ...] = ()
    """Its own hosts, as regular expressions. To others, a workflow sends keys only if the user agrees."""
    host_variables: tuple[str, ...] = ()
    """Environment variables with which users name another host."""
    check: Callable[[ModelChoice], Iterable[Issue]] = lambda _choice: ()
    """What is wrong with the files that the model of a choice is made from."""
    model_is_file: bool = False
    """Whether `model_id` is the path of a file."""
    places: tuple[str, ...] = ("host",)
    """Which of `host` and `region` say where it is."""
    is_local: bool = False
    """Whether it is on this machine where no host is given."""
    ignores: tuple[str, ...] = ()
    """The keys of `inference` for which it has nothing."""
    errors: Mapping[FailureKind, tuple[str, ...]] = {}
    """What exceptions of its client mean, as `package.Name`, each with all that is derived from it."""
    hints: Mapping[FailureKind, str] = {}
    """What helps against a failure, where this provider knows better; `{model}` stands for the model."""
    takes: TakesMedia = lambda _kind, _media: True
    """What it accepts in the result of a tool. For anything else, the model gets a text that explains it."""


BUILT_IN = ("anthropic", "bedrock", "gemini", "llamacpp", "local", "ollama", "openai", "scripted")
ENTRY_POINTS = "strands_cli.providers"
"""The group in which an installed package offers `name = "module:PROVIDER"`."""


class _ProviderTable(UserDict[str, Any]):
    """By name; iterated over are ours, and others that have been asked for."""

    def __getitem__(self, name: str) -> Provider:
        if self.data.get(name) is None:
            is_ours = name in BUILT_IN
            row = import_module(f"{__package__}.{name}").PROVIDER if is_ours else _installed_provider(name)
            self.data[name] = row
        provider: Provider = self.data[name]
        return provider

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.data))  # which may grow meanwhile

    def __contains__(self, name: object) -> bool:
        return MutableMapping.__contains__(self, name)  # by loading it


def _installed_provider(name: str) -> Provider:
    """KeyError where no installed package brings the provider; ProviderError where it cannot be used."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS, name=name):
        problem = "it is not a Provider"
        try:
            row = point.load()
            if isinstance(row, Provider):
                return row
        except (ImportError, AttributeError) as error:
            problem = str(error)
        package = point.dist.name if point.dist else "an installed package"
        raise ProviderError(
            f"The provider {name} cannot be used: {point.value} of {package}: {problem}.",
            hint=f"Its package is broken, or not made for this version: reinstall {package}.",
        )
    raise KeyError(name)


PROVIDERS: MutableMapping[str, Provider] = _ProviderTable(dict.fromkeys(BUILT_IN))


def build_model(choice: ModelChoice) -> "Model":
    """The model of a choice; ProviderError where something is missing, or the host is not an address."""
    for reason, remedy in missing_for_provider(choice):
        raise ProviderError(reason, hint=remedy)
    from httpx import InvalidURL

    try:
        return PROVIDERS[choice.provider].build(with_default_model(choice))
    except (InvalidURL, ValueError) as error:
        raise ProviderError(
            f"No model of {choice.provider} can be set up: {str(error).rstrip('.')}.",
            hint=f"Is the host right, or the variable that names it, such as OLLAMA_HOST? {HOST_HINT}",
        ) from error


def with_default_model(choice: ModelChoice) -> ModelChoice:
    return msgspec.structs.replace(
        choice, model_id=choice.model_id or PROVIDERS[choice.provider].default_model
    )


def missing_for_provider(
    choice: ModelChoice, environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, str]]:
    """What a provider lacks here, each with what helps."""
    provider = PROVIDERS[choice.provider]
    if provider.package and not _is_package_installed(provider.package):
        yield (
            f"The provider {choice.provider} needs the package {provider.package}, which is not installed.",
            install_hint(provider.extra),
        )
    names = provider.credentials
    if names and choice.host is None and not any(environment.get(name) for name in names):
        yield (
            f"The provider {choice.provider} needs a key, and {' or '.join(names)} is not set.",
            f"Set it: export {names[0]}=…",
        )


def provider_keys(choices: Iterable[ModelChoice]) -> Iterator[str]:
    """The keys that these models are asked with; not a word such as `none`, for a server that wants any."""
    providers = [PROVIDERS[choice.provider] for choice in choices]
    names = {name for provider in providers for name in (*provider.credentials, *provider.secrets)}
    values = (os.environ.get(name, "") for name in sorted(names))
    return (value for value in values if len(value) >= _SHORTEST_KEY)


def key_uses(spec: BaseSpec, environment: Mapping[str, str] = os.environ) -> Iterator[KeyUse]:
    """Each host that a workflow names and that would get a key."""
    for agent, choice, provider in models_of(spec):
        if choice.host is None:
            continue
        names = tuple(name for name in (*provider.credentials, *provider.secrets) if environment.get(name))
        is_keyless = provider.is_local or provider.credentials  # others may find a key anywhere
        if names or not is_keyless:
            at = json_pointer(("agents", agent, "host")) if spec.agents[agent].host else "/runtime/host"
            yield KeyUse(at, choice.host, choice.provider, names, provider.hosts, provider.host_variables)


def _is_package_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False


# --- How every provider's HTTP client behaves --------------------------------------------------------------
# It tries once, since a run retries in one place. It keeps no idle connection, since nobody closes the
# clients of the SDK's models, and a connection belongs to the event loop in which it was opened.

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""The longest silence of a hosted model."""
PATIENT_READ_SECONDS = 1800.0
"""The longest silence of a model on somebody's own machine, which may read a long prompt for many minutes."""
WRITE_SECONDS = 60.0
NO_KEY = "none"
"""What is sent as a key to a host that asks for none; the clients refuse to be made without one."""


def client_options(
    read_seconds: float,
    on_request: "Sequence[Callable[[httpx.Request], Awaitable[None]]]" = (),
    on_response: "Sequence[Callable[[httpx.Response], Awaitable[None]]]" = (),
) -> dict[str, Any]:
    """What an `httpx.AsyncClient` is made with, and its hooks."""
    import httpx

    return {
        "timeout": httpx.Timeout(connect=CONNECT_SECONDS, read=read_seconds, write=WRITE_SECONDS, pool=None),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
        "verify": _ssl_context(),
        "follow_redirects": True,
        "event_hooks": {"request": [*on_request], "response": [_refuse_other_origin, *on_response]},
    }


async def _refuse_other_origin(response: "httpx.Response") -> None:
    """A host may not send a request, with its key, on to a place that neither the file nor the user named."""
    import httpx

    if not response.has_redirect_location:
        return
    old = response.request.url
    new = old.join(response.headers["location"])
    is_upgrade = (old.scheme, new.scheme) == ("http", "https")
    if new.host != old.host or (not is_upgrade and (new.scheme, new.port) != (old.scheme, old.port)):
        where = without_credentials(f"{new.scheme}://{new.netloc.decode('ascii', 'replace')}")
        raise httpx.TooManyRedirects(f"it redirects to {where}", request=response.request)


@cache
def _ssl_context() -> "ssl.SSLContext":
    """Reading the certificates takes longer than all the rest of a client."""
    import httpx

    return httpx.create_ssl_context()


# --- The model of an agent ---------------------------------------------------------------------------------


def model_of(spec: BaseSpec, agent: str) -> ModelChoice | None:
    """The model of an agent: its own settings over those of the runtime.

    Another provider is not asked for the runtime's model, nor at its host.
    """
    own, runtime = spec.agents.get(agent), spec.runtime
    if own is None:
        return None
    values = msgspec.structs.asdict(own.inference)
    inference = msgspec.structs.replace(
        runtime.inference, **{name: value for name, value in values.items() if value not in (None, ())}
    )
    is_inherited = own.provider in (None, runtime.provider)
    place = {
        name: getattr(own, name) or (getattr(runtime, name) if is_inherited else None)
        for name in ("model_id", "host", "region")
    }
    provider = own.provider or runtime.provider
    return ModelChoice(provider, **place, inference=inference, directory=spec.file.parent)


def summary_model(choice: ModelChoice, policy: Compaction | None) -> ModelChoice | None:
    """The model that summarises the conversations of an agent with this one; None for the same."""
    if policy is None or not policy.enabled or policy.summarization_model in (None, choice.model_id):
        return None
    return msgspec.structs.replace(choice, model_id=policy.summarization_model)


def models_of(spec: BaseSpec) -> list[tuple[str, ModelChoice, Provider]]:
    """Each agent whose provider there is, with its model; and once more with that of its summaries."""
    found = []
    for agent in spec.agents:
        choice = model_of(spec, agent)
        if choice is None or choice.provider not in PROVIDERS:
            continue
        provider = PROVIDERS[choice.provider]
        found.append((agent, choice, provider))
        if (summaries := summary_model(choice, spec.context_policy.compaction)) is not None:
            found.append((agent, summaries, provider))
    return found


def require_models(spec: BaseSpec, agents: Iterable[str]) -> None:
    """ProviderError for what the models of agents lack here, or those of workflows that steps run."""
    inner = ((one, agent) for one in spec.family[1:] for agent in one.agents)
    for one, agent in (*((spec, agent) for agent in agents), *inner):
        choice = model_of(one, agent)
        for reason, remedy in missing_for_provider(choice) if choice else ():
            raise ProviderError(reason, hint=remedy)


def with_model_options(
    spec: S,
    *,
    provider: str | None = None,
    model: str | None = None,
    host: str | None = None,
    base: Path | None = None,
    known: dict[Path, BaseSpec] | None = None,
) -> S:
    """The workflow as the command line wants it, for every agent that it can mean.

    A provider other than the file's takes neither the file's model nor its host and region. A model or a host
    without a provider is meant for the runtime's provider, and for no agent that has another one. So it is
    for the workflows that steps run. A model that is a file is named from `base`, by default from the
    workflow's directory; `known` are the workflows of other steps, by their files.
    """
    if problem := host_problem(host or ""):
        raise UsageError(f"The host {problem}", hint=HOST_HINT)
    new = provider or spec.runtime.provider
    own = spec.file.parent
    if model and new in PROVIDERS and PROVIDERS[new].model_is_file:
        model = os.path.relpath((base or own) / model, own)
    options = {"provider": provider, "model_id": model, "host": host}
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes:
        return spec

    def changed(part: Any) -> Any:
        old = part.provider or spec.runtime.provider
        dropped = dict.fromkeys(("model_id", "host", "region")) if old != new else {}
        return msgspec.structs.replace(part, **{**dropped, **changes})

    agents = {
        name: changed(agent) if provider or agent.provider in (None, new) else agent
        for name, agent in spec.agents.items()
    }
    known, inner = {} if known is None else known, dict[str, BaseSpec]()
    for name, one in spec.workflows.items():
        if one.file not in known:
            is_meant = provider or spec.runtime.provider in ("", one.runtime.provider)
            given = {"provider": provider, "model": model, "host": host} if is_meant else {}
            known[one.file] = with_model_options(one, **given, base=own, known=known)
        inner[name] = known[one.file]
    policy = spec.context_policy
    if policy.compaction is not None and (model or new != spec.runtime.provider):
        own_model = msgspec.structs.replace(policy.compaction, summarization_model=None)
        policy = msgspec.structs.replace(policy, compaction=own_model)
    return msgspec.structs.replace(
        spec,
        runtime=changed(spec.runtime),
        agents=agents,
        context_policy=policy,
        model_given=changes,
        workflows=inner,
    )


# --- Hosts -------------------------------------------------------------------------------------------------


def host_problem(host: str) -> str:
    """One sentence where a host is not an address that can be asked; nothing where it is one."""
    problem = _address_problem(host)
    return f"{without_credentials(host)!r} is not an address: {problem}." if problem else ""


def _address_problem(host: str) -> str:
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
        return "its port is not a number from 0 to 65535"
    if "?" in host or "#" in host:
        return "it has a query or a fragment"  # which would swallow the path that a client adds
    return "it has no name of a host" if has_scheme and not parts.hostname else ""
