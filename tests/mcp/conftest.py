"""Fixtures of the tests of MCP."""

import sys

import pytest

from tests.mcp.servers import Servers
from tests.projects import Project


@pytest.fixture
def servers(project: Project, capsys: pytest.CaptureFixture[str]) -> Servers:
    if sys.platform != "linux":
        pytest.skip("servers are confined on Linux only")
    return Servers(project, capsys)
