"""Messages that are cheap to copy.

The SDK copies the whole conversation twice for each request, with `copy.deepcopy`, which is most of what a
long conversation costs. A message is JSON, and JSON can be copied much faster than anything.
"""

from copy import deepcopy
from typing import Any, cast

from strands.hooks import MessageAddedEvent
from strands.types.content import Message

_ATOMS = frozenset({str, int, float, bool, type(None), bytes})


class QuickMessage(dict[str, Any]):
    """A message like any other, which says itself how it is copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "QuickMessage":
        return QuickMessage({key: _copied(value, memo) for key, value in self.items()})


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _copied(inner, memo) for key, inner in value.items()}
    if kind is list:
        return [_copied(inner, memo) for inner in value]
    return deepcopy(value, memo)


def make_quick(event: MessageAddedEvent) -> None:
    """Puts a quick message in the place of the one that was added; a hook."""
    messages = event.agent.messages
    for index in range(len(messages) - 1, -1, -1):
        if messages[index] is event.message:
            messages[index] = cast(Message, QuickMessage(event.message))
            return
