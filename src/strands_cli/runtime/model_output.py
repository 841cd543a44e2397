"""A model's output, repaired before the SDK reads it and before it enters a history.

Nothing is lost, and every provider accepts it back. The SDK passes each chunk on before it reads it itself:
what is changed in the chunk by then is changed in the message, in the events and in everything made of them.
The SDK turns a tool input that is not JSON into `{}`, and the tool would run with its defaults. Here the text
is kept, inside an object, so that the call can answer `input_malformed`.
"""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import Any

from strands.types.content import Message
from strands.types.events import TypedEvent

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.arguments import parse_object
from strands_cli.toolkit.info import TOOL_NAME

DEEPEST_INPUT = 500
"""How deep a tool's input may be nested for the SDK, which would fail near 1000; our contract allows less."""
CUT_OFF = " (nested too deeply)"
"""Ends a tool's input that was cut off: the error that the model gets quotes the text near it."""
_MARKS = re.compile(r'\\(?:.|\Z)|["\[\]{}]', re.DOTALL)


async def repaired_events(events: AsyncGenerator[TypedEvent, None]) -> AsyncGenerator[TypedEvent, None]:
    """A model's events. Never reads ahead: a chunk has to be repaired before the SDK goes on."""
    nesting = Nesting()
    async for event in events:
        if chunk := event.get("event"):
            nesting = _repair_chunk(chunk, nesting)
        yield event


def whole_characters(text: str) -> str:
    """The text with U+FFFD in place of half characters, which have no UTF-8 form; two halves become one."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _repair_chunk(chunk: dict[str, Any], nesting: "Nesting") -> "Nesting":
    """Changes a chunk in place; returns the nesting of the tool input that the next one may go on with."""
    if "contentBlockDelta" in chunk:
        delta = chunk["contentBlockDelta"]["delta"]
        for part in (delta, delta.get("reasoningContent")):
            if part and isinstance(part.get("text"), str):
                part["text"] = whole_characters(part["text"])
        use = delta.get("toolUse")
        if use and isinstance(use.get("input"), str):
            use["input"] = nesting.bounded(use["input"])
        return nesting
    if "metadata" in chunk:
        usage = chunk["metadata"].get("usage") or {}
        usage.update({name: 0 for name, count in usage.items() if count is None})
    return Nesting()


class Nesting:
    """One JSON text that arrives in pieces, and how deep it is nested so far."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_string = False
        self._is_escaped = False
        self._is_cut = False

    def bounded(self, piece: str) -> str:
        """The piece up to where the text is nested too deeply; nothing of what comes after that."""
        if self._is_cut:
            return ""
        start = 1 if self._is_escaped and piece else 0
        self._is_escaped = self._is_escaped and not piece
        for mark in _MARKS.finditer(piece, start):
            self._read(mark[0])
            if self._depth > DEEPEST_INPUT:
                self._is_cut = True
                return piece[: mark.start()] + CUT_OFF
        return piece

    def _read(self, mark: str) -> None:
        if mark == '"':
            self._is_string = not self._is_string
        elif mark.startswith("\\"):
            self._is_escaped = len(mark) == 1
        elif not self._is_string:
            self._depth += 1 if mark in "[{" else -1


MALFORMED_KEY = "_malformed_input"
INVALID_NAME = "INVALID_TOOL_NAME"
"""What the SDK itself writes in place of a name that no provider takes."""


def malformed_input_text(sent: object) -> str | None:
    """The text that a model sent as a tool's input, if that was not a JSON object."""
    if not isinstance(sent, dict) or sent.keys() != {MALFORMED_KEY}:
        return None
    text = str(sent[MALFORMED_KEY])
    return None if _parsed_tool_input(text) is not None else text  # a model may imitate the key


class ToolUseCollector:
    """Collects the tool uses of one answer from the model's stream."""

    def __init__(self) -> None:
        self._current: dict[str, str] | None = None
        self._complete: list[dict[str, str]] = []

    def add(self, chunk: Mapping[str, Any]) -> None:
        if "contentBlockStart" in chunk:
            start = chunk["contentBlockStart"]["start"].get("toolUse")
            self._current = {**_tool_use_identity(start), "text": ""} if start else None
        elif "contentBlockDelta" in chunk:
            if (delta := chunk["contentBlockDelta"]["delta"].get("toolUse")) is not None:
                current = self._current or {"text": ""}  # some models name the tool in a delta only
                text = current["text"] + delta.get("input", "")
                self._current = {**_tool_use_identity(delta), **current, "text": text}
        elif "contentBlockStop" in chunk and self._current is not None:
            self._complete.append(self._current)
            self._current = None

    @property
    def texts(self) -> list[str]:
        """The inputs in order. The SDK leaves out a tool use without an id or a name, and so does this."""
        return [use["text"] for use in self._complete if use.get("toolUseId") and use.get("name")]


def _tool_use_identity(use: Mapping[str, Any]) -> dict[str, str]:
    return {name: use[name] for name in ("toolUseId", "name") if name in use}


def repair_message(message: Message, texts: list[str]) -> dict[str, str]:
    """Repairs an answer in place; returns the names it called that no tool can have, by call id.

    An id that is used twice gets a number: each call needs its own result.
    """
    uses: list[Any] = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    inputs: list[str | None] = list(texts) if len(texts) == len(uses) else [None] * len(uses)
    misnamed: dict[str, str] = {}
    ids: set[str] = set()
    for use, text in zip(uses, inputs, strict=True):
        call_id = unused = whole_characters(use["toolUseId"])
        numbers = count(2)
        while unused in ids:
            unused = f"{call_id}-{next(numbers)}"
        use["toolUseId"] = unused
        ids.add(unused)
        use["input"] = _as_object(use["input"], text)
        if not TOOL_NAME.fullmatch(use["name"]):
            misnamed[use["toolUseId"]] = use["name"]
            use["name"] = INVALID_NAME
    return misnamed


def _as_object(parsed: Any, text: str | None) -> dict[str, Any]:
    if text is None and not isinstance(parsed, dict):
        text = json.dumps(parsed)
    if not text:  # no input at all is how models call a tool without arguments; spaces are text
        return parsed if isinstance(parsed, dict) else {}
    value = _parsed_tool_input(text)
    return {MALFORMED_KEY: whole_characters(text)} if value is None else value


def _parsed_tool_input(text: str) -> dict[str, Any] | None:
    try:
        return parse_object(text)
    except ToolFailed:
        return None


def message_text(message: Message) -> str:
    """What a message says, without its tool uses."""
    return "\n".join(block["text"] for block in message["content"] if "text" in block)
