"""`spec_verify`: what is wrong with the text of a workflow."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.results import error_of
from strands_cli.tools.spec_verify import spec_verify

GOOD = """version: 0
name: demo
runtime: {provider: ollama}
agents: {writer: {prompt: You write., tools: [echo]}}
tools: {python: [echo]}
pattern: {type: chain, config: {steps: [{agent: writer, input: Write.}]}}
"""


def verify(text: str, **more: Any) -> Any:
    result = asyncio.run(call_tool(spec_verify, {"toolUseId": "x", "input": {"spec_content": text, **more}}))
    error = error_of(result)
    return error or result["content"][0]["json"]


def test_a_good_workflow_is_valid_and_supported() -> None:
    assert verify(GOOD) == {
        "schema_valid": True,
        "pydantic_valid": True,
        "capability_supported": True,
        "errors": [],
        "issues": [],
    }


def test_a_text_that_does_not_fit_the_format_is_told_line_by_line() -> None:
    found = verify(GOOD.replace("name: demo", "nmae: demo"))
    assert (found["schema_valid"], found["pydantic_valid"], found["capability_supported"]) == (False,) * 3
    misspelt = next(issue for issue in found["issues"] if issue["pointer"] == "/nmae")
    assert (misspelt["line"], misspelt["severity"]) == (2, "error")
    assert "file" not in misspelt
    assert any(text.startswith("line 2: /nmae There is no key 'nmae' here.") for text in found["errors"])


def test_a_workflow_that_could_not_run_is_valid_but_not_supported() -> None:
    text = GOOD.replace("input: Write.", "input: '{{ steps[7].response }}'")
    found = verify(text)
    assert (found["schema_valid"], found["capability_supported"]) == (True, False)
    assert "step" in found["errors"][0]
    unchecked = verify(text, check_capability=False)
    assert (unchecked["schema_valid"], unchecked["capability_supported"], unchecked["issues"]) == (
        True,
        None,
        [],
    )


@pytest.mark.parametrize("text", ["{", "a: &a [*a]\0"])
def test_what_is_no_workflow_at_all_is_an_answer_too(text: str) -> None:
    found = verify(text.encode("utf-8", "replace").decode())
    assert found["schema_valid"] is False
    assert found["errors"]


def test_the_text_sees_neither_files_nor_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_TOKEN", "hunter2-hunter2")
    (tmp_path / "agent.yaml").write_text("prompt: You write.")
    text = GOOD.replace("{prompt: You write., tools: [echo]}", "{$ref: agent.yaml}")
    found = verify(text + "env: {variables: [MY_TOKEN]}\ndescription: '${MY_TOKEN}'\n")
    assert any("agent.yaml" in error for error in found["errors"])
    assert "hunter2" not in str(found)
    assert "strands-verify-" not in str(found)


def test_a_text_of_more_than_a_megabyte_is_refused() -> None:
    assert verify("#" * 1_000_001)["code"] == "input_invalid"
