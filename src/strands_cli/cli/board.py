"""The state of a run, from its events: its current activity, and the progress lines to print."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from strands_cli.cli.output import count_text, is_debugging
from strands_cli.cli.terminal import (
    bytes_text,
    call_text,
    clock_text,
    duration_text,
    failure_text,
    one_line,
    progress_text,
    tokens_text,
)
from strands_cli.events import (
    ArtifactWritten,
    ContextCompacted,
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    ModelText,
    RunFinished,
    RunNoticed,
    RunStarted,
    StepFinished,
    StepRestored,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    ToolStderr,
)
from strands_cli.types.run_results import Usage, money_text

Kind = Literal[
    "heading", "started", "running", "progress",
    "done", "failed", "stopped", "again", "trouble", "call", "note", "text",
]  # fmt: skip

_KEPT_CHARACTERS = 400
_PROGRESS_SECONDS = 5.0
"""The interval of permanent progress lines for one call; a live display shows every report."""
_LONGEST_REASON = 400
_LONGEST_FAILURE = 120
_LONGEST_CALL = 120
# Until the model reports its tokens, they are estimated from the streamed text and shown with a tilde.
_CHARACTERS_PER_TOKEN = 4
_STOPPED = {"budget": "over budget", "paused": "paused", "interrupted": "interrupted"}


class ProgressLine(msgspec.Struct, frozen=True, kw_only=True):
    """A permanent line of progress, with the same words on terminals and in files."""

    kind: Kind
    title: str = ""
    agent: str = ""
    seconds: float | None = None
    """How long a step or a run took; lines without it have no columns of numbers."""
    tokens: int = 0
    rest: str = ""

    def plain(self) -> str:
        """The line for files and pipes: `title: words, words`."""
        says_kind = self.kind in ("started", "running", "done", "failed", "stopped")
        words: list[str] = [self.kind] if says_kind else []
        if self.seconds is not None:
            words += [duration_text(self.seconds), tokens_text(self.tokens) if self.tokens else ""]
        text = ", ".join(filter(None, [*words, self.rest]))
        return f"{self.title}: {text}" if self.title else text


class RunningCall(msgspec.Struct):
    """A running tool call."""

    tool_id: str
    arguments: Any
    started: float
    progress: str = ""
    told_at: float = -_PROGRESS_SECONDS
    """When its progress was last printed in a permanent line."""


class RunningStep(msgspec.Struct):
    """A running step."""

    title: str
    agent: str
    model: str
    started: float
    used: int = 0
    """Tokens that the model has reported."""
    calls: dict[str, RunningCall] = {}
    calls_made: int = 0
    again_at: float = 0.0
    """When the next attempt of a request begins."""
    text: str = ""
    """The end of the streamed answer."""
    streamed: int = 0
    preview: str = ""
    """The displayed part of the text, updated now and then: constantly changing text is unreadable."""
    preview_at: float = 0.0

    def take(self, event: Event, now: float, *, verbose: bool) -> ProgressLine | None:
        match event:
            case ModelText():  # by far the most frequent
                self.streamed += len(event.text)
                self.text = (self.text + event.text)[-_KEPT_CHARACTERS:]
            case ModelStarted():
                self.model = one_line(event.model) or self.model
                self._forget_answer()
            case ModelRetried():
                self._forget_answer()
                self.again_at, wait = now + event.wait_seconds, event.wait_seconds
                again = f"again in {f'{round(wait, 1):g} s' if wait < 10 else clock_text(wait)}"
                return self.line("again", f"{_short_reason(event.reason).rstrip('.')}, {again}")
            case ModelFinished():
                self.used += event.usage.total_tokens
                self.streamed = 0
            case ToolStarted():
                self.calls[event.call_id] = RunningCall(event.tool_id, event.arguments, now)
            case ToolProgress(call_id=call_id) if call_id in self.calls:
                return self._call_went_on(self.calls[call_id], event.data, now)
            case ToolStderr() | ToolFinished():
                return self._call_line(event, verbose=verbose)
            case ContextCompacted():
                messages = f"{count_text(event.before, 'message')} to {event.after}"
                return self.line("note", f"context compacted from {messages}")
            case RunNoticed():
                return self.line("note", _short_reason(event.text))
        return None

    def _forget_answer(self) -> None:
        self.text = self.preview = ""
        self.streamed = 0
        self.again_at = self.preview_at = 0.0

    def _call_went_on(self, call: RunningCall, data: Any, now: float) -> ProgressLine | None:
        call.progress = progress_text(data)  # at once: the tool may change its data later
        if now - call.told_at < _PROGRESS_SECONDS:
            return None
        call.told_at = now
        return self.line("progress", f"{one_line(call.tool_id)}: {call.progress}")

    def _call_line(self, event: ToolStderr | ToolFinished, *, verbose: bool) -> ProgressLine | None:
        if isinstance(event, ToolStderr):
            said = [one_line(event.refused), one_line(event.text) if verbose else ""]
            text = f"{one_line(event.tool_id)}: {' '.join(filter(None, said))}"
            kind: Kind = "trouble" if event.refused else "note"
            return self.line(kind, text) if any(said) else None
        call = self.calls.pop(event.call_id, None)
        if not is_call(event):
            return None
        self.calls_made += 1
        name = one_line(event.tool_id)
        if verbose and call is not None:
            name = call_text(event.tool_id, call.arguments, _LONGEST_CALL)
        if event.code:  # search failed: No such file [not_found]
            why = failure_text(event.tool_id, event.content, _LONGEST_FAILURE)
            name += f" failed{': ' if why else ''}{why} [{one_line(event.code)}]"
        return self.line("trouble" if event.code else "call", f"{name}, {duration_text(event.seconds)}")

    def line(self, kind: Kind, rest: str, seconds: float | None = None) -> ProgressLine:
        return ProgressLine(
            kind=kind, title=self.title, agent=self.agent, seconds=seconds, tokens=self.used, rest=rest
        )

    @property
    def activity(self) -> str:
        """Its current activity, for a permanent line."""
        if self.calls:
            return f"calling {', '.join(one_line(call.tool_id) for call in self.calls.values())}"
        return "answering" if self.text else f"waiting for {self.model or 'an answer'}"

    @property
    def tokens(self) -> tuple[int, bool]:
        """How many so far, and whether that is an estimate."""
        return self.used + self.streamed // _CHARACTERS_PER_TOKEN, self.streamed > 0


class Board:
    """The state of a run, from its events, for the displays."""

    def __init__(self, now: float, *, verbose: bool) -> None:
        self.workflow = ""
        self.started = now
        self.steps: dict[str, RunningStep] = {}
        """In the order in which they started."""
        self.done = self.failed = self.calls_made = self.crashes = self._stopped = 0
        self._waiting: list[str] = []
        """The keys of steps that wait for a person, without their outer steps."""
        self.is_running = False
        self._used = 0
        """Tokens of the finished steps."""
        self._verbose = verbose
        self.outside = RunningStep("", "", "", now)
        """For calls outside of steps, such as those of `strands tool call`."""

    def take(self, event: Event, now: float) -> list[ProgressLine]:
        """Processes an event; returns the lines to print for it."""
        match event:
            case RunStarted():
                self.workflow, self.started, self.is_running = one_line(event.workflow), now, True
                heading = one_line(f"{event.workflow} ({event.pattern})")
                return [ProgressLine(kind="heading", rest=heading)]
            case RunFinished():
                return [*self.abandon(now), self._run_ended(event), *self._crashes_noted()]
            case StepStarted():
                title, agent, model = one_line(event.title), one_line(event.agent), one_line(event.model)
                self.steps[event.step] = RunningStep(title, agent, model, now)
                rest = f"{agent}, {model}" if model else agent
                return [ProgressLine(kind="started", title=title, rest=rest)]
            case StepFinished():
                return [self._step_ended(event, now)]
            case StepRestored():
                self.done, self._used = self.done + 1, self._used + event.usage.total_tokens
                return [ProgressLine(kind="note", title=one_line(event.title), rest="already done")]
            case ArtifactWritten():
                wrote = f"wrote {one_line(event.path)}, {bytes_text(event.size)}"
                return [ProgressLine(kind="note", rest=wrote)]
        self.calls_made += isinstance(event, ToolFinished) and is_call(event)
        self.crashes += isinstance(event, ToolFinished) and event.code == "crashed"
        step = self.steps.get(getattr(event, "step", ""), self.outside)
        line = step.take(event, now, verbose=self._verbose)
        return [line] if line else []

    def _step_ended(self, event: StepFinished, now: float) -> ProgressLine:
        unknown = RunningStep(one_line(event.title), one_line(event.agent), "", now)
        step = self.steps.pop(event.step, unknown)
        step.used = event.usage.total_tokens or step.used
        self._used += step.used
        if event.waiting:
            has_part = any(key.startswith(f"{event.step}/") for key in self._waiting)
            self._stopped += has_part
            self._waiting += [] if has_part else [event.step]
            return step.line("stopped", "waits for an answer", event.seconds)
        if event.stopped:
            self._stopped += 1
            return step.line("stopped", "not finished", event.seconds)
        self.done += not event.error
        self.failed += bool(event.error)
        calls = count_text(step.calls_made, "tool call") if step.calls_made else ""
        rest = ", ".join(filter(None, [_cost_text(event.usage), _short_reason(event.error) or calls]))
        return step.line("failed" if event.error else "done", rest, event.seconds)

    def _run_ended(self, event: RunFinished) -> ProgressLine:
        self.is_running = False
        parts = [
            _cost_text(event.usage),
            _STOPPED.get(event.outcome, ""),
            count_text(self.done + self.failed + self.waiting + self._stopped, "step"),
            f"{self.failed} failed" if self.failed else "",
            f"{self.waiting} waiting" if self.waiting else "",
            count_text(self.calls_made, "tool call") if self.calls_made else "",
        ]
        return ProgressLine(
            kind=event.outcome if event.outcome in ("done", "failed") else "stopped",
            title=self.workflow or "run",
            seconds=event.seconds,
            tokens=event.usage.total_tokens,
            rest=", ".join(filter(None, parts)),
        )

    def still_running(self, now: float) -> list[ProgressLine]:
        """A line for each running step, for a run that has been silent for a while."""
        steps = [*self.steps.values(), *([self.outside] if self.outside.calls else [])]
        return [step.line("running", step.activity, now - step.started) for step in steps]

    def _crashes_noted(self) -> Iterator[ProgressLine]:
        if self.crashes and not is_debugging():
            crashed = count_text(self.crashes, "tool call")
            rest = f"{crashed} crashed: 'strands run --debug …' shows the traceback of each."
            yield ProgressLine(kind="note", rest=rest)

    def abandon(self, now: float) -> list[ProgressLine]:
        """A line for each step that never reported its end; no more events will come."""
        lines = [step.line("stopped", "not finished", now - step.started) for step in self.steps.values()]
        self.steps.clear()
        return lines

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def tokens(self) -> tuple[int, bool]:
        """The tokens of the whole run so far, and whether that is an estimate."""
        counts = [step.tokens for step in self.steps.values()]
        return self._used + sum(number for number, _ in counts), any(about for _, about in counts)


def is_call(event: ToolFinished) -> bool:
    """Whether a call is finished; a call that asks a human will be made again."""
    return event.code != "interrupted"


def _cost_text(usage: Usage) -> str:
    return money_text(usage.cost) if usage.cost is not None else ""


def _short_reason(text: str) -> str:
    shown = one_line(text[: 4 * _LONGEST_REASON])
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "…"
