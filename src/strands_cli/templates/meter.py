"""Limits the cost of a template: every loop, operation and text is counted while it is rendered.

Nothing can interrupt a computation in C, and a thread cannot be killed. So operations that could take long or
create large values are refused before they start, and all others cost units: `Meter.left` is what a template
has left. A unit is about one character of output, or 25 ns; reading a value costs less than creating one.

The weight of a value is its length as text: a list that contains another list twice weighs twice as much,
however little memory it needs. So no operation over a value takes longer than its weight suggests.
"""

import re
import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

MAX_CHARACTERS = 10_000_000
"""The longest output of a template, and of a single operation in it."""
MAX_WORK = 30_000_000
MAX_SECONDS = 2.0
"""CPU time, a second limit for work that the units underestimate."""

OPERATION = 100
NODE = 20
"""The cost of each node in the body of a loop or macro, for each pass."""
ITEM = 10
_TOKEN = 400
_TAG = re.compile(r"\{[{%].*?(?:[%}]\}|$)", re.DOTALL)
_WORD = re.compile(r"\w+|[^\w\s]")
_CLOCK = 200_000
MAX_BITS = 14_000
"""The largest integer: Python does not convert longer ones to text."""


class TooMuch(Exception):
    """A template that would exceed its limits."""


class Meter:
    """The remaining units of one template, or of one command."""

    def __init__(self, work: int = MAX_WORK, seconds: float = MAX_SECONDS) -> None:
        self.left = work
        self._until = time.thread_time() + seconds
        self._next_look = work - _CLOCK
        self._weights: dict[int, tuple[object, int]] = {}
        """By `id`, with the value itself: while it is referenced here, no other value gets that id."""

    @contextmanager
    def running(self) -> Iterator["Meter"]:
        """All templates rendered in this block share this meter."""
        token = _METER.set(self)
        try:
            yield self
        finally:
            _METER.reset(token)

    def spend(self, work: int) -> None:
        self.left -= work
        if self.left < self._next_look:
            self._next_look = self.left - _CLOCK
            if self.left < 0 or time.thread_time() > self._until:
                raise TooMuch("it takes too long")

    def read_code(self, text: str) -> None:
        """Pays for parsing or compiling a template."""
        tags = _TAG.findall(text)
        code = sum(len(_WORD.findall(tag)) + 3 * tag.count("|") for tag in tags)  # filters nest
        try:
            self.spend(_TOKEN * code)
        except TooMuch:
            raise TooMuch("there is too much template code") from None

    def make(self, size: int) -> None:
        """Pays for a text or list of that size before it is created."""
        if size > MAX_CHARACTERS:
            raise TooMuch(f"it makes more than {MAX_CHARACTERS} characters")
        self.spend(size)

    def read(self, *values: Any) -> None:
        """Pays for an operation that reads these values."""
        self.spend(OPERATION + (sum(map(self.weight, values)) >> 3))

    def weight(self, value: Any) -> int:
        """The minimum length of a value as text."""
        match value:
            case str() | bytes():
                return len(value)
            case int():
                return checked_integer(value).bit_length() >> 3
            case msgspec.Struct():
                parts: Any = [getattr(value, name) for name in value.__struct_fields__]
            case Mapping():
                parts = [*value.keys(), *value.values()]
            case list() | tuple() | set() | frozenset() | KeysView() | ValuesView() | ItemsView():
                parts = value
            case range():
                return 6 * len(value)
            case _:
                return 1
        known = self._weights.get(id(value))
        if known is None:
            self.spend(ITEM * len(parts))
            known = self._weights[id(value)] = (value, len(parts) + sum(map(self.weight, parts)))
        return known[1]

    def collect(self, parts: Iterable[str]) -> str:
        """Joins texts; stops as soon as the result is too long."""
        found: list[str] = []
        size = 0
        for part in parts:
            size += len(part)
            self.make(len(part))
            found.append(part)
            if size > MAX_CHARACTERS:
                self.make(size)
        return "".join(found)

    def made(self, value: Any) -> Any:
        """Pays for the result of an operation and returns it; an iterator pays item by item."""
        if isinstance(value, Iterator):
            return self.made_items(value)
        self.make(self.weight(value))
        return value

    def made_items(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.spend(OPERATION)
            yield self.made(item)


_METER: ContextVar[Meter] = ContextVar("meter of templates")


def current_meter() -> Meter:
    return _METER.get(None) or Meter()


def checked_integer(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise TooMuch("it makes an integer with too many digits")
    return value
