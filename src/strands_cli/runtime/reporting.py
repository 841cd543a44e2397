"""Telling listeners what goes to a model and what comes from it."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.events import ModelStopReason, TypedEvent

from strands_cli.events import Listener, ModelFinished, ModelStarted, ModelText
from strands_cli.providers.model_failures import failure_of
from strands_cli.runtime.receiving import received
from strands_cli.types.results import Usage


class Reporting:
    """One agent's requests, as events of its step.

    `report` is a middleware of InvokeModelStage, and the innermost one: it then sees each attempt by itself,
    and runs in the task in which the answer is read, so that a listener may keep a span open in between.
    """

    def __init__(self, emit: Listener, step: str, model: str) -> None:
        self._emit, self._step, self._model = emit, step, model

    async def report(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        started = time.monotonic()
        usage, stop_reason, is_complete = Usage(), "", False
        self._emit(ModelStarted(self._step, self._model))
        try:
            async for event in received(next_fn(context)):
                if isinstance(event, ModelStopReason):
                    stop_reason, _, counted, _ = event["stop"]
                    usage = _usage(counted)
                elif text := _text(event.get("event")):
                    self._emit(ModelText(self._step, text))
                yield event
            is_complete = True
        finally:
            error = "" if is_complete else _why(sys.exc_info()[1])
            stop_reason = stop_reason or ("" if is_complete or error else "cancelled")
            seconds = time.monotonic() - started
            self._emit(ModelFinished(self._step, self._model, seconds, usage, stop_reason, error))


def _why(error: BaseException | None) -> str:
    """Why an answer is not complete; empty where somebody stopped it."""
    if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
        return ""
    return failure_of(error).message


def _usage(counted: Mapping[str, Any]) -> Usage:
    return Usage(counted.get("inputTokens") or 0, counted.get("outputTokens") or 0)


def _text(chunk: Any) -> str:
    delta = chunk.get("contentBlockDelta", {}).get("delta", {}) if chunk else {}
    return delta.get("text") or ""
