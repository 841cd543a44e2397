"""Return the input message unchanged."""

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "echo",
    "description": "Returns the input message unchanged",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "Message to echo back"}},
            "required": ["message"],
        }
    },
}


@tool(spec=TOOL_SPEC, version="1.0.0", category="data", blocking=False, annotations={"readOnlyHint": True})
def echo(message: str) -> str:
    if not message:
        raise ToolFailed("No message provided")
    return message


__getattr__ = with_tool_specs(__name__)
