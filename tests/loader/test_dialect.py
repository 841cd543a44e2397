"""Workflow files in the spelling of the public runner: accepted, warned about or refused, in its own words."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.documents.reader import read_document
from strands_cli.documents.rewriting import rewritten_text
from strands_cli.errors import Issue
from strands_cli.loader import examine_workflow
from strands_cli.loader.dialect import translate
from tests.loader.dialect_files import CHAIN, NODES, ROWS, Row, with_sections
from tests.loader.dialect_pairs import ARTIFACTS, PAIRS, SCRIPT
from tests.projects import Project

ACCEPTED = [name for name, row in ROWS.items() if not row.error]


def said(file: Path) -> list[Issue]:
    """All that is said about a file, but for what it needs of this machine."""
    spec, issues = examine_workflow(file)
    return [*issues, *(check_capability(spec, issues).issues if spec else ())]


@pytest.mark.parametrize("name", ROWS)
def test_what_a_file_may_hold_there_is_accepted_warned_about_or_refused(tmp_path: Path, name: str) -> None:
    row: Row = ROWS[name]
    file = tmp_path / "flow.yaml"
    file.write_text(with_sections(row.given), "utf-8")
    issues = said(file)
    if not row.error and not row.warning:
        assert issues == []
        return
    severity = "error" if row.error else "warning"
    found = [issue for issue in issues if issue.pointer == row.place and issue.severity == severity]
    assert any(issue.reason.startswith(row.error or row.warning) for issue in found), issues
    assert all(issue.line > 0 and issue.remediation for issue in issues)
    if row.warning:
        assert [issue for issue in issues if issue.severity == "error"] == []
    position = file.read_text("utf-8").splitlines()[found[0].line - 1]
    assert position.strip() or row.place == ""


@pytest.mark.parametrize(("edges", "choices"), [(1, 2_700), (100, 30)])
def test_choices_whose_conditions_grow_too_long_are_refused_soon(
    tmp_path: Path, edges: int, choices: int
) -> None:
    choose = ", ".join(["{when: topic, to: two}"] * choices)
    listed = ", ".join([f"{{from: one, choose: [{choose}]}}"] * edges)
    file = tmp_path / "flow.yaml"
    file.write_text(
        with_sections(f"pattern: {{type: graph, config: {{{NODES}, edges: [{listed}]}}}}"), "utf-8"
    )
    started = time.process_time()
    issues = [issue for issue in said(file) if issue.reason.startswith("There are too many choices")]
    assert time.process_time() - started < 6
    assert issues[-1].pointer.startswith(f"/pattern/config/edges/{edges - 1}/choose/")
    assert issues[-1].line > 0
    assert len(issues) <= edges


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.error])
def test_what_is_refused_has_the_exit_code_of_its_kind(
    project: Project, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    project.write("flow.yaml", with_sections(ROWS[name].given))
    assert project.here(capsys, "validate", "flow.yaml").exit_code == ROWS[name].code


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_converted_file_has_the_same_plan_and_nothing_to_say(
    project: Project, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    project.write("flow.yaml", with_sections(ROWS[name].given))
    text = project.here(capsys, "convert", "flow.yaml")
    assert text.exit_code == 0, text
    before = project.here(capsys, "plan", "flow.yaml", "--json").json
    project.write("flow.yaml", text.out)
    after = project.here(capsys, "plan", "flow.yaml", "--json").json
    assert before == after
    again = project.here(capsys, "convert", "flow.yaml")
    assert again.out == text.out
    assert again.err == "" or ROWS[name].stays


@pytest.mark.parametrize("pattern", PAIRS)
def test_a_pattern_has_the_same_plan_in_either_spelling(
    project: Project, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    plans = []
    for name, text in zip(("theirs", "ours"), PAIRS[pattern], strict=True):
        project.write("flow.yaml", text)
        project.write("answers.yaml", SCRIPT)
        checked = project.here(capsys, "validate", "flow.yaml", "--strict")
        assert (checked.exit_code, checked.out) == (0, ""), name
        plans.append(project.here(capsys, "plan", "flow.yaml", "--json").json)
    assert plans[0] == plans[1]


@pytest.mark.parametrize("pattern", PAIRS)
def test_a_pattern_has_the_same_result_in_either_spelling(
    project: Project, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    results = []
    for name, text in zip(("theirs", "ours"), PAIRS[pattern], strict=True):
        project.write(f"{name}/flow.yaml", text)
        project.write(f"{name}/answers.yaml", SCRIPT)
        done = project.here(capsys, "run", f"{name}/flow.yaml", "--out", name, "--json")
        if done.exit_code == 19:  # a question, which is answered when the run is resumed
            run = done.json["error"]["run_id"]
            done = project.here(capsys, "run", "--resume", run, "--hitl-response", "approved", "--json")
        assert done.exit_code == 0, done
        steps = [(step["key"], step["response"]) for step in done.json["steps"]]
        results.append((steps, done.json["last_response"], (project.root / name / "out.txt").read_text()))
    assert results[0] == results[1]
    assert results[0][2] == ARTIFACTS[pattern]


@pytest.mark.parametrize("pattern", PAIRS)
def test_a_pattern_is_converted_to_our_spelling_with_its_comments(
    project: Project, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    theirs, ours = PAIRS[pattern]
    project.write("flow.yaml", theirs)
    converted = project.here(capsys, "convert", "flow.yaml")
    assert (converted.exit_code, converted.err) == (0, "")
    assert yaml.safe_load(converted.out) == yaml.safe_load(ours)
    comments = re.findall(r"# .*", theirs)
    assert comments
    assert re.findall(r"# .*", converted.out) == comments


# --- Files that refer to others ---------------------------------------------------------------------------

ATOMIC = """\
version: 0
name: one agent
metadata: {labels: {strands.io/agent_type: atomic}}
runtime: {provider: ollama, host: "http://localhost:11434", temperature: 0.1}
agents:
  expert:
    prompt: You know it all.
    output_schema: ./shape.json
    tools: [calculator]
pattern: {type: chain, config: {steps: [{agent: expert, input: x}]}}
"""


def test_an_agent_may_be_the_one_of_another_workflow(project: Project) -> None:
    project.write("parts/expert.yaml", ATOMIC)
    project.write("parts/shape.json", '{"type": "object", "properties": {"answer": {"type": "string"}}}')
    agents = (
        "tools: {python: [calculator]}\nagents: {a: {ref: parts/expert.yaml, model_id: m}, b: {prompt: x}}"
    )
    file = project.write("flow.yaml", with_sections(agents))
    spec, issues = examine_workflow(file)
    assert issues == []
    assert spec is not None
    agent = spec.agents["a"]
    assert (agent.prompt, agent.model_id, agent.tools) == ("You know it all.", "m", ("calculator",))
    assert agent.output_schema is not None
    assert agent.output_schema["properties"] == {"answer": {"type": "string"}}
    assert spec.position("/agents/a/prompt")[0].endswith("expert.yaml")
    assert [remark.reason for remark in spec.remarks] == [
        "'output_schema' is enforced in runs here: answers are JSON that fits."
    ]
    assert {Path(name).name for name in spec.texts} == {"flow.yaml", "expert.yaml", "shape.json"}
    converted = project.strands("convert", "flow.yaml")
    assert "$ref: parts/expert.yaml" in converted.out


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (ATOMIC.replace("  expert:", "  second: {prompt: x}\n  expert:"), "It has 2 agents"),
        (ATOMIC.replace("prompt: You know it all.", "$ref: third.yaml"), "Its agent refers to another file"),
        ("agents: 3", "It has 0 agents"),
        ("[1]", "It does not define an agent."),
    ],
)
def test_a_file_with_another_number_of_agents_is_refused(project: Project, other: str, reason: str) -> None:
    project.write("expert.yaml", other)
    project.write("shape.json", "{}")
    file = project.write("flow.yaml", with_sections("agents: {a: {$ref: expert.yaml}, b: {prompt: x}}"))
    (issue,) = examine_workflow(file)[1]
    assert issue.pointer == "/agents/a/$ref"
    assert issue.reason.startswith(f"expert.yaml: {reason}")


def test_a_schema_file_is_read_inside_the_project_only(project: Project) -> None:
    (project.root.parent / "outside.json").write_text("{}")
    for name in ("../outside.json", "nowhere.json"):
        agents = f"agents: {{a: {{prompt: x, output_schema: {name}}}, b: {{prompt: x}}}}"
        file = project.write("flow.yaml", with_sections(agents))
        (issue,) = examine_workflow(file)[1]
        assert (issue.pointer, issue.reason.startswith(name)) == ("/agents/a/output_schema", True)


# --- Inputs that a file does not declare ------------------------------------------------------------------

UNDECLARED = (
    "inputs: null\nruntime: {provider: scripted, model_id: answers.yaml}\n"
    "agents: {a: {prompt: 'You know {{ field }}.'}, b: {prompt: x}}"
)


def test_a_run_needs_the_inputs_that_a_file_does_not_declare(project: Project) -> None:
    project.write("flow.yaml", with_sections(UNDECLARED))
    project.write(
        "answers.yaml", "- {system: You know owls, when: tea, answers: [Yes.]}\n- {answers: [Done.]}\n"
    )
    missing = project.strands("run", "flow.yaml", "--var", "topic=tea")
    assert missing.exit_code == 3
    assert "The input 'field' is missing." in missing.err
    assert "flow.yaml:8:5  /agents/a/prompt" in missing.err
    unknown = project.strands("run", "flow.yaml", "--var", "topic=tea", "--var", "feild=x")
    assert (unknown.exit_code, "Did you mean 'field'?" in unknown.err) == (3, True)
    done = project.strands("run", "flow.yaml", "--var", "topic=tea", "--var", "field=owls")
    assert (done.exit_code, done.out) == (0, "Done.\n")
    assert done.err.count("are not declared") == 1


def test_a_name_that_a_template_can_do_without_is_not_an_input(project: Project) -> None:
    steps = CHAIN.format("{agent: a, input: '{{ tone | default(\"calm\") }}'}")
    file = project.write("flow.yaml", with_sections(f"inputs: null\n{steps}"))
    spec, _ = examine_workflow(file)
    assert spec is not None
    assert spec.inputs.declared == {}


# --- Text that is written again ---------------------------------------------------------------------------


def commented(text: str, seed: int) -> str:
    """The text with comments and empty lines at random places, outside of block scalars."""
    random, lines, number, block = Random(seed), list[str](), 0, -1
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        block = -1 if line.strip() and indent <= block else block
        if block < 0 and line.strip() and random.random() < 0.2:
            lines += [" " * random.choice([0, indent, indent + 2]) + f"# c{number}"]
            number += 1
        if block < 0 and line.strip() and "#" not in line and line[-1:] not in "|-" and random.random() < 0.2:
            line, number = f"{line}  # c{number}", number + 1
        if re.search(r"[|>][-+]?$", line):
            block = indent
        lines += ["", line] if block < 0 and random.random() < 0.05 else [line]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 5000), marks=pytest.mark.long)], ids=str
)
def test_no_comment_is_lost_when_a_file_is_written_again(seeds: range) -> None:
    texts = [theirs for theirs, _ in PAIRS.values()] + [with_sections(row.given) for row in ROWS.values()]
    for seed in seeds:
        text = commented(texts[seed % len(texts)], seed)
        document = read_document(text, "flow.yaml")
        root = translate(document).root
        written = rewritten_text(document, root)
        assert read_document(written, "flow.yaml").value == root.plain, text
        assert sorted(re.findall(r"# \w+", written)) == sorted(re.findall(r"# \w+", text)), text


def test_anchors_and_merged_keys_are_written_again_as_what_they_stand_for() -> None:
    text = """\
runtime: &shared {provider: ollama, temperature: 0.2}
agents:
  a: &agent   # shared
    prompt: Hello
  b:
    <<: *agent
    tools: []
pattern:
  type: workflow
  config:
    tasks:
      - {id: one, agent: a, deps: &none []}
      - {id: two, agent: b, deps: *none}  # the same
"""
    document = read_document(text, "flow.yaml")
    root = translate(document).root
    written = rewritten_text(document, root)
    assert read_document(written, "flow.yaml").value == root.plain
    assert "  a: &agent   # shared\n    prompt: Hello\n  b:\n    <<: *agent\n" in written
    assert "- {id: two, agent: b, needs: []}  # the same\n" in written


def test_a_json_file_is_converted_to_json(project: Project) -> None:
    project.write("flow.json", json.dumps(yaml.safe_load(PAIRS["graph"][0])))
    converted = project.strands("convert", "flow.json")
    assert converted.json == yaml.safe_load(PAIRS["graph"][1])


def test_convert_writes_the_file_only_if_told_to(project: Project) -> None:
    theirs, ours = PAIRS["workflow"]
    file = project.write("flow.yaml", theirs)
    assert project.strands("convert", "flow.yaml").exit_code == 0
    assert file.read_text() == theirs
    assert project.strands("convert", "flow.yaml", "--write").err == "flow.yaml is converted.\n"
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(ours)
    assert project.strands("convert", "flow.yaml", "-w").err == "flow.yaml needs no change.\n"


def test_a_file_with_errors_is_not_converted(project: Project) -> None:
    text = with_sections("pattern: {type: workflow, config: {tasks: [{id: a, agent: a, deps: 3}]}}")
    file = project.write("flow.yaml", text)
    outcome = project.strands("convert", "flow.yaml", "--write")
    assert (outcome.exit_code, outcome.out, file.read_text()) == (3, "", text)
    assert "/pattern/config/tasks/0/deps" in outcome.err
    assert project.strands("convert", "nowhere.yaml").exit_code == 3


def with_odd_values(text: str) -> Iterator[str]:
    """The file with one of its values replaced, for each of them and by values of each kind."""
    whole = yaml.safe_load(text)

    def replaced(value: Any) -> Iterator[Any]:
        yield from (None, True, 7, "odd", [], [{}], {}, {"odd": ["odd"]})
        children = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, child in [*children]:
            for other in replaced(child):
                value[key] = other
                yield value
            value[key] = child

    for made in replaced(whole):
        yield json.dumps(made)


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(theirs, id=name) for name, (theirs, _) in PAIRS.items()),
        *(
            pytest.param(with_sections(row.given), id=name, marks=pytest.mark.long)
            for name, row in ROWS.items()
        ),
    ],
)
def test_a_value_of_any_kind_in_any_place_gets_an_answer(tmp_path: Path, text: str) -> None:
    file = tmp_path / "flow.json"
    for odd in with_odd_values(text):
        file.write_text(odd)
        spec, issues = examine_workflow(file)
        assert spec is not None or issues, odd
