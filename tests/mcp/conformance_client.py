"""Our client as the official conformance suite drives it: `python conformance_client.py URL`.

The suite starts a server for each scenario and watches what a client sends. This one does what every scenario asks for:
it connects, lists, calls what it is told to or else every tool, and closes. Prints `done` if all of that succeeded:
the suite does not look at how a client ends.
"""

import asyncio
import json
import os
import re
import sys
from typing import Any

import httpx

from strands_cli.errors import ToolFailed
from strands_cli.mcp.connection import ServerConnection
from strands_cli.mcp.listing import listed_tools
from strands_cli.mcp.server_tool import result_of, server_tool
from strands_cli.settings import load_settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext, ToolContext
from strands_cli.toolkit.info import ToolInfo
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.types.servers import DeclaredServer, McpServer, ServerOAuth

METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The id of the client, where the suite's authorization server takes an address for one."""
SAMPLES: dict[str, Any] = {"string": "text", "number": 2.5, "integer": 2, "boolean": True}


async def browse(page: str) -> None:
    """The user's browser: signs in, after as long as the user takes, and goes where it is sent."""
    await asyncio.sleep(float(os.environ.get("STRANDS_TEST_SIGN_IN_SECONDS", "0")))
    async with httpx.AsyncClient(follow_redirects=True) as browser:
        await browser.get(page)


def answer(name: str, question: Any) -> str:
    """The user: takes the default where there is one, and agrees where there is none."""
    return "" if "[" in str(question) else "yes"


def sample_arguments(info: ToolInfo, first: ToolInfo) -> dict[str, Any]:
    """Values for what a tool requires. An object is the schema of the first tool, as we have it."""
    schema = info.input_schema or {}
    samples = {**SAMPLES, "object": first.input_schema}
    properties = schema.get("properties") or {}
    return {name: samples.get(properties[name].get("type"), "text") for name in schema.get("required") or ()}


def declared_server(url: str, context: dict[str, Any]) -> DeclaredServer:
    name = re.sub("[^a-z0-9]+", "-", os.environ["MCP_CONFORMANCE_SCENARIO"])[:40]
    oauth = ServerOAuth(client_id=METADATA_URL)
    if "client_id" in context:
        oauth = ServerOAuth(
            client_id=context["client_id"],
            client_secret=context.get("client_secret", ""),
            grant="client_credentials" if "client-credentials" in name else "authorization_code",
        )
    return DeclaredServer(name=name, server=McpServer(url=url, oauth=oauth, timeout=20.0))


async def drive(url: str, context: dict[str, Any]) -> list[str]:
    """Plays one scenario; returns what was wrong."""
    settings, declared = load_settings(), declared_server(url, context)
    connection = ServerConnection(declared, settings, open_page=browse)

    async def call(info: ToolInfo, arguments: dict[str, Any]) -> ToolResult:
        async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
            return result_of(await connection.call(info.callable_name, arguments, context), tool)

        tool = server_tool(declared, info, settings).with_fields(invoke=invoke)
        return await call_tool(tool, {"input": arguments}, CallContext(interrupt=answer))

    try:
        listing = await connection.accepted_listing()
        listed = {one.name: one.info for one in listed_tools(declared, listing.tools) if one.info}
        calls = context.get("toolCalls") or [
            {"name": name, "arguments": sample_arguments(info, next(iter(listed.values())))}
            for name, info in listed.items()
        ]
        # Null is no value of the properties that the suite gives it to, so our tools refuse it: it is left out.
        given = [{k: v for k, v in one["arguments"].items() if v is not None} for one in calls]
        results = [
            await call(listed[one["name"]], arguments) for one, arguments in zip(calls, given, strict=True)
        ]
    except ToolFailed as failed:
        return [f"{failed.code}: {failed.message}"]
    finally:
        await connection.aclose()
    return [f"{error['code']}: {error['message']}" for result in results if (error := error_of(result))]


def main() -> int:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    wrong = asyncio.run(drive(sys.argv[-1], context))
    sys.stdout.write("\n".join(wrong) or "done")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
