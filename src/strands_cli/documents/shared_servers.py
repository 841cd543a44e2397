"""`.mcp.json`: the MCP servers of a project, in a file that other programs read too."""

from pathlib import Path

import msgspec

from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.types.servers import MAX_SERVERS, McpServer, server_name_problem, server_of_json

SHARED_SERVERS_NAME = ".mcp.json"
_MAX_BYTES = 1_000_000


def read_shared_servers(file: Path, *, also_disabled: bool = False) -> tuple[dict[str, McpServer], list[str]]:
    """The servers of such a file by name, and what is wrong with it. One bad entry hides no other."""
    try:
        value = msgspec.json.decode(read_regular_file(file, _MAX_BYTES))
    except OSError as error:
        return {}, [unread_reason(error).rstrip(".")]
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {}, [f"it is not JSON: {error}"]
    keys = ("mcpServers", "servers", "context_servers")
    entries = next((value[key] for key in keys if key in value), None) if isinstance(value, dict) else None
    if not isinstance(entries, dict):
        return {}, ["it has no object 'mcpServers'"]
    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        try:
            if problem := server_name_problem(name):
                raise ValueError(problem)
            if len(servers) == MAX_SERVERS:
                raise ValueError(f"The maximum is {MAX_SERVERS} servers")
            values = entry if isinstance(entry, dict) else {}
            if also_disabled or not (values.get("disabled") is True or values.get("enabled") is False):
                servers[name] = server_of_json(values)
        except ValueError as error:
            problems.append(f"the server {name!r}: {error}")
    return servers, problems
