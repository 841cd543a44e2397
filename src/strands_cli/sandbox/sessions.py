"""Sessions: confined processes that keep their state from one call to the next."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from strands_cli.sandbox.launcher import Child

MOST_SESSIONS = 16
IDLE_SECONDS = 600.0
_LOOK_SECONDS = 0.005


class Session:
    def __init__(self, child: Child) -> None:
        self.child = child
        self.is_new = True
        self.is_busy = True
        self.used = time.monotonic()


class Sessions:
    """By name. At most so many live; the one that has rested longest makes room, and a long rest ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, Session] = {}

    async def take(self, name: str, start: Callable[[], Awaitable[Child]]) -> Session:
        """The session of that name, for one call alone; whoever comes meanwhile waits."""
        while (session := self._lookup(name)) is None or session.is_busy:
            if session is None:
                made = Session(await start())
                if self._enter(name, made):
                    return made
                made.child.end()  # another call was faster
            # A lock of an event loop would tie the session to that loop; calls come from many.
            await asyncio.sleep(_LOOK_SECONDS)
        session.is_new = False
        session.is_busy = True
        return session

    def _lookup(self, name: str) -> Session | None:
        """The live session of that name, if there is one."""
        with self._lock:
            session = self._live.get(name)
        if session is None or session.is_busy or session.child.is_alive():
            return session
        self.end(session)  # it had rested too long, or the zygote is gone
        return None

    def _enter(self, name: str, made: Session) -> bool:
        with self._lock:
            if name in self._live:
                return False
            self._live[name] = made
            resting = sorted((live.used, name) for name, live in self._live.items() if not live.is_busy)
            surplus = max(0, len(self._live) - MOST_SESSIONS)
            gone = [self._live.pop(name) for _, name in resting[:surplus]]
        for session in gone:
            session.child.end()
        return True

    def give_back(self, session: Session) -> None:
        """Its process rests until the next call, or until it has rested too long."""
        session.child.arm(IDLE_SECONDS)
        session.used = time.monotonic()
        session.is_busy = False

    def end(self, session: Session) -> None:
        with self._lock:
            for name in [name for name, live in self._live.items() if live is session]:
                del self._live[name]
        session.child.end()

    def forget(self) -> None:
        """Lets go of all without ending any: for a forked copy of the host, whose they are not."""
        self._lock = threading.Lock()
        self._live = {}

    def close(self) -> None:
        for session in list(self._live.values()):
            self.end(session)
