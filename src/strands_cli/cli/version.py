"""`strands version`"""

import click

from strands_cli import __version__


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"strands {__version__}")
