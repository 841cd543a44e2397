"""Where everything in a drawing stands.

A layered layout (Sugiyama's): blocks are in layers by the longest way to them. A line passes each layer
between its ends in a place of its own, and a label is such a place with a size: so nothing lies on anything
else, whatever the graph.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

Route = list[tuple[tuple[float, float], tuple[float, float]]]
"""The way of a line: straight pieces, to be joined by curves."""

_MARGIN = 24.0
_BESIDE = 28.0
_BETWEEN_LINES = 6.0
_LINE_WIDTH = 14.0
_MAX_BESIDE, _IN_A_ROW = 12, 9
"""A layer with more blocks than the first is broken into rows of the second, so that pages stay narrow."""
_SWEEPS = 12
_PASSES = 14
_STUB = 10.0
"""How far a line is straight where it meets a block, so that its head points at it."""
_STIFFNESS = 4.0
"""How much more it counts that a line is straight than that a block is in the middle."""


class Piece(msgspec.Struct, eq=False, kw_only=True):
    """Something with a size that gets a place: a block, a label, or the point where a line passes a layer."""

    width: float
    height: float
    beside: float = 0.0
    """What is kept free to its right."""
    x: float = 0.0
    """The middle."""
    y: float = 0.0
    """The top."""
    on_line: bool = False
    layer: int = 0
    rank: int = 0
    layer_top: float = 0.0
    layer_bottom: float = 0.0
    above: "list[Piece]" = []
    below: "list[Piece]" = []

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2


class Link(msgspec.Struct, eq=False, kw_only=True):
    """From a block to another one, never to itself."""

    source: Piece
    target: Piece
    label: Piece | None = None
    route: Route = []
    path: list[Piece] = []
    """From the upper block to the lower one."""


def lay_out(blocks: Sequence[Piece], links: Sequence[Link]) -> tuple[float, float]:
    """Gives every block and every label its place, and every link its route; returns the size of the page."""
    _set_layers(blocks, links)
    layers: list[list[Piece]] = [[] for _ in range(max(block.layer for block in blocks) + 1)]
    for piece in [*blocks, *(piece for link in links for piece in link.path[1:-1])]:
        layers[piece.layer].append(piece)
    layers = _order_with_few_crossings([layer for layer in layers if layer])
    _place_across(layers)
    _place_down(layers)
    pieces = [piece for layer in layers for piece in layer]
    shift = _MARGIN - min(piece.left for piece in pieces)
    for piece in pieces:
        piece.x += shift
    _set_routes(links)
    width = max(piece.right + piece.beside for piece in pieces) + _MARGIN
    return width, max(piece.y + piece.height for piece in pieces) + _MARGIN


def _set_layers(blocks: Sequence[Piece], links: Sequence[Link]) -> None:
    """Layers by depth, with one for labels below each that has any; then the paths through them."""
    finished = _depth_first_order(blocks, links)
    depth = dict.fromkeys(blocks, 0)
    for link in links:
        # What is finished later is above: that turns round exactly the links that lead back on the walk.
        link.path = sorted([link.source, link.target], key=finished.__getitem__, reverse=True)
        link.path[0].below.append(link.path[1])
    for block in sorted(blocks, key=finished.__getitem__, reverse=True):
        for other in block.below:
            depth[other] = max(depth[other], depth[block] + 1)
        block.below.clear()
    labelled = {link.path[0] for link in links if link.label}
    layer = 0
    for level in range(max(depth.values()) + 1):
        members = [block for block in blocks if depth[block] == level]
        rows = 1 if len(members) <= _MAX_BESIDE else -(-len(members) // _IN_A_ROW)
        each = -(-len(members) // rows)
        for start in range(0, len(members), each):
            row = members[start : start + each]
            for block in row:
                block.layer = layer
            layer += 1 if labelled.isdisjoint(row) else 2
    for link in links:
        upper, lower = link.path
        passed = range(upper.layer + 1, lower.layer)
        points = [Piece(width=_LINE_WIDTH, height=0.0, on_line=True, layer=layer) for layer in passed]
        if link.label:
            link.label.on_line, link.label.layer = True, upper.layer + 1
            points[0] = link.label
        link.path = [upper, *points, lower]
        for one, other in pairwise(link.path):
            one.below.append(other)
            other.above.append(one)


def _depth_first_order(blocks: Sequence[Piece], links: Sequence[Link]) -> dict[Piece, int]:
    """The order in which a walk, depth first, is finished with the blocks."""
    following: dict[Piece, list[Piece]] = {block: [] for block in blocks}
    for link in links:
        following[link.source].append(link.target)
    walk, seen, finished = [*reversed(blocks)], set[Piece](), dict[Piece, int]()
    while walk:
        block = walk[-1]
        seen.add(block)
        ahead = next((other for other in following[block] if other not in seen), None)
        if ahead is None:
            finished.setdefault(walk.pop(), len(finished))
        else:
            walk.append(ahead)
    return finished


def _order_with_few_crossings(layers: list[list[Piece]]) -> list[list[Piece]]:
    """The layers in an order in which few lines cross: each piece near those that it is joined to."""
    best, fewest = layers, -1
    for sweep in range(_SWEEPS + 1):
        for layer in layers:
            _set_ranks(layer)
        crossings = sum(map(_crossings_below, layers))
        if fewest < 0 or crossings < fewest:
            best, fewest = [[*layer] for layer in layers], crossings
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            means = {piece: _mean_rank(piece, piece.above if downwards else piece.below) for piece in layer}
            layer.sort(key=means.__getitem__)
            _set_ranks(layer)
    return best


def _set_ranks(layer: list[Piece]) -> None:
    for rank, piece in enumerate(layer):
        piece.rank = rank


def _mean_rank(piece: Piece, joined: list[Piece]) -> float:
    return sum(other.rank for other in joined) / len(joined) if joined else piece.rank


def _crossings_below(layer: Iterable[Piece]) -> int:
    seen: list[int] = []
    crossings = 0
    for piece in layer:
        ranks = sorted(other.rank for other in piece.below)
        crossings += sum(len(seen) - bisect_right(seen, rank) for rank in ranks)
        for rank in ranks:
            insort(seen, rank)
    return crossings


def _place_across(layers: list[list[Piece]]) -> None:
    """Every piece in the middle of those above it, then of those below it, and so on; at last of both."""
    for layer in layers:
        _spread_pieces(layer, [0.0] * len(layer))
    for turn in range(_PASSES):
        downwards = turn % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _spread_pieces(layer, [_ideal_middle(piece, downwards, turn == _PASSES - 1) for piece in layer])


def _ideal_middle(piece: Piece, downwards: bool, both: bool) -> float:
    """Where a piece would be if it had its layer for itself."""
    joined = piece.above if downwards else piece.below
    if both or not joined:
        joined = piece.above + piece.below
    return sum(other.x for other in joined) / len(joined) if joined else piece.x


def _spread_pieces(layer: list[Piece], targets: list[float]) -> None:
    """The places nearest to the targets where nothing overlaps, in the same order (isotonic regression)."""
    offsets = [0.0]
    for left, right in pairwise(layer):
        between_lines = left.on_line and right.on_line and not left.height and not right.height
        gap = _BETWEEN_LINES if between_lines else _BESIDE
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + left.beside + gap)
    pools: list[tuple[float, float, int]] = []
    for piece, target, offset in zip(layer, targets, offsets, strict=True):
        weight = _STIFFNESS if piece.on_line else 1.0
        total, number = (target - offset) * weight, 1
        while pools and pools[-1][0] / pools[-1][1] > total / weight:
            more = pools.pop()
            total, weight, number = total + more[0], weight + more[1], number + more[2]
        pools.append((total, weight, number))
    bases = [total / weight for total, weight, number in pools for _ in range(number)]
    for piece, base, offset in zip(layer, bases, offsets, strict=True):
        piece.x = base + offset


def _place_down(layers: list[list[Piece]]) -> None:
    y = _MARGIN
    for layer in layers:
        height = max(piece.height for piece in layer)
        for piece in layer:
            piece.y = y + (height - piece.height) / 2 if piece.on_line else y
            piece.layer_top, piece.layer_bottom = y, y + height
        # More room below a layer from which lines go far to the side, so that they do not lie flat.
        far = max((abs(piece.x - other.x) for piece in layer for other in piece.below), default=0.0)
        y += height + min(max(40.0, 2 * _STUB + far * 0.14), 160.0)


def _set_routes(links: Sequence[Link]) -> None:
    """Lines are straight as long as they are beside something, so that curves lie between the layers only."""
    starts, ends = _line_ports(links, 0, 1), _line_ports(links, -1, -2)
    for link in links:
        upper, *points, lower = link.path
        start, end = upper.x + starts[link], lower.x + ends[link]
        link.route = [
            ((start, upper.y + upper.height), (start, upper.layer_bottom + _STUB)),
            *(((point.x, point.layer_top), (point.x, point.layer_bottom)) for point in points),
            ((end, lower.y - _STUB), (end, lower.y)),
        ]
        if upper is link.target:
            link.route = [(there, here) for here, there in reversed(link.route)]


def _line_ports(links: Sequence[Link], end: int, neighbour: int) -> dict[Link, float]:
    """How far from the middle of its block each line begins or ends, side by side in their order."""
    groups: dict[Piece, list[Link]] = {}
    for link in links:
        groups.setdefault(link.path[end], []).append(link)
    ports: dict[Link, float] = {}
    for block, group in groups.items():
        group.sort(key=lambda link: link.path[neighbour].x)
        step = min(18.0, block.width * 0.6 / len(group))
        ports |= {link: (place - (len(group) - 1) / 2) * step for place, link in enumerate(group)}
    return ports
