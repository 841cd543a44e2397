"""What `strands worker` does: takes runs from a task queue, and runs each in a thread with a loop of its own.

Another thread of each run sends its heartbeats, so a busy loop does not lose the run to another worker.
"""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from strands_cli.errors import Paused, RunError, SessionError, StrandsError
from strands_cli.exec.engines import record_status
from strands_cli.exec.history import decode, read_run
from strands_cli.exec.journal import decode_row
from strands_cli.exec.ownership import Lost, TakenRun, Unreachable, this_process
from strands_cli.exec.run import OUTCOMES, Prepared, prepare, run_prepared
from strands_cli.exec.run_archive import MovedPaths
from strands_cli.exec.run_records import failed_rows, stored_options, stored_spec, submitted_rows
from strands_cli.exec.step_rows import answer_rows
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import Store
from strands_cli.exec.temporal_flow import NAME, Outcome, RunAttempt, RunFlow, workspace_queue
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import require_models, with_model_options
from strands_cli.runtime.agent_hooks import AskConsent
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.tools.toolset import ToolSet

Report = Callable[[str], None]
_BEAT_SECONDS = 1.0
_LONGEST_MESSAGE = 1000
_ENDED = {
    "done": "done",
    "paused": "waits for an answer",
    "interrupted": "cancelled",
    "drained": "handed over: this worker shuts down",
    "failed": "given up",
}


def default_workspace(settings: Settings) -> str:
    """The name of this machine's copy of the project."""
    place = f"{this_process().host}:{settings.project}"
    return f"{this_process().host}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


async def work(
    client: Client,
    settings: Settings,
    store: Store,
    *,
    workspace: str,
    concurrency: int,
    drain: float,
    stop: asyncio.Event,
    consent: AskConsent,
    report: Report,
) -> None:
    """Works until `stop` is set; then takes no more runs, and hands over those that last longer than `drain`.

    `consent` is for runs that were submitted with --yes.
    """
    runs = _Runs(
        settings, store, workspace=workspace, concurrency=concurrency, consent=consent, report=report
    )
    queue, between_beats = settings.engine.queue, max(1.5 * _BEAT_SECONDS, settings.engine.lost_after / 4)
    with ThreadPoolExecutor(2 * concurrency, thread_name_prefix="run") as threads:
        worker = partial(
            Worker,
            client,
            activities=[runs.attempt],
            activity_executor=threads,
            max_concurrent_activities=concurrency,
            max_heartbeat_throttle_interval=timedelta(seconds=between_beats),
            graceful_shutdown_timeout=timedelta(seconds=drain),
        )
        workers = [
            worker(
                task_queue=queue,
                workflows=[RunFlow],
                workflow_runner=UnsandboxedWorkflowRunner(),  # it is ours, and has nothing to hide
                # After the death of a worker, its cached workflows go to others this soon.
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            ),
            worker(task_queue=workspace_queue(queue, workspace)),
        ]
        working = [asyncio.ensure_future(one.run()) for one in workers]
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({*working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await asyncio.gather(*(one.shutdown() for one in workers), return_exceptions=True)
        try:
            await asyncio.gather(*working)
        except RuntimeError as error:  # such as a namespace that does not exist
            hint = "Check the address and the namespace: strands doctor"
            raise SessionError(f"Temporal has refused the worker: {str(error)[:300]}", hint=hint) from None


class _Runs:
    """The activity, and what all runs of a worker share."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        workspace: str,
        concurrency: int,
        consent: AskConsent,
        report: Report,
    ) -> None:
        self._project, self._store, self._workspace = settings.project, store, workspace
        self._consent, self._report = consent, report
        self._places = threading.Semaphore(concurrency)
        """Each of the two queues may bring as many runs."""

    @activity.defn(name=NAME, no_thread_cancel_exception=True)  # `Cancellation` stops a run cleanly
    def attempt(self, attempt: RunAttempt) -> Outcome:
        """Runs a workflow to its end, its next question, or the shutdown of this worker."""
        try:
            if attempt.give_up:
                error = RunError(attempt.reason) if attempt.give_up == "failed" else None
                record_status(self._store, attempt.run, attempt.give_up, error)
                outcome = Outcome(attempt.give_up)
            else:
                outcome = self._run(attempt)
        except Unreachable as error:
            outcome = Outcome("unreachable", error.message[:_LONGEST_MESSAGE])
        except Lost as error:  # another attempt has the run, and this one's answer does not count
            self._report(f"{attempt.run}: {error.message}")
            benign = ApplicationErrorCategory.BENIGN
            raise ApplicationError(error.message, type=error.code, category=benign) from None
        self._report(f"{attempt.run}: {outcome.message or _ENDED[outcome.status]}")
        return outcome

    def _run(self, attempt: RunAttempt) -> Outcome:
        fence = 0
        with self._working(attempt.run) as beating:
            try:
                self._require(attempt)
                self._refuse_older(attempt.run)
                # From here on: if another worker has begun meanwhile, this one can write nothing more.
                fence = self._store.take(attempt.run, take_over=True)
                rows = {key: decode(row, key) for key, row in self._store.load(attempt.run).items()}
                if rows["status"]["status"] == "done":  # by an attempt that could not report it
                    self._store.release(attempt.run, fence)
                    return Outcome("done")
                prepared = self._prepared(attempt, rows, fence, beating)
                name = rows.get("workspace", {}).get("name", self._workspace)
                if name != self._workspace and leaves_files(rows, prepared.resources.tools):
                    return Outcome("elsewhere", f"belongs to the workspace {name}", workspace=name)
                number = activity.info().attempt
                self._report(
                    f"{attempt.run}: {prepared.spec.name}{f', attempt {number}' if number > 1 else ''}"
                )
                asyncio.run(run_prepared(prepared))
                return Outcome("done")
            except (Lost, Unreachable):
                raise
            except Paused:
                return Outcome("paused", wait=self._next_default(attempt.run))
            except StrandsError as error:
                if error.code == "interrupted":
                    return beating.stopped(attempt.run)
                if fence and not error.run_id:  # it did not begin, so its journal does not know
                    record_status(self._store, attempt.run, "failed", error, fence=fence)
                status = OUTCOMES.get(error.code, "failed")
                return Outcome(status, error.message[:_LONGEST_MESSAGE], error.code)

    @contextmanager
    def _working(self, run: str) -> Iterator["_Heartbeats"]:
        """Sends heartbeats, and waits for a place among the runs of this worker."""
        beating, has_place = _Heartbeats(lambda text: self._report(f"{run}: {text}")), False
        try:
            while not (has_place or beating.cancel.is_set()):
                has_place = self._places.acquire(timeout=_BEAT_SECONDS)
            yield beating
        finally:
            beating.stop()
            if has_place:
                self._places.release()

    def _refuse_older(self, run: str) -> None:
        """Raises Lost if a later attempt has begun: a worker that was frozen may get this one too late."""
        row = decode_row(self._store.load(run).get("workspace", b"{}"))
        if row.get("scheduled", 0.0) > _scheduled():
            raise Lost(f"Run {run} was given to another worker.")

    def _require(self, attempt: RunAttempt) -> None:
        """Checks that the run is in the store; the first attempt of a scheduled run creates it."""
        if self._store.runs(attempt.run).get(attempt.run):
            return
        if attempt.begin is None:
            reason = f"Run {attempt.run} is not in the store of this worker."
            raise SessionError(reason, hint="Give workers and whoever submits runs the same store.")
        workflow = activity.info().workflow_id or ""
        try:
            rows = self._scheduled_rows(attempt.run, workflow, attempt.begin)
        except StrandsError as error:
            file = self._project / attempt.begin["file"]
            rows = failed_rows(error, file, self._project, run=attempt.run, workflow=workflow)
            self._store.create(attempt.run, rows)
            raise
        self._store.create(attempt.run, rows)

    def _scheduled_rows(self, run: str, workflow: str, begin: Mapping[str, Any]) -> dict[str, bytes]:
        """The rows of a run that a schedule starts, with the workflow's file as this project has it."""
        options = RunOptions(directory=Path(begin["out"]), force=begin["force"], new_id=run)
        spec = load_spec(self._project / begin["file"], begin["variables"])
        spec = with_model_options(
            spec,
            provider=begin["provider"] or None,
            model=begin["model"] or None,
            host=begin["host"] or None,
        )
        return submitted_rows(spec, options, run=run, workflow=workflow, yes=begin["yes"])

    def _prepared(
        self, attempt: RunAttempt, rows: Mapping[str, Any], fence: int, beating: "_Heartbeats"
    ) -> Prepared:
        head, workspace = self._head_here(rows["head"]), {"name": self._workspace, "scheduled": _scheduled()}
        answers = {key: text for key, text in attempt.answers.items() if f"{key}/answer" not in rows}
        options = stored_options(
            head,
            store=self._store,
            resume=attempt.run,
            taken=TakenRun(fence, lambda: not beating.is_cancelled_by_user()),
            accept_changes=attempt.accept_changes,
            cancel=beating.cancel,
            ask_consent=self._consent if head["options"].get("yes") else None,
            rows={**answer_rows(answers, by="resume"), "workspace": workspace},
        )
        spec = stored_spec({**rows, "head": head})
        prepared = prepare(spec, options=options)
        require_models(spec, spec.agents)
        return prepared

    def _head_here(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """The head of the run with the paths of this worker's project."""
        moved, project = MovedPaths(head["project"], self._project), str(self._project)
        file = moved.place(head["file"])
        if file is None:
            raise SessionError(f"Run {head['id']} has its workflow outside its project: {head['file']}.")
        allowed = [str(path) for one in head["options"]["allow_write"] if (path := moved.place(one))]
        options = {**head["options"], "allow_write": allowed}
        return {**head, "file": str(file), "project": project, "directory": project, "options": options}

    def _next_default(self, run: str) -> float | None:
        """The seconds until the first open question is answered with its default."""
        waiting = read_run(run, self._store.load(run), time.time()).waiting
        ends = [asked.at + asked.timeout_s for asked in waiting if asked.timeout_s]
        return max(0.0, min(ends) - time.time()) if ends else None


def _scheduled() -> float:
    """When the engine has scheduled this attempt, in unix seconds of its clock."""
    return activity.info().current_attempt_scheduled_time.timestamp()


def leaves_files(rows: Mapping[str, Any], tools: ToolSet) -> bool:
    """Whether a step has begun whose tools may have left files in the workspace."""
    if any(isinstance(one.spec, Spec) and one.spec.context_policy.notes for one in tools.family):
        return True
    begun = [row for key, row in rows.items() if key.endswith("/begun") and row]
    used = {id for row in begun for id in row.get("tools", ())}
    used |= {row["agent"] for row in begun if row["kind"] == "tool"}

    def only_reads(id: str) -> bool:
        found = (one.resolve(id) for one in tools.family)
        return any(info is not None and info.annotations.get("readOnlyHint") for info in found)

    return not all(map(only_reads, used))


class _Heartbeats:
    """Tells the engine every second that a run goes on, and hears from it whether to stop."""

    def __init__(self, report: Report) -> None:
        self.cancel = Cancellation()
        self._report = report
        self._ended = threading.Event()
        self._context = copy_context()
        self._thread = threading.Thread(target=self._context.run, args=(self._beat,), daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not (self._ended.is_set() or activity.is_cancelled()):
            activity.heartbeat()
            activity.wait_for_cancelled_sync(_BEAT_SECONDS)
        if self._is("timed_out"):
            # The engine may be down, so nobody else has the run. If another worker has it, or will have it
            # when the engine is back, the next write of this one is refused, which ends it.
            self._report("Temporal does not answer. The run goes on.")
            while not (self._ended.is_set() or activity.is_worker_shutdown()):
                self._ended.wait(_BEAT_SECONDS)
        if not self._ended.is_set():
            self.cancel.set()

    def _is(self, cause: str) -> bool:
        """Whether the engine stops the run for this reason, one of `ActivityCancellationDetails`."""
        return bool(getattr(activity.cancellation_details(), cause, False))

    def is_cancelled_by_user(self) -> bool:
        return self._is("cancel_requested")

    def stopped(self, run: str) -> Outcome:
        """What has stopped the run. Lost if the engine has given it to another worker."""
        if self.is_cancelled_by_user():
            return Outcome("interrupted")
        if self._is("worker_shutdown") or activity.is_worker_shutdown():
            return Outcome("drained")
        raise Lost(f"Run {run} was given to another worker.")

    def stop(self) -> None:
        self._ended.set()
