"""What files, plugins, tools and models write cannot act on a terminal, hide something or look like our own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_commands import shown_on_terminal
from tests.fakes import tool_call
from tests.projects import Outcome, Project
from tests.standins import OllamaStandin

TITLE, CLEAR, CLIPBOARD = "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b]52;c;cm0gLXJmIH4=\x1b\\"
HOSTILE = (
    f"{TITLE}{CLEAR}{CLIPBOARD}\x1bP$q\x1b\\\x9b31m\x9d0;x\x9c\x08\x08\x07\x00\u202egpj\u202c\u2066\u200b\u200f"
    "\u2028error: forged\u2029\x85\x0b\x0c\ufeff\u2060\u3164\u034f\U000e0041\U000e01f0\xad\x7f"
)
ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Nothing of it may be in what is shown; a terminal's own `\\r` is taken out before."""
QUOTED = '"' + HOSTILE.encode("unicode_escape").decode() + '"'
"""As YAML writes it."""


@pytest.fixture
def ollama() -> Iterator[OllamaStandin]:
    with OllamaStandin() as standin:
        yield standin


@pytest.fixture
def hostile(project: Project) -> Project:
    """Everything in it that can hold a text holds a hostile one."""
    project.tool("own", "def own(tool, **kw): return 'x'")
    spec = {
        "name": "odd",
        "description": f"Does {HOSTILE} things.\n\nconsent  not needed",
        "inputSchema": {
            "json": {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "description": HOSTILE, "enum": [HOSTILE], "default": HOSTILE}
                },
                "required": ["a"],
            }
        },
    }
    project.write("tools/odd.py", f"TOOL_SPEC = {spec!r}\ndef odd(tool, **kw): return 'x'\n")
    project.write(f"tools/bad{HOSTILE.replace(chr(0), '')[:40]}.py", "def f(:\n")
    # Its source line is part of the warning that Python prints.
    project.write("tools/warns.py", f'X = "\\d"  # {TITLE}\nTOOL_SPEC = 5\ndef warns(tool): return 1\n')
    tool = {
        "name": "go",
        "path": "go.sh",
        "description": HOSTILE,
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": HOSTILE}}},
        "files": {"read": [f"data{HOSTILE}".replace("\0", "")]},
        "requires": {"binaries": [f"nope{TITLE}"]},
    }
    plugin = {"name": "plug", "version": f"1.0.0{TITLE}", "description": HOSTILE, "cli_tools": [tool]}
    project.write("plugins/plug/plugin.json", json.dumps(plugin))
    project.write("plugins/plug/go.sh", "#!/bin/sh\necho '{}'\n").chmod(0o755)
    project.write("plugins/plug/other\x1b[31m.sh", "#!/bin/sh\n").chmod(0o755)
    project.write(f"plugins/dir{TITLE}\u202e/plugin.json", '{"name": 5}')
    project.write("flow.yaml", FLOW)
    project.write("bad.yaml", f'{FLOW}"unknown{QUOTED[1:]}: 1\n')
    return project


FLOW = f"""
version: 0
name: flow
description: {QUOTED}
runtime: {{provider: ollama, model_id: {QUOTED}}}
agents: {{worker: {{prompt: {QUOTED}, tools: [odd]}}}}
tools: {{python: [odd]}}
pattern:
  type: chain
  config: {{steps: [{{agent: worker, input: {QUOTED}}}]}}
outputs: {{artifacts: [{{path: "a{QUOTED[1:]}, from: "x"}}]}}
"""
COMMANDS = [
    ("list-tools", "-v"),
    ("tool", "show", "odd"),
    ("tool", "check"),
    ("tool", "call", "odd", f"a{TITLE}=x"),
    ("plugin", "list", "-v"),
    ("plugin", "test", "plug"),
    ("doctor",),
    ("validate", "."),
    ("plan", "flow.yaml"),
    ("explain", "flow.yaml"),
    ("graph", "flow.yaml", "--format", TITLE),
]
MORE_COMMANDS = [
    ("list-tools",),
    ("list-tools", "--json"),
    ("tool", "show", "odd", "--load"),
    ("tool", "show", "plug__go"),
    ("tool", "call", f"none{TITLE}"),
    ("tool", "call", "odd", "--json", "a=x"),
    ("plugin", "list"),
    ("plugin", "list", "--json"),
    ("plugin", "validate", "plug"),
    ("doctor", "--json"),
    ("validate", "flow.yaml"),
    ("graph", "flow.yaml"),
    ("run", "flow.yaml", "--dry-run"),
    ("run", f"{TITLE}.yaml"),
    ("models", "path", f"none{TITLE}"),
    (f"none{TITLE}",),
    ("run", "--none" + TITLE),
    ("chat", "--tools", f"none{TITLE}"),
]


def harmless(shown: str) -> bool:
    return not ACTING.search(shown.replace("\r\n", "\n"))


def named(words: tuple[str, ...]) -> str:
    return ascii(" ".join(words))


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_no_command_shows_what_acts_on_a_terminal(hostile: Project, command: tuple[str, ...]) -> None:
    piped = hostile.strands(*command, PYTHONWARNINGS="always")
    assert harmless(piped.out), repr(piped.out)
    assert harmless(piped.err), repr(piped.err)
    assert "Traceback" not in piped.err
    assert not re.search("^error: forged", piped.out + piped.err, re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("command", MORE_COMMANDS, ids=named)
def test_no_other_command_does(hostile: Project, command: tuple[str, ...]) -> None:
    test_no_command_shows_what_acts_on_a_terminal(hostile, command)


@pytest.mark.parametrize(
    "command", [("list-tools", "-v"), ("tool", "show", "odd"), ("plugin", "list", "-v"), ("doctor",)]
)
def test_a_terminal_gets_our_colours_only(hostile: Project, command: tuple[str, ...]) -> None:
    shown = re.sub("\x1b\\[(?:0|1|31|33)m", "", shown_on_terminal(hostile, *command))
    assert harmless(shown), repr(shown)
    assert "\\x1b]0;owned\\x07" in shown  # it is there to see


def test_json_says_the_same_in_other_letters(hostile: Project) -> None:
    tools = {tool["id"]: tool for tool in hostile.strands("list-tools", "--json").json["tools"]}
    assert HOSTILE in tools["odd"]["description"]


@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=pytest.mark.long), "fish"])
def test_a_shell_is_offered_words_and_harmless_lines(hostile: Project, shell: str) -> None:
    hostile.write("plugins/a$(touch owned)/plugin.json", "{}")
    hostile.write("plugins/a;b\nplain,intruder/plugin.json", "{}")
    completing = {"_STRANDS_COMPLETE": f"{shell}_complete", "COMP_CWORD": "3" if shell != "fish" else ""}
    for words, expected in (("strands tool show ", "odd"), ("strands plugin validate ", "plug")):
        offered = hostile.strands(**completing, COMP_WORDS=words)
        assert harmless(offered.out + offered.err), repr(offered)
        assert expected in offered.out
        assert "touch" not in offered.out
        assert "intruder" not in offered.out


def test_what_a_tool_prints_and_logs_is_escaped(project: Project) -> None:
    body = """
def chatty(tool, **kw):
    import logging, sys, threading, warnings
    text = tool["input"]["text"]
    print(text, flush=True)
    sys.stderr.write(text)
    sys.stderr.writelines([text, text])
    warnings.warn(text)
    logging.getLogger("elsewhere").warning(text)
    thread = threading.Thread(target=lambda: 1 / len(text[:0]) or text)
    thread.start()
    thread.join()
    return "done"
"""
    project.tool("chatty", body, properties='{"text": {"type": "string"}}')
    outcome = project.strands("tool", "call", "chatty", json.dumps({"text": f"a{HOSTILE}b\n"}))
    assert outcome.out == "done\n"
    assert outcome.err.count("\\x1b]0;owned") >= 6, outcome
    assert harmless(outcome.err), repr(outcome.err)


def test_a_bug_is_shown_without_acting(project: Project) -> None:
    program = (
        "import sys; from strands_cli.cli.app import strands, run_command_line\n"
        "strands.table = {'list-tools': ('boom:x', '')}\n"
        "sys.exit(run_command_line(['list-tools']))"
    )
    project.write("boom.py", f"raise ValueError({HOSTILE!r})\n")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=project.root, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (70, True)
    assert harmless(done.stderr), repr(done.stderr)


def test_the_log_of_debug_is_escaped(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", RUN)
    ollama.enqueue(tool_call("echo", message=HOSTILE)).enqueue(f"fine{HOSTILE}")
    outcome = project.strands("--debug", "run", "flow.yaml", "--host", ollama.url, "--json")
    assert outcome.exit_code == 0, outcome
    assert harmless(outcome.err), repr(outcome.err)
    assert harmless(outcome.out)
    assert outcome.json["last_response"] == f"fine{HOSTILE}"


RUN = """
version: 0
name: flow
runtime: {provider: ollama}
agents: {worker: {prompt: You work., tools: [echo]}}
tools: {python: [echo]}
pattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}
"""


def test_a_result_is_exact_in_a_pipe_and_harmless_on_a_terminal(
    project: Project, ollama: OllamaStandin
) -> None:
    given = json.dumps({"message": HOSTILE.replace("\0", "")})
    piped = subprocess.run(
        [sys.executable, "-m", "strands_cli", "tool", "call", "echo", given],
        cwd=project.root, env=project.environment, capture_output=True, check=False,
    )  # fmt: skip
    assert piped.stdout.decode() == HOSTILE.replace("\0", "") + "\n"
    assert harmless(shown_on_terminal(project, "tool", "call", "echo", given, TERM="dumb"))
    project.write("flow.yaml", RUN)
    ollama.enqueue(f"fine{HOSTILE}")
    assert harmless(shown_on_terminal(project, "run", "flow.yaml", "--host", ollama.url, TERM="dumb"))


def test_names_with_newlines_stay_on_their_line(project: Project) -> None:
    name = "a\nerror: forged\nb.yaml"
    project.write(name, "version: 0\npattern: 1\n")
    for command in (("validate", name), ("run", name), ("validate", ".")):
        outcome = project.strands(*command)
        assert not re.search("^error: forged", outcome.out + outcome.err, re.MULTILINE), outcome
        assert "forged" in outcome.out + outcome.err


def test_a_path_that_is_not_unicode_is_shown(project: Project) -> None:
    name = os.fsdecode(b"\xff\xfe.yaml")
    project.write(name, "version: 0\n")
    outcome = project.strands("validate", name)
    assert outcome.exit_code == 3, outcome
    assert "\\udcff\\udcfe.yaml" in outcome.out
    assert project.strands("validate", name, "--json").json["files"][0]["file"] == name


# --- Output that cannot be written ------------------------------------------------------------------------

WRITING = ["list-tools", "tool call none --json", "--help"]
MORE_WRITING = [
    "list-tools --json", "tool show echo", "tool call echo message=hi", "tool call echo message=hi --json",
    "validate none.yaml --json", "tool --help", "--version", "version", "completion bash", "schema", "doctor",
    "models list", "plugin list --json",
]  # fmt: skip


def in_shell(project: Project, command: str, **env: str) -> Outcome:
    text = command.replace("strands ", f"{sys.executable} -m strands_cli ", 1)
    done = subprocess.run(
        ["bash", "-c", text], cwd=project.root, env=project.environment | env, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    return Outcome(done, 0.0)


@pytest.mark.parametrize("command", WRITING)
def test_a_full_device_is_told_and_a_closed_pipe_is_quiet(project: Project, command: str) -> None:
    check_unwritable(project, command, "")


def check_unwritable(project: Project, command: str, unbuffered: str) -> None:
    full = in_shell(project, f"strands {command} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert full.exit_code == 12, full
    assert full.err == "error: No space left on device: standard output\n"
    unread = f"strands {command} | true >/dev/null; exit ${{PIPESTATUS[0]}}"
    gone = in_shell(project, unread, PYTHONUNBUFFERED=unbuffered)
    assert gone.exit_code in (0, project.strands(*command.split()).exit_code), gone
    assert (gone.out, gone.err) == ("", ""), gone


@pytest.mark.long
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", WRITING + MORE_WRITING)
def test_no_other_command_fails_over_it(project: Project, command: str, unbuffered: str) -> None:
    check_unwritable(project, command, unbuffered)


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_messages_that_cannot_be_written_do_not_change_the_end(project: Project, stream: str) -> None:
    project.write("tools/bad.py", "def f(:\n")
    assert in_shell(project, f"strands tool call none {stream}").exit_code == 2
    listed = in_shell(project, f"strands list-tools {stream}")
    assert listed.exit_code == 0, listed
    assert "echo" in listed.out


def test_a_run_whose_answer_nobody_reads_keeps_its_own_end(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", RUN)
    ollama.enqueue("x" * 300_000).enqueue("x" * 300_000)
    for option in ("", "--json"):
        command = f"strands run flow.yaml --host {ollama.url} {option} | head -c 1; exit ${{PIPESTATUS[0]}}"
        outcome = in_shell(project, command)
        assert outcome.exit_code == 0, outcome
        assert "Traceback" not in outcome.err
        assert "ignored" not in outcome.err


def test_sources_of_ours_hold_no_odd_character() -> None:
    package = Path(__file__).parents[2] / "src"
    for file in package.rglob("*.py"):
        assert not ACTING.search(file.read_text("utf-8")), file
