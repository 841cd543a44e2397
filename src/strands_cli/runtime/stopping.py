"""Ending a model's answer at once, without cancelling a task of the SDK's."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.events import ModelStopReason, TypedEvent

from strands_cli.toolkit.cancellation import Cancellation

STOPPED_TEXT = "Stopped before the answer was complete."
_PATIENCE_SECONDS = 2.0
"""How long a model may take to end after a stop, before it is left to itself."""
_END = object()
_STILL_RUNS = "already running"
"""What Python says of a generator that is closed while somebody else waits in it."""
_logger = logging.getLogger("strands_cli.models")


def stopped_answer() -> ModelStopReason:
    """What takes the place of a model's answer in a run that is stopped."""
    return ModelStopReason(
        stop_reason="cancelled",
        message={"role": "assistant", "content": [{"text": STOPPED_TEXT}]},
        usage={"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
        metrics={"latencyMs": 0},
    )


async def until_stopped(
    events: AsyncGenerator[TypedEvent, None], cancel: Cancellation
) -> AsyncGenerator[TypedEvent, None]:
    """A model's events; after a stop no more of them, but an answer that says so.

    The SDK looks for a stop between two chunks only, and a model may be silent for minutes before its first.
    The whole stream therefore runs in one task of ours: the spans that it opens it has to close in the same
    context.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    pump = asyncio.create_task(_pump(events, queue))

    def stop() -> None:
        loop.call_soon_threadsafe(queue.put_nowait, _END)

    is_answered = False
    cancel.add_callback(stop)
    try:
        while (event := await queue.get()) is not _END:
            is_answered = is_answered or isinstance(event, ModelStopReason)
            yield event
        if cancel.is_set() and not is_answered:
            yield stopped_answer()
        elif pump.done():
            pump.result()  # what the model raised is raised here
    finally:
        cancel.remove_callback(stop)
        pump.cancel()
        pump.add_done_callback(_pass_over)
        await asyncio.wait({pump}, timeout=_PATIENCE_SECONDS)


def _pass_over(pump: "asyncio.Task[None]") -> None:
    """A stopped model may complain; nobody listens any more."""
    if not pump.cancelled():
        pump.exception()


async def let_go(
    context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
) -> AsyncGenerator[TypedEvent, None]:
    """Leaves a model to itself that does not end in time after a stop.

    A middleware around the one that uses `until_stopped`. The SDK closes what a middleware has read from,
    and that fails where the pump still waits in it: it would hide why the run ends.
    """
    try:
        async with aclosing(next_fn(context)) as events:
            async for event in events:
                yield event
    except RuntimeError as error:
        if _STILL_RUNS not in str(error):
            raise
        _logger.debug("a model does not end after a stop, and is left to itself")


async def _pump(events: AsyncGenerator[TypedEvent, None], queue: "asyncio.Queue[Any]") -> None:
    try:
        async for event in events:
            queue.put_nowait(event)
    finally:
        asyncio.get_running_loop().call_soon(queue.put_nowait, _END)  # when this task counts as done
