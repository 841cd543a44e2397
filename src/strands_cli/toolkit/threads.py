"""Worker threads for blocking tool bodies.

`asyncio.to_thread` will not do: its threads hold up the end of the process until the body returns. These are
daemons; one whose call has timed out is abandoned, and another takes its place.
"""

from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from strands_cli.errors import ToolFailed

MOST_ABANDONED = 100


class Job:
    """A body on its way through the pool; `deliver` gets its outcome, from the worker's thread."""

    __slots__ = ("body", "deliver", "state")

    def __init__(self, body: Callable[[], Any], deliver: Callable[[Any], None]) -> None:
        self.body = body
        self.deliver = deliver
        self.state = "waiting"


class DaemonPool:
    """At most `size` bodies at once, not counting the abandoned ones.

    A thread is started when more jobs are under way than threads serve them; threads that serve none wait on
    the queue.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._lock = Lock()
        self._under_way = 0
        self._threads = 0
        self._abandoned = 0

    def submit(self, job: Job) -> None:
        with self._lock:
            if self._abandoned >= MOST_ABANDONED:
                raise ToolFailed(
                    f"{self._abandoned} earlier calls outlived their limits and still hold their threads",
                    code="overloaded",
                    hint="Mend the tools that hang (the log names them), or restart the program.",
                )
            self._under_way += 1
            self._start_thread_if_short()
        self._queue.put(job)

    def abandon(self, job: Job) -> None:
        """Nobody waits for this job any more: it never starts, or its thread no longer counts."""
        with self._lock:
            if job.state == "waiting":
                job.state = "dropped"
                self._under_way -= 1
            elif job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
                self._under_way -= 1
                self._threads -= 1
                self._start_thread_if_short()

    def _start_thread_if_short(self) -> None:
        if self._threads < min(self._under_way, self.size):
            self._threads += 1
            Thread(target=self._work, name="strands-tool", daemon=True).start()

    def _work(self) -> None:
        serving = True
        while serving:
            job = self._queue.get()
            if not self._begin(job):
                continue
            outcome = job.body()
            serving = self._end(job)
            job.deliver(outcome)

    def _begin(self, job: Job) -> bool:
        with self._lock:
            if job.state == "dropped":
                return False
            job.state = "running"
            return True

    def _end(self, job: Job) -> bool:
        """Whether this thread goes on serving: one whose job was abandoned has been replaced."""
        with self._lock:
            if job.state == "abandoned":
                self._abandoned -= 1
                return False
            job.state = "finished"
            self._under_way -= 1
            return True


@cache
def daemon_pool(size: int) -> DaemonPool:
    """The pool that all calls with this setting share."""
    return DaemonPool(size)
