"""What MCP servers cost who uses them: listings with ten of them, and a start with 201 calls.

The server is the one of the examples, which needs nothing but Python. The CPU time is the client's own: the
server's is counted by nobody.
"""

import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import PYTHON, STRANDS, Row, child_cpu, environment

SERVER = Path(__file__).parents[1] / "examples" / "servers" / "units.py"
CALLS = 201
ARGUMENTS = {"value": 1, "source": "m", "target": "cm"}

OURS = f"""
import asyncio, sys, time
from strands_cli import call_tool

async def main():
    for _ in range({CALLS}):
        result = await call_tool("units0__convert", {ARGUMENTS!r})
        assert result["status"] == "success", result

asyncio.run(main())
print(time.process_time())
"""
PACKAGE = f"""
import asyncio, time
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

async def main():
    server = StdioServerParameters(command="python3", args=[{str(SERVER)!r}])
    async with Client(server, mode="legacy") as client:
        await client.list_tools()
        for _ in range({CALLS}):
            await client.call_tool("convert", {ARGUMENTS!r})

asyncio.run(main())
print(time.process_time())
"""
SDK = f"""
import time
from mcp.client.stdio import StdioServerParameters, stdio_client
from strands.tools.mcp import MCPClient

server = StdioServerParameters(command="python3", args=[{str(SERVER)!r}])
with MCPClient(lambda: stdio_client(server)) as client:
    client.list_tools_sync()
    for number in range({CALLS}):
        client.call_tool_sync(str(number), "convert", {ARGUMENTS!r})
print(time.process_time())
"""
FLOOR = f"""
import json, subprocess, time
server = subprocess.Popen(["python3", {str(SERVER)!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(number, method, **params):
    line = {{"jsonrpc": "2.0", "id": number, "method": method, "params": params}}
    server.stdin.write(json.dumps(line).encode() + b"\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"]
ask(0, "initialize")
ask(1, "tools/list")
for number in range({CALLS}):
    ask(number + 2, "tools/call", name="convert", arguments={ARGUMENTS!r})
server.kill()
print(time.process_time())
"""


def measure(rounds: int = 7) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        yield from _listings(place, rounds)
        yield from _clients(place, rounds)


def _listings(place: Path, rounds: int) -> Iterator[Row]:
    plain, full = place / "plain", place / "full"
    for project, servers in ((plain, 0), (full, 10)):
        project.mkdir()
        tables = [f'[mcp.servers.units{number}]\ncommand = "{SERVER}"\n' for number in range(servers)]
        (project / "strands.toml").write_text("".join(tables))
        for number in range(servers):
            command = [STRANDS, "mcp", "check", f"units{number}"]
            subprocess.run(command, cwd=project, env=_environment(place), check=True, capture_output=True)
    taken: dict[Path, list[float]] = {plain: [], full: []}
    for number in range(2 * rounds + 1):
        for project, values in taken.items():
            cost = child_cpu([STRANDS, "list-tools"], project, _environment(place))
            values += [cost] if number else []  # the first round fills the cache
    without, with_ten = (statistics.median(values) for values in taken.values())
    yield Row("list-tools without servers", without, "ms")
    yield Row("list-tools with ten servers", with_ten, "ms", "without", with_ten / without, 1.1)


def _clients(place: Path, rounds: int) -> Iterator[Row]:
    programs = {"floor": FLOOR, "ours": OURS, "mcp.Client": PACKAGE, "the SDK's MCPClient": SDK}
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        for name, text in programs.items():
            done = subprocess.run(
                [PYTHON, "-c", text],
                cwd=place / "full",
                env=_environment(place),
                check=True,
                capture_output=True,
                text=True,
            )
            taken[name] += [1000 * float(done.stdout.split()[-1])] if number else []
    costs = {name: statistics.median(values) for name, values in taken.items()}
    what = f"start, list, {CALLS} calls"
    yield Row(f"lines of JSON, no client: {what}", costs["floor"], "ms")
    for name in ("mcp.Client", "the SDK's MCPClient"):
        yield Row(f"{name}: {what}", costs[name], "ms")
        yield Row(
            f"ours, confined and checked: {what}", costs["ours"], "ms", name, costs["ours"] / costs[name], 1.3
        )


def _environment(place: Path) -> dict[str, str]:
    directories = {f"XDG_{name}_HOME": str(place / name) for name in ("CONFIG", "DATA", "CACHE")}
    return environment(STRANDS_TRUST="1", **directories)
