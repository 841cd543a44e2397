"""Ids may begin with a digit and have dots, colons and hyphens: they work wherever an id is used."""

from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import check_capability
from strands_cli.schema.validator import published_schema
from tests.exec.flows import Flow
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project

ODD = ["a-b", "a.b", "a:b", "1", "2024-01:x.y", "_a"]
AGENT = {"agent": "writer"}


@pytest.fixture
def flow(tmp_path: Path, model: ScriptedModel) -> Flow:
    model.default_answer = "ok"
    return Flow(tmp_path)


def checked(flow: Flow, kind: str, config: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    issues = check_capability(flow.spec(kind, config, **more)).issues
    return [(issue.reason, issue.remediation) for issue in issues]


def patterns(name: str) -> dict[str, tuple[str, dict[str, Any], list[str]]]:
    """Each pattern with the name as its ids: type, configuration, and the keys of its steps."""
    second = {"agent": name, "id": "last"}
    return {
        "chain": (
            "chain",
            {
                "steps": [
                    {"id": name, "agent": name},
                    {**second, "input": f"{{{{ steps['{name}'].response }}}}"},
                ]
            },
            ["steps/0", "steps/1"],
        ),
        "workflow": (
            "workflow",
            {
                "tasks": [
                    {"id": name, "agent": name},
                    {**second, "needs": [name], "input": f"{{{{ tasks['{name}'].response }}}}"},
                ]
            },
            ["tasks/0", "tasks/1"],
        ),
        "parallel": (
            "parallel",
            {
                "branches": [{"id": name, "steps": [{"agent": name}]}],
                "reduce": {"agent": name, "input": f"{{{{ branches['{name}'].response }}}}"},
            },
            ["branches/0/steps/0", "reduce"],
        ),
        "graph": (
            "graph",
            {
                "nodes": {
                    name: {"agent": name},
                    "last": {"agent": name, "input": f"{{{{ nodes['{name}'].response }}}}"},
                },
                "edges": [{"from": name, "to": "last", "when": f"nodes['{name}'].response != ''"}],
            },
            [f"nodes/{name}", "nodes/last"],
        ),
    }


@pytest.mark.parametrize("kind", ["chain", "workflow", "parallel", "graph"])
@pytest.mark.parametrize("name", ODD)
def test_ids_of_every_form_work_in_checks_and_runs(
    flow: Flow, model: ScriptedModel, name: str, kind: str
) -> None:
    kind, config, keys = patterns(name)[kind]
    agents = {name: {"prompt": "x"}}
    errors = check_capability(flow.spec(kind, config, agents=agents)).errors
    assert errors == ()
    result = flow.run(kind, config, agents=agents)
    assert [step.key for step in result.steps] == keys
    assert model.requests[-1].prompt == "ok"


@pytest.mark.parametrize("name", ODD)
def test_routes_may_have_names_of_every_form(flow: Flow, model: ScriptedModel, name: str) -> None:
    config = {"router": {"agent": "a"}, "routes": {name: {"steps": [AGENT]}, "other": {"steps": [AGENT]}}}
    model.enqueue(tool_call("answer", route=name))
    result = flow.run("routing", config)
    assert [step.key for step in result.steps] == ["router", f"routes/{name}/steps/0"]


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", ":a", "a/b", "a#1", "a=b", "é", "a" * 65, "a\n"])
def test_other_ids_are_refused(flow: Flow, name: str) -> None:
    document = flow.document("chain", {"steps": [{"agent": "a", "id": name}]})
    assert [one.pointer for one in published_schema("workflow").problems(document)] == [
        "/pattern/config/steps/0/id"
    ]


def test_an_id_of_digits_is_not_an_index(flow: Flow, model: ScriptedModel) -> None:
    texts = ["", "{{ steps['1'].id }} {{ steps[0].id }}", "{{ steps['0'].id }} {{ steps[1].id }}"]
    steps = [{"id": id, "agent": "a", "input": text} for id, text in zip("102", texts, strict=True)]
    assert checked(flow, "chain", {"steps": steps}) == []
    flow.run("chain", {"steps": steps})
    assert [request.prompt for request in model.requests][1:] == ["1 1", "0 0"]
    early = [steps[0], {**steps[1], "input": "{{ steps['0'].response }}{{ steps['7'] }}"}]
    (first, _), (second, hint) = checked(flow, "chain", {"steps": early})
    assert first == "\"steps['0']\" is not available yet: that step has not run."
    assert (second, hint) == ("There is no step with the id '7'.", "An index has no quotes: [7].")


def test_hints_write_an_id_as_a_template_must(flow: Flow) -> None:
    nodes = {"a-b": AGENT, "1": {**AGENT, "input": "{{ nodes.ab.response }}"}}
    edges = [{"from": "a-b", "to": "1"}]
    assert checked(flow, "graph", {"nodes": nodes, "edges": edges}) == [
        ("There is no node 'ab'.", "Did you mean 'a-b'? Write nodes['a-b'].")
    ]
    nodes = {"1": AGENT, "2": {**AGENT, "input": "{{ nodes.1.response }}"}}
    edges = [{"from": "1", "to": "2"}]
    assert checked(flow, "graph", {"nodes": nodes, "edges": edges}) == [
        ("There is no node 1.", "Its name is a text: write nodes['1'].")
    ]


FLOW = """
version: 0
name: odd
runtime: {provider: scripted, model_id: answers.yaml}
agents: {"a.b:c-1": {prompt: x}}
pattern:
  type: graph
  config:
    nodes:
      "1.draft": {agent: "a.b:c-1", input: Write.}
      "ok:1": {human: {prompt: Good?}}
      "ok:2": {human: {prompt: "{{ nodes['1.draft'].response }}?"}}
      end-it: {agent: "a.b:c-1", input: "{{ nodes['ok:1'].response }}"}
    edges:
      - {from: "1.draft", to: ["ok:1", "ok:2"]}
      - {from: "ok:1", to: end-it, when: "nodes['ok:1'].response == 'yes'"}
"""


def test_commands_take_and_show_such_ids(project: Project) -> None:
    project.write("flow.yaml", FLOW)
    project.write("answers.yaml", "answers: [A text., The end.]\n")
    for form in ("mermaid", "dot", "svg"):
        drawn = project.strands("graph", "flow.yaml", "--format", form)
        assert (drawn.exit_code, "ok" in drawn.out) == (0, True), drawn
    assert "1.draft" in project.strands("plan", "flow.yaml").out
    assert "ok:1" in project.strands("explain", "flow.yaml").out
    paused = project.strands("run", "flow.yaml", "--json")
    assert paused.exit_code == 19, paused
    run = paused.json["error"]["run_id"]
    done = project.strands("resume", run, "--answer", "ok:1=yes", "--answer", "nodes/ok:2=no", "--json")
    assert done.exit_code == 0, done
    assert done.json["last_response"] == "The end."
    assert "1.draft" in project.strands("runs", "show", run).out
