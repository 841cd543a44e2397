"""Graphs: where they begin, what is reached, and on which conditions."""

from collections.abc import Iterator

from strands_cli.capability.places import CONFIG
from strands_cli.capability.scopes import edge_scope, predecessors, reachable, successors, unresolved
from strands_cli.conditions import (
    ConditionError,
    Expression,
    is_certain,
    is_impossible,
    negation,
    parse_condition,
    paths,
)
from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.types import Edge, Graph, Spec


def check_edges(spec: Spec) -> Iterator[Issue]:
    """Every node that an edge or `start` names is there."""
    graph = spec.pattern
    if not isinstance(graph, Graph):
        return
    named = [(f"{CONFIG}/start", graph.start)] if graph.start is not None else []
    for index, edge in enumerate(graph.edges):
        at = f"{CONFIG}/edges/{index}"
        named.append((f"{at}/from", edge.source))
        named += [(_target_pointer(spec, f"{at}/to", number), name) for number, name in enumerate(edge.to)]
    for at, name in named:
        if name not in graph.nodes:
            hint = did_you_mean(name, graph.nodes) or f"There are {', '.join(graph.nodes)}."
            yield spec.issue(at, f"There is no node {name!r}.", hint)


def _target_pointer(spec: Spec, at: str, number: int) -> str:
    """`to` is a name or a list of names; the type has the list only."""
    return f"{at}/{number}" if f"{at}/{number}" in spec.positions else at


def check_reachability(spec: Spec) -> Iterator[Issue]:
    graph = spec.pattern
    if not isinstance(graph, Graph):
        return
    if not graph.entries:
        yield spec.issue(
            CONFIG,
            "The graph has no beginning: an edge leads to every node.",
            "Name the first node: start: NODE.",
        )
        return
    found = reachable(successors(graph), graph.entries)
    for name in graph.nodes:
        if name not in found:
            yield spec.issue(
                f"{CONFIG}/nodes{pointer((name,))}",
                f"The node {name!r} can never be reached from {', '.join(graph.entries)}.",
                "Add an edge that leads to it, or take it out.",
            )


def check_conditions(spec: Spec) -> Iterator[Issue]:
    graph = spec.pattern
    if not isinstance(graph, Graph):
        return
    leading = predecessors(graph)
    for index, edge in enumerate(graph.edges):
        if edge.when is None:
            continue
        at = f"{CONFIG}/edges/{index}/when"
        try:
            condition = parse_condition(edge.when)
        except ConditionError as error:
            reason = f"This is not a condition: {error.message} (column {error.column + 1} of the text)."
            yield spec.issue(at, reason, error.hint)
            continue
        scope = edge_scope(spec, leading, edge.source)
        for path in paths(condition):
            missing = unresolved(scope, path.name, path.path)
            if missing:
                yield spec.issue(at, f"{missing[0]}.", missing[1])
        yield from _constant(spec, at, condition)
    yield from _duplicates(spec, graph)


def _constant(spec: Spec, at: str, condition: Expression) -> Iterator[Issue]:
    if is_impossible(condition):
        yield spec.issue(at, "This condition is never true.", "Correct it, or take the edge out.")
    elif is_certain(condition):
        yield spec.issue(at, "This condition is always true.", "Leave 'when' out.", "warning")


def _duplicates(spec: Spec, graph: Graph) -> Iterator[Issue]:
    """Edges that another edge between the same nodes makes needless."""
    seen: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    ways = [(index, edge, target) for index, edge in enumerate(graph.edges) for target in edge.to]
    for index, edge, target in ways:
        others = seen.setdefault((edge.source, target), [])
        same = (other for other, when in others if when is None or edge.when in (None, when))
        first = next(same, None)
        if first is not None:
            yield _needless(spec, index, first, target)
        others.append((index, edge.when))


def _needless(spec: Spec, index: int, other: int, target: str) -> Issue:
    _, line, _ = spec.position(f"{CONFIG}/edges/{other}")
    where = f"in line {line}" if line else f"at {CONFIG}/edges/{other}"
    return spec.issue(
        f"{CONFIG}/edges/{index}",
        f"The edge {where} leads to {target!r} anyway.",
        "Keep one of the two.",
        "warning",
    )


def check_ways_on(spec: Spec) -> Iterator[Issue]:
    """A node with conditions on all its edges, some of them forward, may end the run where none is true.

    A node whose edges all lead back to it is the end of a loop: to stop there is what its author wants.
    """
    graph = spec.pattern
    if not isinstance(graph, Graph):
        return
    ways = successors(graph)
    leaving: dict[str, list[tuple[int, Edge]]] = {}
    for index, edge in enumerate(graph.edges):
        leaving.setdefault(edge.source, []).append((index, edge))
    for name, own in leaving.items():
        if any(edge.when is None for _, edge in own) or _are_complete(own):
            continue
        if all(name in reachable(ways, edge.to) for _, edge in own):
            continue
        yield spec.issue(
            f"{CONFIG}/edges/{own[-1][0]}/when",
            f"Where none of its conditions is true, the graph ends at {name!r}.",
            "Add an edge for all other cases: one with the opposite condition, or one without any.",
            "warning",
        )


def _are_complete(edges: list[tuple[int, Edge]]) -> bool:
    """Whether one of the conditions is the opposite of another."""
    try:
        conditions = [parse_condition(edge.when or "") for _, edge in edges]
    except ConditionError:
        return True
    return any(negation(one) in conditions or is_certain(one) for one in conditions)
