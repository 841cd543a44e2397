"""Questions to the person at the terminal: consent to calls, and what workflows ask a human."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from strands_cli.cli.terminal import clean_text, discard_typed_input
from strands_cli.errors import Interrupted, ToolFailed
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import Permit
from strands_cli.toolkit.contract import Tool

if TYPE_CHECKING:
    from strands_cli.runtime.agent_hooks import PendingCall

YES = {"y", "yes"}
_ALWAYS = {"a", "always"}
_SHOWN_CHARACTERS = 2000


def _show_call(tool_id: str, arguments: Any) -> None:
    shown = json.dumps(arguments, indent=2, ensure_ascii=False)
    cut = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "\n…"
    click.echo(f"{tool_id} needs your consent to run with\n{clean_text(cut)}", err=True)
    discard_typed_input()


def confirm(question: str) -> bool:
    """Waits for a yes or a no; Ctrl-D means no, and Ctrl-C ends the command."""
    try:
        return click.confirm(question, default=False, err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise KeyboardInterrupt from None
        click.echo(err=True)  # the cursor is still on the line of the question
        return False


def permit_asked_in(aside: Callable[[], AbstractContextManager[None]]) -> Permit:
    """Asks about one call, as `strands tool call` makes it, inside of `aside`, which makes room for it."""

    async def ask_for_permit(tool: Tool, arguments: dict[str, Any]) -> None:
        if not tool.requires_consent:
            return
        with aside():
            _show_call(tool.id, arguments)
            agreed = confirm("Run it?")
        if not agreed:
            raise ToolFailed(f"You refused the call of {tool.id}.", code="denied")

    return ask_for_permit


class Questions:
    """Asks on standard error and reads lines from standard input, without holding up the loop.

    One question at a time, inside of `aside`, which makes room for it. The Cancellation that `cancel` returns
    ends the waiting with Interrupted. `offers_always` lets the user agree to a tool once and for all.
    """

    def __init__(
        self,
        cancel: Callable[[], Cancellation],
        aside: Callable[[], AbstractContextManager[None]],
        *,
        offers_always: bool = False,
    ) -> None:
        self._cancel = cancel
        self._aside = aside
        self._question_lock = asyncio.Lock()
        self._always: set[str] = set()
        self._offers_always = offers_always

    async def ask(self, question: str) -> str:
        """The line that was typed; Interrupted if the work is stopped meanwhile, or the input has ended."""
        async with self._question_lock:
            with self._aside():
                discard_typed_input()
                line = await self._line(question)
        if line is None:
            raise Interrupted("Standard input has ended, so nobody can answer.")
        return line

    async def consent(self, calls: "Sequence[PendingCall]") -> Collection[str]:
        """The ids of the calls that may be made: all of them together, or one by one. Ctrl-D means no."""
        async with self._question_lock:
            with self._aside():
                return [call.call_id for call in calls if await self._agrees(call)]

    async def _agrees(self, call: "PendingCall") -> bool:
        if call.tool.id in self._always:
            return True
        _show_call(call.tool.id, call.arguments)
        choice = "[y/N/a] (a: always, in this conversation)" if self._offers_always else "[y/N]"
        line = await self._line(f"Run it? {choice}")
        if line is None:
            click.echo(err=True)  # the cursor is still on the line of the question
        answer = (line or "").strip().lower()
        if self._offers_always and answer in _ALWAYS:
            self._always.add(call.tool.id)
            return True
        return answer in YES

    async def _line(self, question: str) -> str | None:
        """The line that was typed; None after Ctrl-D, Interrupted if the work is stopped meanwhile."""
        click.echo(f"{clean_text(question)} ", nl=False, err=True)
        loop, cancel, number = asyncio.get_running_loop(), self._cancel(), sys.stdin.fileno()
        answered: asyncio.Future[bytes] = loop.create_future()

        def settle(typed: bytes) -> None:
            if not answered.done():
                answered.set_result(typed)

        loop.add_reader(number, lambda: settle(os.read(number, 65_536)))
        try:
            with cancel.on_set_in_loop(settle, b""):
                typed = await answered
        finally:
            loop.remove_reader(number)
        if not typed and cancel.is_set():
            raise Interrupted("Interrupted.")
        return typed.decode("utf-8", "replace").rstrip("\r\n") if typed else None
