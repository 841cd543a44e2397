"""The pieces of a drawing with their sizes: a block is a box, or a frame with its boxes."""

import msgspec

from strands_cli.cli.workflow.measure import LINE_HEIGHT, balanced, width_of
from strands_cli.cli.workflow.texts import box_lines
from strands_cli.patterns.outline import Box, Frame, Outline

TITLE_SIZE, TEXT_SIZE = 14.0, 12.0
PADDING = 12.0
FRAME_GAP = 28.0
_ROOM = 210.0
_LABEL_ROOM = 170.0


class Line(msgspec.Struct, frozen=True):
    text: str
    size: float
    is_title: bool

    @property
    def height(self) -> float:
        return self.size * LINE_HEIGHT

    @property
    def width(self) -> float:
        return width_of(self.text, self.size, bold=self.is_title)


class Cell(msgspec.Struct, frozen=True):
    """A box as it is drawn."""

    box: Box
    lines: tuple[Line, ...]
    width: float
    height: float


class Block(msgspec.Struct, frozen=True):
    """What is placed as one piece."""

    cells: tuple[Cell, ...]
    title: tuple[Line, ...]
    """Of the frame; nothing where there is none."""
    width: float
    height: float


class Label(msgspec.Struct, frozen=True):
    lines: tuple[Line, ...]
    width: float
    height: float


def label_of(text: str) -> Label:
    lines = _lines(text, TEXT_SIZE, most=4, room=_LABEL_ROOM)
    return Label(lines, _widest(lines) + 10, _height(lines) + 6)


def blocks_of(outline: Outline) -> list[Block]:
    """In the order of the outline, a frame standing where its first box does."""
    frames = {key: frame for frame in outline.frames for key in frame.boxes}
    boxes = {box.key: box for box in outline.boxes}
    made: list[Block] = []
    for box in outline.boxes:
        frame = frames.get(box.key)
        if frame is None:
            cell = _cell(box)
            made.append(Block((cell,), (), cell.width, cell.height))
        elif frame.boxes[0] == box.key:
            made.append(_framed(frame, boxes))
    return made


def _framed(frame: Frame, boxes: dict[str, Box]) -> Block:
    cells = [_cell(boxes[key]) for key in frame.boxes]
    widest = max(cell.width for cell in cells)
    title = _lines(frame.title, TEXT_SIZE, most=2, room=_ROOM)
    cells = [msgspec.structs.replace(cell, width=widest) for cell in cells]
    inner = sum(cell.height for cell in cells) + FRAME_GAP * (len(cells) - 1)
    return Block(
        tuple(cells),
        title,
        max(widest, _widest(title)) + 2 * PADDING,
        inner + _height(title) + 2.5 * PADDING,
    )


def _cell(box: Box) -> Cell:
    title = _lines(box.title, TITLE_SIZE, most=3, room=_ROOM, is_title=True)
    more = [_lines(text, TEXT_SIZE, most=4, room=_ROOM) for text in box_lines(box)]
    lines = title + tuple(line for part in more for line in part)
    side = 26.0 if box.kind in ("human", "router", "evaluator") else PADDING
    least = 60.0 if box.kind in ("start", "end") else 110.0
    return Cell(box, lines, max(_widest(lines) + 2 * side, least), _height(lines) + 1.4 * PADDING)


def _lines(text: str, size: float, *, most: int, room: float, is_title: bool = False) -> tuple[Line, ...]:
    made = balanced(text, room, size, lines=most, bold=is_title)
    return tuple(Line(line, size, is_title) for line in made)


def _widest(lines: tuple[Line, ...]) -> float:
    return max((line.width for line in lines), default=0.0)


def _height(lines: tuple[Line, ...]) -> float:
    return sum(line.height for line in lines)
