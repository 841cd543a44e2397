"""One thing after the other that the user says: commands are done, questions are put to the model."""

import asyncio
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

import click

from strands_cli.cli.chat.screen import Screen
from strands_cli.cli.chat.slash import Commands, is_command
from strands_cli.cli.output import tool_output_aside
from strands_cli.cli.questions import YES, Questions
from strands_cli.cli.terminal import can_ask
from strands_cli.errors import Interrupted, StrandsError
from strands_cli.runtime.agent_hooks import PendingCall
from strands_cli.runtime.conversation import Conversation
from strands_cli.secrets import Redactor
from strands_cli.toolkit.cancellation import Cancellation


class ChatSession:
    """Takes what the user says, and survives what goes wrong with it."""

    def __init__(self, conversation: Conversation, screen: Screen, redactor: Redactor) -> None:
        self._conversation, self._screen = conversation, screen
        confirm = self._confirm if can_ask() else None
        self._commands = Commands(conversation, screen, redactor, confirm)
        self.exit_code = 0
        """That of the last thing that went wrong."""

    async def take(self, line: str) -> bool:
        """Whether the user wants to go on after this."""
        line = line.strip()
        try:
            if is_command(line):
                return await self._commands.run(line)
            if line:
                await self._ask(line.removeprefix("/"))  # of two slashes at the beginning, one is sent
        except Interrupted:
            if not self._screen.is_live:
                raise
            self._screen.note("Stopped.")
        except StrandsError as error:
            self._screen.error(error)
            self.exit_code = error.exit_code
        return True

    async def _ask(self, text: str) -> None:
        """On a terminal Ctrl-C ends the answer alone; elsewhere it ends the conversation."""
        aside = nullcontext() if self._screen.is_live else tool_output_aside()
        with aside, _on_interrupt(self._conversation.stop):
            reply = await self._conversation.ask(text)
        self._screen.answered(reply.text, reply.usage, reply.seconds, is_stopped=reply.is_stopped)
        if reply.is_stopped and not self._screen.is_live:
            raise Interrupted("Interrupted.")

    async def _confirm(self, question: str) -> bool:
        """Asks while no answer is on its way; Ctrl-C means no."""
        cancel = Cancellation()
        with _on_interrupt(cancel.set), suppress(Interrupted):
            answer = await ChatQuestions(self._screen, lambda: cancel).ask(question)
            return answer.strip().lower() in YES
        return False


class ChatQuestions(Questions):
    """Questions on the screen of a conversation; `cancel` gives the stop of the answer that is on its way."""

    def __init__(self, screen: Screen, cancel: Callable[[], Cancellation]) -> None:
        super().__init__(cancel, self._on_line_of_its_own, offers_always=True)
        self._screen = screen

    @contextmanager
    def _on_line_of_its_own(self) -> Iterator[None]:
        self._screen.begin_line()
        try:
            yield
        except Interrupted:
            click.echo(err=True)  # the cursor is still on the line of the question
            raise

    async def consent(self, calls: Sequence[PendingCall]) -> Collection[str]:
        """After a stop, what was agreed to before it."""
        granted: list[str] = []
        with suppress(Interrupted):
            for call in calls:
                granted += await super().consent([call])
        return granted


@contextmanager
def _on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
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
