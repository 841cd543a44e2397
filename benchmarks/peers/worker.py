"""What all peers share: the functions they make tools of, and the loop that measures on request.

A peer's script calls `serve` with its documented way to make a tool, to call it, and to run an agent. A row
is measured when its name comes in on stdin, so that the rows of all peers can be interleaved.
"""

import asyncio
import gc
import inspect
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ARGUMENTS = {"a": 1, "b": 2}
MAKES, CALLS, TURNS, NAPS = 20, 200, 200, 100
NAP_SECONDS = 0.05


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


async def async_add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def nap(a: int, b: int) -> int:
    """Add two numbers, slowly.

    Args:
        a: The first number.
        b: The second number.
    """
    time.sleep(NAP_SECONDS)
    return a + b


async def async_nap(a: int, b: int) -> int:
    """Add two numbers, slowly.

    Args:
        a: The first number.
        b: The second number.
    """
    await asyncio.sleep(NAP_SECONDS)
    return a + b


def nested() -> Callable[..., Any]:
    """A function with a nested pydantic model; new models each time, since pydantic keeps their schemas."""
    from pydantic import BaseModel

    class Item(BaseModel):
        name: str
        price: float
        tags: list[str] = []

    class Order(BaseModel):
        number: int
        items: list[Item]
        note: str | None = None

    def place(order: Order, urgent: bool = False) -> str:
        """Place an order.

        Args:
            order: What is ordered.
            urgent: Whether it is needed today.
        """
        return f"{order.number}{urgent}"

    return place


def _cpu(work: Callable[[], Any], count: int) -> float:
    """CPU microseconds of one of `count`."""
    started = time.process_time()
    work()
    return 1e6 * (time.process_time() - started) / count


def _wall(work: Callable[[], Any]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - started)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True)
class Peer:
    """A peer's documented way to make a tool, to call it, and to have a model make so many calls in so many
    turns. One without an agent calls its tools itself; `naps(is_async)` replaces that."""

    make: Callable[[Callable[..., Any]], Any]
    call: Callable[[Any, dict[str, int]], Any]
    run: Callable[[Any, int, int], Any] | None = None
    takes_async: bool = True
    takes_models: bool = True
    naps: Callable[[bool], Any] | None = None

    def rows(self) -> dict[str, Callable[[], float]]:
        rows = {"schema": self._make, "call": lambda: self._call(add), "naps": lambda: self._nap(nap)}
        if self.takes_models:
            rows["nested"] = self._make_nested
        if self.takes_async:
            rows["async call"] = lambda: self._call(async_add)
            rows["async naps"] = lambda: self._nap(async_nap)
        if self.run is not None:
            rows["calls"] = lambda: _cpu(lambda: self.run_agent(1, CALLS), CALLS)
            rows["turns"] = lambda: _cpu(lambda: self.run_agent(TURNS, 1), TURNS)
        return rows

    def run_agent(self, turns: int, calls: int, function: Callable[..., Any] = add) -> None:
        async def run() -> None:
            assert self.run is not None
            await _settled(self.run(self.make(function), turns, calls))

        asyncio.run(run())

    def _make(self) -> float:
        return _cpu(lambda: [self.make(add) for _ in range(MAKES)], MAKES)

    def _make_nested(self) -> float:
        functions = [nested() for _ in range(MAKES)]
        return _cpu(lambda: [self.make(function) for function in functions], MAKES)

    def _call(self, function: Callable[..., Any]) -> float:
        tool = self.make(function)

        async def call_often() -> None:
            for _ in range(CALLS):
                await _settled(self.call(tool, ARGUMENTS))

        return _cpu(lambda: asyncio.run(call_often()), CALLS)

    def _nap(self, function: Callable[..., Any]) -> float:
        if self.run is not None:
            return _wall(lambda: self.run_agent(1, NAPS, function))

        async def nap_together() -> None:
            if self.naps is not None:
                await self.naps(function is async_nap)
                return
            tool = self.make(function)
            await asyncio.gather(*(self.call(tool, ARGUMENTS) for _ in range(NAPS)))

        return _wall(lambda: asyncio.run(nap_together()))


def serve(**ways: Any) -> None:
    """Answers requests for the rows of a peer until stdin ends."""
    peer = Peer(**ways)
    if peer.run is not None:
        peer.run_agent(2, 2)  # what is imported late is imported now
    rows = peer.rows()
    for line in sys.stdin:
        _answer(rows.get(line.strip()))


def _answer(row: Callable[[], float] | None) -> None:
    gc.collect()
    gc.freeze()  # a full collection by chance would be the cost of whoever is measured then
    try:
        answer: Any = row() if row is not None else None
    except Exception as error:  # noqa: BLE001 - the row says why it is empty
        answer = f"{type(error).__name__}: {error}"
    print("=" + json.dumps(answer), flush=True)
