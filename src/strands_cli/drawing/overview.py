"""What a workflow would do, as plan, explain and graph show it; nothing is run or imported."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.loader.spec import Spec
from strands_cli.patterns.outline import END, NEVER, START, Box, Calls, Outline, first_line, tool_name
from strands_cli.tools.toolset import ToolSet
from strands_cli.types.run_results import money_text


def outline_of(spec: Spec, tools: ToolSet | None = None, known: dict[Path, Outline] | None = None) -> Outline:
    """`known` are those of workflows that steps run, by their files."""
    known = {} if known is None else known
    pattern, tools = spec.pattern, tools or ToolSet(spec)
    boxes, arrows, frames = pattern.outline(spec)
    tools_of = {name: tools.references_for(agent.tools) for name, agent in spec.agents.items()}
    for index, box in enumerate(boxes):
        inner = spec.workflows.get(box.workflow)
        if isinstance(inner, Spec):  # it asks models as often as its own outline says
            if inner.file not in known:
                known[inner.file] = outline_of(inner, tools.workflows[box.workflow], known)
            own = known[inner.file]
            changes: dict[str, Any] = {"calls": box.calls * own.calls, "has_tool_rounds": own.has_tool_rounds}
        else:
            given = tools_of.get(box.agent, box.tools)
            given = given if box.own_tools is None else tools.references_for(box.own_tools)
            changes = {"tools": given, "has_tool_rounds": bool(box.agent and given)}
        boxes[index] = msgspec.structs.replace(box, **changes)
    boxes = [*_with_conversations(spec, boxes)]
    calls = pattern.calls(boxes)
    allowed = spec.runtime.budgets.max_steps or calls.most
    start = Box(key=START, kind="start", title="start", calls=NEVER)
    end = Box(key=END, kind="end", title="end", calls=NEVER)
    return Outline(
        boxes=(start, *boxes, end),
        arrows=tuple(arrows),
        frames=tuple(frames),
        calls=Calls(min(calls.least, allowed), min(calls.most, allowed)),
        capped=allowed < calls.most,
    )


_IN_SEQUENCE = re.compile(r"(?P<sequence>(?:.*/)?steps)/\d+")
_IN_ROUNDS = ("producer", "evaluator")


def _with_conversations(spec: Spec, boxes: Sequence[Box]) -> Iterator[Box]:
    """The boxes, each with the one whose conversation it goes on with, as `exec.steps` has it."""
    latest: dict[tuple[str, str], str] = {}
    for box in boxes:
        agent, match = spec.agents.get(box.agent), _IN_SEQUENCE.fullmatch(box.key)
        if agent is None or box.foreach or not (match or box.key in _IN_ROUNDS):
            yield box
            continue
        is_fresh = (box.conversation or agent.conversation) == "fresh"
        before = "its earlier rounds" if box.calls.most > 1 else ""
        if match:
            sequence = match["sequence"], box.agent
            before, latest[sequence] = latest.get(sequence, ""), box.title
        yield msgspec.structs.replace(box, remembers="" if is_fresh else before)


def story_sentences(spec: Spec, outline: Outline) -> Iterator[str]:
    """How it goes in one sentence, then one for each thing that is done."""
    yield spec.pattern.story(spec)
    frames = {key: frame.title for frame in outline.frames for key in frame.boxes}
    titles = {box.key: box.title for box in outline.boxes}
    for box in outline.boxes[1:-1] if outline.frames else outline.work:
        following = []
        for arrow in outline.arrows:
            if arrow.source == box.key and box.key.startswith("nodes/"):  # of a graph
                is_plain = arrow.label in ("", "otherwise")
                condition = arrow.label if is_plain else f"if {first_line(arrow.label)}"
                following.append(f"{titles[arrow.target]} {condition}".rstrip())
        then = f" Then: {'; '.join(following)}." if following else ""
        about = f" {first_line(box.description).removesuffix('.')}." if box.description.strip() else ""
        yield _box_sentence(box, frames.get(box.key, "")) + about + then


def english_list(items: Sequence[str], last: str = "and") -> str:
    """`a, b and c`"""
    return f" {last} ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def _box_sentence(box: Box, frame: str) -> str:
    place = f"{frame}, {box.title}" if frame else box.title
    if place.startswith(("step ", "route ", "branch ")):
        place = place[0].upper() + place[1:]
    if box.note.startswith("after "):
        place += f" ({first_line(box.note)})"
    if box.stage == 0:
        return f"{place} is never reached."
    if box.kind == "human":
        return f'{place}: a human is asked: "{first_line(box.input)}"'
    each = f" For each item of {first_line(box.foreach)}." if box.foreach else ""
    if box.kind == "tool":
        given = f" with {first_line(box.input)}" if box.input else ""
        return f"{place}: the tool {tool_name(box.tools[0])} is called{given}.{each}"
    if box.kind == "workflow":
        given = f" with {first_line(box.input)}" if box.input else ""
        return f"{place}: the workflow {first_line(box.workflow)} runs{given}.{each}"
    text = f' is given "{first_line(box.input)}".' if box.input.strip() else " goes on with what came before."
    memory = f" It remembers {first_line(box.remembers)}." if box.remembers else ""
    if box.own_tools is not None:
        memory += f" Here it may call {english_list([*map(tool_name, box.tools)]) or 'no tools'}."
    return f"{place}: {first_line(box.agent)}{text}{memory}{each}"


def budget_texts(spec: Spec) -> list[str]:
    budgets = spec.runtime.budgets
    limits = {"steps": budgets.max_steps, "tokens": budgets.max_tokens, "seconds": budgets.max_duration_s}
    texts = [f"{number:g} {noun}" for noun, number in limits.items() if number is not None]
    return texts if budgets.max_cost is None else [*texts, money_text(budgets.max_cost)]
