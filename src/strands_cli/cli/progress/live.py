"""Progress on a terminal: a line for each step that runs, above them what is done."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import TextIO

from strands_cli.cli.progress.board import Board
from strands_cli.cli.progress.layout import Painter
from strands_cli.cli.progress.look import Look
from strands_cli.cli.progress.screen import Screen
from strands_cli.cli.progress.telling import Line, abandoned, told
from strands_cli.events import Event, ModelText, RunFinished

_FRAME_SECONDS = 1 / 8
_PATIENCE_SECONDS = 2.0


class LiveProgress:
    """The listener only takes notes; a thread of its own looks at them eight times a second and paints.

    Two locks: `_notes` for what is known, held for moments; `_output` for the terminal, which may be slow.
    Whoever takes both takes `_output` first.
    """

    def __init__(self, stream: TextIO, look: Look, *, verbose: bool) -> None:
        self._look = look
        self._verbose = verbose
        self._board = Board(monotonic())
        self._lines: list[Line] = []
        self._notes = Lock()
        self._output = Lock()
        self._screen = Screen(stream, look)
        self._asking = 0
        self._closed = Flag()
        self._undo = ExitStack()
        self._undo.enter_context(self._screen.left_clean())
        self._thread = Thread(target=self._paint_now_and_then, name="progress", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        now = monotonic()
        with self._notes:
            row = self._board.take(event, now)
            if isinstance(event, ModelText):
                return
            if isinstance(event, RunFinished):
                self._lines += abandoned(self._board, now)
            line = told(event, row, self._board, verbose=self._verbose)
            if line is not None and (self._verbose or line.kind != "call") and line.kind != "started":
                self._lines.append(line)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Takes the display away while a question stands on the terminal."""
        with self._output:
            self._asking += 1
            if self._asking == 1:
                self._screen.clear(self._take_lines())
        try:
            yield
        finally:
            with self._output:
                self._asking -= 1

    def close(self) -> None:
        self._closed.set()
        with self._notes:
            self._lines += abandoned(self._board, monotonic())
        try:
            self._thread.join(_PATIENCE_SECONDS)
        finally:
            self._screen.clear(self._take_lines())
            self._undo.close()

    def _paint_now_and_then(self) -> None:
        while not self._closed.wait(_FRAME_SECONDS):
            with self._output:
                if not self._asking:
                    self._paint()

    def _paint(self) -> None:
        width, height = self._screen.size()
        painter = Painter(self._look, width)
        with self._notes:
            lines, self._lines = self._lines, []
            frame = painter.frame(self._board, monotonic(), height) if self._board.is_running else []
        self._screen.paint([painter.lasting(line) for line in lines], frame)

    def _take_lines(self) -> list[str]:
        painter = Painter(self._look, self._screen.size()[0])
        with self._notes:
            lines, self._lines = self._lines, []
        return [painter.lasting(line) for line in lines]
