"""Consent on the terminal: who may be asked, and how."""

import json
import sys
from contextlib import suppress
from typing import Any

import click

from strands_cli.cli.text import clean
from strands_cli.errors import ToolFailed
from strands_cli.settings import Settings
from strands_cli.toolkit.context import Permit
from strands_cli.toolkit.contract import Tool

_SHOWN_CHARACTERS = 2000


def permit_for(settings: Settings, *, yes: bool) -> Permit | None:
    """What decides over a tool that asks for consent; None where nobody can be asked."""
    if yes or settings.bypass_consent:
        return _grant
    if sys.stdin and sys.stdin.isatty() and sys.stderr.isatty():
        return _ask
    return None


def forget_typed() -> None:
    """What was typed before a question stands on the terminal is no answer to it."""
    with suppress(ImportError, OSError, ValueError):  # not on Windows; or it is no terminal
        import termios

        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _grant(tool: Tool, arguments: dict[str, Any]) -> None:
    """The user has said yes to everything beforehand."""


async def _ask(tool: Tool, arguments: dict[str, Any]) -> None:
    if not tool.requires_consent:
        return
    shown = json.dumps(arguments, indent=2, ensure_ascii=False)
    cut = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "\n…"
    click.echo(f"{tool.id} asks for your consent to run with\n{clean(cut)}", err=True)
    forget_typed()
    try:
        agreed = click.confirm("Run it?", default=False, err=True)
    except click.Abort:  # Ctrl-C ends the command, not only this call
        raise KeyboardInterrupt from None
    if not agreed:
        raise ToolFailed(f"You refused the call of {tool.id}.", code="denied")
