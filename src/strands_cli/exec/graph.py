"""Nodes and edges, with conditions, fan-out and loops.

It goes in rounds: the nodes of a round run at the same time; when all of them have answered, the edges that
leave them are judged, and where those that are taken lead is the next round. A node that several edges of a
round lead to runs once. What runs therefore does not depend on which node is the faster one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from strands_cli.conditions import ConditionError, holds, parse_condition
from strands_cli.errors import RunError
from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions, together
from strands_cli.exec.steps import Wanted, run_step
from strands_cli.types import Graph, Node, RunResult, Spec, StepResult


async def run_graph(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _graph, Graph)


async def _graph(run: Run, pattern: Graph) -> StepResult:
    run.names["nodes"] = nodes = dict[str, StepResult]()
    visits: Counter[str] = Counter()
    arrivals: Mapping[str, str] = dict.fromkeys(pattern.entries, "")
    results: list[StepResult] = []
    turn = 0
    while arrivals:
        turn += 1
        visits.update(list(arrivals))
        seen = dict(nodes)
        work = [
            _visit(run, pattern.nodes[name], name, visits[name], turn=turn, seen=seen, source=arrivals[name])
            for name in arrivals
        ]
        results = await together(run, work)
        nodes |= dict(zip(arrivals, results, strict=True))
        arrivals = _next(run, pattern, list(arrivals), nodes, visits)
    return results[-1]


async def _visit(
    run: Run, node: Node, name: str, visit: int, *, turn: int, seen: Mapping[str, StepResult], source: str
) -> StepResult:
    names: dict[str, Any] = {"nodes": seen}
    if source:
        names["last_response"] = seen[source].response
    key, title = (f"nodes/{name}", name) if visit == 1 else (f"nodes/{name}#{visit}", f"{name}, time {visit}")
    return await run_step(run, key, node, title=title, names=names, wanted=Wanted(turn=turn))


def _next(
    run: Run, pattern: Graph, ended: Sequence[str], nodes: Mapping[str, StepResult], visits: Counter[str]
) -> dict[str, str]:
    """The nodes of the next round, in the order of the edges, each with the last node that led to it."""
    arrivals: dict[str, str] = {}
    used_up: set[str] = set()
    for index, edge in enumerate(pattern.edges):
        if edge.source not in ended or not _is_taken(run, index, edge.when, nodes, edge.source):
            continue
        for name in edge.to:
            if visits[name] < pattern.max_visits:
                arrivals[name] = edge.source
            else:
                used_up.add(name)
    for name in sorted(used_up):
        run.notice(
            f"The node {name} has run {pattern.max_visits} times, and may not run again.", f"nodes/{name}"
        )
    return arrivals


def _is_taken(run: Run, index: int, when: str | None, nodes: Mapping[str, StepResult], source: str) -> bool:
    if when is None:
        return True
    names = {"nodes": nodes, "last_response": nodes[source].response}
    try:
        return holds(parse_condition(when), run.scope(names))
    except ConditionError as error:
        issue = run.spec.issue(f"/pattern/config/edges/{index}/when", error.message)
        raise RunError(f"{issue.place}: {error.message}", hint=error.hint, step=f"nodes/{source}") from error
