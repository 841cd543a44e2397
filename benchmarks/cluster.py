"""What a run on Temporal's workers costs, with its journal in Postgres: `make bench ARGS=cluster`.

Real servers, and workers as `strands worker` starts them, all on this machine. The runs are submitted before
the workers start, so neither disturbs the other's figures. What is measured begins when each worker has
finished some runs, because its start costs more than a run. CPU time is from /proc, of all threads and
children. `make bench ARGS="cluster --quick"` has 50 runs where the whole has 1,000; its figures are rough.
All figures also go to `benchmarks/results/cluster.json`.
"""

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import STRANDS, Row, environment
from msgspec.structs import replace

from strands_cli import SqliteStore, load_spec, run
from strands_cli.exec.postgres_store import PostgresStore
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import new_run_id
from strands_cli.exec.temporal_engine import TemporalEngine, connect
from strands_cli.exec.temporal_flow import workflow_id
from strands_cli.settings import load_settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.cluster.servers import Postgres, Server, Temporal  # noqa: E402 - below the root

RESULTS = ROOT / "benchmarks" / "results" / "cluster.json"
QUICK = bool(os.environ.get("STRANDS_BENCH_QUICK"))
RUNS, MARKS = (50, (10, 25, 50)) if QUICK else (1000, (100, 500, 1000))
"""The runs of the long measurement, and after how many the memory is read."""
SCALED_RUNS, ROUNDS = (50, 1) if QUICK else (200, 3)
FLOOR_RUNS, FLOOR_ROUNDS = (5, 3) if QUICK else (20, 7)
STEPS, CONCURRENCY, SUBMITTERS = 10, 10, 20
THINKING = 0.2
"""The seconds that the slow model takes for an answer."""
LIMIT = 120.0
"""The seconds in which at least one run must end."""
TICKS = os.sysconf("SC_CLK_TCK")

HEAD = """\
version: 0
name: {name}
runtime: {{provider: scripted, model_id: {name}.answers.yaml}}
agents: {{worker: {{prompt: You work.}}}}
pattern:
  type: chain
  config:
    steps:
"""


class Worker:
    """A `strands worker` that has been started. The kernel ends it with this process."""

    def __init__(self, place: Path, queue: str, number: int) -> None:
        self._log = place / f"{queue}-{number}.log"
        self._read, self._finished = 0, 0
        command = [STRANDS, "worker", "--queue", queue, "--concurrency", str(CONCURRENCY)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *command],
                cwd=place,
                env=environment(NO_COLOR="1"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finished(self) -> int:
        """The runs that it has said to be done. It is asked often, and costs the servers nothing."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            whole = log.read().rpartition(b"\n")[0]
        if whole:
            self._read += len(whole) + 1
            for line in whole.decode().splitlines():
                self._finished += line.endswith(": done")
                if not line.endswith((": done", ": quick", ": slow", "at a time.")):
                    raise RuntimeError(f"A worker says: {line}\nIts log ends with:\n{self._log_end()}")
        if self._process.poll() is not None:
            raise RuntimeError(f"A worker has ended. Its log ends with:\n{self._log_end()}")
        return self._finished

    def _log_end(self) -> str:
        return self._log.read_text()[-2000:]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return sum(map(int, fields[11:15])) / TICKS

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(LIMIT / 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class Submitted:
    queue: str
    runs: list[str]
    seconds: float
    cpu: float


@dataclass
class Worked:
    """Between two moments: the runs that were finished, the wall time, and the CPU seconds of each part."""

    runs: int
    seconds: float
    cpu: dict[str, float]
    megabytes: dict[int, float]
    """Of the first worker, after so many runs."""

    @property
    def rate(self) -> float:
        return self.runs / self.seconds

    def step_ms(self, part: str) -> float:
        return 1000 * self.cpu[part] / (self.runs * STEPS)


class Bench:
    """The servers, and a project for the workers."""

    def __init__(self, place: Path, postgres: Postgres, temporal: Temporal) -> None:
        self.place, self.postgres, self.temporal = place, postgres, temporal
        self.url, self._count = postgres.new_database(), 0
        (place / "home").mkdir()
        for name in [one for one in os.environ if one.startswith(("PG", "TEMPORAL_", "STRANDS_", "XDG_"))]:
            del os.environ[name]
        os.environ |= {
            "HOME": str(place / "home"),
            "STRANDS_STORE": self.url,
            "TEMPORAL_ADDRESS": temporal.address,
        }
        for name, wait in (("quick", 0.0), ("slow", THINKING)):
            steps = STEPS * "      - {agent: worker, input: go}\n"
            (place / f"{name}.yaml").write_text(HEAD.format(name=name) + steps)
            answer = {"text": "A sentence of the answer."} | ({"wait": wait} if wait else {})
            (place / f"{name}.answers.yaml").write_text(json.dumps([{"answers": [answer]}]))
        os.chdir(place)  # the project of a run is that of the directory in which it is submitted
        self.settings = load_settings()

    def submit(self, name: str, count: int) -> Submitted:
        """Hands runs to a task queue of their own, for which there are no workers yet."""
        self._count += 1
        queue = f"bench{self._count}"
        settings = replace(self.settings, engine=replace(self.settings.engine, queue=queue))
        spec, store = load_spec(self.place / f"{name}.yaml"), PostgresStore(self.url)
        waiting, runs = iter(range(count)), []

        async def some(engine: TemporalEngine) -> None:
            for _ in waiting:
                runs.append(await engine.submit(spec, run=new_run_id()))

        async def everything() -> tuple[float, float]:
            engine = TemporalEngine(settings, store)
            store.load("")
            await engine._client()  # to connect is no part of it
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(some(engine) for _ in range(SUBMITTERS)))
            return time.perf_counter() - began, time.process_time() - cpu

        try:
            seconds, cpu = asyncio.run(everything())
        finally:
            store.close()
        return Submitted(queue, runs, seconds, cpu)

    def work(self, given: Submitted, workers: int, *, to_the_end: bool = False) -> Worked:
        """Lets workers do the runs. The last ones, which leave a worker idle, count only `to_the_end`."""
        total = len(given.runs)
        with ExitStack() as ending:
            started = []
            for number in range(workers):
                started.append(Worker(self.place, given.queue, number))
                ending.callback(started[-1].end)
            megabytes: dict[int, float] = {}
            warm, first = min(CONCURRENCY, total // 10), MARKS[0] if to_the_end else 0
            _until(started, lambda each: min(each) >= warm and sum(each) >= first)
            before, runs, began = self._cpu(started), _finished(started), time.perf_counter()
            last = total if to_the_end else total - workers * CONCURRENCY
            for mark in (*MARKS, last) if to_the_end else (last,):
                _until(started, partial(_have_done, mark))
                megabytes[mark] = started[0].megabytes()
            seconds, measured = time.perf_counter() - began, _finished(started) - runs
            if to_the_end:
                asyncio.run(self._ended(given.queue))  # what follows the last run is part of its cost
            after = self._cpu(started)
            _until(started, partial(_have_done, total))
        if measured < 1:
            raise RuntimeError("There were too few runs to measure")
        return Worked(measured, seconds, {part: after[part] - before[part] for part in after}, megabytes)

    def transactions(self) -> int:
        """Of all connections, once they have ended: an open one may not have said all of its own yet."""
        import psycopg

        of_database = (self.url.rpartition("/")[2],)
        still_open = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        counted = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            while connection.execute(still_open, of_database).fetchone() != (0,):
                time.sleep(0.02)
            found = connection.execute(counted, of_database).fetchone()
        assert found is not None
        return int(found[0])

    async def events(self, given: Submitted) -> float:
        """In the history of a run, on average."""
        client = await connect(self.settings.engine)
        some = [workflow_id(given.queue, run) for run in given.runs[:: len(given.runs) // 10]]
        about = [await client.get_workflow_handle(one).describe() for one in some]
        return statistics.mean(one.history_length for one in about)

    async def _ended(self, queue: str) -> None:
        client = await connect(self.settings.engine)
        query = f"TaskQueue = '{queue}' AND ExecutionStatus = 'Running'"
        while (await client.count_workflows(query)).count:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.05)

    def _cpu(self, workers: Sequence[Worker]) -> dict[str, float]:
        servers: dict[str, Server] = {"Temporal": self.temporal, "Postgres": self.postgres}
        taken = {name: server.cpu_seconds() for name, server in servers.items()}
        return {"workers": sum(one.cpu_seconds() for one in workers), **taken}


def _finished(workers: Sequence[Worker]) -> int:
    return sum(one.finished() for one in workers)


def _have_done(count: int, each: list[int]) -> bool:
    return sum(each) >= count


def _until(workers: Sequence[Worker], is_so: Callable[[list[int]], bool]) -> None:
    """Waits for a condition on the finished runs of each worker."""
    before, deadline = -1, 0.0
    while not is_so(each := [one.finished() for one in workers]):
        if sum(each) > before:
            before, deadline = sum(each), time.monotonic() + LIMIT
        elif time.monotonic() > deadline:
            raise RuntimeError(f"No run has ended for {LIMIT:g} seconds; finished by each worker: {each}")
        time.sleep(0.02)


def measure() -> Iterator[Row]:
    needed = [Postgres.program("initdb"), Temporal.program(), "setpriv"]
    missing = [one for one in needed if not shutil.which(one)]
    if not Path("/proc/self/stat").exists() or missing:
        print(f"not measured, because this is missing here: {', '.join(missing) or '/proc'}")
        return
    ended = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is below is left in order
    rows: list[Row] = []
    try:
        # Postgres runs as somebody else, who must be able to enter.
        with ExitStack() as ending:
            place, of_postgres, of_temporal = (
                Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="strands-bench-", dir="/tmp")))
                for _ in range(3)
            )
            postgres = Postgres.start(of_postgres)
            ending.callback(postgres.stop)
            temporal = Temporal.start(of_temporal)
            ending.callback(temporal.stop)
            bench = Bench(place, postgres, temporal)
            for part in (_idle, _many, _floor, _scaling):
                for row in part(bench):
                    rows.append(row)
                    yield row
    finally:
        signal.signal(signal.SIGTERM, ended)
    RESULTS.parent.mkdir(exist_ok=True)
    document = {"quick": QUICK, "at": time.time(), "rows": [asdict(row) for row in rows]}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def _idle(bench: Bench) -> Iterator[Row]:
    """What the servers take without any runs; it is part of their figures below."""
    seconds = 3.0
    time.sleep(seconds)
    before = bench._cpu([])
    time.sleep(seconds)
    after = bench._cpu([])
    for name in ("Temporal", "Postgres"):
        cost = 1000 * (after[name] - before[name]) / seconds
        yield Row(f"{name} without runs, CPU ms each second", cost, "ms")


def _many(bench: Bench) -> Iterator[Row]:
    """Many runs, one worker: what a step costs each part, and whether the worker grows."""
    before = bench._cpu([])
    given = bench.submit("quick", RUNS)
    after, submitting = bench._cpu([]), bench.transactions()
    runs = len(given.runs)
    yield Row(f"{runs} runs submitted, {SUBMITTERS} at a time", runs / given.seconds, "/s")
    yield Row("a submission, CPU of who submits", 1000 * given.cpu / runs, "ms")
    for name in ("Temporal", "Postgres"):
        yield Row(f"a submission, CPU of {name}", 1000 * (after[name] - before[name]) / runs, "ms")
    done = bench.work(given, 1, to_the_end=True)
    transactions = (bench.transactions() - submitting) / (runs * STEPS)
    yield Row(f"{runs} runs of {STEPS} steps, 1 worker: runs", done.rate, "/s")
    yield Row("the same: steps", STEPS * done.rate, "/s")
    for part in ("workers", "Temporal", "Postgres"):
        yield Row(f"a step, CPU of {part}", done.step_ms(part), "ms")
    yield Row("a step, CPU of all", sum(map(done.step_ms, done.cpu)), "ms")
    first = done.megabytes[MARKS[0]]
    for mark in MARKS:
        ratio = None if mark == MARKS[0] else done.megabytes[mark] / first
        yield Row(f"the worker after {mark} runs", done.megabytes[mark], "MB", f"{MARKS[0]} runs", ratio)
    events = asyncio.run(bench.events(given))
    yield Row("events in the history of a run", events, "")
    yield Row("transactions of Postgres in a step", transactions, "")


def _floor(bench: Bench) -> Iterator[Row]:
    """The same workflow in this process, without Temporal. Postgres takes CPU of its own for it."""
    stores: dict[str, Any] = {
        "no journal": None,
        "SQLite": SqliteStore(bench.place / "floor.db"),
        "Postgres": PostgresStore(bench.url),
    }
    file = bench.place / "quick.yaml"

    async def runs(store: Any) -> None:
        for _ in range(FLOOR_RUNS):
            await run(file, options=RunOptions(store=store))

    def cpu(store: Any) -> tuple[float, float]:
        began, server = time.process_time(), bench.postgres.cpu_seconds()
        asyncio.run(runs(store))
        taken = time.process_time() - began, bench.postgres.cpu_seconds() - server
        return taken[0] * 1000 / (FLOOR_RUNS * STEPS), taken[1] * 1000 / (FLOOR_RUNS * STEPS)

    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
    for number in range(FLOOR_ROUNDS + 1):
        for name, store in stores.items():
            figures = cpu(store)
            taken[name] += [figures] if number else []
    own = {name: statistics.median(one[0] for one in values) for name, values in taken.items()}
    for name, value in own.items():
        ratio = None if name == "no journal" else value / own["no journal"]
        yield Row(f"a step in process, {name}, CPU", value, "ms", "no journal", ratio)
    server = statistics.mean(one[1] for one in taken["Postgres"])
    yield Row("a step in process, CPU of Postgres", server, "ms")
    for store in stores.values():
        if store is not None:
            store.close()


def _scaling(bench: Bench) -> Iterator[Row]:
    """More workers, in turn. They share the CPU if the model answers at once; a slow one leaves it free."""
    for name, counts, words in (
        ("quick", (1, 2), "at once"),
        ("slow", (1, 2, 4), f"after {1000 * THINKING:g} ms"),
    ):
        rates: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(ROUNDS):
            for count in counts:
                given = bench.submit(name, SCALED_RUNS + 2 * count * CONCURRENCY)
                rates[count].append(STEPS * bench.work(given, count).rate)
        medians = {count: statistics.median(values) for count, values in rates.items()}
        for count, rate in medians.items():
            ratio = None if count == 1 else rate / medians[1]
            workers = "1 worker" if count == 1 else f"{count} workers"
            yield Row(f"answers {words}, {workers}: steps", rate, "/s", "1 worker", ratio)
        if name == "slow":
            yield Row("the most that 1 worker can do with it: steps", CONCURRENCY / THINKING, "/s")
