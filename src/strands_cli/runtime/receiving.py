"""What comes from a model, made fit before the SDK reads it: so neither a history nor a file gets the rest.

The SDK passes on each chunk before it reads it itself. What is changed in the chunk by then is changed in the
message, in the events and in all that is made of them.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any

from strands.types.events import TypedEvent

DEEPEST_INPUT = 500
"""How deep a tool's input may be nested for the SDK, which would fail near 1000; our contract allows less."""
CUT_OFF = " (nested too deeply)"
"""Ends a tool's input that was cut off. The model is told near what its input could not be read."""
_MARKS = re.compile(r'\\(?:.|\Z)|["\[\]{}]', re.DOTALL)


async def received(events: AsyncGenerator[TypedEvent, None]) -> AsyncGenerator[TypedEvent, None]:
    """A model's events. Reads no further ahead: a chunk has to be put right before the SDK goes on."""
    nesting = Nesting()
    async for event in events:
        if chunk := event.get("event"):
            nesting = _put_right(chunk, nesting)
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


def _put_right(chunk: dict[str, Any], nesting: "Nesting") -> "Nesting":
    """Changes a chunk in place; returns the nesting of the tool input that the next one may go on with."""
    if "contentBlockDelta" in chunk:
        delta = chunk["contentBlockDelta"]["delta"]
        for said in (delta, delta.get("reasoningContent")):
            if said and isinstance(said.get("text"), str):
                said["text"] = whole_characters(said["text"])
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
