"""`strands plugin validate`"""

from pathlib import Path

import click

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, issue_document, print_issues, print_json, print_note
from strands_cli.cli.plugin.arguments import plugin_directory
from strands_cli.cli.plugin.copying import unportable
from strands_cli.errors import SpecError
from strands_cli.plugins.reading import read_plugin


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def validate(path: Path, as_json: bool) -> int:
    """Find every mistake in a plugin, with file, line and pointer.

    PATH is the plugin's directory, or its plugin.json. Nothing of the plugin is run.
    """
    place = plugin_directory(path)
    reading = read_plugin(place)
    issues = [*reading.issues, *unportable(place, severity="warning")]
    errors = [issue for issue in issues if issue.severity == "error"]
    plugin = reading.plugin
    if as_json:
        tools = [plugin.manifest.tool_id(tool) for tool in plugin.manifest.cli_tools] if plugin else []
        name = plugin.name if plugin else None
        print_json({"plugin": name, "tools": tools, "issues": [issue_document(issue) for issue in issues]})
    else:
        print_issues(issues, err=False)
        about = f"{plugin.name}: {count(len(plugin.manifest.cli_tools), 'tool')}" if plugin else str(place)
        print_note(f"{about}, {count(len(issues), 'issue')}.")
    return SpecError.exit_code if errors else 0
