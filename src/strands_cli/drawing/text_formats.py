"""An outline as text that other programs draw: a Mermaid flowchart, or a graph for Graphviz."""

import json
import re

from strands_cli.patterns.outline import Box, Outline, first_line, printable_text, tool_name

_MAX_TOOLS = 6
_MAX_ITEMS = 40
"""Characters that are shown of what a step goes through."""
_MERMAID_SHAPES = {
    "start": '(["{}"])',
    "end": '(["{}"])',
    "human": '[/"{}"/]',
    "router": '{{{{"{}"}}}}',
    "evaluator": '{{{{"{}"}}}}',
    "reduce": '[["{}"]]',
}
_MERMAID_SPECIAL = re.compile("[^\\w ,:/=?!'()\x80-\U0010ffff]")
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
    if box.workflow:
        lines.append(f"workflow {box.workflow}")
    if box.foreach:
        lines.append(f"for each of {first_line(box.foreach, _MAX_ITEMS)}")
    if box.kind == "tool":
        lines.append(f"tool {tool_name(box.tools[0])}")
    elif box.tools:
        names = [tool_name(tool) for tool in box.tools]
        more = f", … {len(names) - _MAX_TOOLS} more" if len(names) > _MAX_TOOLS else ""
        lines.append(f"tools: {', '.join(names[:_MAX_TOOLS])}{more}")
    if box.kind in ("worker", "orchestrator"):
        lines.append(box.note)
    return lines


def as_mermaid(outline: Outline, name: str) -> str:
    """Text for Mermaid 10 and later; whatever is in names and conditions stays text."""
    ids, nodes = _box_ids(outline), dict[str, str]()
    for box in outline.boxes:
        text = "<br/>".join(map(_for_mermaid, (box.title, *box_lines(box))))
        nodes[box.key] = ids[box.key] + _MERMAID_SHAPES.get(box.kind, '["{}"]').format(text)
    frames: list[str] = []
    for index, frame in enumerate(outline.frames):
        inner = [f"    {nodes.pop(key)}" for key in frame.boxes]
        frames += [f'  subgraph g{index}["{_for_mermaid(frame.title)}"]', *inner, "  end"]
    title = json.dumps(printable_text(" ".join(name.split())), ensure_ascii=False)
    lines = ["---", f"title: {title}", "---", "flowchart TD"]
    lines += [*(f"  {node}" for node in nodes.values()), *frames]
    for arrow in outline.arrows:
        label = f'|"{_for_mermaid(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {ids[arrow.source]} -->{label} {ids[arrow.target]}")
    dynamic = [ids[box.key] for box in outline.boxes if box.kind == "worker"]
    if dynamic:
        lines += ["  classDef dynamic stroke-dasharray: 5 5", f"  class {','.join(dynamic)} dynamic"]
    return "\n".join(lines) + "\n"


def as_dot(outline: Outline, name: str) -> str:
    ids, nodes = _box_ids(outline), dict[str, str]()
    for box in outline.boxes:
        label = _for_dot(box.title, *box_lines(box))
        nodes[box.key] = f"{ids[box.key]} [label={label}{_DOT_SHAPES.get(box.kind, '')}];"
    frames: list[str] = []
    for index, frame in enumerate(outline.frames):
        inner = [f"    {nodes.pop(key)}" for key in frame.boxes]
        frames += [f"  subgraph cluster_{index} {{", f"    label={_for_dot(frame.title)};", *inner, "  }"]
    lines = [
        f"digraph {_for_dot(name)} {{",
        f'  graph [label={_for_dot(name)}, labelloc=t, rankdir=TB, charset="utf-8"];',
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=11];',
        *(f"  {node}" for node in nodes.values()),
        *frames,
    ]
    for arrow in outline.arrows:
        label = f" [label={_for_dot(arrow.label)}]" if arrow.label else ""
        lines.append(f"  {ids[arrow.source]} -> {ids[arrow.target]}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _box_ids(outline: Outline) -> dict[str, str]:
    return {box.key: f"n{index}" for index, box in enumerate(outline.boxes)}


def _for_mermaid(text: str) -> str:
    """As one line; what means something to Mermaid, Markdown or HTML becomes a character reference."""
    line = printable_text(" ".join(text.split()))
    return _MERMAID_SPECIAL.sub(lambda found: f"#{ord(found[0])};", line) or " "


def _for_dot(*lines: str) -> str:
    """A string of DOT; '&' is escaped because Graphviz reads character references in labels."""
    text = "\n".join(printable_text(" ".join(line.split())) for line in lines)
    for letter, written in {"\\": "\\\\", '"': '\\"', "&": "&amp;", "\n": "\\n"}.items():
        text = text.replace(letter, written)
    return f'"{text}"'
