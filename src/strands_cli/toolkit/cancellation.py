"""A wish to stop that calls can wait for and bodies can look at."""

from collections.abc import Callable
from threading import RLock


class Cancellation:
    """Set once, from any thread; whoever added a callback hears of it at once."""

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

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Called when the wish is made, or now if it has been made already."""
        with self._lock:
            if not self._set:
                self._callbacks.append(callback)
                return
        callback()

    def remove_callback(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
