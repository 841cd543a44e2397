"""The requests (asks) of a workflow that reach beyond its project, and the user's decisions about them.

`strands trust` shows an ask; if the user trusts it, it is recorded in the user's data directory and takes
effect. `refuse_untrusted` must be called before a workflow runs. The settings of a project are checked where
they are read, in `settings.py`. Callers pass in the facts about models and tools that asks depend on.
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
"""An address that all clients parse alike: no user name, no backslash, no ambiguous end of the host name."""


class KeyUse(msgspec.Struct, frozen=True):
    """Where a workflow sends the key of a provider."""

    pointer: str
    host: str
    provider: str
    names: tuple[str, ...]
    """The environment variables with a key; empty if the client looks for its credentials elsewhere."""
    own_hosts: tuple[str, ...]
    """Regular expressions for the provider's own host names."""
    host_variables: tuple[str, ...]
    """Environment variables with which users choose another host."""


def workflow_asks(
    spec: BaseSpec,
    settings: Settings,
    *,
    keys: Iterable[KeyUse],
    consents: Iterable[str],
    networks: Iterable[tuple[str, str]],
    code: Iterable[tuple[str, str]] = (),
    servers: Iterable[tuple[str, str]] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[Ask, ...]:
    """The asks of a workflow file. `consents` are tools that need consent and that it calls without asking,
    `networks` are its hosts that are not public, `code` are tools in files outside the project, `servers`
    are the MCP servers that it declares, all with their pointers.

    A Spec that a program built has no asks: the program is the user's own.
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
        *(("server", server, pointer) for pointer, server in servers),
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
        looks_up = not (spec.is_foreign or (spec.is_imported and kind == "consent"))
        trusted = is_trusted(settings.project, ask, environment, looks_up=looks_up)
        asks.setdefault(ask.id, msgspec.structs.replace(ask, trusted=trusted))
    return tuple(asks.values())


_Found = Iterator[tuple[str, str, str]]
"""The kind of an ask, its value, and a pointer to its place in the file."""


def _workspace_asks(spec: BaseSpec, settings: Settings) -> _Found:
    for index, root in enumerate(spec.security.workspace or ()):
        path = _real_path(spec, root)
        if path and not is_inside(path, (settings.project, *settings.workspace)):
            yield "workspace", str(path), f"/security/workspace/{index}"


def _real_path(spec: BaseSpec, text: str) -> Path | None:
    """The real path of a path in the file; None if it is invalid, which is reported elsewhere."""
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
    """Assumes that all executors and servers get all secrets: templates decide which header has which."""
    sources = [*_secret_sources(spec, settings)]
    executors, servers = enumerate(spec.tools.http_executors), enumerate(spec.tools.mcp)
    users = [(f"/tools/http_executors/{at}/base_url", one.base_url, one.headers) for at, one in executors]
    users += [(f"/tools/mcp/{at}/url", one.url, one.headers) for at, one in servers]
    for place, address, headers in users:
        if not headers or is_loopback(address):
            continue
        for source in sources:
            if not _is_named(address, settings.hosts.get(source, ())):
                yield "secret", f"{source} to {origin_of(address)}", place


def _secret_sources(spec: BaseSpec, settings: Settings) -> Iterator[str]:
    """Environment variables and files outside the project; a file inside belongs to the project anyway."""
    for secret in spec.env.secrets:
        path = _real_path(spec, secret.path or "")
        if secret.source == "env":
            yield secret.key or secret.name
        elif path and not path.is_relative_to(settings.project):
            yield str(path)


def _variable_asks(spec: BaseSpec, settings: Settings, environment: Mapping[str, str]) -> _Found:
    """Environment variables that the file puts in places that others can see.

    Not an ask: a model setting that consists of one variable whose name does not suggest a key. With
    `host: ${OLLAMA_URL}` only that host sees the value. `host: http://x/${HOME}` sends it to x, and so does
    `model_id: ${USER}` if the file itself names the host.
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
    """The model setting that is this variable alone; empty for any other setting, and for an address."""
    group, _, key = use.pointer.rpartition("/")
    is_model = group == "/runtime" or (group.startswith("/agents/") and group.count("/") == 2)
    is_address = use.name.upper().endswith(("URL", "URI")) or "://" in value
    fits = use.is_whole and is_model and (key == "host" or (key in _MODEL_SETTINGS and not is_address))
    return key if fits else ""


def _own_hosts_of_file(
    spec: BaseSpec, use: VariableUse, settings: Settings, environment: Mapping[str, str]
) -> list[str]:
    """The hosts that get a model setting, except this machine and hosts in the user's settings."""
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
    """`https://host:port` of an address, for people; the whole address if it is not a plain one."""
    plain = _PLAIN_ADDRESS.fullmatch(address)
    return f"{plain[1]}://{plain[2]}{plain[3] or ''}".lower() if plain else without_credentials(address)


def _host_name(address: str) -> str:
    """The host name of a plain address; empty if clients might parse the address differently."""
    plain = _PLAIN_ADDRESS.fullmatch(address)
    return plain[2].strip("[]").lower().removesuffix(".") if plain else ""


def is_loopback(address: str) -> bool:
    """Whether the address is on this machine, where a user of the machine started the server."""
    from ipaddress import ip_address

    name = _host_name(address if "://" in address else f"http://{address}")
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own_host(address: str, patterns: Iterable[str]) -> bool:
    """Only with TLS: otherwise everybody on the network path can read the key."""
    name = _host_name(address) if address.lower().startswith("https://") else ""
    return bool(name) and any(re.fullmatch(pattern, name) for pattern in patterns)


def _is_named(address: str, named: Iterable[str]) -> bool:
    """Whether the user's settings name the host of an address: its name, and the port if one is given.

    A host that is named with https does not allow http, which would expose the key on the network.
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
    """TrustError if an ask is not trusted; `argument` is the argument for `strands trust` in the hint.

    Settings of another user are ignored instead: otherwise anybody could stop all runs below /tmp.
    """
    refused = [ask for ask in asks if not ask.trusted and ask.kind not in IGNORED]
    if refused:
        first, number = refused[0], len(refused)
        these = "it" if number == 1 else "both" if number == 2 else f"all {number}"
        hint = f"Look at {these} and decide: strands trust {argument}"
        raise TrustError(f"{first.place} {first.text}, and you have not trusted that.", hint=hint)


def ask_issue(ask: Ask, argument: str = "") -> Issue:
    """An untrusted ask as a warning, for commands that run nothing."""
    reason = f"This file {ask.text}, and you have not trusted that."
    if ask.kind in IGNORED:
        until = " until you trust it" if ask.kind != "unread" else ""
        reason = f"This {ask.text}, so it is ignored{until}."
    remedy = f"Look at it and decide: strands trust {argument}".strip()
    return Issue(file=ask.file, line=ask.line, reason=reason, remediation=remedy, severity="warning")


def record_trust(project: Path, asks: Iterable[Ask], *, dropped: Iterable[str] = ()) -> None:
    """Records the asks that the user trusts in a project, and drops the ids of asks that are gone."""
    with _decisions() as decided:
        known = decided.setdefault(project_key(project), {})
        for old in dropped:
            known.pop(old, None)
        known.update({ask.id: f"{ask.shown_file} {ask.text}" for ask in asks})


def revoke_trust(project: Path) -> bool:
    """Revokes all trust in a project; returns whether there was any."""
    with _decisions() as decided:
        return decided.pop(project_key(project), None) is not None


@contextmanager
def _decisions() -> Iterator[dict[str, dict[str, str]]]:
    """All decisions so far, locked against other commands; changes are written at the end of the block."""
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
