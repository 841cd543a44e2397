"""What the user says at a terminal: edited over several lines, with the history of earlier conversations."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from strands_cli.cli.chat.session import COMMANDS, is_command
from strands_cli.documents.files import read_regular_file

_PROMPT = "> "
_CONTINUED = "  "
_LARGEST_HISTORY = 20_000_000


class Prompt:
    """Reads what is typed: Enter sends it, Alt-Enter and Ctrl-J begin a new line."""

    def __init__(self, history: Path) -> None:
        self._session: PromptSession[str] = PromptSession(
            [("bold", _PROMPT)],
            multiline=True,
            prompt_continuation=_CONTINUED,
            key_bindings=_key_bindings(),
            history=_prompt_history(history),
            completer=_CommandCompleter(),
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would keep lines below the prompt empty
        )

    async def next(self) -> str | None:
        """What was typed: nothing after Ctrl-C, None after Ctrl-D."""
        try:
            return await self._session.prompt_async()
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class _PromptHistory(FileHistory):
    """A history that cannot be written is one of this conversation alone."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def _prompt_history(file: Path) -> History:
    """The history of typed lines; only its owner may read the file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            read_regular_file(file, _LARGEST_HISTORY)  # neither a pipe nor a device, nor endless
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return _PromptHistory(str(file))


class _CommandCompleter(Completer):
    """The names of commands, and the files that they take."""

    _paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        name, space, argument = before.partition(" ")
        if not is_command(before) or "\n" in before:
            return
        if not space:
            yield from (Completion(known, -len(name)) for known in COMMANDS if known.startswith(name))
        elif COMMANDS.get(name, ("",))[0] == "FILE":
            yield from self._paths.get_completions(Document(argument), complete_event)
