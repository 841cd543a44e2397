"""`strands plugin`: the group."""

import click

from strands_cli.cli.app import LazyGroup

COMMANDS = {
    "list": ("strands_cli.cli.plugin.listing:list_plugins", "List every plugin, its tools and its state."),
    "new": ("strands_cli.cli.plugin.new:new", "Create a plugin in this project, with a tool that works."),
    "validate": ("strands_cli.cli.plugin.validate:validate", "Find every mistake in a plugin."),
    "test": ("strands_cli.cli.plugin.test:test", "Call every tool of a plugin in good and bad ways."),
    "add": ("strands_cli.cli.plugin.add:add", "Add a plugin from a directory or a Git repository."),
    "update": ("strands_cli.cli.plugin.update:update", "Show what has changed in a plugin, and approve it."),
    "remove": ("strands_cli.cli.plugin.remove:remove", "Remove a plugin."),
    "enable": ("strands_cli.cli.plugin.switching:enable", "Switch a plugin on again."),
    "disable": ("strands_cli.cli.plugin.switching:disable", "Switch a plugin off; it stays where it is."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def plugin() -> None:
    """List, create, check, test and add plugins."""
