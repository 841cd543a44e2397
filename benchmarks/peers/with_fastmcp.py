"""fastmcp, without its transport: it has no agent loop, so the tools are called together by hand."""

from typing import Any

from fastmcp.tools import Tool
from worker import serve


async def call(tool: Any, arguments: dict[str, int]) -> Any:
    return await tool.run(arguments)


serve(make=Tool.from_function, call=call)
