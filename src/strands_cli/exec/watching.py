"""`RowEvents`: the events of a run in another process, made from the rows of its journal.

A watcher reads the rows that have changed every few hundred milliseconds. The events are those that a
listener in the process of the run gets, so the same display shows both. Rows do not have streamed text, the
progress and stderr of a tool, the calls that a tool makes, and calls that were cut short.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from strands_cli.events import (
    ContextCompacted,
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
)
from strands_cli.exec.history import (
    Answered,
    Asked,
    Called,
    Compacted,
    Noticed,
    Retried,
    RunHead,
    RunHistory,
    RunStatus,
    Sent,
    StepEntry,
    StepView,
    Summarised,
)
from strands_cli.secrets import URL_CREDENTIALS
from strands_cli.toolkit.values import encoded_size
from strands_cli.types.run_results import Usage

_ATTEMPT = re.compile(r".+/tried/\d+")
_OUTER = ("each", "workflow")
"""The kinds of steps that have inner steps."""


class _End(msgspec.Struct):
    """The rows `result` and `failed` of a step."""

    at: float = 0.0
    seconds: float | None = None
    usage: Usage | None = None
    error: str = ""
    code: str = ""


class RowEvents:
    """Calls a listener with the events of one run.

    If a run goes on after it has paused or failed, it starts again, and so do its unfinished steps.
    """

    def __init__(self, listener: Listener) -> None:
        self._emit = listener
        self._history, self._head = RunHistory(), RunHead()
        self._is_running = False
        self._began: dict[str, float] = {}
        """The running steps, and when they began."""
        self._calls: set[tuple[str, str]] = set()
        """The steps and ids of the running calls."""
        self._asked: dict[str, float] = {}
        """The steps whose last row is a question, and when they asked."""
        self._lengths: dict[str, int] = {}
        """The number of messages in the conversation of each step."""
        self._errors: set[str] = set()
        self._early: dict[str, Noticed] = {}
        """Notices that were written before the row `begun` of their step."""
        self._written: list[str] = []
        """Artifacts to report when the run has ended."""
        self._reported: set[tuple[str, ...]] = set()
        """Notices and artifacts, which a resumed run writes again."""

    def add(self, key: str, value: Any) -> None:
        self.add_all({key: value})

    def add_all(self, rows: Mapping[str, Any]) -> None:
        """Adds rows that were read together, in the order in which they changed.

        The status comes last: the rows of one transaction are in the order in which they were first put, and
        the final status may have replaced an earlier one.
        """
        for key in sorted(rows, key=lambda key: key != "head"):  # a changed workflow has a new one
            self._add_row(key, rows)
        for key, at in self._asked.items():
            self._finish(self._history.steps[key], at, waiting=True)
        if (status := rows.get("status")) is not None:
            self._change_status(msgspec.convert(status, RunStatus))
        if not self._is_running:
            self._report_artifacts()

    def _add_row(self, key: str, rows: Mapping[str, Any]) -> None:
        step, entry = self._history.add(key, rows[key])  # SessionError if it is damaged
        if isinstance(entry, Noticed):
            self._notice(key, entry, step)
        elif step is None:
            self._add_to_run(key, rows[key])
        elif not _ATTEMPT.fullmatch(step.key):
            self._add_to(step, key, entry, rows)
        if step is not None:  # the history needs only the questions
            step.entries[:] = [one for one in step.entries if isinstance(one, Asked)]

    # --- the run ----------------------------------------------------------------------------------------

    def _add_to_run(self, key: str, value: Any) -> None:
        if key == "head":
            self._head = msgspec.convert(value, RunHead)
            self._start_run()
        elif key == "artifacts":
            self._written += [path for path, digest in value.items() if self._is_new(path, digest)]

    def _start_run(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._errors.clear()
            self._emit(RunStarted(self._head.name, self._head.pattern))

    def _change_status(self, status: RunStatus) -> None:
        match status.status:
            case "done" | "failed" | "budget" | "paused" | "interrupted" as outcome:
                if not self._is_running:
                    return
                is_paused = outcome == "paused"  # then all steps that do not wait have ended
                for key in [*self._began]:
                    self._finish(
                        self._history.steps[key], status.updated, waiting=is_paused, stopped=not is_paused
                    )
                self._emit(RunFinished(outcome, status.seconds, status.usage, status.error))
                self._is_running = False
            case _:
                self._start_run()

    def _report_artifacts(self) -> None:
        """As notices, since their sizes are not recorded."""
        out = str(self._head.options.get("out", ""))
        root = PurePath(self._head.directory, out)
        for path in map(PurePath, self._written):
            shown = PurePath(out, path.relative_to(root)) if path.is_relative_to(root) else path
            self._emit(RunNoticed(f"wrote {shown}"))
        self._written.clear()

    def _notice(self, key: str, notice: Noticed, step: StepView | None) -> None:
        if not self._is_new(key, notice.text, notice.step):
            return
        is_of_step = notice.step != "" and not notice.step.endswith("/")  # or of an inner workflow
        if step is None and is_of_step:
            self._early[notice.step] = notice
        else:
            self._emit(RunNoticed(notice.text, notice.step))

    def _is_new(self, *fact: str) -> bool:
        is_new = fact not in self._reported
        self._reported.add(fact)
        return is_new

    # --- a step -----------------------------------------------------------------------------------------

    def _add_to(self, step: StepView, key: str, entry: StepEntry | None, rows: Mapping[str, Any]) -> None:
        self._asked.pop(step.key, None)
        if entry is None:
            self._begin_or_end(step, key, rows)
            return
        if key.endswith("/answer"):  # a worker has yet to go on with it
            return
        self._start(step, entry.at)
        match entry:
            case Asked():
                self._asked[step.key] = entry.at
            case Sent():
                self._lengths[step.key] += 1
            case Answered():
                self._finish_request(step, entry)
            case Retried():
                self._emit(ModelRetried(step.key, entry.attempt, entry.wait_seconds, entry.reason))
                # No row tells when the next attempt starts, and a display would show its countdown too long.
                self._emit(ModelStarted(step.key, step.model))
            case Called():
                self._finish_call(step, entry)
            case Compacted():
                before, after = self._lengths[step.key], len(entry.messages)
                self._lengths[step.key] = after
                if after < before:  # the model has written a summary
                    self._emit(ContextCompacted(step.key, before, after))

    def _begin_or_end(self, step: StepView, key: str, rows: Mapping[str, Any]) -> None:
        if key.endswith("/begun"):
            step.status, step.usage = "running", Usage()
            self._lengths[step.key] = self._lengths.get(step.continues, 0)
            self._start(step, step.at)
            return
        if not step.kind:  # it failed, and its rows were set aside before they could be read
            found = ((re.fullmatch(rf"{re.escape(step.key)}/tried/\d+/(.+)", one), one) for one in rows)
            tried = {f"{step.key}/{match[1]}": rows[one] for match, one in found if match}
            for name in tried:
                self._add_row(name, tried)
        end = msgspec.convert(rows[key], _End)
        self._start(step, end.at - (end.seconds or 0.0))
        if key.endswith("/result"):
            step.status, step.usage = "done", end.usage or step.usage
            self._lengths[step.key] += self._lengths[step.key] % 2  # the last message is an answer
        elif (step.key, step.key) in self._calls and end.error.startswith(f"{step.agent}: "):
            # A tool step does not record a call that failed.
            why = [{"text": end.error.removeprefix(f"{step.agent}: ")}]
            self._finish_call(step, Called(tool=step.agent, code=end.code, result={"content": why}))
        # These kinds fail with the error of another step, or when the budget of the run is used up.
        is_stopped = step.kind in (*_OUTER, "human") and (end.code == "budget" or end.error in self._errors)
        self._errors |= {end.error} - {""}
        self._finish(step, end.at, seconds=end.seconds, error=end.error, stopped=is_stopped)

    def _start(self, step: StepView, at: float) -> None:
        """Starts a step and its outer steps, unless they are running."""
        if step.key in self._began:
            return
        self._start_run()
        parts = step.key.split("/")
        above = ("/".join(parts[:length]) for length in range(1, len(parts)))
        for outer in filter(None, map(self._history.steps.get, above)):
            if outer.kind in _OUTER and outer.status != "done":
                self._start(outer, at)
        self._began[step.key] = at
        self._lengths.setdefault(step.key, 0)
        self._emit(StepStarted(step.key, step.title, step.agent, step.model))
        if early := self._early.pop(step.key, None):
            self._emit(RunNoticed(early.text, early.step))
        if step.kind == "tool":
            self._start_call(step, step.key, step.agent, msgspec.json.decode(step.input))

    def _finish(
        self,
        step: StepView,
        at: float,
        *,
        seconds: float | None = None,
        error: str = "",
        waiting: bool = False,
        stopped: bool = False,
    ) -> None:
        """Finishes a running step, and before it the inner steps that have not finished."""
        if (began := self._began.pop(step.key, None)) is None:
            return
        for key in [key for key in self._began if key.startswith(f"{step.key}/")]:
            self._finish(self._history.steps[key], at, waiting=waiting, stopped=not waiting)
        self._calls = {call for call in self._calls if call[0] != step.key}
        seconds = max(at - began, 0.0) if seconds is None else seconds
        self._emit(
            StepFinished(step.key, step.title, step.agent, seconds, step.usage, error, waiting, stopped)
        )

    # --- requests and calls -----------------------------------------------------------------------------

    def _finish_request(self, step: StepView, answer: Answered) -> None:
        step.usage += answer.usage
        self._emit(ModelFinished(step.key, answer.model, answer.seconds, answer.usage, answer.stop_reason))
        if isinstance(answer, Summarised):
            return
        uses = [block["toolUse"] for block in answer.message["content"] if "toolUse" in block]
        self._lengths[step.key] += 2 if uses else 1  # the results of all calls are one message
        for use in uses:
            self._start_call(step, use["toolUseId"], use["name"], use["input"])

    def _start_call(self, step: StepView, call_id: str, tool: str, arguments: Any) -> None:
        self._calls.add((step.key, call_id))
        self._emit(URL_CREDENTIALS.value(ToolStarted(tool, "", call_id, arguments, step.key)))

    def _finish_call(self, step: StepView, call: Called) -> None:
        call_id = step.key if step.kind == "tool" else call.result["toolUseId"]
        if (step.key, call_id) not in self._calls:
            self._start_call(step, call_id, call.tool, call.arguments)
        self._calls.discard((step.key, call_id))
        size, content = encoded_size(call.result), call.result["content"]
        self._emit(
            ToolFinished(call.tool, call.version, call_id, call.seconds, size, call.code, content, step.key)
        )
