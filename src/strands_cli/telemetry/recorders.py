"""Listeners that record a run: as OpenTelemetry spans, or as the trace, which is one JSON document.

Both make the same tree of the same events: run > step > model or tool > tool. Parents are found by the key of
the step that an event names, and for calls inside calls by the task. The spans that others make in the same
task (the SDK's, an HTTP client's) thus never come in between.
"""

import json
import logging
from abc import ABC, abstractmethod
from contextvars import ContextVar
from copy import deepcopy
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import asdict

from strands_cli.events import (
    ContextCompacted,
    Event,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunNoticed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    ToolStderr,
)
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.types.run_results import Usage
from strands_cli.types.sections import Redact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

T = TypeVar("T")
Entry = dict[str, Any]
Start = RunStarted | StepStarted | ModelStarted | ToolStarted
Finish = RunFinished | StepFinished | ModelFinished | ToolFinished
Remark = ModelRetried | ContextCompacted | RunNoticed | ToolStderr

TRACER = "strands_cli"
TRACE_FORMAT = 1
MAX_ENTRIES = 10_000
MAX_CHARACTERS = 5_000_000
_LONGEST_VALUE = 10_000
_LONGEST_TEXT = 300
_MAX_OUTPUT = 1_000_000
"""Bytes. Larger outputs, which one tool may give to another, would take long to search for secrets."""
_HIDE = Redact()

_log = logging.getLogger("strands_cli.telemetry")

# The tool calls that are under way in this task, innermost last: the recorder, the tool, the call and the
# record. A call starts and finishes in one task, and the calls that its body makes are in that task or in one
# made from it. Ids alone would not do: two calls of one tool by one body have the same.
_calls: ContextVar[tuple[tuple[object, str, str, Any], ...]] = ContextVar(
    "strands_cli_tool_calls", default=()
)


class Recorder(ABC, Generic[T]):
    """Keeps a record, which is a T, of each part of a run that is under way. It never fails a run.

    What it shows has no secrets; inputs and outputs of tools only if they may be shown.
    """

    def __init__(self, redact: Redact, redactor: Redactor = NOTHING_SECRET) -> None:
        # The events of a run come without its secrets already.
        self._redact, self._redactor = redact, redactor
        self._run: T | None = None
        self._steps: dict[str, T] = {}
        self._models: dict[str, list[T]] = {}
        """By step: a request may start in one task and finish in another."""
        self._has_failed = False

    @abstractmethod
    def _start(self, event: Start, parent: T | None) -> T:
        """The record of what starts below a parent."""

    @abstractmethod
    def _finish(self, event: Finish, record: T | None) -> None:
        """Completes a record; None for what began before the recorder did."""

    @abstractmethod
    def _remark(self, event: Remark, parent: T | None) -> None:
        """Adds to what is under way."""

    def __call__(self, event: Event) -> None:
        try:
            self._follow(event)
        except Exception:  # noqa: BLE001 - a run does not fail because it is watched, with others' processors
            level = logging.DEBUG if self._has_failed else logging.ERROR
            _log.log(level, "%s failed at %s", type(self).__name__, type(event).__name__, exc_info=True)
            self._has_failed = True

    def _follow(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._run = self._start(event, None)
            case StepStarted(step=step):
                self._steps[step] = self._start(event, self._run)
            case ModelStarted(step=step):
                record = self._start(event, self._steps.get(step, self._run))
                self._models.setdefault(step, []).append(record)
            case ToolStarted(step=step):
                calls = _calls.get()
                outer = next((record for owner, *_, record in reversed(calls) if owner is self), None)
                record = self._start(event, self._steps.get(step, self._run) if outer is None else outer)
                _calls.set((*calls, (self, event.tool_id, event.call_id, record)))
            case ToolFinished():
                self._finish(event, self._take_call(event))
            case ModelFinished(step=step):
                requests = self._models.get(step)
                self._finish(event, requests.pop() if requests else None)
            case StepFinished(step=step):
                self._models.pop(step, None)
                self._finish(event, self._steps.pop(step, None))
            case RunFinished():
                run, self._run = self._run, None
                self._finish(event, run)
            case ModelRetried() | ContextCompacted() | RunNoticed() | ToolStderr():
                self._remark(event, self._parent(event))

    def _parent(self, event: Remark) -> T | None:
        """The record that a remark belongs to: that of a call, else that of its step."""
        if not isinstance(event, ToolStderr):
            return self._steps.get(event.step, self._run)
        call = [self, event.tool_id, event.call_id]
        return next((record for *own, record in reversed(_calls.get()) if own == call), None)

    def _take_call(self, event: ToolFinished) -> T | None:
        calls = _calls.get()
        for at in reversed(range(len(calls))):
            *own, record = calls[at]
            if own == [self, event.tool_id, event.call_id]:
                _calls.set(calls[:at] + calls[at + 1 :])
                taken: T = record
                return taken
        return None

    # --- what may be shown ------------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        return _encodable_text(self._redactor.text(text))[:_LONGEST_TEXT]

    def _texts(self, event: Event, fields: dict[str, str]) -> dict[str, str]:
        """The fields of an event under the names that a record has for them."""
        return {name: self._text(getattr(event, field)) for name, field in fields.items()}

    def _reason(self, error: str) -> str:
        """The first line of an error: what follows may quote anything."""
        return self._text(error.strip().partition("\n")[0])

    def _inputs(self, arguments: object) -> str | None:
        """What a call sent, as JSON of any length; None if it is to be left out."""
        return None if self._redact.tool_inputs else self._json(arguments)

    def _outputs(self, event: ToolFinished) -> str | None:
        """The blocks of a result, likewise; None also if a call has none."""
        if self._redact.tool_outputs or event.content is None:
            return None
        if event.output_size > _MAX_OUTPUT:
            return self._json(f"({event.output_size} bytes, too many to be shown)")
        return self._json(event.content)

    def _stderr(self, event: ToolStderr) -> str | None:
        """What an executable said beside its answer, likewise."""
        return self._json(event.text) if event.text and not self._redact.tool_outputs else None

    def _json(self, value: object) -> str:
        """As JSON before secrets are looked for, so that those in objects' own texts are seen too."""

        def plain_text(value: Any) -> str:
            return f"({len(value)} bytes)" if isinstance(value, bytes | bytearray) else str(value)

        try:
            plain = json.loads(json.dumps(value, default=plain_text))
        except (TypeError, ValueError, RecursionError):  # odd keys, cycles
            plain = "(cannot be shown as JSON)"
        return _encodable_text(json.dumps(self._redactor.value(plain), ensure_ascii=False))


def _encodable_text(text: str) -> str:
    """The text without lone surrogates, for which a collector would lose the whole batch."""
    return text.encode("utf-8", "replace").decode("utf-8")


# --- Spans ------------------------------------------------------------------------------------------------

_SPANS: dict[type, tuple[str, str, dict[str, str]]] = {
    RunStarted: ("run", "workflow", {"strands.workflow": "workflow", "strands.pattern": "pattern"}),
    StepStarted: (
        "step",
        "title",
        {"strands.step": "step", "gen_ai.agent.name": "agent", "gen_ai.request.model": "model"},
    ),
    ModelStarted: ("model", "model", {"strands.step": "step", "gen_ai.request.model": "model"}),
    ToolStarted: (
        "tool",
        "tool_id",
        {"tool.id": "tool_id", "tool.version": "version", "tool.call_id": "call_id", "strands.step": "step"},
    ),
}
"""By event: the kind of its span, the field that names it, and the fields that are its attributes."""


def span_listener(
    *, inputs: bool = False, outputs: bool = False, redactor: Redactor = NOTHING_SECRET
) -> Listener | None:
    """Returns a listener that creates spans for a run or for single tool calls, with the program's tracer
    provider.

    Returns None if there is no provider, so that tracing costs nothing. `inputs` and `outputs` add the inputs
    and outputs of tools, which may contain anything. Use one listener for one run at a time.
    """
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    redact = Redact(tool_inputs=not inputs, tool_outputs=not outputs)
    return Spans(trace.get_tracer(TRACER), redact, redactor)


class _OpenSpan:
    """An open span, with the open spans below it, and what was current before it."""

    __slots__ = ("before", "open", "parent", "span")

    def __init__(self, span: "Span", parent: "_OpenSpan | None") -> None:
        self.span = span
        self.parent = parent
        self.open: dict[int, _OpenSpan] = {}
        self.before: Context | None = None
        if parent is not None:
            parent.open[id(self)] = self

    def end(self) -> None:
        """Ends the span, and before it the unfinished ones below it."""
        for node in [*self.open.values()]:
            node.span.set_attribute("strands.unfinished", True)
            node.end()
        if self.parent is not None:
            self.parent.open.pop(id(self), None)
        self.span.end()


class Spans(Recorder[_OpenSpan]):
    """A span for each part of a run. Those of runs, steps and tools are the current ones in their tasks, so
    that what a tool's body makes is below it."""

    def __init__(self, tracer: "Tracer", redact: Redact, redactor: Redactor = NOTHING_SECRET) -> None:
        super().__init__(redact, redactor)
        self._tracer = tracer

    def _start(self, event: Start, parent: _OpenSpan | None) -> _OpenSpan:
        """Below its parent; without one, below what is current, such as the program's own span."""
        from opentelemetry import context, trace

        kind, field, fields = _SPANS[type(event)]
        name = self._text(f"{kind}:{getattr(event, field)}")
        attributes = {key: text for key, text in self._texts(event, fields).items() if text}
        around = None if parent is None else trace.set_span_in_context(parent.span)
        node = _OpenSpan(self._tracer.start_span(name, around, attributes=attributes), parent)
        if isinstance(event, ModelStarted):
            node.span.set_attribute("gen_ai.operation.name", "chat")
            return node
        if isinstance(event, ToolStarted) and node.span.is_recording():
            _set_span_value(node.span, "tool.inputs", self._inputs(event.arguments))
        node.before = context.get_current()
        context.attach(trace.set_span_in_context(node.span))
        return node

    def _finish(self, event: Finish, record: _OpenSpan | None) -> None:
        from opentelemetry import context

        if record is None:
            return
        span = record.span
        if isinstance(event, ToolFinished):
            span.set_attribute("tool.output_size", event.output_size)
            if span.is_recording():
                _set_span_value(span, "tool.outputs", self._outputs(event))
            if event.code is not None:
                span.set_attribute("tool.code", self._text(event.code))
                self._fail(span, "" if event.code == "interrupted" else event.code)
        else:
            span.set_attribute("gen_ai.usage.input_tokens", event.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", event.usage.output_tokens)
            error = event.error
            if isinstance(event, RunFinished):
                span.set_attribute("strands.outcome", event.outcome)
                error = error or (event.outcome if event.outcome in ("failed", "budget") else "")
                self._steps.clear()
            elif isinstance(event, ModelFinished) and event.stop_reason:
                span.set_attribute("gen_ai.response.finish_reasons", [self._text(event.stop_reason)])
            self._fail(span, error)
        # Attached anew, not detached: what ends in another task than it began in has nothing to detach.
        if record.before is not None:
            context.attach(record.before)
        record.end()

    def _fail(self, span: "Span", reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        if reason:
            span.set_status(Status(StatusCode.ERROR, self._reason(reason)))

    def _remark(self, event: Remark, parent: _OpenSpan | None) -> None:
        """Each request is a span; that one follows because another failed is an event of the step."""
        if parent is None:
            return
        if isinstance(event, ModelRetried):
            waited = {"retry.attempt": event.attempt, "retry.wait_seconds": event.wait_seconds}
            parent.span.add_event("retry", {**waited, "retry.reason": self._reason(event.reason)})
        elif isinstance(event, ContextCompacted):
            sizes = {"messages.before": event.before, "messages.after": event.after}
            parent.span.add_event("compaction", sizes)
        elif isinstance(event, ToolStderr):
            if event.refused:
                parent.span.set_attribute("tool.refused", self._text(event.refused))
            _set_span_value(parent.span, "tool.stderr", self._stderr(event))


def _set_span_value(span: "Span", name: str, encoded: str | None) -> None:
    if encoded is not None:
        span.set_attribute(name, encoded[:_LONGEST_VALUE])


# --- The trace --------------------------------------------------------------------------------------------

_ENTRIES: dict[type, dict[str, str]] = {
    RunStarted: {"workflow": "workflow", "pattern": "pattern"},
    StepStarted: {"key": "step", "title": "title", "agent": "agent", "model": "model"},
    ModelStarted: {"model": "model"},
    ToolStarted: {"id": "tool_id", "version": "version", "call_id": "call_id"},
}


def _usage_document(usage: Usage) -> dict[str, Any]:
    """The cost is in it where the prices are known."""
    return {name: value for name, value in asdict(usage).items() if value is not None}


class Trace(Recorder[Entry]):
    """Records a run as one document. You can get it at any time, also during the run and from another thread.

    The number of entries and the characters of inputs and outputs are limited.
    `docs/guides/telemetry.md` has its format.
    """

    def __init__(
        self,
        redact: Redact = _HIDE,
        redactor: Redactor = NOTHING_SECRET,
        *,
        most_entries: int = MAX_ENTRIES,
        most_characters: int = MAX_CHARACTERS,
    ) -> None:
        super().__init__(redact, redactor)
        self._lock = Lock()  # tools that call tools may do so in threads of their own
        self._began = perf_counter()
        self._usage = Usage()
        self._room = most_entries
        self._room_for_characters = most_characters
        self._document: Entry = {
            "format": TRACE_FORMAT,
            "run": {"workflow": "", "pattern": "", "started": _timestamp(), "outcome": "running"},
            "steps": [],
            "notices": [],
            "cut": {"entries": 0, "characters": 0},
        }

    def __call__(self, event: Event) -> None:
        with self._lock:
            super().__call__(event)

    def document(self) -> dict[str, Any]:
        """The run so far."""
        with self._lock:
            document = deepcopy(self._document)
            document["run"].setdefault("seconds", self._seconds())
            document["run"].setdefault("usage", _usage_document(self._usage))
            return document

    def text(self) -> str:
        """The same as indented JSON."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False)

    def _start(self, event: Start, parent: Entry | None) -> Entry:
        entry: Entry = self._texts(event, _ENTRIES[type(event)])
        if isinstance(event, RunStarted):
            self._began = perf_counter()
            entry |= {"started": _timestamp(), "outcome": "running"}
            self._document["run"] = entry
            return entry
        entry["at"] = self._seconds()
        if isinstance(event, StepStarted):
            entry |= {"models": [], "retries": [], "compactions": [], "tools": []}
            self._add(self._document["steps"], entry)
            return entry
        self._add(self._below(parent, "models" if isinstance(event, ModelStarted) else "tools"), entry)
        if isinstance(event, ToolStarted):
            self._keep(entry, "inputs", self._inputs(event.arguments))
        return entry

    def _finish(self, event: Finish, record: Entry | None) -> None:
        if isinstance(event, RunFinished):
            record = self._document["run"]
            record["outcome"] = event.outcome
        elif isinstance(event, StepFinished):
            self._usage += event.usage
        if record is None:
            return
        record["seconds"] = round(event.seconds, 6)
        if isinstance(event, ToolFinished):
            code = None if event.code is None else self._text(event.code)
            record |= {"size": event.output_size, "code": code}
            self._keep(record, "outputs", self._outputs(event))
            return
        record["usage"] = _usage_document(event.usage)
        if isinstance(event, ModelFinished):
            record["stop_reason"] = self._text(event.stop_reason)
        if event.error:
            record["error"] = self._reason(event.error)

    def _remark(self, event: Remark, parent: Entry | None) -> None:
        entry: Entry = {"at": self._seconds()}
        if isinstance(event, ToolStderr):
            if parent is not None:
                parent |= {"refused": self._text(event.refused)} if event.refused else {}
                self._keep(parent, "stderr", self._stderr(event))
            return
        if isinstance(event, RunNoticed):
            entry |= {"text": self._reason(event.text), "step": self._text(event.step)}
            self._add(self._document["notices"], entry)
        elif isinstance(event, ContextCompacted):
            entry |= {"before": event.before, "after": event.after}
            self._add(self._below(parent, "compactions"), entry)
        else:
            entry |= {"attempt": event.attempt, "wait_seconds": event.wait_seconds}
            entry["reason"] = self._reason(event.reason)
            self._add(self._below(parent, "retries"), entry)

    def _seconds(self) -> float:
        return round(perf_counter() - self._began, 6)

    def _add(self, entries: list[Entry], entry: Entry) -> None:
        """An entry is in the document only while there is room; others may still be put below it."""
        if self._room > 0:
            self._room -= 1
            entries.append(entry)
        else:
            self._document["cut"]["entries"] += 1

    def _below(self, parent: Entry | None, kind: str) -> list[Entry]:
        """Where a step or a call keeps what it does; what belongs to no open step is kept apart."""
        if parent is None or parent is self._run:
            parent = self._document.setdefault("outside", {})
        entries: list[Entry] = parent.setdefault(kind, [])
        return entries

    def _keep(self, entry: Entry, name: str, encoded: str | None) -> None:
        """A value as it is; of one that is too long, the beginning of its JSON as text."""
        if encoded is None:
            return
        kept = encoded[:_LONGEST_VALUE]
        if len(kept) > self._room_for_characters:
            kept = ""
        self._room_for_characters -= len(kept)
        self._document["cut"]["characters"] += len(encoded) - len(kept)
        entry[name] = json.loads(encoded) if kept == encoded else f"{kept}…"


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
