"""`strands dev`: what it shows when files change, and what it runs then."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

import pytest

from tests.projects import Project

SECONDS = 50
GREET = '''from strands_cli import tool


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"
'''
FLOW = """version: 0
name: flow
runtime: {provider: ollama, model_id: tiny}
agents: {one: {prompt: Hi}}
pattern: {type: chain, config: {steps: [{agent: one, input: Hi}]}}
"""


class Dev:
    """A running `strands dev`, and what it has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.shown: list[str] = []
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, pattern: str) -> list[str]:
        """The lines up to the first one that matches, without the time of day."""
        lines: list[str] = []
        while not lines or not re.search(pattern, lines[-1]):
            lines.append(re.sub(r"^\d\d:\d\d:\d\d  ", "", self._lines.get(timeout=SECONDS)))
        self.shown += lines
        return lines

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)

    def rest(self) -> list[str]:
        """The lines that nobody has read, once the process has ended."""
        self._reader.join()
        return [self._lines.get_nowait() for _ in range(self._lines.qsize())]


@contextmanager
def developing(project: Project, *words: str) -> Iterator[Dev]:
    process = subprocess.Popen(
        [sys.executable, "-m", "strands_cli", "dev", *words],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        dev = Dev(process)
        dev.until("Watching")
        yield dev
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_call_is_repeated_after_every_save_that_is_not_broken(project: Project) -> None:
    project.write("tools/greet.py", GREET)
    with developing(project, "greet", "name=Ada") as dev:
        assert dev.until("^done")[:2] == ["$ strands tool call greet name=Ada", "Hello, Ada!"]
        project.write("tools/greet.py", GREET.replace("Hello", "Bonjour").replace("Greet somebody", "Greet"))
        assert dev.until("^done")[:3] == [
            "~ greet  description, code",
            "$ strands tool call greet name=Ada",
            "Bonjour, Ada!",
        ]
        project.write("tools/greet.py", GREET.replace("-> str:", "-> str"))
        assert dev.until("!")[-1] == "! tools/greet.py:5: Syntax error: expected ':'."
        project.write("tools/greet.py", GREET)
        assert dev.until("^done")[-4:-1] == [
            "recovered tools/greet.py",
            "$ strands tool call greet name=Ada",
            "Hello, Ada!",
        ]
        (project.root / "tools/greet.py").unlink()
        dev.until("^- greet")
        assert dev.until("^! exit code")[-1].startswith("! exit code 2,")
        assert dev.end() == 130
    assert sum(line.startswith("$") for line in dev.shown) == 4  # nothing ran while the file was broken


def test_saves_during_a_run_start_it_once_more_and_what_it_writes_does_not(project: Project) -> None:
    body = """
    from pathlib import Path
    log = Path("log.json")
    log.write_text((log.read_text() if log.exists() else "") + "1")
    while name == "slow" and not Path("go").exists():
        import time
        time.sleep(0.01)
    return "old"
"""
    slow = GREET.replace('    return f"Hello, {name}!"\n', body)
    project.write("tools/greet.py", slow)
    with developing(project, "greet", "name=slow") as dev:
        dev.until(r"^\$")
        while not (project.root / "log.json").exists():
            time.sleep(0.01)
        for number in range(3):
            project.write("tools/greet.py", slow.replace("old", f"new {number}"))
            assert dev.until("~") == ["~ greet  code"]
        project.write("go", "")
        assert dev.until("^done")[-2] == "old"
        assert dev.until("^done")[-2] == "new 2"
        project.write("data.json", "{}")
        project.write("tools/other.py", GREET.replace("greet", "other"))
        dev.until(r"^\+ other")
        dev.until("^done")
    assert (project.root / "log.json").read_text() == "111"


def test_a_workflow_that_changes_is_validated_and_tests_of_a_changed_tool_run(project: Project) -> None:
    project.write("tools/greet.py", GREET)
    project.write("tests/test_greet.py", "def test_nothing():\n    assert 1 == 2, 'on purpose'\n")
    with developing(project, "--test") as dev:
        project.write("flow.yaml", FLOW.replace("prompt", "promt"))
        assert dev.until(r"^\$") == ["+ flow.yaml", "$ strands validate flow.yaml"]
        assert "flow.yaml:4:" in " ".join(dev.until("^! exit code 3"))
        project.write("flow.yaml", FLOW)
        assert dev.until("^done")[0] == "~ flow.yaml"
        project.write("tools/greet.py", GREET.replace("Hello", "Bonjour"))
        assert dev.until(r"^\$") == ["~ greet  code", "$ pytest -q tests/test_greet.py"]
        assert any("on purpose" in line for line in dev.until("^! exit code 1"))
        project.write("tools/other.py", GREET.replace("greet", "other"))
        dev.until("other has no tests. Write them in tests/test_other.py.")


def test_the_name_of_a_file_is_never_read_as_an_option(project: Project) -> None:
    with developing(project, "--test") as dev:
        project.write("--debug.yaml", FLOW)
        assert dev.until(r"^\$")[-1] == "$ strands validate ./--debug.yaml"
        dev.until("^done")
        project.write("-p evil/test_one.py", "def test_one():\n    pass\n")
        assert dev.until(r"^\$")[-1] == "$ pytest -q './-p evil/test_one.py'"
        dev.until("^done")


def test_what_is_broken_from_the_start_is_shown(project: Project) -> None:
    project.write("tools/greet.py", f"1 / 0\n{GREET}")
    with developing(project) as dev:
        assert dev.until("!")[-1] == "! tools/greet.py:1: ZeroDivisionError: division by zero"
        project.write("tools/greet.py", GREET)
        dev.until("^recovered tools/greet.py")
        assert (dev.end(), dev.rest()) == (130, [])


def test_it_ends_when_nobody_reads_its_output_any_more(project: Project) -> None:
    command = [sys.executable, "-m", "strands_cli", "dev"]
    with subprocess.Popen(
        command, cwd=project.root, env=project.environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert "Watching" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gret",), "There is no tool or command 'gret'."),
        (("dev", "greet"), "'strands dev' cannot repeat itself."),
        (("--tset",), "No such option"),
    ],
)
def test_a_target_that_means_nothing_is_refused(
    words: tuple[str, ...], message: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = project.here(capsys, "dev", *words)
    assert outcome.exit_code == 2
    assert message in outcome.err
