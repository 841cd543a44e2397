"""The outcome of a body: its value, what it raised, or the last thing that it yielded.

An outcome crosses threads and tasks as a value, never as an exception: a StopIteration would hang the future
that carries it, a SystemExit would end the loop.
"""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import InterruptRequested, ToolContext
from strands_cli.toolkit.contract import Tool

_LONGEST_MESSAGE = 2000
_NOTHING = object()
_ITEMS_AT_ONCE = 16


class Raised(msgspec.Struct, frozen=True):
    error: BaseException


def run_inline(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """The body's outcome, in this thread."""
    try:
        return tool.invoke(arguments, context)
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome, not ours
        return Raised(error)


def value_of(outcome: Any, tool: Tool) -> Any:
    """The value of an outcome; ToolFailed if the body raised, unless it asks for a human."""
    if not isinstance(outcome, Raised):
        return outcome
    error = outcome.error
    if isinstance(error, ToolFailed | InterruptRequested):
        raise error
    import logging

    # The traceback is for the tool's author, in the log, and never for the model.
    logging.getLogger("strands_cli.tools").info("tool %s crashed", tool.id, exc_info=error)
    raise ToolFailed(f"Execution failed: {type(error).__name__}: {_capped(error)}", code="crashed") from error


def _capped(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an exception whose own text fails is still a crash to report
        text = "(its message cannot be shown)"
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


# --- bodies that yield: what comes before the last is progress, the last is the result --------------------


def drain(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """A sync generator's return value, else its last yield. It ends when the call is cancelled."""
    last = _NOTHING
    while True:
        try:
            item = next(generator)
        except StopIteration as end:
            if end.value is None:
                return None if last is _NOTHING else last
            if last is not _NOTHING:
                context.progress(last)
            return end.value
        if context.cancelled:
            generator.close()
            raise ToolFailed("The call was cancelled: nobody waits for its answer", code="cancelled")
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
            # A body that never waits for anything would keep the loop, and its deadline, to itself.
            await sleep(0)
    return None if last is _NOTHING else last
