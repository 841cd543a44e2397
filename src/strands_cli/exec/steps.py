"""A run on its way: what its steps share, and how one step, one question and many steps are done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import BudgetExceeded, Interrupted, Paused, RunError, StrandsError
from strands_cli.events import (
    Event,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelText,
    RunNoticed,
    StepFinished,
    StepStarted,
    ToolFinished,
)
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import AgentStep, HumanStep, Steps
from strands_cli.runtime.agent_hooks import AskConsent, PendingCall
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.strands_adapter import AgentAnswer, AgentRequest, StepAgent
from strands_cli.secrets import RedactedStream, Redactor
from strands_cli.templates import render
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult, StepResult, Usage
from strands_cli.types.run_results import money_text
from strands_cli.types.sections import Budgets

T = TypeVar("T")

_COMPLETE = ("end_turn", "stop_sequence")
"""An answer that is complete has been paid for: its step is kept before the budget is looked at."""
_CLEANUP_SECONDS = 1.0
"""How long `ask_human` and `ask_consent` may take to remove their question after a cancellation."""
_NOTHING_TO_DO = "Begin."
"""The question to an agent whose step has no input and nothing before it."""
_logger = logging.getLogger("strands_cli.runs")

_LOGGED = 2000
"""How many characters of a value are logged."""

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
    cancel: Cancellation | None = None
    """Set it to cancel the run."""


DEFAULTS = RunOptions()


class StepList:
    """The steps that are done, by index and by id; no attribute of its own hides an id."""

    __slots__ = ("_by_id", "_done")

    def __init__(self, done: Sequence[StepResult]) -> None:
        self._done = tuple(done)
        self._by_id = {step.id: step for step in done if step.id}

    def __getitem__(self, key: int | str) -> StepResult:
        return self._by_id[key] if isinstance(key, str) else self._done[key]

    def __iter__(self) -> Iterator[StepResult]:
        return iter(self._done)

    def __len__(self) -> int:
        return len(self._done)

    def __str__(self) -> str:
        return "\n\n".join(step.response for step in self._done)


def _event_text(event: Event) -> str:
    """An event for the log: `steps/0 ToolStarted tool_id=echo arguments={'message': 'hi'}`."""
    fields = msgspec.structs.asdict(event)
    step = fields.pop("step", "")
    shown = (f"{name}={shorten_text(repr(value), _LOGGED)}" for name, value in fields.items() if value)
    return " ".join(filter(None, [step, type(event).__name__, *shown]))


class Emitter:
    """Hands events to every listener, without the run's secrets. A listener that fails harms nobody else."""

    def __init__(self, listeners: Sequence[Listener], redactor: Redactor) -> None:
        self._listeners = tuple(listeners)
        self._redactor = redactor
        self._streams: dict[str, RedactedStream] = {}
        self._failed: set[int] = set()

    def __call__(self, event: Event) -> None:
        if self._redactor.is_empty:
            self._send(event)
            return
        if isinstance(event, ModelText):
            stream = self._streams.setdefault(event.step, self._redactor.stream())
            if text := stream.feed(event.text):
                self._send(ModelText(event.step, text))
            return
        if isinstance(event, ModelFinished | ModelRetried):
            stream = self._streams.pop(event.step, self._redactor.stream())
            if rest := stream.end():
                self._send(ModelText(event.step, rest))
        self._send(self._redactor.value(event))

    def _send(self, event: Event) -> None:
        if _logger.isEnabledFor(logging.DEBUG) and not isinstance(event, ModelText):
            _logger.debug("%s", _event_text(event))
        for place, listener in enumerate(self._listeners):
            try:
                listener(event)
            except Exception:  # a listener that fails is its owner's trouble, not the run's
                if place not in self._failed:
                    self._failed.add(place)
                    _logger.exception("a listener failed at %s", type(event).__name__)


class Ledger:
    """Counts what all steps of a run spend together, and ends the run when its budget is spent."""

    def __init__(self, budgets: Budgets, stop: Callable[[StrandsError], None]) -> None:
        self._budgets = budgets
        self._stop = stop
        self.steps = 0
        self.usage = Usage()

    def begin_step(self) -> None:
        most = self._budgets.max_steps
        if most is not None and self.steps >= most:
            steps = "step" if most == 1 else "steps"
            raise _over_budget(
                f"The run reached its limit of {most} {steps} before it was done.", "max_steps"
            )
        self.steps += 1

    def settle(self) -> None:
        """Ends the run if it has used more tokens, or more money, than it may."""
        most = self._budgets.max_tokens
        if most is not None and (used := self.usage.total_tokens) > most:
            reason = f"The run has used {used} tokens; its limit is {most}."
            self._stop(_over_budget(reason, "max_tokens"))
        dollars, cost = self._budgets.max_cost, self.usage.cost or 0
        if dollars is not None and cost > dollars:
            reason = f"The run has cost {money_text(cost)}; its limit is {money_text(dollars)}."
            self._stop(_over_budget(reason, "max_cost"))

    def end_time(self) -> None:
        """The seconds are over."""
        reason = f"The run reached its limit of {self._budgets.max_duration_s:g} seconds before it was done."
        self._stop(_over_budget(reason, "max_duration_s"))


def _over_budget(reason: str, key: str) -> BudgetExceeded:
    hint = f"Finished steps are kept. Raise runtime.budgets.{key} to let it go on."
    return BudgetExceeded(reason, hint=hint)


class _StepMeter:
    """Passes on what a step reports, counts its tokens, and knows what was refused for want of consent.

    An agent could do without a refused call if it found another way: if a call of a declared tool succeeds in
    a later turn of the step. Its answer shows nothing, since a model answers in any case.
    """

    def __init__(self, emit: Listener, ledger: Ledger, tool_ids: Collection[str] = ()) -> None:
        self._emit, self._ledger, self._tool_ids = emit, ledger, tool_ids
        self.usage = Usage()
        self.refused: dict[str, None] = {}
        """Tools that were not called, and without which the agent could not do so far."""
        self.done_without: dict[str, None] = {}
        self._turn = self._refused_in = 0

    def refuse(self, tool_id: str) -> None:
        self.refused[tool_id] = None
        self._refused_in = self._turn

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolFinished) and event.code is None and event.tool_id in self._tool_ids:
            if self._turn > self._refused_in:
                self.done_without |= self.refused
                self.refused.clear()
        elif isinstance(event, ModelFinished):
            self._turn += 1
            self.usage += event.usage
            self._ledger.usage += event.usage
            if event.stop_reason not in _COMPLETE:
                self._ledger.settle()
        self._emit(event)


class Run:
    """One run. Patterns see of it what `patterns.pattern.StepRunner` lists."""

    def __init__(self, resources: RunResources, options: RunOptions) -> None:
        self.resources = resources
        self.options = options
        self.spec: Spec = resources.spec
        self.inputs = resources.inputs
        self.redactor = resources.redactor
        self.cancel = resources.cancel
        self.stopped_by: StrandsError | None = None
        self.names: dict[str, Any] = {}
        """What the pattern knows so far, for the templates of artifacts."""
        self.results: dict[str, StepResult] = {}
        self.titles: dict[str, str] = {}
        """What people call the steps that have begun, by their keys."""
        self.done_without: list[str] = []
        """What agents could not do for want of consent, and did without."""
        self.ledger = Ledger(self.spec.runtime.budgets, self.stop)
        self._rounds: dict[str, int] = {}
        self.emit = Emitter(options.listeners, resources.redactor)
        self._slots = asyncio.Semaphore(self.spec.runtime.max_parallel)
        self._started = perf_counter()
        if options.cancel is not None:
            options.cancel.add_callback(self.interrupt)

    def notice(self, text: str, step: str = "") -> None:
        self.emit(RunNoticed(text, step))

    # --- ending -----------------------------------------------------------------------------------------

    def stop(self, reason: StrandsError) -> None:
        """Ends the run cleanly, from any thread: running steps end, and no other begins."""
        if self.stopped_by is None:
            self.stopped_by = reason
        self.cancel.set()

    def interrupt(self) -> None:
        self.stop(Interrupted("Interrupted."))

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
            duration=perf_counter() - self._started,
            scope={**inputs, "inputs": inputs, **self.names},
        )

    def _place(self, result: StepResult) -> tuple[int, ...]:
        """The round of the pattern, then the place in the file: what ended first does not matter."""
        at, _, visit = result.key.partition("#")
        _, line, column = self.spec.position(f"/pattern/config/{at}")
        numbers = (int(part) for part in at.split("/") if part.isdigit())
        return (self._rounds.get(result.key, 0), line, column, int(visit or 1), *numbers)

    # --- templates --------------------------------------------------------------------------------------

    def scope(self, names: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.inputs, "inputs": self.inputs, **names}

    def render(self, text: str, names: Mapping[str, Any], pointer: str) -> str:
        return render(text, self.scope(names), spec=self.spec, pointer=pointer)

    def holds(self, condition: str, names: Mapping[str, Any], *, pointer: str, step: str) -> bool:
        from strands_cli.conditions import ConditionError, condition_holds, parse_condition

        try:
            return condition_holds(parse_condition(condition), self.scope(names))
        except ConditionError as error:
            issue = self.spec.issue(pointer, error.message)
            raise RunError(f"{issue.place}: {error.message}", hint=error.hint, step=step) from error

    # --- one step ---------------------------------------------------------------------------------------

    async def step(
        self,
        key: str,
        step: AgentStep,
        *,
        title: str,
        names: Mapping[str, Any],
        turn: int = 0,
        input: str | None = None,
        input_at: str = "",
        default_input: str = "",
        schema: dict[str, Any] | None = None,
        instructions: str = "",
    ) -> StepResult:
        """Waits for its turn, renders, asks the agent, records. See `StepRunner.step`."""
        self.check()
        self.ledger.begin_step()
        tools = self.resources.tools
        meter = _StepMeter(self.emit, self.ledger, tools.callable_ids)
        model = str(self.resources.choice(step.agent))

        async def ask() -> AgentAnswer:
            own, budgets = self.spec.agents[step.agent], self.spec.runtime.budgets
            at = input_at or f"/pattern/config/{key.partition('#')[0]}/input"
            text = self.render(step.input if input is None else input, names, at).strip()
            prompt = self.render(own.prompt, names, f"/agents/{step.agent}/prompt")
            request = AgentRequest(
                agent=step.agent,
                prompt="\n\n".join(part for part in (prompt, instructions) if part),
                model=model,
                step=key,
                title=title,
                emit=meter,
                schema=schema or own.output_schema,
                ask_consent=self._ask_consent if self.options.ask_consent else None,
                may_ask_model=self._may_ask_model if budgets.max_tokens or budgets.max_cost else None,
                report_refusal=meter.refuse,
            )
            agent = StepAgent(self.resources, request)
            question = text or default_input or names.get("last_response") or _NOTHING_TO_DO
            return await asyncio.ensure_future(agent.ask(question))  # each step is a task of its own

        async with self._slots:
            self.check()
            started = StepStarted(key, title, step.agent, model)
            result = await self._perform(started, ask(), meter, getattr(step, "id", ""), turn)
        self._judge_refusals(key, title, meter)
        return result

    def _judge_refusals(self, key: str, title: str, meter: _StepMeter) -> None:
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

    async def _perform(
        self,
        started: StepStarted,
        work: Awaitable[AgentAnswer],
        meter: _StepMeter,
        own_id: str,
        turn: int = 0,
    ) -> StepResult:
        """Reports a step, keeps its result, and says which step a failure belongs to."""
        key, title, agent, began = started.step, started.title, started.agent, perf_counter()
        self.titles[key] = title
        self.emit(started)
        error = ""
        try:
            answer = await work
        except StrandsError as failed:
            if self.stopped_by is None:
                failed.step = key
            reason = self.stopped_by or failed
            error = reason.message
            raise reason from (failed if reason is not failed else failed.__cause__)
        finally:
            seconds = perf_counter() - began
            self.emit(StepFinished(key, title, agent, seconds, meter.usage, error))
        result = StepResult(
            key=key,
            id=own_id or title,
            agent=agent,
            response=self.redactor.text(answer.text),
            output=self.redactor.value(answer.output),
            usage=meter.usage,
            seconds=seconds,
        )
        self.results[key] = result
        self._rounds[key] = turn
        self.ledger.settle()
        self.names["last_response"] = result.response
        return result

    # --- people -----------------------------------------------------------------------------------------

    async def _ask_consent(self, calls: Sequence[PendingCall]) -> Collection[str]:
        """Asks about calls, but not beyond the end of the run."""
        assert self.options.ask_consent is not None
        try:
            return await self._unless_stopped(self.options.ask_consent(calls))
        except StrandsError:
            if self.stopped_by is None:
                raise
            return ()

    async def ask_human(
        self, key: str, step: HumanStep, *, title: str, names: Mapping[str, Any]
    ) -> StepResult:
        """Puts a question to a human; the default if nobody answers in time, or nobody can be asked."""
        self.check()
        question = self.render(step.prompt, names, f"/pattern/config/{key}/human/prompt")
        started, meter = StepStarted(key, title, "human"), _StepMeter(self.emit, self.ledger)
        return await self._perform(started, self._human_answer(step, question), meter, step.id)

    async def _human_answer(self, step: HumanStep, question: str) -> AgentAnswer:
        if self.options.ask_human is None:
            if step.default is not None:
                return AgentAnswer(step.default)
            raise Paused(
                f"The run has a question for a person: {question}",
                hint="Run it in a terminal to answer, or give the step a default.",
            )
        try:
            answer = self._unless_stopped(self.options.ask_human(question))
            return AgentAnswer(await asyncio.wait_for(answer, step.timeout_s) or step.default or "")
        except (TimeoutError, Interrupted) as unanswered:
            if step.default is not None and self.stopped_by is None:
                return AgentAnswer(step.default)
            if isinstance(unanswered, Interrupted):
                raise
            raise RunError(
                f"No answer within {step.timeout_s:g} seconds: {question}",
                hint="Give the step a default, or more time.",
            ) from None

    async def _unless_stopped(self, question: Awaitable[T]) -> T:
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
            ask = self.ask_human if isinstance(step, HumanStep) else self.step
            done.append(await ask(f"{at}/{index}", step, title=title, names=seen))  # type: ignore[arg-type]
            if not titles:
                self.names["steps"] = StepList(done)
        return done

    async def together(self, work: Sequence[Awaitable[T]]) -> list[T]:
        """The result of each, in order. If one fails, the others are ended cleanly; then that is raised.

        A step that the budget refuses ends nothing else: those that run may finish.
        """

        def stop_others(task: "asyncio.Future[Any]") -> None:
            failure = None if task.cancelled() else task.exception()
            if isinstance(failure, StrandsError):
                if failure.code != "budget":
                    self.stop(failure)
            elif failure is not None:
                self.stop(Interrupted(f"{type(failure).__name__}: {failure}"))

        tasks = [asyncio.ensure_future(one) for one in work]
        for task in tasks:
            task.add_done_callback(stop_others)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            # A bug before all else, then what ended the run: the rest only follows from it.
            bugs = [failure for failure in failures if not isinstance(failure, StrandsError)]
            raise bugs[0] if bugs else self.stopped_by or failures[0]
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
