"""`run_step`: one agent, one input. `ask_human`: one question. All that patterns have in common is here."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec

from strands_cli.errors import Interrupted, Paused, RunError, StrandsError
from strands_cli.events import Event, ModelFinished, StepFinished, StepStarted
from strands_cli.exec.state import Run, StepList
from strands_cli.runtime.strands_adapter import AgentRequest, Answer, StepAgent
from strands_cli.runtime.turns import AskConsent, PendingCall
from strands_cli.types import HumanStep, Step, StepResult, Usage
from strands_cli.types.patterns import Node, Steps, Task

_NOTHING_TO_DO = "Begin."
"""What an agent is told whose step has no input and nothing before it."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a pattern wants of a step besides its answer."""

    schema: dict[str, Any] | None = None
    """What the answer has to fit; without it, the agent's own `output_schema`."""
    instructions: str = ""
    """What the agent is told about the form of its answer."""
    turn: int = 0
    """The round of the pattern, where it has rounds."""
    input: str | None = None
    """A template in place of the step's own input."""
    input_at: str = ""
    """Where that template stands."""
    otherwise: str = ""
    """What the agent is given where its step has no input; without it, the last answer."""


_NOTHING_MORE = Wanted()


async def run_step(
    run: Run,
    key: str,
    step: Step | Task | Node,
    *,
    title: str,
    names: Mapping[str, Any],
    wanted: Wanted = _NOTHING_MORE,
) -> StepResult:
    """Does one step: waits for its place, renders, asks the agent, records and tells.

    `key` is where the step stands in the pattern, and with `#2` how often it has been there.
    """
    run.check()
    run.ledger.begin_step()
    async with run.slot():
        meter = _Meter(run)
        started = perf_counter()
        run.titles[key] = title
        run.emit(StepStarted(key, title, step.agent, str(run.surroundings.choice(step.agent))))
        error = ""
        try:
            answer = await _answer(run, meter, key, step, title=title, names=names, wanted=wanted)
        except StrandsError as failed:
            reason = run.stopped_by or _blamed(failed, key)
            error = reason.message
            raise reason from (failed if reason is not failed else failed.__cause__)
        finally:
            seconds = perf_counter() - started
            run.emit(StepFinished(key, title, step.agent, seconds, meter.usage, error))
        result = StepResult(
            key=key,
            id=getattr(step, "id", "") or title,
            agent=step.agent,
            response=run.redactor.text(answer.text),
            output=run.redactor.value(answer.output),
            usage=meter.usage,
            seconds=seconds,
        )
        run.record(result, wanted.turn)
    return result


def _blamed(failed: StrandsError, key: str) -> StrandsError:
    failed.step = key
    return failed


def all_answers(answers: Mapping[str, StepResult]) -> str:
    """What several steps have answered, each under its name, as one text."""
    return "\n\n".join(f"{name}:\n{result.response}" for name, result in answers.items())


class _Meter:
    """Passes on what a step says, and counts its tokens."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.usage = Usage()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ModelFinished):
            self.usage += event.usage
        self._run.emit(event)


async def _answer(
    run: Run,
    meter: _Meter,
    key: str,
    step: Step | Task | Node,
    *,
    title: str,
    names: Mapping[str, Any],
    wanted: Wanted,
) -> Answer:
    at = f"/pattern/config/{key.partition('#')[0]}"
    own = run.spec.agents[step.agent]
    template = step.input if wanted.input is None else wanted.input
    text = run.render(template, names, wanted.input_at or f"{at}/input")
    prompt = run.render(own.prompt, names, f"/agents/{step.agent}/prompt")
    agent = StepAgent(
        run.surroundings,
        AgentRequest(
            agent=step.agent,
            prompt="\n\n".join(part for part in (prompt, wanted.instructions) if part),
            step=key,
            title=title,
            emit=meter,
            schema=wanted.schema or own.output_schema,
            ask_consent=_consent(run),
            before_request=run.ledger.settle,
        ),
    )
    return await agent.ask(text.strip() or wanted.otherwise or names.get("last_response") or _NOTHING_TO_DO)


def _consent(run: Run) -> AskConsent | None:
    """Whoever is asked about calls, but not beyond the end of the run."""
    ask_consent = run.options.ask_consent
    if ask_consent is None:
        return None

    async def ask(calls: Sequence[PendingCall]) -> Collection[str]:
        try:
            return await run.unless_stopped(ask_consent(calls))
        except StrandsError:
            if run.stopped_by is None:
                raise
            return ()

    return ask


async def ask_human(
    run: Run, key: str, step: HumanStep, *, title: str, names: Mapping[str, Any]
) -> StepResult:
    """Puts a question to a human; the default where nobody answers in time, or nobody can be asked."""
    run.check()
    question = run.render(step.prompt, names, f"/pattern/config/{key}/human/prompt")
    started = perf_counter()
    run.titles[key] = title
    run.emit(StepStarted(key, title, "human"))
    error = ""
    try:
        said = run.redactor.text(await _said(run, step, question))
    except StrandsError as failed:
        reason = run.stopped_by or _blamed(failed, key)
        error = reason.message
        raise reason from (failed if reason is not failed else failed.__cause__)
    finally:
        run.emit(StepFinished(key, title, "human", perf_counter() - started, Usage(), error))
    result = StepResult(
        key=key, id=step.id or title, agent="human", response=said, seconds=perf_counter() - started
    )
    run.record(result)
    return result


async def _said(run: Run, step: HumanStep, question: str) -> str:
    if run.options.ask_human is None:
        if step.default is not None:
            return step.default
        raise Paused(
            f"A person is asked: {question}",
            hint="Run it in a terminal, where it can be asked, or give the step a default.",
        )
    try:
        answer = run.unless_stopped(run.options.ask_human(question))
        return await asyncio.wait_for(answer, step.timeout_s) or step.default or ""
    except (TimeoutError, Interrupted) as unanswered:
        if step.default is not None and run.stopped_by is None:
            return step.default
        if isinstance(unanswered, Interrupted):
            raise
        raise RunError(
            f"Nobody answered within {step.timeout_s:g} seconds: {question}",
            hint="Give the step a default, or more time.",
        ) from None


async def run_steps(
    run: Run, at: str, steps: Steps, *, titles: str = "", names: Mapping[str, Any] | None = None
) -> list[StepResult]:
    """Steps one after the other; each sees those before it. `titles` is what people call the whole."""
    done: list[StepResult] = []
    for index, step in enumerate(steps):
        seen = {**(names or {}), "steps": StepList(done)}
        if done:
            seen["last_response"] = done[-1].response
        title = _title(step, index, len(steps), titles)
        key = f"{at}/{index}"
        if isinstance(step, HumanStep):
            done.append(await ask_human(run, key, step, title=title, names=seen))
        else:
            done.append(await run_step(run, key, step, title=title, names=seen))
        if not titles:
            run.names["steps"] = StepList(done)
    return done


def _title(step: Step | HumanStep, index: int, number: int, titles: str) -> str:
    own = step.id or (f"step {index + 1}" if number > 1 or not titles else "")
    return ": ".join(part for part in (titles, own) if part)
