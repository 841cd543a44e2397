"""How a conversation looks: answers on one stream, all else on the other."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Lock, Thread
from time import monotonic
from typing import TextIO

import msgspec

from strands_cli.cli.output import count_text, may_colour
from strands_cli.cli.terminal import (
    LiveBlock,
    StreamStyle,
    call_text,
    clean_text,
    clock_text,
    duration_text,
    failure_text,
    one_line,
    progress_lines,
    progress_text,
    terminal_size,
    tokens_text,
)
from strands_cli.errors import StrandsError
from strands_cli.events import (
    ContextCompacted,
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    ModelText,
    RunNoticed,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    ToolStderr,
)
from strands_cli.types.run_results import Usage

_CALL_ROOM = 100
_USUAL_WIDTH = 100
_FRAMES_PER_SECOND = 8
_MAX_HELD = 2100
# What may be the beginning of something that acts on a terminal, at the end of what has come so far.
_UNFINISHED = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*\\Z"
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*\x1b?\\Z"
    "|\x1b[ -/]*\\Z"
    "|\r\\Z"
)


class CleanStream:
    """A text that comes in pieces, made harmless: a sequence may be divided between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_HELD))
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        return clean_text(text[:cut])

    def end(self) -> str:
        held, self._held = self._held, ""
        return clean_text(held)


class OpenCall(msgspec.Struct):
    """A tool call that goes on, as it is shown."""

    shown: str
    started: float
    progress: str = ""


class Screen:
    """A listener that shows what happens as it happens.

    On a terminal (`live`) the answer comes word by word, and a thread paints what is waited for, with its
    seconds and the progress of tools. Elsewhere an answer is written when it is complete, so that a reader
    gets answers and nothing else.
    """

    def __init__(self, out: TextIO, err: TextIO, *, live: bool) -> None:
        self.is_live = live
        self._out, self._err = out, err
        self._style = StreamStyle(err, coloured=live and may_colour())
        self._out_style = StreamStyle(out, coloured=live and may_colour())
        self._stream = CleanStream()
        self._lock = Lock()
        self._is_inside_line = False
        self._model = ""
        self._waiting_since = 0.0
        """When the request began that is still unanswered; 0 otherwise."""
        self._calls: dict[str, OpenCall] = {}
        self._asking = 0
        self._block = LiveBlock(err, self._style, is_live=live)
        self._closed = Flag()
        if live:
            Thread(target=self._paint_repeatedly, name="screen", daemon=True).start()

    @property
    def width(self) -> int:
        """The columns of the terminal, or a usual number without one."""
        return terminal_size(self._err, (_USUAL_WIDTH, 24))[0]

    # --- what an agent says and does ----------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case ModelStarted():
                    self._model, self._waiting_since = one_line(event.model), monotonic()
                case ModelText():
                    self._write_answer(self._stream.feed(event.text))
                case ModelFinished():
                    self._write_answer(self._stream.end())
                    self._end_waiting()
                case ModelRetried():
                    again = f"again in {duration_text(event.wait_seconds)}"
                    self._line(
                        self._style.signs.again, f"{one_line(event.reason).rstrip('.')} ({again})", "yellow"
                    )
                case ContextCompacted():
                    shorter = f"{count_text(event.before, 'message')} became {event.after}"
                    self._line(self._style.signs.note, f"the conversation was summarised: {shorter}", "dim")
                case RunNoticed():
                    self._line(self._style.signs.trouble, one_line(event.text), "yellow")
                case _:
                    self._take_call(event)

    def _take_call(self, event: Event) -> None:
        match event:
            case ToolStarted():
                self._fresh_line()
                shown = call_text(event.tool_id, event.arguments, min(_CALL_ROOM, self.width - 20))
                self._calls[event.call_id] = OpenCall(shown, monotonic())
            case ToolProgress(call_id=call_id) if call_id in self._calls:
                self._calls[call_id].progress = progress_text(event.data)
            case ToolStderr(refused=refused) if refused:
                self._line(self._style.signs.trouble, f"{event.tool_id}: {one_line(refused)}", "yellow")
            case ToolFinished():
                self._end_call(event)

    def _paint_repeatedly(self) -> None:
        while not self._closed.wait(1 / _FRAMES_PER_SECOND):
            with self._lock:
                if not self._asking and not self._is_inside_line:
                    self._block.paint([], self._frame(monotonic()))

    def _frame(self, now: float) -> list[str]:
        """What is waited for: calls of tools, or the model."""
        spinner, dots, room = self._style.signs.spinner, self._style.signs.dots, self.width - 3
        lines: list[str] = []
        for call in self._calls.values():
            lines += progress_lines(
                f"{call.shown} {clock_text(now - call.started)}", call.progress, room, dots
            )
        if not lines and self._waiting_since:
            waiting = f"waiting for {self._model or 'an answer'} {clock_text(now - self._waiting_since)}"
            lines = progress_lines(waiting, "", room, dots)
        sign = spinner[int(now * _FRAMES_PER_SECOND) % len(spinner)]
        return [self._style.paint(f"{' ' if line[0] == ' ' else sign} {line}", "dim") for line in lines]

    def _write_answer(self, text: str) -> None:
        if not text or not self.is_live:
            return
        self._end_waiting()
        self._err.flush()
        self._out.write(self._out_style.encodable(text))
        self._out.flush()
        self._is_inside_line = not text.endswith("\n")

    def _end_call(self, event: ToolFinished) -> None:
        call = self._calls.pop(event.call_id, None)
        self._fresh_line()
        self._write(self._style.paint(f"  {call.shown if call else one_line(event.tool_id)}", "dim"))
        signs = self._style.signs
        sign = (
            self._style.paint(signs.failed, "red") if event.code else self._style.paint(signs.done, "green")
        )
        rest = " ".join(filter(None, [one_line(event.code or ""), duration_text(event.seconds)]))
        self._write(f"  {sign} {self._style.paint(rest, 'dim')}\n")
        room = self.width - 4 - len(signs.dots)
        why = failure_text(event.tool_id, event.content, room) if event.code else ""
        if why:
            self._write(f"    {self._style.paint(why, 'dim')}\n")

    # --- what the program says ----------------------------------------------------------------------------

    def answered(self, text: str, usage: Usage, seconds: float, *, is_stopped: bool) -> None:
        """Ends an answer, with what it cost; `text` is all of it."""
        with self._lock:
            self._end_turn()
            if not self.is_live and text:
                self._out.write(self._out_style.encodable(clean_text(text)) + "\n")
                self._out.flush()
            stopped = f"{self._style.signs.stopped} stopped" if is_stopped else ""
            spent = tokens_text(usage.total_tokens) if usage.total_tokens else ""
            shown = ", ".join(filter(None, [stopped, spent, duration_text(seconds)]))
            self._write(self._style.paint(f"  {shown}", "dim") + "\n")

    def note(self, text: str) -> None:
        with self._lock:
            self._end_turn()
            self._write(f"{clean_text(text)}\n")

    def error(self, error: StrandsError) -> None:
        """What went wrong and what to do; the conversation goes on."""
        with self._lock:
            self._end_turn()
            self._write(f"{self._style.paint('error:', 'red')} {clean_text(error.message)}\n")
            if error.hint:
                self._write(f"  {clean_text(error.hint)}\n")

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Lets other code write to the terminal, from the beginning of a line."""
        with self._lock:
            self._asking += 1
            self._fresh_line()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1

    def close(self) -> None:
        self._closed.set()

    # --- lines --------------------------------------------------------------------------------------------

    def _line(self, sign: str, text: str, colour: str) -> None:
        self._fresh_line()
        self._write(f"  {self._style.paint(f'{sign} {text}', colour)}\n")

    def _fresh_line(self) -> None:
        self._block.paint([], [])
        if self._is_inside_line:
            self._write("\n")
        self._is_inside_line = False

    def _end_turn(self) -> None:
        """Nothing is waited for any more, whether or not its end was reported."""
        self._calls.clear()
        self._end_waiting()
        self._fresh_line()

    def _end_waiting(self) -> None:
        self._waiting_since = 0.0
        self._block.paint([], [])

    def _write(self, text: str) -> None:
        """Beside the answer. If it cannot be written, the conversation goes on."""
        try:
            self._err.write(self._style.encodable(text))
            self._err.flush()
        except (OSError, ValueError):
            pass
