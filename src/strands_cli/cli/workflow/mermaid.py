"""An outline as a Mermaid flowchart."""

from collections.abc import Iterator

from strands_cli.cli.workflow.texts import box_lines
from strands_cli.patterns.outline import Arrow, Box, Outline

_SHAPES = {
    "start": '(["{}"])',
    "end": '(["{}"])',
    "human": '[/"{}"/]',
    "router": '{{{{"{}"}}}}',
    "evaluator": '{{{{"{}"}}}}',
    "reduce": '[["{}"]]',
}
_PLAIN = frozenset(" ,:_/=?!'()")


def as_mermaid(outline: Outline, name: str) -> str:
    """Text for Mermaid 10 and later; whatever is in names and conditions stays text."""
    return "\n".join(["---", f'title: "{name}"', "---", "flowchart TD", *_body(outline)]) + "\n"


def _body(outline: Outline) -> Iterator[str]:
    ids = {box.key: f"n{index}" for index, box in enumerate(outline.boxes)}
    boxes = {box.key: box for box in outline.boxes}
    framed = {key for frame in outline.frames for key in frame.boxes}
    yield from (f"  {_box(box, ids)}" for box in outline.boxes if box.key not in framed)
    for index, frame in enumerate(outline.frames):
        yield f'  subgraph g{index}["{_escaped(frame.title)}"]'
        yield from (f"    {_box(boxes[key], ids)}" for key in frame.boxes)
        yield "  end"
    yield from (f"  {_arrow(arrow, ids)}" for arrow in outline.arrows)
    dynamic = [ids[box.key] for box in outline.boxes if box.kind == "worker"]
    if dynamic:
        yield "  classDef dynamic stroke-dasharray: 5 5"
        yield f"  class {','.join(dynamic)} dynamic"


def _box(box: Box, ids: dict[str, str]) -> str:
    text = "<br/>".join(_escaped(line) for line in (box.title, *box_lines(box)))
    return ids[box.key] + _SHAPES.get(box.kind, '["{}"]').format(text)


def _arrow(arrow: Arrow, ids: dict[str, str]) -> str:
    label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
    return f"{ids[arrow.source]} -->{label} {ids[arrow.target]}"


def _escaped(text: str) -> str:
    """As one line; what means something to Mermaid, Markdown or HTML becomes a character reference."""
    return "".join(map(_character, " ".join(text.split()))) or " "


def _character(letter: str) -> str:
    if letter.isalnum() or letter in _PLAIN:
        return letter
    if letter.isprintable() and not letter.isascii():
        return letter
    return f"#{ord(letter)};" if letter.isprintable() else "#65533;"
