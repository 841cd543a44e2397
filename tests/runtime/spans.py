"""What the SDK's tracer exports; it reads its settings once in a process, so each case runs in its own."""

import json
import subprocess
import sys
from typing import Any

_BEFORE = """
import json, logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
logging.disable(logging.CRITICAL)
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from tests.fakes import Call, ScriptedModel, tool_call
"""
_AFTER = """
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


def exported_spans(script: str, opt_in: str) -> list[dict[str, Any]]:
    """The spans that a script's agents leave, with `OTEL_SEMCONV_STABILITY_OPT_IN` set to `opt_in`."""
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + script + _AFTER],
        env={"OTEL_SEMCONV_STABILITY_OPT_IN": opt_in, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    spans: list[dict[str, Any]] = json.loads(done.stdout)
    return spans
