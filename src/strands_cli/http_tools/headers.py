"""Headers of requests: those that we set ourselves, and what others may set."""

import re

from strands_cli.http_tools.failures import request_failed

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

# What describes the connection or the encoding of the body belongs to whoever makes the connection. A Host of
# the caller's choice would also reach virtual hosts that the URL does not name.
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
DEFAULTS = {"Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "strands-cli"}


def header_problem(name: str, value: str) -> tuple[str, str] | None:
    """Why a header cannot be sent as it is meant, and what to do; its value is never told."""
    if not _TOKEN.fullmatch(name):
        start = _TOKEN.match(name)
        shown = f"the header name that begins with {start[0]!r}" if start else "a header name"
        reason = f"{shown} has characters that header names cannot have"
        return reason, 'Pass headers as {"Name": "value"}.'
    if name.lower() in _OURS:
        return f"the header {name} is set by the tool itself", "Leave it out."
    if not _VALUE.fullmatch(value):
        return (
            f"the value of the header {name} has a line break or other characters that headers cannot have",
            "Use printable ASCII characters only.",
        )
    return None


def check_header(name: str, value: str) -> None:
    problem = header_problem(name, value)
    if problem is not None:
        raise request_failed(problem[0], hint=problem[1])
