"""What people see while a workflow runs: a live display on a terminal, plain lines elsewhere.

Everything goes to standard error.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import TextIO

from strands_cli.cli.board import Board, ProgressLine, RunningStep
from strands_cli.cli.terminal import LiveBlock, StreamStyle, is_live, size_of
from strands_cli.cli.text import cells, clock, cut, duration, fit, one_line, tail, tokens, wrapped
from strands_cli.events import Event

_FRAME_SECONDS = 1 / 8
_CLOSE_SECONDS = 2.0
_SPINNER_PER_SECOND = 8
_PREVIEW_SECONDS = 0.4
_WIDEST_GLIMPSE = 60
_KINDS = {  # kind -> (which of the signs, its colour)
    "done": ("done", "green"),
    "failed": ("failed", "red"),
    "stopped": ("stopped", "yellow"),
    "again": ("again", "yellow"),
    "trouble": ("trouble", "yellow"),
    "call": ("note", "dim"),
    "note": ("note", "dim"),
}


@contextmanager
def open_progress(
    *, verbose: bool = False, stream: TextIO | None = None
) -> Iterator["LiveProgress | PlainProgress"]:
    """Shows a run until the end of the block. With `verbose`, each tool call and what it is called with."""
    stream = stream or sys.stderr
    if stream is None:  # standard error is closed
        stream = StringIO()
    shown = (LiveProgress if is_live(stream) else PlainProgress)(stream, verbose=verbose)
    try:
        yield shown
    finally:
        shown.close()


class PlainProgress:
    """For files, pipes and simple terminals: one line for each thing worth reporting."""

    def __init__(self, stream: TextIO, *, verbose: bool) -> None:
        self._stream = stream
        self._style = StreamStyle(stream, coloured=False)
        self._board = Board(monotonic(), verbose=verbose)
        self._lock = Lock()
        self._asking = 0
        self._held: list[ProgressLine] = []

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._held += self._board.take(event, monotonic())
            self._write()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Nothing is written meanwhile: a question stands on the terminal."""
        with self._lock:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                self._write()

    def close(self) -> None:
        with self._lock:
            self._held += self._board.abandon(monotonic())
            self._write()

    def _write(self) -> None:
        if self._asking or not self._held:
            return
        text = "".join(f"{line.plain()}\n" for line in self._held)
        self._held.clear()
        try:
            self._stream.write(self._style.encodable(text))
            self._stream.flush()
        except (OSError, ValueError):
            pass  # the reader is gone: the run goes on


class LiveProgress:
    """On a terminal: a line for each step that runs, above them what is done.

    The listener only takes notes; a thread reads them eight times a second and paints.
    Two locks: `_notes` for what is known, held for moments; `_output` for the terminal, which may be slow.
    To take both, take `_output` first.
    """

    def __init__(self, stream: TextIO, *, verbose: bool) -> None:
        self._stream = stream
        self._style = StreamStyle(stream, coloured=True)
        self._hidden_kinds = {"started"} if verbose else {"started", "call"}
        self._board = Board(monotonic(), verbose=verbose)
        self._lines: list[ProgressLine] = []
        self._notes = Lock()
        self._output = Lock()
        self._block = LiveBlock(stream, self._style)
        self._asking = 0
        self._closed = Flag()
        self._undo = ExitStack()
        self._undo.enter_context(self._block.left_clean())
        self._thread = Thread(target=self._paint_repeatedly, name="progress", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        with self._notes:
            lines = self._board.take(event, monotonic())
            self._lines += [line for line in lines if line.kind not in self._hidden_kinds]

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Takes the display away while a question stands on the terminal."""
        with self._output:
            self._asking += 1
            if self._asking == 1:
                self._paint(framed=False)
        try:
            yield
        finally:
            with self._output:
                self._asking -= 1

    def close(self) -> None:
        self._closed.set()
        with self._notes:
            self._lines += self._board.abandon(monotonic())
        try:
            self._thread.join(_CLOSE_SECONDS)
        finally:
            self._paint(framed=False)
            self._undo.close()

    def _paint_repeatedly(self) -> None:
        while not self._closed.wait(_FRAME_SECONDS):
            with self._output:
                if not self._asking:
                    self._paint(framed=True)

    def _paint(self, *, framed: bool) -> None:
        width, height = size_of(self._stream)
        painter = Painter(self._style, width)
        with self._notes:
            lines, self._lines = self._lines, []
            framed = framed and self._board.is_running
            frame = painter.frame(self._board, monotonic(), height) if framed else []
        self._block.paint([painter.lasting(line) for line in lines], frame)


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
        which, colour = _KINDS[line.kind]
        sign = self._style.paint(getattr(self._style.signs, which), colour)
        if line.seconds is not None:
            columns = self._columns(line.title, line.agent, duration(line.seconds), (line.tokens, False))
            colour = "red" if line.kind == "failed" else "dim"
        else:
            columns = self._cell(line.title, self._title) if line.title else ""
            colour = "dim" if colour == "dim" else ""
        if 2 + cells(columns) + cells(line.rest) < self._width:
            return f"{sign} {columns}{self._style.paint(line.rest, colour)}".rstrip()
        below = wrapped(line.rest, max(self._width - 5, 10))
        painted = [f"    {self._style.paint(part, colour)}" for part in below]
        return "\r\n".join([f"{sign} {columns}".rstrip(), *painted])

    def frame(self, board: Board, now: float, height: int) -> list[str]:
        """The lines that are painted again and again: an empty one, one for each step, one for the run."""
        spinner, dots = self._style.signs.spinner, self._style.signs.dots
        sign = self._style.paint(spinner[int(now * _SPINNER_PER_SECOND) % len(spinner)], "cyan")
        room = max(height - 4, 1)
        steps = list(board.steps.values())
        lines = []
        for step in steps[:room]:
            columns = self._columns(step.title, step.agent, clock(now - step.started), step.tokens)
            lines.append(f"{sign} {columns}{self._style.paint(self._activity(step, now), 'dim')}")
        if len(steps) > room:
            more = cut(f"  {dots} and {len(steps) - room} more", self._title + self._rest)
            lines.append(self._style.paint(more, "dim"))
        columns = self._columns(board.workflow, "", clock(now - board.started), board.tokens)
        counts = {"running": len(steps), "done": board.done, "failed": board.failed}
        text = ", ".join(f"{amount} {word}" for word, amount in counts.items() if amount)
        footer = self._style.paint(f"  {columns}{cut(text, self._rest, dots)}", "dim")
        return ["", *lines, footer][: max(height - 1, 1)]

    def _activity(self, step: RunningStep, now: float) -> str:
        """What a step does right now."""
        room = min(self._rest, _WIDEST_GLIMPSE)
        if step.calls:
            call, others = next(iter(step.calls.values())), len(step.calls) - 1
            more = f" (+{others})" if others else ""
            text = f"{one_line(call.tool_id)} {clock(now - call.started)}{more} {call.progress}"
        elif step.text:
            if now - step.preview_at >= _PREVIEW_SECONDS:
                step.preview, step.preview_at = one_line(step.text), now
            return tail(step.preview, room)
        elif step.again_at:
            text = f"again in {clock(step.again_at - now + 0.999)}"
        else:
            text = f"waiting for {step.model or 'an answer'}"
        return cut(text.rstrip(), room, self._style.signs.dots)

    def _columns(self, title: str, agent: str, elapsed: str, counted: tuple[int, bool]) -> str:
        number, about = counted
        amount = tokens(number, about=about).replace("tokens", self._unit) if number else ""
        return (
            self._cell(title, self._title)
            + self._cell(agent, self._agent)
            + self._cell(elapsed, self._elapsed, right=True)
            + self._cell(amount, self._tokens, right=True)
        )

    def _cell(self, text: str, room: int, *, right: bool = False) -> str:
        if not room:
            return ""
        return fit(self._style.encodable(text), room, self._style.signs.dots, right=right) + "  "
