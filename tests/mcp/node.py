"""Programs from npm that tests of MCP run: real servers, real clients and the conformance suite."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def node_modules() -> Path:
    """The `node_modules` directory to run programs from; the test is skipped if there is none."""
    given = os.environ.get("STRANDS_TEST_NODE_MODULES")
    installed = Path(given) if given else REPOSITORY / ".ci" / "node"
    for directory in (installed, installed / "node_modules"):
        if (directory / "node" / "bin" / "node").is_file():
            return directory
    missing = f"{installed} has no Node: run .ci/node.sh, or set STRANDS_TEST_NODE_MODULES"
    if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
        pytest.fail(missing)
    pytest.skip(missing)


def node() -> str:
    """Our own Node: the conformance suite needs version 22, which distributions often lack."""
    return str(node_modules() / "node" / "bin" / "node")


def node_program(name: str, *arguments: str) -> list[str]:
    """The command line of a program such as `mcp-server-everything` or `conformance`."""
    program = node_modules() / ".bin" / name
    if not program.exists():
        pytest.fail(f"{program} is missing: delete .ci/node and run .ci/node.sh")
    return [node(), str(program.resolve()), *arguments]
