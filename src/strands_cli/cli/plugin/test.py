"""`strands plugin test`"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, print_columns, print_json, print_note, tool_output_aside
from strands_cli.cli.plugin.arguments import plugin_directory
from strands_cli.errors import SpecError, ToolError
from strands_cli.plugins.reading import Plugin, read_plugin
from strands_cli.settings import load_settings

FIXTURES = "fixtures"
_COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}

Checked = dict[str, dict[str, tuple[str, str]]]
"""By tool and check: the outcome and the reason."""


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def test(path: Path, as_json: bool) -> int:
    """Call every tool of a plugin in good and bad ways, and say how it did.

    Good input comes from the 'examples' of a tool's parameters, their defaults, or their types. The workspace
    is a copy of the plugin's fixtures/ directory, or empty. The tools really run, with all the access that
    they declare.
    """
    reading = read_plugin(plugin_directory(path))
    if reading.plugin is None:
        raise SpecError(f"The plugin at {path} is not in order.", issues=reading.issues)
    checked: Checked = {}
    for declared in reading.plugin.manifest.cli_tools:
        tool_id = reading.plugin.manifest.tool_id(declared)
        checked[tool_id] = _check(reading.plugin, tool_id)
        if not as_json:
            _print_tool(tool_id, checked[tool_id])
    outcomes = [outcome for checks in checked.values() for outcome, _ in checks.values()]
    totals = {outcome: outcomes.count(outcome) for outcome in _COLOURS}
    if as_json:
        print_json({"plugin": reading.plugin.name, **totals, "tools": _documents(checked)})
    else:
        parts = ", ".join(f"{number} {outcome}" for outcome, number in totals.items() if number)
        print_note(
            f"{count(len(checked), 'tool')}, {count(len(outcomes), 'check')}: {parts or 'nothing to do'}."
        )
    return ToolError.exit_code if totals["failed"] else 0


def _check(plugin: Plugin, tool_id: str) -> dict[str, tuple[str, str]]:
    from strands_cli.cli.plugin.conformance import Trial, run_checks

    declared = plugin.tool(tool_id)
    assert declared is not None
    with TemporaryDirectory(prefix="strands-plugin-test-") as name, tool_output_aside():
        workspace = Path(name).resolve() / "workspace"
        fixtures = plugin.directory / FIXTURES
        if fixtures.is_dir():
            shutil.copytree(fixtures, workspace, symlinks=True)
        else:
            workspace.mkdir()
        trial = Trial(plugin, declared, load_settings(), workspace)
        return {name: (check.outcome, check.reason) for name, check in run_checks(trial)}


def _print_tool(tool_id: str, checks: dict[str, tuple[str, str]]) -> None:
    click.secho(tool_id, bold=True)
    print_columns([(outcome, name, reason) for name, (outcome, reason) in checks.items()])


def _documents(checked: Checked) -> list[dict[str, object]]:
    return [
        {
            "tool": tool_id,
            "checks": [
                {"check": name, "outcome": outcome, "reason": reason}
                for name, (outcome, reason) in checks.items()
            ],
        }
        for tool_id, checks in checked.items()
    ]
