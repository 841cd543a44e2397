"""Questions to the user while the model is at work: consent, and what tools want to know."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

import click

from strands_cli.cli.asking import Terminal
from strands_cli.cli.chat.rendering import Screen
from strands_cli.errors import Interrupted
from strands_cli.runtime.turns import PendingCall
from strands_cli.toolkit.cancellation import Cancellation

_SHOWN_CHARACTERS = 2000
_YES = {"y", "yes"}
_ALWAYS = {"a", "always"}


class Asking:
    """Asks on the terminal, one question at a time; `cancel` is the stop of the answer that is on its way."""

    def __init__(self, screen: Screen, cancel: Callable[[], Cancellation]) -> None:
        self._screen = screen
        self._cancel = cancel
        self._always: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    async def consent(self, calls: Sequence[PendingCall]) -> list[str]:
        """The ids of the calls that may be made; after a stop, no more of them."""
        granted: list[str] = []
        async with self._one_at_a_time:
            with suppress(Interrupted):
                for call in calls:
                    granted += [call.call_id] if await self._agrees(call) else []
        return granted

    async def _agrees(self, call: PendingCall) -> bool:
        if call.tool.id in self._always:
            return True
        shown = json.dumps(call.arguments, indent=2, ensure_ascii=False)
        cut = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "\n…"
        self._screen.note(f"{call.tool.id} asks for your consent to run with\n{cut}")
        said = (await self._said("Run it? [y/N/a] (a: always, in this conversation)")).lower()
        if said in _ALWAYS:
            self._always.add(call.tool.id)
        return said in _YES | _ALWAYS

    async def ask(self, question: str) -> str:
        """What was typed; Interrupted where the answer is stopped meanwhile."""
        async with self._one_at_a_time:
            return await self._said(question)

    async def _said(self, question: str) -> str:
        self._screen.begin_line()
        return await _typed(question, self._cancel())


async def confirm(question: str) -> bool:
    """Asks while no answer is on its way; Ctrl-C means no."""
    cancel = Cancellation()
    with on_interrupt(cancel.set), suppress(Interrupted):
        return (await _typed(question, cancel)).lower() in _YES
    return False


async def _typed(question: str, cancel: Cancellation) -> str:
    try:
        return (await Terminal(cancel, nullcontext).ask(question)).strip()
    except Interrupted:
        click.echo(err=True)  # the line of the question has no end yet
        raise


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """What Ctrl-C does for a while, in place of ending the program."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, ValueError, RuntimeError):  # on Windows, or in another thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
