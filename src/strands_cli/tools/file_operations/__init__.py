"""Tools that read, write, list and search the files of the workspace."""

from strands_cli.tools import with_tool_specs

__getattr__ = with_tool_specs(__name__)
