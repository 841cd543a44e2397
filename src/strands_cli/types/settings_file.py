"""The keys of `strands.toml`, as they are written there."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from strands_cli.errors import variable_error
from strands_cli.types.servers import MAX_SERVERS, McpServer, default_start_seconds, server_name_problem

DEFAULT_THREADS = 100
DEFAULT_THREAD_WAIT = 600.0


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[http]`: what tools may reach over the network."""

    allow: tuple[str, ...] = ()
    """Hosts, addresses or networks that tools may reach even if they are not public."""
    max_bytes: int = 5_000_000
    """The maximum size of a response body, in bytes."""


class UrlLimits(msgspec.Struct, frozen=True):
    """Regular expressions of the environment that narrow what HTTP tools may request. Blocked ones win."""

    allowed: tuple[re.Pattern[str], ...] | None = None
    blocked: tuple[re.Pattern[str], ...] = ()

    def problem(self, hosts: Iterable[str], urls: Iterable[str]) -> str:
        """Why a request is refused whose host and URL have these spellings, or nothing."""
        for pattern in self.blocked:
            if any(map(pattern.search, (*hosts, *urls))):
                return f"STRANDS_HTTP_BLOCKED_PATTERNS has {pattern.pattern!r}"
        patterns = self.allowed
        if patterns is None or any(pattern.fullmatch(host) for pattern in patterns for host in hosts):
            return ""
        return "the host is not in STRANDS_HTTP_ALLOWED_DOMAINS"


def read_url_limits(environment: Mapping[str, str] = os.environ) -> UrlLimits:
    """SpecError where a variable is not a JSON list of regular expressions: it is never ignored."""
    allowed = environment.get("STRANDS_HTTP_ALLOWED_DOMAINS", "")
    blocked = environment.get("STRANDS_HTTP_BLOCKED_PATTERNS", "")
    return UrlLimits(
        _expressions("STRANDS_HTTP_ALLOWED_DOMAINS", allowed) if allowed else None,
        _expressions("STRANDS_HTTP_BLOCKED_PATTERNS", blocked) if blocked else (),
    )


def check_variables(environment: Mapping[str, str]) -> None:
    """SpecError where a variable of these cannot be used, before anything relies on it."""
    read_url_limits(environment)
    default_start_seconds(environment)


def _expressions(name: str, text: str) -> tuple[re.Pattern[str], ...]:
    remedy = r'Write a JSON list of regular expressions, such as ["(.*\\.)?example\\.com"], or unset it.'
    try:
        return tuple(re.compile(item, re.IGNORECASE) for item in msgspec.json.decode(text, type=list[str]))
    except (msgspec.DecodeError, RecursionError) as error:
        raise variable_error(name, f"It is not a JSON list of texts: {error}", remedy) from None
    except re.error as error:
        shown = str(error.pattern)
        raise variable_error(name, f"{shown!r} is not a regular expression: {error}", remedy) from None


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sandbox]`: how executables are confined."""

    accept: Literal["", "seccomp"] = ""
    """`seccomp` runs executables even without Landlock and namespaces; they can then read all your files."""


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[local]`: the embedded model."""

    threads: int | None = None
    """The number of threads; by default one per processor, at most 8."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[runs]`: the journal of runs."""

    durability: Literal["normal", "full"] = "normal"
    """`full` waits for the disk at every step: what was finished then outlasts a power failure too."""
    keep_days: int = 30
    """Only in your own file: how many days finished runs are kept."""
    store: str = ""
    """Only in your own file: a Postgres database for the journal; `STRANDS_STORE` is the same."""

    def __post_init__(self) -> None:
        if self.store and not self.store.startswith(("postgresql://", "postgres://")):
            raise ValueError("store is not postgresql://USER@HOST:PORT/DATABASE")


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[engine]`, only in your own file: Temporal, which runs workflows on several machines.

    What is not set here is read as other programs of Temporal read it: from the variables `TEMPORAL_…`, such
    as `TEMPORAL_API_KEY`, and from Temporal's own configuration file.
    """

    use: Literal["", "temporal"] = ""
    """`temporal` lets `strands run` submit workflows to workers; `STRANDS_ENGINE` is the same."""
    address: str = ""
    """The host and port of the server; localhost:7233 by default."""
    namespace: str = ""
    """The namespace of the runs on the server."""
    profile: str = ""
    """The profile in Temporal's configuration file."""
    queue: str = "strands"
    """The task queue: workers take only the runs of their queue. `STRANDS_QUEUE` is the same."""
    tls: bool | None = None
    """Whether to connect with TLS; by default if there is an API key or a certificate."""
    ca: str = ""
    """The file with the certificate of the server's authority."""
    cert: str = ""
    """The file with this client's certificate."""
    key: str = ""
    """The file with the key of that certificate."""
    api_key_env: str = "TEMPORAL_API_KEY"
    """The environment variable with the API key."""
    lost_after: float = 6.0
    """The seconds without a sign of life after which another worker continues a run."""
    workspace_wait: float = 600.0
    """The seconds that a run waits for a worker of the workspace in which it has used tools."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", self.queue):
            raise ValueError("queue may have letters, digits, dots, dashes and underscores, at most 100")
        if bool(self.cert) != bool(self.key):
            raise ValueError("cert and key belong together, and one of them is missing")
        if not 2 <= self.lost_after <= 3600 or not 1 <= self.workspace_wait <= 30 * 86_400:
            raise ValueError("lost_after is 2 to 3600 seconds, workspace_wait 1 second to 30 days")


_USERS_KEYS = {
    ("runs", "keep_days"): "the journal has runs of all projects",
    ("runs", "store"): "the journal has runs of all projects",
    ("engine", ""): "whoever runs the engine sees the runs of all projects",
}
"""What a project cannot set, and why."""


def users_key_reason(table: Mapping[str, Any]) -> str:
    """Why a project's settings are refused, if they have a key that is for the user alone."""
    for (name, key), why in _USERS_KEYS.items():
        if key in table.get(name, {}) if key else name in table:
            return f"{f'{name}.{key}' if key else name} can only be set in your own settings: {why}."
    return ""


def store_in_force(runs: RunSettings, environment: Mapping[str, str]) -> RunSettings:
    store = environment.get("STRANDS_STORE", "")
    try:
        return replace(runs, store=store) if store else runs
    except ValueError as error:
        raise variable_error("STRANDS_STORE", f"The {error}") from None


def engine_in_force(engine: EngineSettings, environment: Mapping[str, str]) -> EngineSettings:
    chosen, queue = environment.get("STRANDS_ENGINE", ""), environment.get("STRANDS_QUEUE", "")
    try:
        engine = replace(engine, queue=queue or engine.queue)
    except ValueError as error:
        raise variable_error("STRANDS_QUEUE", f"The {error}") from None
    if chosen not in ("", "local", "temporal"):
        reason = f"There is no engine {chosen!r}"
        raise variable_error("STRANDS_ENGINE", reason, "Set it to temporal or local, or unset it.")
    return replace(engine, use="temporal" if chosen == "temporal" else "") if chosen else engine


class McpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[mcp]`: MCP servers, whose tools are used like any other."""

    servers: dict[str, McpServer] = {}
    """Servers by name; `[mcp.servers.NAME]` has the keys below."""

    def __post_init__(self) -> None:
        if problem := next(filter(None, map(server_name_problem, self.servers)), ""):
            raise ValueError(problem)
        if len(self.servers) > MAX_SERVERS:
            raise ValueError(f"{len(self.servers)} servers are declared; the maximum is {MAX_SERVERS}")


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


class FileSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the settings file, as they are written there."""

    workspace: tuple[str, ...] = (".",)
    allow: tuple[str, ...] = ()
    threads: int = DEFAULT_THREADS
    thread_wait: float = DEFAULT_THREAD_WAIT
    timeout: float | None = None
    prices: dict[str, Price] = {}
    http: HttpSettings = HttpSettings()
    sandbox: SandboxSettings = SandboxSettings()
    local: LocalSettings = LocalSettings()
    runs: RunSettings = RunSettings()
    engine: EngineSettings = EngineSettings()
    mcp: McpSettings = McpSettings()


class UserSettings(FileSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the user's own file, which holds for every project."""

    workspace: tuple[str, ...] = ()
    hosts: dict[str, tuple[str, ...]] = {}
