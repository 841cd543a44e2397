"""MCP servers in files: `.mcp.json`, which other programs read too, and what is wrong with an entry."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.errors import did_you_mean
from strands_cli.types.servers import MAX_SERVERS, McpServer, server_name_problem, server_of_json

SHARED_SERVERS_NAME = ".mcp.json"
_KEYS = ("mcpServers", "servers", "context_servers")
"""What programs call the object with their servers."""
_MAX_BYTES = 1_000_000


def read_shared_servers(
    file: Path, *, project: Path | None = None, also_disabled: bool = False
) -> tuple[dict[str, McpServer], list[str]]:
    """The servers of such a file by name, and what is wrong with it. One bad entry hides no other.

    With `project`, the entry with which others use its tools is left out.
    """
    try:
        value = msgspec.json.decode(read_regular_file(file, _MAX_BYTES))
    except OSError as error:
        return {}, [unread_reason(error).rstrip(".")]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {}, [f"it is not JSON: {error}"]
    entries = next((value[key] for key in _KEYS if key in value), None) if isinstance(value, dict) else None
    if not isinstance(entries, dict):
        return {}, ["it has no object 'mcpServers'"]
    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        values = entry if isinstance(entry, dict) else {}
        is_disabled = values.get("disabled") is True or values.get("enabled") is False
        if is_disabled and not also_disabled:
            continue
        try:
            if problem := server_name_problem(name):
                raise ValueError(problem)
            if len(servers) == MAX_SERVERS:
                raise ValueError(f"The maximum is {MAX_SERVERS} servers")
            servers[name] = server_of_json(values)
        except ValueError as error:
            problems.append(f"the server {name!r}: {error}")
    if project:
        servers = {name: one for name, one in servers.items() if not _serves_tools_of(project, one)}
    return servers, problems


def _serves_tools_of(project: Path, server: McpServer) -> bool:
    """Whether it is this program, as `strands mcp install` writes it for others."""
    if Path(server.command).name != "strands" or server.args[:2] != ("mcp", "serve"):
        return False
    named = [after for before, after in pairwise(server.args) if before == "--project"]
    return not named or Path(os.path.realpath(project / named[-1])) == project


def entry_problem(value: Any) -> tuple[str, str] | None:
    """What is wrong with the entry of a settings file, to be read after its name, and a remedy or nothing."""
    known = McpServer.__struct_fields__
    unknown = next((key for key in value if key not in known), "") if isinstance(value, dict) else ""
    if unknown:
        return f" has no key {unknown!r}", did_you_mean(unknown, known) or f"The keys are {', '.join(known)}."
    try:
        msgspec.convert(value, McpServer)
    except msgspec.ValidationError as error:
        return f": {error}", ""
    return None
