"""What the settings of a plugin come to for one call: variables for the tool, and the secrets among them."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.plugins.manifest import CliTool, Manifest, Setting, variable_of
from strands_cli.plugins.setting_values import as_text, value_from
from strands_cli.secrets import NOTHING_SECRET, Redactor


class Configured(msgspec.Struct, frozen=True):
    environment: dict[str, str]
    redactor: Redactor


async def configured(manifest: Manifest, tool: CliTool, given: Mapping[str, str] = os.environ) -> Configured:
    """The settings of a tool; ToolFailed (`unavailable`) names all that are missing or of another type."""
    environment: dict[str, str] = {}
    secrets: list[str] = []
    problems: dict[str, str] = {}
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        text = given.get(variable)
        if not text and setting.sensitive:
            text = await asyncio.to_thread(_kept, manifest.name, name) if _keyring() else None
        value, problem = _value(name, variable, text, setting)
        if problem:
            problems[name] = problem
        elif value is not None:
            environment[variable] = value
            secrets += [value] if setting.sensitive else []
    if problems:
        raise _unavailable(manifest, tool, problems)
    return Configured(environment, Redactor(secrets) if secrets else NOTHING_SECRET)


def setting_problems(
    manifest: Manifest, tool: CliTool, given: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, str]]:
    """What is missing or of another type among the settings of a tool before it is called, with remedies."""
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        text = given.get(variable) or (_kept(manifest.name, name) if setting.sensitive else None)
        _, problem = _value(name, variable, text, setting)
        if problem:
            yield problem, _remedy(manifest, {name: setting})


def _value(name: str, variable: str, text: str | None, setting: Setting) -> tuple[str | None, str]:
    """The value as the tool gets it, and what is wrong with it."""
    if text:
        try:
            return as_text(value_from(text, setting)), ""
        except ValueError as error:
            return None, f"the setting {name!r} ({variable}) {error}"
    if setting.default is not None:
        return as_text(setting.default), ""
    return None, f"the setting {name!r} has no value" if setting.required else ""


def _unavailable(manifest: Manifest, tool: CliTool, problems: Mapping[str, str]) -> ToolFailed:
    named = manifest.settings_of(tool)
    return ToolFailed(
        f"{manifest.tool_id(tool)} is unavailable: {'; '.join(problems.values())}",
        code="unavailable",
        hint=_remedy(manifest, {name: named[name] for name in problems}),
    )


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


def _kept(plugin: str, name: str) -> str | None:
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
