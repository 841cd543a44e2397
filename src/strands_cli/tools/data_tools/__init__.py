"""Tools that compute, tell the time and read data."""

from strands_cli.tools import with_tool_specs

__getattr__ = with_tool_specs(__name__)
