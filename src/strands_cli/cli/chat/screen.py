"""How a conversation looks: answers on one stream, all else on the other."""

import re
from threading import Lock
from typing import TextIO

from strands_cli.cli.output import count_text, may_colour
from strands_cli.cli.terminal import (
    StreamStyle,
    call_text,
    clean_text,
    duration_text,
    failure_text,
    one_line,
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
    ToolStarted,
    ToolStderr,
)
from strands_cli.types.run_results import Usage

_CALL_ROOM = 100
_USUAL_WIDTH = 100
_ERASED = "\r\x1b[K"
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


class Screen:
    """A listener that shows what happens as it happens.

    On a terminal (`live`) the answer comes word by word. Elsewhere it is written when it is complete, so that
    a reader gets answers and nothing else.
    """

    def __init__(self, out: TextIO, err: TextIO, *, live: bool) -> None:
        self.is_live = live
        self._out, self._err = out, err
        self._style = StreamStyle(err, coloured=live and may_colour())
        self._out_style = StreamStyle(out, coloured=live and may_colour())
        self._stream = CleanStream()
        self._lock = Lock()
        self._is_inside_line = False
        self._is_waiting = False
        self._calls: dict[str, str] = {}
        """The calls that are being made, as they are shown."""
        self._open_call = ""
        """The call whose line is not ended: its outcome still fits there."""

    @property
    def width(self) -> int:
        """The columns of the terminal, or a usual number without one."""
        return terminal_size(self._err, (_USUAL_WIDTH, 24))[0]

    # --- what an agent says and does ----------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case ModelStarted():
                    self._wait()
                case ModelText():
                    self._write_answer(self._stream.feed(event.text))
                case ModelFinished():
                    self._write_answer(self._stream.end())
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
                case ToolStarted():
                    self._begin_call(event)
                case ToolStderr(refused=refused) if refused:
                    self._line(self._style.signs.trouble, f"{event.tool_id}: {one_line(refused)}", "yellow")
                case ToolFinished():
                    self._end_call(event)

    def _wait(self) -> None:
        """Shows that the model is at work, until it says something."""
        if self.is_live and not self._is_inside_line and not self._is_waiting:
            self._write(self._style.paint(self._style.signs.dots, "dim"))
            self._is_waiting = True

    def _write_answer(self, text: str) -> None:
        if not text or not self.is_live:
            return
        if self._open_call:
            self._fresh_line()
        self._end_waiting()
        self._err.flush()
        self._out.write(self._out_style.encodable(text))
        self._out.flush()
        self._is_inside_line = not text.endswith("\n")

    def _begin_call(self, event: ToolStarted) -> None:
        shown = call_text(event.tool_id, event.arguments, _CALL_ROOM)
        self._calls[event.call_id] = shown
        if self.is_live:
            self._fresh_line()
            self._write(self._style.paint(f"  {shown}", "dim"))
            self._is_inside_line, self._open_call = True, event.call_id

    def _end_call(self, event: ToolFinished) -> None:
        shown = self._calls.pop(event.call_id, one_line(event.tool_id))
        if self._open_call != event.call_id:
            self._fresh_line()
            self._write(self._style.paint(f"  {shown}", "dim"))
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
        self._is_inside_line, self._open_call = False, ""

    # --- what the program says ----------------------------------------------------------------------------

    def answered(self, text: str, usage: Usage, seconds: float, *, is_stopped: bool) -> None:
        """Ends an answer, with what it cost; `text` is all of it."""
        with self._lock:
            self._fresh_line()
            if not self.is_live and text:
                self._out.write(self._out_style.encodable(clean_text(text)) + "\n")
                self._out.flush()
            stopped = f"{self._style.signs.stopped} stopped" if is_stopped else ""
            spent = tokens_text(usage.total_tokens) if usage.total_tokens else ""
            shown = ", ".join(filter(None, [stopped, spent, duration_text(seconds)]))
            self._write(self._style.paint(f"  {shown}", "dim") + "\n")

    def note(self, text: str) -> None:
        with self._lock:
            self._fresh_line()
            self._write(f"{clean_text(text)}\n")

    def error(self, error: StrandsError) -> None:
        """What went wrong and what to do; the conversation goes on."""
        with self._lock:
            self._fresh_line()
            self._write(f"{self._style.paint('error:', 'red')} {clean_text(error.message)}\n")
            if error.hint:
                self._write(f"  {clean_text(error.hint)}\n")

    def begin_line(self) -> None:
        """Lets other code write to the terminal."""
        with self._lock:
            self._fresh_line()

    # --- lines --------------------------------------------------------------------------------------------

    def _line(self, sign: str, text: str, colour: str) -> None:
        self._fresh_line()
        self._write(f"  {self._style.paint(f'{sign} {text}', colour)}\n")

    def _fresh_line(self) -> None:
        self._end_waiting()
        if self._is_inside_line:
            self._write("\n")
        self._is_inside_line, self._open_call = False, ""

    def _end_waiting(self) -> None:
        if self._is_waiting:
            self._write(_ERASED)
        self._is_waiting = False

    def _write(self, text: str) -> None:
        """Beside the answer. If it cannot be written, the conversation goes on."""
        try:
            self._err.write(self._style.encodable(text))
            self._err.flush()
        except (OSError, ValueError):
            pass
