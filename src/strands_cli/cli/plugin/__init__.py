"""`strands plugin`: the group."""

import click

from strands_cli.cli.app import LazyGroup

_HERE = "strands_cli.cli.plugin"
COMMANDS = {
    "list": (f"{_HERE}.commands:list_plugins", "List all plugins with their tools and status."),
    "new": (f"{_HERE}.starters:new", "Create a plugin with a working tool in this project."),
    "validate": (f"{_HERE}.commands:validate", "Find errors in a plugin."),
    "test": (f"{_HERE}.conformance:test", "Call every tool of a plugin with valid and invalid input."),
    "add": (f"{_HERE}.installation:add", "Add a plugin from a directory or a Git repository."),
    "update": (f"{_HERE}.installation:update", "Update plugins, or approve local changes."),
    "remove": (f"{_HERE}.installation:remove", "Remove a plugin."),
    "enable": (f"{_HERE}.commands:enable", "Enable a disabled plugin."),
    "disable": (f"{_HERE}.commands:disable", "Disable a plugin without removing it."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def plugin() -> None:
    """List, create, validate, test, add and update plugins."""
