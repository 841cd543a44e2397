"""A run as text: each prompt, message, call and result as the model saw it, step by step.

Each line of text from models, tools and people begins with `|`, so it cannot imitate our own lines.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from strands_cli.cli.terminal import (
    cell_width,
    cut_text,
    duration_text,
    one_line,
    tokens_text,
    visible_text,
    wrapped_text,
)
from strands_cli.exec.history import (
    Answered,
    Asked,
    Called,
    Compacted,
    GivenAnswer,
    Noticed,
    Retried,
    RunHistory,
    RunView,
    Sent,
    StepEntry,
    StepView,
    Summarised,
    decode,
)
from strands_cli.secrets import without_credentials
from strands_cli.types.run_results import Usage, money_text

_GUTTER = "  | "
_NARROWEST = 20
_SHORT = 80
_BY = {"person": "typed at the terminal", "resume": "given to strands resume", "default": "the default"}
_LABELS = {"reasoning": "reasoning", "result": "result of a tool", "image": "image"}


# --- What messages and results consist of -----------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message or a result, as people read it."""

    kind: Literal["text", "reasoning", "call", "result", "data", "image"]
    text: str = ""
    name: str = ""
    """The name of the called tool, or of a document."""
    image: bytes = b""
    format: str = ""


def content_parts(content: Any) -> Iterator[Part]:
    """The parts of the content of a message or a tool result."""
    for block in _blocks(content):
        if isinstance(block, dict) and isinstance(block.get("toolResult"), dict):
            yield Part(kind="result")
            for inner in _blocks(block["toolResult"]):
                yield _part(inner)
        else:
            yield _part(block)


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, dict) and isinstance(content.get("content"), list):
        content = content["content"]
    return content if isinstance(content, list) else [content]


def _part(block: Any) -> Part:
    match block:
        case str():
            return Part(kind="text", text=block)
        case {"text": str(text)}:
            return Part(kind="text", text=text)
        case {"toolUse": {"name": name, "input": arguments}}:
            return Part(kind="call", name=str(name), text=data_text(arguments))
        case {"reasoningContent": {"reasoningText": {"text": str(text)}}}:
            return Part(kind="reasoning", text=text)
        case {"image": {"format": str(form), "source": {"bytes": bytes(image)}}}:
            return Part(kind="image", image=image, format=form, text=f"{form}, {len(image):,} bytes")
        case {"json": value}:
            return Part(kind="data", text=data_text(value))
    return Part(kind="data", text=data_text(block))


def data_text(value: Any) -> str:
    """A value as readable JSON, on one line if it is short; of bytes, only their number."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_shown_as)
        if len(text) > _SHORT:
            text = json.dumps(value, indent=2, ensure_ascii=False, default=_shown_as)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return text


def _shown_as(value: Any) -> str:
    return f"({len(value):,} bytes)" if isinstance(value, bytes) else str(value)


# --- Lines ------------------------------------------------------------------------------------------


class Line(NamedTuple):
    kind: Literal["step", "label", "trouble", "text"]
    text: str = ""


def transcript_lines(view: RunView, width: int | None = None) -> Iterator[Line]:
    """All steps of a run, one after the other in the order of the file; `width` is the terminal's."""
    for number, step in enumerate(view.steps, 1):
        yield Line("text")
        yield from _heading(step, width, facts=step_facts(step), number=f"{number} of {len(view.steps)}: ")
        for attempt in step.attempts:
            is_final = not step.has_started_again(attempt)
            then = "a resumed run starts the step again" if is_final else "the step started again after this"
            yield Line("trouble", f"-- discarded attempt: {then}")
            yield from _heading(attempt, width, facts=step_facts(attempt))
            yield from _body(attempt, width)
            if not is_final:
                yield Line("trouble", "-- anew")
        yield from _body(step, width)
    for notice in view.notices:
        yield Line("label", f"\nnotice: {one_line(notice.text)}")


def _body(step: StepView, width: int | None) -> Iterator[Line]:
    for entry in step.entries:
        yield from _entry_lines(step, entry, width)
    yield from _ending(step, width)


def _keep_questions(step: StepView) -> None:
    """Forgets what was printed of a step, but for its questions: one may be asked again."""
    step.entries[:] = [entry for entry in step.entries if isinstance(entry, Asked)]


class LiveTranscript:
    """The transcript during a run, from the rows of the journal. Parallel steps are interleaved."""

    def __init__(self, write: Callable[[Sequence[str]], None], width: int | None = None) -> None:
        self._write, self._width = write, width
        self._history = RunHistory()
        self._shown = ""

    def row(self, key: str, value: Any) -> None:
        step, entry = self._history.add(key, value)
        lines = [*self._lines(key, step, entry)] if step is not None or entry is not None else []
        if step is not None:
            _keep_questions(step)
        if lines:
            self._shown = step.key if step is not None else ""
            self._write([line.text for line in lines])

    def remember(self, rows: Mapping[str, bytes]) -> None:
        """Reads the earlier rows of a resumed run, without printing them."""
        for key, data in rows.items():
            step, _ = self._history.add(key, decode(data, key))
            if step is not None:
                _keep_questions(step)

    def _lines(self, key: str, step: StepView | None, entry: StepEntry | None) -> Iterator[Line]:
        if step is None:
            assert isinstance(entry, Noticed)
            yield Line("label", f"notice: {one_line(entry.text)}")
            return
        name = key.rpartition("/")[2]
        if name == "begun":
            yield from _heading(step, self._width, facts=_begin_facts(step))
            return
        happened = [*self._happened(name, step, entry)]
        if happened and step.key != self._shown:
            yield Line("step", f"== {_named(step)}, continued")
        yield from happened

    def _happened(self, name: str, step: StepView, entry: StepEntry | None) -> Iterator[Line]:
        if name == "failed":
            yield Line("trouble", f"failed: {one_line(step.error)}")
        elif name == "answer" and isinstance(entry, Asked):
            yield from _answer_lines(entry, self._width)
        elif entry is not None:
            yield from _entry_lines(step, entry, self._width)


def _named(step: StepView) -> str:
    title, key = (cut_text(one_line(name[: 4 * _SHORT]), _SHORT) for name in (step.title, step.key))
    return title if title == key else f"{title} ({key})"


def _heading(step: StepView, width: int | None, *, facts: Sequence[str], number: str = "") -> Iterator[Line]:
    yield Line("step", f"== {number}{_named(step)}")
    if facts:
        yield Line("text", f"   {', '.join(facts)}")
    if step.continues:
        yield Line("text", f"   continues the conversation of {one_line(step.continues)}")
    if step.tools:
        yield Line("text", f"   tools: {', '.join(map(one_line, step.tools))}")
    if step.prompt:
        yield Line("label", "system prompt")
        yield from gutter_lines(step.prompt, width)


def _begin_facts(step: StepView) -> list[str]:
    return [*filter(None, map(one_line, (step.agent or step.kind, step.model)))]


def step_facts(step: StepView) -> list[str]:
    """The agent, start, status, duration and usage of a step."""
    began = f"began {datetime.fromtimestamp(step.at):%H:%M:%S}"
    ended = step.status if step.status == "waiting" else f"{step.status} after {duration_text(step.seconds)}"
    return [*_begin_facts(step), began, ended, *usage_facts(step.usage)]


def usage_facts(usage: Usage) -> list[str]:
    tokens = [tokens_text(usage.total_tokens)] if usage.total_tokens else []
    return [*tokens, money_text(usage.cost)] if usage.cost is not None else tokens


def _entry_lines(step: StepView, entry: StepEntry, width: int | None) -> Iterator[Line]:
    match entry:
        case Sent():
            yield Line("label", "to the model")
            yield from _content_lines(entry.content, width)
        case Answered():
            what = "summary by the model" if isinstance(entry, Summarised) else "from the model"
            facts = ", ".join([duration_text(entry.seconds), *usage_facts(entry.usage)])
            yield Line("label", f"{what}, {facts}")
            yield from _content_lines(entry.message.get("content"), width)
        case Called():
            failed = f", failed: {one_line(entry.code)}" if entry.code else ""
            if step.kind == "tool":
                yield Line("label", f"call {one_line(entry.tool)}")
                yield from gutter_lines(data_text(entry.arguments), width)
            label = f"result of {one_line(entry.tool)}, {duration_text(entry.seconds)}{failed}"
            yield Line("trouble" if failed else "label", label)
            yield from _content_lines(entry.result, width)
        case Asked():
            yield from _question_lines(entry, width)
        case Retried():
            again = f"again after {duration_text(entry.wait_seconds)}"
            yield Line("trouble", f"the request failed, {again}: {one_line(entry.reason)}")
        case Compacted():
            yield Line("label", f"the conversation from here on, {len(entry.messages)} messages")
            for message in entry.messages:
                yield Line("label", f"  {one_line(str(message.get('role')))}")
                yield from _content_lines(message.get("content"), width)
        case Noticed():
            yield Line("label", f"notice: {one_line(entry.text)}")


def _question_lines(asked: Asked, width: int | None) -> Iterator[Line]:
    yield Line("label", f"question to a person ({one_line(asked.kind)})")
    if asked.question:
        yield from gutter_lines(asked.question, width)
    if asked.answer is not None:
        yield from _answer_lines(asked, width)


def _answer_lines(asked: Asked, width: int | None) -> Iterator[Line]:
    assert asked.answer is not None
    by = _BY.get(asked.answer.by, one_line(asked.answer.by))
    yield Line("label", f"answer, {by}" if by else "answer")
    yield from gutter_lines(answer_text(asked.answer), width)


def answer_text(answer: GivenAnswer) -> str:
    if answer.granted is None:
        return answer.text
    calls = "call" if len(answer.granted) == 1 else "calls"
    return f"agreed to {len(answer.granted)} {calls}" if answer.granted else "refused"


def _ending(step: StepView, width: int | None) -> Iterator[Line]:
    if step.error and step.status != "done":
        yield Line("trouble", f"failed: {one_line(step.error)}")
    elif step.error:
        yield Line("label", f"failed before: {one_line(step.error)}")
    if step.output is not None and step.kind != "tool":
        yield Line("label", "answer as data")
        yield from gutter_lines(data_text(step.output), width)
    elif step.response and step.kind in ("workflow", "each"):
        yield Line("label", "answer")
        yield from gutter_lines(step.response, width)
    if step.waiting:
        yield Line("trouble", "waits for an answer")
    elif step.status == "interrupted":
        yield Line("trouble", "not finished")


def _content_lines(content: Any, width: int | None) -> Iterator[Line]:
    for part in content_parts(content):
        yield from _part_lines(part, width)


def _part_lines(part: Part, width: int | None) -> Iterator[Line]:
    if part.kind == "call":
        yield Line("label", f"call {one_line(part.name)}")
    elif part.kind in _LABELS:
        yield Line("label", _LABELS[part.kind])
    if part.kind != "result":
        yield from gutter_lines(part.text, width)


def gutter_lines(text: str, width: int | None) -> Iterator[Line]:
    """The text with `|` before each line, wrapped to the width if there is one."""
    room = max(width - len(_GUTTER) - 1, _NARROWEST) if width else 0
    for line in visible_text(without_credentials(text), lines=True).expandtabs(4).split("\n"):
        if not room or cell_width(line) <= room:
            yield Line("text", f"{_GUTTER}{line}".rstrip())
            continue
        indent = line[: min(len(line) - len(line.lstrip()), room // 2)]
        for part in wrapped_text(line, room - len(indent)):
            for at in range(0, len(part), room):  # a word that is longer than the window
                yield Line("text", f"{_GUTTER}{indent}{part[at : at + room]}")
