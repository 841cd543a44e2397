"""What servers say of their tools, and what their tools answer, past the types of the official package.

Its session refuses a whole list because of one bad tool, and loses a result with one unknown block. Here both
pass it as they came, in an envelope that it accepts.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from strands_cli.documents.reader import is_nested_deeper
from strands_cli.mcp.listing import RawTool

RAW = "strands-cli/raw"
TOO_DEEP = "strands-cli/too-deep"
DEEPEST = 100
_LARGEST_TOOL, _LARGEST_LISTING = 1_000_000, 10_000_000
"""Bytes of what is kept of one tool, and of all tools of a server."""


class LenientDispatcher(JSONRPCDispatcher):
    """Hands on lists of tools and results as they came, in an envelope that the session accepts."""

    waits_for_person = False
    """Whether the first request may take as long as somebody needs to sign in."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **others: Any
    ) -> dict[str, Any]:
        if method == "server/discover" and self.waits_for_person:
            opts = {**(opts or {})}
            opts.pop("timeout", None)  # the package's own limit is too short to sign in
        raw = await super().send_raw_request(method, params, opts, **others)
        if method == "initialize":
            return {"capabilities": {}, **raw, "serverInfo": _implementation(raw.get("serverInfo"))}
        if method == "tools/list":
            tools, cursor = [*map(_shallow, as_list(raw.get("tools")))], raw.get("nextCursor")
            known = [
                _bare_tool(tool) for tool in tools if isinstance(tool, dict) and _is_text(tool.get("name"))
            ]
            offered = tools if isinstance(raw.get("tools"), list) else None
            page = {"tools": known, "_meta": {RAW: {"tools": offered}}, "resultType": "complete", "ttlMs": 0}
            return {**page, "cacheScope": "private", **({"nextCursor": cursor} if _is_text(cursor) else {})}
        if method == "tools/call" and raw.get("resultType", "complete") == "complete":
            return {"content": [], "isError": True, "_meta": {RAW: raw}, "resultType": "complete"}
        return raw


def _implementation(given: object) -> dict[str, Any]:
    known = given if isinstance(given, dict) else {}
    return {"name": str(known.get("name") or ""), "version": str(known.get("version") or "")}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shallow(tool: Any) -> Any:
    """A tool, or what stands for one that is nested too deep to be handed on."""
    if not isinstance(tool, dict) or not is_nested_deeper(tool, DEEPEST):
        return tool
    return {"name": tool.get("name"), TOO_DEEP: True}


def oversized_tools(named: Mapping[str, RawTool]) -> dict[str, str]:
    """Tools that would make the record of a server too large, with the reason."""
    refused, room = dict[str, str](), _LARGEST_LISTING
    for name, tool in named.items():
        size = len(msgspec.json.encode(tool))
        room -= size if size <= _LARGEST_TOOL else 0
        if size > _LARGEST_TOOL:
            refused[name] = f"its definition has {size:,} bytes; the limit is {_LARGEST_TOOL:,}"
        elif room < 0:
            refused[name] = f"all tools of the server have more than {_LARGEST_LISTING:,} bytes"
    return refused


def _bare_tool(tool: RawTool) -> RawTool:
    """As much of a tool as the session needs to know; what it answers is judged elsewhere."""
    schema = tool.get("inputSchema")
    fits = isinstance(schema, dict) and schema.get("type") == "object"
    return {"name": tool["name"], "inputSchema": schema if fits else {"type": "object"}}
