"""What people see while a workflow runs: a live display on a terminal, plain lines elsewhere.

Everything goes to standard error.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import StringIO
from math import inf
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import TextIO

from strands_cli.cli.board import Board, ProgressLine, RunningStep
from strands_cli.cli.output import is_debugging, may_colour, own_stream
from strands_cli.cli.terminal import (
    LiveBlock,
    StreamStyle,
    cell_width,
    clock_text,
    cut_text,
    duration_text,
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
    Event,
    ToolFinished,
    ToolProgress,
    ToolStderr,
)

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
    shown_on = own_stream(stream or sys.stderr or StringIO())  # standard error may be closed
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

    def write(self, lines: Sequence[str]) -> None:
        """Adds lines that stay, among those of the run; while a question is asked they wait."""
        with self._notes:
            self._lines += [ProgressLine(kind="text", rest=line) for line in lines]
        self._paint_unless_asking()

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
        if line.kind in ("heading", "text"):
            return self._style.paint(line.rest, "bold" if line.kind == "heading" else "")
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
        counts = {"running": len(steps), "done": board.done, "failed": board.failed, "waiting": board.waiting}
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
