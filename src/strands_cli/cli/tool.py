"""`strands tool`: the group, and the argument that its commands share."""

import click

from strands_cli.cli.app import LazyGroup

COMMANDS = {
    "list": (
        "strands_cli.cli.tool_list:list_tools",
        "List every tool, its origin and whether it is available.",
    ),
    "show": ("strands_cli.cli.tool_show:show", "Show a tool: what it does, takes, returns and needs."),
    "call": ("strands_cli.cli.tool_call:call", "Call a tool with validated input."),
    "check": ("strands_cli.cli.tool_check:check", "Find everything that registration would refuse."),
    "new": ("strands_cli.cli.tool_new:new", "Create a tool in this project, with a test that passes."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def tool() -> None:
    """List, show, call, check and create tools."""
