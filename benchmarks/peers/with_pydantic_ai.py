"""pydantic-ai."""

from typing import Any

from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage, UsageLimits
from worker import ARGUMENTS, serve

CONTEXT: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    """As its agents do: validate, then call."""
    schema = tool.function_schema
    return await schema.call(schema.validator.validate_python(arguments), CONTEXT)


async def run(tool: Any, turns: int, calls: int) -> None:
    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) // 2 >= turns:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(tool.name, ARGUMENTS) for _ in range(calls)])

    agent = Agent(FunctionModel(answer), tools=[tool])
    result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    assert len(result.all_messages()) == 2 + 2 * turns


serve(make=Tool, call=call, run=run)
