"""Tools from `tools.http_executors`, and the way out over HTTP that they share with `http_request`."""

from strands_cli.http_tools.executors import http_tools

__all__ = ["http_tools"]
