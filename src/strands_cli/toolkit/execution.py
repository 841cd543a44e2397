"""Running a body: in a worker thread, in a task or in a process of its own, against one deadline."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from contextvars import copy_context
from functools import cache, partial
from math import inf
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.arguments import copied_json
from strands_cli.toolkit.cancellation import Cancellation, call_in_loop
from strands_cli.toolkit.context import (
    ToolContext,
    abandon_body,
    call_context_of,
    call_time_limit,
    keep_times,
    leave_loop,
    tool_of,
)
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.effects import note_left_body, resources_of
from strands_cli.toolkit.values import Raised, await_body, run_body_inline, value_of_outcome
from strands_cli.types.settings_file import DEFAULT_THREAD_WAIT, DEFAULT_THREADS

if TYPE_CHECKING:
    import logging

MAX_ABANDONED = 500
MAX_ABANDONED_OF_ONE = 120
"""How many of them one tool may have, so that a tool that hangs takes no threads from the others.

More than there are threads by default: whoever cancels all calls of a tool can go on calling it.
"""

_CLEAN_UP_SECONDS = 0.4
"""How long a loop that ends waits for cancelled bodies; `cli/event_loop` waits a little longer for all."""
_SHORTEST_LOOK_SECONDS = 0.05

Settle = Callable[[Any], None]
"""Gives the call its outcome; only the first one counts."""


class Left(NamedTuple):
    """What is known of a body that nothing waits for any longer, and that still runs."""

    ended: Cancellation
    is_running: Callable[[], bool]


Leave = Callable[[], Left | None]
"""Ends a body, or stops waiting for one that cannot be ended."""


class Times(msgspec.Struct, eq=False):
    """When a body was asked for, began and ended, by `monotonic`; 0 for what has not happened yet."""

    asked: float = 0.0
    begun: float = 0.0
    ended: float = 0.0
    timer: asyncio.TimerHandle | None = None


_EXPIRED = object()
_UNSERVED = object()
_CANCELLED = object()


async def run_body(arguments: dict[str, Any], context: ToolContext) -> Any:
    """The body's value; ToolFailed when it says no, crashes, is late or is cancelled.

    Its time counts from its start; how long it may wait for a thread is another limit. The answer comes at
    the deadline even if the body swallows its cancellation: it is left to itself then.
    """
    tool, outer = tool_of(context), call_context_of(context)
    seconds = call_time_limit(context)
    wait = outer.settings.thread_wait if outer.settings else DEFAULT_THREAD_WAIT
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(outcome: Any) -> None:
        if not answer.done():
            answer.set_result(outcome)

    kept = copied_json(arguments) if tool.effects else {}  # the body may change what it gets
    times = Times(monotonic())
    start = _start_in_process if tool.isolate else _start_in_task if tool.is_async else _start_in_thread
    leave = start(arguments, context, settle, times)
    times.timer = loop.call_later(min(seconds, wait), _look_at_clock, times, seconds, wait, settle)
    try:
        with outer.cancel.on_set_in_loop(settle, _CANCELLED) if outer.cancel else nullcontext():
            outcome = await answer
    finally:
        times.timer.cancel()
        abandon_body(context)
        left = leave()
        if left is not None:
            note_left_body(context, resources_of(tool.effects, kept, outer.workspace), *left)
    if outcome is _UNSERVED and times.begun:  # a thread took it at the last moment
        outcome = _EXPIRED
    if outcome is _CANCELLED:
        raise ToolFailed(f"The call to {tool.id} was cancelled", code="cancelled")
    if outcome is _UNSERVED:
        raise ToolFailed(
            f"{tool.id} did not run: no worker thread was free for {wait:g} s",
            code="overloaded",
            hint="Make fewer calls at once, or raise threads or thread_wait in the settings.",
        )
    if outcome is _EXPIRED or (times.begun and times.ended - times.begun > seconds):
        raise _late_answer(tool, times, seconds)
    return value_of_outcome(outcome, tool)


def _look_at_clock(times: Times, seconds: float, wait: float, settle: Settle) -> None:
    left = (times.begun + seconds if times.begun else times.asked + wait) - monotonic()
    if left <= 0:
        settle(_EXPIRED if times.begun else _UNSERVED)
        return
    # A body that has not begun may do so at any time: its deadline is then `seconds` away at least.
    again = left if times.begun else min(left, max(seconds, _SHORTEST_LOOK_SECONDS))
    loop = asyncio.get_running_loop()
    times.timer = loop.call_later(again, _look_at_clock, times, seconds, wait, settle)


def _late_answer(tool: Tool, times: Times, seconds: float) -> ToolFailed:
    late = times.ended - times.begun - seconds
    # It ended before the timer could look. A moment is chance, as a process that is ended at the same time.
    if tool.is_async and not tool.isolate and times.ended and late > _SHORTEST_LOOK_SECONDS:
        text = "%s answered after %.1f s, since a body blocked the event loop; isolate='process' is for such"
        _logger().warning(text, tool.id, times.ended - times.begun)
    return ToolFailed(
        f"{tool.id} did not answer within {seconds:g} s",
        code="timeout",
        hint="Ask for less at a time, or give the tool a higher timeout.",
    )


def _logger() -> "logging.Logger":
    import logging

    return logging.getLogger("strands_cli.tools")


def _start_in_task(arguments: dict[str, Any], context: ToolContext, settle: Settle, times: Times) -> Leave:
    async def run() -> None:
        """Settles from inside the task: a callback on its end would cost a round of the loop more."""
        outcome = run_body_inline(tool_of(context), arguments, context)
        if not isinstance(outcome, Raised):
            outcome = await await_body(outcome)
        times.ended = monotonic()
        settle(outcome)

    times.begun = times.asked
    keep_times(context, times)
    return partial(_leave_task, asyncio.get_running_loop().create_task(run()), tool_of(context).id)


def _leave_task(task: "asyncio.Task[None]", tool_id: str) -> Left | None:
    """Cancels a task. Should it swallow that, the loop can still end: it waits for another task instead."""
    if task.done():
        return None
    task.cancel()
    # `asyncio.run` cancels all tasks that asyncio knows, and waits for their end, however long that takes.
    asyncio._unregister_task(task)
    ended = Cancellation()
    loop = task.get_loop()
    guard = loop.create_task(_see_task_off(task, tool_id, ended))
    return Left(ended, lambda: not guard.done() and not loop.is_closed())


async def _see_task_off(task: "asyncio.Task[None]", tool_id: str, ended: Cancellation) -> None:
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:  # the loop is about to end
        task.cancel()
        await asyncio.wait({task}, timeout=_CLEAN_UP_SECONDS)
        if not task.done():
            # Who swallows everything may do so when it is destroyed, and for ever: a thread that ends with
            # the process holds it, so that it never is.
            Thread(target=lambda _: Event().wait(), args=(task,), name="strands-left", daemon=True).start()
            _logger().warning("%s ignores that it is cancelled, and was left behind", tool_id)
    finally:
        ended.set()


def _start_in_thread(arguments: dict[str, Any], context: ToolContext, settle: Settle, times: Times) -> Leave:
    run = partial(copy_context().run, run_body_inline, tool_of(context), arguments, context)
    return _submit_call(context, run, settle, times)


def _start_in_process(arguments: dict[str, Any], context: ToolContext, settle: Settle, times: Times) -> Leave:
    """A worker thread waits for the child; once the child is killed, the thread is free again."""
    from strands_cli.toolkit.isolation import IsolatedBody

    body = IsolatedBody(arguments, context)
    leave_thread = _submit_call(context, body.outcome, settle, times)

    def leave() -> Left | None:
        body.kill()
        return leave_thread()

    return leave


def _submit_call(context: ToolContext, body: Callable[[], Any], settle: Settle, times: Times) -> Leave:
    leave_loop(context, asyncio.get_running_loop())
    cancel = call_context_of(context).cancel
    return submit_to_pool(Job(body, settle, tool_of(context).id, times, cancel), threads_for(context))


def threads_for(context: ToolContext) -> float:
    """How many threads bodies share. A call inside a call never waits for one.

    Otherwise the bodies that wait for it, directly or not, could hold all the threads there are.
    """
    outer = call_context_of(context)
    if outer.depth:
        return inf
    return outer.settings.threads if outer.settings else DEFAULT_THREADS


def submit_to_pool(job: "Job", threads: float) -> Leave:
    """Has a job run in one of so many daemon threads, and its outcome delivered in the running loop."""
    job.deliver = partial(call_in_loop, asyncio.get_running_loop(), job.deliver)
    pool = daemon_pool(threads)
    pool.submit(job)
    return partial(pool.abandon, job)


async def call_in_pool(
    function: Callable[[], Any],
    *,
    owner: str,
    threads: float,
    times: Times | None = None,
    cancel: Cancellation | None = None,
) -> Any:
    """What a function returns or raises, from a daemon thread: no deadline and no exit waits for it.

    A task that runs the body of a tool in it gives the times of that call. They begin with the thread; and if
    the task is cancelled it ends with the thread, so that what is known of it is true of the whole body. Once
    `cancel` is set, the function does not begin, and nothing is returned: whoever sets it cancels the task.
    """
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    variables = copy_context()
    if times is not None:
        times.begun = 0.0

    def call() -> Any:
        if times is not None:
            times.begun = monotonic()
        try:
            return variables.run(function)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was waited for
            return Raised(error)

    def settle(outcome: Any) -> None:
        if not answer.done():
            answer.set_result(outcome)
        elif asyncio.iscoroutine(outcome):
            outcome.close()  # nobody waits for it

    leave = submit_to_pool(Job(call, settle, owner, cancel=cancel), threads)
    try:
        outcome = await answer
    finally:
        left = leave()
        if left is not None and times is not None:
            await left.ended.wait()
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome


def run_coroutine_in_loop(
    function: Callable[[], Coroutine[Any, Any, Any]], loop: asyncio.AbstractEventLoop, cancel: Cancellation
) -> Any:
    """The value of an async function, from a thread that may wait for a loop in another thread.

    ToolFailed (`cancelled`) if nobody waits for the thread any longer, or the loop has ended.
    """
    if not cancel.is_set():  # else the loop may end at any time, and would never get to it
        coroutine = function()
        try:
            outcome = asyncio.run_coroutine_threadsafe(coroutine, loop)
            with cancel.on_set(outcome.cancel):
                return outcome.result()
        except CancelledError:
            pass
        except RuntimeError:
            if not loop.is_closed():
                raise
            coroutine.close()
    raise ToolFailed("The call was cancelled: nobody waits for its answer", code="cancelled")


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
    """A body on its way through the pool; `deliver` gets its outcome, from the worker's thread."""

    run: Callable[[], Any]
    deliver: Callable[[Any], None]
    owner: str
    """Whose body it is: the id of a tool."""
    times: Times = msgspec.field(default_factory=Times)
    cancel: Cancellation | None = None
    """Once it is set, the body does not begin; those who wait for it hear of that from it, not from here."""
    state: str = "waiting"
    left: Cancellation | None = None
    """Set when the body ends that was abandoned."""


class DaemonPool:
    """At most `size` bodies at once, not counting the abandoned ones.

    A thread is started when more jobs are under way than threads serve them; threads that serve none wait on
    the queue.
    """

    def __init__(self, size: float) -> None:
        self.size = size
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._lock = Lock()
        self._under_way = 0
        self._threads = 0
        self._abandoned: Counter[str] = Counter()
        """How many abandoned bodies still run, by their owners."""

    def submit(self, job: Job) -> None:
        with self._lock:
            overload = self._overload(job.owner)
            if overload is None:
                self._under_way += 1
                self._start_thread_if_short()
                if self._threads == 0:
                    self._under_way -= 1
                    overload = ToolFailed("Cannot start a thread for the call", code="overloaded")
        if overload is not None:
            raise overload
        self._queue.put(job)

    def abandon(self, job: Job) -> Left | None:
        """Nothing waits for this job any longer: it never starts, or its thread no longer counts."""
        if job.state == "finished":  # as nearly always
            return None
        with self._lock:
            if job.state == "waiting":
                job.state = "dropped"
                self._under_way -= 1
            if job.state != "running":
                return None
            job.state = "abandoned"
            job.left = Cancellation()
            self._abandoned[job.owner] += 1
            self._threads -= 1
            self._under_way -= 1
            self._start_thread_if_short()
            held = self._abandoned.most_common() if self._overload(job.owner) else []
        if held:
            names = ", ".join(f"{name} ({number})" for name, number in held)
            _logger().warning("calls are refused while abandoned bodies hold their threads: %s", names)
        return Left(job.left, lambda: job.state == "abandoned")

    def _overload(self, owner: str) -> ToolFailed | None:
        """Why no body of this owner may start, if so. A tool that hangs counts up to its own bound only."""
        if not self._abandoned:  # as nearly always
            return None
        own = self._abandoned[owner]
        total = sum(min(number, MAX_ABANDONED_OF_ONE) for number in self._abandoned.values())
        if own < MAX_ABANDONED_OF_ONE and total < MAX_ABANDONED:
            return None
        whose = f"{own} earlier calls of {owner}" if own >= MAX_ABANDONED_OF_ONE else f"{total} earlier calls"
        return ToolFailed(
            f"{whose} were given up and still hold their threads",
            code="overloaded",
            hint="Fix the tools that hang (the log names them), or restart the program.",
        )

    def _start_thread_if_short(self) -> None:
        if self._threads >= min(self._under_way, self.size):
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
                if job.state == "waiting" and job.cancel is not None and job.cancel.is_set():
                    # A stop frees the threads of all calls under way: they are not for those that waited.
                    job.state = "dropped"
                    self._under_way -= 1
                if job.state == "dropped":
                    continue
                job.state = "running"
                job.times.begun = monotonic()
                overload = self._overload(job.owner)  # it may have come while the job waited
            outcome = job.run() if overload is None else Raised(overload)
            with self._lock:
                job.times.ended = monotonic()
                is_abandoned = job.state == "abandoned"
                job.state = "finished"
                if is_abandoned:
                    self._abandoned[job.owner] -= 1
                    self._abandoned += Counter()  # without those that have none left
                else:
                    self._under_way -= 1
            if job.left is not None:
                job.left.set()
            job.deliver(outcome)


@cache
def daemon_pool(size: float) -> DaemonPool:
    """The pool that all calls with this setting share."""
    return DaemonPool(size)
