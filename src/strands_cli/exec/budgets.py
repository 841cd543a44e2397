"""What a run may spend, and what ends it when that is spent."""

from collections.abc import Callable

from strands_cli.errors import BudgetExceeded, StrandsError
from strands_cli.types import Usage
from strands_cli.types.spec import Budgets

_KEPT = "What is finished is kept."


class Ledger:
    """Counts what all steps of a run spend together."""

    def __init__(self, budgets: Budgets, stop: Callable[[StrandsError], None]) -> None:
        self._budgets = budgets
        self._stop = stop
        self.steps = 0
        self.usage = Usage()

    def begin_step(self) -> None:
        most = self._budgets.max_steps
        if most is not None and self.steps >= most:
            raise BudgetExceeded(
                f"The run has made its {most} {'step' if most == 1 else 'steps'}, and is not done.",
                hint=f"{_KEPT} Raise runtime.budgets.max_steps to let it go on.",
            )
        self.steps += 1

    def spend(self, usage: Usage) -> None:
        self.usage += usage

    def settle(self) -> None:
        """Ends the run where more tokens have been used than it may use."""
        most = self._budgets.max_tokens
        if most is not None and self.usage.total_tokens > most:
            self._stop(
                BudgetExceeded(
                    f"The run has used {self.usage.total_tokens} tokens, of {most} that it may use.",
                    hint=f"{_KEPT} Raise runtime.budgets.max_tokens to let it go on.",
                )
            )

    def end_time(self) -> None:
        """The seconds are over."""
        self._stop(
            BudgetExceeded(
                f"The run has taken its {self._budgets.max_duration_s:g} seconds, and is not done.",
                hint=f"{_KEPT} Raise runtime.budgets.max_duration_s to let it go on.",
            )
        )
