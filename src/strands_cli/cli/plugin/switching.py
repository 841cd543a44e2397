"""`strands plugin enable` and `strands plugin disable`"""

import click

from strands_cli.cli.plugin.arguments import PluginName
from strands_cli.plugins.finding import find_plugin
from strands_cli.plugins.state import State, read_state, write_state
from strands_cli.settings import load_settings


@click.command()
@click.argument("name", type=PluginName())
def enable(name: str) -> None:
    """Switch a plugin on again."""
    found = find_plugin(name, load_settings())
    if found.is_enabled:
        click.echo(f"{found.name} is enabled already.")
        return
    forget_switch(str(found.place.resolve()))
    click.echo(f"{found.name} is enabled.")


@click.command()
@click.argument("name", type=PluginName())
def disable(name: str) -> None:
    """Switch a plugin off: its tools are gone for every command and workflow, its files stay."""
    found = find_plugin(name, load_settings())
    if not found.is_enabled:
        click.echo(f"{found.name} is disabled already.")
        return
    write_state(State(disabled=(*read_state().disabled, str(found.place.resolve()))))
    click.echo(f"{found.name} is disabled; 'strands plugin enable {found.name}' switches it on again.")


def forget_switch(directory: str) -> None:
    """Takes the resolved directory of a plugin out of those that are switched off."""
    write_state(State(disabled=tuple(one for one in read_state().disabled if one != directory)))
