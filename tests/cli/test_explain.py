"""`strands explain`: a workflow in prose."""

import json

import pytest

from strands_cli.drawing.overview import outline_of, story_sentences
from strands_cli.loader import load_spec
from tests.cli.workflows import PATTERNS, PEOPLE, workflow
from tests.projects import Project

SENTENCES = {
    "chain": ["3 steps run one after the other", 'Step 1: helper is given "Find out about owls".'],
    "workflow": ["5 tasks run", "facts (after fetch): writer"],
    "routing": [
        "critic chooses one route: billing, technical or other; if it names none",
        "Route billing, check",
    ],
    "parallel": [
        "3 branches run at the same time, at most 2 at a time",
        'a human is asked: "What do you know?"',
    ],
    "evaluator_optimizer": ["writer writes and critic judges, until the score is 85", "at most 4 times"],
    "orchestrator_workers": ["critic makes up to 5 tasks", "in at most 2 rounds. Then writer sums up."],
    "graph": ["begins at draft", "Then: polish if nodes.polish.response contains 'rough'; publish."],
}


def explained(project: Project, text: str, exit_code: int = 0) -> str:
    """What the command says, as one line."""
    project.write("flow.yaml", text)
    outcome = project.strands("explain", "flow.yaml")
    assert outcome.exit_code == exit_code, outcome
    return " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("human tasks", "(after draft; yes, no; within 60 seconds; by default 'no'): a human is asked:"),
        ("human nodes", "look: a human is asked: \"Good?\" Then: draft if nodes.look.response != 'yes';"),
        ("human reduce", "Then a human works on all their results."),
        ("reviewed route", "A human approves it, or names another."),
        ("reviewed draft", 'draft review: a human is asked: "Another round?"'),
        ("reviewed tasks", "result review: a human is asked"),
    ],
)
def test_humans_are_told_of(project: Project, pattern: str, sentence: str) -> None:
    spec = load_spec(project.write("flow.yaml", workflow(PEOPLE[pattern])))
    assert sentence in " ".join(story_sentences(spec, outline_of(spec)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_is_told_in_sentences(project: Project, pattern: str) -> None:
    said = explained(project, workflow(PATTERNS[pattern]))
    for sentence in SENTENCES[pattern]:
        assert sentence in said


def test_what_tools_may_touch_and_whether_they_ask_is_told(project: Project) -> None:
    said = explained(project, workflow(PATTERNS["chain"]))
    assert "http_request 1.0.0 from strands-cli" in said
    assert "It reaches the network." in said
    assert "You are asked before each call. The workspace is that of the project's settings." in said
    text = workflow(PATTERNS["chain"]).replace(
        "pattern:",
        "security: {consent: {file_write: allow}, workspace: [data], http_allow: [10.0.0.0/8]}\npattern:",
        1,
    )
    said = explained(project, text)
    assert "The file gives consent to every call." in said
    assert "The workspace is data (relative to the workflow)." in said
    assert "these may be reached: 10.0.0.0/8" in said


def test_what_leaves_the_machine_is_told(project: Project) -> None:
    more = """telemetry: {otlp_endpoint: "http://collector:4318", redact: {tool_inputs: false}}
env: {variables: [LANG], secrets: [{name: TOKEN}, {name: KEY, source: file, path: key.txt}]}
tags: ["${LANG:-C}"]
pattern:"""
    text = workflow(PATTERNS["chain"]).replace("pattern:", more, 1)
    executor = "  http_executors: [{id: crm, base_url: 'https://crm.example', headers: {Auth: '{{ secrets.TOKEN }}'}}]\n"
    said = explained(project, text.replace("agents:\n", executor + "agents:\n", 1))
    assert "go to openai gpt-4o-mini." in said
    assert "go to ollama llama3.2:3b at http://localhost:11434, which is on this machine." in said
    assert "Requests of crm go to https://crm.example with the headers Auth." in said
    assert "Spans go to http://collector:4318, with the inputs of tools." in said
    assert "The environment variable LANG is used in tags.0." in said
    assert "The secret TOKEN is read from $TOKEN" in said
    assert "The secret KEY is read from the file key.txt" in said


def test_limits_needs_and_files_are_told(project: Project) -> None:
    more = """inputs: {required: {topic: {type: string, description: What it is about}}}
context_policy: {notes: {file: notes.md}}
pattern:"""
    text = workflow(PATTERNS["chain"]).replace("pattern:", more, 1)
    text = text.replace(
        "max_parallel: 2", "budgets: {max_steps: 9, max_tokens: 5000}\n  failure_policy: {retries: 1}"
    )
    said = explained(project, text)
    assert "The input topic (string) must be given: What it is about." in said
    assert "A model is asked 3 times, and once more for each round of tool calls." in said
    assert "A run stops after 9 steps or 5000 tokens." in said
    assert "retried at most once" in said
    assert "notes.md" in said


def test_a_tool_of_the_project_is_found_beside_the_workflow_and_an_unknown_one_is_named(
    project: Project,
) -> None:
    project.tool("greet", "def greet(tool, **kw): return 'hi'").rename(project.root / "greet.py")
    text = workflow(PATTERNS["chain"]).replace("[echo, native", "[./greet.py, nonsense, echo, native")
    said = explained(project, text)
    assert "greet 0.0.0" in said
    assert "A test tool. It does not declare what it touches." in said
    assert "nonsense is not known here" in said


def test_prose_fits_the_terminal(project: Project) -> None:
    project.write("flow.yaml", workflow(PATTERNS["graph"]))
    outcome = project.strands("explain", "flow.yaml", COLUMNS="50")
    assert max(len(line) for line in outcome.out.splitlines()) <= 50


def test_what_a_plugin_asks_for_is_told(project: Project) -> None:
    tool = {"name": "up", "path": "up", "network": True, "files": {"write": ["."]}, "env": ["GITHUB_TOKEN"]}
    manifest = {"name": "net", "cli_tools": [tool | {"config": {"token": {"sensitive": True}}}]}
    project.write("plugins/net/up", "#!/bin/sh\n").chmod(0o755)
    project.write("plugins/net/plugin.json", json.dumps(manifest))
    asks = ["network: opens connections", "files: writes .", "env: gets GITHUB_TOKEN", "NET_TOKEN, secret"]
    said = explained(project, workflow(PATTERNS["chain"]).replace("[echo, native", "[net__up, echo, native"))
    shown = project.strands("tool", "show", "net__up")
    for words in asks:
        assert words in said
        assert words in shown.out
    assert "net__up opens its own connections" in said
    access = project.strands("tool", "show", "net__up", "--json").json["access"]
    assert access["network"] is True
    assert access["config"]["token"]["sensitive"] is True


def test_the_default_model_is_named(project: Project) -> None:
    text = workflow(PATTERNS["chain"]).replace("  model_id: llama3.2:3b\n", "")
    assert "asks ollama llama3.2:3b" in explained(project, text)
    assert "ollama llama3.2:3b" in project.strands("plan", "flow.yaml").out
