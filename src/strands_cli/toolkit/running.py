"""Running a body: inline, in a worker thread, in its own task or in its own process, against one deadline."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.settings import DEFAULT_THREADS
from strands_cli.toolkit.context import CallContext, ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.outcome import Raised, run_inline, value_of
from strands_cli.toolkit.threads import Job, daemon_pool

Settle = Callable[[Any], None]
"""Gives the call its outcome; only the first one counts."""
Abandon = Callable[[], object]
"""Ends a body, or stops waiting for one that cannot be ended."""

_EXPIRED = object()
_CANCELLED = object()


async def run_body(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, given: CallContext, seconds: float
) -> Any:
    """The body's value; ToolFailed when it says no, crashes, is late or is cancelled."""
    if tool.isolate:
        outcome = await _wait(partial(_in_process, tool, arguments, context, given), context, given, seconds)
    elif tool.is_async:
        outcome = await _wait(partial(_in_task, tool, arguments, context), context, given, seconds)
    else:
        outcome = await _wait(partial(_in_thread, tool, arguments, context, given), context, given, seconds)
    if outcome is _EXPIRED:
        raise ToolFailed(
            f"{tool.id} did not answer within {seconds:g} s",
            code="timeout",
            hint="Ask for less at once, or give the tool a higher timeout.",
        )
    if outcome is _CANCELLED:
        raise ToolFailed(f"The call of {tool.id} was cancelled", code="cancelled")
    return value_of(outcome, tool)


async def _wait(
    start: Callable[[Settle], Abandon], context: ToolContext, given: CallContext, seconds: float
) -> Any:
    """The outcome of what `start` starts, or what comes first: the deadline, or a cancellation.

    The answer comes at the deadline even if the body swallows its cancellation: it is left to itself then.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    settle = partial(_settle, answer)
    abandon = start(settle)
    timer = loop.call_later(seconds, settle, _EXPIRED)
    cancelled = given.cancel.on_set_in_loop(settle, _CANCELLED) if given.cancel else nullcontext()
    try:
        with cancelled:
            return await answer
    finally:
        timer.cancel()
        context.stop()
        abandon()


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if not answer.done():
        answer.set_result(outcome)


def _in_task(tool: Tool, arguments: dict[str, Any], context: ToolContext, settle: Settle) -> Abandon:
    return asyncio.get_running_loop().create_task(_guarded(tool, arguments, context, settle)).cancel


async def _guarded(tool: Tool, arguments: dict[str, Any], context: ToolContext, settle: Settle) -> None:
    """Settles from inside the task: a callback on its end would cost a round of the loop more."""
    try:
        outcome = await tool.invoke(arguments, context)
    except BaseException as error:  # noqa: BLE001 - as in run_inline; a cancellation here is the deadline's
        outcome = Raised(error)
    settle(outcome)


def _in_thread(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, given: CallContext, settle: Settle
) -> Abandon:
    variables = copy_context()
    return _submit(lambda: variables.run(run_inline, tool, arguments, context), given, settle)


def _in_process(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, given: CallContext, settle: Settle
) -> Abandon:
    """A worker thread waits for the child; once the child is killed, the thread is free again."""
    from strands_cli.toolkit.isolation import IsolatedBody

    body = IsolatedBody(tool, arguments, context, given)
    leave = _submit(body.outcome, given, settle)

    def abandon() -> None:
        body.kill()
        leave()

    return abandon


def _submit(body: Callable[[], Any], given: CallContext, settle: Settle) -> Abandon:
    loop = asyncio.get_running_loop()

    def deliver(outcome: Any) -> None:
        try:
            loop.call_soon_threadsafe(settle, outcome)
        except RuntimeError:
            pass  # the loop is closed: the call was abandoned and its program has gone on

    job = Job(body, deliver)
    pool = daemon_pool(given.settings.threads if given.settings else DEFAULT_THREADS)
    pool.submit(job, extra=given.depth > 0)
    return partial(pool.abandon, job)
