"""The keys of `strands.toml`, as they are written there."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

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
    mcp: McpSettings = McpSettings()


class UserSettings(FileSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the user's own file, which holds for every project."""

    workspace: tuple[str, ...] = ()
    hosts: dict[str, tuple[str, ...]] = {}
