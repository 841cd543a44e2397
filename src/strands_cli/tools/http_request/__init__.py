"""HTTP requests that stay on public addresses unless a setting says otherwise."""

from strands_cli.tools.http_request.tool import TOOL_SPEC, http_request

__all__ = ["TOOL_SPEC", "http_request"]
