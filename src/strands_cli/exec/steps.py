"""`Run`: the state that the steps of a run share, and how one step, one question and many steps are run."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from strands_cli.errors import BudgetExceeded, Interrupted, Paused, RunError, StrandsError
from strands_cli.events import Listener, RunNoticed, StepFinished, StepRestored, StepStarted
from strands_cli.exec.accounts import Emitter, Ledger, StepMeter
from strands_cli.exec.step_rows import StepRows, Talk, all_results, begun_row, fingerprint, rows_by_step
from strands_cli.exec.stores import new_run_id
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import AnyStep, HumanStep, Step, Steps
from strands_cli.runtime.agent_hooks import AskConsent, PendingCall
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.strands_adapter import AgentAnswer, AgentRequest, StepAgent
from strands_cli.runtime.structured import input_problem
from strands_cli.templates import render, render_values
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult, StepResult
from strands_cli.types.run_results import StepList

if TYPE_CHECKING:
    from strands_cli.exec.journal import Journal
    from strands_cli.exec.ownership import TakenRun
    from strands_cli.exec.stores import Store
    from strands_cli.runtime.resources import Model

T = TypeVar("T")

_CLEANUP_SECONDS = 1.0
"""How long `ask_human` and `ask_consent` may take to remove their question after a cancellation."""
_ITEM_OR_VISIT = re.compile(r"/each/\d+|#\d+")
_VISIT = re.compile(r"#(\d+)")
_INNER_WORKFLOW = re.compile(r"(?<!^routes)(?<!^nodes)/workflow/")
"""In a key, separates a step from the steps of its inner workflow; a route or node may be named workflow."""
_NOTHING_TO_DO = "Begin."
"""The prompt for an agent whose step has no input and no step before it."""

AskHuman = Callable[[str], Awaitable[str]]
"""Asks a human; raises Interrupted if nobody will answer."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run."""

    listeners: Sequence[Listener] = ()
    directory: Path = Path()
    """The directory for artifacts and notes."""
    force: bool = False
    """Whether artifacts may replace existing files."""
    trace: bool = False
    """Whether to write a trace of the run next to its artifacts."""
    ask_human: AskHuman | None = None
    ask_consent: AskConsent | None = None
    """Asks for consent to calls that need it. Without it, such calls are refused."""
    workspace: Path | None = None
    """The only workspace of the tools, in place of those of the workflow and the settings."""
    allow_write: Sequence[Path] = ()
    """Protected paths, such as `.github`, that tools and artifacts may write."""
    cancel: Cancellation | None = None
    """Set it to cancel the run."""
    model: "Model | None" = None
    """An SDK model that replaces every provider, such as `testing.ScriptedModel`."""
    store: "Store | None" = None
    """Where the run is saved. Without a store, the run cannot be resumed."""
    new_id: str = ""
    """The id of a new run; by default 8 letters and digits."""
    resume: str = ""
    """The id of a run in the store, to resume it."""
    rows: Mapping[str, Any] = {}
    """Rows to put into the journal before the run begins, such as the answers to its questions."""
    accept_changes: bool = False
    """Whether a resumed run uses the changed workflow file and repeats the steps that it affects."""
    take_over: bool = False
    """Whether to resume a run that another process is working on; that process can then no longer write."""
    taken: "TakenRun | None" = None
    """The run to resume, if the caller has taken it already."""
    on_row: Callable[[str, Any], None] | None = None
    """Called with the key and the value of each row of the journal when it is written."""
    record: Path | None = None
    """A file to record all model requests and answers in, written when the run ends."""
    replay: Path | None = None
    """A recording that answers instead of all models. RunError if a request differs from the recorded one."""
    replay_ignore: Sequence[str] = ()
    """The tools whose results may differ from the recorded ones."""


DEFAULTS = RunOptions()


class AgentWork(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an agent; see `patterns.pattern.StepRunner.step`."""

    key: str
    step: Step
    title: str
    names: Mapping[str, Any]
    turn: int = 0
    input: str | None = None
    input_at: str = ""
    default_input: str = ""
    schema: dict[str, Any] | None = None
    max_retries: int | None = None
    instructions: str = ""
    conversation: str = ""


class Run:
    """One run. Patterns use only the methods of `patterns.pattern.StepRunner`."""

    prefix = ""
    """The beginning of the keys of all its steps."""

    def __init__(
        self,
        resources: RunResources,
        options: RunOptions,
        journal: "Journal | None" = None,
        outer: "Run | None" = None,
    ) -> None:
        """`outer` is the run that this one is a step of; they share events, budgets and their end."""
        self.resources = resources
        self.journal = journal
        self.id: str = outer.id if outer else journal.run if journal else new_run_id()
        self.options = options
        self.spec: Spec = resources.spec
        self.inputs = resources.inputs
        self.redactor = resources.redactor
        self.cancel = resources.cancel
        self._outer = outer
        self._stopped_by: StrandsError | None = None
        self.names: dict[str, Any] = {}
        """The names that the pattern has defined so far, for the templates of artifacts."""
        self.results: dict[str, StepResult] = {}
        self.titles: dict[str, str] = {}
        """The titles of the steps that have begun, by their keys."""
        self.done_without: list[str] = []
        """Messages about calls that were refused without consent and that agents did not need."""
        before = outer.ledger if outer else None
        self.ledger: Ledger = Ledger(self.spec.runtime.budgets, self.stop, self.notice, before)
        self._rounds: dict[str, int] = {}
        self.emit = Emitter(options.listeners, resources.redactor)
        self._own_slots = asyncio.Semaphore(self.spec.runtime.max_parallel)
        self._started = perf_counter()
        self.earlier_seconds = 0.0
        """How long the run worked before it was resumed."""
        if journal is not None and outer is None:
            self.earlier_seconds = (journal.get("status") or {}).get("seconds") or 0.0
            journal.on_failure = self.stop
        self._talks: dict[tuple[str, str], Talk] = {}
        self._notices = 0
        self._unchecked: set[tuple[str, str]] = outer._unchecked if outer else set()
        self._restorable: dict[str, list[tuple[str, Any]]] | None = None
        if outer is not None:
            self.emit, self.titles, self.done_without = outer.emit, outer.titles, outer.done_without
        elif options.cancel is not None:
            options.cancel.add_callback(self.interrupt)

    def notice(self, text: str, step: str = "") -> None:
        self.emit(RunNoticed(text, step))
        if self.journal is not None:
            self._notices += 1  # those of a resumed run are the same again
            self.journal.put(f"notices/{self._notices}", {"at": time(), "text": text, "step": step})

    # --- ending -----------------------------------------------------------------------------------------

    @property
    def stopped_by(self) -> StrandsError | None:
        return self._outer.stopped_by if self._outer else self._stopped_by

    def stop(self, reason: StrandsError) -> None:
        """Stops the run cleanly, from any thread: running steps are cancelled, and no new step begins."""
        if self._outer is not None:
            self._outer.stop(reason)
        elif self._stopped_by is None:
            self._stopped_by = reason
        self.cancel.set()

    def interrupt(self) -> None:
        self.stop(Interrupted("Interrupted."))

    def fail(self, error: BaseException) -> None:
        """Sets aside the rows of a failed step if its answer was invalid or withheld.

        A resumed run would otherwise reuse that answer and fail again. After a provider outage the rows are
        still good, so they are kept.
        """
        if isinstance(error, RunError) and not isinstance(error, BudgetExceeded):
            rows = StepRows(self, error.step, "")
            begun = rows.get("begun")
            # A finished step is kept, even if a condition after it failed; a reviewer's answer is not.
            if begun is not None and (begun["kind"] == "human" or rows.result() is None):
                rows.set_aside()

    def record_end(self, result: RunResult) -> None:
        """Records the answer and the cost of the run so far."""
        if self.journal is not None:
            answer = {"last_response": result.last_response, "output": result.output}
            done = [step.key for step in result.steps]
            self._record_progress(answer=answer, done=done, seconds=result.duration)

    def _record_progress(self, **more: Any) -> None:
        """Records the state of the run, for `strands runs` during the run and after a crash."""
        if self._outer is not None:
            self._outer._record_progress()
        elif self.journal is not None:
            before = self.journal.get("status") or {}
            seconds = self.earlier_seconds + perf_counter() - self._started
            spent = {"usage": self.ledger.usage, "seconds": seconds, "steps": len(self.results)}
            self.journal.put("status", {**before, **spent, **more})

    def close(self) -> None:
        """Unregisters from the caller's Cancellation, which may outlive the run."""
        if self.options.cancel is not None:
            self.options.cancel.remove_callback(self.interrupt)

    def _may_ask_model(self) -> bool:
        self.ledger.settle()
        return self.stopped_by is None

    def check(self) -> None:
        if self.stopped_by is not None:
            raise self.stopped_by

    def result(self, last: StepResult | None) -> RunResult:
        """The result so far; `last` is the answer of the pattern, if it got that far."""
        if last is not None:
            self.names["last_response"] = last.response
        inputs = self.redactor.value(self.inputs)
        return RunResult(
            name=self.spec.name,
            pattern=self.spec.pattern.kind,
            last_response=self.names.get("last_response", ""),
            output=last.output if last else None,
            steps=tuple(sorted(self.results.values(), key=self._place)),
            usage=self.ledger.usage,
            duration=self.earlier_seconds + perf_counter() - self._started,
            run_id=self.journal.run if self.journal else "",
            scope={**inputs, "inputs": inputs, **self.names},
        )

    def _place(self, result: StepResult) -> tuple[int, ...]:
        """The sort key of a result: the round of the pattern, then the place in the file."""
        key = result.key.removeprefix(self.prefix)
        own = _INNER_WORKFLOW.split(key, maxsplit=1)[0]
        _, line, column = self.spec.position(self.pointer(own, ""))
        visit = _VISIT.search(own)
        numbers = (int(part) for part in _VISIT.sub("", key).split("/") if part.isdigit())
        return (self._rounds.get(self.prefix + own, 0), line, column, int(visit[1] if visit else 1), *numbers)

    # --- templates --------------------------------------------------------------------------------------

    def scope(self, names: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.inputs, **names, "inputs": self.inputs}

    def render(self, text: str, names: Mapping[str, Any], pointer: str) -> str:
        return render(text, self.scope(names), spec=self.spec, pointer=pointer)

    def render_values(self, value: Any, names: Mapping[str, Any], pointer: str) -> Any:
        return render_values(value, self.scope(names), spec=self.spec, pointer=pointer)

    def pointer(self, key: str, part: str) -> str:
        """The JSON pointer to a part of a step; unlike the key, it has no number of a visit or an item."""
        return f"/pattern/config/{_ITEM_OR_VISIT.sub('', key.removeprefix(self.prefix))}/{part}"

    def holds(self, condition: str, names: Mapping[str, Any], *, pointer: str, step: str) -> bool:
        from strands_cli.conditions import ConditionError, condition_holds, parse_condition

        try:
            return condition_holds(parse_condition(condition), self.scope(names))
        except ConditionError as error:
            issue = self.spec.issue(pointer, error.message)
            raise RunError(f"{issue.place}: {error.message}", hint=error.hint, step=step) from error

    # --- one step ---------------------------------------------------------------------------------------

    async def step(
        self, key: str, step: AnyStep, *, title: str, names: Mapping[str, Any], turn: int = 0, **more: Any
    ) -> StepResult:
        """See `StepRunner.step`."""
        return await self.do(self.prefix + key, step, title=title, names=names, turn=turn, **more)

    async def do(
        self, key: str, step: AnyStep, *, title: str, names: Mapping[str, Any], turn: int = 0, **more: Any
    ) -> StepResult:
        """Runs an agent step or a human step by its full key; `step_kinds.AnyRun` adds the other kinds."""
        if isinstance(step, HumanStep):
            at = more.get("input_at", "")
            return await self.ask_human(key, step, title=title, names=names, turn=turn, input_at=at)
        assert isinstance(step, Step)
        return await self.ask_agent(
            AgentWork(key=key, step=step, title=title, names={**step.vars, **names}, turn=turn, **more)
        )

    async def ask_agent(self, work: AgentWork) -> StepResult:
        """Waits for a slot, renders the input, asks the agent and records the answer."""
        self.check()
        self.ledger.begin_step()
        key, agent, title = work.key, work.step.agent, work.title
        rows, talk = StepRows(self, key, title), self._talk(work.conversation, work.step)
        begin = partial(self._begun_agent, work, talk)
        if (restored := self.restored(rows, work.step.id, work.turn, begin, talk)) is not None:
            return restored
        model = str(self.resources.choice(agent))
        meter = StepMeter(self.emit, self.ledger, self.resources.tools.callable_ids, rows.keep_retry)

        async def ask() -> AgentAnswer:
            begun = begin()
            self._check_input(work, begun["input"])
            request = AgentRequest(
                agent=agent,
                prompt=begun["prompt"],
                model=model,
                step=key,
                title=title,
                emit=meter,
                tools=work.step.tools,
                schema=work.schema or self.spec.agents[agent].output_schema,
                max_retries=work.max_retries,
                ask_consent=rows.consent_function(meter),
                log=rows,
                spend=meter.spend,
                may_ask_model=self._may_ask_model if self.ledger.limits_models else None,
                report_refusal=meter.refuse,
            )
            before = [*talk.messages(self._rows_by_step())] if talk else None
            asked = StepAgent(self.resources, request, before)
            rows.begin({**begun, "prompt": asked.agent.system_prompt or ""})
            answer = await asyncio.ensure_future(asked.ask(begun["input"]))  # each step is a task of its own
            if talk:
                mark = fingerprint(begun["fingerprint"], self.redactor.text(answer.text))
                talk.go_on(key, asked.agent.messages, mark)
            return answer

        async with self.slot():
            self.check()
            started = StepStarted(key, title, agent, model)
            result = await self.perform(started, ask(), meter, rows, own_id=work.step.id, turn=work.turn)
        self.judge_refusals(key, title, meter)
        return result

    def _begun_agent(self, work: AgentWork, talk: Talk | None) -> dict[str, Any]:
        """The row `begun` of an agent step: its input, and the fingerprint of everything it depends on."""
        own, agent = self.spec.agents[work.step.agent], work.step.agent
        at = work.input_at or self.pointer(work.key, "input")
        text = self.render(work.step.input if work.input is None else work.input, work.names, at).strip()
        text = text or work.default_input or work.names.get("last_response") or _NOTHING_TO_DO
        prompt = self.render(own.prompt, work.names, f"/agents/{agent}/prompt")
        prompt = "\n\n".join(part for part in (prompt, work.instructions) if part)
        model = str(self.resources.choice(agent))
        tools = [tool.id for tool in self.resources.tools.for_agent(agent, work.title, work.step.tools)]
        rests_on = (
            self.redactor.value([prompt, text, model, tools, work.schema or own.output_schema]),
            talk.mark if talk else "",
        )
        return {
            "kind": "agent",
            "title": work.title,
            "agent": agent,
            "model": model,
            "prompt": prompt,
            "input": text,
            "tools": tools,
            "continues": talk.last if talk else "",
            "fingerprint": fingerprint("agent", rests_on),
            "turn": work.turn,
        }

    def _check_input(self, work: AgentWork, text: str) -> None:
        """Checks an input that is JSON against the agent's `input_schema`."""
        agent = work.step.agent
        schema, key = self.spec.agents[agent].input_schema, (str(self.spec.file), agent)
        problem = "" if schema is None else input_problem(text, schema)
        if problem:
            issue = self.spec.issue(work.input_at or self.pointer(work.key, "input"), "")
            reason = f"{issue.place}: The input does not fit the input_schema of agent {agent!r}: {problem}"
            hint = "Correct the input of the step, or the schema."
            raise RunError(self.redactor.text(reason), hint=hint, step=work.key)
        if problem is None and key not in self._unchecked:
            self._unchecked.add(key)
            self.notice(f"The input of agent {agent!r} is not JSON: its input_schema is not used.", work.key)

    def _talk(self, sequence: str, step: Step) -> Talk | None:
        """The conversation that a step of an agent continues in a sequence of steps."""
        own = step.conversation or self.spec.agents[step.agent].conversation
        if not sequence:
            return None
        if own == "fresh":
            self._talks.pop((sequence, step.agent), None)
        return self._talks.setdefault((sequence, step.agent), Talk())

    def _rows_by_step(self) -> dict[str, list[tuple[str, Any]]]:
        if self._outer is not None:
            return self._outer._rows_by_step()
        if self._restorable is None:
            self._restorable = rows_by_step(self.journal) if self.journal else {}
        return self._restorable

    def restored(
        self,
        rows: StepRows,
        own_id: str,
        turn: int,
        begin: Callable[[], dict[str, Any]],
        talk: Talk | None = None,
    ) -> StepResult | None:
        """The result of a finished step, if the journal has it and the step has not changed."""
        before = rows.get("begun")
        if before is None:
            return None
        # A person consented to exactly this call, so it must be the same after a resume with other variables.
        is_judged = self.options.accept_changes or (before["kind"] == "tool" and rows.result() is None)
        if is_judged and begin()["fingerprint"] != before["fingerprint"]:
            self.ledger.spend(rows.set_aside(self._rows_by_step()))
            return None
        result = rows.result()
        if result is None:
            if not self.redactor.is_empty and rows.has_masked_calls(self._rows_by_step()):
                self.ledger.spend(rows.set_aside(self._rows_by_step()))
                self.notice(
                    "The journal keeps no secrets, and a call with one was not made: the step starts again.",
                    rows.key,
                )
            return None
        if talk is not None:
            talk.restore(rows.key, fingerprint(before["fingerprint"], result.response))
        self.ledger.spend(result.usage)
        self.emit(StepRestored(rows.key, rows.title, result.agent, result.usage))
        return self.keep_result(msgspec.structs.replace(result, id=own_id or rows.title), rows.title, turn)

    def judge_refusals(self, key: str, title: str, meter: StepMeter) -> None:
        """Ends the run if a call was refused without consent and the agent found no other way."""
        if names := ", ".join(name for name in meter.done_without if name not in meter.refused):
            self.done_without.append(f"{title}: skipped {names}, which needs consent; --yes gives it.")
        if meter.refused:
            names, rules = ", ".join(meter.refused), ", ".join(f"{name}: allow" for name in meter.refused)
            paused = Paused(
                f"{title}: {names} needs consent, and nobody can be asked here.",
                hint=f"Consent with --yes, run it in a terminal, or set security.consent: {{{rules}}}.",
            )
            paused.step = key
            raise paused

    async def perform(
        self,
        started: StepStarted,
        work: Awaitable[AgentAnswer],
        meter: StepMeter,
        rows: StepRows,
        *,
        own_id: str,
        turn: int = 0,
    ) -> StepResult:
        """Runs the work of a step: emits its events, records its result, and names the step in an error."""
        key, title, agent, began = started.step, started.title, started.agent, perf_counter()
        self.titles[key], self._rounds[key] = title, turn
        self.emit(started)
        error, waiting, stopped = "", False, False
        try:
            answer = await work
        except StrandsError as failed:
            if failed is not self.stopped_by:
                failed.step = failed.step or key
                if self.stopped_by is not None:
                    self.fail(failed)  # no other code sees this error
            reason = self.stopped_by or failed
            waiting, stopped = isinstance(reason, Paused), reason is not failed or failed.step != key
            error = "" if waiting else reason.message
            if reason is failed and not isinstance(failed, Paused | Interrupted):
                rows.put("failed", {"at": time(), "error": error, "code": failed.code})
            raise reason from (failed if reason is not failed else failed.__cause__)
        finally:
            seconds = perf_counter() - began
            self.emit(StepFinished(key, title, agent, seconds, meter.usage, error, waiting, stopped))
        result = StepResult(
            key=key,
            id=own_id or title,
            agent=agent,
            response=self.redactor.text(answer.text),
            output=self.redactor.value(answer.output),
            usage=meter.usage,
            seconds=seconds,
        )
        if meter.refused:  # this ends the run; with consent, the step runs again
            rows.set_aside()
        else:
            rows.put("result", {"at": time(), **msgspec.structs.asdict(result)})
        self._record_progress(steps=len(self.results) + 1)
        await rows.committed()
        return self.keep_result(result, title, turn)

    def keep_result(self, result: StepResult, title: str, turn: int) -> StepResult:
        self.results[result.key] = result
        self.titles[result.key] = title
        self._rounds[result.key] = turn
        self.ledger.settle()
        self.names["last_response"] = result.response
        return result

    # --- people -----------------------------------------------------------------------------------------

    async def ask_consent(self, calls: Sequence[PendingCall]) -> Collection[str]:
        """Asks for consent to calls; stops asking when the run ends."""
        assert self.options.ask_consent is not None
        try:
            return await self.unless_stopped(self.options.ask_consent(calls))
        except StrandsError:
            if self.stopped_by is None:
                raise
            return ()

    async def ask_human(
        self,
        key: str,
        step: HumanStep,
        *,
        title: str,
        names: Mapping[str, Any],
        turn: int = 0,
        input_at: str = "",
    ) -> StepResult:
        """Asks a human; uses the default if nobody answers in time or nobody can be asked."""
        self.check()
        rows = StepRows(self, key, title)
        place = input_at or self.pointer(key, "human/prompt")
        kind = "review" if input_at else "human"

        def begin() -> dict[str, Any]:
            question = self.redactor.text(self.render(step.prompt, names, place))
            if step.choices:
                question = f"{question.rstrip()}\n({', '.join(step.choices)})"
            return begun_row("human", title, "human", question, turn)

        if (restored := self.restored(rows, step.id, turn, begin)) is not None:
            return restored

        async def ask() -> AgentAnswer:
            begun = begin()
            rows.begin(begun)
            answer = await rows.answer(
                "",
                kind,
                begun["input"],
                default=step.default,
                timeout_s=step.timeout_s,
                choices=step.choices,
            )
            return AgentAnswer(answer)

        started, meter = StepStarted(key, title, "human"), StepMeter(self.emit, self.ledger)
        return await self.perform(started, ask(), meter, rows, own_id=step.id, turn=turn)

    async def unless_stopped(self, question: Awaitable[T]) -> T:
        """Waits for a person's answer, but not longer than the run."""
        answer, end = asyncio.ensure_future(question), asyncio.ensure_future(self.cancel.wait())
        try:
            await asyncio.wait({answer, end}, return_when=asyncio.FIRST_COMPLETED)
            self.check()
            return await answer
        finally:
            end.cancel()
            answer.cancel()
            await asyncio.wait({answer}, timeout=_CLEANUP_SECONDS)
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieved, so asyncio does not warn

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for one of the `max_parallel` slots of this run and of the outer run."""
        async with self._own_slots, self._outer.slot() if self._outer else nullcontext():
            yield

    # --- many steps -------------------------------------------------------------------------------------

    async def steps(
        self, at: str, steps: Steps, *, titles: str = "", names: Mapping[str, Any] | None = None
    ) -> list[StepResult]:
        """Runs steps one after the other; each sees the earlier ones. `titles` is the sequence's title."""
        done: list[StepResult] = []
        for index, step in enumerate(steps):
            seen = {**(names or {}), "steps": StepList(done)}
            if done:
                seen["last_response"] = done[-1].response
            own = step.id or (f"step {index + 1}" if len(steps) > 1 or not titles else "")
            title = ": ".join(part for part in (titles, own) if part)
            done.append(await self.step(f"{at}/{index}", step, title=title, names=seen, conversation=at))
            if not titles:
                self.names["steps"] = StepList(done)
        return done

    async def together(self, work: Sequence[Awaitable[T]]) -> list[T]:
        return await all_results(self, work)
