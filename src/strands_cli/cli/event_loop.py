"""Running a coroutine to its end from a command."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

T = TypeVar("T")

_CLEANUP_SECONDS = 0.5


def run_async(
    main: Coroutine[Any, Any, T],
    *,
    on_interrupt: Callable[[], object] | None = None,
    reads_in_loop: bool = False,
) -> T:
    """As asyncio.run, but a body that ignores its cancellation does not hold up the end of the command.

    The first Ctrl-C calls `on_interrupt`, or cancels `main` and raises KeyboardInterrupt; the second one is
    raised at once. `reads_in_loop` leaves Ctrl-C as it is: it interrupts whoever waits for input there.
    """
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonExecutor())
    task = loop.create_task(_run_and_clean_up(main))
    interrupts = 0

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1 or task.done():
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(on_interrupt or task.cancel)

    before = signal.getsignal(signal.SIGINT)
    if not reads_in_loop:
        with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, or not in the main thread
            # The kernel may give the signal to another thread. The loop's own handler wakes the loop then, so
            # that Python gets to run ours; without it the loop would go on waiting.
            loop.add_signal_handler(signal.SIGINT, lambda: None)
            signal.signal(signal.SIGINT, interrupt)
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not interrupts:
            raise
        raise KeyboardInterrupt from None
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
        if not reads_in_loop and current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


class _DaemonExecutor(ThreadPoolExecutor):
    """Threads that do not hold up the end of the process, such as a client of a silent server."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        Thread(target=_run_future, args=(future, lambda: fn(*args, **kwargs)), daemon=True).start()
        return future


def _run_future(future: "Future[T]", work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
        future.set_exception(error)


async def _run_and_clean_up(main: Coroutine[Any, Any, T]) -> T:
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
