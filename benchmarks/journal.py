"""What the journal costs: a record, a run whose model answers at once, resuming a long run."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from measuring import PYTHON, Row, child_cpu, interleaved
from msgspec.structs import replace
from runs import Turning, build

from strands_cli import RunOptions, SqliteStore, load_spec, run
from strands_cli.exec.journal import Journal
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import PROVIDERS, Provider

RECORD_MS, RESUME_SECONDS, SHARE = 0.1, 2.0, 1.05
STEPS, ROUNDS = 10_000, 7
PROGRAM_STEPS = 10

FLOW = """\
version: 0
name: journalled
runtime: {provider: ollama, max_parallel: 50}
tools: {python: [echo]}
agents: {worker: {prompt: You work.}}
pattern:
  type: chain
  config:
    steps: [{agent: worker, input: go, conversation: fresh}]
"""
ANSWERS = "- {answers: [{call: echo, with: {message: hi}}, A sentence of the answer.]}\n"
PROGRAM = """
import sys
from strands_cli import RunOptions, SqliteStore, run_sync
store = SqliteStore(sys.argv[2]) if len(sys.argv) > 2 else None
run_sync(sys.argv[1], options=RunOptions(store=store))
"""


def measure() -> Iterator[Row]:
    PROVIDERS["ollama"] = Provider(build=build, default_model="turning")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        yield from _records(root)
        yield from _share(root)
        yield from _steps(root)
        yield from _resume(root)


def _records(root: Path) -> Iterator[Row]:
    """A step with one tool call: what a step waits for is committed, the rest goes with it."""
    answer = {"role": "assistant", "content": [{"text": "A sentence of the answer. " * 40}]}
    model = {"at": 1.0, "seconds": 1.0, "model": "m", "message": answer, "stop_reason": "end_turn"}
    rows: dict[str, tuple[Any, bool]] = {
        "begun": (
            {"at": 1.0, "kind": "agent", "agent": "worker", "prompt": "You work.", "input": "go"},
            False,
        ),
        "user/1": ({"at": 1.0, "content": [{"text": "go"}]}, False),
        "model/1": (model, True),
        "tool/1/0": ({"at": 1.0, "tool": "echo", "arguments": {"message": "hi"}, "result": answer}, False),
        "model/2": (model, True),
        "result": ({"at": 1.0, "key": "steps/0", "response": "A sentence. " * 40, "usage": {}}, True),
    }

    async def record(file: Path) -> float:
        journal = Journal.open(SqliteStore(file), "aaaa1111")
        began = time.process_time()
        for step in range(300):
            for name, (value, is_awaited) in rows.items():
                journal.put(f"steps/{step}/{name}", value)
                if is_awaited:
                    await journal.committed()
        taken = time.process_time() - began
        journal.close()
        return 1000 * taken / (300 * len(rows))

    cost = median(asyncio.run(record(root / f"records{number}.db")) for number in range(ROUNDS))
    yield Row("a record", cost, "ms", f"{RECORD_MS} ms", cost / RECORD_MS, 1.0)


def _spec(file: Path, steps: int = 1) -> Spec:
    """More steps than a file may have, which a program can ask for."""
    file.write_text(FLOW)
    spec = load_spec(file)
    chain: Any = spec.pattern
    return replace(spec, pattern=replace(chain, steps=chain.steps * steps))


def _cpu(spec: Spec, options: RunOptions) -> float:
    began = time.process_time()
    asyncio.run(run(spec, options=options))
    return 1000 * (time.process_time() - began)


def _share(root: Path) -> Iterator[Row]:
    """A program that runs a workflow, with and without a journal."""
    steps = "".join("      - {agent: worker, input: go}\n" for _ in range(PROGRAM_STEPS))
    head = FLOW.partition("    steps")[0].replace("ollama", "scripted")
    (root / "program.yaml").write_text(f"{head}    steps:\n{steps}")
    (root / "answers.yaml").write_text(ANSWERS)
    command = [PYTHON, "-c", PROGRAM, str(root / "program.yaml")]
    cases = {
        "without": lambda: child_cpu(command),
        "with": lambda: child_cpu([*command, str(root / "program.db")]),
    }
    medians = interleaved(cases, 3 * ROUNDS)
    without, recorded = medians["without"], medians["with"]
    yield Row(f"a run of {PROGRAM_STEPS} steps without a journal", without, "ms")
    yield Row("the same with a journal", recorded, "ms", "without", recorded / without, SHARE)


def _steps(root: Path) -> Iterator[Row]:
    """The steps alone, without the program around them: to wait costs more than to write."""
    Turning.turns = 3
    spec, store = _spec(root / "steps.yaml", 11), SqliteStore(root / "steps.db")
    cases = {
        "without": lambda: _cpu(spec, RunOptions()),
        "with": lambda: _cpu(spec, RunOptions(store=store)),
    }
    medians = interleaved(cases, 3 * ROUNDS)
    without, recorded = medians["without"], medians["with"]
    yield Row("11 steps of 4 answers with a journal", recorded, "ms", "without", recorded / without)


def _resume(root: Path) -> Iterator[Row]:
    """Only the last of many steps is left to do. The rows of the others are copies of one's."""
    Turning.turns = 0
    short, store = _spec(root / "long.yaml", 2), SqliteStore(root / "long.db")
    whole = asyncio.run(run(short, options=RunOptions(store=store)))
    rows = store.load(whole.run_id)
    done = {key: value for key, value in rows.items() if key.startswith("steps/1/")}
    rows = {key: value for key, value in rows.items() if key not in done}
    for number in range(1, STEPS - 1):
        mine = f"steps/{number}"
        for key, value in done.items():
            rows[key.replace("steps/1", mine)] = value.replace(b'"steps/1"', f'"{mine}"'.encode())
    fence = store.take(whole.run_id)
    store.put(whole.run_id, fence, rows)
    store.release(whole.run_id, fence)
    store.close()
    copies = [shutil.copy(root / "long.db", root / f"copy{number}.db") for number in range(3)]
    spec, taken = _spec(root / "long.yaml", STEPS), []
    for copy in map(SqliteStore, copies):
        began = time.process_time()
        result = asyncio.run(run(spec, options=RunOptions(store=copy, resume=whole.run_id)))
        taken.append(time.process_time() - began)
        assert len(result.steps) == STEPS
        assert len(copy.load(whole.run_id)) == len(rows) + len(done), "more than one step was done"
    seconds = median(taken)
    limit = f"{RESUME_SECONDS} s"
    yield Row(f"resuming a run of {STEPS} steps", seconds, "s", limit, seconds / RESUME_SECONDS, 1.0)
