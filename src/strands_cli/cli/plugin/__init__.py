"""`strands plugin`: the group."""

import click

from strands_cli.cli.app import LazyGroup

_HERE = "strands_cli.cli.plugin"
COMMANDS = {
    "list": (f"{_HERE}.commands:list_plugins", "List every plugin, its tools and its state."),
    "new": (f"{_HERE}.starters:new", "Create a plugin in this project, with a tool that works."),
    "validate": (f"{_HERE}.commands:validate", "Find every mistake in a plugin."),
    "test": (f"{_HERE}.conformance:test", "Call every tool of a plugin in good and bad ways."),
    "add": (f"{_HERE}.installation:add", "Add a plugin from a directory or a Git repository."),
    "update": (f"{_HERE}.installation:update", "Show what has changed in a plugin, and approve it."),
    "remove": (f"{_HERE}.installation:remove", "Remove a plugin."),
    "enable": (f"{_HERE}.commands:enable", "Switch a plugin on again."),
    "disable": (f"{_HERE}.commands:disable", "Switch a plugin off; it stays where it is."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def plugin() -> None:
    """List, create, check, test and add plugins."""
