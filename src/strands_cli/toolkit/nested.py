"""A body that calls another tool."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any

from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, ToolUse
from strands_cli.toolkit.unwrap import value_of_result

CallTool = Callable[[Tool, ToolUse, CallContext], Awaitable[ToolResult]]


def call_nested(
    caller: Tool, other: Tool, arguments: dict[str, Any], context: CallContext, call_tool: CallTool
) -> Any:
    """The other tool's value: a coroutine for an async body, the value itself for a sync one."""
    call: ToolUse = {"toolUseId": f"{caller.id}/{other.id}", "name": other.id, "input": arguments}

    async def value() -> Any:
        return value_of_result(await call_tool(other, call, context), other)

    return value() if caller.is_async else run_apart(value())


def run_apart(coroutine: Any) -> Any:
    """A coroutine's value, in a thread and a loop of its own, so that it works where a loop is running.

    A daemon thread: a program that ends does not wait for it.
    """
    outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put((asyncio.run(coroutine), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was waited for
            outcome.put((None, error))

    # In a copy of the context, so that a span of the caller is around those of the call.
    Thread(target=copy_context().run, args=(run,), name="strands-nested", daemon=True).start()
    value, error = outcome.get()
    if error is not None:
        raise error
    return value
