"""What one call costs, against the least that gives the same: ours, the floor and the SDK in one run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import jsonschema_rs
from measuring import Row, interleaved, timed

from strands_cli import call_tool, tool

CALLS = 400
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
USE = {"toolUseId": "t1", "name": "add", "input": {"a": 1, "b": 2}}


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _async_add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _spec() -> dict[str, Any]:
    return {"name": "add", "description": "Add two numbers", "inputSchema": {"json": SCHEMA}}


def measure(rounds: int = 15) -> Iterator[Row]:
    cases = {name: timed(make(), CALLS) for name, make in CASES.items()}
    medians = interleaved(cases, rounds)
    check = medians["validation alone"]
    yield Row("validation alone", check, "us")
    yield Row("ours, sync inline", medians["ours, sync inline"], "us")
    over = medians["ours, sync inline"] - check
    yield Row("ours, sync inline, over validation", over, "us", "5 us", over / 5, 1)
    floor = medians["floor: validate, own task, timer"]
    yield Row("floor: validate, own task, timer", floor, "us")
    yield Row("ours, async", medians["ours, async"], "us", "floor", medians["ours, async"] / floor, 3)
    yield Row(
        "SDK, async",
        medians["SDK, async"],
        "us",
        "ours, async",
        medians["SDK, async"] / medians["ours, async"],
    )
    threads = medians["floor: validate, asyncio.to_thread"]
    yield Row("floor: validate, asyncio.to_thread", threads, "us")
    yield Row(
        "ours, sync in a thread", medians["ours, thread"], "us", "floor", medians["ours, thread"] / threads, 1
    )
    yield Row(
        "SDK, sync",
        medians["SDK, sync"],
        "us",
        "ours, thread",
        medians["SDK, sync"] / medians["ours, thread"],
    )


def _ours(function: Callable[..., Any], **options: Any) -> Callable[[], Awaitable[Any]]:
    made = tool(spec=_spec(), **options)(function)
    return lambda: call_tool(made, USE)


def _validation() -> Callable[[], Awaitable[Any]]:
    validator = jsonschema_rs.validator_for({**SCHEMA, "additionalProperties": False})

    async def once() -> int:
        validator.is_valid(USE["input"])
        return _add(**USE["input"])

    return once


def _task_floor() -> Callable[[], Awaitable[Any]]:
    validator = jsonschema_rs.validator_for({**SCHEMA, "additionalProperties": False})

    async def once() -> int:
        loop = asyncio.get_running_loop()
        validator.is_valid(USE["input"])
        task = loop.create_task(_async_add(**USE["input"]))
        timer = loop.call_later(30, task.cancel)
        try:
            return await task
        finally:
            timer.cancel()

    return once


def _thread_floor() -> Callable[[], Awaitable[Any]]:
    validator = jsonschema_rs.validator_for({**SCHEMA, "additionalProperties": False})

    async def once() -> int:
        validator.is_valid(USE["input"])
        return await asyncio.to_thread(_add, **USE["input"])

    return once


def _sdk(function: Callable[..., Any]) -> Callable[[], Awaitable[Any]]:
    import strands

    made = strands.tool(name="add")(function)

    async def once() -> None:
        async for _ in made.stream(dict(USE), {}):
            pass

    return once


CASES: dict[str, Callable[[], Callable[[], Awaitable[Any]]]] = {
    "validation alone": _validation,
    "ours, sync inline": lambda: _ours(_add, blocking=False),
    "floor: validate, own task, timer": _task_floor,
    "ours, async": lambda: _ours(_async_add),
    "SDK, async": lambda: _sdk(_async_add),
    "floor: validate, asyncio.to_thread": _thread_floor,
    "ours, thread": lambda: _ours(_add),
    "SDK, sync": lambda: _sdk(_add),
}
