"""What people see while a workflow runs: a live display on a terminal, plain lines elsewhere.

Everything goes to standard error.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from math import inf
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import Any, Literal, TextIO

import msgspec

from strands_cli.cli.output import count_text, is_debugging, may_colour
from strands_cli.cli.terminal import (
    LiveBlock,
    StreamStyle,
    bytes_text,
    call_text,
    cell_width,
    clock_text,
    cut_text,
    duration_text,
    failure_text,
    fit_text,
    is_live,
    lines_below,
    one_line,
    progress_lines,
    progress_text,
    terminal_size,
    text_tail,
    tokens_text,
    wrapped_text,
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
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    ToolStderr,
)
from strands_cli.types.run_results import Usage, money_text

Kind = Literal[
    "heading", "started", "running", "progress",
    "done", "failed", "stopped", "again", "trouble", "call", "note",
]  # fmt: skip

_KEPT_CHARACTERS = 400
_PROGRESS_SECONDS = 5.0
"""How often lines that stay tell the progress of one call; a live display shows all of it."""
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
        says_kind = self.kind in ("started", "running", "done", "failed", "stopped")
        words: list[str] = [self.kind] if says_kind else []
        if self.seconds is not None:
            words += [duration_text(self.seconds), tokens_text(self.tokens) if self.tokens else ""]
        text = ", ".join(filter(None, [*words, self.rest]))
        return f"{self.title}: {text}" if self.title else text


class RunningCall(msgspec.Struct):
    """A tool call that goes on."""

    tool_id: str
    arguments: Any
    started: float
    progress: str = ""
    told_at: float = -_PROGRESS_SECONDS
    """When a line that stays told its progress."""


class RunningStep(msgspec.Struct):
    """A step that goes on."""

    title: str
    agent: str
    model: str
    started: float
    used: int = 0
    """Tokens that the model has counted."""
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
        """What it does right now, for a line that stays."""
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
        self.done = self.failed = self.calls_made = self.crashes = 0
        self.is_running = False
        self._used = 0
        """Of the steps that have ended."""
        self._verbose = verbose
        self.outside = RunningStep("", "", "", now)
        """For calls that no step makes, as those of `strands tool call`."""

    def take(self, event: Event, now: float) -> list[ProgressLine]:
        """Takes an event in, and returns the lines that it is worth."""
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
            count_text(self.done + self.failed, "step"),
            f"{self.failed} failed" if self.failed else "",
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
            crashed = count_text(self.crashes, "tool call") + " crashed"
            yield ProgressLine(
                kind="note", rest=f"{crashed}: 'strands --debug run …' shows the traceback of each."
            )

    def abandon(self, now: float) -> list[ProgressLine]:
        """A line for each step that never reported its end; no more events of theirs will come."""
        lines = [step.line("stopped", "not finished", now - step.started) for step in self.steps.values()]
        self.steps.clear()
        return lines

    @property
    def tokens(self) -> tuple[int, bool]:
        """As those of a step, of the whole run."""
        counts = [step.tokens for step in self.steps.values()]
        about = any(is_estimate for _, is_estimate in counts)
        return self._used + sum(number for number, _ in counts), about


def is_call(event: ToolFinished) -> bool:
    """Whether a call is over; one that asks a human will be made again."""
    return event.code != "interrupted"


def _cost_text(usage: Usage) -> str:
    return money_text(usage.cost) if usage.cost is not None else ""


def _short_reason(text: str) -> str:
    shown = one_line(text[: 4 * _LONGEST_REASON])
    return shown if len(shown) <= _LONGEST_REASON else shown[:_LONGEST_REASON] + "…"


# --- The displays -------------------------------------------------------------------------------------------

_FRAME_SECONDS = 1 / 8
_CLOSE_SECONDS = 2.0
_LONGEST_SILENCE_SECONDS = 30.0
"""Without a live display, a run that has nothing to report says what it is doing after this time."""
_HELD_SECONDS = 2.0
"""How long a call has to go on after it reported progress that may be its result."""
_SPINNER_PER_SECOND = 8
_PREVIEW_SECONDS = 0.4
_WIDEST_GLIMPSE = 60
_COLOURS = {
    "done": "green",
    "failed": "red",
    "stopped": "yellow",
    "again": "yellow",
    "trouble": "yellow",
    "call": "dim",
    "note": "dim",
}
"""Of the sign of each kind."""


@contextmanager
def open_progress(
    *,
    verbose: bool = False,
    shows_calls: bool = True,
    stream: TextIO | None = None,
    longest_silence: float = _LONGEST_SILENCE_SECONDS,
) -> Iterator["Progress"]:
    """Shows a run, or a call, until the end of the block.

    With `verbose`, each tool call and what it is called with. Without `shows_calls`, no line when one ends,
    and nothing that the result of the outermost call, which the caller prints, has too.
    """
    shown_on = stream or sys.stderr or StringIO()  # standard error may be closed
    shown = Progress(shown_on, verbose=verbose, shows_calls=shows_calls, longest_silence=longest_silence)
    try:
        yield shown
    finally:
        shown.close()


class Progress:
    """On a terminal a line for each step that runs, and above them what is done; elsewhere only the latter.

    On a terminal the listener only takes notes; a thread reads them eight times a second and paints.
    Elsewhere the thread adds a line for each running step when nothing was written for a while.
    Two locks: `_notes` for what is known, held for moments; `_output` for the stream, which may be slow.
    To take both, take `_output` first.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        verbose: bool,
        shows_calls: bool = True,
        longest_silence: float = _LONGEST_SILENCE_SECONDS,
    ) -> None:
        self._stream = stream
        self._longest_silence = longest_silence
        self._written_at = monotonic()
        # The log of --debug goes to the same stream, in the order of what happens.
        self._is_live = is_live(stream) and not is_debugging()
        self._style = StreamStyle(stream, coloured=self._is_live and may_colour())
        self._shows_calls = shows_calls
        self._held: tuple[float, list[ProgressLine]] = (0.0, [])
        """Progress of the outermost call, and since when: it may be the result."""
        self._hidden_kinds = set[str]()
        if self._is_live:
            self._hidden_kinds = {"started", "progress"} if verbose else {"started", "progress", "call"}
        self._board = Board(monotonic(), verbose=verbose)
        self._lines: list[ProgressLine] = []
        self._notes = Lock()
        self._output = Lock()
        self._block = LiveBlock(stream, self._style, is_live=self._is_live)
        self._asking = 0
        self._closed = Flag()
        self._undo = ExitStack()
        repeat = self._paint_repeatedly if self._is_live else self._break_silence
        self._thread = Thread(target=repeat, name="progress", daemon=True)
        if self._is_live:
            self._undo.enter_context(self._block.left_clean())
        self._thread.start()

    def __call__(self, event: Event) -> None:
        with self._notes:
            lines = self._board.take(event, monotonic())
            if not self._shows_calls:
                lines = self._lines_beside_result(event, lines)
            self._lines += [line for line in lines if line.kind not in self._hidden_kinds]
        if lines and not self._is_live:
            self._paint_unless_asking()

    def _lines_beside_result(self, event: Event, lines: list[ProgressLine]) -> list[ProgressLine]:
        """Progress is held until the call goes on: the last yield of a generator is its result."""
        call, outermost = getattr(event, "call_id", ""), next(iter(self._board.outside.calls), "")
        if isinstance(event, ToolProgress) and call == outermost:
            (_, held), self._held = self._held, (monotonic(), lines)
            return held
        if isinstance(event, ToolFinished) and not self._board.outside.calls:
            (_, held), self._held = self._held, (0.0, [])
            values = [block.get("text", block.get("json")) for block in event.content or ()]
            shown = [f"{one_line(event.tool_id)}: {progress_text(value)}" for value in values]
            return [line for line in held if line.rest not in shown]
        is_in_result = isinstance(event, ToolStderr) and call == outermost
        return [] if is_in_result or isinstance(event, ToolFinished) else lines

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Takes the display away, and writes nothing, while a question stands on the terminal."""
        with self._output:
            self._asking += 1
            if self._asking == 1:
                self._paint(framed=False)
        try:
            yield
        finally:
            with self._output:
                self._asking -= 1
            self._paint_unless_asking()

    def close(self) -> None:
        self._closed.set()
        with self._notes:
            self._lines += self._board.abandon(monotonic())
        try:
            self._thread.join(_CLOSE_SECONDS)
        finally:
            with self._output:
                self._paint(framed=False)
            self._undo.close()

    def _paint_repeatedly(self) -> None:
        while not self._closed.wait(_FRAME_SECONDS):
            self._paint_unless_asking()

    def _break_silence(self) -> None:
        longest = inf if self._shows_calls else _HELD_SECONDS
        while not self._closed.wait(min(self._silence_left(), longest)):
            with self._notes:
                now = monotonic()
                since, held = self._held
                if held and now - since >= _HELD_SECONDS:
                    self._lines, self._held = [*self._lines, *held], (0.0, [])
                elif now - self._written_at < self._longest_silence:
                    continue
                elif not self._asking:
                    self._lines += self._board.still_running(now)
                self._written_at = now
            self._paint_unless_asking()

    def _silence_left(self) -> float:
        return max(self._written_at + self._longest_silence - monotonic(), 0)

    def _paint_unless_asking(self) -> None:
        with self._output:
            if not self._asking:
                self._paint(framed=self._is_live)

    def _paint(self, *, framed: bool) -> None:
        width, height = terminal_size(self._stream)
        painter = Painter(self._style, width)
        with self._notes:
            lines, self._lines = self._lines, []
            self._written_at = monotonic() if lines else self._written_at
            framed = framed and (self._board.is_running or bool(self._board.outside.calls))
            frame = painter.frame(self._board, monotonic(), height) if framed else []
        lasting = [painter.lasting(line) if self._is_live else line.plain() for line in lines]
        self._block.paint(lasting, frame)


def _call_activity(step: RunningStep, now: float) -> tuple[str, str]:
    """The first of the calls that a step makes, how long it has run, and its progress."""
    call, others = next(iter(step.calls.values())), len(step.calls) - 1
    more = f" (+{others})" if others else ""
    return f"{one_line(call.tool_id)} {clock_text(now - call.started)}{more}", call.progress


class Painter:
    """Makes the lines of one frame: columns whose widths follow from that of the window, so nothing jumps."""

    def __init__(self, style: StreamStyle, width: int) -> None:
        self._style = style
        self._width = width
        self._unit = "tokens" if width >= 100 else "tok"
        # In cells; a column of no width is left out.
        self._title = min(max(width // 5, 8), 28)
        self._agent = min(width // 8, 16) if width >= 76 else 0
        self._elapsed = len("59 m 59 s") if width >= 30 else 0
        self._tokens = len("~123,456 ") + len(self._unit) if width >= 45 else 0
        # Two for the sign, two between columns; the last cell stays free, since some terminals wrap there.
        columns = (self._title, self._agent, self._elapsed, self._tokens)
        self._rest = max(width - 3 - sum(column + 2 for column in columns if column), 0)

    def lasting(self, line: ProgressLine) -> str:
        """A line that stays; several if its last part is longer than the window."""
        if line.kind == "heading":
            return self._style.paint(line.rest, "bold")
        colour = _COLOURS[line.kind]
        sign = self._style.paint(getattr(self._style.signs, line.kind), colour)
        if line.seconds is not None:
            columns = self._columns(line.title, line.agent, duration_text(line.seconds), (line.tokens, False))
            colour = "red" if line.kind == "failed" else "dim"
        else:
            columns = self._cell(line.title, self._title) if line.title else ""
            colour = "dim" if colour == "dim" else ""
        if 2 + cell_width(columns) + cell_width(line.rest) < self._width:
            return f"{sign} {columns}{self._style.paint(line.rest, colour)}".rstrip()
        below = wrapped_text(line.rest, max(self._width - 5, 10))
        painted = [f"    {self._style.paint(part, colour)}" for part in below]
        return "\r\n".join([f"{sign} {columns}".rstrip(), *painted])

    def frame(self, board: Board, now: float, height: int) -> list[str]:
        """The lines that are painted again and again: an empty one, one for each step, one for the run."""
        spinner, dots = self._style.signs.spinner, self._style.signs.dots
        sign = self._style.paint(spinner[int(now * _SPINNER_PER_SECOND) % len(spinner)], "cyan")
        room = max(height - 4, 1)
        steps = list(board.steps.values())
        if not board.is_running:
            head, progress = _call_activity(board.outside, now)
            lines = progress_lines(head, progress, self._width - 3, dots)
            return ["", *(f"{sign if number == 0 else ' '} {line}" for number, line in enumerate(lines))]
        tall = [self._step_lines(step, now, sign, is_tall=True) for step in steps]
        if sum(map(len, tall)) > room:
            tall = [self._step_lines(step, now, sign, is_tall=False) for step in steps[:room]]
        lines = [line for step_lines in tall for line in step_lines]
        if len(steps) > room:
            more = cut_text(f"  {dots} and {len(steps) - room} more", self._title + self._rest)
            lines.append(self._style.paint(more, "dim"))
        columns = self._columns(board.workflow, "", clock_text(now - board.started), board.tokens)
        counts = {"running": len(steps), "done": board.done, "failed": board.failed}
        text = ", ".join(f"{amount} {word}" for word, amount in counts.items() if amount)
        footer = self._style.paint(f"  {columns}{cut_text(text, self._rest, dots)}", "dim")
        return ["", *lines, footer][: max(height - 1, 1)]

    def _step_lines(self, step: RunningStep, now: float, sign: str, *, is_tall: bool) -> list[str]:
        """A step in one line; the progress of its tool below it where that does not fit and may be."""
        columns = self._columns(step.title, step.agent, clock_text(now - step.started), step.tokens)
        text, below = self._activity(step, now), list[str]()
        if is_tall and step.calls:
            head, progress = _call_activity(step, now)
            if cell_width(f"{head} {progress}") > self._rest:
                text = cut_text(head, self._rest, self._style.signs.dots)
                below = lines_below(progress, self._width - 3, self._style.signs.dots)
        painted = [f"  {self._style.paint(line, 'dim')}" for line in below]
        return [f"{sign} {columns}{self._style.paint(text, 'dim')}", *painted]

    def _activity(self, step: RunningStep, now: float) -> str:
        """What a step does right now."""
        room = min(self._rest, _WIDEST_GLIMPSE)
        if step.calls:
            text = " ".join(_call_activity(step, now))
        elif step.text:
            if now - step.preview_at >= _PREVIEW_SECONDS:
                step.preview, step.preview_at = one_line(step.text), now
            return text_tail(step.preview, room)
        elif step.again_at:
            text = f"again in {clock_text(step.again_at - now + 0.999)}"
        else:
            text = f"waiting for {step.model or 'an answer'}"
        return cut_text(text.rstrip(), room, self._style.signs.dots)

    def _columns(self, title: str, agent: str, elapsed: str, counted: tuple[int, bool]) -> str:
        number, about = counted
        amount = tokens_text(number, about=about).replace("tokens", self._unit) if number else ""
        return (
            self._cell(title, self._title)
            + self._cell(agent, self._agent)
            + self._cell(elapsed, self._elapsed, right=True)
            + self._cell(amount, self._tokens, right=True)
        )

    def _cell(self, text: str, room: int, *, right: bool = False) -> str:
        if not room:
            return ""
        return fit_text(self._style.encodable(text), room, self._style.signs.dots, right=right) + "  "
