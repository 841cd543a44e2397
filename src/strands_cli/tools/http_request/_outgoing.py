"""From a call's arguments to a request, with everything refused that could not be sent as it is meant."""

import json
import re
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import httpx  # noqa: TID253 - only the tool's body imports this module
import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.tools.http_request._addresses import Allowed, literal_address, permitted
from strands_cli.tools.http_request._failures import request_failed

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
_DEFAULTS = {"Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "strands-cli"}


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    method: str
    headers: dict[str, str]
    json_data: dict[str, Any] | None
    text: str | None


def build_request(outgoing: Outgoing, allowed: tuple[Allowed, ...]) -> httpx.Request:
    """The request to send; ToolFailed where there can be none."""
    url = _parse(outgoing.url, allowed)
    headers = httpx.Headers(_DEFAULTS)
    if url.userinfo:  # sent as a header and taken out of the URL, which is logged and shown
        headers["Authorization"] = "Basic " + b64encode(f"{url.username}:{url.password}".encode()).decode()
    content, content_type = _content(outgoing)
    if content_type:
        headers["Content-Type"] = content_type
    for name, value in outgoing.headers.items():
        _check_header(name, value)
        headers[name] = value.strip()
    return httpx.Request(outgoing.method.upper(), without_userinfo(url), headers=headers, content=content)


def without_userinfo(url: httpx.URL) -> httpx.URL:
    return url.copy_with(userinfo=b"") if url.userinfo else url


def check_url(url: httpx.URL) -> None:
    """Refuses what is no http address of a host. Where the host is, the transport judges."""
    if url.scheme not in ("http", "https"):
        raise request_failed(
            f"{url.scheme}: addresses are not supported" if url.scheme else "the url has no scheme",
            code="forbidden",
            hint="Use a URL that begins with http:// or https://.",
        )
    host = url.raw_host.decode("ascii")
    if not host:
        raise request_failed("the url names no host", hint="Write it as https://host.example/path.")
    if url.port is not None and not 0 < url.port < 65536:
        raise request_failed("the url's port is not between 1 and 65535", hint="Correct it, or leave it out.")
    if "%" in host and literal_address(host) is None:
        raise request_failed("the url's host is percent-encoded", hint="Write the host name plainly.")


def _parse(text: str, allowed: tuple[Allowed, ...]) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise _unusable(text, str(error), allowed) from None
    check_url(url)
    return url


def _unusable(text: str, reason: str, allowed: tuple[Allowed, ...]) -> ToolFailed:
    """Some spellings of addresses the URL parser refuses already; for the caller they are forbidden too."""
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:
        host = ""
    address = literal_address(host)
    if address is not None:
        permitted(host, 0, [address], allowed)
    sentence = reason.partition(":")[0]  # after the colon it quotes the URL, which may hold a password
    return request_failed(
        f"the url cannot be used: {sentence[:1].lower()}{sentence[1:].rstrip('.')}",
        hint="Write it as https://host.example:port/path, with addresses in their usual form.",
    )


def _check_header(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        start = _TOKEN.match(name)
        shown = f"the header name that begins with {start[0]!r}" if start else "a header name"
        raise request_failed(
            f"{shown} has characters that header names cannot have", hint='Pass headers as {"Name": "value"}.'
        )
    if name.lower() in _OURS:
        raise request_failed(f"the header {name} is set by the tool itself", hint="Leave it out.")
    if not _VALUE.fullmatch(value):
        raise request_failed(
            f"the value of the header {name} has a line break or other characters that headers cannot have",
            hint="Use printable ASCII characters only.",
        )


def _content(outgoing: Outgoing) -> tuple[bytes | None, str]:
    if outgoing.json_data is not None and outgoing.text is not None:
        raise request_failed("both json_data and body are given", hint="Give one of them.")
    if outgoing.json_data is not None:
        return json.dumps(outgoing.json_data).encode(), "application/json"
    if outgoing.text is not None:
        return outgoing.text.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    return None, ""
