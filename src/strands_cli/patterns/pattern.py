"""What every pattern has: its shape in the file, its places for agents, its outline, and how it runs."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue
from strands_cli.patterns.outline import NEVER, Arrow, Box, Calls, Frame, Kind
from strands_cli.patterns.scope import Names, result_names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec

CONFIG = "/pattern/config"
T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="agent", tag_field="kind"):
    """One agent, one input."""

    agent: str
    input: str = ""
    id: str = ""


class HumanStep(msgspec.Struct, frozen=True, kw_only=True, tag="human", tag_field="kind"):
    """A question to a human."""

    prompt: str
    default: str | None = None
    timeout_s: float | None = None
    id: str = ""


Steps = tuple[Step | HumanStep, ...]


class AgentStep(Protocol):
    """A step, a task or a node: an agent and its input."""

    @property
    def agent(self) -> str: ...
    @property
    def input(self) -> str: ...


class StepRunner(Protocol):
    """The run as a pattern sees it. Retries, budgets, events and the journal are behind `step`."""

    @property
    def spec(self) -> BaseSpec: ...

    @property
    def names(self) -> dict[str, Any]:
        """What the pattern knows so far, for the templates of artifacts."""

    async def step(
        self,
        key: str,
        step: AgentStep,
        *,
        title: str,
        names: Mapping[str, Any],
        turn: int = 0,
        input: str | None = None,
        input_at: str = "",
        default_input: str = "",
        schema: dict[str, Any] | None = None,
        instructions: str = "",
    ) -> StepResult:
        """Asks one agent. `key` is where the step stands in the pattern, with `#2` for its second time.

        `turn` is the round of a pattern that has rounds. `input` is a template in place of the step's own,
        which stands at `input_at`; `default_input` is the input of an agent that has none, by default
        the last answer. `schema` and `instructions` say what form the answer has.
        """

    async def steps(
        self, at: str, steps: Steps, *, titles: str = "", names: Mapping[str, Any] | None = None
    ) -> list[StepResult]:
        """Steps one after the other; each sees those before it. `titles` is what people call the whole."""

    async def together(self, work: Sequence[Awaitable[T]]) -> list[T]:
        """The result of each, in order. If one fails the others are ended cleanly."""

    def notice(self, text: str, step: str = "") -> None: ...

    def holds(self, condition: str, names: Mapping[str, Any], *, pointer: str, step: str) -> bool:
        """Whether a condition of the workflow is true; RunError with its place if it makes no sense."""


class AgentPlace(msgspec.Struct, frozen=True):
    """Where an agent or a human is asked something."""

    pointer: str
    scope: Callable[[], Names]
    """What its template may use; made when it is asked for."""
    agent: str | None
    """The agent that is named here; None for a human, and for a text that goes to another place's agent."""
    text: str
    text_pointer: str


Check = Callable[[Any, BaseSpec], Iterator[Issue]]
"""Takes the pattern and the workflow around it."""


class Pattern:
    """The base of all patterns. Each is a Struct with the keys of its configuration, and these."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its `type` in the file."""
    title: ClassVar[str]
    """What people call it."""
    names: ClassVar[tuple[str, ...]]
    """What templates see of it, somewhere in it, besides last_response."""
    checks: ClassVar[Mapping[Check, Sequence[str]]] = {}
    """Its own checks, each with the parts of the file that it rests on, as in `capability.checker`."""

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        """A valid configuration as the Struct takes it."""
        return config

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        raise NotImplementedError

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        """What artifacts see of it, besides last_response."""
        raise NotImplementedError

    def id_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Each list whose members must differ in their ids, with its pointer."""
        return iter(())

    def outline(self, spec: BaseSpec) -> "Parts":
        raise NotImplementedError

    def calls(self, boxes: Sequence[Box]) -> Calls:
        """How often agents are asked in a whole run."""
        return Calls(sum(box.calls.least for box in boxes), sum(box.calls.most for box in boxes))

    def story(self, spec: BaseSpec) -> str:
        """How it goes, in a sentence or two."""
        raise NotImplementedError

    async def run(self, run: StepRunner) -> StepResult:
        """Runs it; the last answer."""
        raise NotImplementedError

    @property
    def is_single(self) -> bool:
        """Whether there is one step only, so that nobody has to be told which one."""
        return False


# --- What several patterns have in common -----------------------------------------------------------------

Parts = tuple[list[Box], list[Arrow], list[Frame]]


def shaped_step(step: dict[str, Any]) -> dict[str, Any]:
    if "human" not in step:
        return {"kind": "agent", **step}
    return {"kind": "human", **({"id": step["id"]} if "id" in step else {}), **step["human"]}


def shaped_steps(config: dict[str, Any]) -> dict[str, Any]:
    """A chain, a route or a branch."""
    return {**config, "steps": [shaped_step(step) for step in config["steps"]]}


def with_shaped(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A configuration some of whose keys are single steps."""
    return {**config, **{key: shaped_step(config[key]) for key in keys if key in config}}


def agent_place(at: str, step: AgentStep | HumanStep, names: Callable[[], Names]) -> AgentPlace:
    if isinstance(step, HumanStep):
        return AgentPlace(at, names, None, step.prompt, f"{at}/human/prompt")
    return AgentPlace(at, names, step.agent, step.input, f"{at}/input")


def step_places(spec: BaseSpec, at: str, steps: Steps, **names: Names | None) -> Iterator[AgentPlace]:
    """The places of steps one after the other: each sees those before it, by index or id."""
    order = step_order(steps)
    known = step_results(spec, steps)

    def step_scope(done: int) -> Names:
        def blocked(key: str) -> str:
            return "" if order[key] < done else "that step has not run"

        before: dict[str, Names | None] = {"last_response": None} if done else {}
        before["steps"] = Names(known, "step", blocked=blocked, length=done, methods=())
        return scope_names(spec, "nothing has answered before the first step", **before, **names)

    for index, step in enumerate(steps):
        yield agent_place(f"{at}/{index}", step, partial(step_scope, index))


def step_order(steps: Steps) -> dict[str, int]:
    """The steps by index and by id."""
    order = {str(index): index for index in range(len(steps))}
    return order | {step.id: index for index, step in enumerate(steps) if step.id}


def step_results(spec: BaseSpec, steps: Steps) -> dict[str, Names | None]:
    """The results of steps, by index and by id."""
    agents = [None if isinstance(step, HumanStep) else step.agent for step in steps]
    return result_names(spec, {key: agents[index] for key, index in step_order(steps).items()})


def step_box(key: str, step: Step | HumanStep, title: str, kind: Kind = "step", **more: Any) -> Box:
    if isinstance(step, HumanStep):
        more["calls"] = NEVER
        return Box(key=key, kind="human", title=step.id or title, input=step.prompt, **more)
    return Box(key=key, kind=kind, title=step.id or title, agent=step.agent, input=step.input, **more)


def arrows_in_a_row(keys: Iterable[str]) -> list[Arrow]:
    return [Arrow(source=one, target=other) for one, other in pairwise(keys)]


def all_answers(answers: Mapping[str, StepResult]) -> str:
    """What several steps have answered, each under its name, as one text."""
    return "\n\n".join(f"{name}:\n{result.response}" for name, result in answers.items())


def amount_text(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def times_text(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def at_a_time(spec: BaseSpec) -> str:
    return f"at most {spec.runtime.max_parallel} at a time"


def replaced_schema(spec: BaseSpec, agent: str, role: str, answer: str) -> Iterator[Issue]:
    """If the pattern defines the answer, an agent's `output_schema` has no effect."""
    own = spec.agents.get(agent)
    if own is not None and own.output_schema is not None:
        yield spec.issue(
            json_pointer(("agents", agent, "output_schema")),
            f"The output_schema of {agent!r} has no effect for the {role}, which answers with {answer}.",
            f"Remove it, or give the {role} its own agent.",
            "warning",
        )
