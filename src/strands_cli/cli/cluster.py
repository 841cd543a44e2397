"""`strands worker`, `submit` and `schedule`, and the commands for runs that workers do."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ProviderName,
    allow_write_option,
    complete_runs,
    debug_option,
    grant_all_but_protected,
    json_option,
    load_workflow,
    trust_option,
    var_option,
    warn_of_untrusted,
    yes_option,
)
from strands_cli.cli.output import (
    count_text,
    drop_unwritable,
    print_columns,
    print_json,
    print_note,
    print_text,
    result_document,
    tool_output_aside,
)
from strands_cli.cli.running import say_way_on
from strands_cli.cli.timeline import moment_text
from strands_cli.errors import SessionError, StrandsError, UsageError
from strands_cli.exec.engines import UNFINISHED, Engine, LocalEngine
from strands_cli.exec.journal import decode_row
from strands_cli.exec.run_records import path_in_project, spec_files
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import Store, find_run, open_store
from strands_cli.exec.temporal_engine import TemporalEngine, connect
from strands_cli.exec.watching import RowEvents
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import with_model_options
from strands_cli.settings import Settings, load_settings
from strands_cli.types import RunResult

if TYPE_CHECKING:
    from strands_cli.cli.running import Execution

_EVERY = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CANCEL_TRIES, _CANCEL_PAUSE = 75, 0.2
_queue_option = click.option(
    "--queue", metavar="NAME", help="Use this task queue; by default that of your settings."
)


def _settings_with(queue: str | None) -> Settings:
    settings = load_settings()
    try:
        engine = replace(settings.engine, queue=settings.engine.queue if queue is None else queue)
    except ValueError as error:
        raise UsageError(f"--queue {queue!r} cannot be used: {error}.") from None
    return replace(settings, engine=engine)


# --- worker -------------------------------------------------------------------------------------------------


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=10,
    help="The maximum number of runs at the same time; 10 by default.",
)
@_queue_option
@click.option(
    "--workspace",
    metavar="NAME",
    help="The name of this copy of the project. Workers that share its files share the name.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    metavar="SECONDS",
    help="After SIGTERM: how long runs may go on before another worker continues them; 30 by default.",
)
@trust_option
@debug_option
def worker(concurrency: int, queue: str | None, workspace: str | None, drain: float) -> None:
    """Run workflows that were submitted, in the directory of their project.

    SIGTERM or Ctrl-C ends it: it takes no more runs, and hands over those that do not finish in time. A
    second one ends it at once; other workers continue its runs.
    """
    settings = _settings_with(queue)
    settings.refuse_unread()
    warn_of_untrusted(settings)
    store = open_store(settings)
    TemporalEngine(settings, store)  # UsageError without a store that others reach
    os.chdir(settings.project)
    try:
        with tool_output_aside():
            run_async(
                _work(
                    settings,
                    store,
                    workspace=_workspace_name(workspace),
                    concurrency=concurrency,
                    drain=drain,
                )
            )
    finally:
        store.close()


def _workspace_name(given: str | None) -> str:
    if given is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", given):
        hint = "Use letters, digits, dots, dashes and underscores, at most 100."
        raise UsageError(f"{given!r} cannot be the name of a workspace.", hint=hint)
    return given or ""


async def _work(settings: Settings, store: Store, *, workspace: str, concurrency: int, drain: float) -> None:
    client = await connect(settings.engine)
    from strands_cli.exec.temporal_worker import default_workspace, work

    await asyncio.to_thread(store.load, "")  # connects, and creates the tables before workers race
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def end(number: int, _frame: object) -> None:
        if stop.is_set():
            drop_unwritable()
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: None)  # wakes the loop, so that Python calls ours
        signal.signal(number, end)
    workspace = workspace or default_workspace(settings)
    queue = settings.engine.queue
    most = count_text(concurrency, "run")
    print_note(f"Working on {queue} as {workspace}, with at most {most} at a time.")
    await work(
        client,
        settings,
        store,
        workspace=workspace,
        concurrency=concurrency,
        drain=drain,
        stop=stop,
        consent=grant_all_but_protected(None),
        report=print_note,
    )
    print_note("Stopped.")


# --- submit -------------------------------------------------------------------------------------------------


def _file_options(command: Any) -> Any:
    """The options of a workflow that workers are to run."""
    options = (
        click.argument("file", type=click.Path(path_type=Path)),
        var_option,
        click.option("--out", type=click.Path(path_type=Path), default=Path(), help="Write artifacts there."),
        click.option("--force", is_flag=True, help="Let artifacts replace existing files."),
        click.option("--provider", type=ProviderName(), help="Use this provider instead of the file's."),
        click.option("--model", help="Use this model instead of the file's."),
        click.option("--host", help="The address of the provider."),
        yes_option,
        _queue_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@_file_options
@allow_write_option
@click.option("--trace", is_flag=True, help="Write a record of the run next to the artifacts.")
@click.option("--id", "run", default="", help="The id of the run: the same id starts the same run once.")
@click.option("--watch", is_flag=True, help="Show its progress and print its answer.")
@click.option("--verbose", "-v", is_flag=True, help="With --watch: show the inputs of tools.")
@json_option
def submit(
    *,
    file: Path,
    pairs: tuple[str, ...],
    out: Path,
    force: bool,
    provider: str | None,
    model: str | None,
    host: str | None,
    yes: bool,
    queue: str | None,
    allowed: tuple[Path, ...],
    trace: bool,
    run: str,
    watch: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Hand a workflow to the workers, and print the id of its run.

    The workers need the project at the same version: the workflow's file goes with the run, its tools do not.
    """
    spec = load_workflow(file, pairs)
    spec = with_model_options(spec, provider=provider, model=model, host=host, base=Path())
    options = RunOptions(directory=out, force=force, trace=trace, allow_write=allowed)
    submit_run(spec, options, queue=queue, run=run, yes=yes, watch=watch, verbose=verbose, as_json=as_json)


def submit_run(
    spec: Spec,
    options: RunOptions,
    *,
    queue: str | None = None,
    run: str = "",
    yes: bool = False,
    watch: bool = True,
    verbose: bool = False,
    as_json: bool = False,
) -> None:
    """Hands a run to the workers, and shows it to its end if `watch` is set."""
    settings = _settings_with(queue)
    store = open_store(settings)

    async def submitted() -> None:
        engine = TemporalEngine(settings, store)
        id = await engine.submit(spec, options, run=run, yes=yes)
        if watch:
            print_note(f"Submitted run {id}.")
        elif as_json:
            print_json({"run_id": id})
        else:
            print_text(id)
        await _warn_without_workers(engine, id)
        if watch:
            await _show(engine, id, verbose=verbose, as_json=as_json)

    _with_store(store, submitted())


async def _warn_without_workers(engine: TemporalEngine, run: str) -> None:
    if queue := await engine.idle_queue(run):
        print_note(f"No worker takes the runs of the queue {queue} yet. Start one: strands worker")


def _with_store(store: Store, work: Any) -> None:
    try:
        run_async(work)
    except StrandsError as error:
        say_way_on(error)
        raise
    finally:
        store.close()


async def _show(
    engine: Engine, run: str, *, verbose: bool, as_json: bool, ready: Awaitable[None] | None = None
) -> None:
    """Shows the progress of a run that others do, and prints its answer."""
    from strands_cli.cli.progress import open_progress

    try:
        if ready is not None:
            await ready
        with open_progress(verbose=verbose) as progress:
            result = await engine.result(run, RowEvents(progress).add_all)
    except asyncio.CancelledError:
        print_note(f"Run {run} goes on. Watch it: strands runs watch {run}")
        raise
    _print(result, as_json=as_json)


def _print(result: RunResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result_document(result))
    else:
        print_text(result.last_response)


# --- runs of either engine ----------------------------------------------------------------------------------


def engine_of(settings: Settings, store: Store, head: dict[str, Any]) -> Engine:
    """The engine that runs a run."""
    return TemporalEngine(settings, store) if head.get("engine") else LocalEngine(store)


def _found(store: Store, run: str) -> tuple[str, dict[str, Any]]:
    run = find_run(store, run)
    head: dict[str, Any] = decode_row(store.runs(run)[run].get("head", b"{}"))
    return run, head


@click.command("watch")
@click.argument("run", metavar="ID", shell_complete=complete_runs)
@click.option("--verbose", "-v", is_flag=True, help="Show the inputs of tools.")
@json_option
def watch_command(run: str, verbose: bool, as_json: bool) -> None:
    """Show the progress of a run that goes on elsewhere, and print its answer.

    Ctrl-C stops watching; the run goes on.
    """
    settings = load_settings()
    store = open_store(settings)
    run, head = _found(store, run)
    _with_store(store, _show(engine_of(settings, store, head), run, verbose=verbose, as_json=as_json))


@click.command("cancel")
@click.argument("run", metavar="ID", shell_complete=complete_runs)
@json_option
def cancel_command(run: str, as_json: bool) -> None:
    """Cancel a run that goes on elsewhere. Its finished steps are kept, and it can be resumed."""
    settings = load_settings()
    store = open_store(settings)
    run, head = _found(store, run)

    async def cancelled() -> str:
        if (status := _status(store, run)) not in (*UNFINISHED, "paused"):
            raise SessionError(f"Run {run} is {status}.", hint="Only a run that goes on can be cancelled.")
        await engine_of(settings, store, head).cancel(run)
        for _ in range(_CANCEL_TRIES):
            if (status := _status(store, run)) not in (*UNFINISHED, "paused"):
                break
            await asyncio.sleep(_CANCEL_PAUSE)
        return status

    try:
        status = run_async(cancelled())
    finally:
        store.close()
    if as_json:
        print_json({"run_id": run, "status": status})
    elif status in (*UNFINISHED, "paused"):
        print_note(f"Run {run} was told to stop, but no worker has confirmed it yet.")
    else:
        print_note(f"Run {run} is {status}.")


def _status(store: Store, run: str) -> str:
    return str(decode_row(store.runs(run)[run].get("status", b"{}")).get("status", ""))


def resume_on_engine(
    run: str, rows: dict[str, bytes], answers: dict[str, str], spec: Spec | None, how: "Execution"
) -> None:
    """Continues a run of the engine, and shows it to its end. `spec` is the changed workflow, if any."""
    if "spec" not in rows:  # a schedule has started it, and its file could not be loaded
        raise SessionError(f"Run {run} ended before its first step.", hint="Start the workflow again.")
    settings = load_settings()
    store = open_store(settings)

    async def resumed() -> None:
        engine, head = TemporalEngine(settings, store), decode_row(rows["head"])
        options = {**head["options"]}
        options["force"] = options["force"] or how.force
        options["yes"] = options.get("yes", False) or how.yes
        allowed = [Path(head["project"], path_in_project(path, settings.project)) for path in how.allowed]
        options["allow_write"] = [*options["allow_write"], *map(str, allowed)]
        changed: dict[str, Any] = {}
        if options != head["options"]:
            changed["head"] = {**head, "options": options}
        if spec is not None:
            changed["spec"] = {"files": spec_files(spec)}
        await engine.resume(run, answers, changed=changed, accept_changes=how.accept_changes)
        await _warn_without_workers(engine, run)
        stored = engine.stored_answers(run, answers)
        await _show(engine, run, verbose=how.verbose, as_json=how.as_json, ready=stored)

    _with_store(store, resumed())


# --- schedule -----------------------------------------------------------------------------------------------


@click.group()
def schedule() -> None:
    """Start workflows again and again, on the workers."""


@schedule.command("add")
@click.argument("name")
@_file_options
@click.option("--every", metavar="TIME", help="Start it this often, such as 30m, 6h or 1d.")
@click.option("--cron", metavar="TEXT", help="Start it at these times, such as '0 9 * * 1-5'.")
@click.option(
    "--time-zone", default="", metavar="NAME", help="For --cron, such as Europe/Berlin; UTC by default."
)
def schedule_add(
    *,
    name: str,
    file: Path,
    pairs: tuple[str, ...],
    out: Path,
    force: bool,
    provider: str | None,
    model: str | None,
    host: str | None,
    yes: bool,
    queue: str | None,
    every: str | None,
    cron: str | None,
    time_zone: str,
) -> None:
    """Start a workflow again and again. Each run uses the file as the worker's project has it then.

    NAME begins the ids of the runs. A run that is due while the one before goes on is left out.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}", name):
        hint = "Use letters, digits, dots, dashes and underscores, at most 50."
        raise UsageError(f"{name!r} cannot be the name of a schedule.", hint=hint)
    if (every is None) == (cron is None):
        raise UsageError("Say when it starts.", hint="Write --every 6h, or --cron '0 9 * * *'.")
    if time_zone and cron is None:
        raise UsageError(
            "--time-zone needs --cron.", hint="Leave it out: --every counts from no time of day."
        )
    found = _EVERY.fullmatch(every or "1d")
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--every {every}: this is not a time.", hint="Write 30s, 15m, 6h or 1d.")
    spec = load_workflow(file, pairs)
    spec = with_model_options(spec, provider=provider, model=model, host=host, base=Path())
    seconds = int(found[1]) * _UNITS[found[2]] if every else 0
    options = RunOptions(directory=out, force=force)
    _on_engine(
        queue,
        lambda engine: engine.add_schedule(
            name,
            spec,
            options,
            every=timedelta(seconds=seconds) if every else None,
            cron=cron or "",
            time_zone=time_zone,
            yes=yes,
        ),
    )
    print_note(f"Added the schedule {name}.")


@schedule.command("list")
@_queue_option
@json_option
def schedule_list(queue: str | None, as_json: bool) -> None:
    """List the schedules, with the time of their next runs."""
    found: Sequence[Any] = _on_engine(queue, lambda engine: engine.schedules())
    if as_json:
        print_json({"schedules": [msgspec.to_builtins(one) for one in found]})
        return
    print_columns(
        [
            (one.name, one.file, one.when, f"next {moment_text(one.next)}" if one.next else "")
            for one in found
        ],
        indent="",
    )
    if not found:
        print_note("There are no schedules.")


@schedule.command("remove")
@click.argument("name")
@_queue_option
def schedule_remove(name: str, queue: str | None) -> None:
    """Remove a schedule. Runs that have begun go on."""
    _on_engine(queue, lambda engine: engine.remove_schedule(name))
    print_note(f"Removed the schedule {name}.")


def _on_engine(queue: str | None, work: Any) -> Any:
    settings = _settings_with(queue)
    store = open_store(settings)
    try:
        return run_async(work(TemporalEngine(settings, store)))
    finally:
        store.close()
