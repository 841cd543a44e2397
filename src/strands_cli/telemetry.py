"""A listener that turns what a run says into OpenTelemetry spans."""

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from strands_cli.events import Event, Listener, ToolFinished, ToolStarted

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

# The spans that are open in this task, innermost last, each with what ends its time as the current span.
# A call starts and finishes in one task, so what it opened is what it finds here.
_open: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("strands_cli_open_spans", default=())

_LONGEST_INPUT = 10_000


def span_listener(*, inputs: bool = False) -> Listener | None:
    """A listener that makes one span of each tool call, or None where no exporter would get it.

    `inputs` adds what the call sent; left out by default, since it may hold anything.
    """
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    tracer = trace.get_tracer("strands_cli")

    def listen(event: Event) -> None:
        if isinstance(event, ToolStarted):
            _start(tracer, event, inputs)
        elif isinstance(event, ToolFinished):
            _finish(event)

    return listen


def _start(tracer: "Tracer", event: ToolStarted, inputs: bool) -> None:
    from opentelemetry import context, trace

    span = tracer.start_span(f"tool:{event.tool_id}")
    span.set_attribute("tool.id", event.tool_id)
    span.set_attribute("tool.version", event.version)
    span.set_attribute("tool.call_id", event.call_id)
    if inputs:
        span.set_attribute("tool.inputs", json.dumps(event.arguments, default=str)[:_LONGEST_INPUT])
    token = context.attach(trace.set_span_in_context(span))
    _open.set((*_open.get(), (span, token)))


def _finish(event: ToolFinished) -> None:
    from opentelemetry import context
    from opentelemetry.trace import Status, StatusCode

    *outer, (span, token) = _open.get()
    _open.set(tuple(outer))
    span.set_attribute("tool.output_size", event.output_size)
    if event.code is not None:
        span.set_attribute("tool.code", event.code)
        span.set_status(Status(StatusCode.ERROR, event.code))
    context.detach(token)
    span.end()
