"""Running a coroutine to its end from a command."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_CLEANUP_SECONDS = 0.5


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, but a body that ignores its cancellation does not hold up the end of the command."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonExecutor())
    task = loop.create_task(_with_cleanup(main))
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        if not task.done():  # a loop that ran a finished task again would never stop
            task.cancel()
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not complain
        raise
    finally:
        loop.close()


class _DaemonExecutor(ThreadPoolExecutor):
    """Threads that do not hold up the end of the process, such as a client of a silent server."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        Thread(target=_settle, args=(future, lambda: fn(*args, **kwargs)), daemon=True).start()
        return future


def _settle(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
        future.set_exception(error)


async def _with_cleanup(main: Coroutine[Any, Any, T]) -> T:
    try:
        return await main
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_CLEANUP_SECONDS)
        # After a failure the SDK leaves generators open, which asyncio complains about at the end.
        await asyncio.get_running_loop().shutdown_asyncgens()
