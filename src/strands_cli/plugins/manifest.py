"""What a `plugin.json` says, as values, and the values of the settings in it.

The JSON Schema is the contract; a test compares the two.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Literal

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.sandbox.profile import MEGABYTE
from strands_cli.secrets import NOTHING_SECRET, Redactor

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
    def limits(self) -> str:
        """Its limits in words, how it is started, and whether each call is asked about."""
        idle = f", silent for {self.idle_timeout:g} s at most" if self.idle_timeout else ""
        retries = f", {self.retries} retries" if self.retries else ""
        output = f", {self.max_output:,} bytes of output" if self.max_output else ""
        mode = "" if self.mode == "call" else f", {self.mode}"
        consent = ", asks before each call" if self.requires_consent else ""
        memory = f"{self.memory_bytes / 1024**2:.0f} MB"
        return f"{self.timeout:g} s{idle}, {memory}{retries}{output}{mode}{consent}"

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


def setting_variable(plugin: str, name: str, setting: Setting) -> str:
    """The environment variable that a setting is taken from, and given to the tool as."""
    if setting.env:
        return setting.env
    return "".join(c if c.isalnum() else "_" for c in f"{plugin}_{name}").upper()


# --- The values of settings -------------------------------------------------------------------------------

Value = str | int | float | bool

_WORDS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_PARSERS: dict[str, Callable[[str], Value]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": lambda text: _WORDS[text.strip().lower()],
}
_ARTICLES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


class Configuration(msgspec.Struct, frozen=True):
    """What the settings come to for one call."""

    environment: dict[str, str]
    redactor: Redactor


async def configure_plugin_tool(
    manifest: Manifest, tool: CliTool, environment: Mapping[str, str] = os.environ
) -> Configuration:
    """The settings of a tool; ToolFailed (`unavailable`) names all that are missing or of another type."""
    settings = manifest.settings_of(tool)
    asks_keyring = any(
        setting.sensitive and not environment.get(setting_variable(manifest.name, name, setting))
        for name, setting in settings.items()
    )
    if asks_keyring and _keyring_module():
        from asyncio import to_thread

        values, problems = await to_thread(_setting_values, manifest, settings, environment)
    else:
        values, problems = _setting_values(manifest, settings, environment)
    if problems:
        raise ToolFailed(
            f"{manifest.tool_id(tool)} is unavailable: {'; '.join(problems.values())}",
            code="unavailable",
            hint=_settings_remedy(manifest, {name: settings[name] for name in problems}),
        )
    variables = {setting_variable(manifest.name, name, settings[name]): values[name] for name in values}
    secrets = [value for name, value in values.items() if settings[name].sensitive]
    return Configuration(variables, Redactor(secrets) if secrets else NOTHING_SECRET)


def plugin_setting_problems(manifest: Manifest, tool: CliTool) -> Iterator[tuple[str, str]]:
    """What is missing or of another type among the settings of a tool, before it is called; with remedies."""
    settings = manifest.settings_of(tool)
    _, problems = _setting_values(manifest, settings, os.environ)
    for name, problem in problems.items():
        yield problem, _settings_remedy(manifest, {name: settings[name]})


def setting_value_problem(value: Value, setting: Setting) -> str:
    """Why a value does not fit a setting, as the rest of a sentence about it; empty where it fits."""
    is_boolean_for_number = isinstance(value, bool) and setting.type in ("integer", "number")
    if is_boolean_for_number or not isinstance(value, _KINDS[setting.type]):
        return f"is not {_ARTICLES[setting.type]}"
    if setting.enum and value not in setting.enum:
        return f"is not one of {', '.join(_setting_text(option) for option in setting.enum)}"
    return ""


def _setting_values(
    manifest: Manifest, settings: Mapping[str, Setting], environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The values as the tool gets them, and what is wrong: never their text, which may be secret."""
    values: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, setting in settings.items():
        variable = setting_variable(manifest.name, name, setting)
        text = environment.get(variable) or (
            _from_keyring(manifest.name, name) if setting.sensitive else None
        )
        try:
            value = _PARSERS[setting.type](text) if text else setting.default
            problem = setting_value_problem(value, setting) if text and value is not None else ""
        except (ValueError, KeyError):
            value, problem = None, f"is not {_ARTICLES[setting.type]}"
        if problem:
            problems[name] = f"the setting {name!r} ({variable}) {problem}"
        elif value is not None:
            values[name] = _setting_text(value)
        elif setting.required:
            problems[name] = f"the setting {name!r} has no value"
    return values, problems


def _setting_text(value: Value) -> str:
    """How a value is given to an executable."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings_remedy(manifest: Manifest, named: Mapping[str, Setting]) -> str:
    variables = [f"set {setting_variable(manifest.name, name, setting)}" for name, setting in named.items()]
    kept = [
        f"keyring set {_keyring_service(manifest.name)} {name}"
        for name, setting in named.items()
        if setting.sensitive
    ]
    also = f" A secret may be kept in the keyring: {', '.join(kept)}." if kept else ""
    return f"In the environment, {', '.join(variables)}.{also}"


def _keyring_service(plugin: str) -> str:
    return f"strands-cli:{plugin}"


def _from_keyring(plugin: str, name: str) -> str | None:
    """What the system's keyring holds; None without a keyring, or without the package that asks it."""
    keyring = _keyring_module()
    if keyring is None:
        return None
    try:
        kept: str | None = keyring.get_password(_keyring_service(plugin), name)
    except keyring.errors.KeyringError:
        return None  # locked, or no keyring on this machine: the message says what else can be done
    return kept


@cache
def _keyring_module() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None
