"""The values of a plugin's settings: variables for its executables, and the secrets among them."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.plugins.manifest import CliTool, Manifest, Setting, variable_of
from strands_cli.secrets import NOTHING_SECRET, Redactor

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
_ARTICLES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


class Configuration(msgspec.Struct, frozen=True):
    """What the settings come to for one call."""

    environment: dict[str, str]
    redactor: Redactor


async def configure(
    manifest: Manifest, tool: CliTool, environment: Mapping[str, str] = os.environ
) -> Configuration:
    """The settings of a tool; ToolFailed (`unavailable`) names all that are missing or of another type."""
    variables: dict[str, str] = {}
    secrets: list[str] = []
    problems: dict[str, str] = {}
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        text = environment.get(variable)
        if not text and setting.sensitive and _keyring():
            from asyncio import to_thread

            text = await to_thread(_from_keyring, manifest.name, name)
        value, problem = _value(name, variable, text, setting)
        if problem:
            problems[name] = problem
        elif value is not None:
            variables[variable] = value
            secrets += [value] if setting.sensitive else []
    if problems:
        named = manifest.settings_of(tool)
        raise ToolFailed(
            f"{manifest.tool_id(tool)} is unavailable: {'; '.join(problems.values())}",
            code="unavailable",
            hint=_remedy(manifest, {name: named[name] for name in problems}),
        )
    return Configuration(variables, Redactor(secrets) if secrets else NOTHING_SECRET)


def setting_problems(manifest: Manifest, tool: CliTool) -> Iterator[tuple[str, str]]:
    """What is missing or of another type among the settings of a tool, before it is called; with remedies."""
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        text = os.environ.get(variable) or (_from_keyring(manifest.name, name) if setting.sensitive else None)
        _, problem = _value(name, variable, text, setting)
        if problem:
            yield problem, _remedy(manifest, {name: setting})


def value_problem(value: Value, setting: Setting) -> str:
    """Why a value does not fit a setting, as the rest of a sentence about it; empty where it fits."""
    is_number = isinstance(value, bool) and setting.type in ("integer", "number")
    if is_number or not isinstance(value, _KINDS[setting.type]):
        return f"is not {_ARTICLES[setting.type]}"
    if setting.enum and value not in setting.enum:
        return f"is not one of {', '.join(_as_text(option) for option in setting.enum)}"
    return ""


def _value(name: str, variable: str, text: str | None, setting: Setting) -> tuple[str | None, str]:
    """The value as the tool gets it, and what is wrong with it: never with the text, which may be secret."""
    if not text:
        if setting.default is not None:
            return _as_text(setting.default), ""
        return None, f"the setting {name!r} has no value" if setting.required else ""
    try:
        value = _from_text(text, setting.type)
        problem = value_problem(value, setting)
    except (ValueError, KeyError):
        value, problem = "", f"is not {_ARTICLES[setting.type]}"
    return (None, f"the setting {name!r} ({variable}) {problem}") if problem else (_as_text(value), "")


def _from_text(text: str, kind: str) -> Value:
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    return _WORDS[text.strip().lower()] if kind == "boolean" else text


def _as_text(value: Value) -> str:
    """How a value is given to an executable."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _remedy(manifest: Manifest, named: Mapping[str, Setting]) -> str:
    ways = [f"set {variable_of(manifest.name, name, setting)}" for name, setting in named.items()]
    kept = [
        f"keyring set {_service(manifest.name)} {name}"
        for name, setting in named.items()
        if setting.sensitive
    ]
    also = f" A secret may be kept in the keyring: {', '.join(kept)}." if kept else ""
    return f"In the environment, {', '.join(ways)}.{also}"


def _service(plugin: str) -> str:
    return f"strands-cli:{plugin}"


def _from_keyring(plugin: str, name: str) -> str | None:
    """What the system's keyring holds; None where there is none, or no package to ask it with."""
    keyring = _keyring()
    if keyring is None:
        return None
    try:
        kept: str | None = keyring.get_password(_service(plugin), name)
    except keyring.errors.KeyringError:
        return None  # locked, or there is none on this machine: the message says what else can be done
    return kept


@cache
def _keyring() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None
