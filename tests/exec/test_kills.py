"""Runs that are killed at any moment, and resumed until they are finished, repeat and lose nothing.

What was really done is in a log outside the journal, one line for each model's answer and each tool's body. A
line has a label, and the labels of all that it was made of.
"""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.exec.journal import Journal, decode_row
from strands_cli.exec.stores import SqliteStore
from tests.exec.killable import LABEL, LOG_VARIABLE
from tests.projects import Project

if not hasattr(os, "fork"):
    pytest.skip("needs processes that fork", allow_module_level=True)

KILLS, LONG_KILLS = 4, 34
"""In each of the six workflows: more than 20, and more than 200."""
MOST_SECONDS = 50.0
ANSWER = "go on"

MARK = '''
import os, time
from strands_cli import tool

@tool
def mark(label: str) -> str:
    """Says in the log that it was called.

    Args:
        label: What is written there.
    """
    time.sleep(0.004)
    file = os.open(os.environ["KILLED_RUN_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{label} M{label[1:]}\\n".encode())
    os.close(file)
    time.sleep(0.004)
    return label
'''


def agent(text: str, **more: Any) -> dict[str, Any]:
    return {"agent": "worker", "input": text, **more}


def human(question: str) -> dict[str, Any]:
    return {"human": {"prompt": question}}


FLOWS: dict[str, dict[str, Any]] = {
    "chain": {
        "type": "chain",
        "config": {
            "steps": [agent("first calls=2"), *(agent("{{ last_response }} calls=1") for _ in range(3))]
        },
    },
    "workflow": {
        "type": "workflow",
        "config": {
            "tasks": [
                agent("a calls=1", id="a"),
                agent("b {{ tasks.a.response }} calls=1", id="b", needs=["a"]),
                agent("c {{ tasks.a.response }} calls=2", id="c", needs=["a"]),
                agent("d {{ tasks.b.response }} {{ tasks.c.response }} calls=1", id="d", needs=["b", "c"]),
            ]
        },
    },
    "parallel": {
        "type": "parallel",
        "config": {
            "branches": [
                {
                    "id": f"b{n}",
                    "steps": [agent(f"{n} calls=1"), agent(f"{n} {{{{ last_response }}}} calls=0")],
                }
                for n in range(8)
            ],
            "reduce": agent("{% for one in branches.values() %}{{ one.response }} {% endfor %} calls=1"),
        },
    },
    "graph": {
        "type": "graph",
        "config": {
            "start": "draft",
            "nodes": {
                "draft": agent("loop {{ nodes.review.response | default('') }} calls=1"),
                "review": agent("loop {{ nodes.draft.response }} calls=0"),
                "publish": agent("{{ nodes.draft.response }} calls=1"),
            },
            "edges": [
                {"from": "draft", "to": "review"},
                {"from": "review", "to": "publish", "when": "nodes.review.response contains '******'"},
                {"from": "review", "to": "draft", "when": "not nodes.review.response contains '******'"},
            ],
            "max_visits": 5,
        },
    },
    "orchestrator": {
        "type": "orchestrator_workers",
        "config": {
            "orchestrator": agent("divide calls=0"),
            "worker": agent("{{ task }}"),
            "reduce": agent("{% for one in tasks %}{{ one.response }} {% endfor %} calls=1"),
        },
    },
    "human": {
        "type": "chain",
        "config": {
            "steps": [
                agent("first calls=1"),
                human("What next?"),
                agent("{{ last_response }} calls=1"),
                human("And then?"),
                agent("{{ last_response }} calls=1"),
            ]
        },
    },
}


class Server:
    """Processes that run workflows, each forked from one that has imported everything."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[2]
        command = [sys.executable, "-m", "tests.exec.killable"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
        )

    def ask(self, **order: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    with server.process:  # it ends with its input
        yield server


class Trial:
    """One workflow in a project of its own."""

    def __init__(self, server: Server, root: Path, kind: str, store: str = "") -> None:
        """With a `store` of ours it is run by a program, else by the command."""
        self.server, self.root, self.store = server, root, store
        (root / "tools").mkdir(parents=True)
        (root / "tools" / "mark.py").write_text(MARK)
        (root / "strands.toml").touch()
        document = {
            "version": 0,
            "name": "flow",
            "runtime": {"provider": "ollama", "max_parallel": 8},
            "tools": {"python": ["mark"]},
            "agents": {"worker": {"prompt": "You work."}},
            "pattern": FLOWS[kind],
        }
        (root / "flow.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        self.log = root / "log"
        self.log.touch()
        self.journal = root / "data" / "strands-cli" / "runs.db"
        self.run = ""

    def start(self, *, take_over: bool = False) -> int:
        """A process that begins the run, or goes on with it."""
        environment = {
            "HOME": str(self.root / "home"),
            "XDG_DATA_HOME": str(self.root / "data"),
            "XDG_CACHE_HOME": str(self.root.parent / "cache"),
            LOG_VARIABLE: str(self.log),
            "NO_COLOR": "1",
        }
        order: dict[str, Any] = {"directory": str(self.root), "environment": environment}
        order |= {"out": str(self.root / "out"), "err": str(self.root / "err")}
        if self.store:
            self.answer_questions()
            order |= {"store": self.store, "journal": str(self.journal), "resume": self.run}
            order["take_over"] = take_over
        elif not self.run:
            order["command"] = ["run", "flow.yaml", "--json"]
        else:
            answers = [part for key in self.questions() for part in ("--answer", f"{key}={ANSWER}")]
            order["command"] = [
                "resume",
                self.run,
                "--json",
                *answers,
                *(["--take-over"] if take_over else []),
            ]
        return int(self.server.ask(start=order))

    def wait(self, pid: int) -> int:
        return int(self.server.ask(wait=pid))

    def kill(self, pid: int, after: int, pause: float) -> int:
        """Kills a process some time after so many new lines are in the log; its exit code, maybe its own."""
        wanted, end = self.size() + after, time.monotonic() + MOST_SECONDS
        while (ended := self.server.ask(poll=pid)) is None and self.size() < wanted:
            assert time.monotonic() < end, "the run hangs"
            time.sleep(0.001)
        if ended is None:
            time.sleep(pause)
            os.kill(pid, signal.SIGKILL)
            ended = self.wait(pid)
        assert ended in (0, 19, -signal.SIGKILL), self.outcome()
        self.find_run()
        return int(ended)

    def size(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.log.read_text().splitlines()]

    def rows(self) -> dict[str, bytes]:
        store = SqliteStore(self.journal)
        rows = store.load(self.run) if self.run else {}
        store.close()
        return rows

    def find_run(self) -> None:
        """A run that has no head yet is not one: it begins anew."""
        store = SqliteStore(self.journal)
        begun = [run for run, rows in store.runs().items() if "head" in rows]
        store.close()
        assert len(begun) <= 1
        self.run = begun[0] if begun else ""

    def status(self) -> str:
        rows = self.rows()
        return str(decode_row(rows["status"])["status"]) if "status" in rows else ""

    def questions(self) -> list[str]:
        """The keys of the questions without an answer."""
        rows = self.rows()
        asked = [key.removesuffix("/question") for key in rows if key.endswith("/question")]
        return [key for key in asked if f"{key}/answer" not in rows]

    def answer_questions(self) -> None:
        if waiting := self.questions():
            journal = Journal.open(SqliteStore(self.journal), self.run)
            for key in waiting:
                journal.put(f"{key}/answer", {"at": time.time(), "text": ANSWER, "by": "resume"})
            journal.close()

    def result(self) -> dict[str, str]:
        """What each step answered, in the journal and in what the last process printed."""
        printed = json.loads((self.root / "out").read_text())
        found = {"the run": printed["last_response"]}
        found |= {step["key"]: step["response"] for step in printed["steps"]}
        rows = self.rows()
        return found | {key: decode_row(rows[key])["response"] for key in rows if key.endswith("/result")}

    def outcome(self) -> str:
        return f"{(self.root / 'out').read_text()}\n{(self.root / 'err').read_text()}"

    def finish(self) -> None:
        """Goes on until the run is done, and answers its questions."""
        for _ in range(10):
            code = self.wait(self.start())
            self.find_run()
            if code == 0:
                return
            assert code == 19, self.outcome()


class Oracle:
    """Compares what was done with what is recorded."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._known: set[str] = set()
        self._lines = 0

    def look(self, trial: Trial) -> None:
        """To be called when no process runs."""
        rows, lines = trial.rows(), trial.lines()
        recorded = recorded_labels(rows)
        again = [line[0] for line in lines[self._lines :] if line[0] in self._known]
        assert not again, f"done again, though it was recorded: {again}"
        lost = [key for key, value in self._kept.items() if rows.get(key) != value]
        assert not lost, f"no longer recorded: {lost}"
        for label, *causes in lines:
            needed = causes if label in recorded else [cause for cause in causes if cause[0] == "M"]
            missing = [cause for cause in needed if cause not in recorded]
            assert not missing, f"{label} was made of {missing}, which are not recorded"
        self._kept = {key: value for key, value in rows.items() if is_final(key)}
        self._known, self._lines = recorded, len(lines)


def is_final(key: str) -> bool:
    return re.search(r"/(model/\d+|tool/\d+/\d+|result|question|answer|begun)$", key) is not None


def recorded_labels(rows: dict[str, bytes]) -> set[str]:
    found: set[str] = set()
    for key, data in rows.items():
        if re.search(r"/model/\d+$", key):
            text = json.dumps(decode_row(data)["message"])
            found |= {label for label in LABEL.findall(text) if label[0] == "M"}
        elif re.search(r"/tool/\d+/\d+$", key):
            found |= {*LABEL.findall(json.dumps(decode_row(data)["arguments"]))}
    return found


def killed_and_resumed(server: Server, root: Path, kind: str, kills: int, seed: int, store: str = "") -> None:
    """Runs until so many processes were killed; each run must come to the same end."""
    whole = Trial(server, root / "whole", kind, store)
    whole.finish()
    Oracle().look(whole)
    chance, done, number = random.Random(seed), 0, 0
    while done < kills:
        number += 1
        trial, oracle, code = Trial(server, root / str(number), kind, store), Oracle(), -1
        while code and done < kills:
            after = chance.randint(0, whole.size() // 2)
            code = trial.kill(trial.start(), after, chance.random() * 0.02)
            done += code == -signal.SIGKILL
            oracle.look(trial)
        if code:
            trial.finish()
            oracle.look(trial)
        assert trial.status() == "done"
        assert trial.result() == whole.result()
        assert {line[0] for line in trial.lines()} == {line[0] for line in whole.lines()}
        assert recorded_labels(trial.rows()) == recorded_labels(whole.rows())


@pytest.mark.parametrize("kind", FLOWS)
def test_a_run_that_is_killed_again_and_again_repeats_and_loses_nothing(
    kind: str, server: Server, tmp_path: Path
) -> None:
    killed_and_resumed(server, tmp_path, kind, KILLS, seed=1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", FLOWS)
def test_a_run_that_is_killed_very_often_repeats_and_loses_nothing(
    kind: str, server: Server, tmp_path: Path
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    killed_and_resumed(server, tmp_path, kind, LONG_KILLS, seed)


@pytest.mark.parametrize("store", ["ForgetfulStore", "LazyStore", "ShufflingStore"])
def test_a_journal_that_is_broken_on_purpose_is_found_out(store: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"not recorded|done again|no longer recorded|=="):
        killed_and_resumed(server, tmp_path, "chain", 30, seed=1, store=store)


def test_a_process_that_was_frozen_while_another_took_its_run_writes_nothing_more(
    server: Server, tmp_path: Path
) -> None:
    trial = Trial(server, tmp_path / "run", "chain")
    first = trial.start()
    while trial.size() < 3:
        time.sleep(0.001)
    freeze(first, trial.journal)
    trial.find_run()
    second = trial.start(take_over=True)
    assert trial.wait(second) == 0, trial.outcome()
    rows, lines, result = trial.rows(), trial.lines(), trial.result()
    os.kill(first, signal.SIGCONT)
    assert trial.wait(first) == 17
    assert "taken over by another process" in trial.outcome()
    assert trial.rows() == rows
    assert trial.size() <= len(lines) + 1  # what it was about to do when it was frozen
    whole = Trial(server, tmp_path / "whole", "chain")
    whole.finish()
    assert result == whole.result()


def freeze(pid: int, journal: Path) -> None:
    """Stops a process, but not while it keeps the journal locked."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        connection = sqlite3.connect(journal, timeout=0.1, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.005)
        else:
            return
        finally:
            connection.close()


def test_a_run_that_a_process_works_on_is_not_resumed_by_another(server: Server, tmp_path: Path) -> None:
    trial = Trial(server, tmp_path, "chain")
    first = trial.start()
    while trial.size() < 2:
        time.sleep(0.001)
    freeze(first, trial.journal)
    trial.find_run()
    assert trial.wait(trial.start()) == 17
    assert f"Run {trial.run} is in use by process {first}." in trial.outcome()
    assert "--take-over" in trial.outcome()
    os.kill(first, signal.SIGCONT)
    assert trial.wait(first) == 0
    Oracle().look(trial)


FULL_DISK = """
mount -t tmpfs -o size=1m tmpfs "$XDG_DATA_HOME"
"$0" -m strands_cli run flow.yaml >out1 2>err1
echo $? >>codes
"$0" -m strands_cli runs list --json >listed 2>>err1
mount -o remount,size=8m "$XDG_DATA_HOME"
"$0" -m strands_cli resume >out2 2>err2
echo $? >>codes
"""


def test_a_run_on_a_full_disk_ends_with_a_clear_error_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root, and unshare of util-linux")
    project = Project(tmp_path / "project")
    steps = "".join(f"      - {{agent: worker, input: go {number}}}\n" for number in range(20))
    project.write(
        "flow.yaml",
        "version: 0\nname: flow\nruntime: {provider: scripted}\nagents: {worker: {prompt: You work.}}\n"
        f"pattern:\n  type: chain\n  config:\n    steps:\n{steps}",
    )
    project.write("answers.yaml", f"- {{answers: ['{'word ' * 5000}']}}\n")
    (tmp_path / "data").mkdir()
    command = ["unshare", "-m", "sh", "-c", FULL_DISK, sys.executable]
    environment = project.environment | {"XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(
        command, cwd=project.root, env=environment, capture_output=True, text=True, check=False, timeout=50
    )
    read = {name: (project.root / name).read_text() for name in ("codes", "err1", "err2", "out2", "listed")}
    assert read["codes"].split() == ["17", "0"], (read, done.stderr)
    assert "runs.db cannot be written: the disk is full." in read["err1"]
    assert "strands resume" in read["err1"]
    assert len(json.loads(read["listed"])) == 1
    assert "word word" in read["out2"]
