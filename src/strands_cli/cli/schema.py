"""`strands schema`"""

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    from strands_cli.schema.validator import schema_text

    click.echo(schema_text("workflow").rstrip("\n"))
