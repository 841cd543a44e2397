"""What the listeners of this room share: they never fail a run, and they know what belongs to what."""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import msgspec

from strands_cli.events import Event, ToolFinished, ToolStarted

T = TypeVar("T")

_log = logging.getLogger("strands_cli.telemetry")


class Recorder:
    """A listener with one reaction for each kind of event that concerns it."""

    def __init__(self, reactions: Mapping[type, Callable[[Any], None]]) -> None:
        self._reactions = reactions
        self._has_failed = False

    def __call__(self, event: Event) -> None:
        reaction = self._reactions.get(type(event))
        if reaction is None:
            return
        try:
            reaction(event)
        except Exception:  # noqa: BLE001 - a run does not fail because it is watched, with others' processors
            level = logging.DEBUG if self._has_failed else logging.ERROR
            _log.log(level, "%s failed at %s", type(self).__name__, type(event).__name__, exc_info=True)
            self._has_failed = True


class _Frame(msgspec.Struct, frozen=True):
    owner: Any
    tool_id: str
    call_id: str
    record: Any


# The tool calls that are under way in this task, innermost last. A call starts and finishes in one task, and
# the calls that its body makes are in that task or in one made from it. Ids alone would not do: two calls of
# one tool by one body have the same.
_frames: ContextVar[tuple[_Frame, ...]] = ContextVar("strands_cli_tool_calls", default=())


class ToolCalls(Generic[T]):
    """What a listener has made of the tool calls around this place."""

    def innermost(self) -> T | None:
        return next((frame.record for frame in reversed(_frames.get()) if frame.owner is self), None)

    def begin(self, event: ToolStarted, record: T) -> None:
        _frames.set((*_frames.get(), _Frame(self, event.tool_id, event.call_id, record)))

    def end(self, event: ToolFinished) -> T | None:
        """What was made of the call that ends here; None for a call that began unseen."""
        frames = _frames.get()
        for at in reversed(range(len(frames))):
            frame = frames[at]
            if frame.owner is self and (frame.tool_id, frame.call_id) == (event.tool_id, event.call_id):
                _frames.set(frames[:at] + frames[at + 1 :])
                record: T = frame.record
                return record
        return None


class ModelCalls(Generic[T]):
    """What a listener has made of the requests that are under way, by step.

    They are found by the step's key: a request may start in one task and finish in another.
    """

    def __init__(self) -> None:
        self._open: dict[str, list[T]] = {}

    def begin(self, step: str, record: T) -> None:
        self._open.setdefault(step, []).append(record)

    def end(self, step: str) -> T | None:
        """What was made of the request that was last begun; None for one that began unseen."""
        calls = self._open.get(step)
        return calls.pop() if calls else None

    def forget(self, step: str) -> None:
        self._open.pop(step, None)
