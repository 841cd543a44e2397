"""What `strands_cli` offers to programs."""

import ast
import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import strands_cli
from strands_cli import CallContext, agent_tools, call_tool, call_tools, error_of, tool

SOURCE = Path(strands_cli.__file__)


def test_every_public_name_is_there() -> None:
    for name in strands_cli.__all__:
        assert getattr(strands_cli, name) is not None
    assert set(strands_cli.__all__) <= set(dir(strands_cli))


def test_type_checkers_see_the_same_names() -> None:
    blocks = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    seen = {
        alias.name for node in ast.walk(blocks[0]) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen | {"__version__"} == set(strands_cli.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys, strands_cli; print([name for name in sys.modules if name.startswith('strands_cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@tool
def greet(name: str, input: str = "Hello") -> str:
    """Greet somebody."""
    return f"{input}, {name}"


def content(call: Coroutine[Any, Any, Any]) -> list[dict[str, Any]]:
    return list(asyncio.run(call)["content"])


def test_a_tool_is_called_by_name_with_plain_arguments() -> None:
    six_times_seven = [{"text": "42"}]
    assert content(call_tool("calculator", expression="6 * 7")) == six_times_seven
    assert content(call_tool("calculator", {"expression": "6 * 7"})) == six_times_seven
    assert content(call_tool("native:calculator", {"input": {"expression": "6 * 7"}})) == six_times_seven

    def answer() -> int:
        return 42

    assert content(call_tool(answer)) == six_times_seven


def test_plain_arguments_and_tool_uses_are_told_apart_by_their_keys() -> None:
    hello = [{"text": "Hello, Ada"}]
    assert content(call_tool(greet, name="Ada")) == hello
    assert content(call_tool(greet, {"name": "Ada"})) == hello
    assert content(call_tool(greet, MappingProxyType({"name": "Ada"}))) == hello
    for use in ({}, {"toolUseId": "1"}, {"name": "greet"}, {"toolUseId": "1", "name": "greet"}):
        result = asyncio.run(call_tool(greet, {**use, "input": {"name": "Ada"}}))
        assert result["content"] == hello
        assert result["toolUseId"] == use.get("toolUseId", "")
    assert content(call_tool(greet, name="Ada", input="Hi")) == [{"text": "Hi, Ada"}]
    refused = error_of(asyncio.run(call_tool(greet, {"input": "Hi"})))
    assert refused is not None
    assert refused["code"] == "input_malformed"
    assert content(call_tool(greet, {"name": "Ada"}, CallContext(timeout=5))) == hello
    assert content(call_tool(greet, name="Ada", context=CallContext(timeout=5))) == hello


def test_an_unknown_name_is_a_coded_result_with_the_closest_name() -> None:
    error = error_of(asyncio.run(call_tool("calculater", expression="1")))
    assert error is not None
    assert error["code"] == "unknown_tool"
    assert "Did you mean 'calculator'?" in error["hint"]
    error = error_of(asyncio.run(call_tool(5)))  # type: ignore[arg-type]
    assert error is not None
    assert "5 is not a tool" in error["message"]


@pytest.mark.parametrize(
    ("given", "keywords", "reason"),
    [
        (["6 * 7"], {}, "are list, not a dictionary"),
        ("6 * 7", {}, "are str, not a dictionary"),
        ({"expression": "1"}, {"expression": "2"}, "a dictionary and keywords"),
        (None, {"context": "in a letter"}, "context is str, not a CallContext"),
    ],
)
def test_a_call_of_another_form_says_what_to_write(given: Any, keywords: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        asyncio.run(call_tool("calculator", given, **keywords))


def test_many_calls_take_names_and_plain_arguments_too() -> None:
    calls = [("calculator", {"expression": "1"}), ("nothing", {}), (greet, {"name": "Ada"})]
    first, second, third = asyncio.run(call_tools(calls))  # type: ignore[arg-type]
    assert first["content"] == [{"text": "1"}]
    assert (error_of(second) or {})["code"] == "unknown_tool"
    assert third["content"] == [{"text": "Hello, Ada"}]


def test_an_agent_takes_one_tool_as_well_as_a_list() -> None:
    for one in ("calculator", strands_cli.get_registry().load("calculator")):
        assert [made.tool_name for made in agent_tools(one)] == ["calculator"]
    assert [made.tool_name for made in agent_tools(["calculator", greet])] == ["calculator", "greet"]
    assert [made.tool_name for made in agent_tools(greet)] == ["greet"]


def test_programs_can_import_errors_results_events_and_the_local_model() -> None:
    names = (
        "StrandsError RunResult Event Listener ToolStarted ToolFinished ToolProgress Cancellation LocalModel"
    )
    for name in names.split():
        assert name in strands_cli.__all__
