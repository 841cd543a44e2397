"""Running a coroutine to its end from a command."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_FAREWELL_SECONDS = 0.5


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but a body that ignores its cancellation does not hold up the end of the command."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(_with_farewell(main))
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        raise
    finally:
        loop.close()


async def _with_farewell(main: Coroutine[Any, Any, T]) -> T:
    try:
        return await main
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_FAREWELL_SECONDS)
