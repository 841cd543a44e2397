"""What a `plugin.json` says, as values. The JSON Schema is the contract; a test compares the two."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from strands_cli.sandbox.profile import MEGABYTE

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MEMORY_BYTES = 512 * MEGABYTE

_UNITS = {"KB": 1024, "MB": MEGABYTE, "GB": 1024 * MEGABYTE}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `config`: a value that the tool gets as an environment variable."""

    type: Literal["string", "integer", "number", "boolean"] = "string"
    description: str = ""
    default: str | int | float | bool | None = None
    enum: tuple[Any, ...] = ()
    required: bool = True
    """Whether the tool is unavailable without a value; a default is one."""
    sensitive: bool = False
    """Whether it is a secret: taken from the environment or the keyring, and redacted everywhere."""
    env: str = ""
    """The variable it is taken from and given as; by default `PLUGIN_NAME`, in capitals."""

    @property
    def is_needed(self) -> bool:
        return self.required and self.default is None


class ToolFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that a tool may touch besides its own: absolute, from `~/`, or relative to the workspace."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class ToolRequires(msgspec.Struct, frozen=True, kw_only=True):
    binaries: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    packages: dict[str, str] = {}


class CliTool(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `cli_tools`."""

    name: str
    path: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    output_schema: dict[str, Any] | None = None
    args: tuple[str, ...] = ()
    mode: Literal["call", "fresh", "worker"] = "call"
    """`call`: a process a call, started ahead if that is safe; `fresh`: never ahead; `worker`: it stays."""

    timeout: float = DEFAULT_TIMEOUT_SECONDS
    idle_timeout: float | None = None
    retries: int = 0
    max_output: int | None = None
    memory: int | str = DEFAULT_MEMORY_BYTES

    network: bool = False
    files: ToolFiles = ToolFiles()
    env: tuple[str, ...] = ()
    config: dict[str, Setting] = {}

    effects: dict[str, Any] | Literal["exclusive"] | None = None
    annotations: dict[str, bool] = {}
    requires_consent: bool = False
    platforms: tuple[str, ...] = ()
    requires: ToolRequires = ToolRequires()

    @property
    def memory_bytes(self) -> int:
        if isinstance(self.memory, int):
            return self.memory
        return int(self.memory[:-2]) * _UNITS[self.memory[-2:]]

    @property
    def needs(self) -> dict[str, Any] | None:
        """What it requires of the machine, as `toolkit.info` takes it."""
        needs = {
            "packages": self.requires.packages,
            "binaries": list(self.requires.binaries),
            "env": list(self.requires.env),
            "platforms": list(self.platforms),
        }
        return {name: value for name, value in needs.items() if value} or None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str = "0.0.0"
    description: str = ""
    config: dict[str, Setting] = {}
    """Settings that every tool of the plugin gets."""
    cli_tools: tuple[CliTool, ...] = ()

    def tool_id(self, tool: CliTool) -> str:
        return f"{self.name}__{tool.name}"

    def settings_of(self, tool: CliTool) -> Mapping[str, Setting]:
        return {**self.config, **tool.config}


def variable_of(plugin: str, name: str, setting: Setting) -> str:
    """The environment variable that a setting is taken from, and given to the tool as."""
    if setting.env:
        return setting.env
    return "".join(c if c.isalnum() else "_" for c in f"{plugin}_{name}").upper()
