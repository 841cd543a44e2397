"""Testing without a model: tool calls, the scripted model, projects in temporary directories, fixtures.

To load the fixtures of `testing.fixtures`, add this line to a test module or to the root `conftest.py`:

    pytest_plugins = ["strands_cli.testing"]

The rest works without pytest. The agent SDK is imported only with `ScriptedModel`.

PYTEST_DONT_REWRITE: otherwise pytest would warn if a test imports from here first.
"""

from typing import TYPE_CHECKING

from strands_cli.providers.scripts import (
    ScriptedCall,
    ScriptedPause,
    ScriptedRequest,
    ScriptedUsage,
    failure,
    pause,
    tool_call,
)
from strands_cli.testing.projects import CallTool, CommandOutcome, StrandsProject, ToolOutcome, call
from strands_cli.toolkit.workspace import Workspace

if TYPE_CHECKING:
    from strands_cli.providers.scripted_model import ScriptedModel

pytest_plugins = ("strands_cli.testing.fixtures",)

__all__ = [
    "CallTool",
    "CommandOutcome",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedPause",
    "ScriptedRequest",
    "ScriptedUsage",
    "StrandsProject",
    "ToolOutcome",
    "Workspace",
    "call",
    "failure",
    "pause",
    "tool_call",
]


def __getattr__(name: str) -> object:
    if name != "ScriptedModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from strands_cli.providers.scripted_model import ScriptedModel

    return ScriptedModel
