"""An event loop without descriptors, so that confined code can use asyncio.

Imported in the confined process when the code imports asyncio; it imports nothing of ours. The ordinary loop
waits on sockets, which do not exist there: this one waits on a lock until a timer is due or a thread has
something to say.
"""

import asyncio
import threading
from typing import Any


class _WakeableSelector(threading.Event):
    """The selector of a loop without sockets: no event ever comes, but the loop can be woken."""

    def select(self, timeout: float | None = None) -> list[Any]:
        self.wait(timeout)
        self.clear()
        return []


class SocketlessLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._selector = _WakeableSelector()

    def _process_events(self, event_list: list[Any]) -> None:
        return None

    def _write_to_self(self) -> None:
        self._selector.set()


class SocketlessLoopPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return SocketlessLoop()


def install_socketless_loop() -> None:
    asyncio.set_event_loop_policy(SocketlessLoopPolicy())
