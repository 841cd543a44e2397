"""`strands run` as a user meets it: the real command, real provider classes, stand-in servers."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import Call, Pause
from tests.projects import Outcome, Project
from tests.standins import Cut, Hang, OllamaStandin, OpenAIStandin, Status

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
QUICK = "failure_policy: {retries: 2, wait_s: 0.05}"
FLOW = """\
version: 0
name: flow
runtime: {provider: ollama, %s}
inputs:
  optional: {topic: {type: string, default: owls}}
tools: {python: [echo, calculator]}
agents:
  worker: {prompt: You work.}
pattern:
  type: chain
  config:
    steps:
      - {id: first, agent: worker, input: "Write about {{ topic }}."}
      - {id: second, agent: worker, input: "Go on: {{ last_response }}"}
outputs:
  artifacts:
    - {path: first.txt, from: "{{ steps.first.response }}"}
    - {path: last.txt, from: "{{ last_response }}"}
"""


@pytest.fixture
def ollama() -> Iterator[OllamaStandin]:
    with OllamaStandin() as standin:
        yield standin


@pytest.fixture
def flow(project: Project) -> Project:
    project.write("flow.yaml", FLOW % QUICK)
    return project


def run(project: Project, ollama: OllamaStandin, *arguments: str, **env: str) -> Outcome:
    return project.strands("run", "flow.yaml", "--host", ollama.url, *arguments, **env)


# --- A run ------------------------------------------------------------------------------------------------


def test_a_run_prints_its_answer_and_writes_its_artifacts(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("Owls see well.")
    ollama.enqueue("They also hear well.")
    outcome = run(flow, ollama)
    assert outcome.exit_code == 0, outcome
    assert outcome.out == "They also hear well.\n"
    assert (flow.root / "first.txt").read_text() == "Owls see well."
    assert (flow.root / "last.txt").read_text() == "They also hear well."
    assert "first: done" in outcome.err
    assert "wrote last.txt" in outcome.err


def test_a_run_warns_once_of_each_legacy_name_and_each_deprecated_tool(
    flow: Project, ollama: OllamaStandin
) -> None:
    flow.tool("old", "def old():\n    return 'ran'", options="deprecated=True, replaced_by='echo'")
    text = (FLOW % QUICK).replace("[echo, calculator]", "[strands_tools.echo, old]")
    flow.write("flow.yaml", text.replace("You work.}", "You work., tools: [strands_tools.echo, old]}"))
    ollama.enqueue("one")
    ollama.enqueue("two")
    outcome = run(flow, ollama, "--json")
    assert outcome.exit_code == 0, outcome
    assert outcome.json["last_response"] == "two"
    for reason in ("strands_tools.echo is a legacy name of the tool echo.", "Tool old is deprecated as of v"):
        assert outcome.err.count(reason) == 1, outcome
        assert flow.strands("validate", "flow.yaml").out.count(reason) == 1
        assert flow.strands("run", "flow.yaml", "--dry-run", "--force").err.count(reason) == 1
    assert "flow.yaml:6:" in outcome.err
    assert "Write native:echo." in outcome.err
    assert "Use echo." in outcome.err


def test_a_run_for_programs_is_one_document(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue(Call("calculator", {"expression": "6*7"}))
    ollama.enqueue("42")
    ollama.enqueue("It is 42.")
    document = run(flow, ollama, "--json", "--out", "results").json
    assert document["last_response"] == "It is 42."
    assert [step["id"] for step in document["steps"]] == ["first", "second"]
    assert document["usage"]["total_tokens"] == 24
    assert document["artifacts"] == ["results/first.txt", "results/last.txt"]


def test_the_trace_of_a_run_is_written_on_request(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue(Call("echo", {"message": "hi"}))
    ollama.enqueue("one")
    ollama.enqueue("two")
    assert run(flow, ollama, "--trace").exit_code == 0
    trace = json.loads((flow.root / "flow-trace.json").read_text())
    assert [step["title"] for step in trace["steps"]] == ["first", "second"]
    assert trace["steps"][0]["tools"][0]["id"] == "echo"
    assert "hi" not in json.dumps(trace["steps"][0]["tools"])


def test_a_crash_of_a_tool_in_a_run_names_its_line_and_debug_shows_its_traceback(
    flow: Project, ollama: OllamaStandin
) -> None:
    flow.write("flow.yaml", (FLOW % QUICK).replace("echo,", "boom,"))
    flow.tool("boom", "def boom():\n    return {}['missing']", options="version='1.0.0'")
    for answer in [Call("boom", {}), "one", "two"] * 2:
        ollama.enqueue(answer)
    quiet = run(flow, ollama)
    assert "boom failed: Execution failed: KeyError: 'missing', at tools/boom.py:" in quiet.err
    assert "1 tool call crashed: 'strands run --debug …' shows the traceback of each." in quiet.err
    assert "Traceback" not in quiet.err
    loud = flow.strands("--debug", "run", "flow.yaml", "--host", ollama.url, "--force")
    assert "Traceback" in loud.err
    assert "tools/boom.py" in loud.err


@pytest.mark.parametrize("option", ["--save-session", "--no-save-session"])
def test_debug_prints_the_transcript_of_a_run_as_it_happens(
    flow: Project, ollama: OllamaStandin, option: str
) -> None:
    for answer in [Call("calculator", {"expression": "6*7"}), Status(503), "It is \x1b[31m42.", "two"]:
        ollama.enqueue(answer)
    outcome = run(flow, ollama, "--debug", option)
    assert outcome.exit_code == 0, outcome
    said = [
        "== first (steps/0)\n   worker, ollama llama3.2:3b at ",
        "   tools: echo, calculator\nsystem prompt\n  | You work.\n",
        "to the model\n  | Write about owls.\n",
        'call calculator\n  | {"expression": "6*7"}\n',
        "result of calculator, ",
        "  | 42\n",
        "the request failed, again after ",
        "  | It is \\x1b[31m42.\n",
        "first: done",
        "== second (steps/1)\n",
        "continues the conversation of steps/0",
    ]
    places = [outcome.err.find(words) for words in said]
    assert -1 not in places, said[places.index(-1)] + outcome.err
    assert places == sorted(places)
    assert "\x1b" not in outcome.err
    assert "DEBUG strands_cli.runs" not in outcome.err


def test_debug_and_a_log_level_show_the_events_too(flow: Project, ollama: OllamaStandin) -> None:
    for answer in [Call("calculator", {"expression": "6*7"}), "It is 42.", "two"]:
        ollama.enqueue(answer)
    outcome = flow.strands("--debug", "run", "flow.yaml", "--host", ollama.url, STRANDS_LOG="debug")
    said = [
        "steps/0 ModelStarted",
        'steps/0 request of 1 messages, tools: echo, calculator, last: [{"text": "Write about owls."}]',
        "steps/0 ToolStarted tool_id='calculator'",
        "steps/0 ToolFinished tool_id='calculator'",
        "steps/1 request of ",
    ]
    places = [outcome.err.find(words) for words in said]
    assert -1 not in places, said[places.index(-1)] + outcome.err
    assert places == sorted(places)
    assert "ModelText" not in outcome.err


def test_inputs_come_from_the_command_line(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("one")
    ollama.enqueue("two")
    run(flow, ollama, "--var", "topic=bats")
    assert ollama.requests[0].body["messages"][-1]["content"] == "Write about bats."


def test_a_file_that_is_there_is_not_overwritten_and_nothing_is_asked(
    flow: Project, ollama: OllamaStandin
) -> None:
    flow.write("last.txt", "mine")
    outcome = run(flow, ollama)
    assert outcome.exit_code == 12
    assert "--force" in outcome.err
    assert ollama.requests == []
    ollama.enqueue("one")
    ollama.enqueue("two")
    assert run(flow, ollama, "--force").exit_code == 0
    assert (flow.root / "last.txt").read_text() == "two"


def test_a_dry_run_checks_and_shows_the_plan_and_asks_no_model(flow: Project, ollama: OllamaStandin) -> None:
    outcome = run(flow, ollama, "--dry-run")
    assert outcome.exit_code == 0
    assert "chain of 2 steps" in outcome.out
    assert ollama.requests == []
    assert not (flow.root / "last.txt").exists()


LOUD = """
print("loaded")
TOOL_SPEC = {"name": "loud", "description": "Loud.", "inputSchema": {"json": {"type": "object"}}}
def loud(tool, **kwargs):
    return "x"
"""


def test_a_dry_run_imports_no_tool(flow: Project, ollama: OllamaStandin) -> None:
    flow.write("tools/loud.py", LOUD)
    flow.write("flow.yaml", (flow.root / "flow.yaml").read_text().replace("echo", "loud"))
    outcome = run(flow, ollama, "--dry-run")
    assert (outcome.exit_code, "loaded" in outcome.out + outcome.err) == (0, False)


def test_what_a_tool_prints_when_it_is_imported_is_not_the_runs_answer(
    flow: Project, ollama: OllamaStandin
) -> None:
    flow.write("tools/loud.py", LOUD)
    flow.write("flow.yaml", (flow.root / "flow.yaml").read_text().replace("echo", "loud"))
    ollama.enqueue("one")
    ollama.enqueue("two")
    outcome = run(flow, ollama, "--json")
    assert outcome.json["last_response"] == "two"
    assert "loaded" in outcome.err


def test_another_provider_takes_neither_model_nor_host_of_the_file(project: Project) -> None:
    text = (FLOW % QUICK).replace(
        "provider: ollama", "provider: ollama, model_id: llama3.2:3b, host: 'http://127.0.0.1:1'"
    )
    project.write("flow.yaml", text)
    with OpenAIStandin() as openai:
        openai.enqueue("one")
        openai.enqueue("two")
        outcome = project.strands(
            "run", "flow.yaml", "--provider", "openai", "--host", openai.url, OPENAI_API_KEY="k"
        )
        assert outcome.exit_code == 0, outcome
        assert {request.body["model"] for request in openai.requests} == {"gpt-4o-mini"}


@pytest.mark.parametrize("example", ["echo-demo", "multi-tool-demo"])
@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_the_demos_run_through_the_real_provider_classes(
    project: Project, example: str, provider: str
) -> None:
    with OllamaStandin() if provider == "ollama" else OpenAIStandin() as standin:
        standin.enqueue(Call("echo", {"message": "Hello, World!"}))
        for _ in range(4):
            standin.enqueue("Hello, World!")
        outcome = project.strands(
            "run", str(EXAMPLES / f"{example}.yaml"), "--provider", provider, "--host", standin.url, "--force", "--yes",
            OPENAI_API_KEY="k",
        )  # fmt: skip
        assert outcome.exit_code == 0, outcome
        assert "Hello, World!" in outcome.out
        assert "echo" in outcome.err


# --- Bad runs ---------------------------------------------------------------------------------------------


def one_message(outcome: Outcome) -> str:
    """The lines of the error, which come once, after the progress."""
    assert outcome.err.count("error:") == 1, outcome
    assert "Traceback" not in outcome.err
    return outcome.err.partition("error:")[2]


def test_a_provider_that_is_down(flow: Project) -> None:
    outcome = flow.strands("run", "flow.yaml", "--host", "http://127.0.0.1:9")
    assert outcome.exit_code == 10
    assert "ollama serve" in one_message(outcome)


def test_too_many_requests_then_success(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue(Status(429, "slow down", {"Retry-After": "1"}))
    ollama.enqueue("one")
    ollama.enqueue("two")
    outcome = run(flow, ollama)
    assert outcome.exit_code == 0
    assert outcome.seconds > 1
    assert "again in 1" in outcome.err


def test_a_connection_that_breaks_in_the_middle_of_an_answer(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("half of it", Cut())
    ollama.enqueue("one")
    ollama.enqueue("two")
    assert run(flow, ollama).exit_code == 0
    assert (flow.root / "first.txt").read_text() == "one"


def test_malformed_tool_input_and_an_unknown_tool(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue(Call("ech", {"message": "hi"}))
    ollama.enqueue(Call("echo", {"massage": "hi"}))
    ollama.enqueue("one")
    ollama.enqueue("two")
    outcome = run(flow, ollama)
    assert outcome.exit_code == 0
    assert "unknown_tool" in json.dumps(ollama.requests[1].body)
    assert "input_invalid" in json.dumps(ollama.requests[2].body)
    assert "unknown_tool" in outcome.err


def test_malformed_tool_json_from_openai(flow: Project) -> None:
    with OpenAIStandin() as openai:
        openai.enqueue(Call("echo", '{"message": "hi'))
        openai.enqueue("one")
        openai.enqueue("two")
        outcome = flow.strands(
            "run", "flow.yaml", "--provider", "openai", "--host", openai.url, OPENAI_API_KEY="k"
        )
        assert outcome.exit_code == 0, outcome
        assert "input_malformed" in json.dumps(openai.requests[1].body)


def test_an_artifact_path_that_leaves_the_directory(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", (FLOW % QUICK).replace("path: last.txt", 'path: "{{ topic }}"'))
    outcome = run(project, ollama, "--var", "topic=../../x")
    assert outcome.exit_code == 12
    assert "/outputs/artifacts/1/path" in one_message(outcome)
    assert ollama.requests == []
    assert not (project.root.parent.parent / "x").exists()


def test_a_budget_of_one_token(project: Project, ollama: OllamaStandin) -> None:
    project.write("flow.yaml", FLOW % "budgets: {max_tokens: 1}")
    ollama.enqueue("one")
    outcome = run(project, ollama, "--trace")
    assert outcome.exit_code == 20
    assert "max_tokens" in one_message(outcome)
    assert (project.root / "first.txt").read_text() == "one"
    assert json.loads((project.root / "flow-trace.json").read_text())["run"]["outcome"] == "budget"


def test_a_failure_for_programs_has_what_was_finished(flow: Project, ollama: OllamaStandin) -> None:
    ollama.enqueue("one")
    for _ in range(3):
        ollama.enqueue(Status(500))
    outcome = run(flow, ollama, "--json")
    assert outcome.exit_code == 10
    assert outcome.json["error"]["code"] == "provider"
    assert [step["response"] for step in outcome.json["kept"]["steps"]] == ["one"]
    assert outcome.json["kept"]["artifacts"] == ["first.txt"]


def test_a_missing_input_is_named(project: Project, ollama: OllamaStandin) -> None:
    project.write(
        "flow.yaml",
        (FLOW % QUICK).replace(
            "optional: {topic: {type: string, default: owls}}", "required: {topic: string}"
        ),
    )
    outcome = run(project, ollama)
    assert outcome.exit_code == 3
    assert "--var topic=" in outcome.err
    assert run(project, ollama, "--ask").exit_code == 2


def test_a_missing_input_is_named_before_a_missing_key(project: Project) -> None:
    text = (FLOW % QUICK).replace(
        "optional: {topic: {type: string, default: owls}}", "required: {topic: string}"
    )
    project.write("flow.yaml", text)
    command = ("run", "flow.yaml", "--provider", "openai")
    assert project.strands(*command, OPENAI_API_KEY="").exit_code == 3
    assert "OPENAI_API_KEY" in project.strands(*command, "--var", "topic=x", OPENAI_API_KEY="").err


@pytest.mark.parametrize("moment", ["silent", "streaming", "tool", "waiting"])
def test_ctrl_c_ends_a_run_cleanly_at_any_moment(
    project: Project, ollama: OllamaStandin, moment: str
) -> None:
    project.tool("sleepy", "def sleepy(tool, **kw): time.sleep(30)")
    text = (FLOW % "failure_policy: {retries: 3, wait_s: 30}").replace("[echo, calculator]", "[sleepy]")
    project.write("flow.yaml", text)
    ollama.enqueue("one")
    if moment == "silent":
        ollama.enqueue(Hang())
    elif moment == "streaming":
        ollama.enqueue("word " * 3, Pause(0.3), "word", Hang())
    elif moment == "tool":
        ollama.enqueue(Call("sleepy", {}))
    else:
        ollama.enqueue(Status(503))
    with subprocess.Popen(
        [sys.executable, "-m", "strands_cli", "run", "flow.yaml", "--host", ollama.url],
        cwd=project.root, env=project.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 20
        while len(ollama.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(random.uniform(0.0, 0.7))
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130, (out, err)
    assert time.monotonic() - interrupted < 16
    assert out == ""
    assert err.count("error:") == 1
    assert "Traceback" not in err
    assert (project.root / "first.txt").read_text() == "one"
    assert not (project.root / "last.txt").exists()
