"""Every example is a workflow that loads, validates, plans, explains and draws, and together they show it all."""

import re
from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.loader import load_spec
from strands_cli.providers.choice import PROVIDERS
from strands_cli.schema.validator import published_schema
from tests.fakes import Call, fitting
from tests.plugins.makers import need
from tests.projects import Outcome, Project
from tests.standins import OllamaStandin
from tests.standins.base import Part, Request

REPOSITORY = Path(__file__).resolve().parent.parent
DIRECTORY = REPOSITORY / "examples"
EXAMPLES = sorted(DIRECTORY.glob("*.yaml"))
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)

MODELINE = "# yaml-language-server: $schema=../src/strands_cli/schema/strands-workflow.schema.json\n"
AS_THE_GUIDE_HAS_THEM = {"echo-demo", "multi-tool-demo"}
OTHER_SPELLING = {"other-runner-newsletter"}
"""Files of another runner, of which our schema knows nothing."""

# Files of which `validate` warns, and what of.
WARNINGS = {
    **dict.fromkeys(["chain-with-tools", "chain-mixed-tools"], "is a legacy name of the tool"),
    "chain-with-mcp-server": "asks to use the MCP server",  # until it is trusted
}

# The programs without which `validate` warns that a tool is unavailable.
PROGRAMS = {"chain-with-plugins": ("bash", "jq", "node", "prettier")}

# A call that the agents of an example would make first, and a part of what it finds in the example's data.
CALLS = {
    "chain-changelog-digest": (None, ""),  # its steps make the calls
    "chain-mixed-tools": (Call("file_read", {"path": "page.md"}), "Example Domain"),
    "chain-release-notes": (Call("file_list", {"path": "changes"}), "12.feature.md"),
    "chain-with-mcp-server": (
        Call("units__convert", {"value": 8, "source": "ounce", "target": "g"}),
        "226.796185",
    ),
    "chain-with-native-tools": (Call("file_read", {"path": "prices.csv"}), "hammer,piece,18.90"),
    "chain-with-plugins": (Call("my-plugin__validate", {"file": "src/index.js"}), "Contains TODO comments"),
    "evaluator-regular-expression": (
        Call("file_search", {"pattern": "\\d{4}-\\d\\d-\\d\\d"}),
        "2026-03-31",
    ),
    "graph-incident-triage": (Call("file_search", {"pattern": "ERROR"}), "connection pool exhausted"),
    "orchestrator-file-summaries": (Call("file_list", {"pattern": "*.md"}), "manual.md"),
    "parallel-code-review": (Call("file_read", {"path": "shop/discount.py"}), "def total("),
    "routing-support-desk": (Call("file_search", {"pattern": "does not start"}), "manual.md"),
    "workflow-repository-audit": (Call("file_search", {"pattern": "TODO", "path": "shop"}), "discount.py"),
}


# What is answered, where data is asked, so that a run comes to that call.
ANSWERS = {"graph-incident-triage": {"severity": "high"}, "routing-support-desk": {"route": "technical"}}


class Obliging(OllamaStandin):
    """Answers whatever it is asked: once with a call, where the agent has that tool; with data that fits,
    where data is asked; and else with a text."""

    def __init__(self, first: Call | None, answers: dict[str, str]) -> None:
        super().__init__()
        self.first, self.answers = first, answers
        self.found: list[str] = []

    def turn_for(self, request: Request) -> list[Part]:
        tools = {tool["function"]["name"]: tool["function"] for tool in request.body.get("tools") or ()}
        self.found += [
            message["content"] for message in request.body["messages"] if message["role"] == "tool"
        ]
        if self.first is not None and self.first.name in tools:
            call, self.first = self.first, None
            return [call]
        if "answer" in tools:
            schema = tools["answer"]["parameters"]
            chosen = {name: self.answers[name] for name in schema["properties"].keys() & self.answers}
            return [Call("answer", {**fitting(schema), **chosen})]
        return ["An answer."]


@pytest.fixture
def plain(project: Project) -> Project:
    """With the keys of providers, and without the variables that examples take values from."""
    for name in ("AWS_REGION", "OLLAMA_URL", "RELEASE_MODEL"):
        project.environment.pop(name, None)
    keys = [name for provider in PROVIDERS.values() for name in provider.credentials]
    project.environment |= dict.fromkeys(keys, "a-key")
    return project


def strands(project: Project, command: str, *arguments: str) -> Outcome:
    return project.strands(command, *arguments, cwd=REPOSITORY)


# --- Each of them -----------------------------------------------------------------------------------------


@each_example
def test_an_example_loads(example: Path) -> None:
    spec = load_spec(example)
    assert spec.name == example.stem
    assert spec.description


@each_example
def test_an_example_tells_editors_its_schema(example: Path) -> None:
    text = example.read_text("utf-8")
    assert text.startswith(MODELINE) != (example.stem in AS_THE_GUIDE_HAS_THEM | OTHER_SPELLING)
    assert (example.parent / MODELINE.split("=")[1].strip()).is_file()


@each_example
def test_an_example_validates_without_warnings(example: Path, plain: Project) -> None:
    need(*PROGRAMS.get(example.stem, ()))
    outcome = strands(plain, "validate", str(example), "--json")
    assert outcome.exit_code == 0, outcome
    text = outcome.out + outcome.err
    expected = WARNINGS.get(example.stem)
    assert (
        (expected in text) if expected else ('"severity": "warning"' not in text and "warning:" not in text)
    ), outcome


def test_all_examples_validate_together_and_strictly(plain: Project) -> None:
    need(*(program for programs in PROGRAMS.values() for program in programs))
    strict = [str(example) for example in EXAMPLES if example.stem not in WARNINGS]
    for arguments in (["examples"], [*strict, "--strict"]):
        outcome = strands(plain, "validate", *arguments)
        assert outcome.exit_code == 0, outcome


@each_example
def test_an_example_is_supported(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(*PROGRAMS.get(example.stem, ()))
    monkeypatch.chdir(REPOSITORY)
    report = check_capability(load_spec(example))
    assert report.supported, report.issues
    assert [issue.reason for issue in report.issues if example.stem not in WARNINGS] == []


@each_example
def test_an_example_is_planned(example: Path, plain: Project) -> None:
    outcome = strands(plain, "plan", str(example))
    assert outcome.exit_code == 0, outcome
    for agent in used_agents(example):
        assert agent in outcome.out, f"{agent} is not in the plan\n{outcome}"


@each_example
def test_an_example_is_planned_for_programs(example: Path, plain: Project) -> None:
    outcome = strands(plain, "plan", str(example), "--json")
    assert outcome.exit_code == 0, outcome
    assert isinstance(outcome.json, dict)


@each_example
def test_an_example_is_explained(example: Path, plain: Project) -> None:
    outcome = strands(plain, "explain", str(example))
    assert outcome.exit_code == 0, outcome
    assert example.stem in outcome.out
    for agent in used_agents(example):
        assert agent in outcome.out, f"{agent} is not explained\n{outcome}"


@pytest.mark.parametrize("form", ["mermaid", "dot", "svg"])
@each_example
def test_an_example_is_drawn(example: Path, form: str, plain: Project) -> None:
    outcome = strands(plain, "graph", str(example), "--format", form)
    assert outcome.exit_code == 0, outcome
    beginning = {"mermaid": "flowchart|graph", "dot": "digraph", "svg": "<svg"}[form]
    assert re.search(beginning, outcome.out), outcome
    for agent in used_agents(example):
        assert agent in outcome.out, f"{agent} is not drawn\n{outcome}"


def run_copy(example: Path, plain: Project, directory: Path) -> None:
    """Runs a fresh copy of an example from a directory, as it is, with nothing but a model."""
    need(*PROGRAMS.get(example.stem, ()))
    copytree(DIRECTORY, plain.root / "examples")
    first, found = CALLS.get(example.stem, (None, ""))
    with Obliging(first, ANSWERS.get(example.stem, {})) as model:
        file = str((plain.root / "examples" / example.name).relative_to(directory))
        trusted = ["--trust"] if load_spec(example).tools.mcp else []
        arguments = ("run", file, "--provider", "ollama", "--host", model.url, *trusted)
        outcome = plain.strands(*arguments, cwd=directory)
    assert outcome.exit_code == 0, outcome
    assert outcome.out.strip()
    artifacts = re.findall(r"\bwrote (\S+),", outcome.err)
    assert len(artifacts) == len(load_spec(example).outputs.artifacts), outcome
    assert all((directory / path).read_text("utf-8").strip() for path in artifacts)
    assert found in "".join(model.found), model.found
    assert model.first is None


@each_example
def test_an_example_runs_as_it_is_with_nothing_but_a_model(example: Path, plain: Project) -> None:
    run_copy(example, plain, plain.root)


def test_an_example_finds_its_data_from_its_own_directory_too(plain: Project) -> None:
    run_copy(DIRECTORY / "chain-with-native-tools.yaml", plain, plain.root / "examples")


def test_every_example_with_data_is_tried_with_it() -> None:
    specs = [(file.stem, load_spec(file)) for file in EXAMPLES]
    assert {
        name for name, spec in specs if spec.security.workspace is not None or spec.tools.mcp
    } == CALLS.keys()


def used_agents(example: Path) -> set[str]:
    """The agents that the pattern names."""
    return set(re.findall(r"^ *(?:- )?agent: (\w+)$", example.read_text("utf-8"), re.MULTILINE))


# --- All of them together ---------------------------------------------------------------------------------


def test_every_pattern_has_two_examples() -> None:
    found = Counter(yaml.safe_load(file.read_text("utf-8"))["pattern"]["type"] for file in EXAMPLES)
    patterns = published_schema("workflow").schema["$defs"]["pattern"]["properties"]["type"]["enum"]
    assert {pattern: found[pattern] for pattern in patterns if found[pattern] < 2} == {}


def test_the_examples_of_the_seeds_are_among_them() -> None:
    """The guide's two, and the plan's three forms of naming tools."""
    tools = {file.stem: [tool.callable for tool in load_spec(file).tools.python] for file in EXAMPLES}
    assert tools["echo-demo"] == ["echo"]
    assert tools["multi-tool-demo"] == ["echo", "python_exec"]
    assert tools["chain-with-tools"] == ["strands_tools.http_request", "strands_tools.file_read"]
    assert tools["chain-with-native-tools"][:2] == ["native:http_request", "native:file_read"]
    assert tools["chain-mixed-tools"] == ["native:http_request", "strands_tools.file_read"]


def test_the_guides_examples_are_as_the_guide_has_them() -> None:
    texts = {name: (DIRECTORY / f"{name}.yaml").read_text("utf-8") for name in AS_THE_GUIDE_HAS_THEM}
    assert "    - echo  # Short ID format (auto-resolved by registry)\n" in texts["echo-demo"]
    assert "    - python_exec # Native Python execution tool\n" in texts["multi-tool-demo"]


def test_the_examples_show_what_a_workflow_can_have() -> None:
    text = "".join(file.read_text("utf-8") for file in EXAMPLES)
    shown = [
        "$ref: agents/", "output_schema:", "budgets:", "failure_policy:", "max_parallel:", ":-", "enum:", "default:",
        "http_executors:", "skills:", "context_policy:", "security:", "when:", "reduce:", "revise:", "needs:", "| default(",
        "{% for", "tool:", "arguments:", "foreach:", "workflow:", "region:", "host:", "tools: []", "plugins:", "human:", "mcp:",
    ]  # fmt: skip
    assert [words for words in shown if words not in text] == []


def test_every_file_that_examples_share_is_used() -> None:
    text = "".join(file.read_text("utf-8") for file in EXAMPLES)
    for file in (DIRECTORY / "agents").iterdir():
        assert f"$ref: agents/{file.name}" in text
    for directory in (DIRECTORY / "skills").iterdir():
        assert f"path: ./skills/{directory.name}" in text
        assert (directory / "SKILL.md").is_file()
    for file in (DIRECTORY / "servers").iterdir():
        assert f"command: ./servers/{file.name}" in text


def test_every_plugin_is_in_the_table_of_plugins() -> None:
    table = (DIRECTORY / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| \[([\w-]+)\]\(plugins/\1/README\.md\)", table, re.MULTILINE)
    assert sorted(listed) == sorted(directory.name for directory in (DIRECTORY / "plugins").iterdir())


def test_the_table_of_examples_is_complete() -> None:
    table = (DIRECTORY / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| \[([\w-]+)\]\(\1\.yaml\)", table, re.MULTILINE)
    assert sorted(listed) == [file.stem for file in EXAMPLES]
