"""What the user says where there is no terminal: a line is a message."""

import sys
from io import TextIOWrapper

import click

from strands_cli.errors import Interrupted


class Lines:
    """Reads standard input to its end."""

    def __init__(self, prompt: str = "") -> None:
        """`prompt` is shown before each line, on standard error, to someone who types."""
        self._prompt = prompt
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")

    async def next(self) -> str | None:
        """The next message; None at the end, Interrupted after Ctrl-C.

        Nothing else goes on meanwhile, so the loop may wait too.
        """
        if sys.stdin is None:
            return None
        if self._prompt:
            click.echo(self._prompt, nl=False, err=True)
        try:
            return sys.stdin.readline() or None
        except KeyboardInterrupt:  # which a loop does not survive in a task
            raise Interrupted("Interrupted.") from None
