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

    __slots__ = ("body", "deliver", "is_extra", "state")

    def __init__(self, body: Callable[[], Any], deliver: Callable[[Any], None]) -> None:
        self.body = body
        self.deliver = deliver
        self.state = "waiting"
        self.is_extra = False


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
        self._extra = 0
        """How many calls inside calls are under way: so many threads more may serve."""

    def submit(self, job: Job, *, extra: bool = False) -> None:
        """Has a thread run the job; an `extra` one, for a call inside a call, gets a thread beyond the size.

        Otherwise bodies that wait for the tools they call could hold all the threads that those need.
        """
        with self._lock:
            if self._abandoned >= MOST_ABANDONED:
                raise ToolFailed(
                    f"{self._abandoned} earlier calls outlived their limits and still hold their threads",
                    code="overloaded",
                    hint="Mend the tools that hang (the log names them), or restart the program.",
                )
            self._extra += extra
            self._under_way += 1
            self._start_thread_if_short()
            if self._threads == 0:
                self._under_way -= 1
                raise ToolFailed("No thread can be started for the call", code="overloaded")
        job.is_extra = extra
        self._queue.put(job)

    def abandon(self, job: Job) -> None:
        """Nobody waits for this job any more: it never starts, or its thread no longer counts."""
        with self._lock:
            if job.state == "waiting":
                job.state = "dropped"
                self._under_way -= 1
                self._extra -= job.is_extra
            elif job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
                self._under_way -= 1
                self._extra -= job.is_extra
                self._threads -= 1
                self._start_thread_if_short()

    def _start_thread_if_short(self) -> None:
        if self._threads >= min(self._under_way, self.size + self._extra):
            return
        try:
            Thread(target=self._work, name="strands-tool", daemon=True).start()
        except RuntimeError:
            return  # the machine has no more; those that run will serve what waits
        self._threads += 1

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
            self._extra -= job.is_extra
            return True


@cache
def daemon_pool(size: int) -> DaemonPool:
    """The pool that all calls with this setting share."""
    return DaemonPool(size)
