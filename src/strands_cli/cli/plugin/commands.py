"""`strands plugin list`, `validate`, `enable` and `disable`; what a plugin asks for, in words and as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from click.decorators import FC
from click.shell_completion import CompletionItem

from strands_cli.cli.options import completed_words, json_option
from strands_cli.cli.output import (
    Styled,
    count_text,
    issue_document,
    print_columns,
    print_findings,
    print_issues,
    print_json,
    print_line,
    print_note,
)
from strands_cli.cli.plugin.fetch import plugin_directory
from strands_cli.cli.terminal import one_line
from strands_cli.errors import StrandsError, UsageError
from strands_cli.plugins.directories import plugin_roots, switch_plugin
from strands_cli.plugins.manifest import CliTool, Manifest, setting_variable
from strands_cli.plugins.permissions import (
    FoundPlugin,
    access_lines,
    find_plugin,
    find_plugins,
    unportable_files,
)
from strands_cli.plugins.plugin import Plugin, PluginReading, read_plugin, undeclared_executables
from strands_cli.settings import load_settings, settings_to_look_at
from strands_cli.toolkit.info import missing_requirements


def complete_plugins(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of plugins, for the shell; where no name fits, paths."""
    try:
        found = find_plugins(load_settings())
    except (StrandsError, OSError):  # completion in a shell cannot show errors
        return []
    plugins = ((one.name, one.reading.plugin) for one in found)
    named = ((name, plugin.manifest.description if plugin else "") for name, plugin in plugins)
    return completed_words(named, incomplete) or [CompletionItem(incomplete, type="file")]


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
    settings = settings_to_look_at()
    found = find_plugins(settings)
    print_issues(settings.issues, err=True)
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


def _plugin_row(found: FoundPlugin) -> tuple[str, ...]:
    plugin = found.reading.plugin
    last = count_text(len(found.reading.issues), "problem")
    if plugin:
        tools = ", ".join(tool.name for tool in plugin.manifest.cli_tools)
        last = f"{count_text(len(plugin.manifest.cli_tools), 'tool')}: {tools}" if tools else "no tools"
    version = plugin.manifest.version if plugin else "-"
    switch = "enabled" if found.is_enabled else "disabled"
    return (one_line(found.name), version, found.owner, switch, found.standing.state, last)


def _print_plugin(found: FoundPlugin) -> None:
    plugin, standing = found.reading.plugin, found.standing
    version = f" {plugin.manifest.version}" if plugin else ""
    switch = "enabled" if found.is_enabled else "disabled"
    state = f"  {found.owner}, {switch}, {found.standing.state}  {found.place}"
    print_line(Styled(f"{found.name}{version}"), state)
    if plugin and plugin.manifest.description:
        print_line(f"  {one_line(plugin.manifest.description)}")
    if (locked := standing.locked) and locked.source:
        print_line(
            f"  from {one_line(' '.join(filter(None, (locked.source, locked.ref, locked.commit[:12]))))}"
        )
    if standing.approval:
        print_line(f"  approved by you {standing.approval.approved}")
    if standing.refusal:
        print_line(f"  {one_line(standing.refusal.reason)}")
        print_line(f"  {one_line(standing.refusal.remediation)}")
    if not plugin:
        print_line(f"  {count_text(len(found.reading.issues), 'problem')}")
        return
    for tool in plugin.manifest.cli_tools:
        missing = missing_requirements(tool.needs)
        remark = f"  [unavailable: {'; '.join(missing)}]" if missing else ""
        print_line(f"  {plugin.manifest.tool_id(tool)}  {one_line(tool.path)}  {tool.limits}{remark}")
        for access in access_lines(plugin.manifest, tool):
            print_line(f"    {one_line(access)}")
    for path in undeclared_executables(plugin):
        print_line(f"  undeclared executable, not a tool: {one_line(path)}")


def _plugin_document(found: FoundPlugin) -> dict[str, Any]:
    plugin, standing = found.reading.plugin, found.standing
    changes, locked = standing.changes, standing.locked
    return {
        "name": found.name,
        "version": plugin.manifest.version if plugin else None,
        "description": plugin.manifest.description if plugin else "",
        "owner": found.owner,
        "place": str(found.place),
        "enabled": found.is_enabled,
        "approval": found.standing.state,
        "refusal": standing.refusal.reason if standing.refusal else "",
        "asks": [issue_document(ask) for ask in standing.asks],
        "changes": msgspec.structs.asdict(changes) if changes else None,
        "source": locked.source if locked else "",
        "ref": locked.ref if locked else "",
        "commit": locked.commit if locked else "",
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
        print_line(f"{found.name} is already enabled.")
        return
    switch_plugin(found.place.resolve(), is_enabled=True)
    print_line(f"{found.name} is enabled.")


@click.command()
@plugin_argument()
def disable(name: str) -> None:
    """Disable a plugin: no command or workflow can use its tools. Its files stay."""
    found = find_plugin(name, load_settings())
    if not found.is_enabled:
        print_line(f"{found.name} is already disabled.")
        return
    switch_plugin(found.place.resolve(), is_enabled=False)
    print_line(f"{found.name} is disabled; 'strands plugin enable {found.name}' enables it again.")
