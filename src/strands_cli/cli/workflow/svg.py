"""An outline as a picture that opens in a browser; the layout is our own, no program draws it."""

from collections.abc import Iterator

import msgspec

from strands_cli.cli.workflow.blocks import (
    FRAME_GAP,
    PADDING,
    Block,
    Cell,
    Label,
    Line,
    blocks_of,
    label_of,
)
from strands_cli.cli.workflow.layers import Link
from strands_cli.cli.workflow.layout import Layout, Point, Route, laid_out
from strands_cli.cli.workflow.shapes import STYLE, element, opened, outline_shape
from strands_cli.patterns.outline import Arrow, Outline

_LOOP = 26.0


class _Drawing(msgspec.Struct):
    blocks: list[Block]
    arrows: list[Arrow]
    """Between blocks, one for each link."""
    labels: list[Label]
    loops: dict[int, Label]
    """What leads from a block to itself."""
    layout: Layout


def as_svg(outline: Outline, name: str, description: str = "") -> str:
    drawing = _drawn(outline)
    width, height = drawing.layout.width, drawing.layout.height
    head = opened(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        viewBox=f"0 0 {width:.1f} {height:.1f}",
        role="img",
        aria_labelledby="title description",
    )
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        head,
        element("title", name, id="title"),
        element("desc", description or f"The steps of the workflow {name}.", id="description"),
        STYLE,
        element("rect", class_="page", width="100%", height="100%"),
        *_body(drawing),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _drawn(outline: Outline) -> _Drawing:
    blocks = blocks_of(outline)
    place = {cell.box.key: index for index, block in enumerate(blocks) for cell in block.cells}
    inner = {pair for frame in outline.frames for pair in zip(frame.boxes, frame.boxes[1:], strict=False)}
    between = [arrow for arrow in outline.arrows if (arrow.source, arrow.target) not in inner]
    arrows = [arrow for arrow in between if place[arrow.source] != place[arrow.target]]
    said: dict[int, list[str]] = {}
    for arrow in between:
        if place[arrow.source] == place[arrow.target]:
            said.setdefault(place[arrow.source], []).append(arrow.label)
    loops = {index: label_of(" / ".join(filter(None, texts))) for index, texts in said.items()}
    for index, label in loops.items():
        blocks[index] = _taller(blocks[index], label.height)
    labels, links = list[Label](), list[Link]()
    for arrow in arrows:
        links.append(Link(place[arrow.source], place[arrow.target], len(labels) if arrow.label else -1))
        labels += [label_of(arrow.label)] if arrow.label else []
    layout = laid_out(
        [(block.width, block.height) for block in blocks],
        [_LOOP + loops[index].width + 8 if index in loops else 0.0 for index in range(len(blocks))],
        links,
        [(label.width, label.height) for label in labels],
    )
    return _Drawing(blocks, arrows, labels, loops, layout)


def _taller(block: Block, least: float) -> Block:
    """The block with room beside it for the label of its loop."""
    if block.height >= least:
        return block
    cell = msgspec.structs.replace(block.cells[0], height=least)
    return msgspec.structs.replace(block, cells=(cell,), height=least)


def _body(drawing: _Drawing) -> Iterator[str]:
    corners = drawing.layout.blocks
    for block, corner in zip(drawing.blocks, corners, strict=True):
        if block.title:
            yield from _frame(block, corner)
    for route in drawing.layout.routes:
        yield _line(route)
    for index, label in drawing.loops.items():
        yield from _loop(drawing.blocks[index], corners[index], label)
    for index, label in enumerate(drawing.labels):
        yield from _label(label, drawing.layout.labels[index])
    for block, corner in zip(drawing.blocks, corners, strict=True):
        yield from _block(block, corner)


def _frame(block: Block, corner: Point) -> Iterator[str]:
    x, y = corner
    yield element("rect", class_="frame", x=x, y=y, width=block.width, height=block.height, rx=10)
    yield from _texts(block.title, x + block.width / 2, y + PADDING / 2, "frame-title")


def _block(block: Block, corner: Point) -> Iterator[str]:
    x, y = corner
    middle = x + block.width / 2
    if block.title:
        y += sum(line.height for line in block.title) + PADDING
    for index, cell in enumerate(block.cells):
        if index:
            yield _line([((middle, y - FRAME_GAP), (middle, y))])
        yield from _cell(cell, middle, y)
        y += cell.height + FRAME_GAP


def _cell(cell: Cell, middle: float, top: float) -> Iterator[str]:
    left = middle - cell.width / 2
    box = cell.box
    yield opened("g", class_=f"box {box.kind}", data_key=box.key)
    yield element("title", "\n".join(filter(None, [box.title, box.when, box.input])))
    yield outline_shape(box.kind, left, top, cell.width, cell.height)
    used = sum(line.height for line in cell.lines)
    yield from _texts(cell.lines, middle, top + (cell.height - used) / 2, "")
    yield "</g>"


def _label(label: Label, place: Point) -> Iterator[str]:
    x, y = place
    left = x - label.width / 2
    yield element("rect", class_="label", x=left, y=y, width=label.width, height=label.height, rx=4)
    yield from _texts(label.lines, x, y + 3, "label-text")


def _loop(block: Block, corner: Point, label: Label) -> Iterator[str]:
    right, top = corner[0] + block.width, corner[1]
    upper, lower = top + block.height * 0.3, top + block.height * 0.7
    out = right + _LOOP * 1.3
    way = f"M {right:.1f} {upper:.1f} C {out:.1f} {upper:.1f} {out:.1f} {lower:.1f} {right:.1f} {lower:.1f}"
    yield element("path", class_="line", d=way, marker_end="url(#arrow)")
    if label.lines:
        yield from _label(label, (right + _LOOP + label.width / 2, top + (block.height - label.height) / 2))


def _line(route: Route) -> str:
    """Straight pieces, joined by curves that leave and arrive upright."""
    way = []
    for index, ((x1, y1), (x2, y2)) in enumerate(route):
        if index == 0:
            way.append(f"M {x1:.1f} {y1:.1f}")
        else:
            from_x, from_y = route[index - 1][1]
            half = (from_y + y1) / 2
            way.append(f"C {from_x:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}")
        if (x1, y1) != (x2, y2):
            way.append(f"L {x2:.1f} {y2:.1f}")
    return element("path", class_="line", d=" ".join(way), marker_end="url(#arrow)")


def _texts(lines: tuple[Line, ...], middle: float, top: float, css: str) -> Iterator[str]:
    for line in lines:
        baseline = top + line.height * 0.76
        names = " ".join(filter(None, [css, "title" if line.is_title else ""]))
        yield element("text", line.text, x=middle, y=baseline, font_size=line.size, class_=names or None)
        top += line.height
