"""The events and costs of a run: events go to listeners, tokens and money count against the budget."""

import logging
from collections.abc import Callable, Collection, Sequence

import msgspec

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import BudgetExceeded, StrandsError
from strands_cli.events import (
    Event,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelText,
    ToolFinished,
    ToolStarted,
)
from strands_cli.secrets import URL_CREDENTIALS, RedactedStream, Redactor
from strands_cli.types import Usage
from strands_cli.types.run_results import money_text
from strands_cli.types.sections import Budgets

_COMPLETE = ("end_turn", "stop_sequence")
"""A complete answer is already paid for: its step is kept before the budget is checked."""
_LOGGED = 2000
"""How many characters of a value are logged."""
_logger = logging.getLogger("strands_cli.runs")


def _event_text(event: Event) -> str:
    """An event for the log: `steps/0 ToolStarted tool_id=echo arguments={'message': 'hi'}`."""
    fields = msgspec.structs.asdict(event)
    step = fields.pop("step", "")
    shown = (f"{name}={shorten_text(repr(value), _LOGGED)}" for name, value in fields.items() if value)
    return " ".join(filter(None, [step, type(event).__name__, *shown]))


class Emitter:
    """Sends redacted events to every listener. If a listener fails, the others and the run continue."""

    def __init__(self, listeners: Sequence[Listener], redactor: Redactor) -> None:
        self._listeners = tuple(listeners)
        self._redactor = redactor
        self._streams: dict[str, RedactedStream] = {}
        self._failed: set[int] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolStarted):
            event = URL_CREDENTIALS.value(event)
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
    """Counts the cost of all steps of a run, and stops the run when its budget is used up.

    An inner workflow's cost also counts in the `outer` ledger.
    """

    def __init__(
        self,
        budgets: Budgets,
        stop: Callable[[StrandsError], None],
        notice: Callable[[str], None],
        outer: "Ledger | None" = None,
    ) -> None:
        self._budgets = budgets
        self._stop = stop
        self._notice = notice
        self._outer = outer
        self._has_warned = False
        self.steps = 0
        self.usage = Usage()

    def begin_step(self) -> None:
        most = self._budgets.max_steps
        if most is not None and self.steps >= most:
            steps = "step" if most == 1 else "steps"
            raise _over_budget(
                f"The run reached its limit of {most} {steps} before it was done.", "max_steps"
            )
        if self._outer is not None:
            self._outer.begin_step()
        self.steps += 1

    def spend(self, usage: Usage) -> None:
        self.usage += usage
        most, share = self._budgets.max_tokens, self._budgets.warn_threshold
        if most and not self._has_warned and most * share <= self.usage.total_tokens <= most:
            self._has_warned = True
            self._notice(f"{share:.0%} of the budget of {most} tokens is spent.".replace("%", " %", 1))
        if self._outer is not None:
            self._outer.spend(usage)

    @property
    def limits_models(self) -> bool:
        """Whether tokens or money are limited, so the budget must be checked before each model request."""
        own = bool(self._budgets.max_tokens or self._budgets.max_cost)
        return own or (self._outer is not None and self._outer.limits_models)

    def settle(self) -> None:
        """Stops the run if it has used more tokens or more money than its budget allows."""
        most = self._budgets.max_tokens
        if most is not None and (used := self.usage.total_tokens) > most:
            reason = f"The run has used {used} tokens; its limit is {most}."
            self._stop(_over_budget(reason, "max_tokens"))
        dollars, cost = self._budgets.max_cost, self.usage.cost or 0
        if dollars is not None and cost > dollars:
            reason = f"The run has cost {money_text(cost)}; its limit is {money_text(dollars)}."
            self._stop(_over_budget(reason, "max_cost"))
        if self._outer is not None:
            self._outer.settle()

    def end_time(self) -> None:
        """Stops the run because `max_duration_s` is over."""
        reason = f"The run reached its limit of {self._budgets.max_duration_s:g} seconds before it was done."
        self._stop(_over_budget(reason, "max_duration_s"))


def _over_budget(reason: str, key: str) -> BudgetExceeded:
    hint = f"Finished steps are kept. Raise runtime.budgets.{key} to continue."
    return BudgetExceeded(reason, hint=hint)


class StepMeter:
    """Forwards the events of a step, counts its tokens, and tracks calls that were refused without consent.

    An agent found another way if a call of a declared tool succeeds in a later turn of the step. Its answer
    proves nothing, since a model answers in any case.
    """

    def __init__(
        self,
        emit: Listener,
        ledger: Ledger,
        tool_ids: Collection[str] = (),
        keep_retry: Callable[[ModelRetried], None] | None = None,
    ) -> None:
        """`keep_retry` is called for each failed request that is retried."""
        self._emit, self._ledger, self._tool_ids = emit, ledger, tool_ids
        self._keep_retry = keep_retry
        self.usage = Usage()
        self.refused: dict[str, None] = {}
        """Tools that were refused, and for which the agent has not found another way yet."""
        self.done_without: dict[str, None] = {}
        self._turn = self._refused_in = 0

    def refuse(self, tool_id: str) -> None:
        self.refused[tool_id] = None
        self._refused_in = self._turn

    def spend(self, usage: Usage, stop_reason: str) -> None:
        """Counts an answer from the model or from the journal."""
        self._turn += 1
        self.usage += usage
        self._ledger.spend(usage)
        if stop_reason not in _COMPLETE:
            self._ledger.settle()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ToolFinished) and event.code is None and event.tool_id in self._tool_ids:
            if self._turn > self._refused_in:
                self.done_without |= self.refused
                self.refused.clear()
        elif isinstance(event, ModelFinished):
            self.spend(event.usage, event.stop_reason)
        elif isinstance(event, ModelRetried) and self._keep_retry is not None:
            self._keep_retry(event)
        self._emit(event)
