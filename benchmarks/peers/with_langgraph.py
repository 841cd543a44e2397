"""langchain and langgraph."""

import inspect
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from worker import ARGUMENTS, serve


class Calling(BaseChatModel):
    tool: str
    turns: int
    calls: int

    @property
    def _llm_type(self) -> str:
        return "calling"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        done = sum(isinstance(message, ToolMessage) for message in messages) // self.calls
        answer = AIMessage("done")
        if done < self.turns:
            uses = [
                {"name": self.tool, "args": ARGUMENTS, "id": f"t{done}-{number}"}
                for number in range(self.calls)
            ]
            answer = AIMessage("", tool_calls=uses)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def make(function: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    return await tool.ainvoke(arguments)


async def run(tool: Any, turns: int, calls: int) -> None:
    agent = create_agent(Calling(tool=tool.name, turns=turns, calls=calls), [tool])
    answer = await agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 3 * turns + 10})
    assert len(answer["messages"]) == 2 + turns * (1 + calls)


serve(make=make, call=call, run=run)
