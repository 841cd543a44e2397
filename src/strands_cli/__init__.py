"""Write a tool once; call it the same way from the shell, from Python and from a workflow.

The names below are loaded when they are first used, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strands_cli.capability.checker import CapabilityReport, check_capability
    from strands_cli.errors import (
        ArtifactError,
        BudgetExceeded,
        Interrupted,
        Issue,
        Paused,
        ProviderError,
        RunError,
        SessionError,
        SpecError,
        StrandsError,
        ToolError,
        ToolFailed,
        UnsupportedError,
        UsageError,
    )
    from strands_cli.evals.evaluate import EvalOptions, EvalResult, evaluate
    from strands_cli.events import (
        ArtifactWritten,
        ContextCompacted,
        Event,
        Listener,
        ModelFinished,
        ModelRetried,
        ModelStarted,
        ModelText,
        RunFinished,
        RunNoticed,
        RunStarted,
        StepFinished,
        StepStarted,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        ToolStderr,
    )
    from strands_cli.exec.postgres_store import PostgresStore
    from strands_cli.exec.run import run, run_sync
    from strands_cli.exec.steps import RunOptions
    from strands_cli.exec.stores import MemoryStore, SqliteStore, Store
    from strands_cli.loader.load import load_spec
    from strands_cli.loader.spec import Spec
    from strands_cli.providers.local.model import LocalModel
    from strands_cli.runtime.agent_hooks import PendingCall, equip
    from strands_cli.runtime.model_requests import invoke_in_slices
    from strands_cli.runtime.tools import agent_tools
    from strands_cli.toolkit.cancellation import Cancellation
    from strands_cli.toolkit.composition import each, fallback, fan_out, pipe
    from strands_cli.toolkit.context import CallContext, ToolContext
    from strands_cli.toolkit.contract import Tool
    from strands_cli.toolkit.decorator import as_tool, tool
    from strands_cli.toolkit.info import ToolCategory, ToolInfo, ToolSpec
    from strands_cli.toolkit.results import ToolResult, error_of
    from strands_cli.tools import get_registry
    from strands_cli.tools.calls import call_tool, call_tools
    from strands_cli.tools.registry import ToolRegistry
    from strands_cli.tools.watch import ChangedTool, ToolChanges, watch
    from strands_cli.types.run_results import RunResult, StepResult, Usage

__version__ = "0.1.0"

_HOMES = {
    "strands_cli.capability.checker": ("CapabilityReport", "check_capability"),
    "strands_cli.errors": (
        "ArtifactError",
        "BudgetExceeded",
        "Interrupted",
        "Issue",
        "Paused",
        "ProviderError",
        "RunError",
        "SessionError",
        "SpecError",
        "StrandsError",
        "ToolError",
        "ToolFailed",
        "UnsupportedError",
        "UsageError",
    ),
    "strands_cli.evals.evaluate": ("EvalOptions", "EvalResult", "evaluate"),
    "strands_cli.events": (
        "ArtifactWritten",
        "ContextCompacted",
        "Event",
        "Listener",
        "ModelFinished",
        "ModelRetried",
        "ModelStarted",
        "ModelText",
        "RunFinished",
        "RunNoticed",
        "RunStarted",
        "StepFinished",
        "StepStarted",
        "ToolFinished",
        "ToolProgress",
        "ToolStarted",
        "ToolStderr",
    ),
    "strands_cli.exec.run": ("run", "run_sync"),
    "strands_cli.exec.steps": ("RunOptions",),
    "strands_cli.exec.postgres_store": ("PostgresStore",),
    "strands_cli.exec.stores": ("MemoryStore", "SqliteStore", "Store"),
    "strands_cli.loader.load": ("load_spec",),
    "strands_cli.loader.spec": ("Spec",),
    "strands_cli.providers.local.model": ("LocalModel",),
    "strands_cli.runtime.agent_hooks": ("PendingCall", "equip"),
    "strands_cli.runtime.model_requests": ("invoke_in_slices",),
    "strands_cli.runtime.tools": ("agent_tools",),
    "strands_cli.toolkit.cancellation": ("Cancellation",),
    "strands_cli.toolkit.composition": ("each", "fallback", "fan_out", "pipe"),
    "strands_cli.toolkit.context": ("CallContext", "ToolContext"),
    "strands_cli.toolkit.contract": ("Tool",),
    "strands_cli.toolkit.decorator": ("as_tool", "tool"),
    "strands_cli.toolkit.info": ("ToolCategory", "ToolInfo", "ToolSpec"),
    "strands_cli.toolkit.results": ("ToolResult", "error_of"),
    "strands_cli.tools": ("get_registry",),
    "strands_cli.tools.calls": ("call_tool", "call_tools"),
    "strands_cli.tools.registry": ("ToolRegistry",),
    "strands_cli.tools.watch": ("ChangedTool", "ToolChanges", "watch"),
    "strands_cli.types.run_results": ("RunResult", "StepResult", "Usage"),
}
"""Every public name, by the module that has it."""

__all__ = [
    "ArtifactError",
    "ArtifactWritten",
    "BudgetExceeded",
    "CallContext",
    "Cancellation",
    "CapabilityReport",
    "ChangedTool",
    "ContextCompacted",
    "EvalOptions",
    "EvalResult",
    "Event",
    "Interrupted",
    "Issue",
    "Listener",
    "LocalModel",
    "MemoryStore",
    "ModelFinished",
    "ModelRetried",
    "ModelStarted",
    "ModelText",
    "Paused",
    "PendingCall",
    "PostgresStore",
    "ProviderError",
    "RunError",
    "RunFinished",
    "RunNoticed",
    "RunOptions",
    "RunResult",
    "RunStarted",
    "SessionError",
    "Spec",
    "SpecError",
    "SqliteStore",
    "StepFinished",
    "StepResult",
    "StepStarted",
    "Store",
    "StrandsError",
    "Tool",
    "ToolCategory",
    "ToolChanges",
    "ToolContext",
    "ToolError",
    "ToolFailed",
    "ToolFinished",
    "ToolInfo",
    "ToolProgress",
    "ToolRegistry",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "ToolStderr",
    "UnsupportedError",
    "Usage",
    "UsageError",
    "__version__",
    "agent_tools",
    "as_tool",
    "call_tool",
    "call_tools",
    "check_capability",
    "each",
    "equip",
    "error_of",
    "evaluate",
    "fallback",
    "fan_out",
    "get_registry",
    "invoke_in_slices",
    "load_spec",
    "pipe",
    "run",
    "run_sync",
    "tool",
    "watch",
]


def __getattr__(name: str) -> object:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
