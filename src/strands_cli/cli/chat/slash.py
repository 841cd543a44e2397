"""What begins with a slash: commands to the program, not questions to the model."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strands_cli.cli.chat.rendering import Screen
from strands_cli.cli.chat.saving import as_text, file_of, is_file, write_whole
from strands_cli.cli.output import count
from strands_cli.cli.tool import first_sentence
from strands_cli.errors import ArtifactError, UsageError, did_you_mean
from strands_cli.secrets import Redactor

if TYPE_CHECKING:
    from strands_cli.runtime.conversation import Conversation

Confirm = Callable[[str], Awaitable[bool]]
"""Asks the user something that is answered with yes or no."""

COMMANDS = {
    "/help": ("", "Shows the commands and the keys."),
    "/tools": ("", "Lists the tools that the model has."),
    "/model": ("", "Shows which model answers."),
    "/save": ("FILE", "Writes the conversation to a file: Markdown, or JSON where it ends in .json."),
    "/save!": ("FILE", "The same, in the place of a file that is there."),
    "/clear": ("", "Begins a new conversation; the model forgets this one."),
    "/quit": ("", "Leaves."),
}
_KEYS = """\
  Enter sends, Alt-Enter (or Esc and then Enter, or Ctrl-J) begins a new line.
  Ctrl-C stops an answer, and at the prompt drops the line. Ctrl-D leaves.
  A message that begins with a slash is sent with two: //etc is a directory."""
_ASKS = {True: "asks for your consent", False: ""}


def is_command(line: str) -> bool:
    return line.startswith("/") and not line.startswith("//")


def message_of(line: str) -> str:
    """What is sent to the model: of two slashes at the beginning, one."""
    return line[1:] if line.startswith("//") else line


class Commands:
    """Does what commands say."""

    def __init__(
        self, conversation: "Conversation", screen: Screen, redactor: Redactor, confirm: Confirm | None
    ) -> None:
        self._conversation, self._screen = conversation, screen
        self._redactor, self._confirm = redactor, confirm

    async def run(self, line: str) -> bool:
        """Whether the conversation goes on; StrandsError where the command cannot be done."""
        name, _, argument = line.strip().partition(" ")
        argument = argument.strip()
        if name not in COMMANDS:
            hint = f"{did_you_mean(name, COMMANDS)} /help lists the commands; // sends a slash.".strip()
            raise UsageError(f"There is no command {name}.", hint=hint)
        usage, _ = COMMANDS[name]
        if bool(argument) != bool(usage):
            raise UsageError(
                f"The command is {name} {usage}".rstrip() + ".", hint="/help lists the commands."
            )
        match name:
            case "/help":
                self._screen.note(_help())
            case "/tools":
                self._screen.note(self._tools())
            case "/model":
                self._screen.note(self._conversation.model)
            case "/save" | "/save!":
                await self._save(file_of(argument), is_forced=name == "/save!")
            case "/clear":
                self._conversation.clear()
                self._screen.note("A new conversation.")
        return name != "/quit"

    def _tools(self) -> str:
        rows = [
            (tool.id, _ASKS[tool.requires_consent], first_sentence(tool.description))
            for tool in self._conversation.tools
        ]
        return (
            _columns(rows) or "The model has no tools: 'strands chat --tools echo,calculator' gives it some."
        )

    async def _save(self, file: Path, *, is_forced: bool) -> None:
        if not is_forced and not await self._may_write(file):
            raise ArtifactError(f"{file} exists already.", hint=f"/save! {file} replaces it.")
        messages = self._redactor.value(self._conversation.messages)
        write_whole(file, as_text(file, messages, self._conversation.model))
        self._screen.note(f"Wrote {count(len(messages), 'message')} to {file}.")

    async def _may_write(self, file: Path) -> bool:
        if not is_file(file):
            return True
        return self._confirm is not None and await self._confirm(f"{file} exists already. Replace it? [y/N]")


def _help() -> str:
    rows = [(f"{name} {usage}".strip(), text) for name, (usage, text) in COMMANDS.items()]
    return f"{_columns(rows)}\n{_KEYS}"


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows with aligned columns; a column with nothing in it is left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(len(cell) for cell in column) for column in columns]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    )
    return "\n".join(f"  {line}" for line in lines)
