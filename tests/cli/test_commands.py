"""The commands as a person or a program uses them: real processes, their output and their exit codes."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strands_cli.providers.local.weights import CATALOGUE, SMALLEST
from tests.projects import Project

GREET = '''"""Greets."""

TOOL_SPEC = {
    "name": "greet",
    "description": "Greets somebody",
    "inputSchema": {"json": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "times": {"type": "integer", "default": 1}},
        "required": ["name"],
    }},
}


def greet(tool, **kwargs):
    words = " ".join([f"Hello, {tool['input']['name']}!"] * tool["input"]["times"])
    return {"toolUseId": tool["toolUseId"], "status": "success", "content": [{"text": words}]}
'''


def test_the_version_is_told_by_option_and_by_command(project: Project) -> None:
    for arguments in (["--version"], ["version"], ["--debug", "--version"], ["--debug", "version"]):
        outcome = project.strands(*arguments)
        assert (outcome.exit_code, outcome.err) == (0, "")
        assert outcome.out.startswith("strands 0.")


def test_help_names_every_command(project: Project) -> None:
    outcome = project.strands("--help")
    assert outcome.exit_code == 0
    for word in ("list-tools", "tool", "mcp", "doctor", "completion", "version"):
        assert word in outcome.out
    for words in (
        ["tool"],
        ["tool", "call"],
        ["tool", "show"],
        ["tool", "new"],
        ["tool", "check"],
        ["doctor"],
    ):
        assert project.strands(*words, "--help").exit_code == 0


def test_a_file_dropped_into_tools_can_be_called_with_no_other_change(project: Project) -> None:
    (project.root / "strands.toml").unlink()
    project.write("tools/greet.py", GREET)
    outcome = project.strands("tool", "call", "greet", '{"name": "Ada"}')
    assert (outcome.exit_code, outcome.out, outcome.err) == (0, "Hello, Ada!\n", "")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (['{"name": "Ada", "times": 2}'], ""),
        (["-"], '{"name": "Ada", "times": 2}'),
        (["@input.json"], ""),
        (["name=Ada", "times=2"], ""),
    ],
)
def test_input_comes_as_json_from_standard_input_a_file_or_pairs(
    project: Project, arguments: list[str], sent: str
) -> None:
    project.write("tools/greet.py", GREET)
    project.write("input.json", '{"name": "Ada", "times": 2}')
    outcome = project.strands("tool", "call", "greet", *arguments, input=sent)
    assert outcome.out == "Hello, Ada! Hello, Ada!\n", outcome


def test_pairs_are_typed_by_the_schema(project: Project) -> None:
    project.tool(
        "kinds",
        "def kinds(tool, **kwargs):\n    return {k: [type(v).__name__, v] for k, v in tool['input'].items()}",
        properties='{"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"},'
        ' "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"}, "x": {}}',
    )
    outcome = project.strands(
        "tool", "call", "kinds", "s=5", "i=5", "n=2.5", "b=true", "a=[1]", 'o={"k": 1}', "x=free = text"
    )
    assert outcome.json == {
        "s": ["str", "5"], "i": ["int", 5], "n": ["float", 2.5], "b": ["bool", True],
        "a": ["list", [1]], "o": ["dict", {"k": 1}], "x": ["str", "free = text"],
    }  # fmt: skip


REFUSALS: list[tuple[list[str], int, str, str]] = [
    (["tool", "call", "ecko", "{}"], 2, "unknown_tool", "Did you mean 'echo'?"),
    (["tool", "show", "ecko"], 2, "unknown_tool", "Did you mean 'echo'?"),
    (["tool", "call", "echo", '{"message": 5}'], 2, "input_invalid", "/message"),
    (["tool", "call", "echo", "{}"], 2, "input_invalid", "/message"),
    (["tool", "call", "echo", '{"mesage": "x"}'], 2, "input_invalid", "Did you mean 'message'?"),
    (["tool", "call", "echo", '{"message": '], 2, "input_malformed", "line 1"),
    (["tool", "call", "echo", "[1]"], 2, "input_malformed", "array"),
    (["tool", "call", "echo", "hello"], 2, "input_malformed", "JSON object"),
    (["tool", "call", "echo", "@missing.json"], 2, "usage", "No such file"),
    (["tool", "call", "echo", "message=x", "oops"], 2, "usage", "KEY=VALUE"),
    (["tool", "call", "echo", "message=x", "message=y"], 2, "usage", "'message' is given twice"),
    (["tool", "call", "echo", "--bogus"], 2, "usage", "--bogus"),
    (["tool", "call", "echo", "message=x", "--timeout", "0"], 2, "usage", "0"),
    (["tool", "call", "echo", "message="], 10, "failed", "No message provided"),
    (["tool", "call", "file_read", "path=../../secret.txt"], 10, "forbidden", "outside the workspace"),
    (["tool", "call", "file_read", "path=/etc/passwd"], 10, "forbidden", "outside the workspace"),
    (["tool", "call", "file_read", "path=nothere.txt"], 10, "not_found", "nothere.txt"),
    (["tool", "call", "current_time", "timezone=Europe/Berlni"], 10, "not_found", "Europe/Berlin"),
    (["tool", "call", "calculator", "expression=1/0"], 10, "failed", "zero"),
    (["tool", "call", "calculator", "expression=9**9**9"], 10, "failed", "digits"),
    (["tool", "call", "file_write", "path=a.txt", "content=x"], 19, "consent_required", "--yes"),
    (["lst-tools"], 2, "usage", "list-tools"),
    (["tool", "chekc"], 2, "usage", "check"),
    (["list-tools", "--category", "nope"], 2, "usage", "nope"),
]
SPELLINGS = (
    "http://127.0.0.1:9/", "http://2130706433:9/", "http://127.1:9/", "http://0x7f.1:9/", "http://0177.0.0.1:9/",
    "http://[::1]:9/", "http://[::ffff:127.0.0.1]:9/", "http://localhost:9/", "http://0:9/", "http://169.254.169.254/",
    "http://user:pw@127.0.0.1:9/",
)  # fmt: skip
REFUSALS += [
    (["tool", "call", "http_request", json.dumps({"url": url})], 10, "forbidden", "HTTP request failed: ")
    for url in SPELLINGS
]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "words"), REFUSALS, ids=[" ".join(r[0]) for r in REFUSALS]
)
def test_refused_input_gets_one_clear_sentence_its_exit_code_and_json(
    project: Project, arguments: list[str], exit_code: int, code: str, words: str
) -> None:
    told = project.strands(*arguments)
    assert told.exit_code == exit_code, told
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert words in told.err
    assert "Traceback" not in told.err
    shown = project.strands(*arguments, "--json")
    assert shown.exit_code == exit_code
    assert shown.json["error"]["code"] == code
    assert words.lower() in json.dumps(shown.json["error"], ensure_ascii=False).lower()


def test_a_tool_that_hangs_is_answered_at_its_deadline(project: Project) -> None:
    project.tool("slow", "def slow():\n    time.sleep(30)", options="timeout=0.2")
    outcome = project.strands("tool", "call", "slow", "{}", "--json")
    assert outcome.json["error"]["code"] == "timeout"
    assert outcome.exit_code == 10
    assert outcome.seconds < 5


def test_an_async_tool_that_ignores_its_cancellation_does_not_hold_up_the_command(project: Project) -> None:
    body = """async def slow():
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass"""
    project.tool("slow", body, options="timeout=0.2")
    outcome = project.strands("tool", "call", "slow", "--json")
    assert outcome.json["error"]["code"] == "timeout"
    assert outcome.seconds < 5


def test_the_caller_may_lengthen_and_shorten_a_limit(project: Project) -> None:
    project.tool("slow", "def slow():\n    time.sleep(0.5)\n    return 'done'", options="timeout=0.1")
    assert project.strands("tool", "call", "slow").exit_code == 10
    assert project.strands("tool", "call", "slow", "--timeout", "20").out == "done\n"


def test_a_crash_is_told_without_its_traceback_which_debug_shows(project: Project) -> None:
    project.tool("boom", "def boom():\n    raise ValueError('kaput')", options="version='1.0.0'")
    quiet = project.strands("tool", "call", "boom")
    assert quiet.exit_code == 10
    assert "Execution failed: ValueError: kaput [crashed]" in quiet.err
    assert "Traceback" not in quiet.err
    assert "Traceback" in project.strands("--debug", "tool", "call", "boom").err
    assert "Traceback" in project.strands("tool", "call", "boom", STRANDS_LOG="tools=info").err
    assert project.strands("tool", "call", "boom", STRANDS_LOG="loud").exit_code == 2


@pytest.mark.parametrize("options", ["", "version='1.0.0', isolate='process'"])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_crash_names_the_line_of_the_tool_and_the_way_to_its_traceback(
    project: Project, kind: str, options: str
) -> None:
    body = f"{kind} boom():\n    return help_out()\n\n\ndef help_out():\n    return int('kaput')"
    file = project.tool("boom", body, options=options or "version='1.0.0'")
    line = 1 + file.read_text().splitlines().index("    return int('kaput')")
    quiet = project.strands("tool", "call", "boom")
    assert f"Raised at tools/boom.py:{line}. 'strands --debug tool call …' shows the traceback." in quiet.err
    loud = project.strands("--debug", "tool", "call", "boom").err
    assert f'tools/boom.py", line {line}, in help_out' in loud
    assert "'strands --debug" not in loud
    error = project.strands("tool", "call", "boom", "--json").json["error"]
    assert error["details"] == [{"file": "tools/boom.py", "line": line, "function": "help_out"}]


def test_a_crash_in_a_library_names_the_line_of_the_tool_that_called_it(project: Project) -> None:
    file = project.tool(
        "boom", "def boom():\n    import json\n    return json.loads('{')", options="version='1.0.0'"
    )
    line = 1 + file.read_text().splitlines().index("    return json.loads('{')")
    assert f"Raised at tools/boom.py:{line}." in project.strands("tool", "call", "boom").err


def test_the_progress_of_a_tool_goes_to_standard_error(project: Project) -> None:
    body = (
        "def count(context: ToolContext):\n    context.progress('one \\x1b[31mof two')\n    return 'counted'"
    )
    project.tool("count", body, options="version='1.0.0'")
    outcome = project.strands("tool", "call", "count")
    assert outcome.out == "counted\n"
    assert outcome.err == "count: one of two\n"


@pytest.mark.parametrize("answer", ["'lift-off'", "{'step': 'last'}", "3"])
def test_the_last_yield_of_a_tool_is_its_result_and_is_shown_once(project: Project, answer: str) -> None:
    project.tool("count", f"async def count():\n    yield {answer}", options="version='1.0.0'")
    outcome = project.strands("tool", "call", "count")
    assert outcome.out
    assert outcome.err == ""


def test_what_a_tool_yields_before_its_result_is_shown(project: Project) -> None:
    body = "async def count():\n    yield 'two'\n    yield 'one'\n    yield 'lift-off'"
    project.tool("count", body, options="version='1.0.0'")
    outcome = project.strands("tool", "call", "count")
    assert (outcome.out, outcome.err) == ("lift-off\n", "count: two\n")


def test_what_the_sandbox_refused_is_shown_once(project: Project) -> None:
    project.write("plugins/p/t.sh", "#!/bin/bash\necho x > new.txt\necho ok\n").chmod(0o755)
    manifest = {"name": "p", "cli_tools": [{"name": "t", "path": "t.sh", "description": "T."}]}
    project.write("plugins/p/plugin.json", json.dumps(manifest))
    outcome = project.strands("tool", "call", "p__t")
    assert (outcome.out + outcome.err).count("It tried to write") == 1


def test_what_a_tool_prints_does_not_mix_with_its_result(project: Project) -> None:
    body = "def noisy():\n    print('noise')\n    os.system('echo more noise')\n    return {'a': 1}"
    file = project.tool("noisy", body)
    file.write_text("print('noise at import')\n" + file.read_text().replace("noisy()", "noisy(tool)"))
    outcome = project.strands("tool", "call", "noisy", "--json")
    assert outcome.json["content"] == [{"json": {"a": 1}}]
    for words in ("noise at import", "noise\n", "more noise"):
        assert words in outcome.err


def test_a_deprecated_tool_runs_and_names_its_replacement(project: Project) -> None:
    project.tool("old", "def old():\n    return 'ran'", options="deprecated=True, replaced_by='echo'")
    outcome = project.strands("tool", "call", "old")
    assert (outcome.exit_code, outcome.out) == (0, "ran\n")
    assert "deprecated; use echo" in outcome.err
    assert "deprecated, use echo" in project.strands("list-tools").out


def test_an_unavailable_tool_is_listed_with_the_reason_and_refused(project: Project) -> None:
    project.tool(
        "needy", "def needy():\n    return 'ran'", options="requires={'binaries': ['no-such-program']}"
    )
    listed = project.strands("list-tools").out
    assert "needy" in listed
    assert "no-such-program is not on the PATH" in listed
    outcome = project.strands("tool", "call", "needy", "--json")
    assert outcome.json["error"]["code"] == "unavailable"
    assert outcome.exit_code == 18


def test_listing_as_json_is_one_document_with_tools_and_problems(project: Project) -> None:
    project.write("tools/greet.py", GREET)
    project.write("tools/broken.py", "def (")
    outcome = project.strands("list-tools", "--json")
    greet = next(item for item in outcome.json["tools"] if item["id"] == "greet")
    assert greet["origin"] == "tools/greet.py"
    assert greet["input_schema"]["required"] == ["name"]
    assert [Path(problem["file"]).name for problem in outcome.json["problems"]] == ["broken.py"]
    plain = project.strands("tool", "list")
    assert plain.out == project.strands("list-tools").out
    assert "1 problem" in plain.err
    assert "broken.py:1" in project.strands("list-tools", "--verbose").err
    assert "greet" not in project.strands("list-tools", "--category", "data").out


def test_show_tells_arguments_limits_and_how_to_call(project: Project) -> None:
    project.write("tools/greet.py", GREET)
    outcome = project.strands("tool", "show", "greet")
    for words in (
        "Greets somebody",
        "tools/greet.py",
        "name",
        "required",
        "default 1",
        "30 s",
        "strands tool call greet",
    ):
        assert words in outcome.out
    assert project.strands("tool", "show", "greet", "--json").json["input_schema"]["properties"]["times"]


def test_show_tells_which_numbers_an_argument_may_be(project: Project) -> None:
    signature = "share: Annotated[float, Meta(gt=0, lt=1)], limit: Annotated[int, Meta(ge=1, le=50)] = 5"
    project.write(
        "tools/pick.py",
        "from typing import Annotated\n\nfrom msgspec import Meta\nfrom strands_cli import tool\n\n\n"
        f'@tool\ndef pick({signature}) -> int:\n    """Picks some."""\n    return limit\n',
    )
    rows = [" ".join(line.split()) for line in project.strands("tool", "show", "pick").out.splitlines()]
    assert "share number > 0 < 1 required" in rows
    assert "limit integer >= 1 <= 50 default 5" in rows


@pytest.mark.parametrize(("limits", "number"), [("ge=5", 5), ("le=-2", -2), ("ge=3, le=4", 3)])
def test_the_call_that_show_prints_keeps_to_the_limits_of_numbers(
    limits: str, number: int, project: Project
) -> None:
    project.write(
        "tools/pick.py",
        "from typing import Annotated\n\nfrom msgspec import Meta\nfrom strands_cli import tool\n\n\n"
        f'@tool\ndef pick(n: Annotated[int, Meta({limits})]) -> int:\n    """Picks some."""\n    return n\n',
    )
    *_, command = project.strands("tool", "show", "pick").out.splitlines()
    assert command == f"strands tool call pick '{{\"n\": {number}}}'"


def test_a_new_tool_works_at_once(project: Project) -> None:
    assert project.strands("tool", "new", "welcome").exit_code == 0
    assert project.strands("tool", "new", "farewell", "--family", "politeness").exit_code == 0
    assert project.strands("tool", "call", "welcome", "text= hi ").out == "hi\n"
    assert project.strands("tool", "call", "farewell", "text= bye ").out == "bye\n"
    again = project.strands("tool", "new", "welcome")
    assert again.exit_code == 2
    assert "already" in again.err


@pytest.mark.parametrize(
    "name",
    ["two words", "class", "1st", "../up", "echo", "_hidden", "naïve", "x" * 65, "test_it", "conftest"],
)
def test_a_name_that_no_tool_can_have_writes_nothing(project: Project, name: str) -> None:
    outcome = project.strands("tool", "new", name)
    assert outcome.exit_code == 2, outcome
    assert not (project.root / "tools").exists()


def test_check_reports_what_registration_would_refuse(project: Project) -> None:
    project.write("tools/good.py", GREET.replace("greet", "good"))
    project.write(
        "tools/nameless.py", "TOOL_SPEC = {'description': 'x', 'inputSchema': {}}\ndef nameless(tool): pass\n"
    )
    project.write("tools/helper.py", "def assist(): pass\n")
    project.write("tools/badschema.py", GREET.replace("greet", "badschema").replace('"integer"', '"integr"'))
    outcome = project.strands("tool", "check")
    assert outcome.exit_code == 3
    for words in ("nameless.py:1", "helper.py", "badschema.py"):
        assert words in outcome.out
    assert "good.py" not in outcome.out
    one = project.strands("tool", "check", "tools/good.py", "--json")
    assert (one.exit_code, one.json["issues"]) == (0, [])
    assert project.strands("tool", "check", "nowhere").exit_code == 2
    project.write("tools/lazy.py", GREET.replace("greet", "lazy") + "\nraise RuntimeError('at import')\n")
    assert "at import" not in project.strands("tool", "check").out
    assert "at import" in project.strands("tool", "check", "--load").out


def test_doctor_tells_what_is_wrong_and_what_is_fine(project: Project) -> None:
    fine = project.strands("doctor")
    assert fine.exit_code == 0, fine
    assert "strands-agents" in fine.out
    project.write("tools/broken.py", "def (")
    project.write("strands.toml", 'workspace = ["nowhere"]')
    wrong = project.strands("doctor", "--json")
    assert wrong.exit_code == 3
    texts = [item["text"] for item in wrong.json["findings"] if item["state"] == "problem"]
    assert any("broken.py" in text for text in texts)
    assert any("nowhere" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workspac = ['.']", "Did you mean 'workspace'?"),
        ("threads = 'many'", "threads"),
        ("timeout = -1", "greater than zero"),
        ("[http]\nalow = []", "Did you mean 'allow'?"),
        ("not toml", "strands.toml"),
    ],
)
def test_a_mistake_in_the_settings_is_told_with_its_file(project: Project, text: str, words: str) -> None:
    project.write("strands.toml", text)
    for command, exit_code in {("list-tools",): 0, ("tool", "call", "echo", "message=hi"): 3}.items():
        outcome = project.strands(*command)
        assert outcome.exit_code == exit_code
        assert words in outcome.err
        assert "strands.toml" in outcome.err


def test_settings_may_stand_in_pyproject_and_count_from_below(project: Project) -> None:
    (project.root / "strands.toml").unlink()
    project.write("pyproject.toml", "[tool.strands]\nworkspace = ['data']\n")
    project.write("data/a.txt", "inside")
    project.write("b.txt", "outside")
    below = project.root / "data"
    assert project.strands("tool", "call", "file_read", "path=a.txt", cwd=below).out == "inside\n"
    assert project.strands("tool", "call", "file_read", "path=../b.txt", cwd=below).exit_code == 10


def test_completion_knows_commands_and_tool_ids(project: Project) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = project.strands("completion", shell)
        assert script.exit_code == 0
        assert "_STRANDS_COMPLETE" in script.out
    offered = project.strands(
        _STRANDS_COMPLETE="bash_complete", COMP_WORDS="strands tool call calc", COMP_CWORD="3"
    )
    assert "calculator" in offered.out


def test_output_into_a_closed_pipe_ends_quietly(project: Project) -> None:
    command = f"{sys.executable} -m strands_cli list-tools --json | head -c 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=project.root, env=project.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""


def on_terminal(project: Project, arguments: list[str], answer: bytes, waits_for: bytes) -> tuple[str, int]:
    """Runs the command on a terminal of its own, answers when the text is there, gives all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.root)
        os.execve(sys.executable, [sys.executable, "-m", "strands_cli", *arguments], project.environment)
    shown, answer_at, deadline = b"", 0.0, time.monotonic() + 30
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        try:
            shown += os.read(terminal, 4096) if ready else b""
        except OSError:
            break
        if waits_for in shown and time.monotonic() > answer_at:
            # A person does not answer before the program reads, and presses a key again that did nothing:
            # Python misses an interrupt that comes just before it begins to wait for input.
            time.sleep(0.5)
            os.write(terminal, answer)
            answer_at = time.monotonic() + 3
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("answer", "exit_code", "written"),
    [(b"y\n", 0, True), (b"n\n", 10, False), (b"\x04", 10, False), (b"\x03", 130, False)],
)
def test_consent_is_asked_on_a_terminal(
    project: Project, answer: bytes, exit_code: int, written: bool
) -> None:
    arguments = ["tool", "call", "file_write", "path=new.txt", "content=hello"]
    shown, status = on_terminal(project, arguments, answer, b"[y/N]")
    assert status == exit_code, shown
    assert (project.root / "new.txt").exists() is written
    assert 'path: "new.txt"' in shown
    assert "Run file_write on new.txt (" in shown


@pytest.mark.parametrize("way", [["--yes"], []])
def test_consent_can_be_given_beforehand(project: Project, way: list[str]) -> None:
    variables = {} if way else {"BYPASS_TOOL_CONSENT": "true"}
    outcome = project.strands(
        "tool", "call", "file_write", "path=new.txt", "content=hello", *way, **variables
    )
    assert outcome.exit_code == 0, outcome
    assert (project.root / "new.txt").read_text() == "hello"


@pytest.mark.parametrize("inherited", ["the default", "ignored"])
def test_an_interrupt_ends_a_call_at_once(project: Project, inherited: str) -> None:
    project.tool(
        "slow", "def slow():\n    print('started', flush=True)\n    time.sleep(30)", options="timeout=60"
    )
    program = [sys.executable, "-m", "strands_cli", "tool", "call", "slow"]
    if inherited == "ignored":  # as nohup and the background jobs of a script do
        program = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *program]
    with subprocess.Popen(
        program,
        cwd=project.root, env=project.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stderr.readline() == "started\n"
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, shown = child.communicate(timeout=20)
    assert child.returncode == 130
    assert time.monotonic() - started < 5
    assert "Traceback" not in shown


def test_an_interrupt_that_a_tools_thread_gets_ends_the_call_too(project: Project) -> None:
    project.tool(
        "own",
        "def own():\n"
        "    import signal, threading\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "    time.sleep(30)",
        options="timeout=60",
    )
    outcome = project.strands("tool", "call", "own")
    assert outcome.exit_code == 130
    assert outcome.seconds < 15


def test_a_bug_of_ours_shows_its_traceback_and_exits_70(project: Project) -> None:
    program = (
        "import sys; from strands_cli.cli.app import strands, run_command_line;"
        "strands.table = {'list-tools': ('strands_cli.cli.no_such_module:x', '')};"
        "sys.exit(run_command_line(['list-tools']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert "bug" in done.stderr


def shown_on_terminal(
    project: Project, *arguments: str, ahead: bytes = b"", answer: bytes = b"", **env: str
) -> str:
    """What a command shows whose streams are a terminal: `ahead` is typed before it asks, `answer` then."""
    ours, theirs = pty.openpty()
    os.write(ours, ahead)
    environment = {name: value for name, value in project.environment.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "strands_cli", *arguments],
        cwd=project.root,
        env={**environment, "TERM": "xterm", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            shown += os.read(ours, 65_536)
        except OSError:  # as Linux says that the other side is closed
            break
        if answer and b"[y/N]" in shown:
            os.write(ours, answer)
            answer = b""
    os.close(ours)
    process.wait(30)
    return shown.decode("utf-8", "replace")


def test_every_command_honours_no_color_and_simple_terminals(project: Project) -> None:
    for words in (["list-tools"], ["tool", "call", "no-such-tool"]):
        assert "\x1b[" in shown_on_terminal(project, *words)
        assert "\x1b[" not in shown_on_terminal(project, *words, NO_COLOR="1")
        assert "\x1b[" not in shown_on_terminal(project, *words, TERM="dumb")


def test_a_result_is_harmless_on_a_terminal_and_whole_in_a_pipe(project: Project) -> None:
    hostile = "x\x1b]0;owned\x07\x1b[2J\x1b[31my"
    assert shown_on_terminal(project, "tool", "call", "echo", f"message={hostile}") == "xy\r\n"
    assert project.strands("tool", "call", "echo", f"message={hostile}").out == f"{hostile}\n"
    failed = shown_on_terminal(project, "tool", "call", "calculator", f"expression={hostile}", TERM="dumb")
    assert "error:" in failed
    assert "\x1b" not in failed


def test_what_was_typed_before_the_question_is_no_consent(project: Project) -> None:
    words = ("tool", "call", "file_write", "path=new.txt", "content=x")
    assert "refused" in shown_on_terminal(project, *words, ahead=b"y\n", answer=b"n\n")
    assert not (project.root / "new.txt").exists()


@pytest.mark.parametrize(
    ("closed", "exit_code"), [(">&-", 12), ("2>&-", 0), ("<&- 2>&-", 0), ("<&- >&- 2>&-", 12)]
)
def test_closed_streams_are_borne(project: Project, closed: str, exit_code: int) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m strands_cli tool call echo message=hi {closed}', sys.executable],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, done
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


def test_a_tool_may_use_and_close_standard_output_as_a_block(project: Project) -> None:
    body = "with sys.stdout as out:\n        print('seen', file=out)\n    return 'kept'"
    project.tool("shut", f"def shut() -> str:\n    {body}", options="description='x'")
    done = project.strands("tool", "call", "shut")
    assert (done.out, done.exit_code) == ("kept\n", 0), done
    assert "seen" in done.err


def test_a_value_may_come_from_a_file_or_begin_with_its_sign(project: Project) -> None:
    project.write("said.txt", "from a file")
    assert project.strands("tool", "call", "echo", "message=@said.txt").out == "from a file\n"
    assert project.strands("tool", "call", "echo", "message=@@said.txt").out == "@said.txt\n"
    missing = project.strands("tool", "call", "echo", "message=@none.txt")
    assert missing.exit_code == 2
    assert "none.txt cannot be read" in missing.err
    assert "message=@@" in missing.err


def test_doctor_goes_on_without_settings(project: Project) -> None:
    project.write("strands.toml", 'workspce = ["."]')
    outcome = project.strands("doctor")
    assert outcome.exit_code == 3
    assert "strands-agents" in outcome.out
    assert "strands.toml:1: There is no key 'workspce'. Did you mean 'workspace'?" in outcome.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threads = 2\nworkspace = 5\n", "strands.toml:2: 'workspace' must be an array, got integer."),
        ("[http]\nallow = true\n", "strands.toml:2: 'http.allow' must be an array, got boolean."),
        ('[prices]\nm = "low"\n', "strands.toml:1: 'prices.*' must be a table, got string."),
        ("workspace = [1]\n", "strands.toml:1: 'workspace[0]' must be a string, got integer."),
        ('timeout = "x"\n', "strands.toml:1: 'timeout' must be a number, got string."),
        ("[sandbox]\nmemory = 1\n", "There is no key 'memory' in [sandbox]. The only key is accept."),
    ],
)
def test_a_setting_of_the_wrong_type_is_reported_with_its_line_and_in_words(
    project: Project, text: str, words: str
) -> None:
    project.write("strands.toml", text)
    assert words in project.strands("doctor").out


def test_no_bar_is_drawn_for_a_model_that_is_already_here(project: Project) -> None:
    model = CATALOGUE[SMALLEST]
    project.write(f"cache/strands-cli/models/{model.file}", b"GGUF and then nothing")
    cache = str(project.root / "cache")
    shown = shown_on_terminal(project, "models", "pull", model.name, XDG_CACHE_HOME=cache)
    assert "is damaged" in shown
    assert "0%" not in shown


def test_a_tool_of_a_plugin_that_is_switched_off_is_told_so(project: Project) -> None:
    project.write("plugins/p/run", "#!/bin/sh\n").chmod(0o755)
    manifest = {"name": "p", "cli_tools": [{"name": "t", "path": "run"}]}
    project.write("plugins/p/plugin.json", json.dumps(manifest))
    assert project.strands("plugin", "disable", "p").exit_code == 0
    outcome = project.strands("tool", "call", "p__t", "{}")
    assert "Failed to load tool 'p__t': The plugin p is disabled." in outcome.err
    assert "'strands plugin enable p' enables it." in outcome.err


FLOW = "version: 0\nname: f\nruntime: {provider: ollama, model_id: m}\nagents: {a: {prompt: x}}\n" + (
    "pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}\ntools: {python: [echo, greet]}\n"
)


def test_every_command_says_which_file_keeps_a_tool_from_being_there(project: Project) -> None:
    project.write("tools/greet.py", "x = 1\ndef greet(:\n")
    project.write("flow.yaml", FLOW)
    for command in (("tool", "call", "greet", "{}"), ("tool", "show", "greet"), ("validate", "flow.yaml")):
        outcome = project.strands(*command)
        assert "Failed to load tool 'greet': Syntax error" in outcome.out + outcome.err
        assert "greet.py:2" in outcome.out + outcome.err
        assert outcome.exit_code == 18
    outcome = project.strands("list-tools")
    assert outcome.err == "1 problem found in tool files: run 'strands list-tools --verbose' for details.\n"


def test_a_tool_with_the_id_of_a_native_one_is_never_hidden_in_silence(project: Project) -> None:
    project.write(
        "tools/echo.py", "from strands_cli import tool\n@tool\ndef echo() -> str:\n    return 'mine'\n"
    )
    project.write(
        "tools/greet.py", "from strands_cli import tool\n@tool\ndef greet() -> str:\n    return 'hi'\n"
    )
    project.write("flow.yaml", FLOW)
    used = "Two tools are named 'echo'; the one from strands-cli is used"
    warning = f"{used}. For the one from tools/echo.py, write ./tools/echo.py."
    for command in (("list-tools",), ("tool", "call", "echo", "message=hi"), ("validate", "flow.yaml")):
        outcome = project.strands(*command)
        assert warning in outcome.out + outcome.err
        assert outcome.exit_code == 0
    checked = project.strands("tool", "check")
    assert checked.exit_code == 3
    assert f"{used}, not the one from tools/echo.py." in checked.out
    assert project.strands("tool", "call", "./tools/echo.py").out == "mine\n"
    assert warning not in project.strands("tool", "call", "native:echo", "message=hi").err


def test_an_sdk_tool_with_a_context_gets_what_the_shell_can_give_and_is_told_what_it_cannot(
    project: Project,
) -> None:
    project.write(
        "tools/contextual.py",
        "from strands import Agent, ToolContext, tool\n"
        "@tool(context=True)\ndef who(word: str, tool_context: ToolContext) -> str:\n    '''Who.'''\n"
        "    return f\"{word} {tool_context.tool_use['name']}\"\n"
        "@tool(context=True)\ndef mine(tool_context: ToolContext) -> str:\n    '''Mine.'''\n"
        "    return tool_context.agent.name\n"
        "@tool\ndef old(agent: Agent) -> str:\n    '''Old.'''\n    return agent.messages\n",
    )
    assert project.strands("tool", "call", "who", "word=hi").out == "hi who\n"
    for name, part in (("mine", "name"), ("old", "messages")):
        outcome = project.strands("tool", "call", name)
        assert f"{name} uses 'agent.{part}', and no agent makes this call." in outcome.err
        assert outcome.exit_code == 10


CHECKED = {
    "compile.py": """
import no_such_package_at_all, json
from . import _nothing
from ._words import word
from tools._words import word as other
from strands_cli import tool

try:
    import perhaps_not_here
except ImportError:
    perhaps_not_here = None

@tool
async def count(to: int):
    '''Count.'''
    yield 1
    return to
""",
    "poor.py": """
from typing import Literal
from strands_cli import ToolContext, tool

@tool
def silent(x, context: ToolContext): ...

@tool
def stale(first: int) -> int:
    '''Stale.

    Args:
        frist: The number
    '''

@tool
def wrong(n: int = "x", mode: Literal["a", "b"] = "c", fine: float = 1, none: int = None) -> str:
    '''Wrong defaults.'''
    return f"{n} {mode}"
""",
}


def test_check_finds_what_python_and_a_model_would_stumble_over(project: Project) -> None:
    for name, text in CHECKED.items():
        project.write(f"tools/{name}", text)
    project.write("tools/_words.py", "word = 1\n")
    outcome = project.strands("tool", "check", "--json")
    assert outcome.exit_code == 3
    found = [
        (Path(issue["file"]).name, issue["line"], issue["severity"], issue["reason"])
        for issue in outcome.json["issues"]
    ]
    assert sorted(found) == [
        ("compile.py", 2, "error", "The module no_such_package_at_all is not found."),
        ("compile.py", 3, "error", "The module ._nothing is not found."),
        ("compile.py", 17, "error", "Syntax error: 'return' with value in async generator."),
        ("poor.py", 6, "error", "Tool 'silent' has no description, so no model knows when to call it."),
        ("poor.py", 6, "warning", "Tool 'silent': the parameter 'x' has no type."),
        ("poor.py", 9, "warning", "Tool 'stale': the docstring describes 'frist', which is not a parameter."),
        (
            "poor.py",
            17,
            "warning",
            "Tool 'wrong': the default of 'mode' is 'c', which does not fit its type.",
        ),
        ("poor.py", 17, "warning", "Tool 'wrong': the default of 'n' is 'x', which does not fit its type."),
    ]
    assert project.strands("tool", "call", "wrong").out == "x c\n"


def test_a_default_in_a_schema_that_does_not_fit_is_refused_by_check_and_by_a_call(project: Project) -> None:
    project.tool(
        "count", "def count(tool, **kwargs): ...", properties='{"n": {"type": "integer", "default": "x"}}'
    )
    for command in (["check"], ["call", "count"]):
        outcome = project.strands("tool", *command)
        assert "the default of 'n' is 'x', which is not of type integer" in outcome.out + outcome.err
        assert outcome.exit_code != 0


def test_a_package_that_a_tool_requires_may_be_missing(project: Project) -> None:
    project.write(
        "tools/plot.py",
        "import no_such_package_at_all\nfrom strands_cli import tool\n"
        "@tool(requires={'no_such_package_at_all': '*'})\ndef plot(text: str) -> str:\n    '''Plot.'''\n",
    )
    assert project.strands("tool", "check").exit_code == 0


def test_a_workflow_that_names_a_file_with_two_tools_is_told_how_to_name_one(project: Project) -> None:
    two = "from strands_cli import tool\n@tool\ndef one() -> int: ...\n@tool\ndef two() -> int: ...\n"
    project.write("flows/deco.py", two)
    project.write("flows/flow.yaml", FLOW.replace("[echo, greet]", "[./deco.py]"))
    outcome = project.strands("validate", "flows/flow.yaml")
    assert "Failed to load tool './deco.py': The file has 2 tools. (./deco.py)" in outcome.out
    assert "Name one of them: ./deco.py:one, ./deco.py:two." in outcome.out
    assert outcome.exit_code == 18
