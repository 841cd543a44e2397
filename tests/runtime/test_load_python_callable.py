"""References to tools, as specs write them, and the tools that an agent is given for them."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import strands
from strands import Agent

from strands_cli.errors import ToolError
from strands_cli.runtime.tools import agent_tools, load_python_callable
from strands_cli.toolkit.bridge import ToolBridge, bridge_of
from strands_cli.tools import get_registry
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project
from tests.runtime.agents import add, text_of
from tests.runtime.probes import Probe

ECHO = [
    "echo",
    "echo@1.0.0",
    "native:echo",
    "native:echo.echo",
    "strands_cli.tools.echo",
    "strands_cli.tools.echo.echo",
    "strands_tools.echo",
    "strands_tools.echo.echo",
]


@pytest.mark.parametrize("reference", ECHO)
def test_every_form_of_a_reference_is_the_same_callable_tool(reference: str, inside: Project) -> None:
    echo = load_python_callable(reference)
    assert echo is get_registry().load("echo")
    result: Any = echo({"toolUseId": "t", "input": {"message": "hi"}})  # type: ignore[operator]
    assert result["status"] == "success"


def test_a_project_file_is_a_reference(inside: Project) -> None:
    inside.tool("greet", "def greet(tool, **kwargs):\n    return 'hello'")
    get_registry().refresh()
    assert load_python_callable("greet").id == "greet"
    assert load_python_callable("./tools/greet.py").id == "greet"
    assert load_python_callable("./tools/greet.py:greet").id == "greet"


def test_what_is_not_allowed_is_refused_with_what_is(inside: Project) -> None:
    with pytest.raises(ToolError) as caught:
        load_python_callable("native:ecko")
    error = caught.value
    assert error.message == "Python callable 'native:ecko' not in allowlist"
    assert "Did you mean 'native:echo'?" in error.hint
    assert "Allowed: calculator, " in error.hint
    assert "'strands list-tools'" in error.hint
    assert error.code == "unknown_tool"


def test_nothing_is_imported_for_a_name_that_is_not_allowed(inside: Project) -> None:
    inside.write("trap.py", "raise SystemExit('imported')")
    with pytest.raises(ToolError, match=r"Python callable 'trap\.f' not in allowlist") as caught:
        load_python_callable("trap.f")
    assert "'allow' in strands.toml" in caught.value.hint
    assert "STRANDS_CUSTOM_TOOL_ALLOWLIST" in caught.value.hint


def test_an_allowed_callable_is_loaded_and_one_that_is_not_there_is_explained(
    inside: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.write("own.py", 'def shout(text: str) -> str:\n    """Shouts."""\n    return text.upper()\n')
    monkeypatch.setenv("STRANDS_CUSTOM_TOOL_ALLOWLIST", "own.shout, nowhere.f")
    get_registry().refresh()
    assert load_python_callable("own.shout").id == "shout"
    with pytest.raises(ToolError) as caught:
        load_python_callable("nowhere.f")
    assert caught.value.message.startswith("Failed to load tool 'nowhere.f': ")


def test_a_tool_that_cannot_be_loaded_says_where_and_why(inside: Project) -> None:
    file = inside.tool("broken", "def broken(tool, **kwargs): ...\nraise ValueError('at import')")
    get_registry().refresh()
    with pytest.raises(ToolError) as caught:
        load_python_callable("./tools/broken.py")
    message = caught.value.message
    assert message.startswith("Failed to load tool './tools/broken.py': ValueError: at import")
    assert Path(file).name in message


def test_an_agent_gets_every_kind_of_tool_under_our_contract(inside: Project) -> None:
    @strands.tool
    def twice(n: int) -> int:
        """Doubles."""
        return n * 2

    module = ModuleType("tools_of_mine")
    module.add = add  # type: ignore[attr-defined]
    tools = agent_tools(["native:calculator", bridge_of(add), twice, Probe()])
    assert all(isinstance(item, ToolBridge) for item in tools)
    assert [item.tool_name for item in tools] == ["calculator", "add", "twice", "probe"]
    assert agent_tools([add, module]) == [bridge_of(add), bridge_of(add)]

    model = (
        ScriptedModel()
        .enqueue(tool_call("twice", n="21"), tool_call("twice", n="x"), tool_call("probe"))
        .enqueue("bye")
    )
    Agent(model=model, tools=tools, callback_handler=None)("go")
    texts = [text_of(result) for result in model.requests[-1].results]
    assert texts[0] == "42"
    assert texts[1].startswith("Invalid input: /n must be an integer")
    assert texts[2] == "done"


def test_what_only_the_sdk_knows_is_left_to_it() -> None:
    other = Agent(model=ScriptedModel(), callback_handler=None, name="helper")
    as_tool = other.as_tool()
    assert agent_tools([other, as_tool]) == [other, as_tool]


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def whisper(text: str) -> str:
    """Say it more softly."""
    return text.lower()


def test_plain_functions_are_tools_of_an_agent_too() -> None:
    model = (
        ScriptedModel().enqueue(tool_call("shout", text="Hi"), tool_call("whisper", text=5)).enqueue("bye")
    )
    Agent(model=model, tools=agent_tools([shout, [whisper]]), callback_handler=None)("go")
    texts = [text_of(result) for result in model.requests[-1].results]
    assert texts[0] == "HI"
    assert texts[1].startswith("Invalid input: /text")


@pytest.mark.parametrize("value", [5, None, object(), ValueError("x")])
def test_what_cannot_be_a_tool_of_an_agent_is_refused_by_name(value: object) -> None:
    with pytest.raises(ToolError, match="is not a tool"):
        agent_tools([value])
