"""Ordinary code gives CPython's own answers: its prints, the value of its last expression, its exceptions."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strands_cli import call_tool
from strands_cli.toolkit.results import ToolResult
from strands_cli.tools import get_registry
from tests.sandbox.snippets import SNIPPETS

LEAST_SNIPPETS = 60
NO_OUTPUT = "Code executed successfully (no output)"

# Runs the code that it is given, as the interactive interpreter would, and writes down what it came to.
PLAIN = """
import ast, json, sys, traceback
given, told = sys.argv[1:]
answer = {}
try:
    code = open(given, encoding="utf-8").read()
    tree = ast.parse(code, "<code>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    import types
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(tree, "<code>", "exec"), main.__dict__)
    value = eval(compile(ast.Expression(last.value), "<code>", "eval"), main.__dict__) if last else None
    try:
        answer["value"] = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        answer["repr"] = repr(value)
except BaseException as error:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<code>"]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    answer["error"] = {"type": type(error).__name__, "message": str(error), "line": line}
open(told, "w", encoding="utf-8").write(json.dumps(answer))
"""


def in_plain_python(code: str, place: Path) -> dict[str, Any]:
    """What CPython makes of the code, in a child that nothing confines."""
    (place / "code").write_text(code, "utf-8")
    command = [sys.executable, "-I", "-X", "utf8", "-c", PLAIN, str(place / "code"), str(place / "told")]
    child = subprocess.run(command, cwd=place, capture_output=True, check=True)
    told: dict[str, Any] = json.loads((place / "told").read_text("utf-8"))
    return {**told, "stdout": child.stdout.decode(), "stderr": child.stderr.decode()}


def in_sandbox(code: str) -> dict[str, Any]:
    """The same, from the answer of `python_exec`."""
    call = {"toolUseId": "snippet", "input": {"code": code, "timeout": 20}}
    result = asyncio.run(call_tool(get_registry().load("python_exec"), call))
    return _failed(result) if result["status"] == "error" else _succeeded(result)


def _succeeded(result: ToolResult) -> dict[str, Any]:
    text, told = (next(iter(block.values())) for block in result["content"])
    answer = {name: told[name] for name in ("value", "repr") if name in told}
    return {**answer, "stdout": "" if text == NO_OUTPUT else text, "stderr": told.get("stderr", "")}


def _failed(result: ToolResult) -> dict[str, Any]:
    error = result["content"][1]["json"]["error"]
    detail = error["details"][0]
    text = error["message"].removeprefix(f"Execution failed: {detail['type']}: ")
    described = {"type": detail["type"], "message": text, "line": detail.get("line")}
    return {"error": described, "stdout": detail.get("stdout", ""), "stderr": detail.get("stderr", "")}


def test_there_are_many_snippets() -> None:
    assert len(SNIPPETS) >= LEAST_SNIPPETS


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_gives_the_answer_of_plain_python(name: str, tmp_path: Path) -> None:
    code = SNIPPETS[name].removeprefix("\n")
    assert in_sandbox(code) == in_plain_python(code, tmp_path)


def test_every_kind_of_answer_is_among_the_snippets(tmp_path: Path) -> None:
    told = [
        in_plain_python(SNIPPETS[name], tmp_path)
        for name in ("json", "cmath", "key error", "stderr", "no output")
    ]
    assert [sorted(answer.keys() & {"value", "repr", "error"}) for answer in told] == [
        ["value"],
        ["repr"],
        ["error"],
        ["value"],
        ["value"],
    ]
    assert told[0]["stdout"]
    assert told[2]["error"]["line"] == 3
    assert told[3]["stderr"] == "to err\n"
