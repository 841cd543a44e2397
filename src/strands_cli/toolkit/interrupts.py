"""The pause that a body asks for when only a human can go on."""

from typing import Any


class InterruptRequested(BaseException):
    """Ends a call until a human has answered; the call is then made again and gets the answer.

    Not an Exception, so that a body's own `except Exception` does not swallow it: it is no failure.
    """

    def __init__(self, name: str, reason: Any = None, *, pending: Any = None) -> None:
        super().__init__(name)
        self.name = name
        self.reason = reason
        self.pending = pending
        """What the engine that asks the human knows this question by; only that engine looks at it."""
