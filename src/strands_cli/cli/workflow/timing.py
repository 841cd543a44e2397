"""What runs when, and how often: pure arithmetic over names."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from strands_cli.patterns.outline import NEVER, Calls
from strands_cli.types.patterns import Graph


def stages(needs: Mapping[str, Iterable[str]], at_once: int) -> dict[str, int]:
    """The stage of each name, from 1 on, if all take equally long and `at_once` run together at most.

    Names that wait for each other have none.
    """
    order = {name: index for index, name in enumerate(needs)}
    waits = {name: {other for other in others if other in order} for name, others in needs.items()}
    followers: dict[str, list[str]] = {name: [] for name in order}
    for name, others in waits.items():
        for other in others:
            followers[other].append(name)
    ready = [(order[name], name) for name, others in waits.items() if not others]
    heapify(ready)
    found: dict[str, int] = {}
    stage = 0
    while ready:
        stage += 1
        running = [heappop(ready)[1] for _ in range(min(at_once, len(ready)))]
        found |= dict.fromkeys(running, stage)
        finished = set(running)
        for name in dict.fromkeys(follower for done in running for follower in followers[done]):
            waits[name] -= finished
            if not waits[name]:
                heappush(ready, (order[name], name))
    return found


def depths(graph: Graph) -> dict[str, int]:
    """How many nodes are run before each one and itself at the earliest, for those that can be reached."""
    found = {name: 1 for name in graph.entries if name in graph.nodes}
    waiting = deque(found)
    follows = _follows(graph, conditional=True)
    while waiting:
        name = waiting.popleft()
        for other in follows[name]:
            if other not in found:
                found[other] = found[name] + 1
                waiting.append(other)
    return found


def visits(graph: Graph) -> dict[str, Calls]:
    """How often each node runs: at least, if no condition holds; at most, if all of them do."""
    reached = depths(graph)
    certain = _closure(graph)
    most = _most_visits(graph, reached)
    return {
        name: Calls(int(name in certain), most[name]) if name in reached else NEVER for name in graph.nodes
    }


def _closure(graph: Graph) -> set[str]:
    follows = _follows(graph, conditional=False)
    found, waiting = set[str](), [name for name in graph.entries if name in graph.nodes]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += follows[name]
    return found


def _most_visits(graph: Graph, reached: Iterable[str]) -> dict[str, int]:
    """A node runs once for each time that one before it did; in loops and after them, as often as it may."""
    follows = _follows(graph, conditional=True)
    most = {name: 0 for name in reached}
    for name in graph.entries:
        if name in most:
            most[name] = 1
    before = {name: 0 for name in most}
    for name in most:
        for other in follows[name]:
            before[other] += 1
    ready = [name for name, number in before.items() if number == 0]
    settled = set[str]()
    while ready:
        name = ready.pop()
        settled.add(name)
        for other in follows[name]:
            most[other] = min(most[other] + most[name], graph.max_visits)
            before[other] -= 1
            if before[other] == 0:
                ready.append(other)
    return {name: number if name in settled else graph.max_visits for name, number in most.items()}


def _follows(graph: Graph, *, conditional: bool) -> dict[str, Sequence[str]]:
    follows: dict[str, dict[str, None]] = {name: {} for name in graph.nodes}
    for edge in graph.edges:
        if edge.source in follows and (conditional or edge.when is None):
            follows[edge.source] |= dict.fromkeys(name for name in edge.to if name in graph.nodes)
    return {name: tuple(others) for name, others in follows.items()}
