"""What a run says while it goes on. A listener is a function; console, log and tracer are listeners."""

from collections.abc import Callable
from typing import Any

import msgspec


class ToolStarted(msgspec.Struct, frozen=True):
    tool_id: str
    version: str
    call_id: str
    arguments: Any = None
    """What the caller sent; for listeners that are asked to show inputs."""


class ToolProgress(msgspec.Struct, frozen=True):
    """What a body says before it is done."""

    tool_id: str
    call_id: str
    data: Any


class ToolFinished(msgspec.Struct, frozen=True):
    tool_id: str
    version: str
    call_id: str
    seconds: float
    output_size: int
    code: str | None = None
    """Why it failed; `interrupted` where the body asks a human and will be called again."""


Event = ToolStarted | ToolProgress | ToolFinished
Listener = Callable[[Event], None]
