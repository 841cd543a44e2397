"""Why something cannot be done, and what to do about it."""


class Refusal(Exception):
    """A reason and a remedy, both for people. Whoever catches it knows what they are about, and where."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy
