"""The keys of `strands.toml`, as they are written there."""

from typing import Literal

import msgspec

from strands_cli.types.servers import MAX_SERVERS, McpServer, server_name_problem

DEFAULT_THREADS = 40
DEFAULT_THREAD_WAIT = 600.0


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[http]`: what tools may reach over the network."""

    allow: tuple[str, ...] = ()
    """Hosts, addresses or networks that tools may reach even if they are not public."""
    max_bytes: int = 5_000_000
    """The maximum size of a response body, in bytes."""


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
