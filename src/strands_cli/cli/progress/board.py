"""What goes on in a run, as its events tell it. Listeners take events in; whoever shows it reads."""

from typing import Any

from strands_cli.cli.text import value_text
from strands_cli.events import (
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    ModelText,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from strands_cli.types.results import Usage

_KEPT_CHARACTERS = 400
_KEPT_PROGRESS = 60
# Until a model has counted, what it streams is counted so, and shown with a tilde.
_CHARACTERS_PER_TOKEN = 4


class Call:
    """A tool call that goes on."""

    __slots__ = ("arguments", "progress", "started", "tool_id")

    def __init__(self, tool_id: str, arguments: Any, started: float) -> None:
        self.tool_id = tool_id
        self.arguments = arguments
        self.started = started
        self.progress = ""


class Row:
    """A step that goes on."""

    def __init__(self, title: str, agent: str, model: str, started: float) -> None:
        self.title = title
        self.agent = agent
        self.model = model
        self.started = started
        self.usage = Usage()
        self.calls: dict[str, Call] = {}
        self.last_call: Call | None = None
        """The one that has ended last."""
        self.calls_made = 0
        self.again_at = 0.0
        """When the next try of a request begins."""
        self.text = ""
        """The end of the answer that streams in."""
        self.streamed = 0
        self.glimpse = ""
        """What is shown of the text, renewed now and then: what changes all the time cannot be read."""
        self.glimpsed_at = 0.0

    def take(self, event: Event, now: float) -> None:
        match event:
            case ModelText():
                self.streamed += len(event.text)
                self.text = (self.text + event.text)[-_KEPT_CHARACTERS:]
            case ModelStarted():
                self.model = event.model or self.model
                self.forget_answer()
            case ModelRetried():
                self.forget_answer()
                self.again_at = now + event.wait_seconds
            case ModelFinished():
                self.usage += event.usage
                self.streamed = 0
            case ToolStarted():
                self.calls[event.call_id] = Call(event.tool_id, event.arguments, now)
            case ToolProgress():
                self._note_progress(event)
            case ToolFinished():
                self.last_call = self.calls.pop(event.call_id, None)
                self.calls_made += is_call(event)

    def _note_progress(self, event: ToolProgress) -> None:
        # Read at once: the tool may change it later, while it is shown.
        if (call := self.calls.get(event.call_id)) is not None:
            call.progress = value_text(event.data, _KEPT_PROGRESS).strip('"')

    def forget_answer(self) -> None:
        self.text = self.glimpse = ""
        self.streamed = 0
        self.again_at = self.glimpsed_at = 0.0

    @property
    def tokens(self) -> tuple[int, bool]:
        """How many so far, and whether that is an estimate."""
        return self.usage.total_tokens + self.streamed // _CHARACTERS_PER_TOKEN, self.streamed > 0


class Board:
    def __init__(self, now: float) -> None:
        self.workflow = ""
        self.started = now
        self.rows: dict[str, Row] = {}
        """In the order in which they started."""
        self.done = self.failed = self.calls_made = 0
        self.usage = Usage()
        """Of the steps that have ended."""
        self.is_running = False
        self._elsewhere = Row("", "", "", now)

    def take(self, event: Event, now: float) -> Row:
        """Notes what the event tells, and answers with the row of its step; with a nameless one for none."""
        row = self.rows.get(getattr(event, "step", ""), self._elsewhere)
        match event:
            case ModelText():  # by far the most frequent
                row.take(event, now)
            case RunStarted():
                self.workflow, self.started, self.is_running = event.workflow, now, True
            case RunFinished():
                self.is_running = False
            case StepStarted():
                row = self.rows[event.step] = Row(event.title, event.agent, event.model, now)
            case StepFinished():
                row = self._ended(event, now)
            case _:
                row.take(event, now)
                self.calls_made += isinstance(event, ToolFinished) and is_call(event)
        return row

    def _ended(self, event: StepFinished, now: float) -> Row:
        row = self.rows.pop(event.step, None) or Row(event.title, event.agent, "", now)
        row.forget_answer()
        if event.usage.total_tokens:
            row.usage = event.usage
        self.usage += row.usage
        self.done += not event.error
        self.failed += bool(event.error)
        return row

    @property
    def tokens(self) -> tuple[int, bool]:
        counts = [row.tokens for row in self.rows.values()]
        return self.usage.total_tokens + sum(number for number, _ in counts), any(
            about for _, about in counts
        )

    def abandon(self) -> list[Row]:
        """The steps that never told their end; nothing more will be heard of them."""
        left = list(self.rows.values())
        self.rows.clear()
        return left


def is_call(event: ToolFinished) -> bool:
    """Whether a call is over; one that asks a human will be made again."""
    return event.code != "interrupted"
