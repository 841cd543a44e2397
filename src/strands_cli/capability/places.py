"""Every place of a pattern where an agent or a human is asked something."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from strands_cli.capability.scopes import (
    Names,
    branches_names,
    draft_scope,
    evaluation_names,
    node_scope,
    predecessors,
    scope,
    step_order,
    step_scope,
    task_scope,
)
from strands_cli.documents.problems import pointer
from strands_cli.types import (
    Chain,
    EvaluatorOptimizer,
    Graph,
    HumanStep,
    Node,
    OrchestratorWorkers,
    Parallel,
    Routing,
    Spec,
    Step,
    Task,
    Workflow,
)
from strands_cli.types.patterns import Steps

CONFIG = "/pattern/config"


class Place(msgspec.Struct, frozen=True):
    pointer: str
    scope: Callable[[], Names]
    """What its template may use; made when it is asked for."""
    agent: str | None
    """The agent that is named here; None for a human, and for a text that another place's agent is given."""
    text: str
    text_pointer: str


def places(spec: Spec) -> Iterator[Place]:
    return _PLACES[type(spec.pattern)](spec, spec.pattern)


def _chain(spec: Spec, pattern: Chain) -> Iterator[Place]:
    return _steps(spec, f"{CONFIG}/steps", pattern.steps)


def _steps(spec: Spec, at: str, steps: Steps, **names: Names | None) -> Iterator[Place]:
    order = step_order(steps)
    for index, step in enumerate(steps):
        yield _place(f"{at}/{index}", step, partial(step_scope, spec, order, index, **names))


def _workflow(spec: Spec, pattern: Workflow) -> Iterator[Place]:
    needs = {task.id: task.needs for task in pattern.tasks}
    for index, task in enumerate(pattern.tasks):
        yield _place(f"{CONFIG}/tasks/{index}", task, partial(task_scope, spec, needs, task.id))


def _routing(spec: Spec, pattern: Routing) -> Iterator[Place]:
    yield _place(f"{CONFIG}/router", pattern.router, partial(scope, spec))
    for name, route in pattern.routes.items():
        yield from _steps(spec, f"{CONFIG}/routes{pointer((name, 'steps'))}", route.steps, route=None)


def _parallel(spec: Spec, pattern: Parallel) -> Iterator[Place]:
    for index, branch in enumerate(pattern.branches):
        yield from _steps(spec, f"{CONFIG}/branches/{index}/steps", branch.steps)
    if pattern.reduce:
        why = "several branches have answered; write branches.ID.response"
        names = partial(scope, spec, why, branches=branches_names(pattern))
        yield _place(f"{CONFIG}/reduce", pattern.reduce, names)


def _evaluator_optimizer(spec: Spec, pattern: EvaluatorOptimizer) -> Iterator[Place]:
    yield _place(f"{CONFIG}/producer", pattern.producer, partial(scope, spec))
    yield _place(f"{CONFIG}/evaluator", pattern.evaluator, partial(draft_scope, spec))
    evaluation = evaluation_names(spec, pattern)
    at = f"{CONFIG}/revise"
    names = partial(scope, spec, draft=None, evaluation=evaluation, last_response=None)
    yield Place(at, names, None, pattern.revise, at)


def _orchestrator_workers(spec: Spec, pattern: OrchestratorWorkers) -> Iterator[Place]:
    yield _place(f"{CONFIG}/orchestrator", pattern.orchestrator, partial(scope, spec, tasks=None))
    yield _place(f"{CONFIG}/worker", pattern.worker, partial(scope, spec, task=None))
    if pattern.reduce:
        why = "several workers have answered; go through tasks"
        yield _place(f"{CONFIG}/reduce", pattern.reduce, partial(scope, spec, why, tasks=None))


def _graph(spec: Spec, pattern: Graph) -> Iterator[Place]:
    leading, entries = predecessors(pattern), frozenset(pattern.entries)
    for name, node in pattern.nodes.items():
        at = f"{CONFIG}/nodes{pointer((name,))}"
        yield _place(at, node, partial(node_scope, spec, leading, entries, name))


def _place(at: str, step: Step | HumanStep | Task | Node, names: Callable[[], Names]) -> Place:
    if isinstance(step, HumanStep):
        return Place(at, names, None, step.prompt, f"{at}/human/prompt")
    return Place(at, names, step.agent, step.input, f"{at}/input")


_PLACES: dict[type, Callable[[Spec, Any], Iterator[Place]]] = {
    Chain: _chain,
    Workflow: _workflow,
    Routing: _routing,
    Parallel: _parallel,
    EvaluatorOptimizer: _evaluator_optimizer,
    OrchestratorWorkers: _orchestrator_workers,
    Graph: _graph,
}
