"""Spans through the provider that a program has set; there is one in a process, so each program is its own."""

import json
import subprocess
import sys
from typing import Any

BEFORE = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.telemetry import open_telemetry, span_listener
from strands_cli.types.sections import Telemetry

assert span_listener() is None, "no exporter, no cost"
memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)
"""
AFTER = """
print(json.dumps([
    {"name": s.name, "id": s.context.span_id, "parent": s.parent.span_id if s.parent else None,
     "attributes": dict(s.attributes), "status": s.status.status_code.name}
    for s in memory.get_finished_spans()
]))
"""
CALLS = """
spec = lambda name: {"name": name, "inputSchema": {"type": "object", "properties": {"secret": {"type": "string"}}}}

@tool(spec=spec("inner"), version="1.0.0")
def inner(secret: str = "") -> str:
    with trace.get_tracer("body").start_as_current_span("work of the body"):
        return "12345"

@tool(spec=spec("outer"))
async def outer(context: ToolContext, secret: str = "") -> str:
    await asyncio.gather(context.call("inner", secret=secret), context.call("inner", secret=secret))
    raise ToolFailed("no", code="not_found")

def context(**options):
    return CallContext(emit=span_listener(**options), resolve=lambda _: inner)

async def main():
    await call_tool(outer, {"toolUseId": "t1", "input": {"secret": "hunter2"}}, context())
    await call_tool(inner, {"toolUseId": "t2", "input": {"secret": "shown"}}, context(inputs=True))

asyncio.run(main())
"""
RUN = """
from tests.telemetry.runs import ask, run
environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
with open_telemetry(Telemetry(), warn=print, environment=environment) as exporting:
    with trace.get_tracer("program").start_as_current_span("the program's own"):
        asyncio.run(run(exporting.listener, "steps/0", body=ask))
"""


def spans_of(program: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + program + AFTER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout
    spans: list[dict[str, Any]] = json.loads(done.stdout)
    return spans


def test_each_call_is_one_span_with_the_spans_of_its_body_below_it() -> None:
    spans = spans_of(CALLS)
    by_id = {span["id"]: span for span in spans}
    assert sorted(span["name"] for span in spans) == [
        "tool:inner", "tool:inner", "tool:inner", "tool:outer", "work of the body", "work of the body", "work of the body",
    ]  # fmt: skip
    outer = next(span for span in spans if span["name"] == "tool:outer")
    assert outer["attributes"]["tool.code"] == "not_found"
    assert outer["status"] == "ERROR"
    works = [span for span in spans if span["name"] == "work of the body"]
    assert all(by_id[span["parent"]]["name"] == "tool:inner" for span in works)
    inner = [span for span in spans if span["name"] == "tool:inner"]
    assert [span["parent"] for span in inner].count(outer["id"]) == 2
    assert inner[0]["attributes"]["tool.version"] == "1.0.0"
    assert inner[0]["attributes"]["tool.output_size"] == 5
    shown = [span["attributes"].get("tool.inputs") for span in inner if "tool.inputs" in span["attributes"]]
    assert shown == ['{"secret": "shown"}']


def test_the_program_s_provider_gets_the_run_below_the_program_s_own_span() -> None:
    """It counts before a collector that the environment names, since the program has chosen it."""
    spans = spans_of(RUN)
    names = {span["id"]: span["name"] for span in spans}
    assert {span["name"]: names.get(span["parent"]) for span in spans} == {
        "the program's own": None,
        "run:flow": "the program's own",
        "step:title steps/0": "run:flow",
        "model:acme one": "step:title steps/0",
    }
