"""Steps without a model: a call of a tool, another workflow, and a step for each item of a list."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from time import perf_counter, time
from typing import Any, cast

import msgspec

from strands_cli.documents.problems import describe_value, follow_path, json_pointer
from strands_cli.errors import Interrupted, RunError, SpecError, ToolFailed
from strands_cli.events import StepRestored, StepStarted
from strands_cli.exec.accounts import StepMeter
from strands_cli.exec.step_rows import StepRows, begun_row
from strands_cli.exec.steps import Run
from strands_cli.loader.run_values import resolve_inputs, typed_variables
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import (
    MAX_ITEMS,
    AnyStep,
    HumanStep,
    ToolStep,
    WorkflowStep,
    foreach_of,
    value_text,
)
from strands_cli.patterns.scope import alias_values, artifact_aliases, known_aliases
from strands_cli.runtime.agent_hooks import PendingCall, call_key
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.strands_adapter import AgentAnswer, AgentRequest, call_context
from strands_cli.runtime.structured import canonical_json
from strands_cli.toolkit.call import call_tool, prepare_arguments
from strands_cli.toolkit.context import CallContext, InterruptRequested, uncapped, workspace_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.effects import protected_writes
from strands_cli.toolkit.results import CODES, ToolResult, error_of
from strands_cli.toolkit.values import encoded_size, value_of_result
from strands_cli.toolkit.workspace import protected_refusal
from strands_cli.types import RunResult, StepResult
from strands_cli.types.run_results import detailed_result

MAX_ANSWER_BYTES = 10_000_000
"""The limit for the answer of a tool step; templates have the same one."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999; dates have no more."""
_FIRST_CALL = "1/0"
"""The name of a tool step's only call, in the form `turn/place` that agents' calls have."""


# --- a tool -----------------------------------------------------------------------------------------------


async def call_step(
    run: Run, key: str, step: ToolStep, *, title: str, names: Mapping[str, Any], turn: int
) -> StepResult:
    """Calls a tool with the checks of an agent's call: input schema, consent and workspace."""
    run.check()
    run.ledger.begin_step()
    tool = run.resources.tools.for_step(step.tool)
    one = _ToolCall(run, key, title, tool)

    @cache
    def arguments() -> dict[str, Any]:
        return _fitting_arguments(run, step, tool, names, run.pointer(key, "arguments"))

    def begin() -> dict[str, Any]:
        given = run.redactor.value(arguments())
        return begun_row("tool", title, tool.id, canonical_json(given), turn, tool.version)

    if (restored := run.restored(one.rows, step.id, turn, begin)) is not None:
        return restored

    async def call() -> AgentAnswer:
        one.rows.begin(begin())
        # In a task of its own, as every step.
        return _answer_of(await asyncio.ensure_future(one.result(arguments())), tool, key)

    async with run.slot():
        run.check()
        started = StepStarted(key, title, tool.id)
        try:
            return await run.perform(started, call(), one.meter, one.rows, own_id=step.id, turn=turn)
        except RunError:
            run.judge_refusals(key, title, one.meter)
            raise


def _fitting_arguments(
    run: Run, step: ToolStep, tool: Tool, names: Mapping[str, Any], at: str
) -> dict[str, Any]:
    """The rendered arguments. A single `{{ … }}` keeps its type, unless the tool accepts only text."""
    values: dict[str, Any] = run.render_values(step.arguments, names, at)
    for problem in tool.accepted_input.problems(values):
        reached, written = follow_path(step.arguments, problem.path)
        is_text = problem.keyword == "type" and tuple(problem.facts.get("types", ())) == ("string",)
        if is_text and reached == problem.path and isinstance(written, str):
            holder: Any = follow_path(values, problem.path[:-1])[1]
            holder[problem.path[-1]] = run.render(written, names, at + problem.pointer)
    return values


class _ToolCall:
    """The only call of a tool step."""

    def __init__(self, run: Run, key: str, title: str, tool: Tool) -> None:
        self._run, self._key, self._title, self._tool = run, key, title, tool
        self.rows, self.meter = StepRows(run, key, title), StepMeter(run.emit, run.ledger)
        self._id = f"{key}/{_FIRST_CALL}"

    async def result(self, arguments: dict[str, Any]) -> ToolResult:
        """The result, from the journal if it is there. A failed call is not recorded, so it is made again."""
        row, tool = f"tool/{_FIRST_CALL}", self._tool
        if (known := self.rows.get(row)) is not None:
            return cast(ToolResult, known["result"])
        began = time()
        context = await self._context(arguments)
        result = await _call_with_answers(self.rows, tool, self._id, arguments, context)
        if error_of(result) is None:
            kept = {"tool": tool.id, "version": tool.version, "arguments": arguments, "result": result}
            self.rows.put(row, {"at": began, "seconds": time() - began, **kept, "code": None})
        return result

    async def _context(self, arguments: dict[str, Any]) -> CallContext:
        """The same context as for an agent's call. Asks for consent first, since that may end the run."""
        run, tool, ask = self._run, self._tool, self.rows.consent_function(self.meter)
        request = AgentRequest(
            agent="",
            prompt="",
            model="",
            step=self._key,
            title=self._title,
            emit=self.meter,
            ask_consent=ask,
            log=self.rows,
            report_refusal=self.meter.refuse,
        )
        base = call_context(run.resources, request)
        key = call_key(base, _FIRST_CALL, tool, arguments)
        base = uncapped(msgspec.structs.replace(base, key=key))
        if ask is None:
            return base
        granted, pending = True, _pending_call(tool, self._id, arguments, base)
        if pending is not None:
            granted = self._id in await self.rows.consent("consent/1", [pending])

        async def permit(judged: Tool, given: dict[str, Any], protected: tuple[str, ...] = ()) -> None:
            agreed = granted
            # A tool that this tool calls, or a link that was created in the meantime.
            if judged is not tool or not set(protected) <= set(pending.protected if pending else ()):
                other = PendingCall(self._id, judged, given, protected)
                needs = judged.requires_consent or protected
                agreed = not needs or self._id in await ask([other])
            if not agreed and protected:
                raise protected_refusal(protected)
            if not agreed:
                raise ToolFailed(f"The user refused the call to {judged.id}", code="denied")
            if base.permit is not None:
                await base.permit(judged, given)

        return msgspec.structs.replace(base, permit=permit, permit_protected=permit)


def _pending_call(
    tool: Tool, call_id: str, arguments: dict[str, Any], context: CallContext
) -> PendingCall | None:
    """The call if it needs consent; None also if its input is invalid, so it will fail anyway."""
    try:
        prepared = prepare_arguments(tool, {"input": arguments})
    except ToolFailed:
        return None  # the call will report it
    shown = tuple(workspace_of(context).display(path) for path in protected_writes(tool, prepared, context))
    return PendingCall(call_id, tool, prepared, shown) if tool.requires_consent or shown else None


async def _call_with_answers(
    rows: StepRows, tool: Tool, call_id: str, arguments: dict[str, Any], context: CallContext
) -> ToolResult:
    """The result of a call. If the tool asks a person, the call is made again with the answers so far."""
    answers: list[str] = []
    while True:
        given = iter(answers)

        def interrupt(name: str, reason: Any) -> str:
            for answer in given:  # noqa: B023 - the call ends before the next round
                return answer
            raise InterruptRequested(name, reason)

        asking = msgspec.structs.replace(context, interrupt=interrupt)
        try:
            return await call_tool(tool, {"toolUseId": call_id, "name": tool.id, "input": arguments}, asking)
        except InterruptRequested as asked:
            question = str(asked.reason or asked.name)
            answers.append(await rows.ask(f"{len(answers) + 1}", question))


def _answer_of(result: ToolResult, tool: Tool, key: str) -> AgentAnswer:
    """The value of a result, and the same as text. RunError with the tool's code if the call failed."""
    error = error_of(result)
    if error is not None and error["code"] == "cancelled":
        raise Interrupted("Stopped before the tool had answered.")
    if error is not None:
        failed = RunError(f"{tool.id}: {error['message']}", hint=str(error.get("hint") or ""), step=key)
        failed.code = error["code"] if error["code"] in CODES else "failed"
        raise failed
    if (size := encoded_size(result)) > MAX_ANSWER_BYTES:
        raise RunError(
            f"{tool.id} answered with {size} bytes; the limit of a step is {MAX_ANSWER_BYTES}.",
            hint="Request less data, or let the tool write a file.",
            step=key,
        )
    blocks = [
        block if block.keys() & {"text", "json"} else {"text": f"({next(iter(block))})"}
        for block in result["content"]
    ]
    value = value_of_result({**result, "content": blocks}, tool)
    return AgentAnswer(value if isinstance(value, str) else _json_text(value), value)


def _json_text(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


# --- each item --------------------------------------------------------------------------------------------


async def do_each(
    run: Run, key: str, step: AnyStep, *, title: str, names: Mapping[str, Any], turn: int, **more: Any
) -> StepResult:
    """Runs a step for each item of its `foreach`; the results are in the order of the items.

    Each item is a step of its own, which looks for its result in the journal.
    """
    assert not isinstance(step, HumanStep)
    run.check()
    rows, one = StepRows(run, key, title), msgspec.structs.replace(step, foreach=None)
    items = _items_of(run, key, step.foreach, names)
    more |= {"conversation": ""}  # items run at the same time

    async def work() -> AgentAnswer:
        begin_again(rows, begun_row("each", title, "", _json_text(run.redactor.value(items)), turn))

        async def item_step(index: int, item: Any) -> StepResult:
            seen = {**names, "item": item, "index": index}
            about = f"{title} {index + 1}/{len(items)}"
            own = {**more, "default_input": more.get("default_input") or value_text(item)}
            return await run.do(f"{key}/each/{index}", one, title=about, names=seen, turn=turn, **own)

        results = await run.together([item_step(index, item) for index, item in enumerate(items)])
        outputs = [result.response if result.output is None else result.output for result in results]
        return AgentAnswer("\n\n".join(result.response for result in results), outputs)

    return await _with_parts(run, StepStarted(key, title, ""), work(), rows, own_id=step.id, turn=turn)


def _items_of(run: Run, key: str, written: Any, names: Mapping[str, Any]) -> list[Any]:
    at = run.pointer(key, "foreach")
    items = run.render_values(written, names, at)
    reason = ""
    if not isinstance(items, list):
        reason, hint = f"'foreach' needs a list, got {describe_value(items)}.", "Give it a list."
    elif len(items) > MAX_ITEMS:
        reason = f"'foreach' has {len(items)} items; the limit is {MAX_ITEMS}."
        hint = "Give it fewer: several at a time, such as with {{ list | batch(10) | list }}."
    if reason:
        raise RunError(f"{run.spec.issue(at, reason).place}: {reason}", hint=hint, step=key)
    return list(items)


async def _with_parts(
    run: Run, started: StepStarted, work: Awaitable[AgentAnswer], rows: StepRows, *, own_id: str, turn: int
) -> StepResult:
    """The result of a step that contains other steps, which look for their own results in the journal."""
    meter, before = StepMeter(run.emit, run.ledger), rows.result()
    if before is not None:
        answer = await work
        if (answer.text, answer.output) == (before.response, before.output):
            run.emit(StepRestored(rows.key, rows.title, before.agent, before.usage))
            kept = msgspec.structs.replace(before, id=own_id or rows.title)
            return run.keep_result(kept, rows.title, turn)
        work = _ready(answer)
    return await run.perform(started, work, meter, rows, own_id=own_id, turn=turn)


async def _ready(answer: AgentAnswer) -> AgentAnswer:
    return answer


def begin_again(rows: StepRows, row: dict[str, Any]) -> None:
    """Records the start of a step that always runs again; its inner steps are answered from the journal."""
    before = rows.get("begun")
    if before is None or before["fingerprint"] != row["fingerprint"]:
        rows.put("begun", {"at": time(), **row})


# --- a workflow -------------------------------------------------------------------------------------------


async def run_workflow(
    run: Run, key: str, step: WorkflowStep, *, title: str, names: Mapping[str, Any], turn: int
) -> StepResult:
    """Runs another workflow inside this run. Its steps look for their own results in the journal."""
    run.check()
    spec = run.spec.workflows[step.workflow]
    assert isinstance(spec, Spec)
    rows, started = StepRows(run, key, title), StepStarted(key, title, spec.name)

    async def work() -> AgentAnswer:
        inputs = _inner_inputs(run, key, step, spec, names)
        shown = run.redactor.value(inputs)
        begin_again(rows, begun_row("workflow", title, spec.name, canonical_json(shown), turn))
        tools = run.resources.tools.workflows[step.workflow].renewed()
        resources = run.resources.inner(spec, tools, inputs)
        resources.load_tools()
        inner = InnerRun(run, resources, rows)
        async with inner.in_time():
            try:
                last = await spec.pattern.run(inner)
            finally:
                run.results |= {result.key: result for result in inner.result(None).steps}
        return AgentAnswer(last.response, last.output)

    return await _with_parts(run, started, work(), rows, own_id=step.id, turn=turn)


def _inner_inputs(
    run: Run, key: str, step: WorkflowStep, spec: Spec, names: Mapping[str, Any]
) -> dict[str, Any]:
    at = run.pointer(key, "inputs")
    given = run.render_values(step.inputs, names, at)
    for name, written in step.inputs.items():
        declared = spec.inputs.declared.get(name)
        if declared and declared.type == "string" and isinstance(written, str):
            given[name] = run.render(written, names, f"{at}{json_pointer((name,))}")
    given = typed_variables(given, spec.inputs.declared)
    try:
        return resolve_inputs(spec, given)
    except SpecError as error:
        place = run.spec.issue(at, error.message).place
        raise RunError(f"{place}: {error.message}", hint="Give another value.", step=key) from None


class AnyRun(Run):
    """A run with steps of all kinds, and with the names that other runners have in templates."""

    _answered = (0.0, "")
    """The latest answer of a human, and when it was given."""

    def scope(self, names: Mapping[str, Any]) -> dict[str, Any]:
        aliases = alias_values(names, lambda key: self.results.get(self.prefix + key))
        if self.spec.asks_humans:
            aliases["hitl_response"] = self._answered[1]
        return {**aliases, **super().scope(names)}

    def result(self, last: StepResult | None) -> RunResult:
        result = super().result(last)
        head = self.journal.get("head") if self.journal else None
        began = min((head or {}).get("created") or time() - result.duration, _LATEST)  # it may be imported
        aliases = {
            **self.redactor.value(known_aliases(self.spec)),
            **artifact_aliases(self.spec, self.names, result.steps, last),
            "hitl_response": self._answered[1],
            "timestamp": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
        }
        if last is not None:
            aliases["cumulative_tokens"] = result.usage.total_tokens
            aliases["execution_context"] = {**aliases, **self.names}
        return msgspec.structs.replace(result, scope={**aliases, **result.scope})

    async def ask_human(
        self, key: str, step: HumanStep, *, title: str, names: Mapping[str, Any], **more: Any
    ) -> StepResult:
        result = await super().ask_human(key, step, title=title, names=names, **more)
        place = more.get("input_at") or self.pointer(key, "human/prompt")
        asked = self.redactor.text(self.render(step.prompt, names, place))
        # In a resumed run the answers come in the order of the file, not in the order of time.
        row = StepRows(self, key, title).get("result")
        self._answered = max(self._answered, (row["at"] if row else time(), result.response))
        return detailed_result(result, prompt=asked)

    async def do(
        self, key: str, step: AnyStep, *, title: str, names: Mapping[str, Any], turn: int = 0, **more: Any
    ) -> StepResult:
        if foreach_of(step) is not None:
            return await do_each(self, key, step, title=title, names=names, turn=turn, **more)
        if isinstance(step, ToolStep):
            return await call_step(self, key, step, title=title, names=names, turn=turn)
        if isinstance(step, WorkflowStep):
            return await run_workflow(self, key, step, title=title, names=names, turn=turn)
        return await super().do(key, step, title=title, names=names, turn=turn, **more)


def _seconds_in(row: Any) -> float:
    """How long an inner workflow worked before the resume. The row may be imported, so it is checked."""
    seconds = row.get("seconds") if isinstance(row, dict) else None
    return seconds if isinstance(seconds, int | float) and seconds >= 0 else 0.0


class InnerRun(AnyRun):
    """The run of an inner workflow. Keys and titles of its steps begin with those of the outer step."""

    def __init__(self, outer: Run, resources: RunResources, rows: StepRows) -> None:
        """`rows` are those of the step that runs it."""
        super().__init__(resources, outer.options, outer.journal, outer)
        self.prefix, self._title, self._notices_to = f"{rows.key}/workflow/", rows.title, outer
        self._rows = rows
        # One that is done is read again, which takes a moment.
        self.earlier_seconds = _seconds_in(rows.get("spent")) if rows.result() is None else 0.0

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Enforces the inner workflow's own `max_duration_s`, within that of the outer run."""
        seconds = self.spec.runtime.budgets.max_duration_s
        if seconds is None:
            yield
            return
        left = max(seconds - self.earlier_seconds, 0.0)
        timer = asyncio.get_running_loop().call_later(left, self.ledger.end_time)
        try:
            yield
        finally:
            timer.cancel()
            self._record_progress()

    def _record_progress(self, **more: Any) -> None:
        if self.spec.runtime.budgets.max_duration_s is not None:
            self._rows.put("spent", {"seconds": self.earlier_seconds + perf_counter() - self._started})
        super()._record_progress(**more)

    async def step(self, key: str, step: AnyStep, *, title: str, **more: Any) -> StepResult:
        return await super().step(key, step, title=f"{self._title}: {title}", **more)

    def notice(self, text: str, step: str = "") -> None:
        self._notices_to.notice(text, self.prefix + step)

    def holds(self, condition: str, names: Mapping[str, Any], *, pointer: str, step: str) -> bool:
        return super().holds(condition, names, pointer=pointer, step=self.prefix + step)
