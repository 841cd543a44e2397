"""`strands mcp serve` as a child process: driven by the official client, or by lines that a test writes."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import httpx2
import pytest
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from mcp import Client, StdioServerParameters
from tests.projects import Project

MODES = ["legacy", "auto", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize(
    "mode", ["legacy", pytest.param("auto", marks=pytest.mark.long), "2026-07-28"]
)
ANY_ERA = pytest.mark.parametrize(
    "mode", ["legacy", *(pytest.param(one, marks=pytest.mark.long) for one in MODES[1:])]
)
"""For what does not depend on the era: the others are long tests."""
SERVE = [sys.executable, "-m", "strands_cli", "mcp", "serve"]
TOKEN = "0123456789abcdef0123"


class Person:
    """Whoever sits at the client: gives the same answer to every question, and keeps the questions."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self.action, self.content = action, content
        self.questions: list[str] = []
        self.forms: list[dict[str, Any]] = []

    async def __call__(self, _context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.questions.append(params.message)
        self.forms.append(params.requested_schema)  # type: ignore[union-attr]
        content = self.content if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)  # type: ignore[arg-type]


@asynccontextmanager
async def connected(
    project: Project, *options: str, mode: str = "auto", person: Person | None = None, **more: Any
) -> AsyncIterator[Client]:
    """A client of a server over stdio, whose standard error goes to `serve.log` in the project."""
    command = StdioServerParameters(
        command=SERVE[0], args=[*SERVE[1:], *options], cwd=project.root, env=project.environment
    )
    with (project.root.parent / "serve.log").open("a") as log:
        transport = stdio_client(command, errlog=log)
        async with Client(transport, mode=mode, elicitation_callback=person, **more) as client:
            yield client


@asynccontextmanager
async def connected_to(
    url: str, *, mode: str = "auto", token: str = TOKEN, person: Person | None = None
) -> AsyncIterator[Client]:
    """A client of a server over HTTP."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=person) as client:
            yield client


@contextmanager
def http_server(project: Project, *options: str, **env: str) -> Iterator[str]:
    """A server over HTTP on a free port; its URL."""
    command = [*SERVE, "--http", "0", *options]
    environment = {**project.environment, "STRANDS_MCP_TOKEN": TOKEN, **env}
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=environment,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        yield line.rpartition(" at ")[2].strip()
    finally:
        process.terminate()
        process.communicate(timeout=10)


class RawServer:
    """A server and its lines, as a hostile client would use them."""

    def __init__(self, project: Project, *options: str) -> None:
        self.process = subprocess.Popen(
            [*SERVE, *options],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: Queue[bytes] = Queue()
        self._errors: list[bytes] = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._drain, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def errors(self) -> str:
        return b"".join(self._errors).decode()

    def send(self, message: Any) -> None:
        """Writes a message, or bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        )
        self.process.stdin.flush()

    def request(self, method: str, number: int = 1, **params: Any) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.answer(number)

    def answer(self, number: int | None, seconds: float = 20) -> dict[str, Any]:
        """The next answer with this id; what comes before it is dropped."""
        end = time.monotonic() + seconds
        while True:
            message = self.next(max(0.01, end - time.monotonic()))
            if "method" not in message and message.get("id") == number:
                return message

    def next(self, seconds: float = 20) -> dict[str, Any]:
        try:
            message: dict[str, Any] = json.loads(self._lines.get(timeout=seconds))
        except Empty:
            raise AssertionError(f"no line within {seconds} s: {self.errors}") from None
        return message

    def shake_hands(self, **capabilities: Any) -> dict[str, Any]:
        answer = self.request(
            "initialize",
            0,
            protocolVersion="2025-11-25",
            capabilities=capabilities,
            clientInfo={"name": "raw", "version": "1"},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def call(self, name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", number, name=name, arguments=arguments)

    def close(self) -> int:
        """Ends the input and waits; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=10)


@contextmanager
def raw_server(project: Project, *options: str) -> Iterator[RawServer]:
    server = RawServer(project, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


async def eventually(condition: Any, seconds: float = 15) -> None:
    """Waits until an async condition holds."""
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith("Z")
