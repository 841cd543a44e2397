"""MCP servers from PyPI that tests run, which `.ci/python-servers.sh` installs."""

import os
from pathlib import Path

import pytest

INSTALLED = Path(__file__).resolve().parents[2] / ".ci" / "python-servers"


def python_server(name: str, *arguments: str) -> list[str]:
    """The command line of a server such as `mcp-server-git`; the test is skipped where it is missing."""
    given = os.environ.get("STRANDS_TEST_PYTHON_SERVERS")
    place = Path(given) if given else INSTALLED
    program = place / "bin" / name
    if not program.is_file():
        missing = f"{program} is missing: run .ci/python-servers.sh, or set STRANDS_TEST_PYTHON_SERVERS"
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail(missing)
        pytest.skip(missing)
    return [str(program), *arguments]
