"""An optional base class for tools that are written as classes."""

from abc import ABC, abstractmethod
from typing import Any

from strands_cli.toolkit.results import ToolResult

__all__ = ["NativeTool", "ToolResult"]


class NativeTool(ABC):
    """A tool with its body in `execute`. The module has a `TOOL_SPEC` with the name of the class."""

    def validate_inputs(self, inputs: dict[str, Any]) -> tuple[bool, str | None]:
        """Checks what the schema cannot express. Returns whether the input is valid, and why not."""
        return True, None

    @abstractmethod
    def execute(self, tool: dict[str, Any], **kwargs: Any) -> Any:
        """Runs the tool; `tool` has `toolUseId` and `input`."""
