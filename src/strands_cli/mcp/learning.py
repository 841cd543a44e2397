"""The first start of a server: its tools are listed and accepted, so that a workflow can be checked."""

import asyncio
from threading import Thread

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.settings import Settings
from strands_cli.types.servers import DeclaredServer


def learn_tools(declared: DeclaredServer, settings: Settings) -> None:
    """Starts a server, records what it offers, and ends it; ToolError where it cannot be used.

    In a thread of its own, so that it can be called with or without a running loop.
    """
    failures: list[ToolFailed] = []

    async def look() -> None:
        from strands_cli.mcp.connection import ServerConnection

        connection = ServerConnection(declared, settings)
        try:
            await connection.accepted_listing()
        except ToolFailed as failed:
            failures.append(failed)
        finally:
            await connection.aclose()

    thread = Thread(target=lambda: asyncio.run(look()), name=f"mcp-{declared.name}", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise ToolError(failures[0].message, code=failures[0].code, hint=failures[0].hint)
