"""What the failures of each real client mean."""

import asyncio
import inspect
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import ModuleType
from typing import Any

import anthropic
import botocore.exceptions
import botocore.parsers
import httpcore
import httpx
import ollama
import openai
import pytest
from google.genai import errors as google_errors
from strands.types.exceptions import ContextWindowOverflowException, EventLoopException

from strands_cli.providers.choice import PROVIDERS, ModelChoice, build_model
from strands_cli.providers.model_failures import RETRYABLE, Failure, class_names, error_classes, failure_of
from tests.providers.asking import STANDINS, choice_at
from tests.standins import Status

OLLAMA = ModelChoice("ollama", "tiny", "http://user:s3cret@localhost:11434/api?token=s3cret")


def failure_at(choice: ModelChoice) -> Failure:
    """What the provider's own class raises, judged."""

    async def ask() -> Failure:
        question: Any = [{"role": "user", "content": [{"text": "hi"}]}]
        with pytest.raises(Exception) as told:  # noqa: PT011 - each client has classes of its own
            async for _ in build_model(choice).stream(question):
                pass
        return failure_of(told.value, choice)

    return asyncio.run(ask())


def raised(error: BaseException, *causes: BaseException) -> BaseException:
    """An exception with the exceptions that caused it, the nearest first."""
    current = error
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return error


# --- every client -----------------------------------------------------------------------------------------

MEANINGS = {
    400: ("refused", False),
    401: ("credentials", False),
    403: ("credentials", False),
    404: ("not_found", False),
    408: ("timeout", True),
    409: ("busy", True),
    422: ("refused", False),
    429: ("throttled", True),
    500: ("server", True),
    502: ("server", True),
    503: ("server", True),
    529: ("server", True),
}


@pytest.mark.parametrize("provider", sorted(STANDINS))
def test_what_each_status_of_each_client_means(provider: str) -> None:
    found = {}
    with STANDINS[provider]() as standin:
        for status in MEANINGS:
            standin.enqueue(Status(status, "well, no"))
            failure = failure_at(choice_at(provider, standin))
            found[status] = (failure.kind, failure.retryable)
            assert failure.message.startswith(f"{provider} at {standin.origin} ")
            assert failure.message.endswith(": well, no.") or failure.kind == "timeout", failure.message
            assert "\n" not in failure.message
    assert found == MEANINGS


APART = {
    # These speak of other things than a request to a model.
    "ContinuationInterruptedError",
    "InvalidWebhookSignatureError",
    "MissingServiceIdError",
    "UndefinedModelAttributeError",
}


def exceptions_of(module: ModuleType) -> list[type[Exception]]:
    members = [getattr(module, name) for name in dir(module)]
    return [
        kind
        for kind in members
        if inspect.isclass(kind) and issubclass(kind, Exception) and not issubclass(kind, Warning)
    ]


@pytest.mark.parametrize(
    "module",
    [openai, anthropic, ollama, google_errors, httpx, botocore.exceptions],
    ids=lambda module: module.__name__,
)
def test_every_exception_of_every_client_is_known(module: ModuleType) -> None:
    known = frozenset().union(*error_classes().values())
    unknown = [
        kind.__name__
        for kind in exceptions_of(module)
        if known.isdisjoint(class_names(kind)) and kind.__name__ not in APART
    ]
    assert unknown == []


def test_every_class_that_is_named_exists() -> None:
    packages = [openai, anthropic, ollama, google_errors, httpx, botocore.exceptions, botocore.parsers]
    real = {name for module in packages for kind in exceptions_of(module) for name in class_names(kind)}
    roots = ("anthropic.", "botocore.", "google.", "httpx.", "ollama.", "openai.")
    named = {name for name in frozenset().union(*error_classes().values()) if name.startswith(roots)}
    assert named - real == set()


# --- connections ------------------------------------------------------------------------------------------


def test_a_host_of_no_name_is_told_without_what_a_url_may_hide() -> None:
    error = raised(httpx.ConnectError("x"), httpcore.ConnectError(), socket.gaierror(-2, "Name unknown"))
    failure = failure_of(error, OLLAMA)
    assert failure.message == "Cannot connect to ollama at http://localhost:11434: host not found."
    assert "ollama serve" in failure.hint
    assert failure.retryable


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    error = raised(
        httpx.ConnectError("x"), httpcore.ConnectError(), ssl.SSLCertVerificationError("self-signed")
    )
    failure = failure_of(error, OLLAMA)
    assert (failure.kind, failure.retryable) == ("trust", False)
    assert "SSL_CERT_FILE" in failure.hint


def test_without_a_choice_the_host_is_read_from_the_request() -> None:
    request = httpx.Request("POST", "https://models.example:8443/v1/chat?key=s3cret")
    failure = failure_of(EventLoopException(httpx.ReadError("reset", request=request)))
    assert failure.message == (
        "The connection to the model's provider at https://models.example:8443 was lost: reset."
    )


def test_credentials_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with STANDINS["bedrock"]() as standin:
        failure = failure_at(choice_at("bedrock", standin))
    assert (failure.kind, failure.retryable) == ("credentials", False)
    assert "aws sts get-caller-identity" in failure.hint
    assert standin.requests == []


# --- meanings ---------------------------------------------------------------------------------------------


def test_a_model_that_ollama_does_not_have_can_be_fetched() -> None:
    failure = failure_of(ollama.ResponseError('{"error": "model \'tiny\' not found"}', 404), OLLAMA)
    assert (
        failure.message
        == "ollama at http://localhost:11434 returned not found (404): model 'tiny' not found."
    )
    assert failure.hint == "Fetch the model: ollama pull tiny"


def test_the_default_model_is_named_where_none_is_chosen() -> None:
    failure = failure_of(ollama.ResponseError("not found", 404), ModelChoice("ollama"))
    assert failure.hint == f"Fetch the model: ollama pull {PROVIDERS['ollama'].default_model}"


def test_a_choice_is_shown_without_the_password_of_its_host() -> None:
    shown = str(ModelChoice("openai", "m", "https://ada:s3cret@models.example:8443/v1"))
    assert shown == "openai m at https://models.example:8443/v1"


def test_an_account_without_credit_is_not_asked_again() -> None:
    body = {"error": {"message": "no credit", "type": "insufficient_quota", "code": "insufficient_quota"}}
    with STANDINS["openai"]() as standin:
        standin.refusal = lambda status: ({}, body)  # type: ignore[method-assign]
        failure = failure_at(choice_at("openai", standin.enqueue(Status(429))))
    assert (failure.kind, failure.retryable) == ("throttled", False)
    assert failure.hint == "The account has no credit left."


def test_a_key_that_google_does_not_know_is_a_matter_of_credentials() -> None:
    with STANDINS["gemini"]() as standin:
        failure = failure_at(
            choice_at("gemini", standin.enqueue(Status(400, "API key not valid. Pass one.")))
        )
    assert (failure.kind, failure.hint) == ("credentials", "Check GEMINI_API_KEY or GOOGLE_API_KEY.")


def test_a_model_that_bedrock_does_not_have_is_told_as_such() -> None:
    with STANDINS["bedrock"]() as standin:
        standin.enqueue(Status(400, "The provided model identifier is invalid."))
        failure = failure_at(choice_at("bedrock", standin))
    assert (failure.kind, failure.retryable) == ("not_found", False)


@pytest.mark.parametrize("provider", sorted(STANDINS))
def test_a_conversation_that_is_too_long_is_recognised(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Status(400, "This model's maximum context length is 10 tokens"))
        failure = failure_at(choice_at(provider, standin))
    assert (failure.overflow, failure.retryable) == (True, False)
    assert "context_policy" in failure.hint


def test_what_was_handled_before_does_not_count() -> None:
    error = ZeroDivisionError("a bug")
    error.__context__ = ContextWindowOverflowException("before")
    assert failure_of(error).kind == "unknown"


def test_an_answer_of_something_else_than_the_provider_makes_no_sense() -> None:
    failure = failure_of(json.JSONDecodeError("Expecting value", "<html>", 0), OLLAMA)
    assert (failure.kind, failure.retryable) == ("answer", True)


def test_a_bug_stays_a_bug() -> None:
    failure = failure_of(KeyError("x"))
    assert (failure.kind, failure.retryable) == ("unknown", False)
    assert "unknown" not in RETRYABLE


def test_a_long_text_is_cut() -> None:
    failure = failure_of(ollama.ResponseError("very\nlong " * 200, 500), OLLAMA)
    assert len(failure.message) < 400
    assert "\n" not in failure.message


# --- Retry-After ------------------------------------------------------------------------------------------


def wait_of(headers: dict[str, str]) -> float | None:
    response = httpx.Response(429, headers=headers, request=httpx.Request("POST", "http://x/"))
    return failure_of(openai.RateLimitError("slow", response=response, body=None)).retry_after_seconds


def test_the_wait_may_be_seconds_or_a_date_or_milliseconds() -> None:
    assert wait_of({"Retry-After": "12"}) == 12
    assert wait_of({"retry-after-ms": "250", "Retry-After": "1"}) == 0.25
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    wait = wait_of({"Retry-After": date})
    assert wait is not None
    assert 80 < wait <= 90
    assert wait_of({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
def test_a_wait_that_is_none_is_passed_over(text: str) -> None:
    assert wait_of({"Retry-After": text}) is None


def test_google_says_in_the_body_how_long_it_takes() -> None:
    details = [{"@type": "x"}, {"retryDelay": "soon"}, {"retryDelay": "34s"}]
    body = {"error": {"code": 429, "message": "slow", "details": details}}
    assert failure_of(google_errors.ClientError(429, body)).retry_after_seconds == 34


def test_every_provider_of_the_table_has_a_stand_in_but_the_embedded_one() -> None:
    assert PROVIDERS.keys() - STANDINS.keys() == {"local", "scripted"}
