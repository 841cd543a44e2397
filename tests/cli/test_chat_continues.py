"""`strands chat --continue`: a conversation is kept, and goes on where it was."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strands_cli.exec.run_archive import archive_lines
from strands_cli.exec.stores import SqliteStore
from tests.cli.recorded_runs import store_of
from tests.projects import Outcome, Project

ANSWERS = """\
- {when: My name is, answers: ["Hello, {{ prompt | replace('My name is ', '') }}."]}
- {when: note it, answers: [{call: note}, "I noted it."]}
- {when: slowly, answers: [{call: note}, {wait: 60, text: Late.}]}
"""
SCRIPTED = ("--provider", "scripted", "--model", "answers.yaml")


@pytest.fixture
def talk(project: Project) -> Project:
    project.write("answers.yaml", ANSWERS)
    body = "def note():\n    open('noted', 'a').write('x')\n    return 'noted'"
    project.tool("note", body)
    return project


def chat(project: Project, *arguments: str, text: str) -> Outcome:
    return project.strands("chat", *arguments, input=text)


def messages(project: Project, *arguments: str) -> list[str]:
    """Who spoke, as a conversation that goes on has it."""
    saved = chat(project, "--continue", *arguments, text="/save! talk.md\n")
    assert saved.exit_code == 0, saved
    text = (project.root / "talk.md").read_text()
    return [line for line in text.splitlines() if line and not line.startswith(("```", "#"))]


def test_a_conversation_goes_on_with_its_model_its_tools_and_all_that_was_spoken(talk: Project) -> None:
    first = chat(talk, *SCRIPTED, "--tools", "note", "--system", "Be kind.", text="My name is Ada\nnote it\n")
    assert first.out == "Hello, Ada.\nI noted it.\n", first
    listed = talk.strands("runs", "list").out
    assert ("chat" in listed, "done" in listed, "2 steps" in listed) == (True, True, True)
    again = chat(talk, "--continue", text="/model\n/tools\nMy name is Bo\n")
    assert again.out == "Hello, Bo.\n", again
    assert ("scripted answers.yaml" in again.err, "note " in again.err) == (True, True)
    spoken = messages(talk)
    assert spoken[:2] == ["My name is Ada", "Hello, Ada."]
    assert spoken[-2:] == ["My name is Bo", "Hello, Bo."]
    assert "Calls `note` with:" in spoken
    shown = talk.strands("runs", "show", "--transcript").out
    assert ("Be kind." in shown, "Hello, Bo." in shown) == (True, True), shown


def test_a_conversation_cannot_be_moved_and_says_how_to_keep_it(talk: Project, tmp_path: Path) -> None:
    assert chat(talk, *SCRIPTED, text="My name is Ada\n").exit_code == 0
    [run] = talk.strands("runs", "list", "--json").json["runs"]
    refused = talk.strands("runs", "export", run["id"])
    assert refused.exit_code == 17, refused
    assert refused.err == (
        f"error: Run {run['id']} is a chat, which cannot be exported.\n"
        f"  Print it: strands runs show {run['id']} --transcript\n"
    )
    store = store_of(talk)
    (tmp_path / "talk.jsonl").write_bytes(b"".join(archive_lines(run["id"], store.load(run["id"]))))
    store.close()
    imported = talk.strands("runs", "import", str(tmp_path / "talk.jsonl"))
    assert (imported.exit_code, "is a chat, which cannot be imported" in imported.err) == (17, True)


@pytest.mark.long
def test_a_new_conversation_is_kept_by_itself_and_an_empty_one_not_at_all(talk: Project) -> None:
    chat(talk, *SCRIPTED, text="My name is Ada\n/clear\nMy name is Bo\n")
    chat(talk, *SCRIPTED, text="/model\n")
    chat(talk, *SCRIPTED, "--no-save-session", text="My name is Cy\n")
    runs = talk.strands("runs", "list", "--json").json["runs"]
    assert [run["steps"] for run in runs] == [1, 1]
    assert messages(talk) == ["My name is Bo", "Hello, Bo."]
    assert messages(talk, runs[-1]["id"]) == ["My name is Ada", "Hello, Ada."]


def test_a_message_that_was_not_answered_is_sent_again_and_its_tools_do_not_run_twice(talk: Project) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "strands_cli", "chat", *SCRIPTED, "--tools", "note"],
        cwd=talk.root,
        env=talk.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"My name is Ada\nslowly\n")
    process.stdin.flush()
    store = SqliteStore(Path(talk.environment["XDG_DATA_HOME"]) / "strands-cli" / "runs.db")
    while not any("turns/2/tool/1/0" in store.load(run) for run in store.runs()):
        assert process.poll() is None
        time.sleep(0.05)
    store.close()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    talk.write("answers.yaml", ANSWERS.replace("{wait: 60, text: Late.}", "Late."))
    again = chat(talk, "--continue", text="My name is Bo\n")
    assert again.out == "Late.\nHello, Bo.\n", again
    assert "was not answered, and is sent again: slowly" in again.err
    assert (talk.root / "noted").read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "reason"),
    [
        (("--continue",), 17, "There is no conversation in this project yet."),
        (("--continue", "zzzz"), 17, "There is no run 'zzzz'."),
    ],
)
def test_what_is_not_a_conversation_does_not_go_on(
    talk: Project, arguments: tuple[str, ...], exit_code: int, reason: str
) -> None:
    outcome = chat(talk, *arguments, text="hi\n")
    assert (outcome.exit_code, reason in outcome.err) == (exit_code, True), outcome
