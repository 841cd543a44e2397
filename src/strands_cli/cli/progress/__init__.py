"""What people see while a workflow runs: a live display on a terminal, plain lines elsewhere.

Everything goes to standard error. `text.py` is for whoever else shows what models and tools say.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from strands_cli.events import Event


class Progress(Protocol):
    """A listener that can make way for questions."""

    def __call__(self, event: Event, /) -> None: ...
    def asking(self) -> AbstractContextManager[None]: ...


@contextmanager
def open_progress(*, verbose: bool = False, stream: TextIO | None = None) -> Iterator[Progress]:
    """Shows a run until the end of the block. With `verbose`, each tool call and what it is called with."""
    from strands_cli.cli.progress.live import LiveProgress
    from strands_cli.cli.progress.look import look_of
    from strands_cli.cli.progress.plain import PlainProgress

    stream = stream or sys.stderr or _nowhere()
    shown: LiveProgress | PlainProgress
    if is_live(stream):
        shown = LiveProgress(stream, look_of(stream, coloured=True), verbose=verbose)
    else:
        shown = PlainProgress(stream, look_of(stream, coloured=False), verbose=verbose)
    try:
        yield shown
    finally:
        shown.close()


def is_live(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor, with a human before it."""
    if os.name == "nt":
        able = "WT_SESSION" in os.environ  # older consoles print the sequences
    else:
        able = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    if not able or _is_set("CI"):
        return False
    return not stream.closed and stream.isatty()


def _nowhere() -> TextIO:
    """Stands in where standard error is closed."""
    from io import StringIO

    nowhere = StringIO()
    nowhere.close()
    return nowhere


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "false")
