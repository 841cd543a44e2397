"""Asking a model again where its provider failed in a way that may pass."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable

from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.events import TypedEvent
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.errors import ProviderError
from strands_cli.events import Listener, ModelRetried
from strands_cli.providers.choice import ModelChoice
from strands_cli.providers.model_failures import Failure, failure_of
from strands_cli.runtime.stopping import stopped_answer
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.spec import FailurePolicy


class Retrying:
    """The one place where requests to models are repeated.

    `retry` is a middleware of InvokeModelStage, and the outermost one, added before `equip`: whoever listens
    to a stream further inside hears one attempt only. The SDK collects a message from each attempt anew, and
    takes the last one. It must not retry itself: `Agent(retry_strategy=None)`.
    """

    def __init__(
        self,
        policy: FailurePolicy,
        emit: Listener,
        step: str,
        cancel: Cancellation,
        choice: ModelChoice | None = None,
    ) -> None:
        self._policy, self._emit, self._step = policy, emit, step
        self._cancel, self._choice = cancel, choice

    async def retry(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        """The answer of the first attempt that succeeds; ProviderError where none does."""
        attempt = 1
        while True:
            try:
                async for event in next_fn(context):
                    yield event
            except Exception as error:  # noqa: BLE001 - each client raises classes of its own
                wait = self._wait_after(error, attempt)
            else:
                return
            await _sleep(wait, self._cancel)
            if self._cancel.is_set():
                yield stopped_answer()
                return
            attempt += 1

    def _wait_after(self, error: Exception, attempt: int) -> float:
        """How long to wait before the next attempt; raises where there is to be none."""
        failure = failure_of(error, self._choice)
        if failure.kind == "unknown":
            raise error
        if failure.overflow:
            # The SDK makes the conversation shorter when it sees this very class.
            raise error if isinstance(error, ContextWindowOverflowException) else _overflow(failure, error)
        wait = wait_seconds(self._policy, attempt, failure.retry_after_seconds, random.random)
        if not failure.retryable or wait is None or attempt > self._policy.retries:
            raise _given_up(failure, attempt, wait) from error
        self._emit(ModelRetried(self._step, attempt, wait, failure.message))
        return wait


def wait_seconds(
    policy: FailurePolicy, attempt: int, retry_after: float | None, random: Callable[[], float]
) -> float | None:
    """The wait after an attempt, counted from 1; None where the provider asks for more than is allowed."""
    if retry_after is not None and retry_after > policy.max_wait_s:
        return None
    growth = 1 if policy.backoff == "constant" else 2 ** (attempt - 1)
    backoff = min(policy.wait_s * growth, policy.max_wait_s)
    if policy.backoff == "jitter":
        backoff *= random()
    return max(backoff, retry_after or 0.0)


def _given_up(failure: Failure, attempt: int, wait: float | None) -> ProviderError:
    message, hint = failure.message, failure.hint
    if failure.retryable and wait is None:
        message += f" It asks to wait {failure.retry_after_seconds:g} s."
        hint = "Try later, or raise runtime.failure_policy.max_wait_s."
    elif attempt > 1:
        message += f" Given up after {attempt} attempts."
    return ProviderError(message, hint=hint)


def _overflow(failure: Failure, error: Exception) -> ContextWindowOverflowException:
    overflow = ContextWindowOverflowException(failure.message)
    overflow.__cause__ = error
    return overflow


async def _sleep(seconds: float, cancel: Cancellation) -> None:
    """Waits, but not for somebody who wants the end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def end() -> None:
        loop.call_soon_threadsafe(ended.set)

    cancel.add_callback(end)
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        pass
    finally:
        cancel.remove_callback(end)
