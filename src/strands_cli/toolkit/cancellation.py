"""Cancellation: a request to stop that code can wait for, be called by, or look at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any


def call_in_loop(loop: Any, callback: Callable[..., object], *arguments: object) -> None:
    """Has an event loop call something, from any thread; one that has been closed meanwhile calls nothing."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        pass


class Cancellation:
    """Cancels calls and runs. Set it once, from any thread or signal handler.

    A body checks `is_set()`, a coroutine waits with `wait()`, and a block that must act when it is cancelled
    uses `on_set()` or `on_set_in_loop()`.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a signal's handler may set it while it is being set
        self._callbacks: list[Callable[[], object]] = []
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            if self._set:
                return
            self._set = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    async def wait(self, seconds: float | None = None) -> bool:
        """Returns True as soon as it is set, and False if it is not set within `seconds`.

        `await cancel.wait(delay)` is a sleep that ends early if it is cancelled. To race it against something
        else, use `asyncio.ensure_future(cancel.wait())`.
        """
        import asyncio  # here, so that a light command that only loads a tool does not load asyncio

        event = asyncio.Event()
        with self.on_set_in_loop(event.set):
            try:
                await asyncio.wait_for(event.wait(), seconds)
            except TimeoutError:
                pass
        return self._set

    @contextmanager
    def on_set(self, callback: Callable[[], object]) -> Iterator[None]:
        """Calls `callback()` if it is set while the block runs, or at once if it is already set.

        The callback runs in the thread that sets it. `with parent.on_set(child.set): ...` links two
        cancellations.
        """
        self.add_callback(callback)
        try:
            yield
        finally:
            self.remove_callback(callback)

    @contextmanager
    def on_set_in_loop(self, callback: Callable[..., object], *arguments: object) -> Iterator[None]:
        """Like `on_set`, for code in the running event loop: the loop calls `callback(*arguments)`.

        `with cancel.on_set_in_loop(queue.put_nowait, END): ...` is safe across threads. The callback may
        still be called shortly after the block has ended.
        """
        from asyncio import get_running_loop

        call = partial(call_in_loop, get_running_loop(), callback, *arguments)
        self.add_callback(call)  # rather than a second block: each call of a tool comes by here
        try:
            yield
        finally:
            self.remove_callback(call)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Like `on_set`, without a block: `callback` stays until it is called or removed."""
        with self._lock:
            if not self._set:
                self._callbacks.append(callback)
                return
        callback()

    def remove_callback(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
