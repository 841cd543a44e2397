"""A listener that keeps what a run did as one JSON document; `docs/guides/telemetry.md` has its format."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter
from typing import Any

from strands_cli.events import (
    ContextCompacted,
    Event,
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
)
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.telemetry.listening import ModelCalls, Recorder, ToolCalls
from strands_cli.telemetry.showing import LONGEST_VALUE, Shown
from strands_cli.types.results import Usage
from strands_cli.types.spec import Redact

FORMAT = 1
MOST_ENTRIES = 10_000
MOST_CHARACTERS = 5_000_000
_HIDE = Redact()

Entry = dict[str, Any]


class Trace(Recorder):
    """One run as a document. It can be had at any time, also while the run goes on and from another thread.

    It is bounded: in its entries, and in the characters of what tools were sent and answered.
    """

    def __init__(
        self,
        redact: Redact = _HIDE,
        redactor: Redactor = NOTHING_SECRET,
        *,
        most_entries: int = MOST_ENTRIES,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        super().__init__(
            {
                RunStarted: self._start_run,
                RunFinished: self._finish_run,
                RunNoticed: self._notice,
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
        self._shown = Shown(redact, redactor)
        self._lock = Lock()  # tools that call tools may do so in threads of their own
        self._began = perf_counter()
        self._run: Entry = {"workflow": "", "pattern": "", "started": _now(), "outcome": "running"}
        self._usage = Usage()
        self._steps: list[Entry] = []
        self._outside: Entry = {}
        self._notices: list[Entry] = []
        self._room = most_entries
        self._room_for_characters = most_characters
        self._cut = {"entries": 0, "characters": 0}
        self._open: dict[str, Entry] = {}
        self._models: ModelCalls[Entry] = ModelCalls()
        self._tools: ToolCalls[Entry] = ToolCalls()

    def __call__(self, event: Event) -> None:
        with self._lock:
            super().__call__(event)

    def document(self) -> dict[str, Any]:
        """The run so far."""
        with self._lock:
            run = {"seconds": self._seconds(), "usage": _tokens(self._usage), **self._run}
            document = {
                "format": FORMAT,
                "run": run,
                "steps": self._steps,
                "notices": self._notices,
                "cut": self._cut,
            }
            if self._outside:
                document["outside"] = self._outside
            return deepcopy(document)

    def text(self) -> str:
        """The same as JSON, for people too."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False)

    def _seconds(self) -> float:
        return round(perf_counter() - self._began, 6)

    def _add(self, entries: list[Entry], entry: Entry) -> Entry:
        """The entry, which is in the document only while there is room: others may go on to fill it."""
        if self._room > 0:
            self._room -= 1
            entries.append(entry)
        else:
            self._cut["entries"] += 1
        return entry

    def _below(self, step: str, kind: str) -> list[Entry]:
        """Where a step keeps what it does; what belongs to no open step is kept apart."""
        around = self._open.get(step, self._outside)
        entries: list[Entry] = around.setdefault(kind, [])
        return entries

    def _said(self, **texts: str) -> Entry:
        return {name: self._shown.text(text) for name, text in texts.items()}

    # --- runs and steps ---------------------------------------------------------------------------------

    def _start_run(self, event: RunStarted) -> None:
        self._began = perf_counter()
        self._run = {
            **self._said(workflow=event.workflow, pattern=event.pattern),
            "started": _now(),
            "outcome": "running",
        }

    def _finish_run(self, event: RunFinished) -> None:
        self._run |= {
            "outcome": event.outcome,
            "seconds": round(event.seconds, 6),
            "usage": _tokens(event.usage),
            **self._failed(event.error),
        }

    def _notice(self, event: RunNoticed) -> None:
        told = {"at": self._seconds(), "text": self._shown.reason(event.text), **self._said(step=event.step)}
        self._add(self._notices, told)

    def _start_step(self, event: StepStarted) -> None:
        said = self._said(key=event.step, title=event.title, agent=event.agent, model=event.model)
        entry = {**said, "at": self._seconds(), "models": [], "retries": [], "compactions": [], "tools": []}
        self._open[event.step] = self._add(self._steps, entry)

    def _finish_step(self, event: StepFinished) -> None:
        self._usage += event.usage
        self._models.forget(event.step)
        entry = self._open.pop(event.step, None)
        if entry is not None:
            entry |= {
                "seconds": round(event.seconds, 6),
                "usage": _tokens(event.usage),
                **self._failed(event.error),
            }

    def _failed(self, error: str) -> Entry:
        return {"error": self._shown.reason(error)} if error else {}

    def _compact(self, event: ContextCompacted) -> None:
        told = {"at": self._seconds(), "before": event.before, "after": event.after}
        self._add(self._below(event.step, "compactions"), told)

    def _start_model(self, event: ModelStarted) -> None:
        told = {**self._said(model=event.model), "at": self._seconds()}
        self._models.begin(event.step, self._add(self._below(event.step, "models"), told))

    def _retry_model(self, event: ModelRetried) -> None:
        told = {
            "at": self._seconds(),
            "attempt": event.attempt,
            "wait_seconds": event.wait_seconds,
            "reason": self._shown.reason(event.reason),
        }
        self._add(self._below(event.step, "retries"), told)

    def _finish_model(self, event: ModelFinished) -> None:
        entry = self._models.end(event.step)
        if entry is not None:
            entry |= {
                "seconds": round(event.seconds, 6),
                "usage": _tokens(event.usage),
                **self._said(stop_reason=event.stop_reason),
                **self._failed(event.error),
            }

    # --- tools ------------------------------------------------------------------------------------------

    def _start_tool(self, event: ToolStarted) -> None:
        outer = self._tools.innermost()
        entries = self._below(event.step, "tools") if outer is None else outer.setdefault("tools", [])
        said = self._said(id=event.tool_id, version=event.version, call_id=event.call_id)
        entry = self._add(entries, {**said, "at": self._seconds()})
        self._keep(entry, "inputs", self._shown.inputs(event.arguments))
        self._tools.begin(event, entry)

    def _finish_tool(self, event: ToolFinished) -> None:
        entry = self._tools.end(event)
        if entry is None:
            return
        entry |= {"seconds": round(event.seconds, 6), "size": event.output_size, "code": None}
        if event.code is not None:
            entry["code"] = self._shown.text(event.code)
        self._keep(entry, "outputs", self._shown.outputs(event.content, event.output_size))

    def _keep(self, entry: Entry, name: str, encoded: str | None) -> None:
        """A value as it is; of one that is too long, the beginning of its JSON as text."""
        if encoded is None:
            return
        kept = encoded[:LONGEST_VALUE]
        if len(kept) > self._room_for_characters:
            kept = ""
        self._room_for_characters -= len(kept)
        self._cut["characters"] += len(encoded) - len(kept)
        entry[name] = json.loads(encoded) if kept == encoded else f"{kept}…"


def _tokens(usage: Usage) -> dict[str, int]:
    return {name: getattr(usage, name) for name in usage.__struct_fields__}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
