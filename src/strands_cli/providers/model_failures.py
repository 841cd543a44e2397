"""What a provider's failure means: one clear sentence, what helps, and whether trying again may.

It is read from the exceptions of the provider's client, without importing that client. Clients wrap each
other: the SDK's exception is caused by OpenAI's, that by httpx's, and that by the socket's.
"""

import errno
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from strands_cli.http_tools.pauses import requested_pause
from strands_cli.providers.choice import PROVIDERS, FailureKind, ModelChoice, with_default_model
from strands_cli.secrets import without_credentials

T = TypeVar("T")

RETRYABLE: frozenset[FailureKind] = frozenset(
    {"throttled", "busy", "server", "connection", "timeout", "answer"}
)
_TOO_DEEP = ("builtins.RecursionError",)
"""What reading JSON ends with that is nested without end."""
_UNUSABLE_ADDRESS = ("httpx.InvalidURL", "httpx.UnsupportedProtocol", "httpx.TooManyRedirects")
_COMMON: dict[FailureKind, tuple[str, ...]] = {
    "overflow": ("strands.ContextWindowOverflowException",),
    "trust": ("ssl.SSLCertVerificationError",),
    "credentials": (),
    "timeout": ("builtins.TimeoutError", "httpx.TimeoutException"),
    "answer": ("httpx.DecodingError", "json.JSONDecodeError", "pydantic_core.ValidationError", *_TOO_DEEP),
    "connection": (
        *("builtins.ConnectionError", "http.HTTPException", "httpx.StreamError", "httpx.TransportError"),
        "socket.gaierror",
    ),
    "throttled": ("strands.ModelThrottledException",),
    "server": (),
    "refused": (
        *("httpx.CookieConflict", "httpx.HTTPError", "strands.ProviderTokenCountError"),
        *_UNUSABLE_ADDRESS,
    ),
}
"""What exceptions mean that every client may raise, as `package.Name`. The first kind counts."""
_STATUSES: dict[int, FailureKind] = {
    401: "credentials",
    403: "credentials",
    404: "not_found",
    408: "timeout",
    409: "busy",
    425: "busy",
    429: "throttled",
}
_OVERFLOWING = (
    "context length",
    "context size",
    "context window",
    "exceeds the maximum number of tokens",
    "prompt is too long",
    "too many tokens",
)
_NO_SUCH_MODEL = ("model identifier is invalid", "model not found", "no such model")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    kind: FailureKind
    message: str
    """One sentence: who failed, and how."""
    hint: str = ""
    retryable: bool = False
    retry_after_seconds: float | None = None
    """How long the provider asks to wait before the next attempt."""

    @property
    def overflow(self) -> bool:
        """The conversation is longer than the model can read."""
        return self.kind == "overflow"


def failure_of(error: BaseException, choice: ModelChoice | None = None) -> Failure:
    """What a failed request to a model means; of the kind `unknown` where a provider has no part in it."""
    chain = ErrorChain(error)
    kind = _failure_kind(chain)
    if choice is not None and choice.provider in PROVIDERS:
        choice = with_default_model(choice)
    is_for_good = "insufficient_quota" in chain.words or chain.is_any(_TOO_DEEP)
    return Failure(
        kind=kind,
        message=_failure_message(kind, chain, choice),
        hint=_failure_hint(kind, chain, choice) if choice else "",
        retryable=kind in RETRYABLE and not is_for_good,
        retry_after_seconds=chain.retry_after_seconds,
    )


def error_classes() -> dict[FailureKind, frozenset[str]]:
    """What each exception means, by kind, those of every provider's client included."""
    return {
        kind: frozenset(names).union(*(row.errors.get(kind, ()) for row in PROVIDERS.values()))
        for kind, names in _COMMON.items()
    }


def _failure_kind(chain: "ErrorChain") -> FailureKind:
    classes, status, text = error_classes(), chain.status, chain.text.lower()
    if chain.is_any(classes["overflow"]):
        return "overflow"
    if status is None:
        if chain.is_any(_UNUSABLE_ADDRESS):  # which is a kind of lost connection to httpx
            return "refused"
        return next((kind for kind, names in classes.items() if chain.is_any(names)), "unknown")
    if status >= 500:
        return "server"
    if status in _STATUSES:
        return _STATUSES[status]
    if any(part in text for part in _OVERFLOWING):
        return "overflow"
    if any(part in text for part in _NO_SUCH_MODEL):
        return "not_found"
    return "credentials" if "api key" in text else "refused"


def _failure_message(kind: FailureKind, chain: "ErrorChain", choice: ModelChoice | None) -> str:
    subject = choice.provider if choice else "the model's provider"
    if origin := _host_origin(choice.host if choice else None) or chain.origin:
        subject = f"{subject} at {origin}"
    begun = subject if choice else f"T{subject[1:]}"
    status = f" ({chain.status})" if chain.status else ""
    text = "it is nested too deeply" if chain.is_any(_TOO_DEEP) else chain.text.rstrip(".")
    if not chain.status and chain.is_any(_UNUSABLE_ADDRESS):  # which some clients call a connection error
        text = without_credentials(str(chain.errors[-1])).rstrip(".") or text
    messages: dict[FailureKind, str] = {
        "overflow": f"The conversation is too long for {subject}: {text}.",
        "throttled": f"{begun} is rate limiting{status}: {text}.",
        "busy": f"{begun} is busy{status}: {text}.",
        "server": f"{begun} failed{status}: {text}.",
        "connection": _connection_message(chain, subject),
        "timeout": f"{begun} did not answer in time{status}.",
        "answer": f"{begun} sent an invalid response: {text}.",
        "trust": f"{begun} has a certificate that is not trusted: {text}.",
        "credentials": f"{begun} rejected the credentials{status}: {text}.",
        "not_found": f"{begun} returned not found{status}: {text}.",
        "refused": f"{begun} refused the request{status}: {text}.",
        "unknown": f"{type(chain.errors[0]).__name__}: {text}.",
    }
    return messages[kind]


def _connection_message(chain: "ErrorChain", subject: str) -> str:
    system = [error for error in chain.errors if isinstance(error, OSError)]
    if any(isinstance(error, socket.gaierror) for error in system):
        return f"Cannot connect to {subject}: host not found."
    if any(error.errno == errno.ECONNREFUSED for error in system):
        return f"Cannot connect to {subject}: nothing is listening there."
    if chain.is_any(("httpx.ConnectError", "botocore.EndpointConnectionError")):
        return f"Cannot connect to {subject}: {chain.text.rstrip('.')}."
    reason = without_credentials(str(chain.errors[-1])).rstrip(".") or type(chain.errors[-1]).__name__
    return f"The connection to {subject} was lost: {reason}."


def _failure_hint(kind: FailureKind, chain: "ErrorChain", choice: ModelChoice) -> str:
    row = PROVIDERS.get(choice.provider)
    if row and kind in row.hints:
        return row.hints[kind].format(model=choice.model_id)
    if kind == "credentials":
        return f"Check {' or '.join(row.credentials if row else ()) or 'the key that the host asks for'}."
    if "insufficient_quota" in chain.words and kind not in ("not_found", "connection"):
        return "The account has no credit left."
    hints: dict[FailureKind, str] = {
        "not_found": f"Is {choice.model_id!r} the right model_id, and the host the right one?",
        "connection": "Check the network, and the host if you gave one.",
        "throttled": "Try later, or allow more with runtime.failure_policy.",
        "overflow": "Set context_policy.compaction, shorten inputs, or use a model with a larger window.",
        "trust": "Set SSL_CERT_FILE to the certificates that you trust, if the host has one of your own.",
    }
    return hints.get(kind, "")


# --- What exceptions say -----------------------------------------------------------------------------------

_DEEPEST = 20
_LONGEST_TEXT = 300
_WORDS = {
    # In the middle of a stream an error has a word, and the status of the response was good long ago.
    "api_error": 500,
    "authentication_error": 401,
    "internalserverexception": 500,
    "invalid_request_error": 400,
    "modelnotreadyexception": 429,
    "modelstreamerrorexception": 500,
    "modeltimeoutexception": 408,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "serviceunavailableexception": 503,
    "throttlingexception": 429,
    "timeout_error": 504,
}


# Where clients keep the status of an answer, the word for an error, and what the provider said of it.
_STATUS_AT = ("status_code", "code", "response.status_code", "response.ResponseMetadata.HTTPStatusCode")
_WORD_AT = ("body.type", "body.code", "body.error.type", "response.Error.Code")
_MESSAGE_AT = ("body.error.message", "body.message", "response.Error.Message", "error")


class ErrorChain:
    """An exception and all that it wraps, the outermost first."""

    def __init__(self, error: BaseException) -> None:
        self.errors: list[BaseException] = []
        waiting = [error]
        while waiting and len(self.errors) < _DEEPEST:
            current = waiting.pop(0)
            if not any(current is other for other in self.errors):
                self.errors.append(current)
                waiting += _wrapped_errors(current)
        self.words = [word.lower() for error in self.errors for word in _attributes_at(error, _WORD_AT, str)]

    def is_any(self, names: Collection[str]) -> bool:
        """Whether one of them is of a class, as `package.Name`, that is among these names."""
        return any(name in names for error in self.errors for name in class_names(type(error)))

    @property
    def status(self) -> int | None:
        """The HTTP status of the answer, or the one that its error word stands for."""
        by_number = (status for error in self.errors if (status := _http_status(error) or 0) >= 400)
        by_word = (_WORDS[word] for word in self.words if word in _WORDS)
        return next(by_number, None) or next(by_word, None)

    @property
    def text(self) -> str:
        """What the provider itself said, in one line."""
        first = self.errors[0]
        messages = (message for error in reversed(self.errors) if (message := _provider_message(error)))
        said = next(messages, "") or str(first) or type(first).__name__
        text = " ".join(without_credentials(said).split())
        return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"

    @property
    def origin(self) -> str | None:
        """Scheme, host and port that were asked; never what a URL has before or behind them."""
        paths = ("kwargs.endpoint_url", "request.url")
        urls = (_attribute_at(error, path) for error in self.errors for path in paths)
        return next((origin for url in urls if url and (origin := _host_origin(str(url)))), None)

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the provider asks to wait."""
        status = self.status
        # Ollama's client leaves the response out, but not what it was doing when it raised.
        doing = [error.__context__ for error in self.errors if error.__context__ is not None]
        errors = (*self.errors, *(error for error in doing if _http_status(error) == status))
        return next((wait for wait in map(_retry_after_seconds, errors) if wait is not None), None)


def class_names(kind: type[BaseException]) -> Iterator[str]:
    """`package.Name` of a class and its bases; a fork of a package counts as the package."""
    for base in kind.__mro__:
        yield f"{base.__module__.partition('.')[0].removesuffix('2')}.{base.__name__}"


def _host_origin(url: str | None) -> str | None:
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else None


def _attribute_at(value: Any, path: str) -> Any:
    """What lies at a path of keys and attributes; None where there is no such thing."""
    for name in path.split("."):
        try:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        except RuntimeError:  # httpx, where no request is known, or no body has been read
            return None
    return value


def _wrapped_errors(error: BaseException) -> list[BaseException]:
    # httpcore forgets what a socket said. Elsewhere a context may be anything that happened before.
    is_hidden = type(error).__module__.startswith("httpcore") and isinstance(error.__context__, OSError)
    inside = [
        getattr(error, "original_exception", None),
        error.__cause__,
        *getattr(error, "exceptions", ()),
        _attribute_at(error, "kwargs.error"),  # botocore says it in its own way
        error.__context__ if is_hidden else None,
    ]
    return [item for item in inside if isinstance(item, BaseException)]


def _attributes_at(error: BaseException, paths: Iterable[str], kind: type[T]) -> Iterator[T]:
    return (value for path in paths if isinstance(value := _attribute_at(error, path), kind))


def _http_status(error: BaseException) -> int | None:
    return next(_attributes_at(error, _STATUS_AT, int), None)


def _provider_message(error: BaseException) -> str | None:
    text = _attribute_at(error, "response.text")
    try:
        sent = msgspec.json.decode(text) if isinstance(text, str) else None
    except msgspec.DecodeError:
        sent = None
    candidates = (
        *_attributes_at(error, _MESSAGE_AT, str),
        _attribute_at(error, "message") if _http_status(error) is not None else None,
        _attribute_at(sent, "error.message"),
        _attribute_at(sent, "error"),
        text,
    )
    return next((text for text in candidates if isinstance(text, str) and text), None)


def _retry_after_seconds(error: BaseException) -> float | None:
    """`Retry-After` is a number of seconds or a date; Google says it in the body, as `34s`."""
    response = _attribute_at(error, "response")
    headers = _attribute_at(response, "headers") or _attribute_at(response, "ResponseMetadata.HTTPHeaders")
    if (milliseconds := _retry_number(_attribute_at(headers, "retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := requested_pause(str(_attribute_at(headers, "retry-after") or ""))) is not None:
        return seconds
    details = _attribute_at(error, "details.error.details")
    delays = [_attribute_at(detail, "retryDelay") for detail in details] if isinstance(details, list) else []
    waits = (_retry_number(str(delay or "").removesuffix("s")) for delay in delays)
    return next((wait for wait in waits if wait is not None), None)


def _retry_number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
