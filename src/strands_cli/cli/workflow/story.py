"""What a workflow does, in sentences."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from strands_cli.cli.output import count
from strands_cli.cli.workflow.texts import first_line
from strands_cli.patterns.outline import Box, Outline
from strands_cli.types import Spec
from strands_cli.types.patterns import (
    Chain,
    EvaluatorOptimizer,
    Graph,
    OrchestratorWorkers,
    Parallel,
    Routing,
    Workflow,
)


def story(spec: Spec, outline: Outline) -> Iterator[str]:
    """How it goes in one sentence, then one for each thing that is done."""
    tell: Callable[[Any, Spec], str] = _OPENINGS[type(spec.pattern)]
    yield tell(spec.pattern, spec)
    frames = {key: frame.title for frame in outline.frames for key in frame.boxes}
    titles = {box.key: box.title for box in outline.boxes}
    ways = {box.key: _ways_on(box, outline, titles) for box in outline.work}
    inner = outline.boxes[1:-1] if outline.frames else outline.work
    for box in inner:
        yield _sentence(box, frames.get(box.key, "")) + ways[box.key]


def in_words(items: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _sentence(box: Box, frame: str) -> str:
    place = f"{frame}, {box.title}" if frame else box.title
    if place.startswith(("step ", "route ", "branch ")):
        place = place[0].upper() + place[1:]
    if box.note.startswith("after "):
        place += f" ({first_line(box.note)})"
    if box.stage == 0:
        return f"{place} is never reached."
    if box.kind == "human":
        return f'{place}: a human is asked: "{first_line(box.input)}"'
    given = (
        f' is given "{first_line(box.input)}".' if box.input.strip() else " goes on with what came before."
    )
    return f"{place}: {first_line(box.agent)}{given}"


def _ways_on(box: Box, outline: Outline, titles: dict[str, str]) -> str:
    """Where a node of a graph leads."""
    ways = [arrow for arrow in outline.arrows if arrow.source == box.key]
    if not box.key.startswith("nodes/") or not ways:
        return ""
    parts = [f"{titles[arrow.target]}{_condition(arrow.label)}" for arrow in ways]
    return f" Then: {'; '.join(parts)}."


def _condition(label: str) -> str:
    if label in ("", "otherwise"):
        return f" {label}".rstrip()
    return f" if {first_line(label)}"


def _chain(pattern: Chain, spec: Spec) -> str:
    if len(pattern.steps) == 1:
        return "One step runs."
    return f"{len(pattern.steps)} steps run one after the other; each sees what came before."


def _workflow(pattern: Workflow, spec: Spec) -> str:
    tasks = _many(len(pattern.tasks), "task")
    return f"{tasks} run, each as soon as those that it needs are finished, {_together(spec)}."


def _routing(pattern: Routing, spec: Spec) -> str:
    names = in_words([*pattern.routes], "or")
    router = first_line(pattern.router.agent)
    rest = f"; where it names none of them, {first_line(pattern.default)} is taken" if pattern.default else ""
    return f"{router} chooses one route: {names}{rest}. Only the steps of that route run."


def _parallel(pattern: Parallel, spec: Spec) -> str:
    branches = _many(len(pattern.branches), "branch", "branches")
    then = f" Then {first_line(pattern.reduce.agent)} works on all their results." if pattern.reduce else ""
    return f"{branches} run at the same time, {_together(spec)}; within each, one step after the other.{then}"


def _evaluator_optimizer(pattern: EvaluatorOptimizer, spec: Spec) -> str:
    producer, evaluator = first_line(pattern.producer.agent), first_line(pattern.evaluator.agent)
    enough = f"until the score is {pattern.min_score:g} of 100 or more"
    return f"{producer} writes and {evaluator} judges, {enough}, at most {times(pattern.max_iters)}."


def _orchestrator_workers(pattern: OrchestratorWorkers, spec: Spec) -> str:
    rounds = f", in at most {count(pattern.max_rounds, 'round')}" if pattern.max_rounds > 1 else ""
    then = f" Then {first_line(pattern.reduce.agent)} sums up." if pattern.reduce else ""
    return (
        f"{first_line(pattern.orchestrator.agent)} makes up to {count(pattern.max_tasks, 'task')}, and "
        f"{first_line(pattern.worker.agent)} does each of them, {_together(spec)}{rounds}.{then}"
    )


def _graph(pattern: Graph, spec: Spec) -> str:
    entries = in_words(pattern.entries) or "no node"
    return (
        f"A graph of {count(len(pattern.nodes), 'node')} begins at {first_line(entries)}; "
        f"a node runs at most {times(pattern.max_visits)}."
    )


def _many(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _together(spec: Spec) -> str:
    return f"at most {spec.runtime.max_parallel} at a time"


_OPENINGS: dict[type, Callable[[Any, Spec], str]] = {
    Chain: _chain,
    Workflow: _workflow,
    Routing: _routing,
    Parallel: _parallel,
    EvaluatorOptimizer: _evaluator_optimizer,
    OrchestratorWorkers: _orchestrator_workers,
    Graph: _graph,
}
