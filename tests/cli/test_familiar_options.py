"""Options, files and exit codes that people know from other runners of workflow files."""

import json

import pytest

from strands_cli.patterns import PATTERNS as KINDS
from strands_cli.providers.choice import BUILT_IN
from strands_cli.tools.registry import SOURCES
from tests.cli.workflows import PATTERNS, PEOPLE, workflow
from tests.projects import Project

FLOW = """\
version: 0
name: %s
runtime: {provider: scripted}
inputs: {required: {topic: string}}
agents: {a: {prompt: You write.}}
pattern: {type: chain, config: {steps: [{agent: a, input: "About {{ topic }}."}]}}
"""
UNSUPPORTED = (FLOW % "'My flow'") + "tools: {python: [eco]}\n"


@pytest.fixture
def flow(project: Project) -> Project:
    project.write("flow.yaml", FLOW % "flow")
    project.write("answers.yaml", "- {answers: [Owls.]}\n")
    return project


# --- A workflow that cannot run ---------------------------------------------------------------------------


def test_an_unsupported_workflow_leaves_a_report(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flow.write("flow.yaml", UNSUPPORTED)
    command = ("run", "flow.yaml", "--var", "topic=owls", "--trace", "--out", "out")
    assert flow.here(capsys, *command, "--dry-run").exit_code == 18
    assert not (flow.root / "out").exists()
    outcome = flow.here(capsys, *command)
    assert outcome.exit_code == 18, outcome
    assert "Wrote out/My_flow-unsupported.md" in outcome.err
    (file,) = (flow.root / "out").iterdir()
    report = file.read_text("utf-8")
    for text in ("# My flow cannot run", "File: flow.yaml", "flow.yaml:7:18 /tools/python/0", "'echo'?"):
        assert text in report
    flow.write("flow.yaml", UNSUPPORTED.replace("eco", "calculater"))
    assert flow.here(capsys, *command).exit_code == 18
    assert "'calculator'?" in file.read_text("utf-8")


def test_a_report_replaces_no_other_file(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flow.write("flow.yaml", UNSUPPORTED)
    file = flow.write("My_flow-unsupported.md", "My notes\n")
    command = ("run", "flow.yaml", "--var", "topic=owls")
    outcome = flow.here(capsys, *command)
    assert outcome.exit_code == 18
    assert "My_flow-unsupported.md was not written: the file exists." in outcome.err
    assert file.read_text("utf-8") == "My notes\n"
    assert flow.here(capsys, *command, "--force").exit_code == 18
    assert "# My flow cannot run" in file.read_text("utf-8")


@pytest.mark.parametrize("command", ["validate", "plan", "explain", "run", "graph"])
def test_a_missing_file_exits_with_3(
    project: Project, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = project.here(capsys, command, "absent.yaml")
    assert outcome.exit_code == 3, outcome
    assert "absent.yaml not found.\n  Give a YAML or JSON file" in outcome.out + outcome.err


# --- Options ----------------------------------------------------------------------------------------------


def test_consent_can_be_given_by_its_longer_name(project: Project) -> None:
    project.tool("risky", "def risky():\n    return 'done'", options="requires_consent=True")
    assert project.strands("tool", "call", "risky").exit_code == 19
    assert project.strands("tool", "call", "risky", "--bypass-tool-consent").out == "done\n"
    assert "-y, --yes, --bypass-tool-consent" in project.strands("run", "--help").out


def test_a_short_option_asks_for_missing_inputs(flow: Project) -> None:
    outcome = flow.strands("run", "flow.yaml", "-a")
    assert (outcome.exit_code, "--ask needs a terminal" in outcome.err) == (2, True), outcome


@pytest.mark.parametrize(
    "command",
    [
        ("validate", "flow.yaml"),
        ("plan", "flow.yaml"),
        ("explain", "flow.yaml"),
        ("list-tools",),
        ("doctor",),
        ("tool", "show", "echo"),
    ],
)
def test_debug_may_stand_behind_the_command(
    flow: Project, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert flow.here(capsys, *command, "--debug").exit_code == 0


def test_debug_can_be_set_in_the_environment(project: Project) -> None:
    project.tool("crash", "def crash():\n    raise KeyError('lost')")
    command = ("tool", "call", "crash")
    assert "Traceback" in project.strands(*command, "--debug").err
    assert "Traceback" in project.strands(*command, STRANDS_DEBUG="1").err
    assert "Traceback" not in project.strands(*command, STRANDS_DEBUG="0").err
    lines = project.strands(*command, STRANDS_DEBUG="1", STRANDS_LOG_FORMAT="json").err.splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert any("Traceback" in line["message"] and line["logger"].startswith("strands") for line in logged)
    wrong = project.strands(*command, STRANDS_DEBUG="1", STRANDS_LOG_FORMAT="xml")
    assert (wrong.exit_code, "STRANDS_LOG_FORMAT: 'xml' is not a format." in wrong.err) == (2, True)


# --- More to see ------------------------------------------------------------------------------------------


def test_validate_lists_every_file_on_request(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flow.write("bad.yaml", "pattern: 1\nagents: {}\n")
    outcome = flow.here(capsys, "validate", "-v", "flow.yaml", "bad.yaml")
    assert outcome.exit_code == 3
    assert "flow.yaml  good     checked the syntax, the keys, 1 step, 1 agent\n" in outcome.out
    assert "bad.yaml   invalid  checked the syntax" in outcome.out
    documents = flow.here(capsys, "validate", "-v", "flow.yaml", "--json").json["files"]
    assert documents[0]["checked"] == "the syntax, the keys, 1 step, 1 agent"


def test_explain_shows_whole_prompts_on_request(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flow.write("flow.yaml", (FLOW % "flow").replace("You write.", r'"You write.\n\nBe brief."'))
    assert "Be brief." not in " ".join(flow.here(capsys, "explain", "flow.yaml").out.split())
    assert "Be brief." in " ".join(flow.here(capsys, "explain", "-v", "flow.yaml").out.split())


def test_explain_shows_the_problems_of_a_workflow_and_succeeds(
    flow: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    flow.write("flow.yaml", UNSUPPORTED)
    outcome = flow.here(capsys, "explain", "flow.yaml")
    assert outcome.exit_code == 0, outcome
    assert "What prevents a run\nflow.yaml:7:18  /tools/python/0" in outcome.out


@pytest.mark.parametrize("pattern", [*PATTERNS.values(), *PEOPLE.values()], ids=[*PATTERNS, *PEOPLE])
def test_a_plan_is_written_as_markdown(
    project: Project, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("flow.yaml", workflow(pattern))
    shown = project.here(capsys, "plan", "flow.yaml", "--format", "md")
    document = project.here(capsys, "plan", "flow.yaml", "--format", "json").json
    assert document == project.here(capsys, "plan", "flow.yaml", "--json").json
    table = [line for line in shown.out.splitlines() if line.startswith("| ")][1:]
    assert len(table) == len(document["steps"])
    assert shown.out.startswith(f"# {document['name']}\n")
    for step, row in zip(document["steps"], table, strict=True):
        assert f"| {step['title']}" in row
        assert (step["prompt"] or "") in shown.out


def test_markdown_in_a_workflow_stays_text(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    text = (FLOW % "'a | <b> `c`'").replace("You write.", r'"Write\n```\n# no heading\n````"')
    flow.write("flow.yaml", text)
    shown = flow.here(capsys, "plan", "flow.yaml", "--format", "md").out
    assert shown.startswith("# a \\| \\<b\\> \\`c\\`\n")
    assert "`````text\nWrite\n```\n# no heading\n````\n`````" in shown


def test_a_plan_shows_more_on_request(flow: Project, capsys: pytest.CaptureFixture[str]) -> None:
    flow.write("flow.yaml", (FLOW % "flow") + "tools: {python: [echo]}\n")
    for form in ("text", "md", "json"):
        plain = flow.here(capsys, "plan", "flow.yaml", "--format", form).out
        more = flow.here(capsys, "plan", "-v", "flow.yaml", "--format", form).out
        assert "Returns the input message unchanged" not in plain
        assert "Returns the input message unchanged" in more
    refused = flow.here(capsys, "plan", "flow.yaml", "--format", "md", "--json")
    assert (refused.exit_code, "cannot be combined" in refused.out) == (2, True)


def test_what_is_supported_comes_from_the_tables_of_the_code(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = project.here(capsys, "list-supported", "--json").json
    assert [*listed["patterns"]] == [*KINDS]
    assert [*listed["providers"]] == [*BUILT_IN]
    assert [*listed["steps"]] == ["agent", "human", "tool", "workflow"]
    assert [*listed["secrets"]] == ["env", "file"]
    assert [*listed["tool_sources"]] == [source.name for source in SOURCES]
    assert "echo" in listed["native_tools"]
    assert "max_parallel" in listed["keys"]["runtime"]
    shown = project.here(capsys, "list-supported").out
    assert all(word in shown for part in listed.values() if isinstance(part, dict) for word in part)


# --- strands convert --write ------------------------------------------------------------------------------

THEIRS = FLOW.replace("provider: scripted", "provider: scripted, temperature: 0") % "flow"


def test_a_converted_file_keeps_its_permissions_and_line_ends(project: Project) -> None:
    file = project.write("flow.yaml", "")
    file.write_bytes(THEIRS.replace("\n", "\r\n").encode())
    file.chmod(0o640)
    assert project.strands("convert", "--write", "flow.yaml").exit_code == 0
    data = file.read_bytes()
    assert b"inference: {temperature: 0}" in data
    assert data.count(b"\r\n") == data.count(b"\n") == THEIRS.count("\n")
    assert file.stat().st_mode & 0o777 == 0o640
    assert "needs no change" in project.strands("convert", "--write", "flow.yaml").err
    assert file.read_bytes() == data


def test_a_link_is_converted_where_it_leads(project: Project) -> None:
    file = project.write("real.yaml", THEIRS)
    link = project.root / "link.yaml"
    link.symlink_to("real.yaml")
    assert project.strands("convert", "--write", "link.yaml").exit_code == 0
    assert link.is_symlink()
    assert "inference" in file.read_text("utf-8")
