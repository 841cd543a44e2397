"""Workflows as tools: their inputs are the schema, their steps the progress, their questions the client's."""

import asyncio
import json
from typing import Any

import pytest

from tests.mcp.serving import ANY_ERA, Person, connected, eventually
from tests.projects import Project

GREET = """
version: 0
name: greet.people
description: Greets somebody
runtime: {provider: scripted}
inputs:
  required:
    name: {type: string, description: Whom to greet}
  optional:
    times: {type: integer, default: 2}
    tone: {type: string, enum: [warm, cold], default: warm}
agents:
  writer: {prompt: You greet.}
pattern:
  type: chain
  config:
    steps:
      - {id: draft, agent: writer, input: "Greet {{ name }} {{ times }} times, {{ tone }}"}
      - {id: final, agent: writer, input: "Improve {{ steps.draft.response }}"}
outputs:
  artifacts:
    - {path: greeting.txt, from: "{{ last_response }}"}
"""
ANSWERS = """
- when: Greet Ann 2 times, warm
  answers: [Hello Ann]
- when: Improve Hello Ann
  answers: ["Hello, dear Ann!"]
"""
APPROVAL = """
version: 0
name: approval
runtime: {provider: scripted}
agents:
  writer: {prompt: You write.}
pattern:
  type: chain
  config:
    steps:
      - {id: draft, agent: writer, input: Announce}
      - id: approval
        human: {prompt: "Publish this? {{ steps.draft.response }}", choices: [publish, drop]}
      - {id: final, agent: writer, input: "The decision is {{ steps.approval.response }}."}
"""
APPROVAL_ANSWERS = """
- when: Announce
  answers: [We deliver on Saturdays!]
- when: The decision is publish
  answers: [It is out.]
"""


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.asyncio
@ANY_ERA
async def test_a_workflow_is_a_tool(project: Project, mode: str) -> None:
    project.write("greet.yaml", GREET)
    project.write("answers.yaml", ANSWERS)
    heard: list[str | None] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    options = ["--workflow", "greet.yaml", "--tools", "none", "--out", "out"]
    async with connected(project, *options, mode=mode) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool("greet_people", {"name": "Ann"}, progress_callback=hear)
        missing = await client.call_tool("greet_people", {"times": "many"})
        again = await client.call_tool("greet_people", {"name": "Ann"})
    assert (listed.name, listed.description) == ("greet_people", "Greets somebody")
    assert listed.input_schema["required"] == ["name"]
    assert listed.input_schema["properties"] == {
        "name": {"type": "string", "description": "Whom to greet"},
        "times": {"type": "integer", "default": 2},
        "tone": {"type": "string", "enum": ["warm", "cold"], "default": "warm"},
    }
    assert text_of(result) == "Hello, dear Ann!"
    assert heard == ["draft: started", "draft: done", "final: started", "final: done"]
    assert (project.root / "out" / "greeting.txt").read_text() == "Hello, dear Ann!"
    assert missing.meta is not None
    assert missing.meta["strands-cli/error"]["code"] == "input_invalid"
    assert again.is_error  # the file is there already
    assert "--force" in text_of(again) or "exists" in text_of(again)
    runs = json.loads(project.strands("runs", "list", "--json").out)["runs"]
    assert sorted(run["status"] for run in runs) in (["done"], ["done", "failed"])


@pytest.mark.asyncio
@ANY_ERA
async def test_a_human_step_is_answered_in_the_client(project: Project, mode: str) -> None:
    project.write("approval.yaml", APPROVAL)
    project.write("answers.yaml", APPROVAL_ANSWERS)
    person = Person(answer="publish")
    async with connected(project, "--workflow", "approval.yaml", mode=mode, person=person) as client:
        assert text_of(await client.call_tool("approval", {})) == "It is out."
    assert person.questions[0].startswith("Publish this? We deliver on Saturdays!")
    assert person.forms[0]["properties"]["answer"]["enum"] == ["publish", "drop"]
    (run,) = json.loads(project.strands("runs", "list", "--json").out)["runs"]
    assert run["status"] == "done"


@pytest.mark.asyncio
@ANY_ERA
async def test_a_question_that_nobody_answers_can_be_answered_in_a_terminal(
    project: Project, mode: str
) -> None:
    project.write("approval.yaml", APPROVAL)
    project.write("answers.yaml", APPROVAL_ANSWERS)
    async with connected(project, "--workflow", "approval.yaml", mode=mode) as client:
        result = await client.call_tool("approval", {})
    assert result.meta is not None
    error = result.meta["strands-cli/error"]
    assert error["code"] == "consent_required"
    run_id = error["hint"].rpartition("strands resume ")[2]
    assert run_id in error["message"]
    resumed = project.strands("resume", run_id, "--answer", "publish")
    assert resumed.out.strip() == "It is out."


@pytest.mark.asyncio
@ANY_ERA
async def test_consent_inside_a_run_is_asked_for_in_the_client(project: Project, mode: str) -> None:
    project.write(
        "write.yaml",
        """
version: 0
name: write
runtime: {provider: scripted}
agents: {writer: {prompt: You write.}}
tools: {python: [file_write]}
pattern: {type: chain, config: {steps: [{agent: writer, input: Write}]}}
""",
    )
    project.write(
        "answers.yaml",
        """
- when: Write
  answers:
    - {call: file_write, with: {path: note.txt, content: hello}}
    - Done.
""",
    )
    for person, exists in ((Person("decline"), False), (Person(allow=True), True)):
        async with connected(project, "--workflow", "write.yaml", mode=mode, person=person) as client:
            result = await client.call_tool("write", {})
        assert text_of(result) == "Done.", result
        assert "note.txt" in person.questions[0]
        assert (project.root / "note.txt").exists() == exists


@pytest.mark.asyncio
@ANY_ERA
async def test_a_cancelled_call_interrupts_its_run(project: Project, mode: str) -> None:
    project.tool("hang", "def hang() -> str:\n    open('began', 'w').close()\n    time.sleep(50)")
    project.write("hang.yaml", APPROVAL.replace("agents:", "tools: {python: [hang]}\nagents:", 1))
    project.write("answers.yaml", "- when: Announce\n  answers:\n    - {call: hang}\n    - Done.\n")

    async def has_begun() -> bool:
        return (project.root / "began").exists()

    async def is_interrupted() -> bool:
        runs = json.loads(project.strands("runs", "list", "--json").out)["runs"]
        return [run["status"] for run in runs] == ["interrupted"]

    async with connected(project, "--workflow", "hang.yaml", mode=mode) as client:
        call = asyncio.ensure_future(client.call_tool("approval", {}))
        await eventually(has_begun)
        call.cancel()
        await eventually(is_interrupted)


def test_a_workflow_that_asks_for_more_is_refused_before_anything_is_served(project: Project) -> None:
    project.write("wide.yaml", GREET.replace("agents:", "security: {workspace: [/]}\nagents:", 1))
    outcome = project.strands("mcp", "serve", "--workflow", "wide.yaml")
    assert outcome.exit_code == 21
    assert "strands trust wide.yaml" in outcome.err


def test_two_tools_of_one_name_are_an_error(project: Project) -> None:
    project.write("echo.yaml", GREET.replace("name: greet.people", "name: echo"))
    outcome = project.strands("mcp", "serve", "--workflow", "echo.yaml")
    assert outcome.exit_code == 2
    assert "there is already a tool 'echo'" in outcome.err
