"""From a run to its listeners: what is secret does not pass, and what fails there stays there."""

import logging
from collections.abc import Sequence

from strands_cli.events import Event, Listener, ModelFinished, ModelRetried, ModelText
from strands_cli.secrets import RedactedStream, Redactor

_logger = logging.getLogger("strands_cli.runs")


class Emitter:
    """Tells every listener what a run says, without the run's secrets."""

    def __init__(self, listeners: Sequence[Listener], redactor: Redactor) -> None:
        self._listeners = tuple(listeners)
        self._redactor = redactor
        self._streams: dict[str, RedactedStream] = {}
        self._failed: set[int] = set()

    def __call__(self, event: Event) -> None:
        if not self._redactor:
            self._tell(event)
        elif isinstance(event, ModelText):
            stream = self._streams.setdefault(event.step, self._redactor.stream())
            self._tell_text(event.step, stream.feed(event.text))
        else:
            if isinstance(event, ModelFinished | ModelRetried) and event.step in self._streams:
                self._tell_text(event.step, self._streams.pop(event.step).end())
            self._tell(self._redactor.value(event))

    def _tell_text(self, step: str, text: str) -> None:
        if text:
            self._tell(ModelText(step, text))

    def _tell(self, event: Event) -> None:
        for place, listener in enumerate(self._listeners):
            try:
                listener(event)
            except Exception:  # a listener that fails is its owner's trouble, not the run's
                if place not in self._failed:
                    self._failed.add(place)
                    _logger.exception("a listener failed at %s", type(event).__name__)
