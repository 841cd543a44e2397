"""What the server does with lines that no good client sends, and how it ends."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.serving import is_running, raw_server
from tests.plugins.makers import need
from tests.projects import Project

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def test_hostile_lines_are_answered_and_the_next_one_works(project: Project) -> None:
    with raw_server(project) as server:
        server.shake_hands()
        hostile: list[tuple[bytes, int]] = [
            (b"not json\n", -32700),
            (b'{"jsonrpc": "2.0", "id": 1\n', -32700),
            (b"\xff\xfe\x00\n", -32700),
            (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]\n', -32600),
            (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}\n', -32600),
            (b"42\n", -32600),
            (b"[" * 100_000 + b"\n", -32700),
            (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "\\ud800"}\n', -32700),
        ]
        for line, code in hostile:
            server.send(line)
            assert server.answer(None)["error"]["code"] == code, line[:60]
        server.send(b"\n  \n\r\n")
        assert server.request("ping", 7)["result"] == {}
        assert server.request("no/such/method", 8)["error"]["code"] == -32601
        assert server.request("tools/call", 9)["error"]["code"] == -32602
        assert server.request("tools/call", 10, name="echo", arguments=[1])["error"]["code"] == -32602
        assert server.call("echo", 11, message="hi")["result"]["content"][0]["text"] == "hi"
        assert server.close() == 0


def test_a_large_message_is_read_and_a_huge_one_refused(project: Project) -> None:
    with raw_server(project) as server:
        server.shake_hands()
        large = "x" * 5_000_000
        answer = server.call("echo", 1, message=large)["result"]
        assert answer["content"][0]["text"].startswith("xxx")
        server.send(b'{"jsonrpc": "2.0", "id": 2, "method": "' + b"y" * 33 * 1024 * 1024 + b'"}\n')
        assert "longer than" in server.answer(None)["error"]["message"]
        assert server.request("ping", 3)["result"] == {}


def test_requests_before_the_handshake_are_refused(project: Project) -> None:
    with raw_server(project) as server:
        assert "error" in server.request("tools/list", 1)
        assert server.shake_hands()["result"]["capabilities"]["tools"] == {"listChanged": True}
        assert server.request("tools/list", 2)["result"]["tools"]


def test_the_end_of_the_input_ends_the_server_after_its_last_answers(project: Project) -> None:
    project.tool("nap", "def nap() -> str:\n    time.sleep(0.3)\n    return 'slept'")
    with raw_server(project) as server:
        server.shake_hands()
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nap"}})
        started = time.monotonic()
        assert server.close() == 0
        assert time.monotonic() - started < 5
        assert server.answer(1)["result"]["content"][0]["text"] == "slept"


def test_the_end_of_the_input_does_not_wait_for_a_call_that_hangs(project: Project) -> None:
    project.tool("hang", "def hang() -> str:\n    time.sleep(50)")
    with raw_server(project) as server:
        server.shake_hands()
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang"}})
        time.sleep(0.3)
        started = time.monotonic()
        assert server.close() == 0
        assert time.monotonic() - started < 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_server_at_once(project: Project, number: int, code: int) -> None:
    project.tool("hang", "def hang() -> str:\n    open('began', 'w').close()\n    time.sleep(50)")
    with raw_server(project) as server:
        server.shake_hands()
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hang"}})
        while not (project.root / "began").exists():
            time.sleep(0.02)
        started = time.monotonic()
        server.process.send_signal(number)
        assert server.process.wait(timeout=10) == code
        assert time.monotonic() - started < 5


def test_a_plugins_process_ends_with_the_server(project: Project) -> None:
    need("bash")
    script = project.write("plugins/nap/cli-tools/nap", "#!/bin/bash\nread -r input\nsleep 60\n")
    script.chmod(0o755)
    declared = '{"name": "nap", "path": "cli-tools/nap", "description": "Sleeps"}'
    project.write("plugins/nap/plugin.json", f'{{"name": "nap", "cli_tools": [{declared}]}}')
    with raw_server(project) as server:
        server.shake_hands()
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nap__nap"}})
        children = list[int]()
        while not any("sleep" in _command(pid) for pid in children):
            time.sleep(0.05)
            children = _descendants(server.process.pid)
        assert server.close() == 0
        end = time.monotonic() + 5
        while left := [pid for pid in children if is_running(pid)]:
            assert time.monotonic() < end, left


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _descendants(pid: int) -> list[int]:
    try:
        own = [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return []
    return [*own, *(inner for child in own for inner in _descendants(child))]


def test_a_flood_of_requests_is_answered_completely(project: Project) -> None:
    with raw_server(project) as server:
        server.shake_hands()
        for number in range(1, 501):
            params = {"name": "echo", "arguments": {"message": str(number)}}
            server.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        seen = {}
        while len(seen) < 500:
            message = server.next()
            seen[message["id"]] = message["result"]["content"][0]["text"]
        assert seen == {number: str(number) for number in range(1, 501)}


def test_a_client_that_does_not_read_holds_up_nobody(project: Project) -> None:
    """Its answers wait; the server still ends when it is told to."""
    with raw_server(project) as server:
        server.shake_hands()
        for number in range(1, 40):
            params = {"name": "echo", "arguments": {"message": "x" * 100_000}}
            server.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.process.wait(timeout=10) == 143


def test_consent_counts_for_one_call_with_the_same_arguments(project: Project) -> None:
    arguments = {"path": "a.txt", "content": "one", "mode": "overwrite"}

    def call(server: Any, number: int, **more: Any) -> dict[str, Any]:
        sent = {"name": "file_write", "arguments": arguments, "_meta": ENVELOPE, **more}
        answer: dict[str, Any] = server.request("tools/call", number, **sent)
        return answer

    yes = {"consent": {"action": "accept", "content": {"allow": True}}}
    with raw_server(project) as server:
        unasked = call(server, 1, inputResponses=yes)["result"]
        assert unasked["resultType"] == "input_required"
        state = unasked["requestState"]
        other = {**arguments, "content": "two"}
        assert (
            call(server, 2, inputResponses=yes, requestState=state, arguments=other)["error"]["code"]
            == -32602
        )
        assert (
            call(server, 3, inputResponses=yes, requestState=state[:-4] + "AAAA")["error"]["code"] == -32602
        )
        assert call(server, 4, inputResponses=yes, requestState=state)["result"]["isError"] is False
        assert (project.root / "a.txt").read_text() == "one"
        again = call(server, 5, inputResponses=yes, requestState=state)["result"]
        assert again["resultType"] == "input_required"
