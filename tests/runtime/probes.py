"""Tools of the SDK's own kind, for looking at what it does with them."""

from typing import Any

from strands.types.events import ToolResultEvent
from strands.types.tools import AgentTool, ToolContext, ToolGenerator, ToolSpec, ToolUse


class Probe(AgentTool):
    """A tool of the SDK's own kind that notes its calls and yields what it is told to."""

    tool_type = "probe"

    def __init__(self, name: str = "probe", **properties: Any) -> None:
        super().__init__()
        self.seen: list[tuple[ToolUse, dict[str, Any]]] = []
        self._name = name
        self._schema = {"type": "object", "properties": properties}

    @property
    def tool_name(self) -> str:
        return self._name

    @property
    def tool_spec(self) -> ToolSpec:
        return {"name": self._name, "description": "A probe", "inputSchema": {"json": self._schema}}

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **_: Any) -> ToolGenerator:
        self.seen.append((tool_use, dict(invocation_state)))
        yield "half"
        yield ToolResultEvent(result_of(tool_use, "done"))


class Asking(Probe):
    """A tool that raises the SDK's own question to a human."""

    async def stream(self, tool_use: ToolUse, invocation_state: dict[str, Any], **_: Any) -> ToolGenerator:
        agent = invocation_state["agent"]
        given = ToolContext(tool_use=tool_use, agent=agent, invocation_state=invocation_state)
        yield ToolResultEvent(result_of(tool_use, given.interrupt("sure?", reason="because")))


def result_of(tool_use: ToolUse, text: str) -> Any:
    return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}
