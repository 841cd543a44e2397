"""The order of a layered drawing: who is above whom, and who is left of whom."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

_SWEEPS = 12


class Link(msgspec.Struct, frozen=True):
    """From a block to another; label is an index, or -1 for none."""

    source: int
    target: int
    label: int = -1


class Slot(msgspec.Struct, eq=False):
    """A place in a layer: of a block, of a label, or of a line that passes."""

    layer: int
    width: float
    height: float
    block: int = -1
    label: int = -1
    rank: int = 0
    x: float = 0.0
    """The middle."""
    y: float = 0.0
    """The top."""
    layer_top: float = 0.0
    layer_bottom: float = 0.0
    above: "list[Slot]" = []
    below: "list[Slot]" = []


class Thread(msgspec.Struct, frozen=True, eq=False):
    """A link through its slots, from the upper block to the lower one."""

    slots: list[Slot]
    upwards: bool


def turned(links: Sequence[Link], blocks: int) -> list[bool]:
    """Which links are to be turned round so that no cycle is left: those that lead back on a walk."""
    leaving: list[list[int]] = [[] for _ in range(blocks)]
    for index, link in enumerate(links):
        leaving[link.source].append(index)
    back = [False] * len(links)
    state = [0] * blocks
    for first in range(blocks):
        walk = [(first, iter(leaving[first]))] if state[first] == 0 else []
        state[first] = state[first] or 1
        while walk:
            here, rest = walk[-1]
            index = next(rest, -1)
            if index < 0:
                state[here] = 2
                walk.pop()
                continue
            there = links[index].target
            back[index] = state[there] == 1
            if state[there] == 0:
                state[there] = 1
                walk.append((there, iter(leaving[there])))
    return back


def depths(pairs: Sequence[tuple[int, int]], blocks: int) -> list[int]:
    """The longest way to each block from one that nothing leads to; `pairs` has no cycle."""
    leaving: list[list[int]] = [[] for _ in range(blocks)]
    before = [0] * blocks
    for upper, lower in pairs:
        leaving[upper].append(lower)
        before[lower] += 1
    found = [0] * blocks
    ready = [block for block in range(blocks) if before[block] == 0]
    while ready:
        upper = ready.pop()
        for lower in leaving[upper]:
            found[lower] = max(found[lower], found[upper] + 1)
            before[lower] -= 1
            if before[lower] == 0:
                ready.append(lower)
    return found


def arranged(layers: list[list[Slot]]) -> list[list[Slot]]:
    """The layers in an order in which few lines cross."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _sort(layer, downwards)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    for layer in best:
        _number(layer)
    return best


def _sort(layer: list[Slot], downwards: bool) -> None:
    def wanted(slot: Slot) -> float:
        beside = slot.above if downwards else slot.below
        return sum(other.rank for other in beside) / len(beside) if beside else slot.rank

    layer.sort(key=wanted)
    _number(layer)


def _number(layer: list[Slot]) -> None:
    for rank, slot in enumerate(layer):
        slot.rank = rank


def _crossings(layers: list[list[Slot]]) -> int:
    for layer in layers:
        _number(layer)
    return sum(_crossings_below(upper) for upper, _ in pairwise(layers))


def _crossings_below(upper: list[Slot]) -> int:
    from bisect import bisect_right, insort

    seen: list[int] = []
    crossings = 0
    for slot in upper:
        ranks = sorted(other.rank for other in slot.below)
        crossings += sum(len(seen) - bisect_right(seen, rank) for rank in ranks)
        for rank in ranks:
            insort(seen, rank)
    return crossings
