"""openai-agents."""

import json
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from worker import ARGUMENTS, serve

TEXT = json.dumps(ARGUMENTS)
set_tracing_disabled(True)


class Calling(Model):
    def __init__(self, tool: str, turns: int, calls: int) -> None:
        self.tool, self.turns, self.calls, self.asked = tool, turns, calls, 0

    async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
        self.asked += 1
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call", call_id=f"t{self.asked}-{number}", name=self.tool, arguments=TEXT
            )
            for number in range(self.calls)
        ]
        if self.asked > self.turns:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    """As its agents do: the arguments are text."""
    text = json.dumps(arguments)
    context = ToolContext(context=None, tool_name=tool.name, tool_call_id="t", tool_arguments=text)
    return await tool.on_invoke_tool(context, text)


async def run(tool: Any, turns: int, calls: int) -> None:
    agent = Agent(name="worker", model=Calling(tool.name, turns, calls), tools=[tool])
    result = await Runner.run(agent, "go", max_turns=turns + 2)
    assert len(result.new_items) == 1 + 2 * turns * calls


serve(make=function_tool, call=call, run=run)
