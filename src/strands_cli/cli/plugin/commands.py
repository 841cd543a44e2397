"""`strands plugin list`, `validate`, `enable` and `disable`; what a plugin asks for, in words and as JSON."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from click.decorators import FC
from click.shell_completion import CompletionItem

from strands_cli.cli.options import json_option
from strands_cli.cli.output import (
    count_text,
    issue_document,
    print_columns,
    print_findings,
    print_issues,
    print_json,
    print_note,
)
from strands_cli.cli.plugin.fetch import plugin_directory, unportable_files
from strands_cli.cli.terminal import one_line
from strands_cli.errors import StrandsError, UsageError
from strands_cli.plugins.directories import State, plugin_roots, read_plugin_state, write_plugin_state
from strands_cli.plugins.manifest import CliTool, Manifest, setting_variable
from strands_cli.plugins.plugin import (
    FoundPlugin,
    Plugin,
    PluginReading,
    find_plugin,
    find_plugins,
    read_plugin,
    undeclared_executables,
)
from strands_cli.settings import load_settings
from strands_cli.toolkit.info import missing_requirements


def complete_plugins(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of plugins, for the shell; where no name fits, paths."""
    try:
        found = find_plugins(load_settings())
    except (StrandsError, OSError):  # completion in a shell cannot show errors
        return []
    return [
        CompletionItem(one.name, help=one.reading.plugin.manifest.description if one.reading.plugin else "")
        for one in found
        if one.name.startswith(incomplete)
    ] or [CompletionItem(incomplete, type="file")]


def plugin_argument(*, required: bool = True) -> Callable[[FC], FC]:
    """The plugin that a command is about: every command takes the same references."""
    metavar = "NAME|PATH" if required else "[NAME|PATH]"
    return click.argument("name", metavar=metavar, shell_complete=complete_plugins, required=required)


def read_named_plugin(reference: str) -> PluginReading:
    """The plugin of a name, else that of a path, wherever it lies; `./name` is always a path."""
    path = Path(reference)
    if reference == path.name:
        try:
            return find_plugin(reference, load_settings()).reading
        except UsageError:
            if not path.exists():
                raise
    return read_plugin(plugin_directory(path))


# --- What a plugin asks for ---------------------------------------------------------------------------------


def access_lines(manifest: Manifest, tool: CliTool) -> list[str]:
    """What a tool may touch besides the workspace, which it may read, and its own directory."""
    lines = ["network: opens connections"] if tool.network else []
    lines += [f"files: reads {path}" for path in tool.files.read]
    lines += [f"files: writes {path}" for path in tool.files.write]
    lines += [f"env: gets {name}" for name in tool.env]
    for name, setting in manifest.settings_of(tool).items():
        remarks = f"{', secret' if setting.sensitive else ''}{'' if setting.is_needed else ', optional'}"
        lines.append(f"config: gets {name} from {setting_variable(manifest.name, name, setting)}{remarks}")
    lines += [f"programs: runs {place}" for place in _own_programs(tool)]
    return lines or ["read the workspace, nothing else"]


def _own_programs(tool: CliTool) -> list[str]:
    """The programs outside system directories that it gets to read, each with what it was installed with."""
    if not tool.requires.binaries:
        return []
    from strands_cli.plugins.processes import program_elsewhere

    path = os.environ.get("PATH", "")
    return [place for name in tool.requires.binaries if (place := program_elsewhere(name, path))]


def access_document(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    return {
        "network": tool.network,
        "files": {"read": tool.files.read, "write": tool.files.write},
        "env": tool.env,
        "config": {
            name: {
                "env": setting_variable(manifest.name, name, setting),
                "sensitive": setting.sensitive,
                "required": setting.is_needed,
            }
            for name, setting in manifest.settings_of(tool).items()
        },
    }


# --- list --------------------------------------------------------------------------------------------------


@click.command("list")
@click.option(
    "--verbose", "-v", is_flag=True, help="Also show the files, limits and permissions of each tool."
)
@json_option
def list_plugins(verbose: bool, as_json: bool) -> None:
    """List all plugins with their tools and status. Runs no plugin."""
    settings = load_settings()
    found = find_plugins(settings)
    if as_json:
        print_json({"plugins": [_plugin_document(one) for one in found]})
        return
    if not found:
        places = " or ".join(str(root) for root in plugin_roots(settings).values())
        print_note(f"There are no plugins in {places}. 'strands plugin new NAME' makes one.")
    if verbose:
        for one in found:
            _print_plugin(one)
    else:
        print_columns([_plugin_row(one) for one in found], indent="")
    for one in found:
        print_issues(one.reading.issues, err=True)


def _approval_state(found: FoundPlugin) -> str:
    """`approved`, `changed`, or `unlocked` where no lock names the plugin and it is trusted as it is."""
    if found.approval is None:
        return "unlocked"
    return "changed" if found.approval.changes else "approved"


def _plugin_row(found: FoundPlugin) -> tuple[str, ...]:
    plugin = found.reading.plugin
    last = count_text(len(found.reading.issues), "problem")
    if plugin:
        tools = ", ".join(tool.name for tool in plugin.manifest.cli_tools)
        last = f"{count_text(len(plugin.manifest.cli_tools), 'tool')}: {tools}" if tools else "no tools"
    version = plugin.manifest.version if plugin else "-"
    switch = "enabled" if found.is_enabled else "disabled"
    return (one_line(found.name), version, found.owner, switch, _approval_state(found), last)


def _print_plugin(found: FoundPlugin) -> None:
    plugin, approval = found.reading.plugin, found.approval
    version = f" {plugin.manifest.version}" if plugin else ""
    switch = "enabled" if found.is_enabled else "disabled"
    click.secho(f"{one_line(found.name)}{version}", bold=True, nl=False)
    click.echo(f"  {found.owner}, {switch}, {_approval_state(found)}  {found.place}")
    if plugin and plugin.manifest.description:
        click.echo(f"  {one_line(plugin.manifest.description)}")
    if approval and approval.approved.source:
        approved = approval.approved
        click.echo(f"  from {' '.join(filter(None, (approved.source, approved.ref, approved.commit[:12])))}")
    if approval and approval.changes:
        click.echo(f"  changed since it was approved, so it does not run: {one_line(str(approval.changes))}")
        click.echo(f"  'strands plugin update {one_line(found.name)}' shows and approves it.")
    if not plugin:
        click.echo(f"  {count_text(len(found.reading.issues), 'problem')}")
        return
    for tool in plugin.manifest.cli_tools:
        missing = missing_requirements(tool.needs)
        remark = f"  [unavailable: {'; '.join(missing)}]" if missing else ""
        click.echo(f"  {plugin.manifest.tool_id(tool)}  {one_line(tool.path)}  {_tool_limits(tool)}{remark}")
        for access in access_lines(plugin.manifest, tool):
            click.echo(f"    {one_line(access)}")
    for path in undeclared_executables(plugin):
        click.echo(f"  undeclared executable, not a tool: {one_line(path)}")


def _tool_limits(tool: CliTool) -> str:
    idle = f", silent for {tool.idle_timeout:g} s at most" if tool.idle_timeout else ""
    retries = f", {tool.retries} retries" if tool.retries else ""
    mode = "" if tool.mode == "call" else f", {tool.mode}"
    return f"{tool.timeout:g} s{idle}, {tool.memory_bytes / 1024**2:.0f} MB{retries}{mode}"


def _plugin_document(found: FoundPlugin) -> dict[str, Any]:
    plugin, approval = found.reading.plugin, found.approval
    return {
        "name": found.name,
        "version": plugin.manifest.version if plugin else None,
        "description": plugin.manifest.description if plugin else "",
        "owner": found.owner,
        "place": str(found.place),
        "enabled": found.is_enabled,
        "approval": _approval_state(found),
        "changes": msgspec.structs.asdict(approval.changes) if approval else None,
        "source": approval.approved.source if approval else "",
        "ref": approval.approved.ref if approval else "",
        "commit": approval.approved.commit if approval else "",
        "tools": [_tool_document(plugin, tool) for tool in plugin.manifest.cli_tools] if plugin else [],
        "undeclared": undeclared_executables(plugin) if plugin else [],
        "problems": [issue_document(issue) for issue in found.reading.issues],
    }


def _tool_document(plugin: Plugin, tool: CliTool) -> dict[str, Any]:
    return {
        "id": plugin.manifest.tool_id(tool),
        **{name: getattr(tool, name) for name in ("path", "description", "mode", "timeout", "idle_timeout")},
        "memory": tool.memory_bytes,
        "access": access_document(plugin.manifest, tool),
        "unavailable": missing_requirements(tool.needs),
    }


# --- validate ----------------------------------------------------------------------------------------------


@click.command()
@plugin_argument()
@json_option
def validate(name: str, as_json: bool) -> int:
    """Find errors in a plugin, with file, line and JSON pointer.

    PATH is the plugin's directory or its plugin.json. The plugin is not run.
    """
    reading = read_named_plugin(name)
    place = reading.place
    issues = [*reading.issues, *unportable_files(place, severity="warning")]
    plugin = reading.plugin
    tools = [plugin.manifest.tool_id(tool) for tool in plugin.manifest.cli_tools] if plugin else []
    document = {"plugin": plugin.name if plugin else None, "tools": tools}
    about = f"{plugin.name}: {count_text(len(tools), 'tool')}" if plugin else str(place)
    summary = f"{about}, {count_text(len(issues), 'issue')}."
    return print_findings(issues, document=document, summary=summary, as_json=as_json)


# --- enable and disable ------------------------------------------------------------------------------------


@click.command()
@plugin_argument()
def enable(name: str) -> None:
    """Enable a disabled plugin."""
    found = find_plugin(name, load_settings())
    if found.is_enabled:
        click.echo(f"{found.name} is already enabled.")
        return
    forget_disabled(str(found.place.resolve()))
    click.echo(f"{found.name} is enabled.")


@click.command()
@plugin_argument()
def disable(name: str) -> None:
    """Disable a plugin: no command or workflow can use its tools. Its files stay."""
    found = find_plugin(name, load_settings())
    if not found.is_enabled:
        click.echo(f"{found.name} is already disabled.")
        return
    write_plugin_state(State(disabled=(*read_plugin_state().disabled, str(found.place.resolve()))))
    click.echo(f"{found.name} is disabled; 'strands plugin enable {found.name}' enables it again.")


def forget_disabled(directory: str) -> None:
    """Takes the resolved directory of a plugin out of those that are switched off."""
    write_plugin_state(State(disabled=tuple(one for one in read_plugin_state().disabled if one != directory)))
