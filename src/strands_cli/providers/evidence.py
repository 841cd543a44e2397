"""What can be read from an exception of some provider's client, without importing that client.

Clients wrap each other: the SDK's exception is caused by OpenAI's, that by httpx's, and that by the socket's.
"""

import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

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


class Evidence(msgspec.Struct, frozen=True):
    """An exception and all that it wraps, the outermost first."""

    chain: tuple[BaseException, ...]

    def is_any(self, names: frozenset[str]) -> bool:
        """Whether one of them is of a class, as `package.Name`, that is among these names."""
        return any(not names.isdisjoint(class_names(type(error))) for error in self.chain)

    @property
    def status(self) -> int | None:
        """The HTTP status of the answer, or the one that its error word stands for."""
        by_number = (
            status for error in self.chain if (status := _status(error)) is not None and status >= 400
        )
        by_word = (status for word in self.words if (status := _WORDS.get(word)))
        return next(by_number, None) or next(by_word, None)

    @property
    def words(self) -> frozenset[str]:
        return frozenset(word.lower() for error in self.chain for word in _words(error))

    @property
    def text(self) -> str:
        """What the provider itself said, in one line."""
        told = next((text for error in reversed(self.chain) if (text := _told(error))), None)
        text = " ".join((told or str(self.chain[0]) or type(self.chain[0]).__name__).split())
        return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"

    @property
    def origin(self) -> str | None:
        """Scheme, host and port that were asked; never what a URL has before or behind them."""
        return next((origin for error in self.chain if (origin := origin_of(_url(error)))), None)

    @property
    def retry_after_seconds(self) -> float | None:
        """How long the provider asks to wait."""
        status = self.status
        # Ollama's client leaves the response out, but not what it was doing when it raised.
        doing = [error.__context__ for error in self.chain if error.__context__ is not None]
        for error in (*self.chain, *(error for error in doing if _status(error) == status)):
            waits = (_wait_in_headers(_headers(error)), _wait_in_details(getattr(error, "details", None)))
            if (wait := next((wait for wait in waits if wait is not None), None)) is not None:
                return wait
        return None


def evidence_of(error: BaseException) -> Evidence:
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _DEEPEST:
        current = waiting.pop(0)
        if not any(current is other for other in found):
            found.append(current)
            waiting += _wrapped(current)
    return Evidence(tuple(found))


def class_names(kind: type[BaseException]) -> Iterator[str]:
    """`package.Name` of a class and its bases; a fork of a package counts as the package."""
    for base in kind.__mro__:
        yield f"{base.__module__.partition('.')[0].removesuffix('2')}.{base.__name__}"


def origin_of(url: str | None) -> str | None:
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else None


def _wrapped(error: BaseException) -> list[BaseException]:
    given = getattr(error, "kwargs", None)
    inside = [
        getattr(error, "original_exception", None),
        error.__cause__,
        *getattr(error, "exceptions", ()),
        given.get("error") if isinstance(given, dict) else None,  # botocore says it in its own way
        error.__context__ if _hides_its_cause(error) else None,
    ]
    return [item for item in inside if isinstance(item, BaseException)]


def _hides_its_cause(error: BaseException) -> bool:
    """httpcore forgets what a socket said. Elsewhere a context may be anything that happened before."""
    return type(error).__module__.startswith("httpcore") and isinstance(error.__context__, OSError)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    metadata = _mapping(_mapping(response).get("ResponseMetadata"))
    candidates = (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(response, "status_code", None),
        metadata.get("HTTPStatusCode"),
    )
    return next((value for value in candidates if isinstance(value, int)), None)


def _words(error: BaseException) -> Iterator[str]:
    body = _mapping(getattr(error, "body", None))
    parts = (
        body.get("type"),
        body.get("code"),
        _mapping(body.get("error")).get("type"),
        _mapping(_mapping(getattr(error, "response", None)).get("Error")).get("Code"),
    )
    yield from (part for part in parts if isinstance(part, str))


def _told(error: BaseException) -> str | None:
    body = _mapping(getattr(error, "body", None))
    response = getattr(error, "response", None)
    candidates = (
        _mapping(body.get("error")).get("message"),
        body.get("message"),
        _mapping(_mapping(response).get("Error")).get("Message"),
        getattr(error, "error", None),
        getattr(error, "message", None) if _status(error) is not None else None,
        _text_of(response),
    )
    return next((text for text in candidates if isinstance(text, str) and text), None)


def _text_of(response: Any) -> str | None:
    """The message in the body of an httpx response; nothing where it has not been read."""
    try:
        text = str(response.text)
    except (AttributeError, RuntimeError):
        return None
    try:
        told = _mapping(msgspec.json.decode(text)).get("error")
    except msgspec.DecodeError:
        return text
    inner = _mapping(told).get("message")
    return inner if isinstance(inner, str) else told if isinstance(told, str) else text


def _url(error: BaseException) -> str | None:
    given = _mapping(getattr(error, "kwargs", None)).get("endpoint_url")
    if isinstance(given, str):
        return given
    try:
        url = getattr(getattr(error, "request", None), "url", None)
    except RuntimeError:  # httpx, where no request is known
        return None
    return str(url) if url is not None else None


def _headers(error: BaseException | None) -> Mapping[str, str]:
    response = getattr(error, "response", None)
    metadata = _mapping(_mapping(response).get("ResponseMetadata"))
    return _mapping(getattr(response, "headers", None) or metadata.get("HTTPHeaders"))


def _wait_in_headers(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` is a number of seconds or a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _wait_in_details(details: Any) -> float | None:
    """Google says it in the body: `{"error": {"details": [{"retryDelay": "34s"}]}}`."""
    listed = _mapping(_mapping(details).get("error")).get("details")
    for detail in listed if isinstance(listed, list) else ():
        if (seconds := _number(str(_mapping(detail).get("retryDelay", "")).removesuffix("s"))) is not None:
            return seconds
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
