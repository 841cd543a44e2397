"""What every run does: budgets, retries, tools, consent, secrets, artifacts, and how it ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from strands_cli import tool
from strands_cli.capability import check_capability
from strands_cli.errors import (
    ArtifactError,
    BudgetExceeded,
    Interrupted,
    Paused,
    ProviderError,
    RunError,
    StrandsError,
    ToolError,
    UnsupportedError,
)
from strands_cli.events import (
    ModelRetried,
    RunFinished,
    RunNoticed,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from strands_cli.exec.chain import run_chain
from strands_cli.exec.run import run, run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.runtime.strands_adapter import MAX_TURNS
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.tools import get_registry
from tests.exec.flows import Flow, steps
from tests.fakes import Pause, ScriptedModel, tool_call
from tests.projects import Project

ONE = {"steps": steps("go")}
ALLOWED = {"consent": {"file_write": "allow"}}
OUTPUTS = {"artifacts": [{"path": "out.txt", "from": "{{ last_response }}"}]}


@pytest.fixture
def flow(inside: Project) -> Flow:
    return Flow(inside.root)


def tools(*references: str) -> dict[str, Any]:
    return {"python": list(references)}


# --- Budgets ----------------------------------------------------------------------------------------------


def budget(**limits: Any) -> dict[str, Any]:
    return {"provider": "ollama", "budgets": limits, "failure_policy": {"retries": 0}}


def test_a_run_that_has_used_its_tokens_keeps_what_it_has(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("first").enqueue("second")
    spec = flow.spec("chain", {"steps": steps("a", "b")}, runtime=budget(max_tokens=1), outputs=OUTPUTS)
    with pytest.raises(BudgetExceeded, match="10 tokens; its limit is 1") as ended:
        run_sync(spec, None, RunOptions(directory=flow.directory))
    assert ended.value.exit_code == 20
    assert ended.value.kept.last_response == "first"
    assert [path.read_text() for path in ended.value.kept.artifacts] == ["first"]
    assert len(model.requests) == 1


def test_the_tokens_of_a_model_that_loops_are_counted_in_each_turn(flow: Flow, model: ScriptedModel) -> None:
    for _ in range(50):
        model.enqueue(tool_call("echo", message="again"))
    spec = flow.spec("chain", ONE, runtime=budget(max_tokens=95), tools=tools("echo"))
    with pytest.raises(BudgetExceeded):
        flow.run_spec(spec)
    assert len(model.requests) == 10


PRICES = """[prices]
"ollama:scripted" = {input = 100.0, output = 1000.0}
"scripted" = {input = 0, output = 0}
"""


@pytest.mark.parametrize(
    ("limits", "notices"),
    [
        ({"max_tokens": 40}, ["80 % of the budget of 40 tokens is spent."]),
        ({"max_tokens": 40, "warn_threshold": 0.5}, ["50 % of the budget of 40 tokens is spent."]),
        ({"max_tokens": 40, "warn_threshold": 1}, ["100 % of the budget of 40 tokens is spent."]),
        ({"max_tokens": 400}, []),
        ({"max_steps": 40}, []),
    ],
)
def test_a_budget_of_tokens_that_is_mostly_spent_is_told_once(
    flow: Flow, model: ScriptedModel, limits: dict[str, Any], notices: list[str]
) -> None:
    model.default_answer = "ok"
    flow.run("chain", {"steps": steps("a", "b", "c", "d")}, runtime=budget(**limits))
    assert [event.text for event in flow.heard(RunNoticed)] == notices


def test_a_threshold_without_a_budget_of_tokens_is_told(flow: Flow) -> None:
    spec = flow.spec("chain", ONE, runtime=budget(max_steps=4, warn_threshold=0.5))
    (issue,) = check_capability(spec).issues
    assert (issue.pointer, issue.severity) == ("/runtime/budgets/warn_threshold", "warning")


def test_waits_and_top_p_may_be_nothing(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(ConnectionRefusedError("refused")).enqueue("ok")
    policy = {"retries": 1, "wait_s": 0, "max_wait_s": 0}
    runtime = {"provider": "ollama", "failure_policy": policy, "inference": {"top_p": 0}}
    assert flow.run("chain", ONE, runtime=runtime).last_response == "ok"


def test_a_run_counts_what_it_costs_by_the_prices_in_the_settings(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.write("strands.toml", PRICES)
    get_registry().refresh()
    model.enqueue("first").enqueue("second")
    result = flow.run("chain", {"steps": steps("a", "b")})
    used = result.usage
    assert used.cost == pytest.approx((100 * used.input_tokens + 1000 * used.output_tokens) / 1_000_000)
    assert used.cost == pytest.approx(sum(step.usage.cost or 0 for step in result.steps))
    assert flow.heard(RunFinished)[0].usage.cost == used.cost


def test_a_run_that_has_spent_its_money_keeps_what_it_has(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.write("strands.toml", PRICES)
    get_registry().refresh()
    model.enqueue("first")
    with pytest.raises(BudgetExceeded, match=r"The run has cost \$0\.\d+; its limit is \$0\.0001\.") as ended:
        flow.run("chain", {"steps": steps("a", "b")}, runtime=budget(max_cost=0.0001))
    assert ended.value.exit_code == 20
    assert "runtime.budgets.max_cost" in ended.value.hint
    assert [step.response for step in ended.value.kept.steps] == ["first"]


def test_without_prices_a_run_costs_what_nobody_knows(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("first")
    assert flow.run("chain", ONE).usage.cost is None


def test_a_budget_of_money_needs_the_prices_of_models_elsewhere(flow: Flow, model: ScriptedModel) -> None:
    runtime = {"provider": "openai", "model_id": "gpt-4o-mini", "budgets": {"max_cost": 1}}
    with pytest.raises(UnsupportedError, match="The price of gpt-4o-mini is not in the settings") as refused:
        flow.run("chain", ONE, runtime=runtime)
    assert '"gpt-4o-mini" = {input = 1.0, output = 2.0}' in refused.value.hint
    model.enqueue("free")
    here = {**budget(max_cost=1), "host": "http://localhost:11434"}
    assert flow.run("chain", ONE, runtime=here).last_response == "free"


def test_no_step_begins_beyond_the_number_that_is_allowed(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    with pytest.raises(BudgetExceeded, match="limit of 2 steps") as ended:
        flow.run("chain", {"steps": steps("a", "b", "c")}, runtime=budget(max_steps=2))
    assert len(ended.value.kept.steps) == 2


def test_branches_that_run_finish_when_another_may_not_begin(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    branches = [{"id": f"b{number}", "steps": steps("x")} for number in range(4)]
    with pytest.raises(BudgetExceeded) as ended:
        flow.run("parallel", {"branches": branches}, runtime=budget(max_steps=3))
    assert len(ended.value.kept.steps) == 3


def test_a_run_ends_when_its_time_is_over_even_in_the_middle_of_a_tool(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.tool("sleepy", "async def sleepy(tool, **kw): await asyncio.sleep(50)")
    get_registry().refresh()
    model.enqueue("first").enqueue(tool_call("sleepy"))
    spec = flow.spec(
        "chain", {"steps": steps("a", "b")}, runtime=budget(max_duration_s=4), tools=tools("sleepy")
    )
    with pytest.raises(BudgetExceeded, match="4 seconds") as ended:
        flow.run_spec(spec)
    assert ended.value.kept.duration < 40
    assert [step.response for step in ended.value.kept.steps] == ["first"]


# --- Failures ---------------------------------------------------------------------------------------------


def test_a_request_that_fails_in_a_way_that_may_pass_is_made_again(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(ConnectionResetError("reset")).enqueue("there")
    runtime = {"provider": "ollama", "failure_policy": {"retries": 1, "wait_s": 0.01}}
    assert flow.run("chain", ONE, runtime=runtime).last_response == "there"
    assert [event.attempt for event in flow.heard(ModelRetried)] == [1]


def test_a_provider_that_stays_away_ends_the_run_with_its_reason(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("first")
    for _ in range(3):
        model.enqueue(ConnectionRefusedError("refused"))
    runtime = {"provider": "ollama", "failure_policy": {"retries": 2, "wait_s": 0.01}}
    with pytest.raises(ProviderError, match="Gave up after 3 attempts") as ended:
        flow.run("chain", {"steps": steps("a", "b")}, runtime=runtime)
    assert ended.value.exit_code == 10
    assert [step.response for step in ended.value.kept.steps] == ["first"]
    assert flow.heard(RunFinished)[0].outcome == "failed"


def test_a_failed_run_writes_no_artifact_that_its_last_answer_should_have_filled(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue("first").enqueue(ConnectionRefusedError("refused"))
    outputs = {"artifacts": [*OUTPUTS["artifacts"], {"path": "first.txt", "from": "{{ steps[0].response }}"}]}
    spec = flow.spec("chain", {"steps": steps("a", "b")}, outputs=outputs)
    with pytest.raises(ProviderError):
        run_sync(spec, None, RunOptions(directory=flow.directory))
    assert not (flow.directory / "out.txt").exists()
    assert (flow.directory / "first.txt").read_text() == "first"


def test_a_tool_that_crashes_is_told_to_the_model_and_ends_nothing(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.tool("broken", "def broken(tool, **kw): raise ZeroDivisionError('by zero')")
    get_registry().refresh()
    model.enqueue(tool_call("broken")).enqueue(tool_call("nowhere")).enqueue("I could not do it.")
    result = flow.run("chain", ONE, tools=tools("broken"))
    assert result.last_response == "I could not do it."
    assert [event.code for event in flow.heard(ToolFinished)] == ["crashed", "unknown_tool"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_model_that_calls_tools_for_ever_is_ended(flow: Flow, model: ScriptedModel) -> None:
    for _ in range(MAX_TURNS + 10):
        model.enqueue(tool_call("echo", message="again"))
    with pytest.raises(RunError, match="did not come in 300 turns"):
        flow.run("chain", ONE, tools=tools("echo"))


def test_an_agent_can_take_two_hundred_turns_in_one_step(flow: Flow, model: ScriptedModel) -> None:
    for number in range(200):
        model.enqueue(tool_call("echo", message=str(number)))
    model.enqueue("done")
    assert flow.run("chain", ONE, tools=tools("echo")).last_response == "done"
    assert len(flow.heard(ToolFinished)) == 200


def test_fifty_branches_run_and_keep_their_order(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    branches = [{"id": f"b{number}", "steps": steps(str(number))} for number in range(50)]
    result = flow.run("parallel", {"branches": branches}, runtime=budget() | {"max_parallel": 50})
    assert [step.id for step in result.steps] == [f"b{number}" for number in range(50)]


def test_a_chain_may_have_five_hundred_steps(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    agents = {"worker": {"prompt": "You work.", "conversation": "fresh"}}
    assert len(flow.run("chain", {"steps": steps(*map(str, range(500)))}, agents=agents).steps) == 500


# --- Ending it --------------------------------------------------------------------------------------------


def test_a_stopped_run_ends_cleanly_and_keeps_what_is_finished(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("first").enqueue(Pause(30), "never")
    cancel = Cancellation()
    spec = flow.spec("chain", {"steps": steps("a", "b")})

    def stop_at_the_second(event: Any) -> None:
        if isinstance(event, StepFinished):
            asyncio.get_running_loop().call_later(0.2, cancel.set)

    options = RunOptions(listeners=(stop_at_the_second,), directory=flow.directory, cancel=cancel)
    with pytest.raises(Interrupted) as ended:
        run_sync(spec, None, options)
    assert ended.value.exit_code == 130
    assert [step.response for step in ended.value.kept.steps] == ["first"]
    assert ended.value.kept.duration < 10


@pytest.mark.asyncio
async def test_a_caller_that_cancels_its_own_task_ends_the_run_cleanly(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue(Pause(30), "never")
    options = RunOptions(listeners=(flow.events.append,), directory=flow.directory)
    task = asyncio.create_task(run(flow.spec("chain", ONE), None, options))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flow.heard(RunFinished)[0].outcome in ("interrupted", "failed")
    assert len(asyncio.all_tasks()) == 1


# --- Tools, consent and security --------------------------------------------------------------------------


def test_an_agent_gets_the_tools_that_it_names_in_any_form(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    agents = {
        "worker": {"prompt": "x", "tools": ["native:echo"]},
        "other": {"prompt": "x", "tools": []},
        "third": {"prompt": "x"},
    }
    config = {"steps": [{"agent": name, "input": "x"} for name in agents]}
    flow.run("chain", config, agents=agents, tools=tools("echo", "calculator"))
    given = [[spec["name"] for spec in request.tool_specs] for request in model.requests]
    assert given == [["echo"], [], ["echo", "calculator"]]


def test_a_file_of_tools_is_relative_to_the_workflow(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.write(
        "sub/greet.py",
        "from strands_cli import tool\n@tool\ndef greet(name: str) -> str:\n    return 'hi ' + name\n",
    )
    model.enqueue(tool_call("greet", name="Ada")).enqueue("done")
    elsewhere = Flow(inside.root / "sub")
    elsewhere.run("chain", ONE, tools=tools("./greet.py"))
    assert model.requests[-1].results[0]["content"] == [{"text": "hi Ada"}]


@pytest.mark.usefixtures("trusting")
def test_a_workflow_finds_the_tools_beside_its_file_from_any_directory(
    flow: Flow, model: ScriptedModel, inside: Project, tmp_path: Path
) -> None:
    away = Project(tmp_path / "away" / "flows")
    (away.root / "strands.toml").unlink()  # nothing says that it is a project
    away.tool("beside", "def beside(tool, **kw): return 'from beside the workflow'")
    model.enqueue(tool_call("beside")).enqueue(tool_call("file_write", path="made.txt", content="x")).enqueue(
        "done"
    )
    other = Flow(away.root)
    spec = other.spec("chain", ONE, tools=tools("beside", "file_write"), security=ALLOWED)
    run_sync(spec)
    assert model.requests[1].results[0]["content"] == [{"text": "from beside the workflow"}]
    assert (inside.root / "made.txt").exists()  # the workspace is where the user is
    assert get_registry().get("beside") is None


@pytest.mark.usefixtures("trusting")
def test_a_workflow_of_another_project_works_in_that_project(
    flow: Flow, model: ScriptedModel, inside: Project, tmp_path: Path
) -> None:
    away = Project(tmp_path / "away")
    model.enqueue(tool_call("file_write", path="made.txt", content="x")).enqueue("done")
    (away.root / "flows").mkdir()
    run_sync(Flow(away.root / "flows").spec("chain", ONE, tools=tools("file_write"), security=ALLOWED))
    assert (away.root / "made.txt").exists()


def test_a_workflow_of_another_project_has_what_was_registered_at_run_time(
    model: ScriptedModel, inside: Project, tmp_path: Path
) -> None:
    @tool
    def shout(text: str) -> str:
        """Shouts a text."""
        return text.upper()

    get_registry().register(shout)
    model.enqueue(tool_call("shout", text="hi")).enqueue("done")
    run_sync(Flow(Project(tmp_path / "away").root).spec("chain", ONE, tools=tools("shout")))
    assert model.requests[1].results[0]["content"] == [{"text": "HI"}]


def test_a_tool_that_cannot_be_loaded_ends_the_run_before_it_begins(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    file = inside.tool("bad", "def bad(tool, **kw): return 1")
    file.write_text("import nowhere_at_all\n" + file.read_text())
    get_registry().refresh()
    with pytest.raises(ToolError, match=r"flow\.yaml:\d+:\d+  /tools/python/0/callable.*nowhere_at_all"):
        flow.run("chain", ONE, tools=tools("bad"))
    assert model.requests == []


def test_an_unknown_tool_is_refused_before_anything_runs(flow: Flow, model: ScriptedModel) -> None:
    spec = flow.spec("chain", ONE, tools=tools("calculater"))
    with pytest.raises(UnsupportedError, match="not in allowlist") as refused:
        run_sync(spec)
    assert refused.value.exit_code == 18
    assert "calculator" in refused.value.hint


@pytest.mark.parametrize(
    ("rule", "granted", "code"),
    [
        ("allow", None, None),
        ("deny", True, "denied"),
        ("ask", True, None),
        ("ask", False, "denied"),
    ],
)
def test_the_workflow_says_which_tools_need_consent(
    flow: Flow, model: ScriptedModel, rule: str, granted: bool | None, code: str | None
) -> None:
    async def ask(calls: Any) -> list[str]:
        return [pending.call_id for pending in calls] if granted else []

    model.enqueue(tool_call("echo", message="hi")).enqueue("done")
    spec = flow.spec("chain", ONE, tools=tools("echo"), security={"consent": {"native:echo": rule}})
    flow.run_spec(spec, ask_consent=ask if granted is not None else None)
    assert [event.code for event in flow.heard(ToolFinished)] == [code]


def test_a_run_whose_call_nobody_could_allow_ends_with_19_and_keeps_the_answer(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue(tool_call("file_write", path="a.txt", content="x")).enqueue("I could not write it.")
    spec = flow.spec("chain", {"steps": steps("a", "b")}, tools=tools("file_write"))
    with pytest.raises(Paused, match="step 1: file_write needs consent, and nobody can be asked") as ended:
        flow.run_spec(spec)
    assert ended.value.exit_code == 19
    assert "--yes" in ended.value.hint
    assert "file_write: allow" in ended.value.hint
    assert [step.response for step in ended.value.kept.steps] == ["I could not write it."]
    assert flow.heard(RunFinished)[0].outcome == "paused"
    assert len(model.requests) == 2  # the second step does not begin


def test_an_agent_that_finds_another_way_does_without_consent_and_the_run_says_so_at_its_end(
    flow: Flow, model: ScriptedModel
) -> None:
    refused = tool_call("file_write", path="a.txt", content="x")
    model.enqueue(refused).enqueue(tool_call("echo", message="x")).enqueue("Here it is: x")
    result = flow.run("chain", ONE, tools=tools("file_write", "echo"))
    assert result.last_response == "Here it is: x"
    *_, last, finished = flow.events
    assert isinstance(last, RunNoticed)
    assert last.text == "step 1: skipped file_write, which needs consent; --yes gives it."
    assert isinstance(finished, RunFinished)


def test_a_call_beside_a_refused_one_is_not_another_way(flow: Flow, model: ScriptedModel) -> None:
    refused = tool_call("file_write", path="a.txt", content="x")
    model.enqueue(refused, tool_call("echo", message="x")).enqueue("Done, I think.")
    with pytest.raises(Paused):
        flow.run("chain", ONE, tools=tools("file_write", "echo"))


def test_a_call_that_is_refused_again_after_another_way_was_not_done_without(
    flow: Flow, model: ScriptedModel
) -> None:
    refused = tool_call("file_write", path="a.txt", content="x")
    model.enqueue(refused).enqueue(tool_call("echo", message="x")).enqueue(refused).enqueue("I could not.")
    with pytest.raises(Paused):
        flow.run("chain", ONE, tools=tools("file_write", "echo"))
    assert not [notice for notice in flow.heard(RunNoticed) if "skipped" in notice.text]


def test_what_an_unfinished_run_has_left_is_replaced_by_the_next(flow: Flow, model: ScriptedModel) -> None:
    outputs = {"artifacts": [*OUTPUTS["artifacts"], {"path": "first.txt", "from": "{{ steps[0].response }}"}]}
    spec = flow.spec("chain", {"steps": steps("a", "b")}, outputs=outputs)
    options = RunOptions(directory=flow.directory)
    model.enqueue("first").enqueue(ConnectionRefusedError("refused"))
    with pytest.raises(ProviderError):
        run_sync(spec, None, options)
    model.enqueue("second").enqueue("last")
    run_sync(spec, None, options)
    assert (flow.directory / "first.txt").read_text() == "second"
    with pytest.raises(ArtifactError, match="the file exists"):  # what a finished run has written stays
        run_sync(spec, None, options)


def test_what_somebody_changed_since_an_unfinished_run_stays(flow: Flow, model: ScriptedModel) -> None:
    outputs = {"artifacts": [{"path": "first.txt", "from": "{{ steps[0].response }}"}]}
    spec = flow.spec("chain", {"steps": steps("a", "b")}, outputs=outputs)
    model.enqueue("first").enqueue(ConnectionRefusedError("refused"))
    with pytest.raises(ProviderError):
        run_sync(spec, None, RunOptions(directory=flow.directory))
    (flow.directory / "first.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="the file exists"):
        run_sync(spec, None, RunOptions(directory=flow.directory))


def test_file_tools_touch_only_the_workspace_of_the_workflow(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    inside.write("notes/in.txt", "inside")
    inside.write("out.md", "outside")
    model.enqueue(tool_call("file_read", path="in.txt"), tool_call("file_read", path="../out.md")).enqueue(
        "done"
    )
    flow.run("chain", ONE, tools=tools("file_read"), security={"workspace": ["./notes"]})
    assert {event.code for event in flow.heard(ToolFinished)} == {None, "forbidden"}


def test_the_file_of_a_secret_may_disappear_during_the_run(flow: Flow, model: ScriptedModel) -> None:
    file = flow.directory / "token"
    file.write_text("t0ken-that-was-rotated")

    def rotate(event: object) -> None:
        if isinstance(event, StepStarted):
            file.unlink()

    model.enqueue("The token is t0ken-that-was-rotated.")
    secret = {"name": "TOKEN", "source": "file", "path": "token"}
    spec = flow.spec("chain", ONE, env={"secrets": [secret]}, outputs=OUTPUTS)
    result = run_sync(spec, None, RunOptions(directory=flow.directory, listeners=(rotate,)))
    assert "t0ken" not in result.last_response
    assert [path.read_text() for path in result.artifacts] == [result.last_response]


def test_secrets_reach_no_event_no_answer_and_no_artifact(
    flow: Flow, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-and-more")
    model.enqueue(tool_call("echo", message="hunter2-and-more")).enqueue("It is hunter2-and-more, I think")
    spec = flow.spec(
        "chain", ONE, tools=tools("echo"), env={"secrets": [{"name": "API_TOKEN"}]}, outputs=OUTPUTS,
        telemetry={"redact": {"tool_inputs": False, "tool_outputs": False}},
    )  # fmt: skip
    options = RunOptions(listeners=(flow.events.append,), directory=flow.directory, trace=True)
    result = run_sync(spec, None, options)
    assert "hunter2" not in repr(flow.events)
    assert "hunter2" not in result.last_response
    for path in result.artifacts:
        assert "hunter2" not in path.read_text()
        assert "***" in path.read_text()


def test_a_missing_secret_is_said_before_anything_runs(flow: Flow, model: ScriptedModel) -> None:
    with pytest.raises(StrandsError, match="NOT_SET_ANYWHERE"):
        flow.run("chain", ONE, env={"secrets": [{"name": "NOT_SET_ANYWHERE"}]})
    assert model.requests == []


# --- Answers as data, humans, artifacts -------------------------------------------------------------------


def test_an_answer_that_has_a_schema_is_data(flow: Flow, model: ScriptedModel) -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    model.enqueue(tool_call("answer", n="many")).enqueue(tool_call("answer", n=3)).enqueue("seen")
    config = {"steps": [*steps("count", agent="counter"), *steps("{{ steps[0].output.n + 1 }}")]}
    agents = {"counter": {"prompt": "x", "output_schema": schema}, "worker": {"prompt": "x"}}
    result = flow.run("chain", config, agents=agents)
    assert result.steps[0].output == {"n": 3}
    assert json.loads(result.steps[0].response) == {"n": 3}
    assert model.requests[-1].messages[0]["content"][0]["text"] == "4"


HUMAN = {
    "steps": [
        {"id": "ask", "human": {"prompt": "Go on with {{ topic }}?"}},
        *steps("{{ steps.ask.response }}"),
    ]
}
TOPIC: dict[str, Any] = {"inputs": {"values": {"topic": "owls"}}}


def test_a_human_is_asked_where_one_is_there(flow: Flow, model: ScriptedModel) -> None:
    async def answer(question: str) -> str:
        assert question == "Go on with owls?"
        return "yes"

    model.enqueue("done")
    result = flow.run_spec(flow.spec("chain", HUMAN, **TOPIC), ask_human=answer)
    assert [step.response for step in result.steps] == ["yes", "done"]


def test_a_run_that_needs_a_human_pauses_where_there_is_none(flow: Flow, model: ScriptedModel) -> None:
    with pytest.raises(Paused, match="Go on with owls") as paused:
        flow.run("chain", HUMAN, **TOPIC)
    assert paused.value.exit_code == 19


def test_a_human_who_says_nothing_in_time_gives_the_default(flow: Flow, model: ScriptedModel) -> None:
    async def silent(question: str) -> str:
        await asyncio.sleep(30)
        return "late"

    config = {
        "steps": [
            {"id": "ask", "human": {"prompt": "?", "default": "no", "timeout_s": 0.1}},
            *steps("{{ last_response }}"),
        ]
    }
    model.enqueue("done")
    assert flow.run_spec(flow.spec("chain", config), ask_human=silent).steps[0].response == "no"


def test_an_artifact_that_would_leave_the_directory_is_refused_and_the_answer_is_kept(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue("answer")
    outputs = {"artifacts": [{"path": "{{ where }}/x", "from": "y"}]}
    spec = flow.spec("chain", ONE, outputs=outputs, inputs={"values": {"where": "../.."}})
    with pytest.raises(ArtifactError, match="leaves"):
        run_sync(spec, None, RunOptions(directory=flow.directory))


def test_a_run_function_refuses_another_pattern(flow: Flow, model: ScriptedModel) -> None:
    spec = flow.spec("parallel", {"branches": [{"id": "a", "steps": steps("x")}]})
    with pytest.raises(StrandsError, match="is a parallel"):
        asyncio.run(run_chain(spec))


def test_what_a_listener_hears_of_a_call_names_the_step(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("echo", message="hi")).enqueue("done")
    flow.run("chain", ONE, tools=tools("echo"))
    assert flow.heard(ToolStarted)[0].step == "steps/0"
    assert flow.heard(RunNoticed) == []
