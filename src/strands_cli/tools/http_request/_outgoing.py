"""From a call's arguments to a request, with everything refused that could not be sent as it is meant."""

import json
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import httpx  # noqa: TID253 - only the bodies of tools import this module
import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.http_tools.addresses import Allowed, literal_address, permitted
from strands_cli.http_tools.exchange import without_userinfo
from strands_cli.http_tools.failures import request_failed
from strands_cli.http_tools.headers import DEFAULTS, check_header


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    method: str
    headers: dict[str, str]
    json_data: dict[str, Any] | None
    text: str | None


def build_request(outgoing: Outgoing, allowed: tuple[Allowed, ...]) -> httpx.Request:
    """The request to send; ToolFailed where there can be none."""
    url = _parse(outgoing.url, allowed)
    headers = httpx.Headers(DEFAULTS)
    if url.userinfo:  # sent as a header and taken out of the URL, which is logged and shown
        headers["Authorization"] = "Basic " + b64encode(f"{url.username}:{url.password}".encode()).decode()
    content, content_type = _content(outgoing)
    if content_type:
        headers["Content-Type"] = content_type
    for name, value in outgoing.headers.items():
        check_header(name, value)
        headers[name] = value.strip()
    return httpx.Request(outgoing.method.upper(), without_userinfo(url), headers=headers, content=content)


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


def _content(outgoing: Outgoing) -> tuple[bytes | None, str]:
    if outgoing.json_data is not None and outgoing.text is not None:
        raise request_failed("both json_data and body are given", hint="Give one of them.")
    if outgoing.json_data is not None:
        return json.dumps(outgoing.json_data).encode(), "application/json"
    if outgoing.text is not None:
        return outgoing.text.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    return None, ""
