"""Run: all that the steps of one run share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from strands_cli.errors import Interrupted, StrandsError
from strands_cli.events import Event, Listener, ModelFinished, RunNoticed
from strands_cli.exec.budgets import Ledger
from strands_cli.exec.emitting import Emitter
from strands_cli.runtime.strands_adapter import Surroundings
from strands_cli.runtime.turns import AskConsent
from strands_cli.secrets import Redactor
from strands_cli.templates import render
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult, Spec, StepResult

T = TypeVar("T")

_COMPLETE = ("end_turn", "stop_sequence")
"""An answer that is complete has been paid for: its step is kept before the budget is looked at."""
_FAREWELL_SECONDS = 1.0
"""How long somebody who asks a person may take to clear the question away."""

AskHuman = Callable[[str], Awaitable[str]]
"""Puts a question to a human and answers with what was said; Interrupted where nobody answers any more."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may give to a run besides the workflow and its inputs."""

    listeners: Sequence[Listener] = ()
    directory: Path = Path()
    """Where artifacts and notes go."""
    force: bool = False
    """Whether artifacts may take the place of files that are there."""
    trace: bool = False
    """Whether the record of the run is written beside its artifacts."""
    ask_human: AskHuman | None = None
    ask_consent: AskConsent | None = None
    """Who is asked about tools that need consent; without anybody such calls are refused."""
    cancel: Cancellation | None = None
    """Set from outside to end the run cleanly."""


DEFAULTS = RunOptions()


class StepList:
    """The steps that are done, by index and by id; no attribute of its own is in the way of an id."""

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


class Run:
    def __init__(
        self, spec: Spec, inputs: Mapping[str, Any], options: RunOptions, surroundings: Surroundings
    ) -> None:
        self.spec = spec
        self.inputs = dict(inputs)
        self.options = options
        self.surroundings = surroundings
        self.cancel = surroundings.cancel
        self.stopped_by: StrandsError | None = None
        self.names: dict[str, Any] = {}
        """What the pattern knows so far, for the templates of artifacts."""
        self.results: dict[str, StepResult] = {}
        self.titles: dict[str, str] = {}
        """What people call the steps that have begun, by their keys."""
        self._rounds: dict[str, int] = {}
        self.ledger = Ledger(spec.runtime.budgets, self.stop)
        self._tell = Emitter(options.listeners, surroundings.redactor)
        self._slots = asyncio.Semaphore(spec.runtime.max_parallel)
        self._started = perf_counter()
        if options.cancel is not None:
            options.cancel.add_callback(self.interrupt)

    # --- what is said -----------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        if isinstance(event, ModelFinished):
            self.ledger.spend(event.usage)
            if event.stop_reason not in _COMPLETE:
                self.ledger.settle()
        self._tell(event)

    def notice(self, text: str, step: str = "") -> None:
        self.emit(RunNoticed(text, step))

    @property
    def redactor(self) -> Redactor:
        return self.surroundings.redactor

    # --- ending -----------------------------------------------------------------------------------------

    def stop(self, reason: StrandsError) -> None:
        """Ends the run cleanly, from any thread: steps that run come to an end, and none begins."""
        if self.stopped_by is None:
            self.stopped_by = reason
        self.cancel.set()

    def interrupt(self) -> None:
        self.stop(Interrupted("Interrupted."))

    def close(self) -> None:
        """A wish to stop that outlives the run does not hold on to it."""
        if self.options.cancel is not None:
            self.options.cancel.remove_callback(self.interrupt)

    def check(self) -> None:
        if self.stopped_by is not None:
            raise self.stopped_by

    async def unless_stopped(self, said: Awaitable[T]) -> T:
        """What a person says, who may take any time: the end of the run does not wait for it."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()

        def stop() -> None:
            loop.call_soon_threadsafe(stopped.set)

        answer, end = asyncio.ensure_future(said), asyncio.ensure_future(stopped.wait())
        self.cancel.add_callback(stop)
        try:
            await asyncio.wait({answer, end}, return_when=asyncio.FIRST_COMPLETED)
            self.check()
            return await answer
        finally:
            self.cancel.remove_callback(stop)
            end.cancel()
            await _let_go(answer)

    @property
    def seconds(self) -> float:
        return perf_counter() - self._started

    # --- steps ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits until one more agent may work."""
        async with self._slots:
            self.check()
            yield

    def scope(self, names: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.inputs, "inputs": self.inputs, **names}

    def render(self, text: str, names: Mapping[str, Any], pointer: str) -> str:
        position = self.spec.position(pointer)
        return render(text, self.scope(names), pointer=pointer, position=position)

    def record(self, result: StepResult, turn: int = 0) -> None:
        """Keeps what a step came to; `turn` is the round of a pattern that has rounds."""
        self.results[result.key] = result
        self._rounds[result.key] = turn
        self.ledger.settle()
        self.names["last_response"] = result.response

    def result(self, last: StepResult | None) -> RunResult:
        """What the run has come to; `last` is what its pattern answers with, where it came that far."""
        if last is not None:
            self.names["last_response"] = last.response
        inputs = self.redactor.value(self.inputs)
        return RunResult(
            name=self.spec.name,
            pattern=str(self.spec.pattern.__struct_config__.tag),
            last_response=self.names.get("last_response", ""),
            output=last.output if last else None,
            steps=tuple(sorted(self.results.values(), key=self._place)),
            usage=self.ledger.usage,
            duration=self.seconds,
            scope={**inputs, "inputs": inputs, **self.names},
        )

    def _place(self, result: StepResult) -> tuple[int, ...]:
        """The round of the pattern, then the place in the file: what ended first does not matter."""
        at, _, visit = result.key.partition("#")
        _, line, column = self.spec.position(f"/pattern/config/{at}")
        numbers = (int(part) for part in at.split("/") if part.isdigit())
        return (self._rounds.get(result.key, 0), line, column, int(visit or 1), *numbers)


async def _let_go(question: "asyncio.Future[Any]") -> None:
    question.cancel()
    await asyncio.wait({question}, timeout=_FAREWELL_SECONDS)
    if question.done() and not question.cancelled():
        question.exception()  # looked at, so that nobody complains that it was not


async def together(run: Run, work: Sequence[Awaitable[T]]) -> list[T]:
    """What each comes to, in order. Where one fails the others are ended cleanly, and the first failure told.

    A step that the budget refuses ends nothing else: those that run may finish.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    for task in tasks:
        task.add_done_callback(lambda done: _stop_others(run, done))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise _first(run, failures)
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _first(run: Run, failures: Sequence[BaseException]) -> BaseException:
    """A bug before all else, then what ended the run: the rest only follows from it."""
    bugs = [failure for failure in failures if not isinstance(failure, StrandsError)]
    return bugs[0] if bugs else run.stopped_by or failures[0]


def _stop_others(run: Run, task: "asyncio.Future[Any]") -> None:
    if task.cancelled():
        return
    failure = task.exception()
    if isinstance(failure, StrandsError) and failure.code != "budget":
        run.stop(failure)
    elif failure is not None and not isinstance(failure, StrandsError):
        run.stop(Interrupted(f"{type(failure).__name__}: {failure}"))
