"""What every pattern has: its shape in the file, its places for agents, its outline, and how it runs."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue
from strands_cli.patterns.outline import NEVER, ONCE, Arrow, Box, Calls, Frame, Kind, first_line
from strands_cli.patterns.scope import Names, id_key, result_names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec

CONFIG = "/pattern/config"
T = TypeVar("T")


MAX_ITEMS = 1000
"""How many items a `foreach` may have."""
ITEM_NAMES = ("item", "index")
"""What templates see of a `foreach`."""


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="agent", tag_field="kind"):
    """One agent, one input."""

    agent: str
    input: str = ""
    id: str = ""
    conversation: Literal["continue", "fresh"] | None = None
    """Whether it goes on with the conversation of its agent; by default as the agent says."""
    vars: dict[str, str | int | float | bool] = {}
    """Names for its templates."""
    tools: tuple[str, ...] | None = None
    """The declared tools that the agent gets here; None for those that it always gets."""
    foreach: str | list[Any] | None = None
    """A list, or a template that comes to one: the step is done for each item."""


class HumanStep(msgspec.Struct, frozen=True, kw_only=True, tag="human", tag_field="kind"):
    """A question to a human."""

    prompt: str
    choices: tuple[str, ...] = ()
    """The answers that it takes; without any, it takes all."""
    default: str | None = None
    timeout_s: float | None = None
    id: str = ""


class ToolStep(msgspec.Struct, frozen=True, kw_only=True, tag="tool", tag_field="kind"):
    """A call of one tool."""

    tool: str
    arguments: dict[str, Any] = {}
    id: str = ""
    foreach: str | list[Any] | None = None


class WorkflowStep(msgspec.Struct, frozen=True, kw_only=True, tag="workflow", tag_field="kind"):
    """Another workflow, whose answer is that of the step."""

    workflow: str
    """Its file, relative to the one with the step."""
    inputs: dict[str, Any] = {}
    id: str = ""
    foreach: str | list[Any] | None = None


AnyStep = Step | HumanStep | ToolStep | WorkflowStep
"""Every kind of step. A kind is known by its type here, in the functions below that take `AnyStep`, and in
`exec.steps.Run.step`; patterns take all of them alike."""
Steps = tuple[AnyStep, ...]


class StepRunner(Protocol):
    """The run as a pattern sees it. Retries, budgets, events and the journal are behind `step`."""

    @property
    def spec(self) -> BaseSpec: ...

    @property
    def inputs(self) -> Mapping[str, Any]: ...

    @property
    def names(self) -> dict[str, Any]:
        """What the pattern knows so far, for the templates of artifacts."""

    async def step(
        self,
        key: str,
        step: AnyStep,
        *,
        title: str,
        names: Mapping[str, Any],
        turn: int = 0,
        input: str | None = None,
        input_at: str = "",
        default_input: str = "",
        schema: dict[str, Any] | None = None,
        max_retries: int | None = None,
        instructions: str = "",
        conversation: str = "",
    ) -> StepResult:
        """Does one step, of any kind. `key` is where it stands in the pattern, with `#2` for its second time.

        `turn` is the round of a pattern that has rounds. The rest is for agents: `input` is a template in
        place of the step's own, which stands at `input_at`; `default_input` is the input of an agent that has
        none, by default the last answer. `schema` and `instructions` say what form the answer has; one that
        does not fit is asked for again, at most `max_retries` times. Steps of one agent with the same
        `conversation`, which names a sequence, remember those before them.
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
    step: AnyStep | None = None
    """The step that stands here; None for a text that belongs to another place's step."""
    before: Callable[[], Names] | None = None
    """What its `foreach` may use, which has no item yet."""

    @property
    def texts(self) -> Iterator[tuple[str, str, Callable[[], Names]]]:
        """The templates at this place: where each stands, and what it may use."""
        step = self.step
        if self.text:
            yield self.text_pointer, self.text, self.scope
        if isinstance(step, ToolStep):
            yield from ((*one, self.scope) for one in _texts_in(f"{self.pointer}/arguments", step.arguments))
        elif isinstance(step, WorkflowStep):
            yield from ((*one, self.scope) for one in _texts_in(f"{self.pointer}/inputs", step.inputs))
        if self.before is not None:
            for one in _texts_in(f"{self.pointer}/foreach", foreach_of(step)):
                yield *one, self.before


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
    review_names: ClassVar[tuple[str, ...]] = ()
    """What they see besides if one of its steps has a review."""
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
    def has_review(self) -> bool:
        return False

    @property
    def is_single(self) -> bool:
        """Whether there is one step only, so that nobody has to be told which one."""
        return False


# --- What several patterns have in common -----------------------------------------------------------------

Parts = tuple[list[Box], list[Arrow], list[Frame]]


def shaped_step(step: dict[str, Any]) -> dict[str, Any]:
    for kind in ("agent", "tool", "workflow"):
        if kind in step:
            return {"kind": kind, **step}
    return {"kind": "human", **({"id": step["id"]} if "id" in step else {}), **step["human"]}


def shaped_steps(config: dict[str, Any]) -> dict[str, Any]:
    """A chain, a route or a branch."""
    return {**config, "steps": [shaped_step(step) for step in config["steps"]]}


def with_shaped(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A configuration some of whose keys are single steps; the review behind one is a field of its own."""
    shaped = dict(config)
    for key in keys:
        if key in config:
            step = dict(config[key])
            review = step.pop("review", None)
            shaped[key] = shaped_step(step)
            if review is not None:
                shaped[f"{key}_review"] = shaped_step({"human": review})
    return shaped


def agent_place(at: str, step: AnyStep, names: Callable[[], Names]) -> AgentPlace:
    before, own = names, names if foreach_of(step) is None else partial(with_names, names, ITEM_NAMES)
    match step:
        case HumanStep(prompt=prompt):
            return AgentPlace(at, own, None, prompt, f"{at}/human/prompt", step)
        case Step(agent=agent, input=text):
            own = partial(with_names, own, step.vars) if step.vars else own
            return AgentPlace(at, own, agent, text, f"{at}/input", step, before)
    return AgentPlace(at, own, None, "", at, step, before)


def foreach_of(step: AnyStep | None) -> str | list[Any] | None:
    """What a step goes through; None for a step that is done once."""
    return None if step is None or isinstance(step, HumanStep) else step.foreach


def with_names(names: Callable[[], Names], more: Iterable[str]) -> Names:
    """A scope with more names; those of the pattern come first."""
    seen = names()
    absent = {name: why for name, why in seen.absent.items() if name not in more}
    return msgspec.structs.replace(seen, known={**dict.fromkeys(more), **seen.known}, absent=absent)


def _texts_in(at: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts in a JSON value, each with its pointer."""
    if isinstance(value, str):
        yield at, value
    inner = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, part in inner:
        yield from _texts_in(at + json_pointer((key,)), part)


def matching_choice(answer: str, choices: Iterable[str]) -> str | None:
    """The choice that an answer names, in capitals or not; None if it names none."""
    text, known = answer.strip(), list(choices)
    same = [choice for choice in known if choice == text]
    alike = [choice for choice in known if choice.casefold() == text.casefold()]
    return next(iter(same or alike), None)


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
    return order | {id_key(step.id): index for index, step in enumerate(steps) if step.id}


def step_results(spec: BaseSpec, steps: Steps) -> dict[str, Names | None]:
    """The results of steps, by index and by id."""
    return results_by_key(spec, {key: steps[index] for key, index in step_order(steps).items()})


def results_by_key(spec: BaseSpec, steps: Mapping[str, AnyStep]) -> dict[str, Names | None]:
    """What templates see of the result of each step; what does the same is known once, for thousands."""
    kinds: dict[tuple[str, str, bool], Names] = {}
    for step in steps.values():
        if (kind := _result_kind(step)) not in kinds:
            kinds[kind] = result_names(spec, *kind)
    return {key: kinds[_result_kind(step)] for key, step in steps.items()}


def _result_kind(step: AnyStep) -> tuple[str, str, bool]:
    """What a result depends on: the kind of the step, who does it, and whether it is done for each item."""
    match step:
        case HumanStep():
            return "human", "", False
        case ToolStep(tool=name):
            return "tool", name, step.foreach is not None
        case WorkflowStep(workflow=name):
            return "workflow", name, step.foreach is not None
    return "agent", step.agent, step.foreach is not None


def actor_text(step: AnyStep) -> str:
    """Who does a step, in a sentence."""
    kind, name, _ = _result_kind(step)
    return {"human": "a human", "agent": first_line(name)}.get(kind, f"the {kind} {first_line(name)}")


def step_box(key: str, step: AnyStep, title: str, kind: Kind = "step", **more: Any) -> Box:
    calls, items = more.pop("calls", ONCE), foreach_of(step)
    more |= {"key": key, "title": step.id or title}
    if items is not None:
        often = Calls(len(items), len(items)) if isinstance(items, list) else Calls(0, MAX_ITEMS)
        calls, more["foreach"] = calls * often, value_text(items)
    match step:
        case HumanStep():
            unanswered = f"by default {first_line(step.default)!r}" if step.default is not None else ""
            choices = ", ".join(step.choices)
            limit = f"within {step.timeout_s:g} seconds" if step.timeout_s else ""
            limit = "waits for an answer" if step.timeout_s == 0 else limit
            more["note"] = "; ".join(filter(None, [more.get("note", ""), choices, limit, unanswered]))
            return Box(kind="human", input=step.prompt, calls=NEVER, **more)
        case ToolStep():
            text = value_text(step.arguments)
            return Box(kind="tool", tools=(step.tool,), input=text, calls=NEVER, **more)
        case WorkflowStep():
            return Box(
                kind="workflow", workflow=step.workflow, input=value_text(step.inputs), calls=calls, **more
            )
    more["conversation"] = step.conversation if items is None else "fresh"  # items are done at the same time
    more |= {"vars": step.vars, "own_tools": step.tools}
    return Box(kind=kind, agent=step.agent, input=step.input, calls=calls, **more)


def is_certain(step: AnyStep) -> bool:
    """Whether the file says how often a step asks a model."""
    return not isinstance(step, WorkflowStep) and not isinstance(foreach_of(step), str)


def value_text(value: Any) -> str:
    """Arguments, inputs or items for people: templates as they are written, other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(f"{name}: {value_text(inner)}" for name, inner in value.items())
    return msgspec.json.encode(value).decode()


def arrows_in_a_row(keys: Iterable[str]) -> list[Arrow]:
    return [Arrow(source=one, target=other) for one, other in pairwise(keys)]


def all_answers(answers: Mapping[str, StepResult]) -> str:
    """What several steps have answered, each under its name, as one text."""
    return "\n\n".join(f"{name}:\n{result.response}" for name, result in answers.items())


def whole_result(response: str, outputs: dict[str, Any] | list[Any]) -> StepResult:
    """The result of a pattern that no step has answered; its output is all outputs, if none is missing."""
    values = outputs.values() if isinstance(outputs, dict) else outputs
    output = None if any(value is None for value in values) else outputs
    return StepResult(key="", id="", agent="", response=response, output=output)


def amount_text(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def times_text(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def at_a_time(spec: BaseSpec, limit: int | None = None) -> str:
    return f"at most {min(spec.runtime.max_parallel, limit or MAX_ITEMS)} at a time"


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
