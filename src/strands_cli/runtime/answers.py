"""What a model said, made fit for the history: nothing is lost, and every provider takes it back.

The SDK turns a tool input that is no JSON into `{}`, and the tool would run with its defaults. Here the text
is kept, inside an object, so that the call can answer `input_malformed`.
"""

import json
from collections.abc import Mapping
from typing import Any

from strands.types.content import Message

from strands_cli.errors import ToolFailed
from strands_cli.runtime.receiving import whole_characters
from strands_cli.toolkit.arguments import parse_object
from strands_cli.toolkit.info import TOOL_NAME

MALFORMED_KEY = "_malformed_input"
INVALID_NAME = "INVALID_TOOL_NAME"
"""What the SDK itself writes in place of a name that no provider takes."""


def kept_text(sent: object) -> str | None:
    """The text that a model sent as a tool's input, where it was no JSON object."""
    if not isinstance(sent, dict) or sent.keys() != {MALFORMED_KEY}:
        return None
    text = str(sent[MALFORMED_KEY])
    return None if _parsed(text) is not None else text  # a model may imitate the key


class Listening:
    """The tool uses of one answer, as the model's stream tells them."""

    def __init__(self) -> None:
        self._current: dict[str, str] | None = None
        self._heard: list[dict[str, str]] = []

    def hear(self, chunk: Mapping[str, Any]) -> None:
        if "contentBlockStart" in chunk:
            start = chunk["contentBlockStart"]["start"].get("toolUse")
            self._current = {**_identity(start), "text": ""} if start else None
        elif "contentBlockDelta" in chunk:
            self._hear_input(chunk["contentBlockDelta"]["delta"].get("toolUse"))
        elif "contentBlockStop" in chunk and self._current is not None:
            self._heard.append(self._current)
            self._current = None

    def _hear_input(self, delta: Mapping[str, Any] | None) -> None:
        if delta is None:
            return
        current = self._current or {"text": ""}  # some models name the tool in a delta only
        self._current = {**_identity(delta), **current, "text": current["text"] + delta.get("input", "")}

    @property
    def texts(self) -> list[str]:
        """The inputs in order. The SDK leaves out a tool use without an id or a name, and so does this."""
        return [use["text"] for use in self._heard if use.get("toolUseId") and use.get("name")]


def _identity(use: Mapping[str, Any]) -> dict[str, str]:
    return {name: use[name] for name in ("toolUseId", "name") if name in use}


def mend(message: Message, texts: list[str]) -> dict[str, str]:
    """Puts an answer right, in place; returns the names that it called and no tool can have, by call id.

    An id that is used twice gets a number: each call needs an answer of its own.
    """
    uses: list[Any] = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    spoken: list[str | None] = list(texts) if len(texts) == len(uses) else [None] * len(uses)
    misnamed: dict[str, str] = {}
    ids: set[str] = set()
    for use, text in zip(uses, spoken, strict=True):
        use["toolUseId"] = _unused(whole_characters(use["toolUseId"]), ids)
        ids.add(use["toolUseId"])
        use["input"] = _as_object(use["input"], text)
        if not TOOL_NAME.fullmatch(use["name"]):
            misnamed[use["toolUseId"]] = use["name"]
            use["name"] = INVALID_NAME
    return misnamed


def _unused(call_id: str, ids: set[str]) -> str:
    number, unused = 1, call_id
    while unused in ids:
        number += 1
        unused = f"{call_id}-{number}"
    return unused


def _as_object(parsed: Any, text: str | None) -> dict[str, Any]:
    if text is None and not isinstance(parsed, dict):
        text = json.dumps(parsed)
    if text is None or not text.strip():  # an empty input is how models call a tool without arguments
        return parsed if isinstance(parsed, dict) else {}
    value = _parsed(text)
    return {MALFORMED_KEY: whole_characters(text)} if value is None else value


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return parse_object(text)
    except ToolFailed:
        return None
