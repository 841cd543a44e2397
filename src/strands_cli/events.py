"""What a run says while it goes on. A listener is a function; console, log and tracer are listeners.

A step is named by its key: where it stands in the pattern, and how often it has been there (`steps/0`,
`branches/1/steps/0`, `nodes/review#2`). Events of one step are emitted in the task of that step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:  # a tool call has no workflow, and should not import one
    from strands_cli.types.run_results import Usage

RunOutcome = Literal["done", "failed", "budget", "paused", "interrupted"]


class RunStarted(msgspec.Struct, frozen=True):
    workflow: str
    pattern: str


class RunFinished(msgspec.Struct, frozen=True):
    outcome: RunOutcome
    seconds: float
    usage: "Usage"
    error: str = ""


class RunNoticed(msgspec.Struct, frozen=True):
    """A notice for the user. The run goes on."""

    text: str
    step: str = ""


class StepStarted(msgspec.Struct, frozen=True):
    step: str
    title: str
    """Its name for display: its id, branch or node, or its place."""
    agent: str
    model: str = ""
    """The provider and the model; empty for a human."""


class StepFinished(msgspec.Struct, frozen=True):
    step: str
    title: str
    agent: str
    seconds: float
    usage: "Usage"
    error: str = ""
    waiting: bool = False
    """Whether it has not failed but waits for a person, while the run is paused."""
    stopped: bool = False
    """Whether the step did not fail itself: the run was stopped, or an inner step failed."""


class StepRestored(msgspec.Struct, frozen=True):
    """A step was finished before the run was interrupted. Its result comes from the journal."""

    step: str
    title: str
    agent: str
    usage: "Usage"


class ModelStarted(msgspec.Struct, frozen=True):
    """A request was sent to the model. There is one per turn, and one for each retry."""

    step: str
    model: str


class ModelText(msgspec.Struct, frozen=True):
    """A piece of a streamed answer."""

    step: str
    text: str


class ModelRetried(msgspec.Struct, frozen=True):
    """A request failed and is retried. Discard the partial answer."""

    step: str
    attempt: int
    wait_seconds: float
    reason: str


class ModelFinished(msgspec.Struct, frozen=True):
    step: str
    model: str
    seconds: float
    usage: "Usage"
    stop_reason: str = ""
    error: str = ""


class ContextCompacted(msgspec.Struct, frozen=True):
    """Older messages of a conversation were replaced by a summary."""

    step: str
    before: int
    after: int


class ArtifactWritten(msgspec.Struct, frozen=True):
    path: str
    size: int


class ToolStarted(msgspec.Struct, frozen=True):
    tool_id: str
    version: str
    call_id: str
    arguments: Any = None
    """The input, for listeners that show inputs."""
    step: str = ""
    """The step whose agent makes the call; empty outside a run."""


class ToolProgress(msgspec.Struct, frozen=True):
    """Progress that a body reports."""

    tool_id: str
    call_id: str
    data: Any
    step: str = ""


class ToolStderr(msgspec.Struct, frozen=True):
    """What an executable said beside the answer of a call that succeeded."""

    tool_id: str
    call_id: str
    text: str
    """The end of its standard error; of a call that failed, the error has it."""
    refused: str = ""
    """What the sandbox blocked, if known, and the key that allows it."""
    step: str = ""


class ToolFinished(msgspec.Struct, frozen=True):
    tool_id: str
    version: str
    call_id: str
    seconds: float
    output_size: int
    code: str | None = None
    """The error code if it failed; `interrupted` if the body asks a human and will be called again."""
    content: Any = None
    """The content of the result, for listeners that show outputs."""
    step: str = ""


ToolEvent = ToolStarted | ToolProgress | ToolStderr | ToolFinished
ModelEvent = ModelStarted | ModelText | ModelRetried | ModelFinished
Event = (
    RunStarted
    | RunFinished
    | RunNoticed
    | StepStarted
    | StepFinished
    | StepRestored
    | ModelEvent
    | ContextCompacted
    | ArtifactWritten
    | ToolEvent
)
Listener = Callable[[Event], None]
