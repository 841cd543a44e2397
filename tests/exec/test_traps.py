"""What other runners of YAML workflows get wrong, one test each; some have more tests where they belong."""

import json
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import BudgetExceeded, UnsupportedError
from strands_cli.events import ToolFinished
from strands_cli.exec.run import run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.http_tools.transport import known_addresses, special_address_kind
from tests.exec.flows import Flow, steps
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project
from tests.sites import serving
from tests.standins import OllamaStandin

ONE = {"steps": steps("go")}


@pytest.fixture
def flow(inside: Project) -> Flow:
    return Flow(inside.root)


def asked(model: ScriptedModel, number: int = -1) -> str:
    return model.requests[number].prompt


def test_prompts_are_templated(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    flow.run("chain", ONE, agents={"worker": {"prompt": "{{ n }}"}}, inputs={"values": {"n": 7}})
    assert model.requests[0].system_prompt == "7"


def test_the_last_response_is_known_inside_a_chain(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    flow.run("chain", {"steps": steps("a", "{{ last_response }}!")})
    assert asked(model) == "ok!"


def test_all_of_jinjas_filters_work(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    text = "{{ [3, 1, 2] | sort | map('string') | join('-') }} {{ 'a b' | title | replace(' ', '_') | wordcount }}"
    flow.run("chain", {"steps": steps(text)})
    assert asked(model) == "1-2-3 1"


def test_branches_with_one_agent_do_not_see_each_others_messages(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    branches = [{"id": f"b{number}", "steps": steps(f"only {number}")} for number in range(3)]
    flow.run("parallel", {"branches": branches})
    seen = sorted(
        json.dumps([m["content"] for m in request.messages if m["role"] == "user"])
        for request in model.requests
    )
    assert seen == [json.dumps([[{"text": f"only {number}"}]]) for number in range(3)]


@pytest.mark.parametrize("budget", [{"max_tokens": 15}, {"max_steps": 2}, {"max_duration_s": 0.000001}])
def test_every_budget_is_enforced(flow: Flow, model: ScriptedModel, budget: dict[str, Any]) -> None:
    model.default_answer = "ok"
    with pytest.raises(BudgetExceeded):
        flow.run("chain", {"steps": steps("a", "b", "c")}, runtime={"provider": "ollama", "budgets": budget})
    assert len(model.requests) <= 2


@pytest.mark.parametrize("error", [ConnectionResetError("x"), TimeoutError("x"), ConnectionRefusedError("x")])
def test_whatever_may_pass_is_tried_again(flow: Flow, model: ScriptedModel, error: Exception) -> None:
    model.enqueue(error).enqueue("ok")
    runtime = {"provider": "ollama", "failure_policy": {"retries": 1, "wait_s": 0.01}}
    assert flow.run("chain", ONE, runtime=runtime).last_response == "ok"


def test_a_warning_keeps_nothing_from_running(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    spec = flow.spec("chain", ONE, tools={"python": ["echo", "native:echo"]})
    assert run_sync(spec, None, RunOptions(directory=flow.directory)).last_response == "ok"


def test_an_unknown_tool_is_not_dropped_in_silence(flow: Flow, model: ScriptedModel) -> None:
    with pytest.raises(UnsupportedError, match="nowhere"):
        run_sync(flow.spec("chain", ONE, tools={"python": ["nowhere"]}))


def test_an_unknown_agent_of_a_step_is_found_before_it_runs(flow: Flow, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("a", agent="wroker")}, agents={"worker": {"prompt": "x"}})
    with pytest.raises(UnsupportedError, match="wroker") as refused:
        run_sync(spec)
    assert "worker" in refused.value.hint


def test_a_dotenv_file_in_the_directory_disturbs_nothing(project: Project) -> None:
    project.write(".env", b"\xff\xfe not = a \x00 dotenv\nUNKNOWN_KEY=1\n")
    assert project.strands("list-tools").exit_code == 0
    assert project.strands("tool", "call", "echo", "message=hi").out == "hi\n"


def test_logs_go_to_standard_error(project: Project) -> None:
    project.write(
        "flow.yaml",
        "version: 0\nname: flow\nruntime: {provider: ollama}\nagents: {a: {prompt: x}}\n"
        "tools: {python: [echo]}\npattern: {type: chain, config: {steps: [{agent: a, input: x}]}}\n",
    )
    with OllamaStandin() as ollama:
        ollama.enqueue("ok")
        outcome = project.strands(
            "--debug", "run", "flow.yaml", "--host", ollama.url, "--json", STRANDS_LOG="debug"
        )
    assert outcome.exit_code == 0, outcome
    assert outcome.json["last_response"] == "ok"


@pytest.mark.usefixtures("trusting")
def test_no_header_of_an_executor_leaves_for_an_address_that_the_model_names(
    flow: Flow, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "the-token-of-the-test")
    with serving() as api, serving() as elsewhere:
        paths = [f"{elsewhere.url}/x", elsewhere.url.removeprefix("http:") + "/x", "/\\127.0.0.1/x"]
        for path in paths:
            model.enqueue(tool_call("api", path=path))
        model.enqueue("done")
        executor = {"id": "api", "base_url": api.url, "headers": {"Authorization": "{{ secrets.TOKEN }}"}}
        flow.run("chain", ONE, tools={"http_executors": [executor]}, env={"secrets": [{"name": "TOKEN"}]})
        assert elsewhere.seen == []
        assert api.seen == []
    assert all(event.code for event in flow.heard(ToolFinished))


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f.1", "0177.0.0.1"])
def test_every_spelling_of_an_address_is_judged(host: str) -> None:
    assert all(special_address_kind(address) for address in known_addresses(host))
    assert known_addresses(host)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../outside.txt", "link/outside.txt"])
@pytest.mark.usefixtures("trusting")
def test_file_tools_stay_in_the_workspace(
    flow: Flow, model: ScriptedModel, inside: Project, path: str
) -> None:
    (inside.root.parent / "outside.txt").write_text("secret")
    (inside.root / "link").symlink_to(inside.root.parent)
    model.enqueue(tool_call("file_read", path=path), tool_call("file_write", path=path, content="x")).enqueue(
        "done"
    )
    flow.run(
        "chain",
        ONE,
        tools={"python": ["file_read", "file_write"]},
        security={"consent": {"file_write": "allow"}},
    )
    assert [event.code for event in flow.heard(ToolFinished)] == ["forbidden", "forbidden"]
    assert (inside.root.parent / "outside.txt").read_text() == "secret"


def test_a_skill_with_dots_in_its_path_is_refused(flow: Flow, model: ScriptedModel, inside: Project) -> None:
    (inside.root.parent / "SKILL.md").write_text("secret")
    with pytest.raises(UnsupportedError, match="leaves"):
        run_sync(flow.spec("chain", ONE, skills=[{"id": "up", "path": "../"}]))


def test_a_file_of_a_skill_cannot_be_reached_with_dots(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.write("skills/style/SKILL.md", "Write well.")
    inside.write("secret.txt", "secret")
    model.enqueue(tool_call("load_skill", id="style", file="../../secret.txt")).enqueue("done")
    flow.run("chain", ONE, skills=[{"id": "style", "path": "./skills/style"}])
    assert [event.code for event in flow.heard(ToolFinished)] == ["denied"]


def test_a_run_from_another_directory_finds_the_files_of_its_workflow(
    inside: Project, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside.write("skills/style/SKILL.md", "Write well.")
    flow = Flow(inside.root)
    spec = flow.spec("chain", ONE, skills=[{"id": "style", "path": "./skills/style"}])
    monkeypatch.chdir(tmp_path)
    model.enqueue(tool_call("load_skill", id="style")).enqueue("done")
    flow.run_spec(spec)
    assert [event.code for event in flow.heard(ToolFinished)] == [None]


@pytest.mark.parametrize(
    ("change", "exit_code"),
    [("name: flow\n", 3), ("prompt: x}", 3), ("agent: a", 18), ("provider: ollama", 10)],
)
def test_no_expected_failure_exits_as_a_bug(project: Project, change: str, exit_code: int) -> None:
    text = (
        "version: 0\nname: flow\nruntime: {provider: ollama, host: 'http://127.0.0.1:9', failure_policy: {retries: 0}}\n"
        "agents: {a: {prompt: x}}\npattern: {type: chain, config: {steps: [{agent: a, input: x}]}}\n"
    )
    broken = {
        "name: flow\n": "",
        "prompt: x}": "promt: x}",
        "agent: a": "agent: b",
        "provider: ollama": "provider: ollama",
    }
    project.write("flow.yaml", text.replace(change, broken[change]))
    outcome = project.strands("run", "flow.yaml")
    assert outcome.exit_code == exit_code, outcome
    assert "Traceback" not in outcome.err
