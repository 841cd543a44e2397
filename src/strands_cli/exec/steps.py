"""A run on its way: what its steps share, and how one step, one question and many steps are done."""

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
from strands_cli.exec.step_rows import StepRows, Talk, begun_row, fingerprint, main_failure, rows_by_step
from strands_cli.exec.stores import new_run_id
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import AnyStep, HumanStep, Step, Steps
from strands_cli.runtime.agent_hooks import AskConsent, PendingCall
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.strands_adapter import AgentAnswer, AgentRequest, StepAgent
from strands_cli.templates import render, render_values
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult, StepResult
from strands_cli.types.run_results import StepList

if TYPE_CHECKING:
    from strands_cli.exec.journal import Journal
    from strands_cli.exec.stores import Store
    from strands_cli.runtime.resources import Model

T = TypeVar("T")

_CLEANUP_SECONDS = 1.0
"""How long `ask_human` and `ask_consent` may take to remove their question after a cancellation."""
_ITEM_OR_VISIT = re.compile(r"/each/\d+|#\d+")
_VISIT = re.compile(r"#(\d+)")
_INNER_WORKFLOW = re.compile(r"(?<!^routes)(?<!^nodes)/workflow/")
"""In a key, between a step and those of the workflow that it runs; a route or a node may have any name."""
_NOTHING_TO_DO = "Begin."
"""The question to an agent whose step has no input and nothing before it."""

AskHuman = Callable[[str], Awaitable[str]]
"""Puts a question to a human; Interrupted if nobody will answer."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run."""

    listeners: Sequence[Listener] = ()
    directory: Path = Path()
    """The directory for artifacts and notes."""
    force: bool = False
    """Whether artifacts may replace existing files."""
    trace: bool = False
    """Whether to write the record of the run next to its artifacts."""
    ask_human: AskHuman | None = None
    ask_consent: AskConsent | None = None
    """Asks for consent to calls that need it. Without it, such calls are refused."""
    allow_write: Sequence[Path] = ()
    """Protected paths, such as `.github`, that tools and artifacts may write."""
    cancel: Cancellation | None = None
    """Set it to cancel the run."""
    model: "Model | None" = None
    """A model of the SDK's that answers in place of every provider, such as `testing.ScriptedModel`."""
    store: "Store | None" = None
    """Where the run is journalled. Without one, a run that is interrupted is lost."""
    resume: str = ""
    """The id of a run in the store, to resume it."""
    accept_changes: bool = False
    """Whether a resumed run does again what no longer fits its workflow, and keeps the rest."""
    take_over: bool = False
    """Whether to resume a run even if another process is working on it, which then can write no more."""
    on_row: Callable[[str, Any], None] | None = None
    """Given the key and the value of each row of the journal, as it is written."""
    record: Path | None = None
    """A file for all requests to models and their answers, written when the run ends."""
    replay: Path | None = None
    """Such a file, which answers in place of all models. RunError where a request is not the recorded one."""
    replay_ignore: Sequence[str] = ()
    """The tools whose results may differ from the recorded ones."""


DEFAULTS = RunOptions()


class AgentWork(msgspec.Struct, frozen=True, kw_only=True):
    """A step that an agent does; see `patterns.pattern.StepRunner.step`."""

    key: str
    step: Step
    title: str
    names: Mapping[str, Any]
    turn: int = 0
    input: str | None = None
    input_at: str = ""
    default_input: str = ""
    schema: dict[str, Any] | None = None
    instructions: str = ""
    conversation: str = ""


class Run:
    """One run. Patterns see of it what `patterns.pattern.StepRunner` lists."""

    prefix = ""
    """What the keys of all its steps begin with."""

    def __init__(
        self,
        resources: RunResources,
        options: RunOptions,
        journal: "Journal | None" = None,
        outer: "Run | None" = None,
    ) -> None:
        """`outer` is the run whose step this one is; they report, and end, together."""
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
        """What the pattern knows so far, for the templates of artifacts."""
        self.results: dict[str, StepResult] = {}
        self.titles: dict[str, str] = {}
        """What people call the steps that have begun, by their keys."""
        self.done_without: list[str] = []
        """What agents could not do for want of consent, and did without."""
        self.ledger: Ledger = Ledger(self.spec.runtime.budgets, self.stop, outer.ledger if outer else None)
        self._rounds: dict[str, int] = {}
        self.emit = Emitter(options.listeners, resources.redactor)
        self._own_slots = asyncio.Semaphore(self.spec.runtime.max_parallel)
        self._started = perf_counter()
        self.earlier_seconds = 0.0
        """How long the run has worked before it was resumed."""
        if journal is not None and outer is None:
            self.earlier_seconds = (journal.get("status") or {}).get("seconds") or 0.0
            journal.on_failure = self.stop
        self._talks: dict[tuple[str, str], Talk] = {}
        self._notices = 0
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
        """Ends the run cleanly, from any thread: running steps end, and no other begins."""
        if self._outer is not None:
            self._outer.stop(reason)
        elif self._stopped_by is None:
            self._stopped_by = reason
        self.cancel.set()

    def interrupt(self) -> None:
        self.stop(Interrupted("Interrupted."))

    def fail(self, error: BaseException) -> None:
        """A resumed run tries the step again that has failed; what cannot be used of it is set aside.

        What led to an outage of a provider is still good; an answer that does not fit, or was withheld,
        would only fail again.
        """
        if isinstance(error, RunError) and not isinstance(error, BudgetExceeded):
            rows = StepRows(self, error.step, "")
            begun = rows.get("begun")
            # What is finished is kept, though a condition cannot judge it; what a reviewer says is not.
            if begun is not None and (begun["kind"] == "human" or rows.result() is None):
                rows.set_aside()

    def record_end(self, result: RunResult) -> None:
        """Keeps what the run has cost so far."""
        if self.journal is not None:
            answer = {"last_response": result.last_response, "output": result.output}
            done = [step.key for step in result.steps]
            self._record_progress(answer=answer, done=done, seconds=result.duration)

    def _record_progress(self, **more: Any) -> None:
        """Keeps how far the run is, for whoever looks at it meanwhile, or after a crash."""
        if self._outer is not None:
            self._outer._record_progress()
        elif self.journal is not None:
            before = self.journal.get("status") or {}
            seconds = self.earlier_seconds + perf_counter() - self._started
            spent = {"usage": self.ledger.usage, "seconds": seconds, "steps": len(self.results)}
            self.journal.put("status", {**before, **spent, **more})

    def close(self) -> None:
        """A cancellation that outlives the run does not hold on to it."""
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
        """The round of the pattern, then the place in the file: what ended first does not matter."""
        key = result.key.removeprefix(self.prefix)
        own = _INNER_WORKFLOW.split(key, maxsplit=1)[0]
        _, line, column = self.spec.position(self.pointer(own, ""))
        visit = _VISIT.search(own)
        numbers = (int(part) for part in _VISIT.sub("", key).split("/") if part.isdigit())
        return (self._rounds.get(self.prefix + own, 0), line, column, int(visit[1] if visit else 1), *numbers)

    # --- templates --------------------------------------------------------------------------------------

    def scope(self, names: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.inputs, "inputs": self.inputs, **names}

    def render(self, text: str, names: Mapping[str, Any], pointer: str) -> str:
        return render(text, self.scope(names), spec=self.spec, pointer=pointer)

    def render_values(self, value: Any, names: Mapping[str, Any], pointer: str) -> Any:
        return render_values(value, self.scope(names), spec=self.spec, pointer=pointer)

    def pointer(self, key: str, part: str) -> str:
        """Where a part of a step stands in the file: its key also says which time, and for which item."""
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
        """Does a step by its whole key, as its kind is done; other kinds are those of `step_kinds.AnyRun`."""
        if isinstance(step, HumanStep):
            at = more.get("input_at", "")
            return await self.ask_human(key, step, title=title, names=names, turn=turn, input_at=at)
        assert isinstance(step, Step)
        return await self.ask_agent(
            AgentWork(key=key, step=step, title=title, names=names, turn=turn, **more)
        )

    async def ask_agent(self, work: AgentWork) -> StepResult:
        """Waits for its turn, renders, asks the agent, records."""
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
            request = AgentRequest(
                agent=agent,
                prompt=begun["prompt"],
                model=model,
                step=key,
                title=title,
                emit=meter,
                schema=work.schema or self.spec.agents[agent].output_schema,
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
        """What an agent is asked, and what its answer rests on."""
        own, agent = self.spec.agents[work.step.agent], work.step.agent
        at = work.input_at or self.pointer(work.key, "input")
        text = self.render(work.step.input if work.input is None else work.input, work.names, at).strip()
        text = text or work.default_input or work.names.get("last_response") or _NOTHING_TO_DO
        prompt = self.render(own.prompt, work.names, f"/agents/{agent}/prompt")
        prompt = "\n\n".join(part for part in (prompt, work.instructions) if part)
        model = str(self.resources.choice(agent))
        tools = [tool.id for tool in self.resources.tools.for_agent(agent, work.title)]
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

    def _talk(self, sequence: str, step: Step) -> Talk | None:
        """The conversation that a step of an agent goes on with, in a sequence of steps."""
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
        """The result of a step that is finished, if the journal has it and the step has not changed."""
        before = rows.get("begun")
        if before is None:
            return None
        # What a person agreed to is this very call of a tool, whoever resumes the run with other variables.
        is_judged = self.options.accept_changes or (before["kind"] == "tool" and rows.result() is None)
        if is_judged and begin()["fingerprint"] != before["fingerprint"]:
            self.ledger.spend(rows.set_aside(self._rows_by_step()))
            return None
        result = rows.result()
        if result is None:
            if not self.redactor.is_empty and rows.has_masked_calls(self._rows_by_step()):
                self.ledger.spend(rows.set_aside(self._rows_by_step()))
                self.notice(
                    "The journal keeps no secrets, and a call with one was not made: the step begins again.",
                    rows.key,
                )
            return None
        if talk is not None:
            talk.restore(rows.key, fingerprint(before["fingerprint"], result.response))
        self.ledger.spend(result.usage)
        self.emit(StepRestored(rows.key, rows.title, result.agent, result.usage))
        return self.keep_result(msgspec.structs.replace(result, id=own_id or rows.title), rows.title, turn)

    def judge_refusals(self, key: str, title: str, meter: StepMeter) -> None:
        """Ends the run where an agent could not make a call that needs consent, and found no other way."""
        if names := ", ".join(name for name in meter.done_without if name not in meter.refused):
            self.done_without.append(f"{title}: did without {names}, which needs consent; --yes gives it.")
        if meter.refused:
            names, rules = ", ".join(meter.refused), ", ".join(f"{name}: allow" for name in meter.refused)
            paused = Paused(
                f"{title}: {names} needs consent, and nobody can be asked here.",
                hint=f"Give it with --yes, run it in a terminal, or set security.consent: {{{rules}}}.",
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
        """Reports a step, keeps its result, and says which step a failure belongs to."""
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
                    self.fail(failed)  # nobody else hears of it
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
        if meter.refused:  # which ends the run; with consent, the step is done again
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
        """Asks about calls, but not beyond the end of the run."""
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
        """Puts a question to a human; the default if nobody answers in time, or nobody can be asked."""
        self.check()
        rows = StepRows(self, key, title)
        place = input_at or self.pointer(key, "human/prompt")
        kind = "review" if "/review#" in key else "human"

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
        """A person's answer, which may take any time: the end of the run does not wait for it."""
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
                answer.exception()  # retrieved, so that asyncio does not complain

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits until a step may begin: so many may run at the same time, here and in the outer run."""
        async with self._own_slots, self._outer.slot() if self._outer else nullcontext():
            yield

    # --- many steps -------------------------------------------------------------------------------------

    async def steps(
        self, at: str, steps: Steps, *, titles: str = "", names: Mapping[str, Any] | None = None
    ) -> list[StepResult]:
        """Steps one after the other; each sees those before it. `titles` is what people call the whole."""
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
        """The result of each, in order. If one fails, the others are ended cleanly; then that is raised.

        A step that the budget refuses, or that waits for a person, ends nothing else: those that run may
        finish.
        """

        def stop_others(task: "asyncio.Future[Any]") -> None:
            failure = None if task.cancelled() else task.exception()
            if isinstance(failure, StrandsError):
                if not isinstance(failure, BudgetExceeded | Paused):
                    self.stop(failure)
            elif failure is not None:
                self.stop(Interrupted(f"{type(failure).__name__}: {failure}"))

        tasks = [asyncio.ensure_future(one) for one in work]
        for task in tasks:
            task.add_done_callback(stop_others)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            self.fail(failure)
        if failures:
            # A bug before all else, then what ended the run: the rest only follows from it.
            bugs = [failure for failure in failures if not isinstance(failure, StrandsError)]
            raise bugs[0] if bugs else self.stopped_by or main_failure(failures)
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
