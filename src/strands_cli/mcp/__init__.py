"""MCP: the tools of other people's servers here, and our tools as a server."""
