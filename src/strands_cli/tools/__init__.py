"""Native tools, and the registry through which every tool is found."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strands_cli.tools.registry import ToolRegistry

__all__ = ["get_registry"]


def get_registry() -> "ToolRegistry":
    """Returns the registry. Tools are discovered on the first call; none of them is imported."""
    from strands_cli.tools.registry import ToolRegistry

    return ToolRegistry()
