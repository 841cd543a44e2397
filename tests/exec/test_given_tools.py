"""Tools that a policy gives to all agents, and tools that a guardrail takes away."""

from typing import Any

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.errors import SpecError, UnsupportedError
from tests.exec.flows import AGENT, Flow, steps
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project

JIT = {"context_policy": {"retrieval": {"jit_tools": ["grep", "tail"]}}}


@pytest.fixture
def flow(inside: Project) -> Flow:
    return Flow(inside.root)


def offered(flow: Flow, listed: list[str] | None = None, **more: Any) -> list[str]:
    """The tools that a model is offered, in a workflow whose only agent lists these."""
    agent = AGENT if listed is None else {**AGENT, "tools": listed}
    model = ScriptedModel().enqueue("Done.")
    flow.run("chain", {"steps": steps("Go.")}, model=model, agents={"worker": agent}, **more)
    return [spec["name"] for spec in model.requests[0].tool_specs]


# --- context_policy.retrieval.jit_tools -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "declared", "expected"),
    [
        (None, [], ["grep", "tail"]),
        ([], [], ["grep", "tail"]),
        (None, ["echo"], ["echo", "grep", "tail"]),
        (["echo"], ["echo", "calculator"], ["echo", "grep", "tail"]),
        (["grep"], [], ["grep", "tail"]),
        (["native:grep"], ["native:grep"], ["grep", "tail"]),
    ],
)
def test_every_agent_gets_the_retrieval_tools_besides_its_own(
    flow: Flow, listed: list[str] | None, declared: list[str], expected: list[str]
) -> None:
    assert offered(flow, listed, tools={"python": declared}, **JIT) == expected


def test_a_retrieval_tool_looks_into_the_workspace(flow: Flow) -> None:
    (flow.directory / "service.log").write_text("start\nERROR disk full\n")
    model = ScriptedModel().enqueue(tool_call("grep", pattern="ERROR", path="service.log", context_lines=0))
    model.enqueue("The disk is full.")
    flow.run("chain", {"steps": steps("Why?")}, model=model, **JIT)
    assert model.requests[1].results[0]["content"] == [{"text": "2: ERROR disk full"}]


def test_another_tool_of_the_same_name_is_an_error(flow: Flow, inside: Project) -> None:
    inside.write("own.py", "from strands_cli import tool\n\n@tool\ndef grep(x: int) -> int:\n    '''X.'''\n")
    with pytest.raises(UnsupportedError, match="two tools of the id 'grep'"):
        offered(flow, tools={"python": ["./own.py:grep"]}, **JIT)


@pytest.mark.parametrize("named", [["grep", "grep"], ["cat"], "grep"])
def test_only_the_four_tools_can_be_named_and_each_once(flow: Flow, named: object) -> None:
    with pytest.raises(SpecError, match="jit_tools"):
        flow.spec("chain", {"steps": steps("Go.")}, context_policy={"retrieval": {"jit_tools": named}})


def test_plan_and_explain_show_the_retrieval_tools(inside: Project) -> None:
    Flow(inside.root).spec("chain", {"steps": steps("Go.")}, **JIT)
    assert "tools  grep, tail" in inside.strands("plan", "flow.yaml").out
    assert "may call grep and tail." in " ".join(inside.strands("explain", "flow.yaml").out.split())


# --- security.guardrails ----------------------------------------------------------------------------------

EXECUTOR = {"id": "api", "base_url": "https://api.example.com"}
PLUGIN = """{"name": "net", "cli_tools": [
    {"name": "out", "path": "out.sh", "description": "Goes out.", "network": true},
    {"name": "stay", "path": "out.sh", "description": "Stays."}]}"""
FETCHER = """from strands_cli import ToolContext, tool

@tool(annotations={"openWorldHint": True})
def far() -> str:
    '''Reach out.'''
    return "far"

@tool
def near(context: ToolContext) -> str:
    '''Call another tool.'''
    return str(context.call("http_request", url="http://127.0.0.1:9/"))
"""


def guardrails(**rules: Any) -> dict[str, Any]:
    return {"security": {"guardrails": rules}}


def issues(flow: Flow, listed: list[str] | None = None, **more: Any) -> list[tuple[str, str, str]]:
    agent = AGENT if listed is None else {**AGENT, "tools": listed}
    spec = flow.spec("chain", {"steps": steps("Go.")}, **{"agents": {"worker": agent}, **more})
    return [(one.severity, one.pointer, one.reason) for one in check_capability(spec).issues]


def test_no_agent_gets_a_tool_that_reaches_the_network(flow: Flow, inside: Project) -> None:
    inside.write("own.py", FETCHER)
    tools = {
        "python": ["echo", "http_request", "python_exec", "./own.py:far", "./own.py:near"],
        "http_executors": [EXECUTOR],
    }
    assert offered(flow, tools=tools, **guardrails(deny_network=True)) == ["echo", "python_exec", "near"]
    listed = ["api", "http_request", "echo", "far"]
    assert offered(flow, listed, tools=tools, **guardrails(deny_network=True)) == ["echo"]
    assert offered(flow, listed, tools=tools, **guardrails(deny_network=False)) == sorted(
        listed, key=listed.index
    )


def test_a_plugins_tool_that_may_use_the_network_is_withheld(flow: Flow, inside: Project) -> None:
    inside.write("source/net/plugin.json", PLUGIN)
    inside.write("source/net/out.sh", "#!/bin/sh\necho '{}'\n").chmod(0o755)
    assert inside.strands("plugin", "add", "source/net", "--yes").exit_code == 0
    flow.spec("chain", {"steps": steps("Go.")}, tools={"plugins": ["net"]})
    assert "tools  net__out, net__stay" in inside.strands("plan", "flow.yaml").out
    flow.spec("chain", {"steps": steps("Go.")}, tools={"plugins": ["net"]}, **guardrails(deny_network=True))
    assert "tools  net__stay" in inside.strands("plan", "flow.yaml").out


def test_allowed_tools_are_an_intersection_by_any_name(flow: Flow) -> None:
    tools = {"python": ["native:echo", "calculator", "current_time"], "http_executors": [EXECUTOR]}
    rails = guardrails(allow_tools=["echo", "strands_tools.calculator", "api", "grep"])
    assert offered(flow, tools=tools, **rails, **JIT) == ["echo", "calculator", "grep", "api"]
    assert offered(flow, ["current_time", "native:echo"], tools=tools, **rails) == ["echo"]
    assert offered(flow, tools=tools, **guardrails(allow_tools=[]), **JIT) == []


def test_a_named_tool_that_a_guardrail_withholds_is_a_warning_for_an_agent(flow: Flow) -> None:
    tools = {"python": ["http_request", "echo"]}
    rails = guardrails(deny_network=True, allow_tools=["http_request", "ecko"])
    assert issues(flow, ["http_request", "echo"], tools=tools, **rails) == [
        (
            "warning",
            "/agents/worker/tools/0",
            "security.guardrails.deny_network withholds the tool 'http_request'.",
        ),
        ("warning", "/agents/worker/tools/1", "security.guardrails.allow_tools withholds the tool 'echo'."),
        ("warning", "/security/guardrails/allow_tools/1", "There is no tool 'ecko'."),
    ]
    assert not [one for one in issues(flow, tools=tools, **rails) if "withholds" in one[2]]


def test_a_step_that_calls_a_withheld_tool_is_an_error(flow: Flow) -> None:
    spec = flow.spec(
        "chain",
        {"steps": [{"tool": "http_request", "arguments": {"url": "https://example.com"}}]},
        tools={"python": ["http_request"]},
        **guardrails(deny_network=True),
    )
    (issue,) = check_capability(spec).errors
    assert issue.pointer == "/pattern/config/steps/0/tool"


def test_a_tool_cannot_call_what_a_guardrail_withholds(flow: Flow, inside: Project) -> None:
    inside.write("own.py", FETCHER)
    model = ScriptedModel().enqueue(tool_call("near")).enqueue("Done.")
    tools = {"python": ["./own.py:near"]}
    flow.run("chain", {"steps": steps("Go.")}, model=model, tools=tools, **guardrails(deny_network=True))
    assert "deny_network does not allow http_request" in str(model.requests[1].results[0]["content"])


def test_a_server_by_address_is_neither_asked_nor_offered(flow: Flow) -> None:
    servers = [{"id": "far", "url": "https://mcp.example.com/mcp"}]
    tools = {"python": ["echo"], "mcp": servers}
    found = issues(flow, ["far", "echo"], tools=tools, **guardrails(deny_network=True))
    assert (
        "warning",
        "/agents/worker/tools/0",
        "security.guardrails.deny_network withholds the tool 'far'.",
    ) in found


def test_the_guardrails_of_a_workflow_hold_for_those_that_its_steps_run(flow: Flow, inside: Project) -> None:
    inside.write(
        "other.py", "from strands_cli import tool\n\n@tool\ndef echo(x: int) -> int:\n    '''X.'''\n"
    )
    inner = flow.document(
        "chain", {"steps": steps("Go.")}, tools={"python": ["http_request", "calculator", "./other.py:echo"]}
    )
    inside.write("inner.yaml", yaml.safe_dump(inner))
    model = ScriptedModel().enqueue("Done.")
    rails = guardrails(deny_network=True, allow_tools=["echo", "calculator", "http_request"])
    flow.run("chain", {"steps": [{"workflow": "inner.yaml"}]}, model=model, **rails)
    assert [spec["name"] for spec in model.requests[0].tool_specs] == ["calculator"]
    named = {**inner, "agents": {"worker": {**AGENT, "tools": ["http_request"]}}}
    inside.write("inner.yaml", yaml.safe_dump(named))
    (issue,) = check_capability(flow.spec("chain", {"steps": [{"workflow": "inner.yaml"}]}, **rails)).issues
    assert issue.reason.startswith("security.guardrails.deny_network of ")
    assert (issue.severity, issue.pointer) == ("warning", "/agents/worker/tools/0")


def test_an_allowed_executor_does_not_mean_another_of_its_id(flow: Flow, inside: Project) -> None:
    inner = flow.document(
        "chain",
        {"steps": steps("Go.")},
        tools={"http_executors": [{**EXECUTOR, "base_url": "https://other.example"}]},
    )
    inside.write("inner.yaml", yaml.safe_dump(inner))
    config = {"steps": [{"workflow": "inner.yaml"}]}
    for tools, expected in (({"http_executors": [EXECUTOR]}, []), ({}, ["api"])):
        model = ScriptedModel().enqueue("Done.")
        flow.run("chain", config, model=model, tools=tools, **guardrails(allow_tools=["api"]))
        assert [spec["name"] for spec in model.requests[0].tool_specs] == expected
