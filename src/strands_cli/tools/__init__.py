"""Native tools, and the registry through which every tool is found."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strands_cli.tools.registry import ToolCategory, ToolRegistry, ToolSpec

__all__ = ["ToolCategory", "ToolRegistry", "ToolSpec", "get_registry"]


def get_registry() -> "ToolRegistry":
    """Returns the registry. Tools are discovered on the first call; none of them is imported."""
    from strands_cli.tools.registry import ToolRegistry

    return ToolRegistry()


def with_tool_specs(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a native module or family: its `TOOL_SPECS` are its tools in the registry."""

    def attribute(name: str) -> Any:
        if name != "TOOL_SPECS":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        native = [info for info in get_registry().list_all() if info.source == "native"]
        return [info for info in native if f"{info.module_path}.".startswith(f"{module}.")]

    return attribute


def __getattr__(name: str) -> Any:
    """The registry's classes; a tool's module is imported without them."""
    if name in __all__:
        from strands_cli.tools import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
