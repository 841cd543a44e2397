"""`strands mcp`: the group."""

import click

from strands_cli.cli.app import LazyGroup

_HERE = "strands_cli.cli.mcp"
COMMANDS = {
    "list": (f"{_HERE}.server_commands:list_servers", "List all MCP servers with their tools and status."),
    "show": (f"{_HERE}.server_commands:show", "Show a server, its tools and what they cost in tokens."),
    "check": (f"{_HERE}.server_commands:check", "Start a server and find problems with it and its tools."),
    "add": (f"{_HERE}.server_changes:add", "Add a server to the settings."),
    "remove": (f"{_HERE}.server_changes:remove", "Remove a server from the settings."),
    "trust": (f"{_HERE}.server_commands:trust", "Show what has changed in a server's tools, and accept it."),
    "serve": (f"{_HERE}.serve:serve", "Serve your tools and workflows to MCP clients."),
    "install": (f"{_HERE}.install:install", "Print or write the entry for an MCP client's settings."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def mcp() -> None:
    """Use the tools of MCP servers, and serve your own to MCP clients."""
