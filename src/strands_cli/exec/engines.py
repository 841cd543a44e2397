"""Engines run workflows: `LocalEngine` in this process, `temporal_engine.TemporalEngine` on workers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from strands_cli.errors import SessionError, StrandsError
from strands_cli.exec.history import decode, list_runs
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.run import Prepared, prepare, run_prepared
from strands_cli.exec.run_records import (
    status_row,
    stored_failure,
    stored_options,
    stored_result,
    stored_spec,
)
from strands_cli.exec.step_rows import answer_rows
from strands_cli.exec.steps import DEFAULTS, RunOptions
from strands_cli.exec.stores import Store, new_run_id
from strands_cli.loader.spec import Spec
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult

UNFINISHED = ("queued", "running")
"""The statuses of runs that an engine is working on."""
OnRows = Callable[[Mapping[str, Any]], None]
"""Called with the new rows of a run that is watched."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_CHECK_SECONDS = 5.0


class Engine(Protocol):
    """Runs workflows whose journals are in a store."""

    async def submit(self, spec: Spec, options: RunOptions = DEFAULTS, *, run: str = "") -> str:
        """Starts a run, by default with a new id, and returns its id.

        The same workflow with the same inputs and id is started once. SessionError if the id belongs to
        another run.
        """
        ...

    async def result(self, run: str, on_rows: OnRows | None = None) -> RunResult:
        """Waits for the result. Raises the error that ended the run, or Paused if it waits for answers."""
        ...

    async def answer(self, run: str, answers: Mapping[str, str]) -> None:
        """Continues a run, with the answers to its questions, by their keys."""
        ...

    async def cancel(self, run: str) -> None:
        """Stops a run; it can be resumed. SessionError if it is not running."""
        ...

    async def list(self) -> list[str]:
        """The ids of the runs that this engine works on."""
        ...


class LocalEngine:
    """Runs workflows as tasks of this process."""

    def __init__(self, store: Store | None, options: RunOptions = DEFAULTS) -> None:
        """`options` are for the runs that `answer` continues."""
        self._store, self._options = store, options
        self._runs: dict[str, tuple[asyncio.Task[RunResult], Cancellation]] = {}

    async def submit(self, spec: Spec, options: RunOptions = DEFAULTS, *, run: str = "") -> str:
        run = run or new_run_id()
        if run in self._runs or (self._store is not None and self._store.load(run)):
            raise SessionError(f"Run {run} already exists.", hint=f"Look at it: strands runs show {run}")
        options = msgspec.structs.replace(options, store=self._store, new_id=run)
        return self.start(prepare(spec, options=options))

    def start(self, prepared: Prepared) -> str:
        """Starts a run that is prepared, and returns its id."""
        options = prepared.options
        run = options.resume or options.new_id or new_run_id()
        cancel = options.cancel or Cancellation()
        new_id = "" if options.resume else run
        options = msgspec.structs.replace(options, new_id=new_id, cancel=cancel)
        work = run_prepared(msgspec.structs.replace(prepared, options=options))
        self._runs[run] = asyncio.ensure_future(work), cancel
        return run

    async def result(self, run: str, on_rows: OnRows | None = None) -> RunResult:
        if run in self._runs:
            return await self._runs[run][0]
        return await watch_run(self._needed_store(), run, on_rows, partial(self._check, run))

    async def _check(self, run: str) -> None:
        """Raises an error if the process of an unfinished run is gone, or the run itself."""
        store = self._needed_store()
        [summary] = list_runs({run: (await asyncio.to_thread(store.runs, run)).get(run, {})})
        if not summary.created:
            raise SessionError(f"Run {run} was deleted.", hint="List your runs: strands runs list")
        if summary.status == "interrupted":
            raise stored_failure(run, await asyncio.to_thread(store.load, run))

    async def answer(self, run: str, answers: Mapping[str, str]) -> None:
        rows = {key: decode(row, key) for key, row in self._needed_store().load(run).items()}
        options = stored_options(
            rows["head"], store=self._store, resume=run, rows=answer_rows(answers, by="resume")
        )
        given = {
            name: getattr(self._options, name)
            for name in ("listeners", "ask_human", "ask_consent", "model", "on_row")
        }
        self.start(prepare(stored_spec(rows), options=msgspec.structs.replace(options, **given)))

    async def cancel(self, run: str) -> None:
        if run in self._runs and not self._runs[run][0].done():
            self._runs[run][1].set()
        else:
            cancel_elsewhere(self._needed_store(), run)

    async def list(self) -> list[str]:
        return [run for run, (task, _) in self._runs.items() if not task.done()]

    def _needed_store(self) -> Store:
        if self._store is None:
            raise SessionError("The runs of this engine are not saved.", hint="Give it a store.")
        return self._store


def cancel_elsewhere(store: Store, run: str) -> None:
    """Takes a run from the process that works on it, wherever that is: its next write ends it there."""
    summary = next((one for one in list_runs(store.runs(run)) if one.id == run), None)
    if summary is None or summary.status not in (*UNFINISHED, "paused"):
        status = f"is {summary.status}" if summary else "does not exist"
        raise SessionError(f"Run {run} {status}.", hint="List your runs: strands runs list")
    record_status(store, run, "interrupted")


def record_status(
    store: Store, run: str, status: str, error: StrandsError | None = None, *, fence: int = 0
) -> None:
    """Records what became of a run that has not ended. Takes it over first, unless its fence is given."""
    fence = fence or store.take(run, take_over=True)
    before = decode_row(store.load(run).get("status", b"{}"))
    if before.get("status") in (*UNFINISHED, "paused"):
        store.put(run, fence, {"status": encode_row({**before, **status_row(status, error)})})
    store.release(run, fence)


async def watch_run(
    store: Store,
    run: str,
    on_rows: OnRows | None = None,
    check: Callable[[], Awaitable[None]] | None = None,
) -> RunResult:
    """Reads the rows of a run that goes on elsewhere until it ends or pauses; then as `Engine.result`.

    `check` is called now and then while it goes on, to raise an error if nobody works on it any more.
    """
    after, pause, checked, status = -1, _FIRST_PAUSE, -_CHECK_SECONDS, "queued"
    while status in UNFINISHED:
        after, rows = await asyncio.to_thread(store.changed, run, after)
        if rows:
            pause = _FIRST_PAUSE
            decoded = {key: decode(row, key) for key, row in rows.items()}
            status = decoded.get("status", {}).get("status", status)
            if on_rows is not None:
                on_rows(decoded)
        elif check is not None and time.monotonic() - checked > _CHECK_SECONDS:
            await check()
            checked = time.monotonic()
        if status in UNFINISHED:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)
    found = await asyncio.to_thread(store.load, run)
    if status == "done":
        return stored_result(found)
    raise stored_failure(run, found)
