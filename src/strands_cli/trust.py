"""What a workflow asks for beyond its project's own directory, and what the user decided about it.

The settings of a project are judged where they are read, in `settings.py`; the facts about models and tools
that a workflow's asks depend on are handed in. An ask is shown by `strands trust`, recorded in the user's
data directory, and from then on in force. Whoever runs a workflow calls `refuse_untrusted` first.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from strands_cli.documents.files import locate, write_file
from strands_cli.documents.problems import json_pointer
from strands_cli.errors import ArtifactError, Issue, TrustError, UsageError
from strands_cli.secrets import looks_secret, without_credentials
from strands_cli.settings import (
    Settings,
    decisions_file,
    is_inside,
    is_trusted,
    project_key,
    trusted_projects,
)
from strands_cli.types.asks import IGNORED, Ask
from strands_cli.types.sections import BaseSpec, VariableUse

_MODEL_SETTINGS = ("model_id", "region", "provider")
_COLLECTOR_KEYS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_PLAIN_ADDRESS = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]+)?(/[^@\\]*)?", re.IGNORECASE)
"""An address that every client reads alike: no user, no backslash, nothing that ends a host for some only."""


class KeyUse(msgspec.Struct, frozen=True):
    """Where a workflow sends the key of a provider."""

    pointer: str
    host: str
    provider: str
    names: tuple[str, ...]
    """The environment variables with a key; empty where nobody knows where its client finds one."""
    own_hosts: tuple[str, ...]
    """Regular expressions for the names of the provider's own hosts."""
    host_variables: tuple[str, ...]
    """Environment variables with which its users name another host."""


def workflow_asks(
    spec: BaseSpec,
    settings: Settings,
    *,
    keys: Iterable[KeyUse],
    consents: Iterable[str],
    networks: Iterable[tuple[str, str]],
    code: Iterable[tuple[str, str]] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[Ask, ...]:
    """What a workflow's file asks for. `consents` are the tools that it calls without the consent which they
    need, `networks` the hosts that it names though they are not public, `code` the tools in files outside the
    project, both with their pointers.

    A Spec that a program made by itself asks for nothing: what it says, the user's own program says.
    """
    if not spec.positions:
        return ()
    found = [
        *_workspace_asks(spec, settings),
        *(("consent", tool, json_pointer(("security", "consent", tool))) for tool in consents),
        *_key_asks(spec, settings, keys, environment),
        *_secret_asks(spec, settings),
        *_variable_asks(spec, settings, environment),
        *(("network", host, pointer) for pointer, host in networks),
        *(("callable", tool, pointer) for pointer, tool in code),
        *(
            ("network", host, f"/security/http_allow/{index}")
            for index, host in enumerate(spec.security.http_allow)
            if host not in settings.http.allow
        ),
    ]
    asks: dict[str, Ask] = {}
    for kind, value, pointer in found:
        file, line, _ = spec.position(pointer)
        path = Path(file).resolve()
        inside = path.is_relative_to(settings.project)
        name = str(path.relative_to(settings.project) if inside else path)
        ask = Ask(kind=kind, value=value, file=name, line=line)
        trusted = is_trusted(settings.project, ask, environment, looks_up=not spec.is_foreign)
        asks.setdefault(ask.id, msgspec.structs.replace(ask, trusted=trusted))
    return tuple(asks.values())


_Found = Iterator[tuple[str, str, str]]
"""The kind of an ask, its value, and a pointer to what asks."""


def _workspace_asks(spec: BaseSpec, settings: Settings) -> _Found:
    for index, root in enumerate(spec.security.workspace or ()):
        path = _real_path(spec, root)
        if path and not is_inside(path, (settings.project, *settings.workspace)):
            yield "workspace", str(path), f"/security/workspace/{index}"


def _real_path(spec: BaseSpec, text: str) -> Path | None:
    """What a path in the file means; None where it cannot be one, which is told as what it is."""
    try:
        return (spec.file.parent / text).resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _key_asks(
    spec: BaseSpec, settings: Settings, keys: Iterable[KeyUse], environment: Mapping[str, str]
) -> _Found:
    for use in keys:
        named = (
            spec.model_given.get("host", ""),
            *settings.hosts.get(use.provider, ()),
            *(environment.get(variable, "") for variable in use.host_variables),
        )
        if _is_own_host(use.host, use.own_hosts) or is_loopback(use.host) or _is_named(use.host, named):
            continue
        what = " and ".join(use.names) or f"your credentials for {use.provider}"
        yield "key", f"{what} to {origin_of(use.host)}", use.pointer
    endpoint = spec.telemetry.otlp_endpoint
    if endpoint and not is_loopback(endpoint):
        for name in _COLLECTOR_KEYS:
            if environment.get(name) and not _is_named(endpoint, settings.hosts.get(name, ())):
                yield "key", f"{name} to {origin_of(endpoint)}", "/telemetry/otlp_endpoint"


def _secret_asks(spec: BaseSpec, settings: Settings) -> _Found:
    """Every executor may send every secret: which header has which is for templates to decide."""
    sources = [*_secret_sources(spec, settings)]
    for index, executor in enumerate(spec.tools.http_executors):
        if not executor.headers or is_loopback(executor.base_url):
            continue
        for source in sources:
            if not _is_named(executor.base_url, settings.hosts.get(source, ())):
                place = f"/tools/http_executors/{index}/base_url"
                yield "secret", f"{source} to {origin_of(executor.base_url)}", place


def _secret_sources(spec: BaseSpec, settings: Settings) -> Iterator[str]:
    """Environment variables, and files outside the project; a file inside is the project's own."""
    for secret in spec.env.secrets:
        path = _real_path(spec, secret.path or "")
        if secret.source == "env":
            yield secret.key or secret.name
        elif path and not path.is_relative_to(settings.project):
            yield str(path)


def _variable_asks(spec: BaseSpec, settings: Settings, environment: Mapping[str, str]) -> _Found:
    """What the file takes out of the environment for others to see.

    A setting of a model may be a variable, if it is all of the setting and its name does not tell of a key:
    `host: ${OLLAMA_URL}` sends nothing to anybody but that host, `host: http://x/${HOME}` does. So does
    `model_id: ${USER}` where the file itself names the host.
    """
    for use in spec.environment:
        value = environment.get(use.name, "")
        if not value:
            continue
        key = _model_setting(use, value)
        hosts = _own_hosts_of_file(spec, use, settings, environment) if key != "host" else []
        if looks_secret(use.name) or not key or hosts:
            yield "variable", f"the environment variable {use.name} into {use.place}", use.pointer


def _model_setting(use: VariableUse, value: str) -> str:
    """The setting of a model that a variable is all of; empty if it is another place, or has an address."""
    group, _, key = use.pointer.rpartition("/")
    is_model = group == "/runtime" or (group.startswith("/agents/") and group.count("/") == 2)
    is_address = use.name.upper().endswith(("URL", "URI")) or "://" in value
    fits = use.is_whole and is_model and (key == "host" or (key in _MODEL_SETTINGS and not is_address))
    return key if fits else ""


def _own_hosts_of_file(
    spec: BaseSpec, use: VariableUse, settings: Settings, environment: Mapping[str, str]
) -> list[str]:
    """The hosts that get a setting of a model, and that neither the user has named nor this machine is."""
    group = use.pointer.rpartition("/")[0]
    hosts = {"/runtime/host": spec.runtime.host}
    for name, agent in spec.agents.items():
        if group in ("/runtime", at := json_pointer(("agents", name))):
            hosts[f"{at}/host"] = agent.host
    given = {use.pointer: environment.get(use.name) for use in spec.environment if use.is_whole}
    named = (spec.model_given.get("host", ""), *(host for one in settings.hosts.values() for host in one))
    return [
        host
        for at, host in hosts.items()
        if host and host != given.get(at) and not is_loopback(host) and not _is_named(host, named)
    ]


# --- Hosts --------------------------------------------------------------------------------------------------


def origin_of(address: str) -> str:
    """`https://host:port` of an address, for people; all of it where it is not a plain one."""
    plain = _PLAIN_ADDRESS.fullmatch(address)
    return f"{plain[1]}://{plain[2]}{plain[3] or ''}".lower() if plain else without_credentials(address)


def _host_name(address: str) -> str:
    """The name of the host of a plain address; empty where clients might not agree about it."""
    plain = _PLAIN_ADDRESS.fullmatch(address)
    return plain[2].strip("[]").lower().removesuffix(".") if plain else ""


def is_loopback(address: str) -> bool:
    """Whether it is on this machine: a server there was started by whoever uses the machine."""
    from ipaddress import ip_address

    name = _host_name(address if "://" in address else f"http://{address}")
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own_host(address: str, patterns: Iterable[str]) -> bool:
    """Only with TLS: without it, everybody on the way gets the key as well."""
    name = _host_name(address) if address.lower().startswith("https://") else ""
    return bool(name) and any(re.fullmatch(pattern, name) for pattern in patterns)


def _is_named(address: str, named: Iterable[str]) -> bool:
    """Whether the user has named the host of an address: its name, with the port if one is given.

    Who names it with https does not mean that everybody on the way gets the key as well.
    """
    name, asked = _host_name(address), _PLAIN_ADDRESS.fullmatch(address)
    for text in filter(None, named):
        whole = text if "://" in text else f"{address.partition('://')[0]}://{text}"
        plain = _PLAIN_ADDRESS.fullmatch(whole)
        if not (asked and plain) or _host_name(whole) != name or plain[3] not in (None, asked[3]):
            continue
        if asked[1].lower() == "https" or plain[1].lower() == "http":
            return True
    return False


# --- Decisions ----------------------------------------------------------------------------------------------


def refuse_untrusted(asks: Iterable[Ask], argument: str) -> None:
    """TrustError for what is asked for without being trusted; `argument` is what `strands trust` is to show.

    Settings of another user are not refused but ignored: else anybody could stop all runs below /tmp.
    """
    refused = [ask for ask in asks if not ask.trusted and ask.kind not in IGNORED]
    if refused:
        first, number = refused[0], len(refused)
        these = "it" if number == 1 else "both" if number == 2 else f"all {number}"
        hint = f"Look at {these} and decide: strands trust {argument}"
        raise TrustError(f"{first.place} {first.text}, and you have not trusted that.", hint=hint)


def ask_issue(ask: Ask, argument: str = "") -> Issue:
    """An ask that is not trusted, as a warning for whoever looks."""
    reason = f"This file {ask.text}, and you have not trusted that."
    if ask.kind in IGNORED:
        until = " until you trust it" if ask.kind != "unread" else ""
        reason = f"This {ask.text}, so it is ignored{until}."
    remedy = f"Look at it and decide: strands trust {argument}".strip()
    return Issue(file=ask.file, line=ask.line, reason=reason, remediation=remedy, severity="warning")


def record_trust(project: Path, asks: Iterable[Ask], *, dropped: Iterable[str] = ()) -> None:
    """Records what the user trusts in a project, and drops the ids of what is no longer asked for."""
    with _decisions() as decided:
        known = decided.setdefault(project_key(project), {})
        for old in dropped:
            known.pop(old, None)
        known.update({ask.id: f"{ask.shown_file} {ask.text}" for ask in asks})


def revoke_trust(project: Path) -> bool:
    """Takes back all trust in a project; whether there was any."""
    with _decisions() as decided:
        return decided.pop(project_key(project), None) is not None


@contextmanager
def _decisions() -> Iterator[dict[str, dict[str, str]]]:
    """What was decided so far, for one command at a time; changes are written when it ends."""
    try:
        file = decisions_file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locate(file, Path(), [file.parent.resolve()]) as place, place.locked():
            decided = trusted_projects()
            yield decided
            write_file(file, msgspec.json.format(msgspec.json.encode(decided), indent=1))
    except RuntimeError:
        raise UsageError(
            "There is no home directory for your decisions.", hint="Set XDG_DATA_HOME."
        ) from None
    except OSError as error:
        reason = f"Your decisions cannot be written: {error.strerror}: {error.filename}."
        raise ArtifactError(reason, hint="Make the directory writable, or set XDG_DATA_HOME.") from None
