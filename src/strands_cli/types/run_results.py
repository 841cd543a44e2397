"""What steps and runs come to."""

from pathlib import Path
from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """The number of tokens, as counted by the models."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent, or one human, answered."""

    key: str
    """The place of the step in the pattern, with a number for repeated visits."""
    id: str
    agent: str
    response: str
    output: Any = None
    """The answer as data, if the agent has an `output_schema`."""
    usage: Usage = Usage()
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.response


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pattern: str
    last_response: str
    output: Any = None
    """The last answer as data, if its agent has an `output_schema`."""
    steps: tuple[StepResult, ...] = ()
    """In the order of the file, whichever ended first."""
    usage: Usage = Usage()
    duration: float = 0.0
    """Seconds."""
    artifacts: tuple[Path, ...] = ()
    scope: dict[str, Any] = {}
    """The values for the templates of artifacts."""
