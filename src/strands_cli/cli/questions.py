"""Questions to the person at the terminal: consent to calls, and what workflows ask a human.

A question of consent names tool, target and size, and comes last. What a model or a plugin has written stands
above it, escaped and behind a gutter. What was typed before a question is shown is not an answer to it.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.output import Styled, print_line
from strands_cli.cli.terminal import (
    bytes_text,
    cell_width,
    cut_text,
    discard_typed_input,
    guarded_text,
    terminal_size,
    value_text,
)
from strands_cli.errors import Interrupted, ToolFailed
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import PLACEHOLDER, Tool

if TYPE_CHECKING:
    from strands_cli.runtime.agent_hooks import PendingCall

YES = {"y", "yes"}
_ALWAYS = {"a", "always"}
_MOST_QUESTION_LINES = 40


def confirm(question: str) -> bool:
    """Waits for a yes or a no; Ctrl-D means no, and Ctrl-C ends the command."""
    return run_async(Questions(Cancellation, nullcontext).agrees(question))


def typed_answer(question: str) -> str:
    """Waits for a line that is not empty."""
    while not (answer := run_async(Questions(Cancellation, nullcontext).ask(question)).strip()):
        pass
    return answer


class AskForPermit(Protocol):
    """A `Permit`, and with protected paths a `PermitProtected`."""

    async def __call__(
        self, tool: Tool, arguments: dict[str, Any], protected: tuple[str, ...] = ()
    ) -> None: ...


def permit_asked_in(aside: Callable[[], AbstractContextManager[None]]) -> AskForPermit:
    """Asks about one call, as `strands tool call` makes it, inside of `aside`, which makes room for it."""
    questions = Questions(Cancellation, aside)

    async def ask_for_permit(tool: Tool, arguments: dict[str, Any], protected: tuple[str, ...] = ()) -> None:
        is_asked = tool.requires_consent or protected
        if is_asked and not await questions.agrees_to_call(tool, arguments, protected):
            raise ToolFailed(f"You refused the call of {tool.id}.", code="denied")

    return ask_for_permit


def person_asked_in(
    aside: Callable[[], AbstractContextManager[None]], loop: asyncio.AbstractEventLoop
) -> Callable[[str, Any], Any]:
    """For `CallContext.interrupt`: asks at the terminal. Bodies in threads wait; async ones await."""
    questions = Questions(Cancellation, aside)

    async def ask(question: str) -> str:
        try:
            return await questions.ask(question)
        except Interrupted as ended:
            raise ToolFailed(ended.message, code="denied") from None

    def interrupt(name: str, reason: Any) -> Any:
        answer = ask(str(reason or name))
        try:
            is_loop = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_loop = False
        return answer if is_loop else asyncio.run_coroutine_threadsafe(answer, loop).result()

    return interrupt


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
                line = await self._line(question)
        if line is None:
            raise Interrupted("Standard input has ended, so nobody can answer.")
        return line

    async def agrees(self, question: str) -> bool:
        """Whether the answer is yes; Ctrl-D means no."""
        async with self._question_lock:
            with self._aside():
                return await self._choice(f"{question} [y/N]") in YES

    async def agrees_to_call(self, tool: Tool, arguments: dict[str, Any], protected: Sequence[str]) -> bool:
        async with self._question_lock:
            with self._aside():
                return await self._is_agreed(tool, arguments, protected)

    async def consent(self, calls: "Sequence[PendingCall]") -> Collection[str]:
        """The ids of the calls that may be made; each is asked about. Ctrl-D means no."""
        granted = list[str]()
        await self.grant(calls, granted)
        return granted

    async def grant(self, calls: "Sequence[PendingCall]", granted: list[str]) -> None:
        """Adds the ids of the calls that may be made, one after the other."""
        async with self._question_lock:
            with self._aside():
                for number, call in enumerate(calls, 1):
                    place = f"call {number} of {len(calls)}" if len(calls) > 1 else ""
                    is_agreed = await self._is_agreed(call.tool, call.arguments, call.protected, place)
                    granted += [call.call_id] if is_agreed else []

    async def _is_agreed(
        self, tool: Tool, arguments: dict[str, Any], protected: Sequence[str], place: str = ""
    ) -> bool:
        """Shows what a call would do, and asks: tool, target and size first, and again in the question."""
        if tool.id in self._always and not protected:
            return True
        effects = (*tool.effects.writes, *tool.effects.reads) if tool.effects else ()
        about = call_summary(tool.id, arguments, effects)
        width = terminal_size(sys.stderr)[0]
        facts = ", ".join(filter(None, [place, about.target, about.size]))
        print_line(Styled(f"{about.tool_id} needs your consent"), f": {facts}", err=True)
        for path in protected:
            print_line(
                f"It writes {_guarded_ends(path, _LONGEST_TARGET)}, which other programs act on.",
                err=True,
            )
        for line in content_lines(arguments, width):
            print_line(line, err=True)
        offers_always = self._offers_always and not protected
        choice = " [y/N/a] (a: always, in this conversation)" if offers_always else " [y/N]"
        answer = await self._choice(about.question(width - len(choice) - 2) + choice)
        if offers_always and answer in _ALWAYS:
            self._always.add(tool.id)
            return True
        return answer in YES

    async def _choice(self, question: str) -> str:
        line = await self._line(question)
        if line is None:
            print_line(err=True)  # the cursor is still on the line of the question
        return (line or "").strip().lower()

    async def _line(self, question: str) -> str | None:
        """The line that was typed; None after Ctrl-D, Interrupted if the work is stopped meanwhile.

        A question of several lines, or of a very long one, stands behind a gutter: somebody else wrote it.
        """
        width = terminal_size(sys.stderr)[0]
        if "\n" in question or cell_width(question) > 2 * width:
            for line in content_lines(question, width, _MOST_QUESTION_LINES):
                print_line(line, err=True)
            question = "Your answer:"
        discard_typed_input()
        print_line(f"{guarded_text(question)} ", err=True, end="")
        loop, cancel, number = asyncio.get_running_loop(), self._cancel(), sys.stdin.fileno()
        answered: asyncio.Future[bytes] = loop.create_future()

        def settle(typed: bytes) -> None:
            if not answered.done():
                answered.set_result(typed)

        if sys.platform == "win32":  # whose loop cannot watch a console
            typed = await loop.run_in_executor(None, sys.stdin.buffer.readline)
            return typed.decode("utf-8", "replace").rstrip("\r\n") if typed else None
        loop.add_reader(number, lambda: settle(os.read(number, 65_536)))
        try:
            with cancel.on_set_in_loop(settle, b""):
                typed = await answered
        finally:
            loop.remove_reader(number)
        if not typed and cancel.is_set():
            raise Interrupted("Interrupted.")
        return typed.decode("utf-8", "replace").rstrip("\r\n") if typed else None


# --- A call that waits for consent -------------------------------------------------------------------------

_TARGETS = ("path", "file", "filename", "directory", "url", "uri", "command", "cmd", "script", "destination")
"""Arguments that are the target of a call where the effects of its tool name none."""
_GUTTER = "  | "
_MOST_LINES = 24
_LONGEST_NAME = 64
_LONGEST_TARGET = 400
_MOST_CHARACTERS = 4000
_MOST_ITEMS = 200
_MOST_VALUES = 100_000
_DEEPEST = 20


class CallSummary(msgspec.Struct, frozen=True):
    """What a call would do, in a few words that are safe to show."""

    tool_id: str
    target: str
    """The file, the address or the command that it is about, and how many others there are; often empty."""
    size: str
    """Of all its arguments."""

    def question(self, room: int) -> str:
        """One line that names tool, target and size; a long target loses its middle."""
        if not self.target:
            return f"Run {self.tool_id} ({self.size})?"
        left = max(room - cell_width(f"Run {self.tool_id} on  ({self.size})?"), 24)
        return f"Run {self.tool_id} on {_middle_cut(self.target, left)} ({self.size})?"


def call_summary(tool_id: str, arguments: Any, effects: Sequence[str] = ()) -> CallSummary:
    """The summary of a call; `effects` are the templates of what its tool writes and reads."""
    named = [name for template in effects for name in PLACEHOLDER.findall(template)]
    targets = list[str]()
    for name in [*named, *_TARGETS] if isinstance(arguments, dict) else ():
        value: Any = arguments
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        values = value if isinstance(value, list | tuple) else [value]
        if texts := [item for item in islice(values, _MOST_VALUES) if isinstance(item, str) and item]:
            targets = texts
            break
    target = _guarded_ends(targets[0], _LONGEST_TARGET) if targets else ""
    if len(targets) > 1:
        target += f" and {len(targets) - 1:,} more"
    return CallSummary(_guarded_ends(tool_id, _LONGEST_NAME), target, _size_text(arguments))


def _guarded_ends(text: str, room: int) -> str:
    if len(text) > room:
        text = f"{text[: room // 2]}...{text[-room // 2 :]}"
    return _middle_cut(guarded_text(text), room)


def _middle_cut(text: str, room: int) -> str:
    """The text if it fits; else its beginning and its end, which is what names a file."""
    if len(text) <= room and cell_width(text) <= room:
        return text
    begin = max(room // 3 - 3, 1)
    tail = text[begin - room + 3 :]
    while cell_width(tail) > room - begin - 3:
        tail = tail[1:]
    return f"{cut_text(text[:begin], begin, '')}...{tail}"


def _size_text(value: Any) -> str:
    """About how many bytes a value has, without writing it out."""
    total, left, seen = 0, [value], 0
    while left and seen < _MOST_VALUES:
        item, seen = left.pop(), seen + 1
        if isinstance(item, str):
            total += len(item) if item.isascii() else len(item.encode("utf-8", "surrogatepass"))
        elif isinstance(item, dict):
            left += [*islice(item.keys(), _MOST_VALUES), *islice(item.values(), _MOST_VALUES)]
        elif isinstance(item, list | tuple):
            left += islice(item, _MOST_VALUES)
        else:
            total += item.bit_length() // 3 + 1 if isinstance(item, int) else 8
    return f"more than {bytes_text(total)}" if left else bytes_text(total)


def content_lines(value: Any, width: int, most: int = _MOST_LINES) -> list[str]:
    """A value behind a gutter: no line of it begins where ours do, none is wider than the window."""
    lines = list[str]()
    for depth, text in _value_lines(value, 0):
        indent = _GUTTER + "  " * depth
        # What is not ASCII counts twice, so that no line is wider than it seems.
        room = max(width - len(indent) - 3, 20) // (1 if text.isascii() else 2)
        lines.append(indent + text[:room])
        lines += [f"{indent}  {text[at : at + room]}" for at in range(room, len(text), room)]
        if len(lines) > most:
            return [*lines[:most], f"{_GUTTER}... (not all of it is shown)"]
    return lines


def _value_lines(value: Any, depth: int) -> Iterator[tuple[int, str]]:
    """A value in lines with their depth, what is short first; each text no further than can be shown."""
    if isinstance(value, dict | list | tuple) and value and depth < _DEEPEST:
        pairs = islice(value.items() if isinstance(value, dict) else enumerate(value), _MOST_ITEMS)
        named = [(f"{guarded_text(str(key)[:_LONGEST_NAME])}:", item) for key, item in pairs]
        for name, item in sorted(named, key=lambda pair: not _is_short(pair[1])):
            if _is_short(item):
                yield depth, f"{name} {_short_text(item)}"
            else:
                yield depth, name
                yield from _value_lines(item, depth + 1)
    elif isinstance(value, str) and not _is_short(value):
        yield from ((depth, guarded_text(line)) for line in value[:_MOST_CHARACTERS].split("\n"))
        if len(value) > _MOST_CHARACTERS:
            yield depth, f"... ({len(value) - _MOST_CHARACTERS:,} more characters)"
    else:
        yield depth, _short_text(value)


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TARGET and "\n" not in value
    return not isinstance(value, dict | list | tuple) or not value


def _short_text(value: Any) -> str:
    if isinstance(value, str):
        return f'"{guarded_text(value)}"'
    return guarded_text(value_text(value, _LONGEST_TARGET))
