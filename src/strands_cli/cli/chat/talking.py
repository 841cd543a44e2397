"""One thing after the other that the user says: commands are done, questions are asked."""

from contextlib import nullcontext

from strands_cli.cli.chat.asking import on_interrupt
from strands_cli.cli.chat.rendering import Screen
from strands_cli.cli.chat.slash import Commands, is_command, message_of
from strands_cli.cli.output import tool_output_aside
from strands_cli.errors import Interrupted, StrandsError
from strands_cli.runtime.conversation import Conversation


class Talk:
    """Takes what the user says, and survives what goes wrong with it."""

    def __init__(self, conversation: Conversation, commands: Commands, screen: Screen) -> None:
        self._conversation, self._commands, self._screen = conversation, commands, screen
        self.exit_code = 0
        """That of the last thing that went wrong."""

    async def take(self, said: str) -> bool:
        """Whether the user wants to go on after this."""
        said = said.strip()
        try:
            if is_command(said):
                return await self._commands.run(said)
            if said:
                await self._ask(message_of(said))
        except Interrupted:
            if not self._screen.is_live:
                raise
            self._screen.note("Stopped.")
        except StrandsError as error:
            self._screen.error(error)
            self.exit_code = error.exit_code
        return True

    async def _ask(self, text: str) -> None:
        """On a terminal Ctrl-C ends the answer alone; elsewhere nobody could say anything more."""
        aside = nullcontext() if self._screen.is_live else tool_output_aside()
        with aside, on_interrupt(self._conversation.stop):
            reply = await self._conversation.ask(text)
        self._screen.answered(reply.text, reply.usage, reply.seconds, is_stopped=reply.is_stopped)
        if reply.is_stopped and not self._screen.is_live:
            raise Interrupted("Interrupted.")
