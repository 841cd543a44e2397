"""What serving a tool over MCP costs, to start and for a call, beside the package's bare server and fastmcp.

One client for all three: lines of JSON over pipes. The CPU time is the server's own, from /proc. fastmcp is
not one of our packages: it is taken from the Python in STRANDS_BENCH_FASTMCP, or installed into
`benchmarks/results/fastmcp` once.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import PYTHON, STRANDS, Row, environment

FASTMCP = "fastmcp==4.1.2"
CALLS = 400
TICKS = os.sysconf("SC_CLK_TCK")

BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

async def list_tools(ctx, params):
    tool = types.Tool(name="echo", description="Returns its input.", input_schema=SCHEMA)
    return types.ListToolsResult(tools=[tool])

async def call_tool(ctx, params):
    text = types.TextContent(type="text", text=params.arguments["message"])
    return types.CallToolResult(content=[text])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

anyio.run(main)
"""
PEER = """
from fastmcp import FastMCP

server = FastMCP("peer")

@server.tool
def echo(message: str) -> str:
    "Returns its input."
    return message

server.run(transport="stdio", show_banner=False, log_level="ERROR")
"""


class Measured:
    """A server that has been started, and the CPU milliseconds that it has taken so far."""

    def __init__(self, command: list[str], place: Path) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=place,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        client = {"name": "bench", "version": "1"}
        self.request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert any(tool["name"] == "echo" for tool in self.request("tools/list")["tools"])

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return answer["result"]

    def call(self) -> None:
        answer = self.request("tools/call", name="echo", arguments={"message": "hello"})
        assert answer["content"][0]["text"] == "hello"

    def cpu_ms(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / TICKS

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def measure(rounds: int = 7) -> Iterator[Row]:
    if not Path("/proc/self/stat").exists():
        print("there is no /proc here, so nothing is measured")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "bare.py").write_text(BARE)
        (place / "peer.py").write_text(PEER)
        commands = {"ours": [STRANDS, "mcp", "serve"], "bare": [PYTHON, "bare.py"]}
        if peer := _fastmcp_python():
            commands["fastmcp"] = [peer, "peer.py"]
        taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
        for number in range(rounds + 1):
            for name, command in commands.items():
                figures = _once(command, place)
                taken[name] += [figures] if number else []  # the first round compiles
    start, ready, call = (
        {name: statistics.median(one[index] for one in values) for name, values in taken.items()}
        for index in range(3)
    )
    for name in commands:
        yield Row(f"{name}: ready for calls, wall", ready[name], "ms")
    yield from _compared("start, CPU", start, "ms")
    yield from _compared("a call, CPU", call, "us")


def _once(command: list[str], place: Path) -> tuple[float, float, float]:
    began = time.perf_counter()
    server = Measured(command, place)
    ready = 1000 * (time.perf_counter() - began)
    try:
        for _ in range(20):
            server.call()
        started = server.cpu_ms()
        for _ in range(CALLS):
            server.call()
        return started, ready, 1000 * (server.cpu_ms() - started) / CALLS
    finally:
        server.close()


def _compared(what: str, values: dict[str, float], unit: str) -> Iterator[Row]:
    ours, bare = values["ours"], values["bare"]
    yield Row(f"the bare server of the package: {what}", bare, unit)
    yield Row(f"ours: {what}", ours, unit, "the bare server", ours / bare, 1.3)
    if "fastmcp" in values:
        peer = values["fastmcp"]
        yield Row(f"fastmcp: {what}", peer, unit)
        yield Row(f"ours: {what}", ours, unit, "fastmcp", ours / peer, 1.0)


def _fastmcp_python() -> str:
    """A Python that has fastmcp; empty, with a word about it, if there is none."""
    if given := os.environ.get("STRANDS_BENCH_FASTMCP"):
        return given
    place = Path(__file__).parent / "results" / "fastmcp"
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        commands = [
            [sys.executable, "-m", "venv", "--clear", str(place)],
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", FASTMCP],
        ]
        for command in commands:
            if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
                print(f"{FASTMCP} cannot be installed here, so it is not measured")
                return ""
        (place / "installed").touch()
    return str(python)
