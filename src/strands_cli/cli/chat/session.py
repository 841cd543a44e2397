"""One thing after the other that the user says: commands begin with a slash, all else is put to the model."""

import asyncio
import json
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from strands_cli.cli.chat.screen import Screen
from strands_cli.cli.output import (
    aligned_columns,
    can_ask,
    count_text,
    json_default,
    print_line,
    tool_output_aside,
)
from strands_cli.cli.questions import YES, Questions
from strands_cli.cli.terminal import clean_text
from strands_cli.cli.tool import first_sentence
from strands_cli.documents.files import write_file
from strands_cli.errors import ArtifactError, Interrupted, StrandsError, UsageError, did_you_mean
from strands_cli.exec.chat_journal import ChatJournal
from strands_cli.runtime.agent_hooks import PendingCall
from strands_cli.runtime.conversation import Conversation, Reply
from strands_cli.runtime.model_output import message_text
from strands_cli.secrets import Redactor
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import Usage

COMMANDS = {
    "/help": ("", "Shows the commands and the keys."),
    "/tools": ("", "Lists the tools that the model has."),
    "/model": ("", "Shows which model you are talking to."),
    "/save": ("FILE", "Saves the conversation to a file: Markdown, or JSON if the name ends in .json."),
    "/save!": ("FILE", "The same, replacing an existing file."),
    "/clear": ("", "Starts a new conversation; the model forgets this one."),
    "/quit": ("", "Leaves."),
}
_KEYS = """\
  Enter sends, Alt-Enter (or Esc and then Enter, or Ctrl-J) starts a new line.
  Ctrl-C stops an answer, and at the prompt clears the line. Ctrl-D quits.
  A message that begins with a slash is sent with two: //etc is a directory."""
_NO_TOOLS = "The model has no tools: 'strands chat --tools all' gives it every tool."
_SAVE_HINT = "Choose another place: /save FILE"
_ROLES = {"user": "You", "assistant": "Model"}


def is_command(line: str) -> bool:
    return line.startswith("/") and not line.startswith("//")


class ChatSession:
    """Takes what the user says, and survives what goes wrong with it."""

    def __init__(
        self,
        conversation: Conversation,
        screen: Screen,
        redactor: Redactor,
        journal: ChatJournal | None = None,
    ) -> None:
        self._conversation, self._screen = conversation, screen
        self._redactor, self._journal = redactor, journal
        self.exit_code = 0
        """That of the last thing that went wrong."""

    async def go_on(self) -> bool:
        """Takes up what the journal has, and asks once more what was not answered."""
        if self._journal is None:
            return True
        messages = self._journal.messages()
        self._conversation.restore(messages)
        if messages:
            asked = sum(message["role"] == "user" and not _has_results(message) for message in messages)
            self._screen.note(f"Continuing after {count_text(asked, 'message')}.")
        if text := self._journal.unanswered:
            self._screen.note(f"This message was not answered, and is sent again: {text}")
            return await self.take(f"/{text}" if text.startswith("/") else text)
        return True

    async def take(self, line: str) -> bool:
        """Whether the user wants to go on after this."""
        line = line.strip()
        try:
            if is_command(line):
                return await self._run_command(line)
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
            reply = await self._journalled(text) if self._journal else await self._conversation.ask(text)
        self._screen.answered(reply.text, reply.usage, reply.seconds, is_stopped=reply.is_stopped)
        if reply.is_stopped and not self._screen.is_live:
            raise Interrupted("Interrupted.")

    async def _journalled(self, text: str) -> Reply:
        """The answer, which is kept, also in parts: the end of a conversation is what the model gets next."""
        assert self._journal is not None
        conversation, before = self._conversation, len(self._conversation.messages)
        rows = self._journal.turn(text, conversation.facts)
        try:
            reply = await conversation.ask(text, rows)
        except StrandsError as error:
            if len(conversation.messages) > before:
                self._journal.keep(rows, message_text(conversation.messages[-1]), Usage(), 0.0)
            else:
                self._journal.fail(rows, error)
            raise
        last = message_text(conversation.messages[-1]) if reply.is_stopped else reply.text
        self._journal.keep(rows, last, reply.usage, reply.seconds)
        return reply

    async def _run_command(self, line: str) -> bool:
        """Whether the conversation goes on; StrandsError if the command cannot be done."""
        name, _, argument = line.strip().partition(" ")
        argument = argument.strip()
        if name not in COMMANDS:
            hint = f"{did_you_mean(name, COMMANDS)} /help lists the commands; // sends a slash.".strip()
            raise UsageError(f"Unknown command {name}.", hint=hint)
        usage, _ = COMMANDS[name]
        if bool(argument) != bool(usage):
            right = f"{name} {usage}".strip()
            raise UsageError(f"The command is {right}.", hint="/help lists the commands.")
        match name:
            case "/help":
                rows = [(f"{name} {usage}".strip(), text) for name, (usage, text) in COMMANDS.items()]
                shown = aligned_columns(rows, width=self._screen.width)
                self._screen.note("\n".join([*shown, _KEYS]))
            case "/tools":
                self._screen.note(self._tools())
            case "/model":
                self._screen.note(self._conversation.model)
            case "/save" | "/save!":
                await self._save(argument, replace=name == "/save!")
            case "/clear":
                self._conversation.clear()
                if self._journal:
                    self._journal.clear()
                self._screen.note("A new conversation.")
        return name != "/quit"

    def _tools(self) -> str:
        rows = []
        for tool in self._conversation.tools:
            asks = "asks for your consent" if tool.requires_consent else ""
            rows.append((tool.id, asks, first_sentence(tool.description)))
        return "\n".join(aligned_columns(rows, width=self._screen.width)) or _NO_TOOLS

    async def _save(self, argument: str, *, replace: bool) -> None:
        file = _path_to_save(argument)
        exists = f"{file} already exists."
        if not replace and file.exists():
            replace = can_ask() and await self._confirm(f"{exists} Replace it? [y/N]")
        messages = self._redactor.value(self._conversation.messages)
        text = _conversation_text(file, messages, self._conversation.model)
        try:
            write_file(file, text.encode("utf-8", "replace"), replace=replace)
        except FileExistsError:
            raise ArtifactError(exists, hint=f"/save! {file} replaces it.") from None
        except OSError as error:
            raise ArtifactError(f"{file} cannot be written: {error.strerror}.", hint=_SAVE_HINT) from None
        self._screen.note(f"Wrote {count_text(len(messages), 'message')} to {file}.")

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
        with self._screen.asking():
            try:
                yield
            except Interrupted:
                print_line(err=True)  # the cursor is still on the line of the question
                raise

    async def consent(self, calls: Sequence[PendingCall]) -> Collection[str]:
        """After a stop, what was agreed to before it."""
        granted: list[str] = []
        with suppress(Interrupted):
            await self.grant(calls, granted)
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


# --- A conversation as a file -----------------------------------------------------------------------------


def _path_to_save(argument: str) -> Path:
    try:
        file = Path(argument).expanduser()
    except RuntimeError as error:  # no such home
        raise UsageError(f"{argument}: {error}", hint="Name a file: /save FILE") from None
    if file.exists() and not file.is_file():
        raise ArtifactError(f"{file} is not a file.", hint=_SAVE_HINT)
    return file


def _conversation_text(file: Path, messages: Sequence[Mapping[str, Any]], model: str) -> str:
    """What the file is to hold, by its name: JSON for `.json`, else Markdown."""
    if file.suffix.lower() == ".json":
        document = {"model": model, "messages": messages}
        return json.dumps(document, indent=2, ensure_ascii=False, default=json_default) + "\n"
    return clean_text("\n".join(_conversation_markdown(messages, model)))


def _has_results(message: Mapping[str, Any]) -> bool:
    return any("toolResult" in block for block in message["content"])


def _conversation_markdown(messages: Sequence[Mapping[str, Any]], model: str) -> Iterator[str]:
    yield f"# Conversation with {model}\n"
    speaker = ""
    for message in messages:
        now = speaker if _has_results(message) else _ROLES[message["role"]]
        if now != speaker:
            yield f"## {now}\n"
        speaker = now
        for block in message["content"]:
            yield from _block_markdown(block)


def _block_markdown(block: Mapping[str, Any]) -> Iterator[str]:
    if "text" in block:
        yield f"{block['text'].strip()}\n"
    elif "toolUse" in block:
        use = block["toolUse"]
        yield _fenced_value(f"Calls `{use['name']}` with", use["input"])
    elif "toolResult" in block:
        result = block["toolResult"]
        parts = [part.get("text", part.get("json", list(part))) for part in result["content"]]
        if result["status"] == "success":
            yield _fenced_value("The tool answers", parts[0] if len(parts) == 1 else parts)
        else:  # the message, which is there for programs a second time
            yield _fenced_value("The tool fails", parts[0] if parts else "")


def _fenced_value(title: str, value: Any) -> str:
    """A value in a fence that nothing in it ends."""
    is_text = isinstance(value, str)
    text = str(value) if is_text else json.dumps(value, indent=2, ensure_ascii=False, default=json_default)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{title}:\n\n{fence}{'text' if is_text else 'json'}\n{text}\n{fence}\n"
