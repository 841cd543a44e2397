"""What can go wrong with a request, in the words that the caller reads.

No text here shows a header's value or the user and password of a URL: results are shown, logged and sent on.
"""

import os
import ssl

import httpcore  # noqa: TID253 - only the bodies of tools import this module
import httpx  # noqa: TID253 - likewise

from strands_cli.documents.problems import shorten
from strands_cli.errors import ToolFailed

EXPECTED = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpx.HTTPError,
    httpx.InvalidURL,
    OSError,
)
"""All that the libraries below raise when the other side, or the way to it, is at fault."""

GO_DIRECTLY = "Request the final address itself."


def request_failed(reason: str, *, code: str = "failed", hint: str = "") -> ToolFailed:
    return ToolFailed(f"HTTP request failed: {reason}", code=code, hint=hint)


def not_connected(host: str, port: int, error: Exception) -> ToolFailed:
    return request_failed(
        f"could not connect to {host}:{port}: {_system_reason(error)}",
        code="network",
        hint="Check the host and the port, and that the server is running.",
    )


def explain(error: Exception) -> ToolFailed:
    """The failure that an EXPECTED exception stands for."""
    tls = next((cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return request_failed(
            f"the server's certificate is not trusted: {tls.verify_message}",
            hint="Check the host name; SSL_CERT_FILE names a file with further trusted authorities.",
        )
    if tls is not None:
        reason = (tls.reason or type(tls).__name__).replace("_", " ").lower()
        return request_failed(
            f"no secure connection could be made: {reason}",
            code="network",
            hint="Check that the port speaks https, or use http://.",
        )
    if isinstance(error, httpx.RemoteProtocolError | httpx.InvalidURL):  # from building the next request only
        return request_failed("the server redirects to something that is not a URL", hint=GO_DIRECTLY)
    if isinstance(error, httpcore.LocalProtocolError):  # its text quotes what was to be sent
        return request_failed("the request is not valid HTTP", hint="Check the method and the headers.")
    if isinstance(error, httpcore.RemoteProtocolError):
        return request_failed(
            f"the answer is not complete, valid HTTP: {shorten(str(error), 200)}",
            code="network",
            hint="Try again, or check that the port speaks HTTP.",
        )
    return request_failed(
        f"the connection broke off: {_system_reason(error)}", code="network", hint="Try again."
    )


def _system_reason(error: Exception) -> str:
    """The operating system's words, which lie below several layers of exceptions."""
    numbers = [cause.errno for cause in _causes(error) if isinstance(cause, OSError) and cause.errno]
    if numbers:
        return os.strerror(numbers[-1])
    return "it took too long" if isinstance(error, httpcore.TimeoutException) else type(error).__name__


def _causes(error: BaseException | None) -> list[BaseException]:
    """The exception and those below it, the deepest last."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return found
