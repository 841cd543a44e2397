"""The tools of MCP servers, as discovery hands them on: those that the user accepted. Nothing is started."""

import sys
from typing import TYPE_CHECKING

from strands_cli.errors import Issue, ToolError
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache
from strands_cli.tools.sources.modules import Source
from strands_cli.types.servers import DeclaredServer

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

# What reads the record of a server is imported where there is a server: most listings have none.


class McpServers(Source):
    """A server belongs to the event loop that calls its tools, and ends with it."""

    name = "mcp"

    def discover(self) -> Discovered:
        if not self.settings.servers:
            return Discovered()
        return join_discovered(scan_servers(self.settings.servers, self.settings, self.cache))

    def load(self, info: ToolInfo) -> "Tool":
        from strands_cli.mcp.server_tool import server_tool

        declared = next((one for one in self.settings.servers if one.name == info.family), None)
        if declared is None:
            raise ToolError(f"There is no MCP server {info.family!r}", code="unknown_tool")
        return server_tool(declared, info, self.settings)

    async def aclose(self) -> None:
        if "strands_cli.mcp.connection" in sys.modules:
            from strands_cli.mcp.connection import connections_of_loop

            await connections_of_loop().aclose()


def scan_servers(
    servers: tuple[DeclaredServer, ...], settings: Settings, cache: Cache = NO_CACHE
) -> list[Discovered]:
    """For each server, the tools that it had when the user accepted them, or why there are none."""
    from strands_cli.mcp.records import record_file

    known = cache.file(f"mcp|{settings.project}|{','.join(server.scope for server in servers)}")
    parts: list[Discovered] = []
    for declared in servers:
        if not declared.trusted:
            parts.append(_refused(declared, declared.distrust, declared.trust_hint))
            continue
        try:
            file = str(record_file(declared))
        except RuntimeError:  # there is no home directory
            file = ""
        name = f"{declared.name}|{declared.server.fingerprint}|{declared.file}|{declared.line}|{file}"
        found = known.find(name)
        if found is None:
            found = _read_server(declared, file)
            known.keep(name, found)
        parts.append(found)
    known.close()
    return parts


def _read_server(declared: DeclaredServer, file: str) -> Discovered:
    from strands_cli.mcp.listing import listed_tools
    from strands_cli.mcp.records import read_record

    files, record = (file,) if file else (), read_record(declared)
    if record is None:
        reason = f"The MCP server {declared.name} was not started yet, so its tools are not known."
        remedy = f"'strands mcp check {declared.argument}' starts it and lists them."
        return Discovered((), _refused(declared, reason, remedy).issues, files)
    issues: tuple[Issue, ...] = ()
    if record.changed is not None:
        reason = f"The MCP server {declared.name} has changed its tools since you accepted them."
        remedy = f"Look at the difference and decide: strands mcp trust {declared.argument}"
        issues = (Issue(reason=reason, remediation=remedy, file=declared.file, line=declared.line),)
    listed = listed_tools(declared, record.accepted, record.version)
    return Discovered(tuple(one.info for one in listed if one.info is not None), issues, files)


def _refused(declared: DeclaredServer, reason: str, remedy: str) -> Discovered:
    where = Issue(
        reason=reason, remediation=remedy, file=declared.file, line=declared.line, severity="warning"
    )
    return Discovered(issues=(where,))
