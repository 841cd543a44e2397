"""Send an HTTP request and return the answer; only public addresses, unless a setting says otherwise."""

import json
from typing import Any

from strands_cli.toolkit.context import ToolContext, settings_of
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

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
    from strands_cli.http_tools.exchange import REPEATABLE, send_to_url
    from strands_cli.http_tools.transport import request_failed

    content, content_type = None, ""
    if json_data is not None and body is not None:
        raise request_failed("both json_data and body are given", hint="Give one of them.")
    if json_data is not None:
        content, content_type = json.dumps(json_data).encode(), "application/json"
    elif body is not None:
        content, content_type = body.encode("utf-8", "replace"), "text/plain; charset=utf-8"
    return await send_to_url(
        url,
        settings_of(context).http,
        method=method.upper(),
        headers=({"Content-Type": content_type} if content_type else {}) | (headers or {}),
        content=content,
        seconds=timeout_ms / 1000,
        retries=_RETRIES if method.upper() in REPEATABLE else 0,
        late=_LATE,
    )


__getattr__ = with_tool_specs(__name__)
