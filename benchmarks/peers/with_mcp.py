"""mcp, without its transport: it has no agent loop, so the tools are called together by hand."""

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from worker import serve

CONTEXT: Any = Context()


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    return await tool.run(arguments, CONTEXT, convert_result=True)


serve(make=Tool.from_function, call=call)
