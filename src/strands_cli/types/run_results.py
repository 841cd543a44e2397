"""What steps and runs come to."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Tokens that models have counted, and what they cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars, by the prices of the settings; None without a price. Models without one are not in it."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(known) if known else None,
        )


def money_text(dollars: float) -> str:
    """`$1.50`, `$0.0023`: cents, and what is less than one in more digits."""
    return f"${dollars:,.2f}" if dollars == 0 or dollars >= 0.1 else f"${dollars:.4f}"


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

    # What templates of other runners ask of a result.

    @property
    def status(self) -> str:
        """`success`: a step that fails has no result."""
        return "success"

    @property
    def type(self) -> str:
        """`hitl` for a human step, otherwise `agent`."""
        return "hitl" if self.agent == "human" else "agent"

    @property
    def tokens(self) -> int:
        """All tokens of `usage`."""
        return self.usage.total_tokens

    @property
    def tokens_estimated(self) -> int:
        """The same as `tokens`."""
        return self.usage.total_tokens

    @property
    def index(self) -> int | None:
        """The place of a step, task or worker among the others, from 0."""
        group, name, _ = self._place
        return int(name) if group in ("steps", "tasks", "worker") and name.isdigit() else None

    @property
    def iteration(self) -> int | None:
        """How often a node has run so far."""
        group, _, visit = self._place
        return int(visit) if group == "nodes" and visit.isdigit() else None

    @property
    def _place(self) -> tuple[str, str, str]:
        """The end of its key: what it is one of, its name there, and the number of the visit."""
        group, _, name = self.key.rpartition("/")
        name, _, visit = name.partition("#")
        return group.rpartition("/")[2], name, visit or "1"

    @property
    def parts(self) -> dict[str, Any]:
        """What it has, for `tojson` in templates."""
        names = ("id", "agent", "response", "output", "status", "type", "index", "iteration", "tokens")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


class DetailedResult(StepResult, frozen=True, kw_only=True):
    """A result with what only the pattern knows of it, for templates; the journal does not have it."""

    prompt: str = ""
    """What a human was asked."""
    task: str = ""
    """What a worker had to do."""
    step_history: tuple[StepResult, ...] = ()
    """The results of all steps of a branch."""

    @property
    def parts(self) -> dict[str, Any]:
        own = {"prompt": self.prompt, "task": self.task}
        return super().parts | {name: text for name, text in own.items() if text}


def detailed_result(result: StepResult, **details: Any) -> DetailedResult:
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    return DetailedResult(**{**fields, **details})


class StepList:
    """The steps that are done now, of a list that grows, by index and by id; no attribute hides an id."""

    __slots__ = ("_count", "_done")

    def __init__(self, done: Sequence[StepResult]) -> None:
        self._done, self._count = done, len(done)  # a copy for each step would cost as much as all steps

    def __getitem__(self, key: int | str) -> StepResult:
        if isinstance(key, str):
            return {step.id: step for step in self if step.id}[key]
        return self._done[range(self._count)[key]]

    def __iter__(self) -> Iterator[StepResult]:
        return islice(self._done, self._count)

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        return "\n\n".join(step.response for step in self)


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
    run_id: str = ""
    """Its id in the journal, if it has one."""
    scope: dict[str, Any] = {}
    """The values for the templates of artifacts."""
