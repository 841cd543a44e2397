"""A request to a model: the stages that it passes, from the outside in, are listed in
`strands_adapter.add_request_stages`.

It is made again where that may help, not made in a run that is over, ended after a stop, and reported.
"""

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import msgspec
from opentelemetry.trace import get_current_span
from strands import Agent
from strands.agent import AgentResult
from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.agent import AgentInput, Limits
from strands.types.content import Messages
from strands.types.events import ModelStopReason, TypedEvent
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ProviderError
from strands_cli.events import Listener, ModelFinished, ModelRetried, ModelStarted, ModelText
from strands_cli.providers.choice import PROVIDERS, ModelChoice, TakesMedia
from strands_cli.providers.model_failures import failure_of
from strands_cli.runtime.model_output import repaired_events
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.run_results import Usage
from strands_cli.types.sections import FailurePolicy
from strands_cli.types.settings_file import Price

STOPPED_TEXT = "Stopped before the answer was complete."
_STOP_SECONDS = 2.0
"""How long a model may take to end after a stop, before it is abandoned."""
_END = object()
_STILL_RUNS = "already running"
"""Python's message for a generator that is closed while another task waits in it."""
_logger = logging.getLogger("strands_cli.models")


def stopped_answer() -> ModelStopReason:
    """What takes the place of a model's answer in a run that is stopped."""
    return ModelStopReason(
        stop_reason="cancelled",
        message={"role": "assistant", "content": [{"text": STOPPED_TEXT}]},
        usage={"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
        metrics={"latencyMs": 0},
    )


async def until_stopped(
    events: AsyncGenerator[TypedEvent, None], cancel: Cancellation
) -> AsyncGenerator[TypedEvent, None]:
    """A model's events; after a stop no more of them, but an answer that says so.

    The SDK looks for a stop between two chunks only, and a model may be silent for minutes before its first.
    The whole stream therefore runs in one task of ours: the spans that it opens it has to close in the same
    context.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def read_all() -> None:
        try:
            async for event in events:
                queue.put_nowait(event)
        finally:
            asyncio.get_running_loop().call_soon(queue.put_nowait, _END)  # when this task counts as done

    def retrieve_error(pump: "asyncio.Task[None]") -> None:
        """What a stopped model raised, so that asyncio does not log it."""
        if not pump.cancelled():
            pump.exception()

    pump = asyncio.create_task(read_all())
    is_answered = False
    try:
        with cancel.on_set_in_loop(queue.put_nowait, _END):
            while (event := await queue.get()) is not _END:
                is_answered = is_answered or isinstance(event, ModelStopReason)
                yield event
        if not is_answered and cancel.is_set():
            yield stopped_answer()
        elif pump.done():
            pump.result()  # what the model raised is raised here
    finally:
        pump.cancel()
        pump.add_done_callback(retrieve_error)
        await asyncio.wait({pump}, timeout=_STOP_SECONDS)


async def abandon_unresponsive(
    context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
) -> AsyncGenerator[TypedEvent, None]:
    """Abandons a model that does not end in time after a stop.

    A middleware around the one that uses `until_stopped`. The SDK closes what a middleware has read from,
    and that fails where the pump still waits in it: it would hide why the run ends.
    """
    try:
        async with aclosing(next_fn(context)) as events:
            async for event in events:
                yield event
    except RuntimeError as error:
        if _STILL_RUNS not in str(error):
            raise
        _logger.debug("a model does not end after a stop, and is abandoned")


class Retrying:
    """The one place where requests to models are repeated.

    `retry` is a middleware of InvokeModelStage, and the outermost one, added before `equip`: a middleware
    further inside sees one attempt only. The SDK collects a message from each attempt anew, and takes the
    last one. It must not retry itself: `Agent(retry_strategy=None)`.
    """

    def __init__(
        self,
        policy: FailurePolicy,
        emit: Listener,
        step: str,
        cancel: Cancellation,
        choice: ModelChoice,
        *,
        may_ask: Callable[[], bool] | None = None,
    ) -> None:
        """`may_ask` is asked before each attempt; one that it forbids is answered as after a stop."""
        self._policy, self._emit, self._step = policy, emit, step
        self._cancel, self._choice, self._may_ask = cancel, choice, may_ask

    async def retry(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        """The answer of the first attempt that succeeds; ProviderError if none does."""
        replace_unreadable(context.messages, self._choice.provider)
        attempt = 1
        while self._may_ask is None or self._may_ask():
            try:
                async for event in next_fn(context):
                    yield event
            except Exception as error:  # noqa: BLE001 - each client raises classes of its own
                wait = self._wait_after(error, attempt)
            else:
                return
            if await self._cancel.wait(wait):
                break
            attempt += 1
        yield stopped_answer()

    def _wait_after(self, error: Exception, attempt: int) -> float:
        """How long to wait before the next attempt; raises if there is to be none."""
        failure = failure_of(error, self._choice)
        if failure.kind == "unknown":
            raise error
        if failure.overflow:
            # The SDK makes the conversation shorter when it sees this very class.
            if isinstance(error, ContextWindowOverflowException):
                raise error
            raise ContextWindowOverflowException(failure.message) from error
        wait = wait_seconds(self._policy, attempt, failure.retry_after_seconds, random.random)
        if not failure.retryable or wait is None or attempt > self._policy.retries:
            message, hint = failure.message, failure.hint
            if failure.retryable and wait is None:
                message += f" It asks for a wait of {failure.retry_after_seconds:g} s."
                hint = "Try later, or raise runtime.failure_policy.max_wait_s."
            elif attempt > 1:
                message += f" Gave up after {attempt} attempts."
            raise ProviderError(message, hint=hint) from error
        self._emit(ModelRetried(self._step, attempt, wait, failure.message))
        return wait


def replace_unreadable(messages: Messages, provider: str) -> None:
    """Puts a text in place of each image, document and video in the results of tools that the provider does
    not take; its client would end the run."""
    takes = PROVIDERS[provider].takes
    results = [
        block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block
    ]
    for result in results:
        content = cast(list[dict[str, Any]], result["content"])
        content[:] = [_readable_block(block, provider, takes) for block in content]


def _readable_block(block: dict[str, Any], provider: str, takes: TakesMedia) -> dict[str, Any]:
    kind = next((kind for kind in ("image", "document", "video") if kind in block), "")
    if not kind:
        return block
    media = block[kind]
    if takes(kind, media):
        # A name is what clients read, and what tools may leave out.
        return {kind: {"name": kind, **media}} if kind == "document" else block
    name = f" {media['name']!r}" if media.get("name") else ""
    data = media.get("source", {}).get("bytes")
    form = media.get("format", "unknown format")
    size = f", {len(data):,} bytes" if isinstance(data, bytes) else ""
    return {
        "text": f"[The tool returned the {kind}{name} ({form}{size}), which you cannot see: "
        f"{provider} does not accept it in a tool result.]"
    }


def wait_seconds(
    policy: FailurePolicy, attempt: int, retry_after: float | None, random: Callable[[], float]
) -> float | None:
    """The wait after an attempt, counted from 1; None if the provider asks for more than is allowed."""
    if retry_after is not None and retry_after > policy.max_wait_s:
        return None
    growth = 1 if policy.backoff == "constant" else 2 ** (attempt - 1)
    backoff = min(policy.wait_s * growth, policy.max_wait_s)
    if policy.backoff == "jitter":
        backoff *= random()
    return max(backoff, retry_after or 0.0)


class Reporting:
    """One agent's requests, as events of its step.

    `report` is a middleware of InvokeModelStage, and the innermost one: it then sees each attempt by itself,
    and runs in the task in which the answer is read, so that a listener may keep a span open in between.
    """

    def __init__(
        self, emit: Listener, step: str, model: str, price: Price | None = None, *, is_replayed: bool = False
    ) -> None:
        self._emit, self._step, self._model, self._price = emit, step, model, price
        self._is_replayed = is_replayed

    async def report(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        started = time.monotonic()
        usage, stop_reason, is_complete = Usage(), "", False
        self._emit(ModelStarted(self._step, self._model))
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s %s", self._step, _request_text(context))
        try:
            request = context if self._is_replayed else _without_span_events(context)
            async for event in repaired_events(next_fn(request)):
                if isinstance(event, ModelStopReason):
                    stop_reason, _, counted, _ = event["stop"]
                    tokens = counted.get("inputTokens") or 0, counted.get("outputTokens") or 0
                    usage = Usage(*tokens, self._price.cost(*tokens) if self._price else None)
                chunk = event.get("event") or {}
                if text := chunk.get("contentBlockDelta", {}).get("delta", {}).get("text"):
                    self._emit(ModelText(self._step, text))
                yield event
            is_complete = True
        finally:
            cause = None if is_complete else sys.exc_info()[1]
            is_stopped = cause is None or isinstance(cause, asyncio.CancelledError | GeneratorExit)
            error = "" if cause is None or is_stopped else failure_of(cause).message
            stop_reason = stop_reason or ("" if is_complete or error else "cancelled")
            seconds = time.monotonic() - started
            self._emit(ModelFinished(self._step, self._model, seconds, usage, stop_reason, error))


def _request_text(context: InvokeModelContext) -> str:
    """What is asked, for the log: how much of it there is, and the last message."""
    tools = ", ".join(str(spec["name"]) for spec in context.tool_specs) or "none"
    last = json.dumps(context.messages[-1]["content"], ensure_ascii=False, default=str)
    return f"request of {len(context.messages)} messages, tools: {tools}, last: {shorten_text(last, _LOGGED)}"


_LOGGED = 2000
"""How many characters of a message are logged."""


def _copied(value: Any) -> Any:
    """A deep copy, ten times as quick as `deepcopy` for JSON and bytes."""
    try:
        return msgspec.to_builtins(value, builtin_types=(bytes, bytearray))
    except (TypeError, ValueError):
        return deepcopy(value)


class QuickHistory(list[Any]):
    """Messages with a cheaper deepcopy: the SDK copies all of them for each request."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "QuickHistory":
        return QuickHistory(_copied([*self]))


class _UnspannedMessages(list[Any]):
    """An empty list, and deep copies of the messages for whoever asks for a deep copy.

    The SDK writes all messages as JSON into the span of each request, even if nothing records that span, and
    gives the model a deep copy.
    """

    def __init__(self, messages: Messages) -> None:
        super().__init__()
        self._messages = messages

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _copied(self._messages)


def _without_span_events(context: InvokeModelContext) -> InvokeModelContext:
    """The request for the model itself: no span has its messages, unless one is recorded."""
    if get_current_span().is_recording():
        return context
    return context.replace(messages=_UnspannedMessages(context.messages))


TURNS_PER_SLICE = 25
"""Well below the end, and cheap: what a turn costs grows with the number of turns before it in its slice."""


async def invoke_in_slices(
    agent: Agent,
    prompt: AgentInput = None,
    *,
    turns: int = TURNS_PER_SLICE,
    limits: Limits | None = None,
    **options: Any,
) -> AgentResult:
    """Like `agent.invoke_async`, for any number of turns."""
    result: Any = None
    async for event in stream_in_slices(agent, prompt, turns=turns, limits=limits, **options):
        result = event.get("result")
    return cast(AgentResult, result)


async def stream_in_slices(
    agent: Agent,
    prompt: AgentInput = None,
    *,
    turns: int = TURNS_PER_SLICE,
    limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[dict[str, Any]]:
    """Like `agent.stream_async`, for any number of turns. `limits` apply to all slices together.

    Only the last result is an event, and it comes last. Hooks for the start and the end of an invocation are
    called for each slice.
    """
    left = cast(dict[str, int], dict(limits or {}))
    result: AgentResult | None = None
    while result is None or (result.stop_reason == "limit_turns" and not _reached_limit(left)):
        bounds = cast(Limits, {**left, "turns": min(turns, left.get("turns", turns))})
        async for event in agent.stream_async(prompt, limits=bounds, **options):
            if isinstance(event.get("result"), AgentResult):
                result = event["result"]
            else:
                yield event
        assert result is not None, "a stream ends with its result"
        left = _limits_left_after(result, left)
        prompt = None
    if result.stop_reason == "limit_turns":
        result = replace(result, stop_reason=cast(Any, f"limit_{_reached_limit(left)}"))
    yield {"result": result}


def _reached_limit(left: dict[str, int]) -> str:
    """The limit that is used up, in the order in which the SDK looks at them; empty if none is."""
    names = ("turns", "total_tokens", "output_tokens")
    return next((name for name in names if left.get(name, 1) <= 0), "")


def _limits_left_after(result: AgentResult, left: dict[str, int]) -> dict[str, int]:
    spent = result.metrics.latest_agent_invocation
    if spent is None:
        return left
    used = {
        "turns": len(spent.cycles),
        "total_tokens": spent.usage["totalTokens"],
        "output_tokens": spent.usage["outputTokens"],
    }
    return {name: count - used[name] for name, count in left.items()}
