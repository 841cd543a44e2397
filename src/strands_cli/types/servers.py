"""An MCP server as a file declares it: `[mcp.servers]`, `tools.mcp` of a workflow, or `.mcp.json`."""

import os
import re
from binascii import crc32  # hashlib would cost a listing more than all servers do
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from strands_cli.errors import variable_error

SERVER_NAME = re.compile(r"(?!.*__)[a-zA-Z0-9_-]{1,40}")
MAX_SERVERS = 100
_UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}
_USUAL_MEMORY = "1GB"
_SIZE = re.compile(r"([1-9][0-9]{0,6})(KB|MB|GB)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_WITHOUT_EFFECT = {"url": ("args", "env", "files", "network", "memory"), "command": ("headers", "oauth")}
_LONGEST = 1e6
_USUAL_START_SECONDS = 30.0


class ServerFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Paths that a server may touch: absolute, from `~/`, or relative to the workspace, which it can read."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class ServerOAuth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to sign in, where the server does not let clients register themselves."""

    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"


_NOT_GIVEN: tuple[object, ...] = ((), {}, False, _USUAL_MEMORY, ServerFiles(), ServerOAuth())
"""The defaults of the keys that some servers cannot have."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A program that is started, or an address; the rest says what it may do and which tools are used."""

    command: str = ""
    """The program to start: a name on the PATH, or a path."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: tuple[str, ...] | dict[str, str] = ()
    """Names of environment variables that it gets, or a table of values, in which `${NAME}` is a variable."""
    files: ServerFiles = ServerFiles()
    """`read` and `write`: the paths that it may touch besides reading the workspace."""
    network: bool = False
    """Whether it may use the network."""
    memory: str = _USUAL_MEMORY
    """How much memory it may use, such as `"512MB"`."""
    url: str = ""
    """The address of a server that runs elsewhere, instead of a command."""
    headers: dict[str, str] = {}
    """Sent with every request to `url`; `${NAME}` is an environment variable."""
    oauth: ServerOAuth = ServerOAuth()
    """`client_id`, `client_secret`, `scope` and `grant`, where signing in needs them."""
    timeout: float = 30.0
    """Seconds for a call."""
    start_timeout: float | None = None
    """Seconds for its start, until its tools are known; by default `MCP_STARTUP_TIMEOUT_S`, else 30."""
    tools: tuple[str, ...] = ()
    """Only these tools are used, by name or pattern such as `read_*`; by default all."""
    exclude: tuple[str, ...] = ()
    """These tools are not used, by name or pattern."""

    def __post_init__(self) -> None:
        if self.problem:
            raise ValueError(self.problem)

    @property
    def reaches_network(self) -> bool:
        return bool(self.url) or self.network

    @property
    def problem(self) -> str:
        """Why it cannot be used, or nothing."""
        kind = "url" if self.url else "command"
        without_effect = [key for key in _WITHOUT_EFFECT[kind] if getattr(self, key) not in _NOT_GIVEN]
        if bool(self.command) == bool(self.url):
            return "A server needs either 'command' or 'url'"
        if self.url and not re.match(r"https?://[^/\s]", self.url):
            return f"{self.url!r} is not an address that begins with https:// or http://"
        if without_effect:
            return f"{without_effect[0]!r} has no effect on a server with {kind!r}"
        if not _SIZE.fullmatch(self.memory):
            return f"{self.memory!r} is not a size such as '512MB' or '1GB'"
        starts_in_time = self.start_timeout is None or 0 < self.start_timeout < _LONGEST
        if not (0 < self.timeout < _LONGEST and starts_in_time):
            return "'timeout' and 'start_timeout' must be numbers greater than zero"
        given = self.env.items() if isinstance(self.env, dict) else ((name, "") for name in self.env)
        if wrong := next((name for name, _ in given if not _VARIABLE.fullmatch(name)), None):
            return f"{wrong!r} is not the name of an environment variable"
        values = self.env.values() if isinstance(self.env, dict) else ()
        if any("\0" in text for text in (self.command, *self.args, *values)):
            return "A null byte cannot be part of a command or of its environment"
        return ""

    @property
    def start_seconds(self) -> float:
        return default_start_seconds() if self.start_timeout is None else self.start_timeout

    @property
    def memory_bytes(self) -> int:
        size = _SIZE.fullmatch(self.memory)
        assert size is not None
        return int(size[1]) * _UNITS[size[2]]

    def takes(self, tool: str) -> bool:
        """Whether a tool of the server is used."""
        is_named = not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)
        return is_named and not any(fnmatchcase(tool, pattern) for pattern in self.exclude)

    @property
    def text(self) -> str:
        """The declaration on one line, with all that a user has to agree to."""
        import shlex

        if self.url:
            headers = [f"{name}{_shown_value(name, value)}" for name, value in self.headers.items()]
            oauth = msgspec.to_builtins(self.oauth).items()
            sign_in = [f"{name}{_shown_value(name, value)}" for name, value in oauth]
            said = [f"with the headers {', '.join(headers)}"] if headers else []
            said += [f"signs in with {', '.join(sign_in)}"] if sign_in else []
            return f"{self.url} ({'; '.join(said)})" if said else self.url
        parts = [
            *(f"reads {path}" for path in self.files.read),
            *(f"writes {path}" for path in self.files.write),
            *(["uses the network"] if self.network else []),
            *([f"uses {self.memory} of memory"] if self.memory != _USUAL_MEMORY else []),
        ]
        given = self.env if isinstance(self.env, dict) else dict.fromkeys(self.env, "")
        parts += [f"gets {name}{_shown_value(name, value)}" for name, value in given.items()]
        return shlex.join((self.command, *self.args)) + (f" ({', '.join(parts)})" if parts else "")

    @property
    def fingerprint(self) -> str:
        """Tells declarations apart: a change of any key changes it. Not a hash that withstands attacks."""
        data = msgspec.json.encode(self, order="deterministic")
        return f"{crc32(data):08x}-{len(data)}"


def default_start_seconds(environment: Mapping[str, str] = os.environ) -> float:
    """For a server that does not set `start_timeout`; SpecError if the variable is not a number."""
    text = environment.get("MCP_STARTUP_TIMEOUT_S", "")
    try:
        seconds = float(text or _USUAL_START_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < _LONGEST:
        raise variable_error("MCP_STARTUP_TIMEOUT_S", f"{text!r} is not a number of seconds above zero")
    return seconds


def _shown_value(name: str, value: str) -> str:
    """What is given to a variable; a key in clear by its hash, which changes with it."""
    from hashlib import sha256

    if not value or "${" in value or not _SECRET.search(name):
        return f"={value}" if value else ""
    return f"=(hidden, {sha256(value.encode()).hexdigest()[:16]})"


class DeclaredServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server, who declares it, and whether it may be started."""

    name: str
    server: McpServer
    scope: str = ""
    """Whose it is: the project's path, the workflow's file, or "" for the user's own."""
    file: str = ""
    line: int = 0
    trusted: bool = True
    workflow: str = ""
    """The workflow that declares it, where one does."""

    @property
    def argument(self) -> str:
        """What names it to `strands mcp check` and `trust`."""
        return f"{self.name} --workflow {self.workflow}" if self.workflow else self.name

    @property
    def distrust(self) -> str:
        return f"The MCP server {self.name} is declared in {self.file}, and you have not trusted that."

    @property
    def trust_hint(self) -> str:
        return f"Look at it and decide: strands trust {self.workflow}".rstrip()


class WorkflowServer(McpServer, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An entry of `tools.mcp`. With an id alone, it is a server of the settings."""

    id: str

    def __post_init__(self) -> None:
        """What is wrong with it is told with its place, by the checks of workflows."""

    @property
    def is_reference(self) -> bool:
        return not (self.command or self.url)


def server_of_json(value: dict[str, Any]) -> McpServer:
    """A server as other programs write it in `mcpServers`; ValueError says what is wrong.

    Keys of theirs that mean nothing here are ignored.
    """
    known = {name: value[name] for name in McpServer.__struct_fields__ if name in value}
    if "httpUrl" in value and not known.get("url"):
        known["url"] = value["httpUrl"]
    if value.get("type") == "sse":
        raise ValueError("the transport sse is obsolete; the server must offer streamable HTTP")
    try:
        return msgspec.convert(known, McpServer)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def server_name_problem(name: str) -> str:
    if SERVER_NAME.fullmatch(name):
        return ""
    return f"The name {name!r} of a server may have up to 40 letters, digits, '-' and single '_'"
