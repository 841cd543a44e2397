"""strands-agents alone."""

from typing import Any

import strands
from strands_model import Calling
from worker import serve


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    """As its agents call a tool."""
    async for event in tool.stream({"toolUseId": "t", "name": tool.tool_name, "input": arguments}, {}):
        last = event
    return last


async def run(tool: Any, turns: int, calls: int) -> None:
    model = Calling(tool.tool_name, turns, calls)
    await strands.Agent(model=model, tools=[tool], callback_handler=None).invoke_async("go")


serve(make=strands.tool, call=call, run=run)
