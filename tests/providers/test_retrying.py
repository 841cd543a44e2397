"""Failures that may pass are tried again, in one place and as the workflow says; all others are told at once."""

import asyncio
import contextvars
import gc
import threading
import time
from typing import Any

import pytest
from strands import Agent
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.errors import ProviderError
from strands_cli.events import Event, ModelFinished, ModelRetried, ModelStarted, ModelText
from strands_cli.providers.choice import ModelChoice
from strands_cli.runtime.model_requests import STOPPED_TEXT, wait_seconds
from strands_cli.types.sections import FailurePolicy
from tests.fakes import Call, Pause, ScriptedModel, history_problems, tool_call
from tests.providers.asking import QUICK, STANDINS, Asking, choice_at, impatient
from tests.runtime.agents import codes
from tests.standins import Complaint, Cut, Hang, OpenAIStandin, Standin, Status

every_provider = pytest.mark.parametrize("provider", sorted(STANDINS))
SCRIPTED = ModelChoice("openai", "scripted")


# --- what is tried again ----------------------------------------------------------------------------------


@every_provider
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ((Status(429, "slow down"),), "is rate limiting (429): slow down."),
        ((Status(500, "oh"),), "failed (500): oh."),
        ((Status(503, "oh"),), "failed (503): oh."),
        ((Cut(),), "was lost: "),
        (("half an ", Cut()), "was lost: "),
    ],
)
def test_a_failure_that_may_pass_is_tried_again(provider: str, broken: tuple[Any, ...], reason: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(*broken).enqueue("fine")
        asking = Asking(choice_at(provider, standin))
        assert str(asking.ask()).strip() == "fine"
    assert len(standin.requests) == 2, "no client retries by itself"
    (retried,) = asking.heard(ModelRetried)
    assert retried.attempt == 1
    assert f"{provider} at {standin.origin}" in retried.reason
    assert reason in retried.reason
    assert [bool(event.error) for event in asking.heard(ModelFinished)] == [True, False]
    assert asking.agent.messages[-1]["content"] == [{"text": "fine"}]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # botocore leaves its socket open
@every_provider
def test_an_error_in_the_middle_of_an_answer_is_tried_again(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue("half ", tool_call("add", a=1), Complaint("I am full")).enqueue("fine")
        asking = Asking(choice_at(provider, standin))
        assert str(asking.ask()).strip() == "fine"
    assert "I am full" in asking.heard(ModelRetried)[0].reason
    del asking
    gc.collect()


@every_provider
def test_silence_has_an_end(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue("half ", Hang()).enqueue("fine")
        choice = choice_at(provider, standin)
        asking = Asking(choice, model=impatient(choice, 0.3))
        assert str(asking.ask()).strip() == "fine"
    assert "did not answer in time" in asking.heard(ModelRetried)[0].reason


@pytest.mark.parametrize("provider", ["anthropic", "bedrock", "openai"])
def test_what_came_before_a_failure_is_void(provider: str) -> None:
    """Neither the call of the first attempt is made, nor is its input taken for that of the second."""
    with STANDINS[provider]() as standin:
        standin.enqueue("half ", Call("add", {"a": 40}, id="lost"), Cut())
        standin.enqueue("whole ", Call("add", '{"a": ', id="kept")).enqueue("done")
        asking = Asking(choice_at(provider, standin))
        asking.ask()
    first, results = asking.agent.messages[1]["content"], asking.agent.messages[2]["content"]
    assert [block["text"].strip() for block in first if "text" in block] == ["whole"]
    assert [block["toolUse"]["toolUseId"] for block in first if "toolUse" in block] == ["kept"]
    assert codes([block["toolResult"] for block in results]) == ["input_malformed"]
    assert history_problems(asking.agent.messages) == []
    kinds = [type(event) for event in asking.events if not isinstance(event, ModelText)]
    attempt = [ModelStarted, ModelFinished]
    assert kinds == [*attempt, ModelRetried, *attempt, *attempt]


# --- giving up --------------------------------------------------------------------------------------------


@every_provider
def test_a_provider_that_goes_on_failing_is_given_up(provider: str) -> None:
    with STANDINS[provider]() as standin:
        for _ in range(5):
            standin.enqueue(Status(500, "out of order"))
        asking = Asking(choice_at(provider, standin))
        with pytest.raises(ProviderError) as raised:
            asking.ask()
    assert len(standin.requests) == 1 + QUICK.retries
    assert raised.value.message == (
        f"{provider} at {standin.origin} failed (500): out of order. Gave up after 3 attempts."
    )
    assert raised.value.__cause__ is not None
    assert [event.attempt for event in asking.heard(ModelRetried)] == [1, 2]


@every_provider
def test_a_provider_that_is_down_is_named(provider: str) -> None:
    with STANDINS[provider]() as standin:
        choice = choice_at(provider, standin)
    asking = Asking(choice)
    with pytest.raises(ProviderError) as raised:
        asking.ask()
    where = f"{provider} at {standin.origin}"
    assert (
        raised.value.message
        == f"Cannot connect to {where}: nothing is listening there. Gave up after 3 attempts."
    )
    assert raised.value.hint


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (Status(400, "nonsense"), ""),
        (Status(401, "who are you"), "Check OPENAI_API_KEY."),
        (Status(403, "not you"), "Check OPENAI_API_KEY."),
        (Status(404, "no such model"), "Is 'some-model' the right model_id, and the host the right one?"),
    ],
)
def test_what_will_not_pass_is_told_at_once(status: Status, hint: str) -> None:
    with OpenAIStandin() as standin:
        standin.enqueue(status)
        asking = Asking(choice_at("openai", standin))
        with pytest.raises(ProviderError) as raised:
            asking.ask()
    assert len(standin.requests) == 1
    assert f"({status.code}): {status.text}." in raised.value.message
    assert raised.value.hint == hint


def test_a_failure_after_some_turns_ends_with_the_same_error() -> None:
    with OpenAIStandin() as standin:
        standin.enqueue(tool_call("add", a=1)).enqueue(Status(401, "expired"))
        with pytest.raises(Exception, match="expired") as raised:
            Asking(choice_at("openai", standin)).ask()
    error = raised.value
    assert isinstance(getattr(error, "original_exception", error), ProviderError)


def test_no_retries_means_one_attempt() -> None:
    with OpenAIStandin() as standin, pytest.raises(ProviderError) as raised:
        Asking(choice_at("openai", standin.enqueue(Status(500))), policy=FailurePolicy(retries=0)).ask()
    assert "Given up" not in raised.value.message


def test_a_bug_is_no_failure_of_a_provider() -> None:
    asking = Asking(SCRIPTED, model=ScriptedModel().enqueue(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError, match="ours"):
        asking.ask()
    assert asking.heard(ModelRetried) == []


@every_provider
def test_a_conversation_that_is_too_long_is_left_to_whoever_can_shorten_it(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Status(400, "prompt is too long: the context length is 10"))
        asking = Asking(choice_at(provider, standin))
        asking.agent.conversation_manager = Unbending()
        with pytest.raises(ContextWindowOverflowException):
            asking.ask()
    assert len(standin.requests) == 1


class Unbending:
    """A conversation that nobody shortens."""

    def apply_management(self, agent: Agent, **_: Any) -> None:
        """Leaves it as it is."""

    def reduce_context(self, agent: Agent, e: Exception | None = None, **_: Any) -> None:
        assert e is not None
        raise e


# --- waiting ----------------------------------------------------------------------------------------------


@every_provider
def test_a_provider_is_given_the_time_that_it_asks_for(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Status(429, headers={"Retry-After": "0.4"})).enqueue("fine")
        asking = Asking(choice_at(provider, standin))
        asking.ask()
    first, second = standin.requests
    assert second.at - first.at >= 0.4
    assert asking.heard(ModelRetried)[0].wait_seconds == 0.4


@every_provider
def test_a_provider_that_asks_for_too_much_time_is_given_up(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Status(429, "tomorrow", headers={"Retry-After": "86400"}))
        with pytest.raises(ProviderError) as raised:
            Asking(choice_at(provider, standin)).ask()
    assert raised.value.message.endswith("is rate limiting (429): tomorrow. It asks for a wait of 86400 s.")
    assert "max_wait_s" in raised.value.hint


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        ("constant", [2, 2, 2, 2, 2]),
        ("exponential", [2, 4, 8, 10, 10]),
        ("jitter", [1, 2, 4, 5, 5]),
    ],
)
def test_how_the_waits_grow(backoff: Any, waits: list[float]) -> None:
    policy = FailurePolicy(backoff=backoff, wait_s=2, max_wait_s=10)
    assert [wait_seconds(policy, attempt, None, lambda: 0.5) for attempt in range(1, 6)] == waits


@pytest.mark.parametrize(("asked", "wait"), [(0.5, 2), (7, 7), (10, 10), (10.5, None)])
def test_the_longer_of_the_two_waits_counts(asked: float, wait: float | None) -> None:
    assert wait_seconds(FailurePolicy(wait_s=2, max_wait_s=10), 1, asked, lambda: 1.0) == wait


# --- stopping ---------------------------------------------------------------------------------------------


def stopped_after(asking: Asking, seconds: float, asked: Standin | ScriptedModel) -> tuple[Any, float]:
    """Asks, and stops the run some seconds after the first request has arrived."""

    def stop() -> None:
        deadline = time.monotonic() + 30
        while not asked.requests and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(seconds)
        asking.cancel.set()

    started = time.monotonic()
    stopper = threading.Thread(target=stop)
    stopper.start()
    result = asking.ask()
    stopper.join()
    return result, time.monotonic() - started


def test_a_run_that_is_stopped_does_not_wait_for_the_next_attempt() -> None:
    with OpenAIStandin() as standin:
        standin.enqueue(Status(500))
        asking = Asking(choice_at("openai", standin), policy=FailurePolicy(wait_s=30))
        result, seconds = stopped_after(asking, 0.3, standin)
    assert (result.stop_reason, str(result).strip()) == ("cancelled", STOPPED_TEXT)
    assert len(standin.requests) == 1
    assert seconds < 20


@every_provider
def test_a_model_that_hangs_is_left_when_the_run_is_stopped(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue("half ", Hang())
        choice = choice_at(provider, standin)
        # Only botocore needs an end of its own: its thread is waited for when the loop ends.
        asking = Asking(choice, model=impatient(choice, 3.0 if provider == "bedrock" else 300.0))
        result, seconds = stopped_after(asking, 0.5, standin)
    assert result.stop_reason == "cancelled"
    assert seconds < 15
    (finished,) = asking.heard(ModelFinished)
    assert (finished.stop_reason, finished.error) == ("cancelled", "")
    assert finished.seconds < 10


# --- what a listener rests on -----------------------------------------------------------------------------

depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=0)


class Tracing:
    """A listener that keeps something in the context between the two events, as a tracer does."""

    def __init__(self) -> None:
        self.tokens: list[contextvars.Token[int]] = []
        self.tasks: list[Any] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, ModelStarted):
            self.tasks.append(asyncio.current_task())
            self.tokens.append(depth.set(depth.get() + 1))
        elif isinstance(event, ModelFinished):
            assert asyncio.current_task() is self.tasks[-1]
            depth.reset(self.tokens.pop())  # raises in any other context


@pytest.mark.parametrize("how", ["complete", "broken", "stopped"])
def test_a_request_ends_in_the_task_and_the_context_in_which_it_began(how: str) -> None:
    tracing, model = Tracing(), ScriptedModel()
    if how == "broken":
        model.enqueue(ConnectionResetError("gone"))
    model.enqueue("Hello", Pause(30 if how == "stopped" else 0), " you")
    asking = Asking(SCRIPTED, model=model, listener=tracing)
    stopped_after(asking, 0.5, model)
    assert tracing.tokens == []
    assert len(tracing.tasks) == (2 if how == "broken" else 1)
