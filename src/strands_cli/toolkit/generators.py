"""Bodies that yield: what comes before the last is progress, the last (or the return value) is the result."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext

_NOTHING = object()
_ITEMS_AT_ONCE = 16


def drain(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """A sync generator's return value, else its last yield. It ends when nobody waits for it any more."""
    last = _NOTHING
    while True:
        try:
            item = next(generator)
        except StopIteration as end:
            if end.value is None:
                return _result(last)
            if last is not _NOTHING:
                context.progress(last)
            return end.value
        if context.cancelled:
            generator.close()
            raise ToolFailed("Nobody waits for the answer any more", code="cancelled")
        if last is not _NOTHING:
            context.progress(last)
        last = item


async def drain_async(generator: AsyncGenerator[Any, Any], context: ToolContext) -> Any:
    """An async generator's last yield."""
    from asyncio import sleep

    last, count = _NOTHING, 0
    async for item in generator:
        if last is not _NOTHING:
            context.progress(last)
        last = item
        count += 1
        if count % _ITEMS_AT_ONCE == 0:
            await sleep(
                0
            )  # a body that never waits for anything would keep the loop, and its deadline, to itself
    return _result(last)


def _result(last: object) -> Any:
    return None if last is _NOTHING else last
