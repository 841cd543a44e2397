"""Lines for a terminal: columns whose widths follow from the width of the window alone, so nothing jumps."""

import msgspec

from strands_cli.cli.progress.board import Board, Row
from strands_cli.cli.progress.look import Look
from strands_cli.cli.progress.telling import Line
from strands_cli.cli.text import cells, clock, cut, duration, fit, one_line, tail, tokens, wrapped

_SPINNER_PER_SECOND = 8
_GLIMPSE_SECONDS = 0.4
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


class Columns(msgspec.Struct, frozen=True):
    """Widths in cells; a column of no width is left out."""

    title: int
    agent: int
    elapsed: int
    tokens: int
    rest: int
    unit: str
    """What tokens are called: a shorter word where there is little room."""


def columns_for(width: int) -> Columns:
    title = min(max(width // 5, 8), 28)
    agent = min(width // 8, 16) if width >= 76 else 0
    unit = "tokens" if width >= 100 else "tok"
    numbers = len("~123,456 ") + len(unit) if width >= 45 else 0
    elapsed = len("59 m 59 s") if width >= 30 else 0
    # Two for the sign, two between columns; the last cell stays free, since some terminals wrap there.
    used = 2 + sum(column + 2 for column in (title, agent, elapsed, numbers) if column)
    return Columns(title, agent, elapsed, numbers, max(width - 1 - used, 0), unit)


class Painter:
    """Makes the lines of one frame."""

    def __init__(self, look: Look, width: int) -> None:
        self.look = look
        self.width = width
        self.columns = columns_for(width)

    def lasting(self, line: Line) -> str:
        """A line that stays; several where what it says at its end is longer than the window."""
        if line.kind == "heading":
            return self.look.paint(line.rest, "bold")
        which, colour = _KINDS[line.kind]
        sign = self.look.paint(getattr(self.look.signs, which), colour)
        if line.seconds is None:
            title = self._cell(line.title, self.columns.title) if line.title else ""
            return self._ended(
                f"{sign} {title}", 2 + cells(title), line.rest, "dim" if colour == "dim" else ""
            )
        counted = self._tokens(line.tokens, about=False)
        numbers = self._numbers(line.title, line.agent, duration(line.seconds), counted)
        colour = "red" if line.kind == "failed" else "dim"
        return self._ended(f"{sign} {numbers}", 2 + cells(numbers), line.rest, colour)

    def _ended(self, line: str, used: int, rest: str, colour: str) -> str:
        """The line with its rest; below it, with an indent, where it does not fit."""
        if used + cells(rest) < self.width:
            return (line + self.look.paint(rest, colour)).rstrip()
        below = wrapped(rest, max(self.width - 5, 10))
        return "\r\n".join([line.rstrip(), *(f"    {self.look.paint(part, colour)}" for part in below)])

    def frame(self, board: Board, now: float, height: int) -> list[str]:
        """The lines that are painted again and again: an empty one, one for each step, one for the run."""
        spin = self.look.signs.spinner
        sign = self.look.paint(spin[int(now * _SPINNER_PER_SECOND) % len(spin)], "cyan")
        room = max(height - 4, 1)
        rows = list(board.rows.values())
        lines = [f"{sign} {self._row(row, now)}" for row in rows[:room]]
        if len(rows) > room:
            more = f"  {self.look.signs.dots} and {len(rows) - room} more"
            lines.append(self.look.paint(cut(more, self.columns.title + self.columns.rest), "dim"))
        return ["", *lines, self._footer(board, now)][: max(height - 1, 1)]

    def _row(self, row: Row, now: float) -> str:
        number, about = row.tokens
        counted = self._tokens(number, about=about)
        numbers = self._numbers(one_line(row.title), one_line(row.agent), clock(now - row.started), counted)
        return numbers + self.look.paint(self._activity(row, now), "dim")

    def _footer(self, board: Board, now: float) -> str:
        number, about = board.tokens
        counts = {"running": len(board.rows), "done": board.done, "failed": board.failed}
        said = ", ".join(f"{amount} {word}" for word, amount in counts.items() if amount)
        elapsed, counted = clock(now - board.started), self._tokens(number, about=about)
        numbers = self._numbers(one_line(board.workflow), "", elapsed, counted)
        return self.look.paint(f"  {numbers}{cut(said, self.columns.rest, self.look.signs.dots)}", "dim")

    def _activity(self, row: Row, now: float) -> str:
        """What a step does right now."""
        room, dots = min(self.columns.rest, _WIDEST_GLIMPSE), self.look.signs.dots
        if row.calls:
            call, others = next(iter(row.calls.values())), len(row.calls) - 1
            more = f" (+{others})" if others else ""
            said = f"{one_line(call.tool_id)} {clock(now - call.started)}{more} {call.progress}"
        elif row.text:
            return self._glimpse(row, now, room)
        elif row.again_at:
            said = f"again in {clock(row.again_at - now + 0.999)}"
        else:
            said = f"waiting for {one_line(row.model)}" if row.model else "waiting for an answer"
        return cut(said.rstrip(), room, dots)

    def _glimpse(self, row: Row, now: float, room: int) -> str:
        if now - row.glimpsed_at >= _GLIMPSE_SECONDS:
            row.glimpse, row.glimpsed_at = one_line(row.text), now
        return tail(row.glimpse, room)

    def _numbers(self, title: str, agent: str, elapsed: str, counted: str) -> str:
        columns = self.columns
        return "".join(
            [
                self._cell(title, columns.title),
                self._cell(agent, columns.agent),
                self._cell(elapsed, columns.elapsed, right=True),
                self._cell(counted, columns.tokens, right=True),
            ]
        )

    def _cell(self, text: str, room: int, *, right: bool = False) -> str:
        return fit(self.look.encodable(text), room, self.look.signs.dots, right=right) + "  " if room else ""

    def _tokens(self, number: int, *, about: bool) -> str:
        return tokens(number, about=about).replace("tokens", self.columns.unit) if number else ""
