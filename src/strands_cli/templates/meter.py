"""What a template may cost: every loop, operation and text of it is counted while it is rendered.

Nothing can stop a computation in C, and a thread cannot be ended. So what could take long or make much is
refused before it begins, and everything else is paid for: `Meter.left` is what a template may still do. A
unit is about a character made, or 25 ns; what only reads a value costs less than what makes one.

A value is weighed as it would be written out: a list that holds another list twice weighs twice as much,
however little memory that takes. So nothing that goes through a value takes longer than its weight says.
"""

import re
import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

MAX_CHARACTERS = 10_000_000
"""The longest text that a template may become, or that one operation in it may make."""
MAX_WORK = 30_000_000
MAX_SECONDS = 2.0
"""Of CPU: what the units do not foresee ends here."""

OPERATION = 100
NODE = 20
"""What each part of a loop's or macro's body costs each time."""
ITEM = 10
_TOKEN = 400
_TAG = re.compile(r"\{[{%].*?(?:[%}]\}|$)", re.DOTALL)
_WORD = re.compile(r"\w+|[^\w\s]")
_CLOCK = 200_000
MAX_BITS = 14_000
"""Of an integer: Python writes no longer ones."""


class TooMuch(Exception):
    """A template that would do or make more than it may."""


class Meter:
    """What is left of the work that one text, or one command, may cost."""

    def __init__(self, work: int = MAX_WORK, seconds: float = MAX_SECONDS) -> None:
        self.left = work
        self._until = time.thread_time() + seconds
        self._next_look = work - _CLOCK
        self._weights: dict[int, tuple[object, int]] = {}
        """By identity, with the value itself: while it is kept, nothing else has that identity."""

    @contextmanager
    def running(self) -> Iterator["Meter"]:
        """All that is rendered in here is paid for together."""
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
        """Pays for reading or compiling a template."""
        tags = _TAG.findall(text)
        code = sum(len(_WORD.findall(tag)) + 3 * tag.count("|") for tag in tags)  # filters nest
        try:
            self.spend(_TOKEN * code)
        except TooMuch:
            raise TooMuch("there is too much template code") from None

    def make(self, size: int) -> None:
        """Pays for a text or list of that size before it is made."""
        if size > MAX_CHARACTERS:
            raise TooMuch(f"it makes more than {MAX_CHARACTERS} characters")
        self.spend(size)

    def read(self, *values: Any) -> None:
        """Pays for an operation that looks through these values."""
        self.spend(OPERATION + (sum(map(self.weight, values)) >> 3))

    def weight(self, value: Any) -> int:
        """How long a value would be as text, at least."""
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
        """One text of many, which may not become too long on the way."""
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
        """A value that an operation has made, paid for; of an iterator, each item when it comes."""
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
