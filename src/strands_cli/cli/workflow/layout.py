"""Where everything in a drawing stands.

Blocks are in layers by the longest way to them. A line passes each layer between its ends in a slot of its
own, and a label is such a slot with a size: so nothing lies on anything else, whatever the graph.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from strands_cli.cli.workflow.layers import Link, Slot, Thread, arranged, depths, turned

Size = tuple[float, float]
Point = tuple[float, float]

MARGIN = 24.0
_BESIDE = 28.0
_BETWEEN_LINES = 6.0
_LINE_WIDTH = 14.0
_MOST_BESIDE, _IN_A_ROW = 12, 9
"""A layer with more blocks than the first is broken into rows of the second, so that pages stay narrow."""
_PASSES = 14
_STUB = 10.0
"""How far a line is straight where it meets a block, so that its head points at it."""
_STIFFNESS = 4.0
"""How much more it counts that a line is straight than that a block is in the middle."""


Piece = tuple[Point, Point]
Route = list[Piece]
"""The way of one link: straight pieces, to be joined by curves."""


class Layout(msgspec.Struct, frozen=True):
    width: float
    height: float
    blocks: list[Point]
    """The upper left corner of each block."""
    labels: dict[int, Point]
    """The middle of the upper edge of each label."""
    routes: list[Route]
    """One for each link, in their order."""


def laid_out(
    sizes: Sequence[Size], room: Sequence[float], links: Sequence[Link], labels: Sequence[Size]
) -> Layout:
    """Places blocks of these sizes, with `room` to be kept free on both sides of each; no link is a loop."""
    back = turned(links, len(sizes))
    pairs = [
        (link.target, link.source) if up else (link.source, link.target)
        for link, up in zip(links, back, strict=True)
    ]
    layer = _layers(pairs, links, len(sizes))
    slots = [
        Slot(layer[index], size[0] + 2 * room[index], size[1], block=index, above=[], below=[])
        for index, size in enumerate(sizes)
    ]
    threads = [
        _thread(pair, slots, up, link.label, labels)
        for pair, up, link in zip(pairs, back, links, strict=True)
    ]
    layers = _filled(slots, threads)
    layers = arranged(layers)
    _place_across(layers)
    _place_down(layers)
    return _layout(layers, slots, threads, sizes)


def _layers(pairs: list[tuple[int, int]], links: Sequence[Link], blocks: int) -> list[int]:
    """The layer of each block, with a layer between two for labels where there are any."""
    depth = _in_rows(depths(pairs, blocks))
    labelled = {depth[upper] for (upper, _), link in zip(pairs, links, strict=True) if link.label >= 0}
    shift, layer_of = 0, dict[int, int]()
    for level in range(max(depth) + 1):
        layer_of[level] = level + shift
        shift += level in labelled
    return [layer_of[level] for level in depth]


def _in_rows(depth: list[int]) -> list[int]:
    levels: dict[int, list[int]] = {}
    for block, level in enumerate(depth):
        levels.setdefault(level, []).append(block)
    found, row = [0] * len(depth), 0
    for level in sorted(levels):
        members = levels[level]
        rows = 1 if len(members) <= _MOST_BESIDE else -(-len(members) // _IN_A_ROW)
        each = -(-len(members) // rows)
        for place, block in enumerate(members):
            found[block] = row + place // each
        row += rows
    return found


def _thread(
    pair: tuple[int, int], slots: list[Slot], upwards: bool, label: int, labels: Sequence[Size]
) -> Thread:
    upper, lower = slots[pair[0]], slots[pair[1]]
    way = [upper]
    for layer in range(upper.layer + 1, lower.layer):
        way.append(Slot(layer, _LINE_WIDTH, 0.0, above=[], below=[]))
    way.append(lower)
    if label >= 0:
        way[1].width, way[1].height = labels[label]
        way[1].label = label
    for one, other in pairwise(way):
        one.below.append(other)
        other.above.append(one)
    return Thread(way, upwards)


def _filled(slots: list[Slot], threads: list[Thread]) -> list[list[Slot]]:
    layers: list[list[Slot]] = [[] for _ in range(max(slot.layer for slot in slots) + 1)]
    for slot in slots:
        layers[slot.layer].append(slot)
    for thread in threads:
        for slot in thread.slots[1:-1]:
            layers[slot.layer].append(slot)
    return [layer for layer in layers if layer]


def _place_across(layers: list[list[Slot]]) -> None:
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for turn in range(_PASSES):
        downwards = turn % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _spread(layer, [_wish(slot, downwards, turn == _PASSES - 1) for slot in layer])


def _wish(slot: Slot, downwards: bool, both: bool) -> float:
    """Where a slot would be if it had its layer for itself: in the middle of those that it is joined to."""
    beside = slot.above if downwards else slot.below
    if both or not beside:
        beside = slot.above + slot.below
    return sum(other.x for other in beside) / len(beside) if beside else slot.x


def _spread(layer: list[Slot], wishes: list[float]) -> None:
    """The places nearest to the wishes where nothing overlaps, in the same order (isotonic regression)."""
    offset, offsets = 0.0, list[float]()
    for index, slot in enumerate(layer):
        if index:
            offset += (layer[index - 1].width + slot.width) / 2 + _gap(layer[index - 1], slot)
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []
    for slot, wish, off in zip(layer, wishes, offsets, strict=True):
        weight = 1.0 if slot.block >= 0 else _STIFFNESS
        total, number = (wish - off) * weight, 1
        while pools and pools[-1][0] / pools[-1][1] > total / weight:
            more = pools.pop()
            total, weight, number = total + more[0], weight + more[1], number + more[2]
        pools.append((total, weight, number))
    bases = [total / weight for total, weight, number in pools for _ in range(number)]
    for slot, base, off in zip(layer, bases, offsets, strict=True):
        slot.x = base + off


def _gap(left: Slot, right: Slot) -> float:
    lines = [slot.block < 0 and slot.label < 0 for slot in (left, right)]
    return _BETWEEN_LINES if all(lines) else _BESIDE


def _place_down(layers: list[list[Slot]]) -> None:
    y = MARGIN
    for layer in layers:
        height = max(slot.height for slot in layer)
        for slot in layer:
            slot.y = y if slot.block >= 0 else y + (height - slot.height) / 2
            slot.layer_top, slot.layer_bottom = y, y + height
        y += height + _channel(layer)


def _channel(layer: list[Slot]) -> float:
    """The room below a layer: more where lines go far to the side, so that they do not lie flat."""
    far = max((abs(slot.x - other.x) for slot in layer for other in slot.below), default=0.0)
    return min(max(40.0, 2 * _STUB + far * 0.14), 160.0)


def _layout(
    layers: list[list[Slot]], slots: list[Slot], threads: list[Thread], sizes: Sequence[Size]
) -> Layout:
    left = min(slot.x - slot.width / 2 for layer in layers for slot in layer)
    for layer in layers:
        for slot in layer:
            slot.x += MARGIN - left
    every = [slot for layer in layers for slot in layer]
    routes = _routes(threads, {id(slot): sizes[slot.block][0] for slot in slots})
    return Layout(
        max(slot.x + slot.width / 2 for slot in every) + MARGIN,
        max(slot.y + slot.height for slot in every) + MARGIN,
        [(slot.x - sizes[slot.block][0] / 2, slot.y) for slot in slots],
        {slot.label: (slot.x, slot.y) for slot in every if slot.label >= 0},
        routes,
    )


def _routes(threads: list[Thread], widths: dict[int, float]) -> list[Route]:
    leaving: dict[int, list[int]] = {}
    coming: dict[int, list[int]] = {}
    for index, thread in enumerate(threads):
        leaving.setdefault(id(thread.slots[0]), []).append(index)
        coming.setdefault(id(thread.slots[-1]), []).append(index)
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for slot, group in leaving.items():
        group.sort(key=lambda index: threads[index].slots[1].x)
        starts |= _ports(group, widths[slot])
    for slot, group in coming.items():
        group.sort(key=lambda index: threads[index].slots[-2].x)
        ends |= _ports(group, widths[slot])
    return [_route(thread, starts[index], ends[index]) for index, thread in enumerate(threads)]


def _ports(group: list[int], width: float) -> dict[int, float]:
    """How far from a block's middle each of its lines begins, side by side in their order."""
    step = min(18.0, width * 0.6 / len(group))
    return {index: (place - (len(group) - 1) / 2) * step for place, index in enumerate(group)}


def _route(thread: Thread, start: float, end: float) -> Route:
    """Straight as long as it is beside something, so that curves lie between the layers only."""
    first, last = thread.slots[0], thread.slots[-1]
    ways: Route = [((first.x + start, first.y + first.height), (first.x + start, first.layer_bottom + _STUB))]
    ways += [((slot.x, slot.layer_top), (slot.x, slot.layer_bottom)) for slot in thread.slots[1:-1]]
    ways.append(((last.x + end, last.y - _STUB), (last.x + end, last.y)))
    return [(there, here) for here, there in reversed(ways)] if thread.upwards else ways
