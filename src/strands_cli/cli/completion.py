"""`strands completion`"""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell; tool ids are completed too.

    \b
    bash:  add  source <(strands completion bash)  to ~/.bashrc
    zsh:   add  source <(strands completion zsh)  to ~/.zshrc
    fish:  strands completion fish > ~/.config/fish/completions/strands.fish
    """
    from strands_cli.cli.app import strands

    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(strands, {}, "strands", "_STRANDS_COMPLETE").source())
