"""Models: which settings an agent's provider takes, and which it would ignore."""

from collections.abc import Iterator

import msgspec

from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import HOST_HINT, PROVIDERS, ModelChoice, missing, model_of, problem_of_host


def check_models(spec: Spec) -> Iterator[Issue]:
    """Hosts that are not addresses, and settings that have no effect on their model."""
    yield from _unusable_hosts(spec)
    reported: set[tuple[str, str]] = set()
    for agent, choice in _models(spec):
        for at, what in _without_effect(spec, agent, choice):
            if (at, choice.provider) not in reported:
                reported.add((at, choice.provider))
                remedy = "Take it out, or use another provider."
                yield spec.issue(at, f"The provider {choice.provider} has no {what}.", remedy, "warning")


def _unusable_hosts(spec: Spec) -> Iterator[Issue]:
    hosts = {"/runtime/host": spec.runtime.host}
    hosts |= {pointer(("agents", name, "host")): agent.host for name, agent in spec.agents.items()}
    for at, host in hosts.items():
        if host is not None and (problem := problem_of_host(host)):
            yield spec.issue(at, f"The host {problem}", HOST_HINT)


def missing_for_models(spec: Spec) -> Iterator[Issue]:
    """What the providers of a workflow lack on this machine: packages and credentials."""
    reported: set[tuple[str, str]] = set()
    for agent, choice in _models(spec):
        at = _place(spec, agent, "provider")
        for reason, remedy in missing(choice):
            if (at, reason) not in reported:
                reported.add((at, reason))
                yield spec.issue(at, reason, remedy, "warning")


def _models(spec: Spec) -> Iterator[tuple[str, ModelChoice]]:
    for name in spec.agents:
        choice = model_of(spec, name)
        if choice is not None and choice.provider in PROVIDERS:
            yield name, choice


def _without_effect(spec: Spec, agent: str, choice: ModelChoice) -> Iterator[tuple[str, str]]:
    for place in ("host", "region"):
        if getattr(choice, place) is not None and place not in PROVIDERS[choice.provider].places:
            yield _place(spec, agent, place), place
    own = msgspec.structs.asdict(spec.agents[agent].inference)
    for key in PROVIDERS[choice.provider].ignores:
        if getattr(choice.inference, key) in (None, ()):
            continue
        at = ("agents", agent) if own[key] not in (None, ()) else ("runtime",)
        yield pointer((*at, "inference", key)), key


def _place(spec: Spec, agent: str, key: str) -> str:
    """Where a setting of an agent's model stands: at the agent, or at the runtime."""
    own = getattr(spec.agents[agent], key) is not None
    return pointer(("agents", agent, key)) if own else f"/runtime/{key}"
