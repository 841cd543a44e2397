"""`strands_cli.testing`: calls of tools, the scripted model, and the fixtures for pytest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strands_cli import CallContext, ModelText, RunOptions, ToolRegistry, run_sync
from strands_cli.testing import CallTool, ScriptedModel, StrandsProject, call, failure, pause, tool_call
from strands_cli.toolkit.workspace import Workspace
from tests.projects import Project

FLOW = """\
version: 0
name: flow
runtime: {provider: PROVIDER, failure_policy: {wait_s: 0.01}}
tools: {python: [strands_cli.tools.echo.echo]}
agents:
  writer: {prompt: You write.}
  critic: {prompt: You judge., provider: ollama, tools: []}
pattern:
  type: chain
  config: {steps: [{agent: writer, input: Hi}, {agent: critic, input: 'Judge {{ last_response }}'}]}
"""


def test_a_model_takes_the_place_of_every_provider(project: Project) -> None:
    model = ScriptedModel()
    model.enqueue("I look.", pause(0), tool_call("echo", message="hoo"))
    model.enqueue(failure("throttled"))
    model.enqueue(lambda request: f"I got {request.results[0]['content'][0]['text']}.")
    model.reply = lambda request: f"{request.prompt}: {request.tools}"
    file = project.write("flow.yaml", FLOW.replace("PROVIDER", "anthropic"))
    result = run_sync(file, options=RunOptions(model=model))
    assert [step.response for step in result.steps] == ["I got hoo.", "Judge I got hoo.: []"]
    assert [request.system_prompt for request in model.requests] == ["You write."] * 3 + ["You judge."]
    assert [request.turn for request in model.requests] == [0, 1, 1, 0]


# --- The scripted model -----------------------------------------------------------------------------------


def test_an_agent_of_the_sdk_takes_the_scripted_model(scripted_model: ScriptedModel) -> None:
    from strands import Agent

    scripted_model.enqueue("Hello.")
    assert str(Agent(model=scripted_model, callback_handler=None)("Hi")).strip() == "Hello."
    assert scripted_model.requests[0].prompt == "Hi"


def test_a_script_that_is_at_its_end_says_what_was_asked(scripted_model: ScriptedModel) -> None:
    from strands import Agent

    with pytest.raises(AssertionError, match=r"no scripted answer is left for this request.*Hi"):
        Agent(model=scripted_model, callback_handler=None)("Hi")


def test_an_answer_may_break_off(project: Project, scripted_model: ScriptedModel) -> None:
    file = project.write("flow.yaml", FLOW.replace("PROVIDER", "openai"))
    scripted_model.enqueue("Owls", failure("connection")).enqueue("Owls fly.").enqueue("Good.")
    seen: list[object] = []
    result = run_sync(file, options=RunOptions(model=scripted_model, listeners=[seen.append]))
    assert result.steps[0].response == "Owls fly."
    texts = [event.text for event in seen if isinstance(event, ModelText)]
    assert texts == ["Owls", "Owls fly.", "Good."]
    with pytest.raises(TypeError, match="cannot be combined"):
        scripted_model.enqueue("text", lambda request: "more")


def test_a_failure_has_a_kind_that_there_is() -> None:
    with pytest.raises(ValueError, match="There is no failure 'slow': use one of busy, connection"):
        failure("slow")  # type: ignore[arg-type]


# --- Fixtures ---------------------------------------------------------------------------------------------


def test_a_tool_is_called_in_a_project_and_a_workspace_of_its_own(
    strands_project: StrandsProject, call_tool: CallTool, strands_workspace: Workspace
) -> None:
    assert Path.cwd() == strands_project.root
    strands_project.write_tool(
        "greet",
        '''
        from strands_cli import ToolContext, ToolFailed, tool

        @tool(requires_consent=True)
        def greet(name: str, context: ToolContext) -> dict:
            """Greet somebody."""
            if not name:
                raise ToolFailed("Who?")
            return {"hello": name, "in": str(context.workspace.base)}
        ''',
    )
    outcome = call_tool("greet", name="Ada")
    assert outcome.code is None
    assert outcome.data == {"hello": "Ada", "in": str(strands_workspace.base)}
    assert (call_tool("greet", {"name": ""}).code, call_tool("greet", name="").text) == ("failed", "Who?")
    assert call_tool("greet").code == "input_invalid"
    assert call_tool("nobody").code == "unknown_tool"
    call_tool.context = CallContext()
    assert call_tool("greet", name="Ada").code == "consent_required"


HALVE = '''\
from strands_cli import ToolFailed, tool

@tool(requires_consent=True)
def halve(n: int) -> dict:
    """Halve a number."""
    if n % 2:
        raise ToolFailed(f"{n} is odd", code="conflict")
    return {"half": n // (n and 2)}
'''


def test_a_tool_is_called_without_fixtures(project: Project) -> None:
    project.write_tool("halve", HALVE)
    with project.current():
        outcome = call("halve", n=4).expect(None)
        assert (outcome.code, outcome.text, outcome.data) == (None, '{"half": 2}', {"half": 2})
        call("halve", {"n": 3}).expect("conflict")
        call("halve").expect("input_invalid", "/n")


@pytest.mark.parametrize(
    ("arguments", "expected", "message"),
    [
        ({}, ["conflict"], "Expected conflict, got input_invalid at /n: Invalid input: /n is missing"),
        ({"n": 3}, ["conflict", "/n"], "Expected conflict at /n, got conflict: 3 is odd"),
        ({"n": 4}, ["timeout"], 'Expected timeout, got success: {"half": 2}'),
        (
            {"n": 0},
            [None],
            "Expected success, got crashed at tools/halve.py:8: Execution failed: ZeroDivisionError",
        ),
    ],
)
def test_an_unexpected_outcome_shows_code_place_and_message(
    arguments: dict[str, int], expected: list[str], message: str, project: Project
) -> None:
    project.write_tool("halve", HALVE)
    with project.current(), pytest.raises(AssertionError, match=f"^{re.escape(message)}"):
        call("halve", arguments).expect(*expected)


@pytest.mark.parametrize("greeting", ["Hello", "Salve"])
def test_a_tool_of_an_earlier_test_is_forgotten(
    strands_project: StrandsProject, call_tool: CallTool, strands_registry: ToolRegistry, greeting: str
) -> None:
    assert strands_registry.get("welcome") is None
    source = f'from strands_cli import tool\n\n@tool\ndef welcome() -> str:\n    """Greet."""\n    return {greeting!r}\n'
    strands_project.write_tool("welcome", source)
    assert strands_registry.get("welcome") is not None
    assert call_tool("welcome").text == greeting


def test_a_workflow_runs_in_a_project_with_the_scripted_model(
    strands_project: StrandsProject, scripted_model: ScriptedModel
) -> None:
    strands_project.write_workflow(FLOW.replace("PROVIDER", "openai"))
    scripted_model.enqueue("Owls.").enqueue("Good.")
    assert strands_project.run("flow.yaml", model=scripted_model).last_response == "Good."
    assert strands_project.strands("validate", "flow.yaml").exit_code == 0


def test_the_fixtures_are_known_to_a_test_that_names_the_plugin(project: Project) -> None:
    assert project.strands("tool", "new", "greet").exit_code == 0
    project.write(
        "tests/test_more.py",
        "from strands_cli.testing import StrandsProject\n"
        "pytest_plugins = ['strands_cli.testing']\n"
        "def test_a_project(strands_project: StrandsProject) -> None:\n"
        "    assert not (strands_project.root / 'tools').exists()\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_testing_imports_neither_pytest_nor_the_sdk() -> None:
    code = "import sys, strands_cli.testing; print({'pytest', 'strands'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
