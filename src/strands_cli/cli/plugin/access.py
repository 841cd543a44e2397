"""What a plugin asks for: in words, as JSON, and as a person sees it before approving it."""

import difflib
import sys
from pathlib import Path
from typing import Any

import click

from strands_cli.cli.output import count, print_note
from strands_cli.cli.terminal import discard_typed_input
from strands_cli.cli.text import clean, one_line
from strands_cli.errors import ToolError
from strands_cli.plugins.directories import MANIFEST_NAME, Changes
from strands_cli.plugins.manifest import CliTool, Manifest, variable_of
from strands_cli.plugins.plugin import Plugin

_MOST_LINES = 100
_MOST_BYTES = 200_000


def accesses(manifest: Manifest, tool: CliTool) -> list[str]:
    """What a tool may touch besides the workspace, which it may read, and its own directory."""
    lines = ["network: opens connections"] if tool.network else []
    lines += [f"files: reads {path}" for path in tool.files.read]
    lines += [f"files: writes {path}" for path in tool.files.write]
    lines += [f"env: gets {name}" for name in tool.env]
    for name, setting in manifest.settings_of(tool).items():
        secret = ", secret" if setting.sensitive else ""
        optional = "" if setting.is_needed else ", optional"
        lines.append(
            f"config: gets {name} from {variable_of(manifest.name, name, setting)}{secret}{optional}"
        )
    return lines or ["nothing but reading the workspace"]


def access_document(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    return {
        "network": tool.network,
        "files": {"read": tool.files.read, "write": tool.files.write},
        "env": tool.env,
        "config": {
            name: {
                "env": variable_of(manifest.name, name, setting),
                "sensitive": setting.sensitive,
                "required": setting.is_needed,
            }
            for name, setting in manifest.settings_of(tool).items()
        },
    }


def ask(question: str, *, yes: bool) -> None:
    """Returns when it is approved; ToolError (`consent_required`, `denied`) when it is not."""
    if yes:
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise ToolError(
            "Nobody can be asked here, so nothing was changed.",
            code="consent_required",
            hint="Look at what is shown above; --yes approves it.",
        )
    discard_typed_input()
    if not click.confirm(question, default=False, err=True):
        raise ToolError("You refused it; nothing was changed.", code="denied")


def show_plugin(plugin: Plugin, files: dict[str, str], source: str) -> None:
    """All that an approval would allow."""
    manifest = plugin.manifest
    origin = f" from {one_line(source)}" if source else ""
    print_note(f"{manifest.name} {manifest.version}{origin}, {count(len(files), 'file')}")
    if manifest.description:
        print_note(f"  {one_line(manifest.description)}")
    for tool in manifest.cli_tools:
        about = f": {one_line(tool.description)}" if tool.description else ""
        print_note(f"  {manifest.tool_id(tool)}  {one_line(tool.path)}{about}")
        for access in accesses(manifest, tool):
            print_note(f"    {one_line(access)}")


def show_files(changes: Changes) -> None:
    for what, names in (("new", changes.added), ("changed", changes.changed), ("gone", changes.removed)):
        for name in names:
            print_note(f"  {what:<7}  {one_line(name)}")


def show_access(old: Plugin | None, new: Plugin) -> None:
    """The access that is asked for and was not before, and the other way round."""
    before, after = (
        [
            f"{plugin.manifest.tool_id(tool)}  {access}"
            for tool in plugin.manifest.cli_tools
            for access in accesses(plugin.manifest, tool)
        ]
        if plugin
        else []
        for plugin in (old, new)
    )
    lost = [f"- {line}" for line in before if line not in after]
    won = [f"+ {line}" for line in after if line not in before]
    print_note("  access:" if lost or won else "  access: as before")
    for line in (*lost, *won):
        print_note(f"    {one_line(line)}")


def show_texts(changes: Changes, old: Path, new: Path, labels: tuple[str, str] = ("now", "new")) -> None:
    """What changed inside the files, definitions first; the labels are what the two versions are called."""
    for name in sorted((*changes.changed, *changes.added), key=lambda name: (name != MANIFEST_NAME, name)):
        before = [] if name in changes.added else _lines(old / name)
        after = _lines(new / name)
        if before is None or after is None:
            continue
        one, other = (f"{label}/{name}" for label in labels)
        lines = [*difflib.unified_diff(before, after, one, other, lineterm="")]
        for line in lines[:_MOST_LINES]:
            print_note(clean(line).replace("\n", " "))
        if len(lines) > _MOST_LINES:
            print_note(f"… {count(len(lines) - _MOST_LINES, 'line')} more")


def _lines(file: Path) -> list[str] | None:
    """The lines of a text; None if it is not text, or too long to be read here."""
    if file.is_symlink() or not file.exists():
        return []
    try:
        if file.stat().st_size > _MOST_BYTES:
            return None
        return file.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
