"""Testing without a model: the scripted model, projects in temporary directories, and fixtures for pytest.

    pytest_plugins = ["strands_cli.testing"]

at the top of a test module, or in the `conftest.py` of the root, makes the fixtures of `testing.fixtures`
known. Nothing here needs pytest otherwise, and the agent SDK is imported with `ScriptedModel`.

PYTEST_DONT_REWRITE: a test may import from here before pytest does, which would warn of it.
"""

from typing import TYPE_CHECKING

from strands_cli.providers.scripts import (
    ScriptedCall,
    ScriptedPause,
    ScriptedRequest,
    ScriptedUsage,
    call,
    failure,
    pause,
)
from strands_cli.testing.projects import CallTool, CommandOutcome, StrandsProject, ToolOutcome

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
    "call",
    "failure",
    "pause",
]


def __getattr__(name: str) -> object:
    if name != "ScriptedModel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from strands_cli.providers.scripted_model import ScriptedModel

    return ScriptedModel
