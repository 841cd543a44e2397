"""Spans: one per call, in the place where they belong, without inputs unless asked."""

import subprocess
import sys

PROGRAM = """
import asyncio, json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.telemetry import span_listener

assert span_listener() is None, "no exporter, no cost"
memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)

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
spans = memory.get_finished_spans()
print(json.dumps([
    {"name": s.name, "id": s.context.span_id, "parent": s.parent.span_id if s.parent else None,
     "attributes": dict(s.attributes), "status": s.status.status_code.name}
    for s in spans
]))
"""


def test_each_call_is_one_span_with_the_spans_of_its_body_below_it() -> None:
    import json

    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout
    spans = json.loads(done.stdout)
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
