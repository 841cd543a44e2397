"""`strands validate` and `strands schema` as they are used."""

import json
import re
from pathlib import Path

import pytest

from tests.projects import Project

GOOD = """\
version: 0
name: good
runtime: {provider: ollama}
agents: {a: {prompt: Hello}}
pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}
"""
UNSUPPORTED = GOOD + "tools: {python: [eco]}\n"
WARNED = GOOD + "env: {secrets: [{name: NOT_SET_HERE}]}\n"
INVALID = GOOD.replace("name: good", "nam: good")

# Each marked line has one mistake of a kind that no other has.
TWENTY = """\
version: 2                                  # 1 /version
name: ""                                    # 2 /name
colour: red                                 # 3 /colour
runtime:
  provider: olama                           # 4 /runtime/provider
  max_parallel: 0                           # 5 /runtime/max_parallel
  budgets: {max_steps: many}                # 6 /runtime/budgets/max_steps
tags: [a]
tags: [b]                                   # 7 /tags
inputs:
  required:
    topic: text                             # 8 /inputs/required/topic
  values:
    tpic: x                                 # 9 /inputs/values/tpic
env:
  secrets:
    - {name: KEY, source: file}             # 10 /env/secrets/0/path
tools:
  python:
    - eco                                   # 11 /tools/python/0/callable
    - echo
    - native:echo                           # 12 /tools/python/2/callable
  mcp: [{id: nowhere}]                      # 13 /tools/mcp/0/id
agents:
  a:
    prompt: "{{ topik }}"                   # 14 /agents/a/prompt
    tools: [calculater]                     # 15 /agents/a/tools/0
    output_schema: {type: objekt}           # 16 /agents/a/output_schema/type
  b:
    prompt: "{{ topic | uper }}"            # 17 /agents/b/prompt
pattern:
  type: chain
  config:
    steps:
      - agent: c                            # 18 /pattern/config/steps/0/agent
      - agent: a
        input: "{{ steps[1].response }}"    # 19 /pattern/config/steps/1/input
      - agent: b
        input: "{{ topic"                   # 20 /pattern/config/steps/2/input
      - agent: b
        id: same
      - agent: b
        id: same                            # 21 /pattern/config/steps/4/id
outputs:
  artifacts:
    - path: ../x.md                         # 22 /outputs/artifacts/0/path
      from: "{{ last_response }}"
"""
MARKED = [
    (number, match[1])
    for number, line in enumerate(TWENTY.splitlines(), 1)
    if (match := re.search(r"# \d+ (/\S+)", line))
]


def test_a_good_file_passes(project: Project) -> None:
    project.write("flow.yaml", GOOD)
    outcome = project.strands("validate", "flow.yaml")
    assert (outcome.exit_code, outcome.out) == (0, "")
    assert outcome.err == "1 file checked, 1 good: 0 errors, 0 warnings.\n"


def test_twenty_mistakes_in_one_file_are_found_in_one_go(project: Project) -> None:
    project.write("flow.yaml", TWENTY)
    outcome = project.strands("validate", "flow.yaml", "--json")
    assert outcome.exit_code == 3
    issues = outcome.json["files"][0]["issues"]
    assert [(issue["line"], issue["pointer"]) for issue in issues] == MARKED
    assert len(issues) >= 20
    for issue in issues:
        assert issue["file"] == "flow.yaml"
        assert issue["column"] > 0
        assert issue["reason"].endswith((".", "allowlist"))
        assert issue["remediation"]


def test_each_issue_has_its_place_its_reason_and_its_remedy(project: Project) -> None:
    project.write("flow.yaml", UNSUPPORTED)
    outcome = project.strands("validate", "flow.yaml")
    place, reason, remedy = outcome.out.splitlines()
    assert place == "flow.yaml:6:18  /tools/python/0/callable  error"
    assert reason == "  Python callable 'eco' not in allowlist"
    assert remedy.startswith(
        "  Use an existing native tool or add one under strands_cli.tools. Did you mean 'echo'?"
    )
    assert outcome.err == "1 file checked, 0 good: 1 error, 0 warnings.\n"


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        (GOOD, [], 0),
        (GOOD, ["--strict"], 0),
        (WARNED, [], 0),
        (WARNED, ["--strict"], 18),
        (UNSUPPORTED, [], 18),
        (INVALID, [], 3),
        (INVALID + "tools: {python: [eco]}\n", [], 3),
        ("a: [", [], 3),
        ("", [], 3),
        ("- 1", [], 3),
    ],
)
def test_the_exit_code_says_what_is_wrong(
    project: Project, text: str, arguments: list[str], code: int
) -> None:
    project.write("flow.yaml", text)
    for more in ([], ["--json"]):
        outcome = project.strands("validate", "flow.yaml", *arguments, *more)
        assert outcome.exit_code == code
        assert (outcome.out == "") == (text == GOOD and not more)
        if more:
            assert json.loads(outcome.out)["valid"] == (code == 0)
            assert outcome.err == ""


def test_directories_stand_for_the_workflows_below_them(project: Project) -> None:
    project.write("flows/good.yaml", GOOD)
    project.write("flows/deep/unsupported.yml", UNSUPPORTED)
    project.write("flows/deep/flow.json", json.dumps({"version": 0, "pattern": {}}))
    project.write("flows/broken.json", '{"pattern": {}, "agents": {}, ')
    project.write("flows/agents/writer.yaml", "prompt: x")
    project.write("flows/schema.json", json.dumps({"properties": {"pattern": {}, "agents": {}}}))
    project.write("flows/.hidden/bad.yaml", INVALID)
    outcome = project.strands("validate", "flows", "--json")
    files = {item["file"]: (item["valid"], item["supported"]) for item in outcome.json["files"]}
    assert files == {
        "flows/broken.json": (False, False),
        "flows/deep/flow.json": (False, False),
        "flows/deep/unsupported.yml": (True, False),
        "flows/good.yaml": (True, True),
    }
    assert outcome.exit_code == 3
    assert project.strands("validate", "flows/good.yaml", "flows/deep/unsupported.yml").exit_code == 18


def test_what_is_not_there_is_a_mistake_on_the_command_line(project: Project) -> None:
    (project.root / "empty").mkdir()
    project.write("flow.yaml", GOOD)
    for arguments in (
        ["empty"],
        [],
        ["flow.yaml", "--var", "x"],
        ["flow.yaml", "--var", "x=@no"],
    ):
        outcome = project.strands("validate", *arguments)
        assert outcome.exit_code == 2
        assert "error:" in outcome.err


def test_variables_are_checked_against_the_inputs(project: Project) -> None:
    project.write("flow.yaml", GOOD + "inputs: {required: {n: integer, t: string}}\n")
    project.write("value.txt", "long text")
    assert project.strands("validate", "flow.yaml", "--var", "n=3", "--var", "t=@value.txt").exit_code == 0
    assert project.strands("validate", "flow.yaml", "--var", "t=3").exit_code == 0
    outcome = project.strands("validate", "flow.yaml", "--var", "n=three", "--var", "m=1")
    assert outcome.exit_code == 3
    assert "expected integer, got string 'three'" in outcome.out
    assert "There is no input 'm'." in outcome.out


@pytest.mark.parametrize("kind", ["", "plugin", "script"])
def test_the_schema_is_printed(project: Project, kind: str) -> None:
    outcome = project.strands("schema", *filter(None, [kind]))
    assert (outcome.exit_code, outcome.err) == (0, "")
    assert outcome.json["title"] == f"strands {kind or 'workflow'}"


def test_a_file_without_templates_is_checked_without_jinja(project: Project) -> None:
    project.write("flow.yaml", GOOD + "tools: {python: [echo]}\n")
    project.write("probe.py", "import runpy, sys\nsys.argv = ['strands', 'validate', 'flow.yaml']\ntry:\n    runpy.run_module('strands_cli', run_name='__main__')\nfinally:\n    print('jinja2' in sys.modules, 'strands' in sys.modules, 'asyncio' in sys.modules)\n")  # fmt: skip
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "probe.py"],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["False", "False", "False"], done.stderr


def test_a_workflow_that_is_no_yaml_is_told_of_in_a_directory(project: Project) -> None:
    project.write("flows/good.yaml", GOOD)
    project.write("flows/tab.yaml", GOOD.replace("pattern:", "\tpattern:"))
    project.write("flows/open.yml", "version: 0\nname: [x\n")
    project.write("flows/misspelt.yaml", GOOD.replace("pattern:", "patern:"))
    project.write("flows/other.yaml", "runtime: python39\n")
    project.write("flows/broken-other.yaml", "services: [x\n")
    outcome = project.strands("validate", "flows", "--json")
    assert outcome.exit_code == 3
    assert {item["file"]: item["valid"] for item in outcome.json["files"]} == {
        "flows/good.yaml": True,
        "flows/misspelt.yaml": False,
        "flows/open.yml": False,
        "flows/tab.yaml": False,
    }
    assert outcome.json["skipped"] == 2
    assert "2 other files skipped: no workflow." in project.strands("validate", "flows").err


def test_data_and_templates_in_a_directory_are_no_workflows(project: Project) -> None:
    project.write("flows/good.yaml", GOOD)
    rows = [{"row": row, "pattern": "x", "runtime": "y"} for row in range(9000)]
    project.write("flows/rows.json", json.dumps({"data": rows}))
    project.write("flows/deep.json", '{"x": ' * 60 + '{"pattern": 1, "runtime": 1}' + "}" * 60)
    project.write("flows/deepest.json", '{"x": ' * 100_000 + '{"pattern": 1}' + "}" * 100_000)
    project.write("flows/openapi.yaml", "schemas:\n  name:\n    pattern: ^a\n    runtime: {type: string}\n")
    helm = (
        "{{- if .Values.crds }}\nspec:\n  name:\n    pattern: ^a\n    runtime: {type: string}\n{{- end }}\n"
    )
    project.write("flows/helm.yaml", helm)
    outcome = project.strands("validate", "flows", "--json")
    assert [item["file"] for item in outcome.json["files"]] == ["flows/good.yaml"]
    assert outcome.json["skipped"] == 5


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeffpattern: x\n", id="a byte order mark"),
        pytest.param("{name: x, pattern: {type: chain}}\n", id="flow style"),
        pytest.param("x-base: &base {pattern: x}\n<<: *base\n", id="a merged key"),
        pytest.param('{"name": "x", "pattern": {,}, "agents": {}}\n', id="broken JSON"),
    ],
)
def test_a_workflow_in_another_style_is_found_in_a_directory(project: Project, text: str) -> None:
    project.write("flows/flow.yaml", text)
    outcome = project.strands("validate", "flows", "--json")
    assert [item["file"] for item in outcome.json["files"]] == ["flows/flow.yaml"]


def test_an_input_is_looked_into(project: Project) -> None:
    project.write("flow.yaml", GOOD + "inputs: {required: {n: {type: int}}, optional: {m: {typ: string}}}\n")
    outcome = project.strands("validate", "flow.yaml", "--json")
    (checked,) = outcome.json["files"]
    assert [(issue["pointer"], issue["remediation"]) for issue in checked["issues"]] == [
        ("/inputs/required/n/type", "Did you mean 'integer'?"),
        ("/inputs/optional/m/typ", "Did you mean 'type'?"),
    ]


def test_the_tools_of_a_workflow_are_those_of_its_own_project(project: Project, tmp_path: Path) -> None:
    project.tool("mine", "def mine(tool, **kw): return ''")
    file = project.write("flows/flow.yaml", GOOD + "tools: {python: [mine]}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plain = elsewhere / "plain.yaml"
    plain.write_text(GOOD + "tools: {python: [mine]}\n")
    for cwd in (elsewhere, project.root):  # which makes no difference
        outcome = project.strands("validate", str(file), str(plain), "--json", cwd=cwd)
        assert [item["supported"] for item in outcome.json["files"]] == [True, False]
