"""Whole workflows with a collector: what `run` makes of `telemetry` in a file."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import StrandsError
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from tests.exec.flows import Flow
from tests.fakes import ScriptedModel, tool_call
from tests.telemetry.collector import Collector, collecting

BRANCHES = {
    "branches": [{"id": f"b{index}", "steps": [{"agent": "a", "input": "Go."}]} for index in range(12)]
}
SHOW = {"tool_inputs": False, "tool_outputs": False}


def traced(directory: Path, collector: Collector, config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Runs a workflow with a trace; what the trace says."""
    telemetry = {"otlp_endpoint": collector.url, "redact": more.pop("redact", {})}
    tools = {"python": ["echo"]}
    kind = "parallel" if "branches" in config else "chain"
    spec = Flow(directory).spec(kind, config, telemetry=telemetry, tools=tools, **more)
    with suppress(StrandsError):
        asyncio.run(run(spec, None, RunOptions(directory=directory, trace=True)))
    document: dict[str, Any] = json.loads((directory / "flow-trace.json").read_text())
    return document


def test_parallel_branches_are_told_as_they_were_run(tmp_path: Path, model: ScriptedModel) -> None:
    for index in range(12):
        model.enqueue("thinking of it", tool_call("echo", message=f"message {index}"))
    model.default_answer = "the final word"
    with collecting() as collector:
        document = traced(tmp_path, collector, BRANCHES, redact=SHOW)
    (root,) = [span for span in collector.spans if span.parent == b""]
    assert root.name == "run:flow"
    steps = [span for span in collector.spans if span.parent == root.id]
    assert len(steps) == 12
    in_trace = {step["key"]: step for step in document["steps"]}
    assert [*in_trace] == [f"branches/{index}/steps/0" for index in range(12)]
    for step in steps:
        below = [span for span in collector.spans if span.parent == step.id]
        models = [span for span in below if span.name.startswith("model:")]
        tools = [span.attributes["tool.inputs"] for span in below if span.name == "tool:echo"]
        assert len(below) == len(models) + len(tools) == 2 * len(tools) + 1
        assert step.attributes["gen_ai.usage.input_tokens"] == 5 * len(models)
        same = in_trace[step.attributes["strands.step"]]
        assert len(same["models"]) == len(models)
        assert [json.dumps(tool["inputs"]) for tool in same["tools"]] == tools
    assert len(collector.spans) == 1 + 12 + 24 + 12
    told = {span.attributes["tool.inputs"] for span in collector.named("tool:echo")}
    assert told == {json.dumps({"message": f"message {index}"}) for index in range(12)}
    assert document["run"]["outcome"] == "done"
    for said in ("thinking of it", "the final word", "Go.", "You work."):
        assert said.encode() not in b"".join(collector.bodies)
        assert said not in json.dumps(document)


def test_a_run_that_fails_is_told_with_its_reason_and_its_secrets_are_not(
    tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-of-ada")
    model.enqueue(tool_call("echo", message="hunter2-of-ada"))
    model.enqueue(ConnectionError("no route for hunter2-of-ada"))
    with collecting() as collector:
        document = traced(
            tmp_path,
            collector,
            {"steps": [{"agent": "a", "input": "Go."}]},
            redact=SHOW,
            env={"secrets": [{"name": "API_TOKEN"}]},
        )
    assert collector.one("run:flow").attributes["strands.outcome"] == "failed"
    assert collector.one("run:flow").status_text
    assert collector.one("tool:echo").attributes["tool.inputs"] == '{"message": "***"}'
    assert document["run"]["outcome"] == "failed"
    assert document["steps"][0]["error"]
    assert b"hunter2-of-ada" not in b"".join(collector.bodies)
    assert "hunter2-of-ada" not in json.dumps(document)
