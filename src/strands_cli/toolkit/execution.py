"""Running a body: in a worker thread, in a task or in a process of its own, against one deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.settings import DEFAULT_THREADS
from strands_cli.toolkit.cancellation import call_in_loop
from strands_cli.toolkit.context import ToolContext, abandon_body, call_context_of, call_time_limit, tool_of
from strands_cli.toolkit.values import Raised, await_body, run_body_inline, value_of_outcome

MAX_ABANDONED = 100

Settle = Callable[[Any], None]
"""Gives the call its outcome; only the first one counts."""
Leave = Callable[[], object]
"""Ends a body, or stops waiting for one that cannot be ended."""

_EXPIRED = object()
_CANCELLED = object()


async def run_body(arguments: dict[str, Any], context: ToolContext) -> Any:
    """The body's value; ToolFailed when it says no, crashes, is late or is cancelled.

    The answer comes at the deadline even if the body swallows its cancellation: it is left to itself then.
    """
    tool, cancel = tool_of(context), call_context_of(context).cancel
    seconds = call_time_limit(context)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(outcome: Any) -> None:
        if not answer.done():
            answer.set_result(outcome)

    start = _start_in_process if tool.isolate else _start_in_task if tool.is_async else _start_in_thread
    leave = start(arguments, context, settle)
    timer = loop.call_later(seconds, settle, _EXPIRED)
    try:
        with cancel.on_set_in_loop(settle, _CANCELLED) if cancel else nullcontext():
            outcome = await answer
    finally:
        timer.cancel()
        abandon_body(context)
        leave()
    if outcome is _EXPIRED:
        raise ToolFailed(
            f"{tool.id} did not answer within {seconds:g} s",
            code="timeout",
            hint="Ask for less at once, or give the tool a higher timeout.",
        )
    if outcome is _CANCELLED:
        raise ToolFailed(f"The call of {tool.id} was cancelled", code="cancelled")
    return value_of_outcome(outcome, tool)


def _start_in_task(arguments: dict[str, Any], context: ToolContext, settle: Settle) -> Leave:
    async def run() -> None:
        """Settles from inside the task: a callback on its end would cost a round of the loop more."""
        outcome = run_body_inline(tool_of(context), arguments, context)
        settle(outcome if isinstance(outcome, Raised) else await await_body(outcome))

    return asyncio.get_running_loop().create_task(run()).cancel


def _start_in_thread(arguments: dict[str, Any], context: ToolContext, settle: Settle) -> Leave:
    variables = copy_context()
    return _submit_call(
        context, lambda: variables.run(run_body_inline, tool_of(context), arguments, context), settle
    )


def _start_in_process(arguments: dict[str, Any], context: ToolContext, settle: Settle) -> Leave:
    """A worker thread waits for the child; once the child is killed, the thread is free again."""
    from strands_cli.toolkit.isolation import IsolatedBody

    body = IsolatedBody(arguments, context)
    leave_thread = _submit_call(context, body.outcome, settle)

    def leave() -> None:
        body.kill()
        leave_thread()

    return leave


def _submit_call(context: ToolContext, body: Callable[[], Any], settle: Settle) -> Leave:
    outer = call_context_of(context)
    threads = outer.settings.threads if outer.settings else DEFAULT_THREADS
    return submit_to_pool(body, settle, threads=threads, extra=outer.depth > 0)


def submit_to_pool(body: Callable[[], Any], settle: Settle, *, threads: int, extra: bool = False) -> Leave:
    """Runs `body` in one of so many daemon threads, and `settle` with its outcome in the running loop."""
    deliver = partial(call_in_loop, asyncio.get_running_loop(), settle)
    job, pool = Job(body, deliver, extra), daemon_pool(threads)
    pool.submit(job)
    return partial(pool.abandon, job)


async def call_in_pool(
    function: Callable[[], Any], *, threads: int = DEFAULT_THREADS, extra: bool = False
) -> Any:
    """What a function returns or raises, from a daemon thread: no deadline and no exit waits for it."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    variables = copy_context()

    def call() -> Any:
        try:
            return variables.run(function)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was waited for
            return Raised(error)

    def settle(outcome: Any) -> None:
        if not answer.done():
            answer.set_result(outcome)

    leave = submit_to_pool(call, settle, threads=threads, extra=extra)
    try:
        outcome = await answer
    finally:
        leave()
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome


def run_coroutine_in_thread(coroutine: Any) -> Any:
    """A coroutine's value, in a thread and a loop of its own, so that it works while a loop is running.

    A daemon thread: a program that ends does not wait for it.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was waited for
            outcome.set_exception(error)

    # In a copy of the context, so that a span of the caller is around those of the call.
    Thread(target=copy_context().run, args=(run,), name="strands-nested", daemon=True).start()
    return outcome.result()


# --- worker threads ---------------------------------------------------------------------------------------
#
# `asyncio.to_thread` will not do: its threads hold up the end of the process until the body returns. These
# are daemons; one whose call has timed out is abandoned, and another takes its place.


class Job(msgspec.Struct, eq=False):
    """A body on its way through the pool; `deliver` gets its outcome, from the worker's thread.

    An `extra` one, for a call inside a call, gets a thread beyond the pool's size. Otherwise bodies that wait
    for the tools they call could hold all the threads that those need.
    """

    body: Callable[[], Any]
    deliver: Callable[[Any], None]
    is_extra: bool = False
    state: str = "waiting"


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

    def submit(self, job: Job) -> None:
        with self._lock:
            if self._abandoned >= MAX_ABANDONED:
                raise ToolFailed(
                    f"{self._abandoned} earlier calls outlived their limits and still hold their threads",
                    code="overloaded",
                    hint="Repair the tools that hang (the log names them), or restart the program.",
                )
            self._count(job, 1)
            self._start_thread_if_short()
            if self._threads == 0:
                self._count(job, -1)
                raise ToolFailed("No thread can be started for the call", code="overloaded")
        self._queue.put(job)

    def abandon(self, job: Job) -> None:
        """Nothing waits for this job any longer: it never starts, or its thread no longer counts."""
        with self._lock:
            if job.state == "waiting":
                job.state = "dropped"
                self._count(job, -1)
            elif job.state == "running":
                job.state = "abandoned"
                self._abandoned += 1
                self._threads -= 1
                self._count(job, -1)
                self._start_thread_if_short()

    def _count(self, job: Job, number: int) -> None:
        self._under_way += number
        self._extra += number * job.is_extra

    def _start_thread_if_short(self) -> None:
        if self._threads >= min(self._under_way, self.size + self._extra):
            return
        try:
            Thread(target=self._work, name="strands-tool", daemon=True).start()
        except RuntimeError:
            return  # the machine has no more; those that run will serve what waits
        self._threads += 1

    def _work(self) -> None:
        is_abandoned = False
        while not is_abandoned:  # once it is, another thread has taken the place of this one
            job = self._queue.get()
            with self._lock:
                if job.state == "dropped":
                    continue
                job.state = "running"
            outcome = job.body()
            with self._lock:
                is_abandoned = job.state == "abandoned"
                if is_abandoned:
                    self._abandoned -= 1
                else:
                    job.state = "finished"
                    self._count(job, -1)
            job.deliver(outcome)


@cache
def daemon_pool(size: int) -> DaemonPool:
    """The pool that all calls with this setting share."""
    return DaemonPool(size)
