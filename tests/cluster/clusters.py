"""A project whose runs workers do: the workers as processes, and what was done compared with what is recorded."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from strands_cli.exec.journal import decode_row
from strands_cli.exec.postgres_store import PostgresStore
from strands_cli.exec.stores import open_store
from strands_cli.exec.temporal_engine import TemporalEngine
from strands_cli.loader import load_spec
from strands_cli.settings import load_settings
from tests.projects import Outcome, Project

LIMIT = 40.0
"""The seconds that anything may take on a busy machine."""
LOG_VARIABLE = "CLUSTER_LOG"
MARK = '''
import os, time
from strands_cli import tool

@tool(annotations={annotations})
def mark(label: str) -> str:
    """Says in the log that it was called.

    Args:
        label: What is written there.
    """
    file = os.open(os.environ["CLUSTER_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{{label}} {{os.getpid()}}\\n".encode())
    os.close(file)
    return label
'''


def until(condition: Callable[[], Any], what: Callable[[], object] | str = "", limit: float = LIMIT) -> Any:
    """Waits for a condition, and returns its value."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, what() if callable(what) else what or "it does not happen"
        time.sleep(0.02)
    return value


class WorkerProcess:
    """`strands worker`, in a process group of its own."""

    def __init__(self, project: Path, environment: Mapping[str, str], output: Path, *options: str) -> None:
        self.output = output
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "strands_cli", "worker", *options],
                cwd=project,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.output.read_text("utf-8", "replace")

    def ready(self) -> "WorkerProcess":
        until(lambda: "Working on" in self.text or self.process.poll() is not None, lambda: self.text)
        assert self.process.poll() is None, self.text
        return self

    def says(self, text: str, times: int = 1) -> None:
        until(lambda: self.text.count(text) >= times, lambda: f"no {text!r} in: {self.text}")

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Ends it, whatever state it is in."""
        if self.process.poll() is None:
            self.kill()

    def drained(self) -> int:
        """Lets it drain; its exit code."""
        self.send(signal.SIGTERM)
        return self.process.wait(LIMIT)


class Cluster:
    """A project with a queue of its own, a store, and workers."""

    def __init__(self, project: Project, database: str, address: str, queue: str) -> None:
        self.project, self.database, self.queue = project, database, queue
        self.log = project.root.parent / "log"
        self.log.touch()
        self._workers: list[WorkerProcess] = []
        project.environment |= {
            "STRANDS_STORE": database,
            "TEMPORAL_ADDRESS": address,
            "STRANDS_TRUST": "1",
            LOG_VARIABLE: str(self.log),
        }
        self.settle()

    # --- files --------------------------------------------------------------------------------------------

    def settle(self, **engine: object) -> None:
        """The user's settings: a lost worker is noticed as soon as can be."""
        values: dict[str, object] = {"queue": self.queue, "lost_after": 2.0, **engine}
        file = Path(self.project.environment["XDG_CONFIG_HOME"]) / "strands-cli" / "strands.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
        file.write_text(f"[engine]\n{''.join(lines)}")

    def flow(
        self, *steps: Any, wait: float = 0.0, script: Iterable[Any] = (), name: str = "flow.yaml", **more: Any
    ) -> None:
        """A chain. A text is the input of an agent that answers with its prompt, after `wait` seconds."""
        document = {
            "version": 0,
            "name": "flow",
            "runtime": {"provider": "scripted", "failure_policy": {"retries": 0}},
            "inputs": {"optional": {"who": {"type": "string", "default": "it"}}},
            "agents": {"worker": {"prompt": "You work."}},
            **more,
        }
        chain = [{"agent": "worker", "input": step} if isinstance(step, str) else step for step in steps]
        document["pattern"] = {"type": "chain", "config": {"steps": chain}}
        self.project.write(name, yaml.safe_dump(document, sort_keys=False))
        rule = {"system": "You", "answers": [{"text": "{{ prompt }}", "wait": wait}]}
        self.project.write("answers.yaml", yaml.safe_dump([*script, rule]))

    def marking_flow(self, steps: int, *, wait: float, read_only: bool = True) -> None:
        """A chain whose agents call the tool `mark` with the prompt, and answer with it."""
        self.project.write(
            "tools/mark.py", MARK.format(annotations={"readOnlyHint": True} if read_only else {})
        )
        call = {"call": "mark", "with": {"label": "{{ prompt }}"}, "wait": wait / 2}
        rule = {"when": "+", "answers": [call, {"text": "{{ prompt }}", "wait": wait / 2}]}
        inputs = ["{{ who }}+0", *(f"{{{{ last_response }}}}+{n}" for n in range(1, steps))]
        self.flow(*inputs, script=[rule], tools={"python": ["mark"]})

    # --- workers and commands -----------------------------------------------------------------------------

    def worker(self, *options: str, root: Path | None = None, **env: str) -> WorkerProcess:
        """Starts a worker, and returns before it is ready."""
        output = self.project.root.parent / f"worker-{len(self._workers)}.log"
        started = WorkerProcess(root or self.project.root, self.project.environment | env, output, *options)
        self._workers.append(started)
        return started

    def workers(self, count: int, *options: str) -> list[WorkerProcess]:
        return [one.ready() for one in [self.worker(*options) for _ in range(count)]]

    def end_workers(self) -> None:
        for one in self._workers:
            one.end()

    def strands(self, *arguments: str, **env: str) -> Outcome:
        return self.project.strands(*arguments, **env)

    def submit(self, *arguments: str) -> str:
        outcome = self.strands("submit", "flow.yaml", *arguments)
        assert outcome.exit_code == 0, outcome
        return outcome.out.strip()

    def submit_all(self, count: int) -> list[str]:
        """Submits runs with the ids r0, r1 and so on, which are their inputs too: quicker than as many commands."""
        runs = [f"r{number}" for number in range(count)]

        async def submitted(engine: TemporalEngine) -> None:
            for run in runs:
                await engine.submit(load_spec(Path("flow.yaml"), {"who": run}), run=run)

        self.on_engine(submitted)
        return runs

    def on_engine(self, act: Callable[[TemporalEngine], Awaitable[Any]]) -> None:
        """What the commands do with the engine, in this process."""
        os.environ.update(self.project.environment)  # a test's environment is forgotten when it ends
        os.chdir(self.project.root)

        async def acted() -> None:
            settings = load_settings()
            store = open_store(settings)
            try:
                await act(TemporalEngine(settings, store))
            finally:
                store.close()

        asyncio.run(acted())

    # --- what is recorded, and what was done --------------------------------------------------------------

    def store(self) -> PostgresStore:
        return PostgresStore(self.database)

    def rows(self, run: str) -> dict[str, bytes]:
        store = self.store()
        try:
            return store.load(run)
        finally:
            store.close()

    def delete(self, run: str) -> None:
        store = self.store()
        store.delete(run)
        store.close()

    def create(self, run: str, rows: Mapping[str, bytes]) -> None:
        store = self.store()
        store.create(run, rows)
        store.close()

    def row(self, run: str, key: str) -> dict[str, Any]:
        found: dict[str, Any] = decode_row(self.rows(run).get(key, b"{}"))
        return found

    def answer(self, run: str) -> str:
        """What a finished run has answered."""
        return str(self.row(run, "status")["answer"]["last_response"])

    def statuses(self) -> dict[str, str]:
        store = self.store()
        try:
            listed = store.runs()
        finally:
            store.close()
        return {run: str(decode_row(rows["status"])["status"]) for run, rows in listed.items()}

    def reach(self, run: str, status: str) -> None:
        until(lambda: self.statuses().get(run) == status, lambda: f"{self.row(run, 'status')} {self.said()}")

    def said(self) -> str:
        """What the workers have printed, for the message of a failed test."""
        return "\n".join(f"{one.output.name}: {one.text}" for one in self._workers)

    def lines(self) -> list[tuple[str, int]]:
        """The labels in the log, each with the process that has written it."""
        found = [line.rsplit(" ", 1) for line in self.log.read_text().splitlines()]
        return [(label, int(pid)) for label, pid in found]

    def marks(self) -> Counter[str]:
        return Counter(label for label, _ in self.lines())


class Oracle:
    """Finds what is done again though it was recorded."""

    def __init__(self, cluster: Cluster, runs: Iterable[str]) -> None:
        self._cluster, self._runs = cluster, [*runs]
        self._seen: list[tuple[set[str], int]] = []
        self._kept: dict[tuple[str, str], bytes] = {}

    def look(self) -> set[str]:
        """The labels that are recorded now: nobody may write them into the log from now on."""
        store = self._cluster.store()
        rows = {run: store.load(run) for run in self._runs}
        store.close()
        lost = [key for key, value in self._kept.items() if rows[key[0]].get(key[1]) != value]
        assert not lost, f"no longer recorded: {lost}"
        self._kept = {
            (run, key): value for run, own in rows.items() for key, value in own.items() if is_final(key)
        }
        labels = {
            decode_row(value)["arguments"]["label"]
            for (_, key), value in self._kept.items()
            if key.split("/")[-3] == "tool"
        }
        self._seen.append((labels, len(self._cluster.lines())))
        return labels

    def done(self, *, limit: float = LIMIT) -> None:
        """Looks until all runs are done; then nothing was done again, and all that was done is recorded."""
        end = time.monotonic() + limit
        while {*self._cluster.statuses().values()} != {"done"}:
            assert time.monotonic() < end, f"{self._cluster.statuses()} {self._cluster.said()}"
            self.look()
            time.sleep(0.1)
        self.look()

    def repeated(self, *, by_others_than: int = 0) -> list[str]:
        """The labels in the log that were recorded before, whoever has written them but this process."""
        lines = self._cluster.lines()
        return [
            label
            for labels, size in self._seen
            for label, pid in lines[size:]
            if label in labels and pid != by_others_than
        ]


def is_final(key: str) -> bool:
    """Whether a row is written once: those of model's answers, tools' results and steps' results."""
    parts = key.split("/")
    return parts[-1] == "result" or "model" in parts[-2:] or "tool" in parts[-3:-2]
