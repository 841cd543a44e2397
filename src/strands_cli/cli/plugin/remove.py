"""`strands plugin remove`"""

import click

from strands_cli.cli.output import print_note
from strands_cli.cli.plugin.approving import ask
from strands_cli.cli.plugin.arguments import PluginName, yes_option
from strands_cli.cli.plugin.placing import lock_of, take_away
from strands_cli.cli.plugin.switching import forget_switch
from strands_cli.plugins.finding import find_plugin
from strands_cli.settings import load_settings


@click.command()
@click.argument("name", type=PluginName())
@yes_option
def remove(name: str, yes: bool) -> None:
    """Remove a plugin: its directory, and what the lock says about it. Of a link, the link alone."""
    settings = load_settings()
    found = find_plugin(name, settings)
    print_note(f"{found.place}  ({found.owner}'s)")
    ask(f"Remove {found.name}?", yes=yes)
    directory = str(found.place.resolve())
    take_away(found.place, found.approval.lock if found.approval else lock_of(found.owner, settings))
    if not found.is_enabled:
        forget_switch(directory)
    click.echo(f"Removed {found.name}.")
