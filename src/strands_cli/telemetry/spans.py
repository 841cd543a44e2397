"""A listener that turns what a run says into OpenTelemetry spans: run > step > model or tool > tool.

Parents are found by the key of the step that an event names, and for calls inside calls by the task. The
spans that others make in the same task (the SDK's, an HTTP client's) thus never come in between.
"""

from typing import TYPE_CHECKING, Any

from strands_cli.events import (
    ContextCompacted,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.telemetry.listening import ModelCalls, Recorder, ToolCalls
from strands_cli.telemetry.showing import LONGEST_VALUE, Shown
from strands_cli.types.spec import Redact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from strands_cli.types.results import Usage

TRACER = "strands_cli"
_FAILURES = {"failed", "budget"}


def span_listener(
    *, inputs: bool = False, outputs: bool = False, redactor: Redactor = NOTHING_SECRET
) -> Listener | None:
    """A listener that makes spans of a run, or of single tool calls, through the program's global provider.

    None where there is none, so that nothing is paid for spans that nobody gets. `inputs` and `outputs` add
    what tools were sent and what they answered; left out by default, since they may hold anything. One
    listener is for one run at a time.
    """
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    redact = Redact(tool_inputs=not inputs, tool_outputs=not outputs)
    return Spans(trace.get_tracer(TRACER), Shown(redact, redactor))


class _Node:
    """An open span, with the open spans below it."""

    __slots__ = ("before", "open", "parent", "span")

    def __init__(self, span: "Span", parent: "_Node | None") -> None:
        self.span = span
        self.parent = parent
        self.open: dict[int, _Node] = {}
        self.before: Context | None = None
        if parent is not None:
            parent.open[id(self)] = self

    def make_current(self) -> None:
        from opentelemetry import context, trace

        self.before = context.get_current()
        context.attach(trace.set_span_in_context(self.span))

    def end(self) -> None:
        """Ends the span, and before it whatever nobody has finished below it."""
        for node in [*self.open.values()]:
            node.span.set_attribute("strands.unfinished", True)
            node.end()
        if self.parent is not None:
            self.parent.open.pop(id(self), None)
        self.span.end()

    def end_here(self) -> None:
        """Ends a span that was made current; what was current before is so again.

        It is attached anew, not detached: what ends in another task than it began in has nothing to detach.
        """
        from opentelemetry import context

        if self.before is not None:
            context.attach(self.before)
        self.end()


class Spans(Recorder):
    def __init__(self, tracer: "Tracer", shown: Shown) -> None:
        super().__init__(
            {
                RunStarted: self._start_run,
                RunFinished: self._finish_run,
                StepStarted: self._start_step,
                StepFinished: self._finish_step,
                ModelStarted: self._start_model,
                ModelRetried: self._retry_model,
                ModelFinished: self._finish_model,
                ToolStarted: self._start_tool,
                ToolFinished: self._finish_tool,
                ContextCompacted: self._compact,
            }
        )
        self._tracer = tracer
        self._shown = shown
        self._run: _Node | None = None
        self._steps: dict[str, _Node] = {}
        self._models: ModelCalls[_Node] = ModelCalls()
        self._tools: ToolCalls[_Node] = ToolCalls()

    def _open(self, name: str, parent: _Node | None, **attributes: str) -> _Node:
        """A span below its parent; without one, below what is current, such as the program's own span."""
        from opentelemetry import trace

        around = None if parent is None else trace.set_span_in_context(parent.span)
        told = {key.replace("__", "."): self._shown.text(text) for key, text in attributes.items() if text}
        return _Node(self._tracer.start_span(self._shown.text(name), around, attributes=told), parent)

    def _around(self, step: str) -> _Node | None:
        return self._steps.get(step, self._run)

    def _fail(self, span: "Span", reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, self._shown.reason(reason)))

    # --- runs and steps ---------------------------------------------------------------------------------

    def _start_run(self, event: RunStarted) -> None:
        self._run = self._open(
            f"run:{event.workflow}", None, strands__workflow=event.workflow, strands__pattern=event.pattern
        )
        self._run.make_current()

    def _finish_run(self, event: RunFinished) -> None:
        node, self._run = self._run, None
        if node is None:
            return
        node.span.set_attribute("strands.outcome", event.outcome)
        node.span.set_attributes(_counted(event.usage))
        if event.outcome in _FAILURES or event.error:
            self._fail(node.span, event.error or event.outcome)
        self._steps.clear()
        node.end_here()

    def _start_step(self, event: StepStarted) -> None:
        node = self._open(
            f"step:{event.title}",
            self._run,
            strands__step=event.step,
            gen_ai__agent__name=event.agent,
            gen_ai__request__model=event.model,
        )
        self._steps[event.step] = node
        node.make_current()

    def _finish_step(self, event: StepFinished) -> None:
        self._models.forget(event.step)
        node = self._steps.pop(event.step, None)
        if node is None:
            return
        node.span.set_attributes(_counted(event.usage))
        if event.error:
            self._fail(node.span, event.error)
        node.end_here()

    def _compact(self, event: ContextCompacted) -> None:
        told = {"messages.before": event.before, "messages.after": event.after}
        self._note(event.step, "compaction", told)

    def _note(self, step: str, name: str, told: dict[str, Any]) -> None:
        node = self._around(step)
        if node is not None:
            node.span.add_event(name, told)

    # --- models -----------------------------------------------------------------------------------------

    def _start_model(self, event: ModelStarted) -> None:
        node = self._open(
            f"model:{event.model}",
            self._around(event.step),
            strands__step=event.step,
            gen_ai__operation__name="chat",
            gen_ai__request__model=event.model,
        )
        self._models.begin(event.step, node)

    def _retry_model(self, event: ModelRetried) -> None:
        """Each request is a span; that one follows because another failed is an event of the step."""
        told = {
            "retry.attempt": event.attempt,
            "retry.wait_seconds": event.wait_seconds,
            "retry.reason": self._shown.reason(event.reason),
        }
        self._note(event.step, "retry", told)

    def _finish_model(self, event: ModelFinished) -> None:
        node = self._models.end(event.step)
        if node is None:
            return
        node.span.set_attributes(_counted(event.usage))
        if event.stop_reason:
            node.span.set_attribute("gen_ai.response.finish_reasons", [self._shown.text(event.stop_reason)])
        if event.error:
            self._fail(node.span, event.error)
        node.end()

    # --- tools ------------------------------------------------------------------------------------------

    def _start_tool(self, event: ToolStarted) -> None:
        """Its span is the current one in this task, so that what the body makes is below it."""
        node = self._open(
            f"tool:{event.tool_id}",
            self._tools.innermost() or self._around(event.step),
            tool__id=event.tool_id,
            tool__version=event.version,
            tool__call_id=event.call_id,
            strands__step=event.step,
        )
        if node.span.is_recording():
            _set_value(node.span, "tool.inputs", self._shown.inputs(event.arguments))
        node.make_current()
        self._tools.begin(event, node)

    def _finish_tool(self, event: ToolFinished) -> None:
        node = self._tools.end(event)
        if node is None:
            return
        node.span.set_attribute("tool.output_size", event.output_size)
        if node.span.is_recording():
            _set_value(node.span, "tool.outputs", self._shown.outputs(event.content, event.output_size))
        if event.code is not None:
            node.span.set_attribute("tool.code", self._shown.text(event.code))
        if event.code not in (None, "interrupted"):
            self._fail(node.span, str(event.code))
        node.end_here()


def _set_value(span: "Span", name: str, encoded: str | None) -> None:
    if encoded is not None:
        span.set_attribute(name, encoded[:LONGEST_VALUE])


def _counted(usage: "Usage") -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
