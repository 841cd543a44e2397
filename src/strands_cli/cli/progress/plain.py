"""Progress for files, pipes and simple terminals: one line for each thing worth telling."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TextIO

from strands_cli.cli.progress.board import Board
from strands_cli.cli.progress.look import Look
from strands_cli.cli.progress.telling import Line, abandoned, plain, told
from strands_cli.events import Event, RunFinished


class PlainProgress:
    def __init__(self, stream: TextIO, look: Look, *, verbose: bool) -> None:
        self._stream = stream
        self._look = look
        self._verbose = verbose
        self._board = Board(monotonic())
        self._lock = Lock()
        self._asking = 0
        self._held: list[Line] = []

    def __call__(self, event: Event) -> None:
        with self._lock:
            now = monotonic()
            row = self._board.take(event, now)
            if isinstance(event, RunFinished):
                self._held += abandoned(self._board, now)
            line = told(event, row, self._board, verbose=self._verbose)
            if line is not None:
                self._held.append(line)
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
            self._held += abandoned(self._board, monotonic())
            self._write()

    def _write(self) -> None:
        if self._asking or not self._held:
            return
        text = "".join(f"{plain(line)}\n" for line in self._held)
        self._held.clear()
        try:
            self._stream.write(self._look.encodable(text))
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more: the run goes on
