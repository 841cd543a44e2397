"""An outline as a graph for Graphviz."""

from collections.abc import Iterator

from strands_cli.cli.workflow.texts import box_lines, printable
from strands_cli.patterns.outline import Arrow, Box, Outline

_STYLES = {
    "start": "shape=oval",
    "end": "shape=oval",
    "human": "shape=parallelogram",
    "router": "shape=hexagon",
    "evaluator": "shape=hexagon",
    "reduce": "shape=box, peripheries=2",
    "worker": 'shape=box, style="rounded,dashed"',
}


def as_dot(outline: Outline, name: str) -> str:
    return "\n".join([f"digraph {_quoted(name)} {{", *_body(outline, name), "}"]) + "\n"


def _body(outline: Outline, name: str) -> Iterator[str]:
    ids = {box.key: f"n{index}" for index, box in enumerate(outline.boxes)}
    boxes = {box.key: box for box in outline.boxes}
    framed = {key for frame in outline.frames for key in frame.boxes}
    yield f'  graph [label={_quoted(name)}, labelloc=t, rankdir=TB, charset="utf-8"];'
    yield '  node [shape=box, style=rounded, fontname="sans-serif"];'
    yield '  edge [fontname="sans-serif", fontsize=11];'
    yield from (f"  {_box(box, ids)}" for box in outline.boxes if box.key not in framed)
    for index, frame in enumerate(outline.frames):
        yield f"  subgraph cluster_{index} {{"
        yield f"    label={_quoted(frame.title)};"
        yield from (f"    {_box(boxes[key], ids)}" for key in frame.boxes)
        yield "  }"
    yield from (f"  {_arrow(arrow, ids)}" for arrow in outline.arrows)


def _box(box: Box, ids: dict[str, str]) -> str:
    style = f", {_STYLES[box.kind]}" if box.kind in _STYLES else ""
    return f"{ids[box.key]} [label={_quoted(box.title, *box_lines(box))}{style}];"


def _arrow(arrow: Arrow, ids: dict[str, str]) -> str:
    label = f" [label={_quoted(arrow.label)}]" if arrow.label else ""
    return f"{ids[arrow.source]} -> {ids[arrow.target]}{label};"


def _quoted(*lines: str) -> str:
    """A string of DOT; '&' is escaped because Graphviz reads character references in labels."""
    texts = [printable(" ".join(line.split())) for line in lines]
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for text in texts]
    return '"' + "\\n".join(escaped) + '"'
