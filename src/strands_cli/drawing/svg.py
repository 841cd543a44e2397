"""An outline as a picture that opens in a browser and everywhere else; the layout is our own.

Colours are attributes, because many programs that show SVG read no style sheet. Browsers exchange them for
darker ones where the reader prefers that.

Every box carries its key in `data-step`. A step of a run has the key of its box, with `#2` after it where it
is run again; the steps of the box `worker` are `worker/0#1` and so on.
"""

import re
import unicodedata
from collections.abc import Iterator
from html import escape
from itertools import accumulate, pairwise

import msgspec

from strands_cli.drawing.layout import Link, Piece, Route, lay_out
from strands_cli.drawing.text_formats import box_lines
from strands_cli.patterns.outline import Box, Kind, Outline

_PAGE, _INK, _SOFT, _LINE, _FRAME, _EDGE = "#ffffff", "#1f2933", "#52606d", "#7b8794", "#f5f7fa", "#9aa5b1"
_STEP, _CHOICE, _DYNAMIC = ("#e8f0fe", "#3b6fd4"), ("#fff4d6", "#b7791f"), ("#e6f7ee", "#2b8a57")
_TOOL = ("#f0ebfa", "#7048b8")
_COLOURS: dict[Kind, tuple[str, str]] = {
    "start": (_FRAME, _LINE),
    "end": (_FRAME, _LINE),
    "step": _STEP,
    "router": _CHOICE,
    "evaluator": _CHOICE,
    "human": ("#fde8ef", "#c2255c"),
    "tool": _TOOL,
    "workflow": _STEP,
    "orchestrator": _DYNAMIC,
    "worker": _DYNAMIC,
    "reduce": _DYNAMIC,
}
"""The inside and the edge of a box."""
_DARK = {
    _PAGE: "#14181d", _INK: "#e6ebf0", _SOFT: "#a9b4c0", _LINE: "#8794a3", _FRAME: "#1b2128",
    _EDGE: "#4a5664", "#e8f0fe": "#1c2c49", "#fff4d6": "#3a2f14", "#fde8ef": "#431c2b",
    "#e6f7ee": "#14352a", "#3b6fd4": "#6f9bf0", "#b7791f": "#e0b04c", "#c2255c": "#f0799f",
    "#2b8a57": "#5cc794", "#f0ebfa": "#2c2340", "#7048b8": "#b197e6",
}  # fmt: skip
_DARK_RULES = "\n".join(
    f'svg [{part}="{light}"] {{ {part}: {dark}; }}'
    for light, dark in _DARK.items()
    for part in ("fill", "stroke")
)
_ARROW_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    f'orient="auto"><path d="M 0 0.5 L 10 5 L 0 9.5 z" fill="{_LINE}"/></marker></defs>'
)
_FONTS = "DejaVu Sans, Verdana, Segoe UI, system-ui, sans-serif"

_TITLE_SIZE, _TEXT_SIZE, _LINE_HEIGHT, _BOLD = 14.0, 12.0, 1.35, 1.12
_PADDING = 12.0
_FRAME_GAP = 28.0
_SLANT = 14.0
_LOOP = 26.0
_BOX_WIDTH, _LABEL_WIDTH = 210.0, 170.0
"""The widest that text is before it is broken."""


class _TextLines(msgspec.Struct):
    """Lines of one size."""

    lines: list[str]
    size: float
    bold: bool

    @property
    def width(self) -> float:
        return max(map(_text_ems, self.lines), default=0.0) * self.size * (_BOLD if self.bold else 1)

    @property
    def height(self) -> float:
        return len(self.lines) * self.size * _LINE_HEIGHT


class _BoxPiece(Piece, kw_only=True):
    """A box as it is drawn."""

    box: Box
    texts: list[_TextLines]


class _LabelPiece(Piece, kw_only=True):
    text: _TextLines


class _BlockPiece(Piece, kw_only=True):
    """What is placed as one piece: a box, or a frame with its boxes."""

    cells: list[_BoxPiece]
    title: _TextLines | None = None
    """Of the frame."""
    loop: _LabelPiece | None = None
    """What is written at the line from the block to itself."""


def as_svg(outline: Outline, name: str, description: str = "") -> str:
    blocks = _block_pieces(outline)
    block_of = {cell.box.key: block for block in blocks for cell in block.cells}
    inner = {pair for frame in outline.frames for pair in pairwise(frame.boxes)}
    links, loops = list[Link](), dict[_BlockPiece, list[str]]()
    for arrow in outline.arrows:
        source, target = block_of[arrow.source], block_of[arrow.target]
        if (arrow.source, arrow.target) in inner:
            continue
        if source is target:
            loops.setdefault(source, []).append(arrow.label)
        else:
            label = _label_piece(arrow.label) if arrow.label else None
            links.append(Link(source=source, target=target, label=label))
    for block, texts in loops.items():
        block.loop = _label_piece(" / ".join(filter(None, texts)))
        block.beside = _LOOP + block.loop.width + 8
        block.height = max(block.height, block.loop.height)
        if block.title is None:
            block.cells[0].height = block.height
    width, height = lay_out(blocks, links)
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        _opening_tag(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            width=f"{width:.0f}",
            height=f"{height:.0f}",
            viewBox=f"0 0 {width:.1f} {height:.1f}",
            role="img",
            font_family=_FONTS,
            text_anchor="middle",
        ),
        _xml_element("title", name),
        _xml_element("desc", description or f"The steps of the workflow {name}."),
        f"<style>@media (prefers-color-scheme: dark) {{\n{_DARK_RULES}\n}}</style>",
        _ARROW_HEAD,
        _xml_element("rect", class_="page", width="100%", height="100%", fill=_PAGE),
        *(part for block in blocks if block.title for part in _drawn_frame(block, block.title)),
        *(_drawn_line(link.route) for link in links),
        *(part for block in blocks if block.loop for part in _drawn_loop(block, block.loop)),
        *(part for link in links if isinstance(link.label, _LabelPiece) for part in _drawn_label(link.label)),
        *(part for block in blocks for part in _drawn_cells(block)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- the pieces, with their sizes ---------------------------------------------------------------------------


def _block_pieces(outline: Outline) -> list[_BlockPiece]:
    """In the order of the outline, a frame standing where its first box does."""
    frames = {key: frame for frame in outline.frames for key in frame.boxes}
    cells = {box.key: _box_piece(box) for box in outline.boxes}
    blocks: list[_BlockPiece] = []
    for key, cell in cells.items():
        frame = frames.get(key)
        if frame is None:
            blocks.append(_BlockPiece(cells=[cell], width=cell.width, height=cell.height))
        elif frame.boxes[0] == key:
            inner = [cells[one] for one in frame.boxes]
            widest = max(one.width for one in inner)
            for one in inner:
                one.width = widest
            title = _balanced_lines(frame.title, max_lines=2)
            width = max(widest, title.width) + 2 * _PADDING
            height = sum(one.height for one in inner) + _FRAME_GAP * (len(inner) - 1)
            height += title.height + 2.5 * _PADDING
            blocks.append(_BlockPiece(cells=inner, title=title, width=width, height=height))
    return blocks


def _box_piece(box: Box) -> _BoxPiece:
    texts = [_balanced_lines(box.title, max_lines=3, size=_TITLE_SIZE, bold=True)]
    texts += [_balanced_lines(line, max_lines=4) for line in box_lines(box)]
    side = 26.0 if box.kind in ("human", "router", "evaluator") else _PADDING
    least = 60.0 if box.kind in ("start", "end") else 110.0
    width = max(max(text.width for text in texts) + 2 * side, least)
    height = sum(text.height for text in texts) + 1.4 * _PADDING
    return _BoxPiece(box=box, texts=texts, width=width, height=height)


def _label_piece(content: str) -> _LabelPiece:
    text = _balanced_lines(content, max_lines=4, room=_LABEL_WIDTH)
    return _LabelPiece(text=text, width=text.width + 10, height=text.height + 6)


def _balanced_lines(
    content: str, *, max_lines: int, room: float = _BOX_WIDTH, size: float = _TEXT_SIZE, bold: bool = False
) -> _TextLines:
    """In as few lines as possible, but of about the same length; what is left of too many ends in '…'."""
    ems = room / size / (_BOLD if bold else 1)
    lines = _break_lines(content, ems, max_lines + 1)
    if len(lines) > max_lines:
        lines.pop()
        while lines[-1] and _text_ems(lines[-1] + "…") > ems:
            lines[-1] = lines[-1][:-1]
        lines[-1] = lines[-1].rstrip() + "…"
    elif len(lines) > 1:
        longest = max(map(_text_ems, content.split()))  # a little too wide, it still reads better whole
        narrower = (
            _break_lines(content, max(ems * share, longest), len(lines) + 1)
            for share in (0.55, 0.65, 0.75, 0.85)
        )
        lines = next((other for other in narrower if len(other) == len(lines)), lines)
    return _TextLines(lines, size, bold)


def _break_lines(content: str, room: float, max_lines: int) -> list[str]:
    """The first lines of a text, broken between words where that is possible."""
    rest, lines = " ".join(content.split()), list[str]()
    while rest and len(lines) < max_lines:
        used = accumulate(map(_text_ems, rest))
        cut = next((index for index, ems in enumerate(used) if ems > room), len(rest))
        if cut < len(rest):
            space = rest.rfind(" ", 1, cut + 1)
            cut = space if space > 0 else max(cut, 1)
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines


def _text_ems(text: str) -> float:
    """How wide text is, without a font: as in the widest of the usual ones, so that it fits in all."""
    return sum(map(_letter_ems, text))


def _letter_ems(letter: str) -> float:
    if letter in "iljI.,:;'|! ()[]{}/\\-rtf`\"":
        return 0.43
    if letter in "mwMW@%—…":
        return 1.0
    if letter.isascii():
        return 0.8 if letter.isupper() else 0.66
    if unicodedata.combining(letter):
        return 0.0
    is_wide = unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0xFFFF
    return 1.4 if is_wide else 0.85


# --- the drawing --------------------------------------------------------------------------------------------


def _drawn_frame(block: _BlockPiece, title: _TextLines) -> Iterator[str]:
    yield _rectangle_element("frame", block, 10.0, fill=_FRAME, stroke=_EDGE, stroke_dasharray="2 3")
    yield from _drawn_text(title, block.x, block.y + _PADDING / 2, _INK)


def _drawn_cells(block: _BlockPiece) -> Iterator[str]:
    x, y = block.x, block.y + (block.title.height + _PADDING if block.title else 0.0)
    for index, cell in enumerate(block.cells):
        if index:
            yield _drawn_line([((x, y - _FRAME_GAP), (x, y))])
        box, cell.x, cell.y = cell.box, x, y
        yield _opening_tag("g", class_=f"box {box.kind}", data_step=box.key)
        yield _xml_element("title", "\n".join(filter(None, [box.title, box.when, box.input])))
        yield _drawn_shape(cell)
        top = y + (cell.height - sum(text.height for text in cell.texts)) / 2
        for text in cell.texts:
            yield from _drawn_text(text, x, top, _INK if text.bold else _SOFT)
            top += text.height
        yield "</g>"
        y += cell.height + _FRAME_GAP


def _drawn_shape(cell: _BoxPiece) -> str:
    kind = cell.box.kind
    fill, stroke = _COLOURS[kind]
    if kind not in ("human", "router", "evaluator"):
        radius = cell.height / 2 if kind in ("start", "end") else 6.0
        dashes = "6 4" if kind == "worker" else None
        return _rectangle_element(
            "shape", cell, radius, fill=fill, stroke=stroke, stroke_width=1.4, stroke_dasharray=dashes
        )
    left, right, top, bottom = cell.left, cell.right, cell.y, cell.y + cell.height
    if kind == "human":
        corners = [(left + _SLANT, top), (right, top), (right - _SLANT, bottom), (left, bottom)]
    else:
        middle, inner_left, inner_right = top + cell.height / 2, left + _SLANT, right - _SLANT
        corners = [(inner_left, top), (inner_right, top), (right, middle)]
        corners += [(inner_right, bottom), (inner_left, bottom), (left, middle)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return _xml_element("polygon", class_="shape", points=points, fill=fill, stroke=stroke, stroke_width=1.4)


def _drawn_label(label: _LabelPiece) -> Iterator[str]:
    yield _rectangle_element("label", label, 4.0, fill=_PAGE, stroke=_EDGE, stroke_width=0.7)
    yield from _drawn_text(label.text, label.x, label.y + 3, _INK)


def _drawn_loop(block: _BlockPiece, label: _LabelPiece) -> Iterator[str]:
    right, upper, lower = block.right, block.y + block.height * 0.3, block.y + block.height * 0.7
    out = right + _LOOP * 1.3
    yield _path_element(
        f"M {right:.1f} {upper:.1f} C {out:.1f} {upper:.1f} {out:.1f} {lower:.1f} {right:.1f} {lower:.1f}"
    )
    if label.text.lines:
        label.x, label.y = right + _LOOP + label.width / 2, block.y + (block.height - label.height) / 2
        yield from _drawn_label(label)


def _drawn_line(route: Route) -> str:
    """Straight pieces, joined by curves that leave and arrive upright."""
    (x, y), _ = route[0]
    data = [f"M {x:.1f} {y:.1f}"]
    for index, ((x1, y1), (x2, y2)) in enumerate(route):
        if index:
            half = (y + y1) / 2
            data.append(f"C {x:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}")
        if (x1, y1) != (x2, y2):
            data.append(f"L {x2:.1f} {y2:.1f}")
        x, y = x2, y2
    return _path_element(" ".join(data))


def _path_element(data: str) -> str:
    return _xml_element(
        "path", class_="line", d=data, fill="none", stroke=_LINE, stroke_width=1.5, marker_end="url(#arrow)"
    )


def _drawn_text(text: _TextLines, middle: float, top: float, colour: str) -> Iterator[str]:
    for index, line in enumerate(text.lines):
        yield _xml_element(
            "text",
            line,
            x=middle,
            y=top + (index + 0.76) * text.size * _LINE_HEIGHT,
            font_size=text.size,
            font_weight="600" if text.bold else None,
            fill=colour,
        )


def _rectangle_element(name: str, piece: Piece, radius: float, **attributes: str | float | None) -> str:
    attributes |= {"x": piece.left, "y": piece.y, "width": piece.width, "height": piece.height}
    return _xml_element("rect", class_=name, rx=radius, **attributes)


def _xml_element(name: str, text: str | None = None, /, **attributes: str | float | None) -> str:
    head = _opening_tag(name, **attributes)
    return f"{head}{_escaped_xml(text)}</{name}>" if text is not None else f"{head[:-1]}/>"


def _opening_tag(name: str, **attributes: str | float | None) -> str:
    """The opening tag; `class_` is class, and `data_step` is data-step."""
    tag = f"<{name}"
    for key, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
            tag += f' {key.rstrip("_").replace("_", "-")}="{_escaped_xml(text)}"'
    return tag + ">"


def _escaped_xml(text: str) -> str:
    """Text that is nothing but text; characters that XML cannot hold are replaced."""
    return escape(re.sub("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", text))
