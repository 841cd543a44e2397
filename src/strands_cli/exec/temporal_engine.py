"""`TemporalEngine`: hands runs to Temporal, whose workers run them."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import SessionError, StrandsError, UnsupportedError, UsageError, install_hint
from strands_cli.exec.engines import UNFINISHED, OnRows, cancel_elsewhere, watch_run
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.ownership import Unreachable
from strands_cli.exec.run_records import path_in_project, status_row, submitted_rows
from strands_cli.exec.steps import DEFAULTS, RunOptions
from strands_cli.exec.stores import RUN_ID, Store, new_run_id
from strands_cli.loader.run_values import resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.settings import Settings
from strands_cli.types import RunResult
from strands_cli.types.settings_file import EngineSettings

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowHandle
    from temporalio.runtime import Runtime

MAX_MESSAGE = 200_000
"""The characters of all answers in one signal: the engine's messages have a limit."""
_END_TRIES, _END_PAUSE = 100, 0.1
_SHOWN = 60


class Schedule(msgspec.Struct, frozen=True):
    """A workflow that is started again and again."""

    name: str
    file: str
    when: str
    next: float | None
    """The time of the next run, in unix seconds."""
    variables: dict[str, Any] = {}


async def connect(engine: EngineSettings) -> "Client":
    """Connects to Temporal as the settings, the environment and Temporal's configuration file say."""
    try:
        from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
        from temporalio.client import Client
    except ImportError:
        hint = install_hint("cluster")
        raise UnsupportedError("Temporal needs the package temporalio.", hint=hint) from None
    config = _connection(engine)
    host = config["target_host"]
    try:
        client = await Client.connect(runtime=_quiet_runtime(), **config)
    except (RuntimeError, ValueError) as error:
        reason, hint = _readable(str(error))
        raise Unreachable(f"Temporal at {host} cannot be reached: {reason}", hint=hint) from None
    async with translated(
        f"Temporal at {host} has no namespace {client.namespace!r}.",
        "Create it, or set [engine] namespace in your settings, or TEMPORAL_NAMESPACE.",
    ):
        request = DescribeNamespaceRequest(namespace=client.namespace)
        await client.workflow_service.describe_namespace(request)
    return client


def _readable(error: str) -> tuple[str, str]:
    """The reason in an error of Temporal's client, which shows the structs of Rust, and what to do."""
    if refused := re.search(r"InvalidCertificate\((\w+)", error):
        hint = "Set [engine] ca in your settings to the file with the certificate of its authority."
        return f"its certificate is refused, {refused[1]}.", hint
    if "InvalidContentType" in error:
        return "it does not use TLS.", "Set [engine] tls = false in your settings, or correct the address."
    quoted = re.findall(r'"([^"]+)"', error)
    hint = "Start it, or set [engine] address in your settings, or TEMPORAL_ADDRESS. Does it need TLS?"
    return (quoted[-1] if quoted else error)[:500], hint


@cache
def _quiet_runtime() -> "Runtime":
    """Without it, Temporal's client prints its warnings to standard output."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

    forwarding = LogForwardingConfig(logging.getLogger("temporalio"))
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig("ERROR", forwarding)))


def _connection(engine: EngineSettings) -> dict[str, Any]:
    from temporalio.envconfig import ClientConfig
    from temporalio.service import TLSConfig

    try:
        config: dict[str, Any] = {"target_host": "localhost:7233"}
        config |= ClientConfig.load_client_connect_config(profile=engine.profile or None)
        given = {"target_host": engine.address, "namespace": engine.namespace}
        config |= {name: value for name, value in given.items() if value}
        if key := os.environ.get(engine.api_key_env, ""):
            config |= {"api_key": key, "tls": config.get("tls") or True}
        if engine.ca or engine.cert:
            files = (engine.ca, engine.cert, engine.key)
            ca, cert, own_key = (Path(one).expanduser().read_bytes() if one else None for one in files)
            config["tls"] = TLSConfig(server_root_ca_cert=ca, client_cert=cert, client_private_key=own_key)
        if engine.tls is not None:
            config["tls"] = engine.tls and (config.get("tls") or True)
    except (OSError, RuntimeError, ValueError) as error:
        hint = "Correct [engine] in your settings, or the variables TEMPORAL_…"
        raise UsageError(f"The settings of Temporal cannot be used: {error}", hint=hint) from None
    return config


class _Gone(SessionError):
    """Temporal has no such workflow or schedule, or it has ended."""


class TemporalEngine:
    """Runs on workers. It connects on first use, for the event loop that uses it."""

    def __init__(self, settings: Settings, store: Store) -> None:
        if not settings.runs.store:
            raise UsageError(
                "Workers need a store that all of them reach, and none is set.",
                hint="Set STRANDS_STORE, or [runs] store in your settings, to postgresql://USER@HOST:PORT/DATABASE.",
            )
        self._settings, self._engine, self._store = settings, settings.engine, store
        self._connected: Client | None = None

    # --- runs -------------------------------------------------------------------------------------------

    async def submit(
        self, spec: Spec, options: RunOptions = DEFAULTS, *, run: str = "", yes: bool = False
    ) -> str:
        from strands_cli.exec.temporal_flow import workflow_id

        run = run or new_run_id()
        if not RUN_ID.fullmatch(run):
            hint = "Use letters, digits, dots, dashes and underscores, at most 100."
            raise UsageError(f"{run!r} cannot be the id of a run.", hint=hint)
        options = self._portable(spec, options)
        resolve_inputs(spec)
        await self._client()  # before anything is stored that nobody would run
        workflow = workflow_id(self._engine.queue, run)
        rows = submitted_rows(spec, options, run=run, workflow=workflow, yes=yes)
        is_new = await asyncio.to_thread(self._store.create, run, rows)
        if not is_new:
            before = await asyncio.to_thread(self._store.load, run)
            if _identity(before) != _identity(rows):
                hint = "Use another id. A run is started once for each id, with the same file and inputs."
                raise SessionError(f"Run {run} exists, with another workflow or other inputs.", hint=hint)
            if decode_row(before["status"])["status"] != "queued":
                return run
            workflow = decode_row(before["head"])["workflow"]
        await self._start(run, workflow, None)
        return run

    def _portable(self, spec: Spec, options: RunOptions) -> RunOptions:
        """Checks that workers have the files too; a directory in the project becomes relative to it."""
        project = self._settings.project
        for path in (spec.file, *options.allow_write):
            path_in_project(path, project)
        out, root = Path(os.path.realpath(options.directory)), os.path.realpath(project)
        out = out.relative_to(root) if out.is_relative_to(root) else out
        return msgspec.structs.replace(options, directory=out)

    async def result(self, run: str, on_rows: OnRows | None = None) -> RunResult:
        return await watch_run(self._store, run, on_rows, partial(self._check, run))

    async def _check(self, run: str) -> None:
        """Raises an error if nobody works on an unfinished run."""
        try:
            end = await self._end(run)
        except Unreachable:  # the store says how the run goes on
            return
        row = decode_row((await asyncio.to_thread(self._store.load, run)).get("status", b"{}"))
        if end and row.get("status") in UNFINISHED:
            reason = f"Run {run} is {end} in Temporal, and no worker continues it."
            error = SessionError(reason, hint=f"Continue it: strands resume {run}")
            error.run_id = run
            raise error

    async def answer(self, run: str, answers: Mapping[str, str]) -> None:
        await self.resume(run, answers)

    async def stored_answers(self, run: str, answers: Mapping[str, str]) -> None:
        """Waits until a worker has stored the answers. SessionError if a question had another one already."""
        while True:
            rows = await asyncio.to_thread(self._store.load, run)
            found = {key: decode_row(rows[f"{key}/answer"]) for key in answers if f"{key}/answer" in rows}
            for key, row in found.items():
                if row["text"] != answers[key]:
                    reason = f"{key} of run {run} was answered already: {row['text'][:_SHOWN]!r}."
                    raise SessionError(reason, hint=f"Watch it: strands runs watch {run}")
            status = decode_row(rows.get("status", b"{}")).get("status")
            if len(found) == len(answers) or status not in (*UNFINISHED, "paused"):
                return
            await self._check(run)
            await asyncio.sleep(_END_PAUSE)

    async def resume(
        self,
        run: str,
        answers: Mapping[str, str] | None = None,
        *,
        changed: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
    ) -> None:
        """Continues a run. If its workflow has ended on the engine, another one is started.

        `changed` are rows of the journal to replace first.
        """
        if sum(map(len, (answers or {}).values())) > MAX_MESSAGE:
            hint = "Put the text into a file of the project, and answer with its name."
            raise UsageError(f"The answers have more than {MAX_MESSAGE} characters.", hint=hint)
        head, changed = await self._head(run), dict(changed or {})
        row = decode_row((await asyncio.to_thread(self._store.load, run))["status"])
        status, signal = row["status"], None
        if answers:
            signal = dict(answers), accept_changes
        if status not in UNFINISHED:
            if status != "paused":
                await self._wait_for_end(run)
            if not answers:  # a run that waits keeps its status until it has its answer
                changed["status"] = {**row, **status_row("queued")}
            if changed:
                await asyncio.to_thread(self._replace, run, changed)
            signal = dict(answers or {}), accept_changes
        elif changed:
            hint = f"Cancel it first: strands runs cancel {run}"
            raise SessionError(f"Run {run} is {status}, so its options cannot be changed.", hint=hint)
        await self._start(run, head["workflow"], signal)

    def _replace(self, run: str, rows: Mapping[str, Any]) -> None:
        fence = self._store.take(run, take_over=True)
        self._store.put(run, fence, {key: encode_row(row) for key, row in rows.items()})
        self._store.release(run, fence)

    async def _wait_for_end(self, run: str) -> None:
        """Waits for the end of the workflow of a run that has ended: it would take no more signals."""
        for _ in range(_END_TRIES):
            if await self._end(run):
                return
            await asyncio.sleep(_END_PAUSE)
        raise SessionError(f"Run {run} has not ended in Temporal yet.", hint="Try again in a minute.")

    async def cancel(self, run: str) -> None:
        if await self._end(run):  # no worker will say in the store that it is cancelled
            await asyncio.to_thread(cancel_elsewhere, self._store, run)
            return
        handle = await self._handle(run)
        async with translated():
            await handle.cancel()
        row = decode_row((await asyncio.to_thread(self._store.load, run))["status"])
        if row["status"] in ("queued", "paused"):  # no worker has it, and perhaps there is none
            await asyncio.to_thread(cancel_elsewhere, self._store, run)

    async def _end(self, run: str) -> str:
        """How the workflow of a run has ended on the engine, such as `terminated`; empty if it goes on."""
        from temporalio.client import WorkflowExecutionStatus

        handle = await self._handle(run)
        try:
            async with translated("It is not there any more."):
                status = (await handle.describe()).status
        except _Gone:
            return "unknown"
        is_going = status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
        return "" if status is None or is_going else status.name.lower()

    async def idle_queue(self, run: str) -> str:
        """The queue of a run, if no worker has asked for its runs in the last minutes; else empty."""
        from temporalio.api.enums.v1 import TaskQueueType
        from temporalio.api.taskqueue.v1 import TaskQueue
        from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

        from strands_cli.exec.temporal_flow import queue_and_run

        client, queue = await self._client(), queue_and_run((await self._head(run))["workflow"])[0]
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
        async with translated():
            workers = (await client.workflow_service.describe_task_queue(request)).pollers
        return "" if workers else queue

    async def list(self) -> list[str]:
        from strands_cli.exec.temporal_flow import NAME, queue_and_run

        client = await self._client()
        of_queue = f"WorkflowType = '{NAME}' AND TaskQueue = '{self._engine.queue}'"
        async with translated():
            found = client.list_workflows(f"{of_queue} AND ExecutionStatus = 'Running'")
            return [queue_and_run(one.id)[1] async for one in found]

    # --- schedules --------------------------------------------------------------------------------------

    async def add_schedule(
        self,
        name: str,
        spec: Spec,
        options: RunOptions,
        *,
        every: timedelta | None = None,
        cron: str = "",
        time_zone: str = "",
        yes: bool = False,
    ) -> None:
        from temporalio.client import (
            Schedule as EngineSchedule,
        )
        from temporalio.client import (
            ScheduleActionStartWorkflow,
            ScheduleAlreadyRunningError,
            ScheduleIntervalSpec,
            ScheduleSpec,
        )

        from strands_cli.exec.temporal_flow import NAME, workflow_id

        options = self._portable(spec, options)
        resolve_inputs(spec)
        begin = {
            "file": str(path_in_project(spec.file, self._settings.project)),
            "variables": spec.variables,
            "when": f"every {_duration(every)}" if every else f"{cron} {time_zone}".strip(),
            "out": str(options.directory),
            "force": options.force,
            "yes": yes,
            "provider": spec.model_given.get("provider", ""),
            "model": spec.model_given.get("model_id", ""),
            "host": spec.model_given.get("host", ""),
        }
        if len(msgspec.json.encode(begin)) > MAX_MESSAGE:
            hint = "Put the text into a file of the project, and read it in the workflow."
            raise UsageError(f"The inputs have more than {MAX_MESSAGE} characters.", hint=hint)
        id = workflow_id(self._engine.queue, name)
        action = ScheduleActionStartWorkflow(
            NAME, self._submission("", begin=begin), id=id, task_queue=self._engine.queue
        )
        when = ScheduleSpec(
            intervals=[ScheduleIntervalSpec(every=every)] if every else [],
            cron_expressions=[cron] if cron else [],
            time_zone_name=time_zone or None,
        )
        client = await self._client()
        try:
            async with translated():
                await client.create_schedule(id, EngineSchedule(action=action, spec=when))
        except ScheduleAlreadyRunningError:
            hint = f"Remove it first: strands schedule remove {name}"
            raise SessionError(f"The schedule {name!r} exists already.", hint=hint) from None

    async def schedules(self) -> Sequence[Schedule]:
        from temporalio.client import ScheduleActionStartWorkflow

        from strands_cli.exec.temporal_flow import Submission, workflow_id

        client, found, beginning = await self._client(), [], workflow_id(self._engine.queue, "")
        async with translated():
            async for one in await client.list_schedules():
                if not one.id.startswith(beginning):
                    continue
                about = await client.get_schedule_handle(one.id).describe()
                action = about.schedule.action
                assert isinstance(action, ScheduleActionStartWorkflow)
                [work] = await client.data_converter.decode(action.args, [Submission])
                begin, upcoming = work.begin or {}, about.info.next_action_times
                found.append(
                    Schedule(
                        name=one.id.removeprefix(beginning),
                        file=begin["file"],
                        when=begin["when"],
                        next=upcoming[0].timestamp() if upcoming else None,
                        variables=begin["variables"],
                    )
                )
        return found

    async def remove_schedule(self, name: str) -> None:
        from strands_cli.exec.temporal_flow import workflow_id

        client = await self._client()
        id = workflow_id(self._engine.queue, name)
        async with translated(f"There is no schedule {name!r}.", "List them: strands schedule list"):
            await client.get_schedule_handle(id).delete()

    # --- the client -------------------------------------------------------------------------------------

    async def _client(self) -> "Client":
        if self._connected is None:
            self._connected = await connect(self._engine)
        return self._connected

    async def _head(self, run: str) -> dict[str, Any]:
        rows = (await asyncio.to_thread(self._store.runs, run)).get(run, {})
        if not rows:
            raise SessionError(f"There is no run {run}.", hint="List your runs: strands runs list")
        head: dict[str, Any] = decode_row(rows.get("head", b"{}"))
        if not head.get("workflow"):
            hint = "List your runs: strands runs list"
            raise SessionError(f"Run {run} is not a run of Temporal.", hint=hint)
        return head

    async def _handle(self, run: str) -> "WorkflowHandle[Any, Any]":
        client, head = await self._client(), await self._head(run)
        return client.get_workflow_handle(head["workflow"])

    def _submission(self, run: str, **more: Any) -> Any:
        from strands_cli.exec.temporal_flow import Submission

        return Submission(run, self._engine.lost_after, self._engine.workspace_wait, **more)

    async def _start(
        self,
        run: str,
        workflow: str,
        signal: tuple[dict[str, str], bool] | None,
    ) -> None:
        """Starts the workflow of a run unless it goes on already, and sends it a signal to continue."""
        from temporalio.common import WorkflowIDConflictPolicy

        from strands_cli.exec.temporal_flow import CONTINUE, NAME, queue_and_run

        client = await self._client()
        async with translated():
            await client.start_workflow(
                NAME,
                self._submission(run),
                id=workflow,
                task_queue=queue_and_run(workflow)[0],
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=CONTINUE if signal else None,
                start_signal_args=signal or [],
            )


@asynccontextmanager
async def translated(not_found: str = "", hint: str = "") -> AsyncIterator[None]:
    """Raises errors of Temporal as errors of ours."""
    from temporalio.service import RPCError, RPCStatusCode

    kind: type[StrandsError]
    try:
        yield
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND and not_found:
            raise _Gone(not_found, hint=hint) from None
        kind, way_on = _KINDS.get(error.status.name, (SessionError, ""))
        reason = f"Temporal has refused it: {error.message.rstrip('.')}."
        raise kind(reason, hint=way_on or "Check the server and its namespace: strands doctor") from None


_KINDS: dict[str, tuple[type[StrandsError], str]] = {
    "UNAVAILABLE": (Unreachable, ""),
    "PERMISSION_DENIED": (SessionError, "Check the namespace and the API key."),
    "UNAUTHENTICATED": (SessionError, "Check the namespace and the API key."),
    "INVALID_ARGUMENT": (UsageError, "Correct it, and try again."),
}
"""What errors of Temporal mean here, and what to do."""


def _identity(rows: Mapping[str, bytes]) -> Any:
    """The facts that make two submissions the same."""
    head, spec = decode_row(rows["head"]), decode_row(rows["spec"])
    file = path_in_project(Path(head["file"]), Path(head["project"]))
    return spec, head["variables"], {**head["options"], "allow_write": None}, file


def _duration(every: timedelta) -> str:
    seconds = every.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
