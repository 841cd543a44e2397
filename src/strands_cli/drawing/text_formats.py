"""An outline as text that other programs draw: a Mermaid flowchart, or a graph for Graphviz."""

from strands_cli.patterns.outline import Box, Outline, tool_name

_MAX_TOOLS = 6
_MERMAID_SHAPES = {
    "start": '(["{}"])',
    "end": '(["{}"])',
    "human": '[/"{}"/]',
    "router": '{{{{"{}"}}}}',
    "evaluator": '{{{{"{}"}}}}',
    "reduce": '[["{}"]]',
}
_MERMAID_PLAIN = frozenset(" ,:_/=?!'()")
_DOT_SHAPES = {
    "start": ", shape=oval",
    "end": ", shape=oval",
    "human": ", shape=parallelogram",
    "router": ", shape=hexagon",
    "evaluator": ", shape=hexagon",
    "reduce": ", shape=box, peripheries=2",
    "worker": ', shape=box, style="rounded,dashed"',
}


def box_lines(box: Box) -> list[str]:
    """What is written into a box below its title, the same in every format."""
    lines = []
    if box.agent and box.agent != box.title:
        lines.append(f"agent {box.agent}")
    if box.kind == "human":
        lines.append("asks a human")
    if box.tools:
        names = [tool_name(tool) for tool in box.tools]
        more = f", … {len(names) - _MAX_TOOLS} more" if len(names) > _MAX_TOOLS else ""
        lines.append(f"tools: {', '.join(names[:_MAX_TOOLS])}{more}")
    if box.kind in ("worker", "orchestrator"):
        lines.append(box.note)
    return lines


def as_mermaid(outline: Outline, name: str) -> str:
    """Text for Mermaid 10 and later; whatever is in names and conditions stays text."""
    ids = _box_ids(outline)
    nodes = {
        box.key: ids[box.key]
        + _MERMAID_SHAPES.get(box.kind, '["{}"]').format(
            "<br/>".join(_for_mermaid(line) for line in (box.title, *box_lines(box)))
        )
        for box in outline.boxes
    }
    framed = {key for frame in outline.frames for key in frame.boxes}
    lines = ["---", f'title: "{name}"', "---", "flowchart TD"]
    lines += [f"  {node}" for key, node in nodes.items() if key not in framed]
    for index, frame in enumerate(outline.frames):
        lines.append(f'  subgraph g{index}["{_for_mermaid(frame.title)}"]')
        lines += [f"    {nodes[key]}" for key in frame.boxes]
        lines.append("  end")
    for arrow in outline.arrows:
        label = f'|"{_for_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {ids[arrow.source]} -->{label} {ids[arrow.target]}")
    dynamic = [ids[box.key] for box in outline.boxes if box.kind == "worker"]
    if dynamic:
        lines += ["  classDef dynamic stroke-dasharray: 5 5", f"  class {','.join(dynamic)} dynamic"]
    return "\n".join(lines) + "\n"


def as_dot(outline: Outline, name: str) -> str:
    ids = _box_ids(outline)
    nodes = {
        box.key: f"{ids[box.key]} [label={_for_dot(box.title, *box_lines(box))}"
        f"{_DOT_SHAPES.get(box.kind, '')}];"
        for box in outline.boxes
    }
    framed = {key for frame in outline.frames for key in frame.boxes}
    lines = [
        f"digraph {_for_dot(name)} {{",
        f'  graph [label={_for_dot(name)}, labelloc=t, rankdir=TB, charset="utf-8"];',
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=11];',
    ]
    lines += [f"  {node}" for key, node in nodes.items() if key not in framed]
    for index, frame in enumerate(outline.frames):
        lines += [f"  subgraph cluster_{index} {{", f"    label={_for_dot(frame.title)};"]
        lines += [f"    {nodes[key]}" for key in frame.boxes]
        lines.append("  }")
    for arrow in outline.arrows:
        label = f" [label={_for_dot(arrow.label)}]" if arrow.label else ""
        lines.append(f"  {ids[arrow.source]} -> {ids[arrow.target]}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _box_ids(outline: Outline) -> dict[str, str]:
    return {box.key: f"n{index}" for index, box in enumerate(outline.boxes)}


def _for_mermaid(text: str) -> str:
    """As one line; what means something to Mermaid, Markdown or HTML becomes a character reference."""
    return (
        "".join(
            letter
            if letter.isalnum() or letter in _MERMAID_PLAIN or not letter.isascii()
            else f"#{ord(letter)};"
            for letter in _printable_line(text)
        )
        or " "
    )


def _for_dot(*lines: str) -> str:
    """A string of DOT; '&' is escaped because Graphviz reads character references in labels."""
    texts = [
        _printable_line(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
        for line in lines
    ]
    return '"' + "\\n".join(texts) + '"'


def _printable_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))
