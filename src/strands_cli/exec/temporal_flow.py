"""The workflow of a run on Temporal, and its messages: one activity that runs our engine.

A question to a person ends the activity; a signal brings the answer, and the activity runs again. Everything
else is in the journal, so the messages stay small and the history of a run short.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

NAME = "strands-run"
"""Of the workflow and of its activity."""
CONTINUE = "continue"
"""The signal that brings answers, and continues a run that waits for them."""
_LONGEST = timedelta(days=7)
"""How long a run may work without a pause."""
_ATTEMPTS = 5
_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2, maximum_attempts=_ATTEMPTS
)
"""For lost workers. A run that kills them gets few; errors of the run itself are results, and not retried."""
_OUTAGES, _LONGEST_PAUSE = 60, 60
"""How often a run waits for its store, and how many seconds at most: an hour in all."""


@dataclass
class Submission:
    """A run that workers are to do."""

    run: str
    """Its id; empty if a schedule starts it, which gives each run a new one."""
    lost_after: float
    workspace_wait: float
    begin: dict[str, Any] | None = None
    """For a schedule: the workflow's file, variables and options."""
    answers: dict[str, str] = field(default_factory=dict)
    accept_changes: bool = False


@dataclass
class RunAttempt:
    """What the activity gets."""

    run: str
    answers: dict[str, str] = field(default_factory=dict)
    accept_changes: bool = False
    begin: dict[str, Any] | None = None
    give_up: str = ""
    """If it is set, the run is not continued: its status becomes this one, with `reason`."""
    reason: str = ""


@dataclass
class Outcome:
    """How the activity ended."""

    status: str
    """Of the run; or `drained` if the worker shuts down, `elsewhere` if it has another workspace, and
    `unreachable` if the store does not answer."""
    message: str = ""
    code: str = ""
    wait: float | None = None
    """The seconds after which an open question is answered with its default."""
    workspace: str = ""


def workspace_queue(queue: str, workspace: str) -> str:
    """The task queue of the workers that share a workspace."""
    return f"{queue}@{workspace}"


def workflow_id(queue: str, name: str) -> str:
    """The id of a workflow or a schedule on the engine, which may serve several queues."""
    return f"strands/{queue}/{name}"


def queue_and_run(workflow: str) -> tuple[str, str]:
    """The task queue and the id of a run, from the id of its workflow, to which a schedule adds a time."""
    _, queue, run = workflow.split("/")
    return queue, run.replace(":", "")


_GOES_ON = ("paused", "drained", "elsewhere", "unreachable")


def _ended(outcome: Outcome) -> str:
    """Ends the workflow as its run has ended."""
    if outcome.status == "interrupted":
        raise CancelledError("The run was cancelled.")
    if outcome.status != "done":
        raise ApplicationError(outcome.message, type=outcome.code or "failed", non_retryable=True)
    return outcome.status


@workflow.defn(name=NAME)
class RunFlow:
    """One run."""

    def __init__(self) -> None:
        self._answers: dict[str, str] = {}
        self._goes_on = False
        self._accepts_changes = False

    @workflow.signal(name=CONTINUE)
    def go_on(self, answers: dict[str, str], accept_changes: bool) -> None:
        self._answers |= answers
        self._accepts_changes |= accept_changes  # for good: steps that were repeated stay as they are
        self._goes_on = True

    @workflow.run
    async def run(self, work: Submission) -> str:
        info = workflow.info()
        work.run = work.run or queue_and_run(info.workflow_id)[1]
        self._answers = {**work.answers, **self._answers}
        self._accepts_changes |= work.accept_changes
        queue: str | None = None
        outages = 0
        while True:
            attempt = RunAttempt(work.run, self._answers, self._accepts_changes, work.begin)
            self._answers, self._goes_on = {}, False
            try:
                outcome = await self._attempt(work, attempt, queue)
            except ActivityError as error:
                await self._give_up(work.run, error, queue)
                raise
            if outcome.status in ("elsewhere", "unreachable"):  # it may not have stored them
                self._answers = {**attempt.answers, **self._answers}
            outages = outages + 1 if outcome.status == "unreachable" else 0
            if outcome.status not in _GOES_ON or outages > _OUTAGES:
                return _ended(outcome)
            if outcome.status == "elsewhere":
                queue = workspace_queue(info.task_queue, outcome.workspace)
            elif outages:
                await self._wait(work.run, min(2**outages, _LONGEST_PAUSE))
            elif outcome.status == "paused":
                await self._wait(work.run, outcome.wait)
                queue = None
            if info.is_continue_as_new_suggested():
                work.answers, work.accept_changes = self._answers, self._accepts_changes
                workflow.continue_as_new(work)

    async def _attempt(self, work: Submission, attempt: RunAttempt, queue: str | None) -> Outcome:
        waits = timedelta(seconds=work.workspace_wait)
        outcome: Outcome = await workflow.execute_activity(
            NAME,
            attempt,
            result_type=Outcome,
            task_queue=queue,
            schedule_to_start_timeout=waits if queue else None,
            start_to_close_timeout=_LONGEST,
            heartbeat_timeout=timedelta(seconds=work.lost_after),
            retry_policy=_RETRIES,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return outcome

    async def _wait(self, run: str, seconds: float | None) -> None:
        """Waits for answers, or until a question has waited long enough."""
        limit = None if seconds is None else timedelta(seconds=max(0.1, seconds))
        try:
            await workflow.wait_condition(lambda: self._goes_on, timeout=limit)
        except asyncio.TimeoutError:  # noqa: UP041 - the other one is what an activity ends with
            pass
        except asyncio.CancelledError:
            await self._record(run, "interrupted", "The run was cancelled.")
            raise

    async def _give_up(self, run: str, error: ActivityError, queue: str | None) -> None:
        """Records why no worker continues a run."""
        cause = error.cause
        if isinstance(cause, CancelledError):
            await self._record(run, "interrupted", "The run was cancelled.")
            return
        if isinstance(cause, TimeoutError) and cause.type == TimeoutType.SCHEDULE_TO_START:
            place = (queue or "").partition("@")[2]
            reason = f"No worker of the workspace {place!r}, which has the files of the run, has taken it."
        else:
            is_lost = isinstance(cause, TimeoutError) and cause.type == TimeoutType.HEARTBEAT
            last = "its worker died or froze" if is_lost else cause or error
            reason = f"No worker has finished the run in {_ATTEMPTS} attempts. In the last one: {last}."
        await self._record(run, "failed", reason[:1000])

    async def _record(self, run: str, status: str, reason: str) -> None:
        await workflow.execute_activity(
            NAME,
            RunAttempt(run, give_up=status, reason=reason),
            result_type=Outcome,
            start_to_close_timeout=timedelta(minutes=5),
            heartbeat_timeout=timedelta(seconds=60),
            retry_policy=_RETRIES,
        )
