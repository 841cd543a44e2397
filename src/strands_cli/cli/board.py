"""What goes on in a run, as its events report it, and which of them are worth a line that stays."""

from typing import Any, Literal

import msgspec

from strands_cli.cli.output import count
from strands_cli.cli.text import call_text, clock, duration, failure_text, one_line, size, tokens, value_text
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
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from strands_cli.types.run_results import Usage

Kind = Literal["heading", "started", "done", "failed", "stopped", "again", "trouble", "call", "note"]

_KEPT_CHARACTERS = 400
_KEPT_PROGRESS = 60
_LONGEST_REASON = 400
_LONGEST_FAILURE = 120
_LONGEST_CALL = 120
# Until a model has counted, what it streams is counted so, and shown with a tilde.
_CHARACTERS_PER_TOKEN = 4
_STOPPED = {"budget": "over budget", "paused": "waiting for a human", "interrupted": "interrupted"}


class ProgressLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that stays, in the same words on terminals and in files."""

    kind: Kind
    title: str = ""
    agent: str = ""
    seconds: float | None = None
    """How long a step or a run took; lines without it have no columns of numbers."""
    tokens: int = 0
    rest: str = ""

    def plain(self) -> str:
        """The line for files and pipes: `title: words, words`."""
        words: list[str] = [self.kind] if self.kind in ("started", "done", "failed", "stopped") else []
        if self.seconds is not None:
            words += [duration(self.seconds), tokens(self.tokens) if self.tokens else ""]
        text = ", ".join(filter(None, [*words, self.rest]))
        return f"{self.title}: {text}" if self.title else text


class RunningCall(msgspec.Struct):
    """A tool call that goes on."""

    tool_id: str
    arguments: Any
    started: float
    progress: str = ""


class RunningStep(msgspec.Struct):
    """A step that goes on."""

    title: str
    agent: str
    model: str
    started: float
    usage: Usage = Usage()
    calls: dict[str, RunningCall] = {}
    calls_made: int = 0
    again_at: float = 0.0
    """When the next try of a request begins."""
    text: str = ""
    """The end of the answer that streams in."""
    streamed: int = 0
    preview: str = ""
    """What is shown of the text, renewed now and then: what changes all the time cannot be read."""
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
                again = f"again in {f'{round(wait, 1):g} s' if wait < 10 else clock(wait)}"
                return self._line("again", f"{_reason(event.reason).rstrip('.')}, {again}")
            case ModelFinished():
                self.usage += event.usage
                self.streamed = 0
            case ToolStarted():
                self.calls[event.call_id] = RunningCall(event.tool_id, event.arguments, now)
            case ToolProgress(call_id=call_id) if call_id in self.calls:
                # Read at once: the tool may change it later, while it is shown.
                self.calls[call_id].progress = value_text(event.data, _KEPT_PROGRESS).strip('"')
            case ToolFinished():
                return self._call_ended(event, verbose=verbose)
            case ContextCompacted():
                messages = f"{count(event.before, 'message')} to {event.after}"
                return self._line("note", f"context compacted from {messages}")
            case RunNoticed():
                return self._line("note", _reason(event.text))
        return None

    def _forget_answer(self) -> None:
        self.text = self.preview = ""
        self.streamed = 0
        self.again_at = self.preview_at = 0.0

    def _call_ended(self, event: ToolFinished, *, verbose: bool) -> ProgressLine | None:
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
        return self._line("trouble" if event.code else "call", f"{name}, {duration(event.seconds)}")

    def _line(self, kind: Kind, rest: str) -> ProgressLine:
        return ProgressLine(kind=kind, title=self.title, rest=rest)

    def ended(self, kind: Kind, seconds: float, rest: str) -> ProgressLine:
        return ProgressLine(
            kind=kind,
            title=self.title,
            agent=self.agent,
            seconds=seconds,
            tokens=self.usage.total_tokens,
            rest=rest,
        )

    @property
    def tokens(self) -> tuple[int, bool]:
        """How many so far, and whether that is an estimate."""
        return self.usage.total_tokens + self.streamed // _CHARACTERS_PER_TOKEN, self.streamed > 0


class Board:
    """The state of a run, from its events, for the displays."""

    def __init__(self, now: float, *, verbose: bool) -> None:
        self.workflow = ""
        self.started = now
        self.steps: dict[str, RunningStep] = {}
        """In the order in which they started."""
        self.done = self.failed = self.calls_made = 0
        self.is_running = False
        self._usage = Usage()
        """Of the steps that have ended."""
        self._verbose = verbose
        self._elsewhere = RunningStep("", "", "", now)

    def take(self, event: Event, now: float) -> list[ProgressLine]:
        """Takes an event in, and returns the lines that it is worth."""
        match event:
            case RunStarted():
                self.workflow, self.started, self.is_running = one_line(event.workflow), now, True
                heading = one_line(f"{event.workflow} ({event.pattern})")
                return [ProgressLine(kind="heading", rest=heading)]
            case RunFinished():
                return [*self.abandon(now), self._run_ended(event)]
            case StepStarted():
                title, agent, model = one_line(event.title), one_line(event.agent), one_line(event.model)
                self.steps[event.step] = RunningStep(title, agent, model, now)
                rest = f"{agent}, {model}" if model else agent
                return [ProgressLine(kind="started", title=title, rest=rest)]
            case StepFinished():
                return [self._step_ended(event, now)]
            case ArtifactWritten():
                return [ProgressLine(kind="note", rest=f"wrote {one_line(event.path)}, {size(event.size)}")]
        self.calls_made += isinstance(event, ToolFinished) and is_call(event)
        step = self.steps.get(getattr(event, "step", ""), self._elsewhere)
        line = step.take(event, now, verbose=self._verbose)
        return [line] if line else []

    def _step_ended(self, event: StepFinished, now: float) -> ProgressLine:
        step = self.steps.pop(event.step, None)
        if step is None:
            step = RunningStep(one_line(event.title), one_line(event.agent), "", now)
        if event.usage.total_tokens:
            step.usage = event.usage
        self._usage += step.usage
        self.done += not event.error
        self.failed += bool(event.error)
        calls = count(step.calls_made, "tool call") if step.calls_made else ""
        return step.ended("failed" if event.error else "done", event.seconds, _reason(event.error) or calls)

    def _run_ended(self, event: RunFinished) -> ProgressLine:
        self.is_running = False
        parts = [
            _STOPPED.get(event.outcome, ""),
            count(self.done + self.failed, "step"),
            f"{self.failed} failed" if self.failed else "",
            count(self.calls_made, "tool call") if self.calls_made else "",
        ]
        return ProgressLine(
            kind=event.outcome if event.outcome in ("done", "failed") else "stopped",
            title=self.workflow or "run",
            seconds=event.seconds,
            tokens=event.usage.total_tokens,
            rest=", ".join(filter(None, parts)),
        )

    def abandon(self, now: float) -> list[ProgressLine]:
        """A line for each step that never reported its end; no more events of theirs will come."""
        lines = [step.ended("stopped", now - step.started, "not finished") for step in self.steps.values()]
        self.steps.clear()
        return lines

    @property
    def tokens(self) -> tuple[int, bool]:
        """As those of a step, of the whole run."""
        counts = [step.tokens for step in self.steps.values()]
        about = any(is_estimate for _, is_estimate in counts)
        return self._usage.total_tokens + sum(number for number, _ in counts), about


def is_call(event: ToolFinished) -> bool:
    """Whether a call is over; one that asks a human will be made again."""
    return event.code != "interrupted"


def _reason(text: str) -> str:
    shown = one_line(text[: 4 * _LONGEST_REASON])
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "…"
