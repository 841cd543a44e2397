"""smolagents. Its tools are sync, and it refuses pydantic models as arguments."""

from typing import Any

import smolagents
from smolagents import LogLevel, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)
from smolagents.tools import validate_tool_arguments
from worker import ARGUMENTS, serve


class Calling(Model):
    def __init__(self, tool: str, turns: int, calls: int) -> None:
        super().__init__(model_id="calling")
        self.tool, self.turns, self.calls, self.asked = tool, turns, calls, 0

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        self.asked += 1
        is_over = self.asked > self.turns
        name, arguments = ("final_answer", {"answer": "done"}) if is_over else (self.tool, ARGUMENTS)
        uses = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(dict(arguments), name), f"t{self.asked}-{number}", "function"
            )
            for number in range(1 if is_over else self.calls)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=uses)


def call(tool: Any, arguments: dict[str, int]) -> Any:
    """As its agents do: validate, then call."""
    validate_tool_arguments(tool, arguments)
    return tool(**arguments, sanitize_inputs_outputs=True)


def run(tool: Any, turns: int, calls: int) -> None:
    model = Calling(tool.name, turns, calls)
    agent = ToolCallingAgent(tools=[tool], model=model, max_steps=turns + 2, verbosity_level=LogLevel.OFF)
    assert agent.run("go") == "done"


serve(make=smolagents.tool, call=call, run=run, takes_async=False, takes_models=False)
