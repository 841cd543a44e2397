"""Tools that compare texts by their meaning, on this machine and without a network."""

from strands_cli.tools import with_tool_specs

__getattr__ = with_tool_specs(__name__)
