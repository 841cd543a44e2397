"""What of a run is worth a line that stays, and in which words; the same for terminals and for files."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from strands_cli.cli.output import count
from strands_cli.cli.progress.board import Board, Row, is_call
from strands_cli.cli.text import call_text, clock, duration, failure_text, one_line, size, tokens
from strands_cli.events import (
    ArtifactWritten,
    ContextCompacted,
    Event,
    ModelRetried,
    RunFinished,
    RunNoticed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
)

Kind = Literal["heading", "started", "done", "failed", "stopped", "again", "trouble", "call", "note"]

_LONGEST = 400
_LONGEST_FAILURE = 120
_STOPPED = {"budget": "over budget", "paused": "waiting for a human", "interrupted": "interrupted"}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    title: str = ""
    agent: str = ""
    seconds: float | None = None
    """How long a step or a run took; lines without it have no columns of numbers."""
    tokens: int = 0
    rest: str = ""


def told(event: Event, row: Row, board: Board, *, verbose: bool) -> Line | None:
    """The line that an event is worth, after the board has taken it in."""
    tell = _TOLD.get(type(event))
    return tell(event, row, board, verbose) if tell else None


def abandoned(board: Board, now: float) -> list[Line]:
    """A line for each step whose end was never told."""
    return [
        Line(
            kind="stopped",
            title=one_line(row.title),
            agent=one_line(row.agent),
            seconds=now - row.started,
            tokens=row.usage.total_tokens,
            rest="not finished",
        )
        for row in board.abandon()
    ]


def plain(line: Line) -> str:
    """The line for files and pipes: `title: words, words`."""
    words: list[str] = [line.kind] if line.kind in ("started", "done", "failed", "stopped") else []
    if line.seconds is not None:
        words += [duration(line.seconds), tokens(line.tokens) if line.tokens else ""]
    said = ", ".join(filter(None, [*words, line.rest]))
    return f"{line.title}: {said}" if line.title else said


def _run_started(event: RunStarted, *_: Any) -> Line:
    return Line(kind="heading", rest=one_line(f"{event.workflow} ({event.pattern})"))


def _run_finished(event: RunFinished, _row: Row, board: Board, _verbose: bool) -> Line:
    kind: Kind = event.outcome if event.outcome in ("done", "failed") else "stopped"
    parts = [
        _STOPPED.get(event.outcome, ""),
        count(board.done + board.failed, "step"),
        f"{board.failed} failed" if board.failed else "",
        count(board.calls_made, "tool call") if board.calls_made else "",
    ]
    return Line(
        kind=kind,
        title=one_line(board.workflow) or "run",
        seconds=event.seconds,
        tokens=event.usage.total_tokens,
        rest=", ".join(filter(None, parts)),
    )


def _step_started(event: StepStarted, *_: Any) -> Line:
    rest = one_line(f"{event.agent}, {event.model}" if event.model else event.agent)
    return Line(kind="started", title=one_line(event.title), rest=rest)


def _step_finished(event: StepFinished, row: Row, *_: Any) -> Line:
    calls = count(row.calls_made, "tool call") if row.calls_made else ""
    return Line(
        kind="failed" if event.error else "done",
        title=one_line(event.title),
        agent=one_line(event.agent),
        seconds=event.seconds,
        tokens=row.usage.total_tokens,
        rest=_reason(event.error) or calls,
    )


def _retried(event: ModelRetried, row: Row, *_: Any) -> Line:
    wait = f"again in {_wait(event.wait_seconds)}"
    return Line(kind="again", title=one_line(row.title), rest=f"{_reason(event.reason).rstrip('.')}, {wait}")


def _compacted(event: ContextCompacted, row: Row, *_: Any) -> Line:
    rest = f"context compacted from {count(event.before, 'message')} to {event.after}"
    return Line(kind="note", title=one_line(row.title), rest=rest)


def _artifact(event: ArtifactWritten, *_: Any) -> Line:
    return Line(kind="note", rest=f"wrote {one_line(event.path)}, {size(event.size)}")


def _noticed(event: RunNoticed, row: Row, *_: Any) -> Line:
    return Line(kind="note", title=one_line(row.title), rest=_reason(event.text))


def _tool_finished(event: ToolFinished, row: Row, _board: Board, verbose: bool) -> Line | None:
    if not is_call(event):
        return None
    name = one_line(event.tool_id)
    if verbose and row.last_call is not None:
        name = call_text(event.tool_id, row.last_call.arguments, 120)
    kind: Kind = "trouble" if event.code else "call"
    rest = f"{name}{_failed(event)}, {duration(event.seconds)}"
    return Line(kind=kind, title=one_line(row.title), rest=rest)


def _failed(event: ToolFinished) -> str:
    """`` failed: No such file [not_found]``"""
    if not event.code:
        return ""
    why = failure_text(event.tool_id, event.content, _LONGEST_FAILURE)
    return f" failed{': ' if why else ''}{why} [{one_line(event.code)}]"


def _reason(text: str) -> str:
    shown = one_line(text[: 4 * _LONGEST])
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


def _wait(seconds: float) -> str:
    return f"{round(seconds, 1):g} s" if seconds < 10 else clock(seconds)


_TOLD: dict[type, Callable[[Any, Row, Board, bool], Line | None]] = {
    RunStarted: _run_started,
    RunFinished: _run_finished,
    RunNoticed: _noticed,
    StepStarted: _step_started,
    StepFinished: _step_finished,
    ModelRetried: _retried,
    ContextCompacted: _compacted,
    ArtifactWritten: _artifact,
    ToolFinished: _tool_finished,
}
