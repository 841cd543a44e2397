"""What a step gives its agent: names, tools, and an input that fits."""

from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import check_capability
from strands_cli.errors import ProviderError, RunError
from strands_cli.events import RunNoticed
from strands_cli.schema.validator import published_schema
from tests.exec.flows import Flow
from tests.exec.test_durable import Durable, outage
from tests.fakes import ScriptedModel, tool_call

TOOLS = {"python": ["echo", "calculator"]}
TOPIC = {"required": {"topic": "string"}}


@pytest.fixture
def flow(tmp_path: Path, model: ScriptedModel) -> Flow:
    model.default_answer = "ok"
    return Flow(tmp_path)


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[spec["name"] for spec in request.tool_specs] for request in model.requests]


def reasons(flow: Flow, config: dict[str, Any], kind: str = "chain", **more: Any) -> list[str]:
    issues = check_capability(flow.spec(kind, config, **more)).issues
    return [f"{issue.pointer} {issue.reason}" for issue in issues]


# --- vars -------------------------------------------------------------------------------------------------


def test_the_vars_of_a_step_are_names_for_its_input_and_its_prompt(flow: Flow, model: ScriptedModel) -> None:
    steps = [
        {"agent": "a", "input": "{{ topic }}, {{ words + 1 }} words", "vars": {"words": 9, "tone": "dry"}},
        {"agent": "a", "input": "{{ topic }}", "vars": {"topic": "bats", "tone": "warm", "formal": True}},
    ]
    agents = {"a": {"prompt": "Be {{ tone }} about {{ inputs.topic }}."}}
    assert reasons(flow, {"steps": steps}, agents=agents, inputs=TOPIC) == []
    flow.run("chain", {"steps": steps}, {"topic": "owls"}, agents=agents, inputs=TOPIC)
    assert [request.prompt for request in model.requests] == ["owls, 10 words", "bats"]
    systems = [request.system_prompt for request in model.requests]
    assert systems == ["Be dry about owls.", "Be warm about owls."]


def test_the_vars_of_one_step_are_unknown_in_another(flow: Flow) -> None:
    steps = [{"agent": "a", "vars": {"tone": "dry"}}, {"agent": "a", "input": "{{ tone }}"}]
    (reason,) = reasons(flow, {"steps": steps}, inputs=TOPIC)
    assert reason == "/pattern/config/steps/1/input There is no name 'tone'."
    agents = {"a": {"prompt": "{{ tone }}"}}
    (reason,) = reasons(flow, {"steps": [steps[0], {"agent": "a"}]}, agents=agents, inputs=TOPIC)
    assert reason == "/agents/a/prompt There is no name 'tone' (for /pattern/config/steps/1)."


def test_the_producers_vars_hold_for_revisions(flow: Flow, model: ScriptedModel) -> None:
    config = {
        "producer": {"agent": "writer", "input": "Write {{ tone }}.", "vars": {"tone": "dry"}},
        "evaluator": {"agent": "judge", "input": "{{ draft }}"},
        "revise": "{{ draft }}, {{ tone }}",
    }
    model.enqueue("one").enqueue(tool_call("answer", score=1, feedback="no"))
    model.enqueue("two").enqueue(tool_call("answer", score=99, feedback="yes"))
    flow.run("evaluator_optimizer", config)
    assert [request.prompt for request in model.requests] == ["Write dry.", "one", "one, dry", "two"]


def test_a_var_that_the_pattern_hides_is_told(flow: Flow, model: ScriptedModel) -> None:
    steps = [{"agent": "a", "input": "{{ inputs.topic }}", "vars": {"inputs": 1, "steps": "x"}}]
    found = reasons(flow, {"steps": steps}, inputs=TOPIC)
    assert [reason.split()[0] for reason in found] == [
        "/pattern/config/steps/0/vars/inputs",
        "/pattern/config/steps/0/vars/steps",
    ]
    flow.run("chain", {"steps": steps}, {"topic": "owls"}, inputs=TOPIC)
    assert model.requests[0].prompt == "owls"


def test_items_see_the_vars_of_their_step(flow: Flow, model: ScriptedModel) -> None:
    steps = [{"agent": "a", "input": "{{ item }} {{ unit }}", "vars": {"unit": "kg"}, "foreach": ["1", "2"]}]
    assert reasons(flow, {"steps": steps}) == []
    flow.run("chain", {"steps": steps})
    assert sorted(request.prompt for request in model.requests) == ["1 kg", "2 kg"]


# --- tools ------------------------------------------------------------------------------------------------


def test_a_step_has_its_own_tools_in_place_of_its_agents(flow: Flow, model: ScriptedModel) -> None:
    agents = {"a": {"prompt": "x", "tools": ["calculator"]}}
    steps = [
        {"agent": "a", "tools": ["native:echo"]},
        {"agent": "a"},
        {"agent": "a", "tools": []},
        {"agent": "a", "tools": ["echo", "calculator"]},
    ]
    assert reasons(flow, {"steps": steps}, agents=agents, tools=TOOLS) == []
    flow.run("chain", {"steps": steps}, agents=agents, tools=TOOLS)
    assert offered(model) == [["echo"], ["calculator"], [], ["echo", "calculator"]]


def test_workers_have_the_tools_of_their_step(flow: Flow, model: ScriptedModel) -> None:
    config = {"orchestrator": {"agent": "a", "tools": []}, "worker": {"agent": "a", "tools": ["echo"]}}
    model.enqueue(tool_call("answer", tasks=["one"]))
    flow.run("orchestrator_workers", config, tools=TOOLS)
    assert offered(model) == [["answer"], ["echo"]]


def test_the_tools_of_a_step_are_checked_like_those_of_an_agent(flow: Flow) -> None:
    nodes = {"one": {"agent": "a", "tools": ["echo", "calculater", "file_read"]}}
    found = reasons(flow, {"nodes": nodes, "edges": []}, "graph", tools=TOOLS)
    assert sorted(found) == [
        "/pattern/config/nodes/one/tools/1 There is no tool 'calculater'.",
        "/pattern/config/nodes/one/tools/2 The native tool 'file_read' is not declared in tools.python; "
        "it is used as if it were.",
    ]


def test_a_resumed_step_has_its_own_tools_and_other_tools_make_it_another_step(
    tmp_path: Path, model: ScriptedModel
) -> None:
    flow, steps = Durable(tmp_path), [{"agent": "a", "tools": ["echo"]}, {"agent": "a", "tools": []}]
    spec = flow.spec("chain", {"steps": steps}, tools=TOOLS)
    model.enqueue("one").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    model.default_answer = "ok"
    flow.go(spec)
    assert offered(model)[1:] == [[], []]
    steps[0]["tools"] = ["calculator"]
    flow.go(flow.spec("chain", {"steps": steps}, tools=TOOLS), accept_changes=True)
    assert offered(model)[3] == ["calculator"]


@pytest.mark.parametrize("key", ["vars", "tools"])
@pytest.mark.parametrize("kind", ["human", "tool", "workflow"])
def test_only_a_step_of_an_agent_has_vars_and_tools(flow: Flow, key: str, kind: str) -> None:
    step = {kind: {"prompt": "?"} if kind == "human" else "echo", key: {} if key == "vars" else []}
    problems = published_schema("workflow").problems(flow.document("chain", {"steps": [step]}))
    assert [problem.pointer for problem in problems] == [f"/pattern/config/steps/0/{key}"]


# --- input_schema -----------------------------------------------------------------------------------------

PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GUIDES = {"guide": {"prompt": "x", "input_schema": PLACE}}


def test_an_input_that_is_json_and_fits_its_schema_is_sent(flow: Flow, model: ScriptedModel) -> None:
    flow.run("chain", {"steps": [{"agent": "guide", "input": '{"city": "Ulm"}'}]}, agents=GUIDES)
    assert model.requests[0].prompt == '{"city": "Ulm"}'
    assert flow.heard(RunNoticed) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"city": 5}', "/city must be a string, got integer 5"),
        ("{}", "/city is missing"),
        ("[1]", "the whole must be an object, got array"),
    ],
)
def test_an_input_that_does_not_fit_its_schema_ends_the_run_before_the_model_is_asked(
    flow: Flow, model: ScriptedModel, text: str, problem: str
) -> None:
    steps = [{"agent": "guide", "input": '{"city": "Ulm"}'}, {"agent": "guide", "input": "{{ raw }}"}]
    inputs = {"required": {"raw": "string"}}
    with pytest.raises(RunError) as failed:
        flow.run("chain", {"steps": steps}, {"raw": text}, agents=GUIDES, inputs=inputs)
    assert failed.value.exit_code == 10
    assert failed.value.step == "steps/1"
    assert "/pattern/config/steps/1/input: " in failed.value.message
    assert problem in failed.value.message
    assert len(model.requests) == 1


def test_an_input_that_is_not_json_is_sent_with_one_notice(flow: Flow, model: ScriptedModel) -> None:
    steps = [
        {"agent": "guide", "input": text} for text in ("Show me Ulm", '{"city": NaN}', '{"city": "Ulm"}')
    ]
    flow.run("chain", {"steps": steps}, agents=GUIDES)
    assert len(model.requests) == 3
    (notice,) = flow.heard(RunNoticed)
    assert notice.text == "The input of agent 'guide' is not JSON: its input_schema is not used."
    assert notice.step == "steps/0"


def test_an_input_schema_that_is_not_a_schema_is_told(flow: Flow) -> None:
    agents = {"guide": {"prompt": "x", "input_schema": {"type": "objekt"}}}
    (reason,) = reasons(flow, {"steps": [{"agent": "guide"}]}, agents=agents)
    assert reason.startswith("/agents/guide/input_schema/type Invalid JSON Schema")
