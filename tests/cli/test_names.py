"""A workflow may have any name: what is made from it is a safe file name, a tool's name and a title."""

import json

import pytest

from strands_cli.artifacts import safe_name
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.workflow_tool import workflow_tool
from strands_cli.loader import load_spec
from tests.projects import Project

NAME = 'Weekly "report": ../../etc {{ x }} – März'
FLOW = """\
version: 0
name: %s
runtime: {provider: scripted}
agents: {a: {prompt: Hello}}
pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("flow-1.2_x", "flow-1.2_x"),
        ("My flow", "My_flow"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("..", "_"),
        (".", "_"),
        ("a\0\n\ud800b", "a___b"),
        ("é" * 80, "é" * 50),
    ],
)
def test_a_file_name_is_made_of_any_text(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_a_workflow_of_any_name_runs_and_is_listed_drawn_and_served(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project.write("flow.yaml", FLOW % json.dumps(NAME))
    project.write("answers.yaml", "- {answers: [Done.]}\n")
    outcome = project.here(capsys, "run", "flow.yaml", "--trace", "--out", "out")
    assert (outcome.exit_code, outcome.out) == (0, "Done.\n"), outcome
    (trace,) = (project.root / "out").iterdir()
    assert trace.name == "Weekly__report___.._.._etc____x______März-trace.json"
    assert len(project.here(capsys, "runs", "list").out.splitlines()) == 1
    drawn = project.here(capsys, "graph", "flow.yaml").out
    assert drawn.splitlines()[1] == r'title: "Weekly \"report\": ../../etc {{ x }} – März"'
    tool = workflow_tool(load_spec(file), RunOptions())
    assert tool.id == "Weekly__report_________etc____x______M_rz"
