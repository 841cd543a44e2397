"""Send an HTTP request and return the answer."""

from typing import Any

from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool

TOOL_SPEC = {
    "name": "http_request",
    "description": (
        "Send an HTTP request and return status_code, headers and body of the answer, whatever its status. "
        "Redirects are followed. Text is in body; anything else is in body_base64 and body is empty. "
        "A long body is cut and marked truncated. Only public addresses can be reached."
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
                    "description": "Limit in milliseconds for the whole request, redirects included",
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


# The platform's limit lies above the highest timeout_ms, so that it is this tool that tells of a late server.
@tool(spec=TOOL_SPEC, version="1.0.0", family="http_request", category="http", timeout=305.0)
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
    from strands_cli.tools.http_request._exchange import exchange
    from strands_cli.tools.http_request._outgoing import Outgoing

    outgoing = Outgoing(url=url, method=method, headers=headers or {}, json_data=json_data, text=body)
    return await exchange(outgoing, context.settings.http, timeout_ms / 1000)
