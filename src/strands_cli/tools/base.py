"""An optional base class for tools that are written as classes."""

from abc import ABC, abstractmethod
from typing import Any

from strands_cli.toolkit.results import ToolResult

__all__ = ["NativeTool", "ToolResult"]


class NativeTool(ABC):
    """A tool with a body in `execute`; a `TOOL_SPEC` whose name is the class's stands beside it."""

    def validate_inputs(self, inputs: dict[str, Any]) -> tuple[bool, str | None]:
        """What the schema cannot say: whether the input will do, and why not."""
        return True, None

    @abstractmethod
    def execute(self, tool: dict[str, Any], **kwargs: Any) -> Any:
        """Runs the tool; `tool` has `toolUseId` and `input`."""
