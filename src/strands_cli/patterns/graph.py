"""Nodes and edges, with conditions, fan-out and loops.

It goes in rounds: the nodes of a round run at the same time; when all of them have answered, the edges that
leave them are judged, and where those that are taken lead is the next round. A node that several edges of a
round lead to runs once. What runs therefore does not depend on which node is the faster one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from strands_cli.conditions import (
    ConditionError,
    is_certain,
    is_exhaustive,
    is_impossible,
    names_in_condition,
    parse_condition,
)
from strands_cli.documents.problems import json_pointer, listed_in, schemas_at
from strands_cli.errors import Issue, did_you_mean
from strands_cli.patterns.outline import END, START, Arrow, Calls, first_line
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    AnyStep,
    Parts,
    Pattern,
    Step,
    StepRunner,
    agent_place,
    amount_text,
    results_by_key,
    shaped_step,
    step_box,
    times_text,
)
from strands_cli.patterns.scope import Names, reachable_names, scope_names, unresolved_name
from strands_cli.templates import Name
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    source: str = msgspec.field(name="from")
    to: tuple[str, ...]
    when: str | None = None


# --- Checks -----------------------------------------------------------------------------------------------


def check_edges(graph: "Graph", spec: BaseSpec) -> Iterator[Issue]:
    """Every node that an edge or `start` names is there."""
    named = [(f"{CONFIG}/start", graph.start)] if graph.start is not None else []
    for index, edge in enumerate(graph.edges):
        at = f"{CONFIG}/edges/{index}"
        named.append((f"{at}/from", edge.source))
        for number, name in enumerate(edge.to):
            # `to` is a name or a list of names; the type has the list only.
            one_of_many = f"{at}/to/{number}"
            named.append((one_of_many if one_of_many in spec.positions else f"{at}/to", name))
    for at, name in named:
        if name not in graph.nodes:
            hint = did_you_mean(name, graph.nodes) or f"Available: {', '.join(graph.nodes)}."
            yield spec.issue(at, f"There is no node {name!r}.", hint)


def check_reachability(graph: "Graph", spec: BaseSpec) -> Iterator[Issue]:
    if not graph.entries:
        yield spec.issue(
            CONFIG,
            "The graph has no start: every node has an incoming edge.",
            "Name the first node: start: NODE.",
        )
        return
    found = reachable_names(graph.edges_from(), graph.entries)
    for name in graph.nodes:
        if name not in found:
            yield spec.issue(
                f"{CONFIG}/nodes{json_pointer((name,))}",
                f"The node {name!r} can never be reached from {', '.join(graph.entries)}.",
                "Add an edge that leads to it, or remove it.",
            )


def check_conditions(graph: "Graph", spec: BaseSpec) -> Iterator[Issue]:
    sources, known = graph.edges_to(), graph.results(spec)
    told = set[tuple[str, str]]()  # what edges of one node repeat: not (…) and (…)
    for index, edge in enumerate(graph.edges):
        if edge.when is None:
            continue
        at = f"{CONFIG}/edges/{index}/when"
        try:
            condition = parse_condition(edge.when)
        except ConditionError as error:
            reason = f"Invalid condition: {error.message} (column {error.column + 1} of the text)."
            yield spec.issue(at, reason, error.hint)
            continue
        seen = _node_scope(spec, known, sources, edge.source, (edge.source,))
        for path in names_in_condition(condition):
            missing = unresolved_name(seen, path.name, path.path)
            if missing and (edge.source, missing[0]) not in told:
                told.add((edge.source, missing[0]))
                yield spec.issue(at, f"{missing[0]}.", missing[1])
        if is_impossible(condition):
            yield spec.issue(at, "This condition is never true.", "Fix it, or remove the edge.")
        elif is_certain(condition):
            yield spec.issue(at, "This condition is always true.", "Leave 'when' out.", "warning")


def check_duplicates(graph: "Graph", spec: BaseSpec) -> Iterator[Issue]:
    """Edges that another edge between the same nodes makes needless."""
    seen: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    single = [(index, edge, target) for index, edge in enumerate(graph.edges) for target in edge.to]
    for index, edge, target in single:
        others = seen.setdefault((edge.source, target), [])
        same = (other for other, when in others if when is None or edge.when in (None, when))
        first = next(same, None)
        if first is not None:
            _, line, _ = spec.position(f"{CONFIG}/edges/{first}")
            where = f"in line {line}" if line else f"at {CONFIG}/edges/{first}"
            reason = f"The edge {where} leads to {target!r} anyway."
            yield spec.issue(f"{CONFIG}/edges/{index}", reason, "Keep only one.", "warning")
        others.append((index, edge.when))


def check_ends(graph: "Graph", spec: BaseSpec) -> Iterator[Issue]:
    """A node with conditions on all its edges, some of them forward, may end the run where none is true.

    A node whose edges all lead back to it is the end of a loop: to stop there is what its author wants.
    """
    targets = graph.edges_from()
    leaving: dict[str, list[tuple[int, Edge]]] = {}
    for index, edge in enumerate(graph.edges):
        leaving.setdefault(edge.source, []).append((index, edge))
    for name, own in leaving.items():
        is_never_null = partial(_is_never_null, graph, spec, name)
        if any(edge.when is None for _, edge in own) or _are_complete(own, is_never_null):
            continue
        if all(name in reachable_names(targets, edge.to) for _, edge in own):
            continue
        yield spec.issue(
            f"{CONFIG}/edges/{own[-1][0]}/when",
            f"If none of its conditions is true, the graph ends at {name!r}.",
            "Add an edge for the other cases: with the opposite condition, or without one.",
            "warning",
        )


def _are_complete(edges: list[tuple[int, Edge]], is_never_null: Callable[[Name], bool]) -> bool:
    """Whether one of the conditions is always true."""
    try:
        conditions = [parse_condition(edge.when or "") for _, edge in edges]
    except ConditionError:
        return True
    return is_exhaustive(conditions, is_never_null)


def _is_never_null(graph: "Graph", spec: BaseSpec, source: str, name: Name) -> bool:
    """Whether an edge that leaves `source` can rely on a value: its text, or what its schema requires."""
    node = graph.nodes.get(source)
    agent = spec.agents.get(node.agent) if isinstance(node, Step) else None
    own = [("nodes", source, part) for part in ("response", "iteration")]
    if name.name == "last_response" or (name.name, *name.path) in own:
        return True
    if not agent or not agent.output_schema or (name.name, *name.path[:2]) != ("nodes", source, "output"):
        return False
    schema, keys = agent.output_schema, [key for key in name.path[2:] if isinstance(key, str)]
    for index, key in enumerate(keys):
        if not any(key in listed_in(part, "required") for part in schemas_at(schema, *keys[:index])):
            return False
    types = [
        listed_in(part, "type") or [part["type"]] for part in schemas_at(schema, *keys) if "type" in part
    ]
    return len(keys) == len(name.path) - 2 and bool(types) and not any("null" in kinds for kinds in types)


# --- The pattern ------------------------------------------------------------------------------------------


class Graph(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "graph"
    title = "graph"
    names = ("nodes",)
    checks = {
        check_edges: (f"{CONFIG}/nodes",),
        check_reachability: ("/pattern*",),
        check_conditions: (),
        check_duplicates: (),
        check_ends: ("/pattern*",),
    }

    nodes: dict[str, AnyStep]
    edges: tuple[Edge, ...]
    start: str | None = None
    max_visits: int = 10

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        edges = [
            {**edge, "to": [edge["to"]] if isinstance(edge["to"], str) else edge["to"]}
            for edge in config["edges"]
        ]
        nodes = {name: shaped_step(node) for name, node in config["nodes"].items()}
        return {**config, "nodes": nodes, "edges": edges}

    @property
    def entries(self) -> tuple[str, ...]:
        """Where it begins: the start, else the nodes that no edge leads to."""
        if self.start is not None:
            return (self.start,)
        reached = {name for edge in self.edges for name in edge.to}
        return tuple(name for name in self.nodes if name not in reached)

    def edges_from(self, *, conditional: bool = True) -> dict[str, Collection[str]]:
        """Where edges lead from each node: all of them, or those without a condition."""
        targets: dict[str, dict[str, None]] = {name: {} for name in self.nodes}
        for edge in self.edges:
            if edge.source in targets and (conditional or edge.when is None):
                targets[edge.source] |= dict.fromkeys(name for name in edge.to if name in self.nodes)
        return {name: tuple(others) for name, others in targets.items()}

    def edges_to(self) -> dict[str, list[str]]:
        """Where the edges to each node come from."""
        sources: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in self.edges:
            for name in edge.to:
                sources.setdefault(name, []).append(edge.source)
        return sources

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        sources, known, entries = self.edges_to(), self.results(spec), frozenset(self.entries)
        for name, node in self.nodes.items():
            before = None if name in entries else sources[name]
            scope = partial(_node_scope, spec, known, sources, name, before)
            yield agent_place(f"{CONFIG}/nodes{json_pointer((name,))}", node, scope)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        return {"nodes": Names(self.results(spec), "node")}

    def results(self, spec: BaseSpec) -> dict[str, Names | None]:
        return results_by_key(spec, self.nodes)

    def outline(self, spec: BaseSpec) -> Parts:
        depth, often = node_depths(self), node_visits(self)
        entries = [name for name in self.entries if name in self.nodes]
        edges = [
            (edge.source, name, edge.when or "")
            for edge in self.edges
            for name in edge.to
            if edge.source in self.nodes and name in self.nodes
        ]
        leading: dict[str, list[str]] = {name: [""] if name in entries else [] for name in self.nodes}
        for _, name, when in edges:
            leading[name].append(when)
        boxes = [
            step_box(
                f"nodes/{name}",
                node,
                name,
                stage=depth.get(name, 0),
                when=" or ".join(dict.fromkeys(leading[name])) if all(leading[name]) else "",
                calls=often[name],
            )
            for name, node in self.nodes.items()
        ]
        arrows = [Arrow(source=START, target=f"nodes/{name}") for name in entries]
        arrows += [
            Arrow(source=f"nodes/{one}", target=f"nodes/{other}", label=when) for one, other, when in edges
        ]
        arrows += [
            Arrow(source=f"nodes/{name}", target=END, label=label)
            for name, label in _possible_ends(self, edges)
        ]
        return boxes, arrows, []

    def story(self, spec: BaseSpec) -> str:
        *others, last = self.entries or ("no node",)
        entries = f"{', '.join(others)} and {last}" if others else last
        begins = f"A graph of {amount_text(len(self.nodes), 'node')} begins at {first_line(entries)}"
        return f"{begins}; a node runs at most {times_text(self.max_visits)}."

    async def run(self, run: StepRunner) -> StepResult:
        run.names["nodes"] = nodes = dict[str, StepResult]()
        visited: Counter[str] = Counter()
        arrivals: Mapping[str, str] = dict.fromkeys(self.entries, "")
        results: list[StepResult] = []
        turn = 0
        while arrivals:
            turn += 1
            visited.update(list(arrivals))
            work, seen = [], dict(nodes)
            for name, source in arrivals.items():
                names: dict[str, Any] = {"nodes": seen}
                if source:
                    names["last_response"] = seen[source].response
                key, title = f"nodes/{name}", name
                if visited[name] > 1:
                    key, title = f"{key}#{visited[name]}", f"{title}, time {visited[name]}"
                work.append(run.step(key, self.nodes[name], title=title, names=names, turn=turn))
            results = await run.together(work)
            nodes |= dict(zip(arrivals, results, strict=True))
            arrivals = self._next(run, list(arrivals), nodes, visited)
        return results[-1]

    def _next(
        self, run: StepRunner, ended: Sequence[str], nodes: Mapping[str, StepResult], visited: Counter[str]
    ) -> dict[str, str]:
        """The nodes of the next round, in the order of the edges, each with the last node that led to it."""
        arrivals: dict[str, str] = {}
        used_up: set[str] = set()
        for index, edge in enumerate(self.edges):
            if edge.source not in ended:
                continue
            names = {"nodes": nodes, "last_response": nodes[edge.source].response}
            at, step = f"{CONFIG}/edges/{index}/when", f"nodes/{edge.source}"
            if edge.when is not None and not run.holds(edge.when, names, pointer=at, step=step):
                continue
            for name in edge.to:
                if visited[name] < self.max_visits:
                    arrivals[name] = edge.source
                else:
                    used_up.add(name)
        for name in sorted(used_up):
            run.notice(f"The node {name} has run {self.max_visits} times, its limit.", f"nodes/{name}")
        return arrivals


# --- What templates see -----------------------------------------------------------------------------------


def _node_scope(
    spec: BaseSpec,
    known: Mapping[str, Names | None],
    sources: Mapping[str, Collection[str]],
    name: str,
    last: Collection[str] | None,
) -> Names:
    """What a node sees, or the condition of an edge that leaves it: the nodes that may have run before.

    `last` are those whose answer may have led to it; None where the graph begins.
    """
    before = cache(partial(reachable_names, sources, last or ()))

    def blocked(key: str) -> str:
        if last is None:
            return "nothing has run before a node where the graph begins"
        return "" if key in before() else f"no edge leads from {key!r} to {name!r}"

    answer: dict[str, Names | None] = {} if last is None else {"last_response": None}
    why = "nothing has answered before a node where the graph begins"
    return scope_names(spec, why, nodes=Names(known, "node", blocked=blocked), **answer)


# --- What is drawn ----------------------------------------------------------------------------------------


def _possible_ends(graph: Graph, edges: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Where a run may end: after a node with no way on, or with one way whose condition may not hold.

    Several conditions mostly cover every case, and an arrow for what is left would mislead.
    """
    leaving = {name: [when for source, _, when in edges if source == name] for name in graph.nodes}
    last = [(name, "") for name, conditions in leaving.items() if not conditions]
    maybe = [(name, "otherwise") for name, conditions in leaving.items() if conditions and all(conditions)]
    return last + [item for item in maybe if len(leaving[item[0]]) == 1 or not last]


def node_depths(graph: Graph) -> dict[str, int]:
    """How many nodes are run before each one and itself at the earliest, for those that can be reached."""
    found = {name: 1 for name in graph.entries if name in graph.nodes}
    follows, waiting = graph.edges_from(), list(found)
    for name in waiting:  # which grows meanwhile
        for other in follows[name]:
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    return found


def node_visits(graph: Graph) -> dict[str, Calls]:
    """How often each node runs: at least, if no condition holds; at most, if all of them do."""
    entries = [name for name in graph.entries if name in graph.nodes]
    certain = reachable_names(graph.edges_from(conditional=False), entries)
    most = _most_visits(graph, entries)
    return {name: Calls(int(name in certain), most.get(name, 0)) for name in graph.nodes}


def _most_visits(graph: Graph, entries: Sequence[str]) -> dict[str, int]:
    """A node runs once for each time that one before it did; in loops and after them, as often as it may."""
    follows = graph.edges_from()
    reached = reachable_names(follows, entries)
    most = dict.fromkeys(reached, 0) | dict.fromkeys(entries, 1)
    sources = Counter(other for name in reached for other in follows[name])
    ready = [name for name in reached if not sources[name]]
    for name in ready:  # which grows meanwhile
        for other in follows[name]:
            most[other] = min(most[other] + most[name], graph.max_visits)
            sources[other] -= 1
            if not sources[other]:
                ready.append(other)
    return most | {name: graph.max_visits for name in reached - set(ready)}
