"""What the settings of a plugin come to for one call: variables for the tool, and the secrets among them."""

import asyncio
import os
from collections.abc import Mapping
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
    problems: list[str] = []
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        text = given.get(variable) or (await _kept(manifest.name, name) if setting.sensitive else None)
        try:
            value = _value(text, setting)
        except ValueError as error:
            problems.append(f"the setting {name!r} ({variable}) {error}")
            continue
        if value is not None:
            environment[variable] = value
            secrets += [value] if setting.sensitive else []
        elif setting.required:
            problems.append(f"the setting {name!r} has no value")
    if problems:
        raise _unavailable(manifest, tool, problems)
    return Configured(environment, Redactor(secrets) if secrets else NOTHING_SECRET)


def _value(text: str | None, setting: Setting) -> str | None:
    if text is not None:
        return as_text(value_from(text, setting))
    return None if setting.default is None else as_text(setting.default)


def _unavailable(manifest: Manifest, tool: CliTool, problems: list[str]) -> ToolFailed:
    named = manifest.settings_of(tool)
    ways = [f"set {variable_of(manifest.name, name, setting)}" for name, setting in named.items()]
    kept = any(setting.sensitive for setting in named.values())
    also = (
        f" A secret may be kept in the keyring: keyring set {_service(manifest.name)} NAME." if kept else ""
    )
    return ToolFailed(
        f"{manifest.tool_id(tool)} is unavailable: {'; '.join(problems)}",
        code="unavailable",
        hint=f"In the environment, {', '.join(ways)}.{also}",
    )


def _service(plugin: str) -> str:
    return f"strands-cli:{plugin}"


async def _kept(plugin: str, name: str) -> str | None:
    """What the system's keyring holds; None where there is none, or no package to ask it with."""
    keyring = _keyring()
    if keyring is None:
        return None
    try:
        kept: str | None = await asyncio.to_thread(keyring.get_password, _service(plugin), name)
    except keyring.errors.KeyringError:
        return None  # locked, or there is none on this machine: the message says what else can be done
    return kept


@cache
def _keyring() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None
