"""Signals that end a command: what is finished is kept, what was started is gone, and the exit code is theirs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.test_chat import READY, Window
from tests.projects import Project
from tests.standins import Hang, OllamaStandin

FLOW = """\
version: 0
name: flow
runtime: {provider: ollama}
agents: {worker: {prompt: You work., tools: [slow]}}
tools: {python: [slow]}
pattern:
  type: chain
  config: {steps: [{id: first, agent: worker, input: go}, {id: second, agent: worker, input: go on}]}
outputs:
  artifacts: [{path: first.txt, from: "{{ steps.first.response }}"}]
"""
SLOW = """
def slow(tool=None, **arguments):
    import subprocess
    child = subprocess.Popen(["sleep", "300"])
    with open("child.part", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename("child.part", "child")
    child.wait()
"""
ENDINGS = [signal.SIGTERM, signal.SIGHUP]

pytestmark = pytest.mark.usefixtures("heard_signals")


@pytest.fixture
def ollama() -> Iterator[OllamaStandin]:
    with OllamaStandin() as standin:
        yield standin


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()  # nobody may be there to bury orphans
    except OSError:
        return False


def started(project: Project, *arguments: str, ignored: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "strands_cli", *arguments]
    if ignored:  # as nohup does
        command = ["sh", "-c", f'trap "" {ignored}; exec "$@"', "sh", *command]
    return subprocess.Popen(
        command, cwd=project.root, env=project.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("number", ENDINGS)
def test_a_run_keeps_what_is_finished(
    project: Project, ollama: OllamaStandin, number: signal.Signals
) -> None:
    project.tool("slow", SLOW)
    project.write("flow.yaml", FLOW)
    ollama.enqueue("one").enqueue("word ", Hang())
    with started(project, "run", "flow.yaml", "--host", ollama.url, "--json") as process:
        wait_until(lambda: len(ollama.requests) > 1, "the second step did not begin")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, (out, err)
    told = json.loads(out)
    assert told["error"]["code"] == "interrupted"
    assert [step["response"] for step in told["kept"]["steps"]] == ["one"]
    assert (project.root / "first.txt").read_text() == "one"
    assert "Traceback" not in err


@pytest.mark.parametrize("number", ENDINGS)
def test_what_a_call_has_started_ends_with_it(project: Project, number: signal.Signals) -> None:
    project.tool("slow", SLOW, options="isolate='process', timeout=300")
    with started(project, "tool", "call", "slow") as process:
        wait_until((project.root / "child").exists, "the tool did not start")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + number, ""), err
    assert "Traceback" not in err
    for pid in (project.root / "child").read_text().split():
        wait_until(lambda pid=int(pid): not is_running(pid), f"process {pid} goes on")  # type: ignore[misc]


@pytest.mark.parametrize("number", ENDINGS)
def test_a_second_signal_ends_a_call_that_does_not_listen(project: Project, number: signal.Signals) -> None:
    deaf = "def deaf():\n    print('on', flush=True)\n    while True:\n        time.sleep(0.01)"
    project.tool("deaf", deaf, options="blocking=False, timeout=300")
    with started(project, "tool", "call", "deaf") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "on\n"
        process.send_signal(number)
        time.sleep(0.5)
        for _ in range(2):  # two that come at once are one
            process.send_signal(number)
            time.sleep(0.5)
        _, err = process.communicate(timeout=30)
    # The last one may come when the command has ended and Python is still leaving: a shell says the same of both.
    assert process.returncode in (128 + number, -number)
    assert "Traceback" not in err


def test_a_hangup_that_is_ignored_stays_ignored(project: Project) -> None:
    body = (
        "def waits():\n    print('on', flush=True)\n"
        "    while not os.path.exists('go'): time.sleep(0.02)\n    return 'done'"
    )
    project.tool("waits", body)
    with started(project, "tool", "call", "waits", ignored="HUP") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "on\n"
        process.send_signal(signal.SIGHUP)
        project.write("go", "")
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "done\n"), err


@pytest.mark.parametrize("when", ["at the prompt", "while it answers"])
@pytest.mark.parametrize("number", ENDINGS)
def test_a_conversation_ends(
    project: Project, ollama: OllamaStandin, number: signal.Signals, when: str
) -> None:
    ollama.enqueue("Once upon a time ", Hang())
    opened = Window(project, ("chat", "--provider", "ollama", "--host", ollama.url))
    try:
        opened.expect(READY)
        if when == "while it answers":
            opened.type("Tell me a story.\r")
            opened.expect("Once upon a time")
        opened.process.send_signal(number)
        assert opened.process.wait(30) == 128 + number
    finally:
        opened.close()


@pytest.mark.parametrize("number", ENDINGS)
def test_a_live_display_leaves_a_visible_cursor(project: Project, number: signal.Signals) -> None:
    project.tool("slow", SLOW, options="isolate='process', timeout=300")
    opened = Window(project, ("tool", "call", "slow"))
    try:
        hidden = opened.expect("\x1b[?25l")
        wait_until((project.root / "child").exists, "the tool did not start")
        opened.process.send_signal(number)
        shown = opened.expect("Interrupted.")
        assert opened.process.wait(30) == 128 + number
    finally:
        opened.close()
    assert "\x1b[?25h" not in hidden
    assert shown.rindex("\x1b[?25h") > shown.rfind("\x1b[?25l")


def test_a_terminal_that_goes_away_ends_the_command(project: Project) -> None:
    project.tool("slow", SLOW, options="isolate='process', timeout=300")
    opened = Window(project, ("tool", "call", "slow"))
    try:
        opened.expect("\x1b[?25l")
        wait_until((project.root / "child").exists, "the tool did not start")
        os.close(opened.detach())  # the kernel sends SIGHUP to whom the terminal belongs
        assert opened.process.wait(30) == 128 + signal.SIGHUP
    finally:
        opened.process.kill()
    for pid in (project.root / "child").read_text().split():
        wait_until(lambda pid=int(pid): not is_running(pid), f"process {pid} goes on")  # type: ignore[misc]
