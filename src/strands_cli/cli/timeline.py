"""The timeline of a run for terminals: a line with a bar for each step, on a common time axis."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import TextIO

from strands_cli.cli.output import Styled, count_text
from strands_cli.cli.terminal import (
    StreamStyle,
    cell_width,
    cut_text,
    duration_text,
    fit_text,
    one_line,
    tokens_text,
)
from strands_cli.cli.transcript import gutter_lines, usage_facts
from strands_cli.exec.history import CHAT, Asked, RunView, StepView, question_names

Line = Sequence[str | Styled]

_COLOURS = {"done": "green", "failed": "red", "waiting": "yellow", "interrupted": "yellow", "running": "cyan"}
_BARS = {"step": "─", "person": "·", "model": "█", "tool": "▒"}
_ASCII_BARS = {"step": "-", "person": ".", "model": "#", "tool": "="}
LEGEND = {"model": "model", "tool": "tool", "person": "waiting for a person"}
_CUT = "~"
_TITLE, _AGENT, _LEAST_BAR = 28, 16, 10
_LONGEST_REASON = 400
_SHOWN_GAPS = 3


# --- The time axis ----------------------------------------------------------------------------------------

_SHORTEST_GAP = 10.0
_WIDEST_GAP = 0.25
_GAP_WIDTH = 0.04
"""As a part of the axis."""


class Axis:
    """Maps times to positions from 0 to 1. Idle time, for example while a run is paused, is cut out."""

    def __init__(self, steps: Iterable[StepView]) -> None:
        busy = _merged(part for step in steps for part in _busy_parts(step))
        worked = sum(end - start for start, end in busy)
        longest, cut = max(_SHORTEST_GAP, _WIDEST_GAP * worked), max(worked, 1.0) * _GAP_WIDTH
        self.gaps: list[tuple[float, float]] = []
        """The idle times that are cut out: start and seconds of each."""
        self._times: list[float] = []
        self._offsets: list[float] = []
        offset = 0.0
        for start, end in busy:
            if self._times:
                gap = start - self._times[-1]
                offset += cut if gap > longest else gap
                self.gaps += [(self._times[-1], gap)] if gap > longest else []
            self._times += [start, end]
            self._offsets += [offset, offset + end - start]
            offset = self._offsets[-1]
        self.seconds = offset
        """The length of the axis, with gaps at their displayed width."""

    def gaps_in(self, step: StepView) -> Iterator[tuple[float, float]]:
        """Start and end of each gap that is cut out of a step."""
        for began, gap in self.gaps:
            if step.at <= began and began + gap <= step.end:
                yield began, began + gap

    def place(self, time: float) -> float:
        """The position of a time, from 0 to 1."""
        after = bisect_right(self._times, time)
        if not after or not self.seconds:
            return 0.0
        if after == len(self._times):
            return 1.0
        start, end = self._times[after - 1], self._times[after]
        low, high = self._offsets[after - 1], self._offsets[after]
        return (low + (high - low) * (time - start) / (end - start)) / self.seconds


def _busy_parts(step: StepView) -> Iterator[tuple[float, float]]:
    yield (step.at, step.at)
    yield from ((span.start, span.end) for span in step.spans() if span.kind != "person")
    waits = any(span.kind == "person" for span in step.spans())
    if step.status == "running":  # its current work has no row yet
        yield (step.at, step.end)
    elif step.status != "waiting":
        yield (max(step.at, step.end - step.seconds) if not waits else step.end, step.end)


def _merged(parts: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(parts):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# --- Lines ------------------------------------------------------------------------------------------


def timeline_lines(view: RunView, stream: TextIO, width: int, most: int) -> Iterator[Line]:
    """The lines for at most `most` steps; failed, running and waiting steps are preferred."""
    style = StreamStyle(stream, coloured=False)
    bars = _BARS if style.signs.dots == "…" else _ASCII_BARS
    steps = shown_steps(view.steps, most)
    axis = Axis(view.steps)
    titles = [_indented(step) for step in steps]
    title = min(max(map(cell_width, titles), default=0), _TITLE, width // 3)
    agents = [one_line(step.agent or step.kind) for step in steps]
    agent = min(max(map(cell_width, agents), default=0), _AGENT) if width >= 70 else 0
    facts = [", ".join([duration_text(step.seconds), *step_counts(step)]) for step in steps]
    fact = max(map(cell_width, facts), default=0)
    room = max(width - 2 - title - (agent + 2 if agent else 0) - 4 - fact - 1, _LEAST_BAR)
    room = min(room, 80)
    yield _axis_line(axis, view.steps, 4 + title + (agent + 2 if agent else 0), room)
    for step, name, who, what in zip(steps, titles, agents, facts, strict=True):
        sign = Styled(_sign(style, step.status), _COLOURS.get(step.status), bold=False)
        cells = fit_text(name, title, style.signs.dots) + "  "
        cells += fit_text(who, agent, style.signs.dots) + "  " if agent else ""
        yield [sign, " ", cells, bar_text(step, axis, room, bars), "  ", what]
        yield from _below(step)
    if len(steps) < len(view.steps):
        more = count_text(len(view.steps) - len(steps), "more step")
        yield [f"  {style.signs.dots} and {more}; -n 0 shows all."]
    kinds = {span.kind for step in steps for span in step.spans()}
    legend = [f"{bars[kind]} {text}" for kind, text in LEGEND.items() if kind in kinds]
    legend += [f"{_CUT} nothing was done for {duration_text(gap)}" for _, gap in axis.gaps[:_SHOWN_GAPS]]
    if legend:
        yield [Styled("  " + "   ".join(legend), "bright_black", bold=False)]


def shown_steps(steps: Sequence[StepView], most: int) -> list[StepView]:
    """At most `most` steps, in order: unfinished ones are preferred, then the last ones."""
    if not most or len(steps) <= most:
        return [*steps]
    ranked = sorted(range(len(steps)), key=lambda place: (steps[place].status == "done", -place))
    return [steps[place] for place in sorted(ranked[:most])]


def _indented(step: StepView) -> str:
    return "  " * min(step.depth, 6) + one_line(step.title)


def _sign(style: StreamStyle, status: str) -> str:
    signs = {"done": style.signs.done, "failed": style.signs.failed, "waiting": "?", "running": ">"}
    return signs.get(status, style.signs.stopped)


def step_counts(step: StepView) -> list[str]:
    """Tokens, calls and other counts of a step, each in a few words."""
    calls, failed = step.calls, sum(bool(call.code) for call in step.calls)
    parts = [
        tokens_text(step.usage.total_tokens) if step.usage.total_tokens else "",
        count_text(len(calls), "call") if calls else "",
        f"{failed} failed" if failed else "",
        f"{step.retries} retried" if step.retries else "",
        "again after a failure" if step.error and step.status == "done" else "",
        step.status if step.status not in ("done", "failed") else "",
    ]
    return [*filter(None, parts)]


def run_facts(view: RunView) -> list[str]:
    status = view.status
    seconds = [duration_text(status.seconds)] if status.seconds else []
    began = f"began {moment_text(view.head.created)}"
    return [began, *seconds, count_text(len(view.steps), "step"), *usage_facts(status.usage)]


def moment_text(seconds: float) -> str:
    """A time for people, in their time zone."""
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def _axis_line(axis: Axis, steps: Sequence[StepView], indent: int, room: int) -> Line:
    began = min((step.at for step in steps), default=0.0)
    left, right = f"{datetime.fromtimestamp(began):%H:%M:%S}", f"+{duration_text(axis.seconds)}"
    scale = left + " " * max(room - len(left) - len(right), 1) + right
    return [Styled(" " * indent + cut_text(scale, max(room, len(scale))), "bright_black", bold=False)]


def bar_text(step: StepView, axis: Axis, room: int, bars: Mapping[str, str]) -> str:
    """A step as a bar on an axis of `room` cells."""
    cells = [" "] * room

    def fill(start: float, end: float, character: str) -> None:
        first = min(math.floor(axis.place(start) * room), room - 1)
        last = max(math.ceil(axis.place(end) * room), first + 1)
        cells[first:last] = character * (min(last, room) - first)

    fill(step.at, step.end, bars["step"])
    spans = sorted(step.spans(), key=lambda span: [*bars].index(span.kind))
    for span in spans:
        fill(span.start, span.end, bars[span.kind])
    for began, end in axis.gaps_in(step):
        fill(began, end, _CUT)
    return "".join(cells)


def _below(step: StepView) -> Iterator[Line]:
    if step.error and step.status != "done":
        yield [
            "    ",
            Styled(cut_text(one_line(step.error[: 4 * _LONGEST_REASON]), _LONGEST_REASON), "red", bold=False),
        ]


def question_lines(asked: Asked, command: str, width: int | None) -> Iterator[Line]:
    """An open question, and the command that answers it."""
    yield [Styled(f"? {one_line(asked.title or asked.key)}", "yellow"), f" ({one_line(asked.kind)})"]
    yield from ([line.text] for line in gutter_lines(asked.question, width))
    yield [f"  {command}"]


def way_on(view: RunView) -> str:
    """The command that continues a run without open questions, or an empty text."""
    if view.head.pattern == CHAT:
        return f"strands chat --continue {view.id}" if view.status.status != "running" else ""
    options = {"failed": "", "interrupted": "", "budget": " --accept-changes"}
    status = view.status.status
    return f"strands resume {view.id}{options[status]}" if status in options else ""


def waiting_questions(view: RunView) -> Iterator[tuple[Asked, str]]:
    """The open questions, each with the command that answers it."""
    waiting = view.waiting
    names = question_names(waiting)
    for asked in waiting:
        text = "yes" if asked.kind == "consent" else "TEXT"
        word = f"{names[asked.key]}={text}" if len(waiting) > 1 else text
        yield asked, f"strands resume {view.id} --answer {quote(word)}"
