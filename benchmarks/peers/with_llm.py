"""llm. It does not validate arguments; its sync models make one call after the other."""

from typing import Any

import llm
from worker import ARGUMENTS, serve


class Calling(llm.Model):
    model_id = "calling"
    supports_tools = True

    def __init__(self, tool: str, turns: int, calls: int) -> None:
        self.tool, self.turns, self.calls, self.asked = tool, turns, calls, 0

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None) -> Any:
        self.asked += 1
        if self.asked > self.turns:
            yield "done"
            return
        for number in range(self.calls):
            response.add_tool_call(llm.ToolCall(self.tool, ARGUMENTS, f"t{self.asked}-{number}"))


def call(tool: Any, arguments: dict[str, int]) -> Any:
    return tool.implementation(**arguments)


def run(tool: Any, turns: int, calls: int) -> None:
    model = Calling(tool.name, turns, calls)
    assert model.conversation(tools=[tool], chain_limit=0).chain("go").text() == "done"


serve(make=llm.Tool.function, call=call, run=run, takes_async=False)
