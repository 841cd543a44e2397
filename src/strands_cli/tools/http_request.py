"""Send an HTTP request and return the answer; only public addresses, unless a setting says otherwise."""

import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from strands_cli.errors import ToolFailed
from strands_cli.secrets import without_userinfo
from strands_cli.toolkit.context import ToolContext, settings_of
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

if TYPE_CHECKING:
    import httpx

    from strands_cli.http_tools.transport import Allowed

TOOL_SPEC = {
    "name": "http_request",
    "description": (
        "Send an HTTP request and return status_code, headers and body of the answer, whatever its status. "
        "Redirects are followed. Text is in body; anything else is in body_base64 and body is empty. "
        "A long body is cut and marked truncated. Only public addresses can be reached. Where the "
        "connection drops or the server is busy, GET, HEAD, PUT and DELETE are sent again, at most twice."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "url": {
                    "type": "string",
                    "format": "uri",
                    "description": "The URL to request, http or https",
                },
                "method": {
                    "type": "string",
                    "enum": ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"],
                    "description": "HTTP method",
                    "default": "GET",
                },
                "headers": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "HTTP headers to send",
                },
                "json_data": {"type": "object", "description": "JSON object to send as the body"},
                "body": {"type": "string", "description": "Text to send as the body, instead of json_data"},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 300000,
                    "description": "Limit in milliseconds for the whole request, with redirects and retries",
                    "default": 30000,
                },
            },
            "required": ["url"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "status_code": {"type": "integer"},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"type": "string", "description": "The body as text; empty where it is not text"},
                "body_base64": {"type": "string", "description": "The body where it is not text"},
                "truncated": {"const": True, "description": "Whether the body was cut"},
                "url": {"type": "string", "description": "Where the answer came from, after redirects"},
            },
            "required": ["status_code", "headers", "body"],
        }
    },
}

_RETRIES = 2
_LATE = "Raise timeout_ms (at most 300000), or ask for less at a time."


# The platform's limit lies above the highest timeout_ms, so that it is this tool that tells of a late server.
@tool(spec=TOOL_SPEC, version="1.0.0", category="http", timeout=305.0)
async def http_request(
    url: str,
    *,
    context: ToolContext,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    json_data: dict[str, Any] | None = None,
    body: str | None = None,
    timeout_ms: int = 30000,
) -> dict[str, Any]:
    import asyncio
    from base64 import b64encode

    import httpx

    from strands_cli.http_tools.exchange import (
        DEFAULT_HEADERS,
        REPEATABLE,
        check_header,
        exchange,
        send_with_retries,
    )
    from strands_cli.http_tools.transport import GuardedTransport, parse_allowed, request_failed

    settings = settings_of(context).http
    allowed = parse_allowed(settings.allow)
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _unusable_url(url, str(error), allowed) from None
    _check_url(parsed)
    sent = httpx.Headers(DEFAULT_HEADERS)
    if parsed.userinfo:  # sent as a header and taken out of the URL, which is logged and shown
        sent["Authorization"] = "Basic " + b64encode(f"{parsed.username}:{parsed.password}".encode()).decode()
    content = None
    if json_data is not None and body is not None:
        raise request_failed("both json_data and body are given", hint="Give one of them.")
    if json_data is not None:
        content, sent["Content-Type"] = json.dumps(json_data).encode(), "application/json"
    elif body is not None:
        content, sent["Content-Type"] = body.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    for name, value in (headers or {}).items():
        check_header(name, value)
        sent[name] = value.strip()
    plain_url = without_userinfo(str(parsed))
    request = httpx.Request(method.upper(), plain_url, headers=sent, content=content)
    seconds = timeout_ms / 1000
    until = asyncio.get_running_loop().time() + seconds

    def send() -> Awaitable[dict[str, Any]]:
        limits: dict[str, Any] = {"seconds": seconds, "until": until, "max_bytes": settings.max_bytes}
        return exchange(request, GuardedTransport(allowed), _check_url, late=_LATE, **limits)

    return await send_with_retries(send, _RETRIES if request.method in REPEATABLE else 0, until)


def _check_url(url: "httpx.URL") -> None:
    """Refuses what is not an http address of a host. Where the host is, the transport judges."""
    from strands_cli.http_tools.transport import literal_address, request_failed

    if url.scheme not in ("http", "https"):
        raise request_failed(
            f"{url.scheme}: addresses are not supported" if url.scheme else "the url has no scheme",
            code="forbidden",
            hint="Use a URL that begins with http:// or https://.",
        )
    host = url.raw_host.decode("ascii")
    if not host:
        raise request_failed("the url has no host", hint="Write it as https://host.example/path.")
    if url.port is not None and not 0 < url.port < 65536:
        raise request_failed("the url's port is not between 1 and 65535", hint="Fix it, or leave it out.")
    if "%" in host and literal_address(host) is None:
        raise request_failed("the url's host is percent-encoded", hint="Write the host name plainly.")


def _unusable_url(text: str, reason: str, allowed: "tuple[Allowed, ...]") -> ToolFailed:
    """Some spellings of addresses the URL parser refuses already; for the caller they are forbidden too."""
    from urllib.parse import urlsplit

    from strands_cli.http_tools.transport import literal_address, permitted_addresses, request_failed

    try:
        host = urlsplit(text).hostname or ""
    except ValueError:
        host = ""
    address = literal_address(host)
    if address is not None:
        permitted_addresses(host, 0, [address], allowed)
    sentence = reason.partition(":")[0]  # after the colon it quotes the URL, which may hold a password
    return request_failed(
        f"the url cannot be used: {sentence[:1].lower()}{sentence[1:].rstrip('.')}",
        hint="Write it as https://host.example:port/path, with addresses in their usual form.",
    )


__getattr__ = with_tool_specs(__name__)
