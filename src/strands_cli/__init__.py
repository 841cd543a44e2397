"""Write a tool once; call it the same way from the shell, from Python and from a workflow.

The names below are loaded when they are first used, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strands_cli.errors import ToolFailed
    from strands_cli.exec.run import run, run_sync
    from strands_cli.exec.steps import RunOptions
    from strands_cli.loader.load import load_spec
    from strands_cli.runtime.agent_hooks import equip
    from strands_cli.runtime.tools import agent_tools
    from strands_cli.toolkit.call import call_tool
    from strands_cli.toolkit.composition import each, fallback, fan_out, pipe
    from strands_cli.toolkit.context import CallContext, ToolContext
    from strands_cli.toolkit.decorator import tool
    from strands_cli.toolkit.schedule import call_tools
    from strands_cli.tools import get_registry

__version__ = "0.1.0"

__all__ = [
    "CallContext",
    "RunOptions",
    "ToolContext",
    "ToolFailed",
    "__version__",
    "agent_tools",
    "call_tool",
    "call_tools",
    "each",
    "equip",
    "fallback",
    "fan_out",
    "get_registry",
    "load_spec",
    "pipe",
    "run",
    "run_sync",
    "tool",
]

_HOMES = {
    "CallContext": "strands_cli.toolkit.context",
    "RunOptions": "strands_cli.exec.steps",
    "ToolContext": "strands_cli.toolkit.context",
    "ToolFailed": "strands_cli.errors",
    "agent_tools": "strands_cli.runtime.tools",
    "call_tool": "strands_cli.toolkit.call",
    "call_tools": "strands_cli.toolkit.schedule",
    "each": "strands_cli.toolkit.composition",
    "equip": "strands_cli.runtime.agent_hooks",
    "fallback": "strands_cli.toolkit.composition",
    "fan_out": "strands_cli.toolkit.composition",
    "get_registry": "strands_cli.tools",
    "load_spec": "strands_cli.loader.load",
    "pipe": "strands_cli.toolkit.composition",
    "run": "strands_cli.exec.run",
    "run_sync": "strands_cli.exec.run",
    "tool": "strands_cli.toolkit.decorator",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
