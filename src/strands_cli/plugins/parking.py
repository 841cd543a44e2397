"""Processes that are started ahead and wait on their standard input for the next call.

One per tool and event loop, and only for tools that have been called. An unused one is ended, and never sees
the end of its input, which would be an empty call. Everything ends with the loop.
"""

import asyncio
import select
from weakref import WeakKeyDictionary

import msgspec

from strands_cli.errors import ToolError
from strands_cli.plugins.launching import Key, Launch
from strands_cli.sandbox.confined_executable import Confined
from strands_cli.sandbox.executables import start_confined
from strands_cli.sandbox.spawning import SpawnerLost

IDLE_SECONDS = 60.0
MOST_PARKED = 8
"""Of one loop; the one that has waited longest goes first."""
_END_SECONDS = 2.0
_DELAY_SECONDS = 0.002
"""Between an answer and the start of the next process: who makes one call and ends never starts it."""


class _Parked(msgspec.Struct):
    confined: Confined
    released: "asyncio.Future[None]"
    is_taken: bool = False

    def release(self, *, is_taken: bool) -> None:
        self.is_taken = is_taken
        if not self.released.done():
            self.released.set_result(None)


class Parking:
    """The waiting processes of one event loop."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._waiting: dict[Key, _Parked] = {}
        self._keepers: dict[Key, asyncio.Task[None]] = {}
        self._impatient: set[Key] = set()
        """What did not wait for its input is not started ahead again."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, launch: Launch) -> Confined | None:
        """The process that waits for this launch, if there is one and it still waits."""
        parked = self._waiting.pop(launch.key, None)
        if parked is None:
            return None
        is_waiting = _is_waiting(parked.confined)
        parked.release(is_taken=is_waiting)
        self._keepers.pop(launch.key, None)
        if not is_waiting:
            self._impatient.add(launch.key)
        return parked.confined if is_waiting else None

    def prepare(self, launch: Launch) -> None:
        """Has the next process started soon, unless one waits already."""
        key = launch.key
        if key not in self._impatient and key not in self._keepers:
            self._keepers[key] = asyncio.get_running_loop().create_task(self._keep(launch))

    async def _keep(self, launch: Launch) -> None:
        """Starts a process and holds it until it is taken or too old, or the loop ends."""
        key = launch.key
        await asyncio.sleep(_DELAY_SECONDS)
        try:
            confined = await start_confined(launch.argv, launch.profile, cwd=launch.cwd, accept=launch.accept)
        except (ToolError, SpawnerLost, OSError):
            self._keepers.pop(key, None)  # the next call starts its own, and says what is wrong
            return
        parked = _Parked(confined, asyncio.get_running_loop().create_future())
        self._waiting[key] = parked
        self._make_room()
        try:
            await asyncio.wait([parked.released], timeout=self._idle_seconds)
        finally:
            if self._waiting.get(key) is parked:
                del self._waiting[key]
                del self._keepers[key]
            if not parked.is_taken:
                await _end(confined)

    def _make_room(self) -> None:
        while len(self._waiting) > MOST_PARKED:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).release(is_taken=False)
            self._keepers.pop(oldest, None)


async def _end(confined: Confined) -> None:
    """Its input is closed only when nobody is left to see that."""
    confined.kill()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await confined.wait()
    except (TimeoutError, ToolError, SpawnerLost):
        pass  # it never began, or its keeper is stuck, which closing the socket ends
    finally:
        confined.close()


def _is_waiting(confined: Confined) -> bool:
    """Whether a process still reads its input and has said nothing: what it says now, no call asked for."""
    poll = select.poll()
    poll.register(confined.stdin, 0)  # an error is told without being asked for: nobody reads any more
    poll.register(confined.stdout, select.POLLIN)
    return not poll.poll(0)


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Parking]" = WeakKeyDictionary()


def parking() -> Parking:
    """The one of the running loop."""
    return _of_loops.setdefault(asyncio.get_running_loop(), Parking())
