"""The scripted model: the only fake, here with what tests want to know of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from strands.types.content import Message, Messages

from strands_cli.providers.choice import PROVIDERS, Provider
from strands_cli.providers.scripts import Part
from strands_cli.testing import ScriptedCall as Call
from strands_cli.testing import ScriptedModel, tool_call
from strands_cli.testing import ScriptedPause as Pause
from strands_cli.testing import ScriptedRequest as Request

__all__ = [
    "Call",
    "ObligingModel",
    "Part",
    "Pause",
    "Request",
    "ScriptedModel",
    "fitting",
    "history_problems",
    "installed",
    "tool_call",
]


def history_problems(messages: Messages) -> list[str]:
    """What a provider would not take in a conversation; an empty list where there is no such thing."""
    problems = []
    for index, message in enumerate(messages):
        following = messages[index + 1] if index + 1 < len(messages) else None
        if not message["content"]:
            problems.append(f"message {index} has no content")
        if index and messages[index - 1]["role"] == message["role"]:
            problems.append(f"messages {index - 1} and {index} are both from the {message['role']}")
        for block in message["content"]:
            if "toolUse" in block and not isinstance(block["toolUse"]["input"], dict):
                problems.append(f"message {index} has a tool input that is no object")
        asked, answered = _ids(message, "toolUse"), _ids(following, "toolResult")
        if asked != answered:
            problems.append(f"message {index} asks for {asked}, and what follows answers {answered}")
        if len(set(asked)) < len(asked):
            problems.append(f"message {index} uses an id twice: {asked}")
    if messages and _ids(messages[0], "toolResult"):
        problems.append("the first message answers a tool use that is not there")
    return problems


def _ids(message: Message | None, kind: str) -> list[str]:
    blocks: list[Any] = message["content"] if message else []
    return [block[kind]["toolUseId"] for block in blocks if kind in block]


class ObligingModel(ScriptedModel):
    """Where it has been told nothing, it answers with data that fits where data is asked, else with a text."""

    def __init__(self) -> None:
        super().__init__(self._obliging_answer)

    def _obliging_answer(self, request: Request) -> Part:
        answer = next((spec for spec in request.tool_specs if spec["name"] == "answer"), None)
        if answer is None:
            return f"Answer {len(self.requests)}."
        return Call("answer", fitting(answer["inputSchema"]["json"]))


def fitting(schema: dict[str, Any]) -> Any:
    """A value that a simple JSON Schema accepts."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: fitting(part) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [fitting(schema.get("items", {"type": "string"}))]
        case "integer" | "number":
            return schema.get("maximum", 1)
        case "boolean":
            return True
        case _:
            return "text"


@contextmanager
def installed(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """The model in the place of every provider's, for commands that take no RunOptions(model=…)."""
    theirs = dict(PROVIDERS)
    row = Provider(build=lambda choice: model, default_model="scripted")
    for name, their in theirs.items():
        PROVIDERS[name] = msgspec.structs.replace(row, errors=their.errors)
    try:
        yield model
    finally:
        PROVIDERS.update(theirs)
