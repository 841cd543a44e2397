"""Questions to the person at the terminal while a run goes on: one at a time, and a stop ends the waiting."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

import click

from strands_cli.cli.consent import forget_typed
from strands_cli.cli.text import clean
from strands_cli.errors import Interrupted
from strands_cli.runtime.turns import AskConsent, PendingCall
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.spec import Input

_SHOWN_CHARACTERS = 2000
_YES = {"y", "yes"}


def can_ask() -> bool:
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr.isatty())


class Terminal:
    """Asks on standard error and reads lines from standard input, without holding up the loop."""

    def __init__(self, cancel: Cancellation, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self._cancel = cancel
        self._aside = aside
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: str) -> str:
        """What was typed; Interrupted where the run is stopped meanwhile, or nothing can come any more."""
        async with self._one_at_a_time:
            with self._aside():
                forget_typed()
                click.echo(f"{clean(question)} ", nl=False, err=True)
                return await self._line()

    async def consent(self, calls: Sequence[PendingCall]) -> Collection[str]:
        """The ids of the calls that may be made: all of them together, or one by one."""
        async with self._one_at_a_time:
            with self._aside():
                return [call.call_id for call in calls if await self._agreed(call)]

    async def _agreed(self, call: PendingCall) -> bool:
        shown = json.dumps(call.arguments, indent=2, ensure_ascii=False)
        cut = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "\n…"
        click.echo(f"{call.tool.id} asks for your consent to run with\n{clean(cut)}", err=True)
        forget_typed()
        click.echo("Run it? [y/N] ", nl=False, err=True)
        return (await self._line()).strip().lower() in _YES

    async def _line(self) -> str:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[bytes] = loop.create_future()

        def settle(said: bytes) -> None:
            if not answered.done():
                answered.set_result(said)

        def stop() -> None:
            loop.call_soon_threadsafe(settle, b"")

        self._cancel.add_callback(stop)
        loop.add_reader(sys.stdin.fileno(), lambda: settle(os.read(sys.stdin.fileno(), 65_536)))
        try:
            said = await answered
        finally:
            loop.remove_reader(sys.stdin.fileno())
            self._cancel.remove_callback(stop)
        if not said:
            raise Interrupted("Interrupted." if self._cancel.is_set() else "Nobody answers any more.")
        return said.decode("utf-8", "replace").rstrip("\r\n")


async def grant_all(calls: Sequence[PendingCall]) -> Collection[str]:
    """The user has said yes to everything beforehand."""
    return [call.call_id for call in calls]


def consent_for(settings: Settings, *, yes: bool, terminal: Terminal | None) -> AskConsent | None:
    """Who decides over calls that need consent; None where nobody can be asked."""
    if yes or settings.bypass_consent:
        return grant_all
    return terminal.consent if terminal else None


def ask_for(name: str, declared: Input) -> str:
    """A value for an input, typed at the terminal; the loader judges it like one of --var."""
    about = [declared.description, " or ".join(str(item) for item in declared.enum)]
    label = "; ".join(part for part in about if part)
    said: str = click.prompt(clean(f"{name} ({label})" if label else name), err=True)
    return said
