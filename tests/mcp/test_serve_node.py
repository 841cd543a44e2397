"""The server under the official conformance suite, the Inspector and the TypeScript client."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.node import REPOSITORY, node, node_modules, node_program
from tests.mcp.serving import SERVE, TOKEN, http_server
from tests.mcp.test_serve import ADD
from tests.projects import Project

pytestmark = pytest.mark.long

WORK = """def work(context: ToolContext) -> str:
    for number in range(3):
        context.progress(number)
        time.sleep(0.05)  # this client drops progress that comes in one piece with the answer
    return "done"
"""


@pytest.fixture
def conformance_url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.mcp.conformance_server", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_conformance_suite_finds_nothing_that_is_not_in_the_baseline(
    conformance_url: str, revision: str, tmp_path: Path
) -> None:
    baseline = Path(__file__).with_name(f"conformance_{revision}.yml")
    options = ["--requirements", revision, "--url", conformance_url, "--expected-failures", str(baseline)]
    command = node_program("conformance", "server", *options, "-o", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    # The suite's own check passes if there is no such tool.
    (checks,) = tmp_path.glob("server-tools-call-simple-text-*/checks.json")
    (called,) = [one for one in json.loads(checks.read_text()) if one["id"] == "tools-call-simple-text"]
    assert called["details"]["result"]["content"][0]["text"] == "This is a simple text response for testing."


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_typescript_client_lists_calls_and_consents(project: Project, mode: str) -> None:
    project.write("tools/numbers.py", ADD)
    project.tool("work", WORK, options="context=True")
    script = Path(__file__).with_name("client.mjs")
    done = subprocess.run(
        [node(), str(script), str(node_modules()), mode, *SERVE],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert {"add", "echo", "file_write", "work"} <= {*seen["tools"]}
    answers = seen["answers"]
    assert answers["add"]["structuredContent"] == {"value": 3}
    assert answers["wrong"]["isError"] is True
    assert answers["wrong"]["_meta"]["strands-cli/error"]["code"] == "input_invalid"
    assert (project.root / f"typescript-{mode}.txt").exists()
    assert len(seen["questions"]) == 1
    assert seen["progress"] == [0, 1, 2]
    assert seen["unknown"] == -32602


def inspect(project: Project, *arguments: str) -> Any:
    command = node_program("mcp-inspector", "--cli", *arguments)
    environment = {**project.environment, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=project.root, env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_and_calls_over_stdio(project: Project) -> None:
    listed = inspect(project, *SERVE, "--method", "tools/list")
    assert "echo" in {tool["name"] for tool in listed["tools"]}
    options = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hi"]
    assert inspect(project, *SERVE, *options)["content"] == [{"type": "text", "text": "hi"}]


def test_the_inspector_lists_over_http_with_the_token(project: Project) -> None:
    with http_server(project) as url:
        header = ["--header", f"Authorization: Bearer {TOKEN}"]
        listed = inspect(project, url, "--transport", "http", *header, "--method", "tools/list")
    assert "echo" in {tool["name"] for tool in listed["tools"]}
