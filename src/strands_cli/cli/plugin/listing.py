"""`strands plugin list`"""

from typing import Any

import click

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, issue_document, print_columns, print_issues, print_json, print_note
from strands_cli.cli.plugin.access import access_document, accesses, limits
from strands_cli.cli.text import one_line
from strands_cli.plugins.finding import Found, find_plugins
from strands_cli.plugins.manifest import CliTool
from strands_cli.plugins.places import plugin_roots
from strands_cli.plugins.reading import Plugin, undeclared_executables
from strands_cli.settings import load_settings
from strands_cli.toolkit.requirements import missing_requirements


@click.command("list")
@click.option("--verbose", "-v", is_flag=True, help="Show tools with their files, limits and access.")
@json_option
def list_plugins(verbose: bool, as_json: bool) -> None:
    """List every plugin, its tools and its state. Nothing of a plugin is run."""
    settings = load_settings()
    found = find_plugins(settings)
    if as_json:
        print_json({"plugins": [_document(one) for one in found]})
        return
    if not found:
        places = " or ".join(str(root) for root in plugin_roots(settings).values())
        print_note(f"There are no plugins in {places}. 'strands plugin new NAME' makes one.")
    if verbose:
        for one in found:
            _print_whole(one)
    else:
        print_columns([_row(one) for one in found], indent="")
    for one in found:
        print_issues(one.reading.issues, err=True)


def approval_state(found: Found) -> str:
    """`approved`, `changed`, or `unlocked` where no lock names the plugin and it is trusted as it is."""
    if found.approval is None:
        return "unlocked"
    return "changed" if found.approval.changes else "approved"


def _switch(found: Found) -> str:
    return "enabled" if found.is_enabled else "disabled"


def _row(found: Found) -> tuple[str, ...]:
    plugin = found.reading.plugin
    if plugin:
        tools = ", ".join(tool.name for tool in plugin.manifest.cli_tools)
        last = f"{count(len(plugin.manifest.cli_tools), 'tool')}: {tools}" if tools else "no tools"
    else:
        last = count(len(found.reading.issues), "problem")
    version = plugin.manifest.version if plugin else "-"
    return (one_line(found.name), version, found.owner, _switch(found), approval_state(found), last)


def _print_whole(found: Found) -> None:
    plugin = found.reading.plugin
    version = f" {plugin.manifest.version}" if plugin else ""
    click.secho(f"{one_line(found.name)}{version}", bold=True, nl=False)
    click.echo(f"  {found.owner}, {_switch(found)}, {approval_state(found)}  {found.place}")
    if plugin and plugin.manifest.description:
        click.echo(f"  {one_line(plugin.manifest.description)}")
    if found.approval and found.approval.approved.source:
        approved = found.approval.approved
        click.echo(f"  from {' '.join(filter(None, (approved.source, approved.ref, approved.commit[:12])))}")
    if found.approval and found.approval.changes:
        changes = one_line(str(found.approval.changes))
        click.echo(f"  changed since it was approved, so it does not run: {changes}")
        click.echo(f"  'strands plugin update {one_line(found.name)}' shows and approves it.")
    if plugin:
        _print_tools(plugin)
    else:
        click.echo(f"  {count(len(found.reading.issues), 'problem')}")


def _print_tools(plugin: Plugin) -> None:
    for tool in plugin.manifest.cli_tools:
        missing = missing_requirements(tool.needs)
        remark = f"  [unavailable: {'; '.join(missing)}]" if missing else ""
        click.echo(f"  {plugin.manifest.tool_id(tool)}  {one_line(tool.path)}  {limits(tool)}{remark}")
        for access in accesses(plugin.manifest, tool):
            click.echo(f"    {one_line(access)}")
    for path in undeclared_executables(plugin):
        click.echo(f"  undeclared executable, no tool: {one_line(path)}")


def _document(found: Found) -> dict[str, Any]:
    plugin, approval = found.reading.plugin, found.approval
    return {
        "name": found.name,
        "version": plugin.manifest.version if plugin else None,
        "description": plugin.manifest.description if plugin else "",
        "owner": found.owner,
        "place": str(found.place),
        "enabled": found.is_enabled,
        "approval": approval_state(found),
        "changes": {name: getattr(approval.changes, name) for name in ("added", "changed", "removed")}
        if approval
        else None,
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
        "path": tool.path,
        "description": tool.description,
        "mode": tool.mode,
        "timeout": tool.timeout,
        "idle_timeout": tool.idle_timeout,
        "memory": tool.memory_bytes,
        "access": access_document(plugin.manifest, tool),
        "unavailable": missing_requirements(tool.needs),
    }
