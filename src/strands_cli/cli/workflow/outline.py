"""From a Spec to the outline of what it would do; nothing is run or imported."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import msgspec

from strands_cli.capability.plugins import plugin_tools
from strands_cli.cli.workflow.timing import depths, stages, visits
from strands_cli.patterns.outline import (
    END,
    NEVER,
    ONCE,
    START,
    Arrow,
    Box,
    Calls,
    Frame,
    Kind,
    Outline,
)
from strands_cli.types import Spec
from strands_cli.types.patterns import (
    Chain,
    EvaluatorOptimizer,
    Graph,
    HumanStep,
    OrchestratorWorkers,
    Parallel,
    Routing,
    Step,
    Steps,
    Workflow,
)

Parts = tuple[list[Box], list[Arrow], list[Frame]]


def outline_of(spec: Spec) -> Outline:
    build: Callable[[Any, Spec], Parts] = _BUILDERS[type(spec.pattern)]
    boxes, arrows, frames = build(spec.pattern, spec)
    boxes = [msgspec.structs.replace(box, tools=tools_of(spec, box.agent)) for box in boxes]
    wanted = _total(spec, boxes)
    allowed = spec.runtime.budgets.max_steps or wanted.most
    calls = Calls(min(wanted.least, allowed), min(wanted.most, allowed))
    start = Box(key=START, kind="start", title="start", calls=NEVER)
    end = Box(key=END, kind="end", title="end", calls=NEVER)
    return Outline(
        boxes=(start, *boxes, end),
        arrows=tuple(arrows),
        frames=tuple(frames),
        calls=calls,
        capped=allowed < wanted.most,
    )


def tools_of(spec: Spec, agent: str) -> tuple[str, ...]:
    """The tools that an agent gets, as the file names them: those that it lists, else all declared ones."""
    if agent not in spec.agents:
        return ()
    listed = spec.agents[agent].tools
    return declared_tools(spec) if listed is None else listed


def declared_tools(spec: Spec) -> tuple[str, ...]:
    executors = (executor.id for executor in spec.tools.http_executors)
    plugins = (info.id for _, info in plugin_tools(spec))
    return tuple(dict.fromkeys([*(tool.callable for tool in spec.tools.python), *executors, *plugins]))


def _total(spec: Spec, boxes: list[Box]) -> Calls:
    if isinstance(spec.pattern, Routing):
        routes = [_agent_steps(route.steps) for route in spec.pattern.routes.values()]
        return Calls(1 + min(routes), 1 + max(routes))
    return Calls(sum(box.calls.least for box in boxes), sum(box.calls.most for box in boxes))


def _agent_steps(steps: Steps) -> int:
    return sum(isinstance(step, Step) for step in steps)


def _box(key: str, step: Step | HumanStep, title: str, kind: Kind = "step", **more: Any) -> Box:
    if isinstance(step, HumanStep):
        return Box(
            key=key,
            kind="human",
            title=step.id or title,
            input=step.prompt,
            calls=NEVER,
            **_without_calls(more),
        )
    return Box(key=key, kind=kind, title=step.id or title, agent=step.agent, input=step.input, **more)


def _without_calls(more: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in more.items() if name != "calls"}


def _in_a_row(keys: Iterable[str]) -> list[Arrow]:
    return [Arrow(source=one, target=other) for one, other in pairwise(keys)]


def _chain(pattern: Chain, spec: Spec) -> Parts:
    boxes = [
        _box(f"steps/{index}", step, f"step {index + 1}", stage=index + 1)
        for index, step in enumerate(pattern.steps)
    ]
    return boxes, _in_a_row([START, *(box.key for box in boxes), END]), []


def _workflow(pattern: Workflow, spec: Spec) -> Parts:
    keys: dict[str, str] = {}
    for index, task in enumerate(pattern.tasks):
        keys.setdefault(task.id, f"tasks/{index}")
    needs = {
        f"tasks/{index}": [keys[name] for name in dict.fromkeys(task.needs) if name in keys]
        for index, task in enumerate(pattern.tasks)
    }
    when = stages(needs, spec.runtime.max_parallel)
    boxes = [
        Box(
            key=key,
            kind="step",
            title=task.id,
            agent=task.agent,
            input=task.input,
            stage=when.get(key, 0),
            note=f"after {', '.join(needed)}" if needed else "",
            calls=ONCE if key in when else NEVER,
        )
        for key, task in zip(needs, pattern.tasks, strict=True)
        for needed in [[name for name in dict.fromkeys(task.needs) if name in keys]]
    ]
    needed_keys = {other for others in needs.values() for other in others}
    arrows = [Arrow(source=START, target=key) for key, others in needs.items() if not others]
    arrows += [Arrow(source=other, target=key) for key, others in needs.items() for other in others]
    arrows += [Arrow(source=key, target=END) for key in needs if key not in needed_keys]
    return boxes, arrows, []


def _routing(pattern: Routing, spec: Spec) -> Parts:
    boxes = [_box("router", pattern.router, "router", "router", stage=1)]
    arrows, frames = [Arrow(source=START, target="router")], list[Frame]()
    for name, route in pattern.routes.items():
        default = name == pattern.default
        steps = [
            _box(
                f"routes/{name}/steps/{index}",
                step,
                f"step {index + 1}",
                stage=index + 2,
                when=f"the router chooses {name}{' or none' if default else ''}",
                calls=Calls(int(len(pattern.routes) == 1), 1),
            )
            for index, step in enumerate(route.steps)
        ]
        boxes += steps
        keys = [box.key for box in steps]
        label = f"{name} (default)" if default else name
        arrows += [Arrow(source="router", target=keys[0], label=label), *_in_a_row([*keys, END])]
        frames.append(Frame(title=f"route {name}", boxes=tuple(keys)))
    return boxes, arrows, frames


def _parallel(pattern: Parallel, spec: Spec) -> Parts:
    needs: dict[str, list[str]] = {}
    for number, branch in enumerate(pattern.branches):
        keys = [f"branches/{number}/steps/{index}" for index in range(len(branch.steps))]
        needs |= {key: keys[index - 1 : index] for index, key in enumerate(keys)}
    when = stages(needs, spec.runtime.max_parallel)
    boxes, arrows, frames = list[Box](), list[Arrow](), list[Frame]()
    after = "reduce" if pattern.reduce else END
    for number, branch in enumerate(pattern.branches):
        steps = [
            _box(key, step, f"step {index + 1}", stage=when[key], note=f"branch {branch.id}")
            for index, step in enumerate(branch.steps)
            for key in [f"branches/{number}/steps/{index}"]
        ]
        boxes += steps
        arrows += _in_a_row([START, *(box.key for box in steps), after])
        frames.append(Frame(title=f"branch {branch.id}", boxes=tuple(box.key for box in steps)))
    if pattern.reduce:
        last = max(when.values()) + 1
        boxes.append(_box("reduce", pattern.reduce, "reduce", "reduce", stage=last, note="over all branches"))
        arrows.append(Arrow(source="reduce", target=END))
    return boxes, arrows, frames


def _evaluator_optimizer(pattern: EvaluatorOptimizer, spec: Spec) -> Parts:
    score, most = f"{pattern.min_score:g}", pattern.max_iters
    calls = Calls(1, most)
    times = "once" if most == 1 else f"until score >= {score}, at most {most} times"
    boxes = [
        _box("producer", pattern.producer, "producer", stage=1, calls=calls, note=times),
        _box("evaluator", pattern.evaluator, "evaluator", "evaluator", stage=2, calls=calls, note=times),
    ]
    done = f"score >= {score}, or after {most} times" if most > 1 else ""
    arrows = [
        *_in_a_row([START, "producer", "evaluator"]),
        Arrow(source="evaluator", target=END, label=done),
    ]
    if most > 1:
        arrows.append(Arrow(source="evaluator", target="producer", label=times))
    return boxes, arrows, []


def _orchestrator_workers(pattern: OrchestratorWorkers, spec: Spec) -> Parts:
    rounds, tasks = pattern.max_rounds, pattern.max_tasks
    together = min(tasks, spec.runtime.max_parallel)
    note = f"up to {tasks} tasks{' a round' if rounds > 1 else ''}, {together} at a time"
    boxes = [
        _box("orchestrator", pattern.orchestrator, "orchestrator", "orchestrator", stage=1,
             calls=Calls(1, rounds), note="makes the tasks"),
        _box("worker", pattern.worker, "worker", "worker", stage=2,
             calls=Calls(0, rounds * tasks), note=note),
    ]  # fmt: skip
    arrows = [
        Arrow(source=START, target="orchestrator"),
        Arrow(source="orchestrator", target="worker", label="for each task"),
    ]
    if rounds > 1:
        arrows.append(Arrow(source="worker", target="orchestrator", label=f"next round, at most {rounds}"))
    if pattern.reduce:
        boxes.append(_box("reduce", pattern.reduce, "reduce", "reduce", stage=3, note="over all tasks"))
    arrows += _in_a_row(["worker", *(["reduce"] if pattern.reduce else []), END])
    return boxes, arrows, []


def _graph(pattern: Graph, spec: Spec) -> Parts:
    depth, often = depths(pattern), visits(pattern)
    entries = [name for name in pattern.entries if name in pattern.nodes]
    edges = [
        (edge.source, name, edge.when or "")
        for edge in pattern.edges
        for name in edge.to
        if edge.source in pattern.nodes and name in pattern.nodes
    ]
    boxes = [
        Box(
            key=f"nodes/{name}",
            kind="step",
            title=name,
            agent=node.agent,
            input=node.input,
            stage=depth.get(name, 0),
            when=_conditions(name, edges, entries),
            calls=often[name],
        )
        for name, node in pattern.nodes.items()
    ]
    arrows = [Arrow(source=START, target=f"nodes/{name}") for name in entries]
    arrows += [
        Arrow(source=f"nodes/{one}", target=f"nodes/{other}", label=when) for one, other, when in edges
    ]
    arrows += [
        Arrow(source=f"nodes/{name}", target=END, label=label) for name, label in _ends(pattern, edges)
    ]
    return boxes, arrows, []


def _conditions(name: str, edges: list[tuple[str, str, str]], entries: list[str]) -> str:
    leading = [when for _, other, when in edges if other == name]
    if name in entries or not all(leading):
        return ""
    return " or ".join(dict.fromkeys(leading))


def _ends(pattern: Graph, edges: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Where a run may end: after a node with no way on, or with one way whose condition may not hold.

    Several conditions mostly cover every case, and an arrow for what is left would mislead.
    """
    ways = {name: [when for source, _, when in edges if source == name] for name in pattern.nodes}
    last = [(name, "") for name, whens in ways.items() if not whens]
    maybe = [(name, "otherwise") for name, whens in ways.items() if whens and all(whens)]
    return last + [item for item in maybe if len(ways[item[0]]) == 1 or not last]


_BUILDERS: dict[type, Callable[[Any, Spec], Parts]] = {
    Chain: _chain,
    Workflow: _workflow,
    Routing: _routing,
    Parallel: _parallel,
    EvaluatorOptimizer: _evaluator_optimizer,
    OrchestratorWorkers: _orchestrator_workers,
    Graph: _graph,
}
