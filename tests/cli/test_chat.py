"""`strands chat`: line by line in a pipe, and with a person at a real pseudo-terminal."""

import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strands_cli.cli.chat.screen import CleanStream
from tests.fakes import Call, Pause, tool_call
from tests.projects import Outcome, Project
from tests.standins import Cut, Hang, OllamaStandin, OpenAIStandin, Standin, Status

FLOW = """
version: 0
name: talk
runtime: {provider: ollama, failure_policy: {retries: 0}}
inputs:
  required: {topic: string}
env: {secrets: [{name: token, source: env, key: CHAT_TOKEN}]}
agents:
  writer:
    prompt: "You write about {{ topic }}."
    tools: [echo]
  critic:
    prompt: "You judge {{ last_response }}."
tools: {python: [echo, calculator]}
security: {consent: {echo: ask, calculator: deny}}
pattern:
  type: chain
  config: {steps: [{agent: writer, input: go}, {agent: critic, input: go}]}
"""
NOTE = """
def note(tool, **arguments):
    print("noise of a tool")
    with open("noted", "a") as file:
        file.write("x")
    return "noted"
"""


@pytest.fixture
def ollama() -> Iterator[OllamaStandin]:
    with OllamaStandin() as standin:
        yield standin


@pytest.fixture
def openai() -> Iterator[OpenAIStandin]:
    with OpenAIStandin() as standin:
        yield standin


def to(standin: Standin, *arguments: str) -> tuple[str, ...]:
    provider = "ollama" if isinstance(standin, OllamaStandin) else "openai"
    return ("chat", "--provider", provider, "--host", standin.url, *arguments)


def said(project: Project, standin: Standin, lines: str, *arguments: str, **env: str) -> Outcome:
    return project.strands(*to(standin, *arguments), input=lines, **env)


@pytest.mark.parametrize("host", ["http://localhost:99999", "http://", "two words"])
def test_a_host_that_is_not_an_address_is_a_mistake_of_the_command_line(project: Project, host: str) -> None:
    outcome = project.strands("chat", "--provider", "ollama", "--host", host, input="hi\n")
    assert outcome.exit_code == 2, outcome
    assert f"error: The host {host!r} is not an address: it" in outcome.err


def asked(standin: Standin, index: int = -1) -> list[tuple[str, str]]:
    """Who said what, as the provider got it."""
    messages = standin.requests[index].body["messages"]
    return [(message["role"], message.get("content") or "") for message in messages]


# --- Line by line -----------------------------------------------------------------------------------------


def test_answers_are_all_that_goes_to_standard_output(project: Project, ollama: OllamaStandin) -> None:
    project.tool("note", NOTE)
    ollama.enqueue("Hello.").enqueue("I note it. ", tool_call("note")).enqueue("Noted.\n\nAnything else?")
    outcome = said(project, ollama, "Hi!\n\nNote it.\n", "--tools", "note,calculator")
    assert (outcome.exit_code, outcome.out) == (0, "Hello.\nNoted.\n\nAnything else?\n")
    assert re.search(r"^  note\(\)\s+✓ \d+ ms$", outcome.err, re.MULTILINE), outcome
    assert "noise of a tool" in outcome.err
    assert "16 tokens" in outcome.err
    tools = [tool["function"]["name"] for tool in ollama.requests[0].body["tools"]]
    assert tools == ["note", "calculator"]
    assert [role for role, _ in asked(ollama)][:4] == ["system", "user", "assistant", "user"]


def test_a_model_cannot_act_on_the_terminal(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("a\x1b[2Jb\x1b]0;title\x07c\rd\x9b31me")
    assert said(project, ollama, "Hi!\n").out == "abc\nde\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_sequence_that_comes_in_pieces_is_still_taken_out(size: int) -> None:
    text = "one\x1b[31;1mtwo\x1b]0;a title\x1b\\three\r\nfour\x1b(Bfive\x1b"
    stream = CleanStream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
    assert shown == "onetwothree\nfourfive"


def test_the_conversation_goes_on_when_the_provider_comes_back(
    project: Project, ollama: OllamaStandin
) -> None:
    project.write("flow.yaml", FLOW)
    ollama.enqueue(Cut()).enqueue("I am back.")
    arguments = (*to(ollama), "flow.yaml", "--agent", "writer", "--var", "topic=tea")
    outcome = project.strands(*arguments, input="Are you there?\nAnd now?\n", CHAT_TOKEN="sesame-open")
    assert (outcome.exit_code, outcome.out) == (10, "I am back.\n")
    assert outcome.err.count("error:") == 1
    assert asked(ollama) == [("system", "You write about tea."), ("user", "And now?")]


def test_a_refusal_after_a_tool_call_is_no_bug(project: Project, openai: OpenAIStandin) -> None:
    openai.enqueue(tool_call("echo", message="hi")).enqueue(Status(401, "no such key")).enqueue("Fine.")
    outcome = said(project, openai, "Hi!\nAgain?\n", "--tools", "echo", OPENAI_API_KEY="x")
    assert (outcome.exit_code, outcome.out) == (10, "Fine.\n")
    assert "no such key" in outcome.err
    assert "Traceback" not in outcome.err
    assert "Task was destroyed" not in outcome.err
    assert [role for role, _ in asked(openai)] == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_tool_input_that_is_no_json_is_shown_and_told_to_the_model(
    project: Project, openai: OpenAIStandin
) -> None:
    openai.enqueue(Call("echo", '{"message": "h')).enqueue("I could not.")
    outcome = said(project, openai, "Echo!\n", "--tools", "echo", OPENAI_API_KEY="x")
    assert (outcome.exit_code, outcome.out) == (0, "I could not.\n")
    assert "✗ input_malformed" in outcome.err
    assert "failed to parse" not in outcome.err, "the SDK's log is not for users"
    assert "input_malformed" in json.dumps(openai.requests[-1].body["messages"][-1])


def test_consent_that_nobody_can_give_is_refused_and_yes_gives_it(
    project: Project, ollama: OllamaStandin
) -> None:
    project.tool("note", NOTE, options="requires_consent=True")
    for _ in range(2):
        ollama.enqueue(tool_call("note")).enqueue("Done.")
    refused = said(project, ollama, "Note it.\n", "--tools", "note")
    assert "consent_required" in refused.err
    assert "--yes gives it in advance" in refused.err
    assert not (project.root / "noted").exists()
    assert "✓" in said(project, ollama, "Note it.\n", "--tools", "note", "--yes").err
    assert (project.root / "noted").exists()


def test_commands_are_done_and_not_sent(project: Project, ollama: OllamaStandin) -> None:
    project.tool("note", NOTE, options="requires_consent=True")
    lines = "/help\n/tools\n/model\n/sav x\n/tools x\n/save\n"
    outcome = said(project, ollama, lines, "--tools", "note,echo", "--model", "tiny")
    assert (outcome.exit_code, outcome.out, ollama.requests) == (2, "", [])
    assert re.search(r"note +asks for your consent +A test tool", outcome.err)
    assert f"ollama tiny at {ollama.url}" in outcome.err
    assert "Did you mean '/save'?" in outcome.err
    assert "The command is /tools." in outcome.err
    assert "The command is /save FILE." in outcome.err


def test_a_message_may_begin_with_a_slash_and_quit_leaves(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("A directory.")
    outcome = said(project, ollama, "//etc?\n/quit\nnever sent\n", "--system", "")
    assert (outcome.exit_code, outcome.out) == (0, "A directory.\n")
    assert asked(ollama) == [("user", "/etc?")]


def test_a_new_conversation_forgets_the_old_one(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("One.").enqueue("Two.")
    said(project, ollama, "First?\n/clear\nSecond?\n", "--system", "Be short.")
    assert asked(ollama) == [("system", "Be short."), ("user", "Second?")]


def test_a_conversation_is_saved_for_people_and_for_programs(project: Project, ollama: OllamaStandin) -> None:
    project.write("taken.md", "mine")
    ollama.enqueue(tool_call("echo", message="``` \x1b[31mred")).enqueue("It says so.")
    lines = "Echo!\n/save talk.json\n/save taken.md\n/save! talk.md\n/save! .\n/save no/such/place\n"
    outcome = said(project, ollama, lines, "--tools", "echo")
    assert (project.root / "taken.md").read_text() == "mine"
    assert "/save! taken.md replaces it." in outcome.err
    assert outcome.err.count("error:") == 3
    document = json.loads((project.root / "talk.json").read_text())
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "user", "assistant"]
    page = (project.root / "talk.md").read_text()
    assert re.findall("^## .*$", page, re.MULTILINE) == ["## You", "## Model"]
    assert "Calls `echo` with:\n\n````json\n" in page
    assert "\x1b" not in page
    assert sorted(path.name for path in project.root.iterdir()) == [
        "strands.toml", "taken.md", "talk.json", "talk.md",
    ]  # fmt: skip


def test_a_failed_tool_says_why_once(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue(tool_call("calculator", expression="1/0")).enqueue("No.")
    outcome = said(project, ollama, "Divide!\n/save talk.md\n", "--tools", "calculator")
    assert "    Division by zero: 1 / 0\n" in outcome.err
    page = (project.root / "talk.md").read_text()
    assert "The tool fails:\n\n```text\nDivision by zero: 1 / 0\n" in page
    assert page.count("Division by zero") == 1


def test_an_agent_of_a_workflow_has_its_prompt_tools_and_rules(
    project: Project, ollama: OllamaStandin
) -> None:
    project.write("flows/flow.yaml", FLOW)
    ollama.enqueue(tool_call("calculator", expression="1+1")).enqueue("The token is sesame-open.")
    arguments = (*to(ollama), "flows/flow.yaml", "--var", "topic=tea", "--tools", "calculator", "--yes")
    outcome = project.strands(
        *arguments, "--agent", "writer", input="Hi!\n/tools\n/save a.md\n", CHAT_TOKEN="sesame-open"
    )
    assert (outcome.exit_code, outcome.out) == (0, "The token is ***.\n")
    assert "sesame" not in outcome.err + (project.root / "a.md").read_text()
    assert asked(ollama, 0)[0] == ("system", "You write about tea.")
    names = [tool["function"]["name"] for tool in ollama.requests[0].body["tools"]]
    assert names == ["echo", "calculator"]
    assert "✗ denied" in outcome.err
    assert re.search(r"echo +asks for your consent", outcome.err)


def test_the_log_of_a_chat_has_no_secret(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", FLOW)
    project.tool("boom", "def boom():\n    import os\n    raise ValueError(os.environ['CHAT_TOKEN'])")
    ollama.enqueue(tool_call("boom")).enqueue("It failed.")
    arguments = ("flow.yaml", "--agent", "writer", "--var", "topic=tea", "--tools", "boom", "--yes")
    outcome = said(project, ollama, "Hi!\n", *arguments, CHAT_TOKEN="sesame-open", STRANDS_LOG="tools=info")
    assert outcome.exit_code == 0
    assert "Traceback" in outcome.err
    assert "sesame" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "exit_code", "expected"),
    [
        (("flow.yaml",), 2, "flow.yaml has several agents: writer, critic"),
        (("flow.yaml", "--agent", "wirter"), 2, "Did you mean 'writer'?"),
        (("flow.yaml", "--agent", ""), 2, "There is no agent ''"),
        (("flow.yaml", "--agent", "critic"), 2, "last_response"),
        (("flow.yaml", "--agent", "writer", "--tools", "ehco"), 2, "Did you mean 'echo'?"),
        (("--tools", "calculater"), 2, "Did you mean 'calculator'?"),
        (("--agent", "writer"), 2, "--agent needs a workflow"),
        (("--var", "topic=tea"), 2, "--var needs a workflow"),
        (("gone.yaml",), 3, "gone.yaml"),
    ],
)
def test_what_cannot_be_talked_to_is_told_before_anything_is_asked(
    project: Project, ollama: OllamaStandin, arguments: tuple[str, ...], exit_code: int, expected: str
) -> None:
    project.write("flow.yaml", FLOW)
    more = ("--var", "topic=tea") if "flow.yaml" in arguments else ()
    outcome = project.strands(*to(ollama), *arguments, *more, input="Hi!\n", CHAT_TOKEN="sesame-open")
    assert (outcome.exit_code, outcome.out, ollama.requests) == (exit_code, "", [])
    assert expected in outcome.err


def test_a_missing_input_is_named(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", FLOW)
    outcome = project.strands(*to(ollama), "flow.yaml", "--agent", "writer", CHAT_TOKEN="sesame-open")
    assert outcome.exit_code == 3
    assert "topic" in outcome.err


def offered(project: Project, ollama: OllamaStandin, *arguments: str) -> list[str]:
    """The tools that `/tools` lists."""
    shown = project.strands(*to(ollama, *arguments), input="/tools\n")
    assert shown.exit_code == 0, shown
    return re.findall(r"^  (\S+)  ", shown.err, re.MULTILINE)


def with_tools(project: Project) -> Project:
    """A project with a tool, one that cannot be imported, and a plugin with two tools and an unavailable one."""
    project.environment["XDG_CONFIG_HOME"] = str(project.root.parent / "config")
    project.tool("note", NOTE)
    project.tool("broken", "import nothing_of_the_kind\ndef broken(tool, **kw): pass")
    tools = [{"name": name, "path": "t.sh", "description": "T."} for name in ("one", "two")]
    absent = {**tools[0], "name": "three", "requires": {"binaries": ["no-such-program"]}}
    manifest = {"name": "my-plugin", "cli_tools": [*tools, absent]}
    project.write("plugins/my-plugin/plugin.json", json.dumps(manifest))
    project.write("plugins/my-plugin/t.sh", "#!/bin/sh\necho '{}'\n").chmod(0o755)
    return project


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        ((), ["broken", "my-plugin__one", "my-plugin__two", "note"]),  # whose code has not run yet
        (("--tools", "my-plugin"), ["my-plugin__one", "my-plugin__two"]),
        (("--tools", "my-plugin__t*"), ["my-plugin__two"]),
        (("--tools", "echo, n?te"), ["echo", "note"]),
        (("--tools", "project", "--tools", "echo"), ["echo", "my-plugin__one", "my-plugin__two", "note"]),
        (("--tools", "none"), []),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_a_chat_has_the_projects_tools_or_those_that_are_asked_for(
    project: Project, ollama: OllamaStandin, options: tuple[str, ...], tools: list[str]
) -> None:
    assert sorted(offered(with_tools(project), ollama, *options)) == tools


def test_a_chat_in_a_project_without_tools_begins_without_any(
    project: Project, ollama: OllamaStandin
) -> None:
    project.environment["XDG_CONFIG_HOME"] = str(project.root.parent / "config")
    assert offered(project, ollama) == []


def test_all_tools_are_the_projects_and_ours(project: Project, ollama: OllamaStandin) -> None:
    found = offered(with_tools(project), ollama, "--tools", "all")
    assert {"my-plugin__one", "note", "echo", "file_read", "calculator"} <= {*found}
    assert not {"broken", "my-plugin__three"} & {*found}


@pytest.mark.long
def test_a_tool_that_nobody_named_is_left_out_with_a_warning_where_it_cannot_be_used(
    project: Project, ollama: OllamaStandin
) -> None:
    shown = with_tools(project).strands(*to(ollama), input="/tools\n")
    assert "my-plugin__three is left out: the program no-such-program is not on the PATH" in shown.err
    loaded = project.strands(*to(ollama, "--tools", "project"), input="/tools\n")
    assert "broken is left out: Failed to load tool 'broken'" in loaded.err
    named = project.strands(*to(ollama, "--tools", "broken"), input="/tools\n")
    assert named.exit_code == 18
    unknown = project.strands(*to(ollama, "--tools", "your-plugin__*"), input="/tools\n")
    assert (unknown.exit_code, "Unknown tool: your-plugin__*" in unknown.err) == (2, True)


def test_a_tool_that_nobody_named_asks_for_consent_and_one_that_was_named_does_not(
    project: Project, ollama: OllamaStandin
) -> None:
    with_tools(project)
    ollama.enqueue(tool_call("note")).enqueue("Sorry.").enqueue(tool_call("note")).enqueue("Done.")
    refused = project.strands(*to(ollama), input="Note it.\n")
    assert "consent_required" in refused.err
    assert not (project.root / "noted").exists()
    assert project.strands(*to(ollama, "--tools", "note"), input="Note it.\n").out == "Done.\n"
    assert (project.root / "noted").exists()


def test_a_tool_may_be_a_file_of_this_directory(project: Project, ollama: OllamaStandin) -> None:
    source = (
        'from strands_cli import tool\n\n@tool\ndef note() -> str:\n    "Notes it."\n    return "noted"\n'
    )
    project.write("elsewhere/mine.py", source)
    ollama.enqueue(tool_call("note")).enqueue("Noted.")
    outcome = said(project, ollama, "Hi!\n", "--tools", "./elsewhere/mine.py:note")
    assert (outcome.exit_code, outcome.out) == (0, "Noted.\n")


# --- At a terminal ----------------------------------------------------------------------------------------


IN_ITS_TERMINAL = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("strands_cli", run_name="__main__")
"""
READY = "\x1b[?2004h"
"""What the editor of lines sends when it begins: pasted text is to be marked."""


class Window:
    """A pseudo-terminal in which `strands` runs."""

    def __init__(self, project: Project, arguments: tuple[str, ...]) -> None:
        self._ours, theirs = pty.openpty()
        self._shown = ""
        environment = {
            name: value for name, value in project.environment.items() if name not in ("CI", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_ITS_TERMINAL, *arguments],
            cwd=project.root,
            env=environment | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "NO_COLOR": "1"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def expect(self, text: str, seconds: float = 30) -> str:
        """Reads until the text is shown; what came before it, and the text."""
        end = time.monotonic() + seconds
        while text not in self._shown:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} is not shown in {self._shown!r}"
            if select.select([self._ours], [], [], left)[0]:
                self._shown += self._read()
        before, _, self._shown = self._shown.partition(text)
        return before + text

    def _read(self) -> str:
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:  # as Linux says that the other side is closed
            piece = b""
        assert piece, f"it has ended: {self._shown!r}"
        return piece.decode("utf-8", "replace")

    def expect_prompt(self) -> None:
        self.expect(READY)

    def detach(self) -> int:
        """Our side of the terminal, for whoever wants to close it."""
        ours, self._ours = self._ours, -1
        return ours

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def window(project: Project, *arguments: str) -> Iterator[Window]:
    opened = Window(project, arguments)
    try:
        opened.expect_prompt()
        yield opened
        opened.type("\x04")
        assert opened.process.wait(30) == 0
    finally:
        opened.close()


def last_question(standin: Standin) -> str:
    return asked(standin)[-1][1]


def wait_for(standin: Standin, requests: int) -> None:
    end = time.monotonic() + 20
    while len(standin.requests) < requests:
        assert time.monotonic() < end, "the model was not asked"
        time.sleep(0.02)


def test_ctrl_c_stops_the_answer_and_not_the_program(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("Once upon a time ", Hang()).enqueue("there was a king.")
    with window(project, *to(ollama)) as shown:
        shown.type("Tell me a story.\r")
        shown.expect("Once upon a time")
        shown.type("\x03")
        shown.expect("stopped")
        shown.expect_prompt()
        shown.type("Go on.\r")
        shown.expect("there was a king.")
        shown.expect_prompt()
    roles = asked(ollama)
    assert [role for role, _ in roles] == ["system", "user", "assistant", "user"]
    assert roles[2][1].startswith("Once upon a time\n\n(Stopped")


def test_ctrl_c_stops_a_tool(project: Project, ollama: OllamaStandin) -> None:
    project.tool("slow", "def slow(tool, **arguments):\n    time.sleep(60)\n    return 'late'")
    ollama.enqueue(tool_call("slow")).enqueue("Never mind.")
    with window(project, *to(ollama, "--tools", "slow")) as shown:
        shown.type("Be slow.\r")
        shown.expect("slow()")
        shown.type("\x03")
        shown.expect("✗ cancelled")
        shown.expect_prompt()
        shown.type("And?\r")
        shown.expect("Never mind.")
        shown.expect_prompt()


@pytest.mark.parametrize("new_line", ["\x1b\r", "\n"], ids=["Alt-Enter", "Ctrl-J"])
def test_a_message_may_have_several_lines(project: Project, ollama: OllamaStandin, new_line: str) -> None:
    ollama.enqueue("I see.")
    with window(project, *to(ollama)) as shown:
        shown.type(f"one{new_line}two\r")
        shown.expect("I see.")
        shown.expect_prompt()
    assert last_question(ollama) == "one\ntwo"


def test_ctrl_c_drops_the_line_and_tab_completes_commands(project: Project, ollama: OllamaStandin) -> None:
    with window(project, *to(ollama, "--tools", "echo")) as shown:
        shown.type("never sent\x03")
        shown.expect_prompt()
        shown.type("/too\t\r")
        shown.expect("Returns the input message")
        shown.expect_prompt()
    assert ollama.requests == []


def test_what_was_typed_is_there_the_next_time_and_for_nobody_else(
    project: Project, ollama: OllamaStandin
) -> None:
    for _ in range(2):
        ollama.enqueue("Yes.")
    with window(project, *to(ollama)) as shown:
        shown.type("Remember me?\r")
        shown.expect("Yes.")
        shown.expect_prompt()
    with window(project, *to(ollama)) as shown:
        shown.type("\x1b[A\r")
        shown.expect("Yes.")
        shown.expect_prompt()
    assert last_question(ollama) == "Remember me?"
    history = Path(project.environment["XDG_CACHE_HOME"]) / "strands-cli" / "chat-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_waiting_for_a_model_and_for_a_tool_is_seen_with_its_seconds(
    project: Project, ollama: OllamaStandin
) -> None:
    body = (
        "def count(context: ToolContext):\n    context.progress('page 12 of 40')\n"
        "    while not os.path.exists('end'):\n        time.sleep(0.05)\n    return 'counted'"
    )
    project.tool("count", body, options="version='1.0.0'")
    ollama.enqueue(Pause(2.5), "Well.", tool_call("count")).enqueue("Done.")
    with window(project, *to(ollama, "--tools", "count")) as shown:
        shown.type("Count.\r")
        shown.expect("waiting for ollama")
        shown.expect(" 1 s")
        shown.expect("page 12 of 40")
        project.write("end", "")
        shown.expect("count()  ✓")
        shown.expect("Done.")
        shown.expect_prompt()


def test_consent_is_given_once_refused_or_for_the_whole_conversation(
    project: Project, ollama: OllamaStandin
) -> None:
    project.tool("note", NOTE, options="requires_consent=True")
    for _ in range(5):
        ollama.enqueue(tool_call("note")).enqueue("Done.")
    with window(project, *to(ollama, "--tools", "note")) as shown:
        for said_to_it, outcome in (
            ("\r", "✗ denied"),
            ("\x04", "✗ denied"),
            ("y\r", "✓"),
            ("a\r", "✓"),
            ("", "✓"),
        ):
            shown.type("Note it.\r")
            if said_to_it:
                shown.expect("Run note (0 B)? [y/N/a]")
                shown.type(said_to_it)
            shown.expect(outcome)
            shown.expect("Done.")
            shown.expect_prompt()
    assert (project.root / "noted").read_text() == "xxx"


def test_ctrl_c_at_a_question_stops_the_answer(project: Project, ollama: OllamaStandin) -> None:
    project.tool("note", NOTE, options="requires_consent=True")
    ollama.enqueue(tool_call("note")).enqueue("As you like.")
    with window(project, *to(ollama, "--tools", "note")) as shown:
        shown.type("Note it.\r")
        shown.expect("Run note (0 B)? [y/N/a]")
        shown.type("\x03")
        shown.expect("stopped")
        shown.expect_prompt()
        shown.type("Leave it.\r")
        shown.expect("As you like.")
        shown.expect_prompt()
    assert not (project.root / "noted").exists()


def test_a_file_is_replaced_only_after_a_yes(project: Project, ollama: OllamaStandin) -> None:
    taken = project.write("taken.md", "mine")
    with window(project, *to(ollama)) as shown:
        for answer, is_kept in (("\x03", True), ("n\r", True), ("y\r", False)):
            shown.type("/save taken.md\r")
            shown.expect("Replace it? [y/N]")
            shown.type(answer)
            shown.expect("already exists" if is_kept else "Wrote 0 messages")
            shown.expect_prompt()
            assert (taken.read_text() == "mine") is is_kept


def test_a_provider_that_fails_leaves_the_person_at_the_prompt(
    project: Project, ollama: OllamaStandin
) -> None:
    ollama.enqueue(Status(400, "what \x1b[2Jis this?")).enqueue("Better.")
    with window(project, *to(ollama)) as shown:
        shown.type("Hi!\r")
        assert "\x1b[2J" not in shown.expect("is this?")
        shown.expect_prompt()
        shown.type("Hello!\r")
        shown.expect("Better.")
        shown.expect_prompt()
    assert [text for role, text in asked(ollama) if role == "user"] == ["Hello!"]


def test_an_answer_is_shown_as_it_comes(project: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("first ", Pause(30), "second")
    with window(project, *to(ollama)) as shown:
        shown.type("Hi!\r")
        wait_for(ollama, 1)
        shown.expect("first", seconds=10)
        shown.type("\x03")
        shown.expect("stopped")
        shown.expect_prompt()


@pytest.mark.parametrize("when", ["while it answers", "while it waits"])
def test_ctrl_c_in_a_pipe_ends_the_program(project: Project, ollama: OllamaStandin, when: str) -> None:
    ollama.enqueue("Once ", *([Hang()] if when == "while it answers" else []))
    with subprocess.Popen(
        [sys.executable, "-m", "strands_cli", *to(ollama)],
        cwd=project.root, env=project.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        process.stdin.write("Tell me.\n")
        process.stdin.flush()
        wait_for(ollama, 1)
        if when == "while it waits":
            assert process.stdout.readline() == "Once\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(20) == 130
        finally:
            process.kill()
        assert process.stdout.read() == ("Once\n" if when == "while it answers" else "")
