"""What a plugin asks for: in words for people who decide, and as JSON."""

from collections.abc import Iterator
from typing import Any

from strands_cli.plugins.manifest import CliTool, Manifest, Setting, variable_of


def accesses(manifest: Manifest, tool: CliTool) -> list[str]:
    """What a tool may touch besides the workspace, which it may read, and its own directory."""
    return [*_accesses(manifest, tool)] or ["nothing but reading the workspace"]


def _accesses(manifest: Manifest, tool: CliTool) -> Iterator[str]:
    if tool.network:
        yield "network: opens connections"
    for path in tool.files.read:
        yield f"files: reads {path}"
    for path in tool.files.write:
        yield f"files: writes {path}"
    for name in tool.env:
        yield f"env: gets {name}"
    for name, setting in manifest.settings_of(tool).items():
        yield f"config: gets {_setting_text(manifest, name, setting)}"


def _setting_text(manifest: Manifest, name: str, setting: Setting) -> str:
    kinds = [
        word
        for word, holds in (("secret", setting.sensitive), ("optional", not _is_needed(setting)))
        if holds
    ]
    return ", ".join([f"{name} from {variable_of(manifest.name, name, setting)}", *kinds])


def _is_needed(setting: Setting) -> bool:
    return setting.required and setting.default is None


def access_lines(manifest: Manifest) -> list[str]:
    """One line for each thing that each tool may touch: what two versions of a plugin are compared by."""
    return [
        f"{manifest.tool_id(tool)}  {access}"
        for tool in manifest.cli_tools
        for access in accesses(manifest, tool)
    ]


def access_document(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    return {
        "network": tool.network,
        "files": {"read": tool.files.read, "write": tool.files.write},
        "env": tool.env,
        "config": {
            name: {
                "env": variable_of(manifest.name, name, setting),
                "sensitive": setting.sensitive,
                "required": _is_needed(setting),
            }
            for name, setting in manifest.settings_of(tool).items()
        },
    }


def limits(tool: CliTool) -> str:
    """Its limits in a few words."""
    idle = f", silent for {tool.idle_timeout:g} s at most" if tool.idle_timeout else ""
    retries = f", {tool.retries} retries" if tool.retries else ""
    mode = "" if tool.mode == "call" else f", {tool.mode}"
    return f"{tool.timeout:g} s{idle}, {tool.memory_bytes / 1024**2:.0f} MB{retries}{mode}"
