"""The providers: what each needs, what it asks by default, and how its model is built."""

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from strands_cli.errors import ProviderError
from strands_cli.providers.choice import HOST_HINT, ModelChoice

if TYPE_CHECKING:
    from strands.models import Model


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    build: str
    """`module:function`; the function takes a ModelChoice and answers with a model of the SDK's."""
    default_model: str
    package: str = ""
    """The package that must be importable; empty where the SDK itself has all that is needed."""
    extra: str = ""
    """What `pip install 'strands-cli[…]'` is to be given to have the package."""
    credentials: tuple[str, ...] = ()
    """Environment variables, one of which must be set, unless a host is given that needs none."""
    places: tuple[str, ...] = ("host",)
    """Which of `host` and `region` say where it is."""


PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        build="strands_cli.providers.anthropic.model:build",
        default_model="claude-sonnet-4-6",
        package="anthropic",
        extra="anthropic",
        credentials=("ANTHROPIC_API_KEY",),
    ),
    "bedrock": Provider(
        build="strands_cli.providers.bedrock.model:build",
        default_model="global.anthropic.claude-sonnet-4-6",
        places=("host", "region"),
    ),
    "gemini": Provider(
        build="strands_cli.providers.gemini.model:build",
        default_model="gemini-2.5-flash",
        package="google.genai",
        extra="gemini",
        credentials=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "llamacpp": Provider(build="strands_cli.providers.llamacpp.model:build", default_model="default"),
    "local": Provider(
        build="strands_cli.providers.local.model:build",
        default_model="qwen2.5-coder-0.5b",
        package="xllamacpp",
        extra="local",
        places=(),
    ),
    "ollama": Provider(
        build="strands_cli.providers.ollama.model:build",
        default_model="llama3.2:3b",
        package="ollama",
        extra="ollama",
    ),
    "openai": Provider(
        build="strands_cli.providers.openai.model:build",
        default_model="gpt-4o-mini",
        package="openai",
        extra="openai",
        credentials=("OPENAI_API_KEY",),
    ),
}

UNSUPPORTED_INFERENCE: dict[str, tuple[str, ...]] = {"anthropic": ("seed",), "bedrock": ("seed",)}
"""The keys of `inference` for which a provider has nothing."""


def build_model(choice: ModelChoice) -> "Model":
    """The model of a choice; ProviderError where something is missing, or where the host is no address."""
    for reason, remedy in missing(choice):
        raise ProviderError(reason, hint=remedy)
    from httpx import InvalidURL

    module, _, function = PROVIDERS[choice.provider].build.partition(":")
    try:
        build: Callable[[ModelChoice], Model] = getattr(import_module(module), function)
        return build(with_default(choice))
    except (InvalidURL, ValueError) as error:
        raise ProviderError(
            f"No model of {choice.provider} can be set up: {str(error).rstrip('.')}.",
            hint=f"Is the host right, or the variable that names it, such as OLLAMA_HOST? {HOST_HINT}",
        ) from error


def with_default(choice: ModelChoice) -> ModelChoice:
    return msgspec.structs.replace(
        choice, model_id=choice.model_id or PROVIDERS[choice.provider].default_model
    )


def missing(choice: ModelChoice, environment: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str]]:
    """What a provider lacks here, each with what helps."""
    provider = PROVIDERS[choice.provider]
    if provider.package and not _is_installed(provider.package):
        yield (
            f"The provider {choice.provider} needs the package {provider.package}, which is not installed.",
            f"Install it: pip install 'strands-cli[{provider.extra}]'",
        )
    names = provider.credentials
    if names and choice.host is None and not any(environment.get(name) for name in names):
        yield (
            f"The provider {choice.provider} needs a key, and {' or '.join(names)} is not set.",
            f"Set it: export {names[0]}=…",
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False
