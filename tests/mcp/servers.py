"""Servers as tests configure them, calls of their tools, and what is left when they are closed."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.events import Event
from strands_cli.testing.projects import ToolOutcome
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools import get_registry
from strands_cli.tools.calls import call_tool
from tests.projects import Outcome, Project

HOSTILE = Path(__file__).with_name("hostile_server.py")
ANSWER = "an answer"
"""In the place of a code: the call succeeded."""
START_SECONDS = 10.0
"""For a start that should succeed, on a busy machine too."""
CLOSING_SECONDS = 6.0
"""How long it may take to close all servers."""
GONE_SECONDS = 4.0
"""How soon after the end the last process of a server is gone."""


class Called(msgspec.Struct, frozen=True):
    code: str
    """ANSWER, or the code of the error."""
    shown: str
    """All that a model would read."""
    data: Any
    seconds: float


class Servers:
    """A project whose user has configured servers; each is found again by the mark in its command line."""

    def __init__(self, project: Project, capture: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self.capture = capture
        self.mark = f"strands-test-{os.getpid()}-{time.monotonic_ns()}"
        self.out = project.root / "out"
        self.out.mkdir()
        self.events: list[Event] = []
        shutil.copy(HOSTILE, project.root / "server.py")
        self.project.environment["BYPASS_TOOL_CONSENT"] = "1"

    # --- Configuration ------------------------------------------------------------------------------------

    @property
    def user_settings(self) -> Path:
        return Path(self.project.environment["XDG_CONFIG_HOME"]) / "strands-cli" / "strands.toml"

    def hostile(self, mode: str, **keys: Any) -> dict[str, Any]:
        """The entry of a hostile server, confined to the project, with short limits."""
        return {
            "command": sys.executable,
            "args": [str(self.project.root / "server.py"), mode, self.mark],
            "env": {"STRANDS_TEST_RECORD": str(self.record_file)},
            "files": {"read": ["."], "write": ["out"]},
            "timeout": 2.0,
            "start_timeout": START_SECONDS,
            **keys,
        }

    def configure(self, mode: str, name: str = "bad", **keys: Any) -> None:
        """A hostile server in the user's own settings, which need no trust."""
        self.add(self.user_settings, name, self.hostile(mode, **keys))

    def turn(self, before: str, after: str) -> None:
        """From now on, what was configured as one mode starts as another, and has less time for it."""
        settings = self.user_settings.read_text("utf-8").replace(f'"{before}"', f'"{after}"')
        self.user_settings.write_text(settings, "utf-8")
        self.limit_starts()

    def limit_starts(self, seconds: float = 2.0) -> None:
        """From now on, servers have less time to start: those that follow are expected to fail."""
        settings = self.user_settings.read_text("utf-8")
        settings = settings.replace(f"start_timeout = {START_SECONDS}", f"start_timeout = {seconds}")
        self.user_settings.write_text(settings, "utf-8")

    def add(self, file: Path, name: str, entry: dict[str, Any]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as settings:
            lines = "\n".join(f"{key} = {as_toml(value)}" for key, value in entry.items())
            settings.write(f"[mcp.servers.{name}]\n{lines}\n\n")

    # --- Commands and calls -------------------------------------------------------------------------------

    def here(self, *arguments: str) -> Outcome:
        """A command in this process."""
        with self.project.current():
            return self.project.here(self.capture, *arguments)

    def strands(self, *arguments: str, **env: str) -> Outcome:
        """A command in a process of its own."""
        return self.project.strands(*arguments, **env)

    def check(self, name: str = "bad") -> Outcome:
        """Starts a server, lists its tools, and closes it."""
        return self.here("mcp", "check", name, "--json")

    @contextmanager
    def calls(self) -> Iterator["Calls"]:
        """Calls in this process and one loop. At the end all servers are closed, and nothing is left."""
        os.environ["BYPASS_TOOL_CONSENT"] = "1"
        with self.project.current(), asyncio.Runner() as runner:
            try:
                yield Calls(self, runner)
            finally:
                runner.run(asyncio.wait_for(get_registry().aclose(), CLOSING_SECONDS))
        self.assert_nothing_survives()

    # --- Afterwards ---------------------------------------------------------------------------------------

    @property
    def record_file(self) -> Path:
        return self.out / "record.jsonl"

    @property
    def record(self) -> list[dict[str, Any]]:
        """What the servers were started with and sent, in order."""
        if not self.record_file.exists():
            return []
        return [json.loads(line) for line in self.record_file.read_text("utf-8").splitlines()]

    def starts(self) -> int:
        return sum("start" in entry for entry in self.record)

    def sent(self, method: str) -> list[dict[str, Any]]:
        return [entry for entry in self.record if entry.get("method") == method]

    def calls_of(self, tool: str) -> list[dict[str, Any]]:
        return [entry for entry in self.sent("tools/call") if entry["params"]["name"] == tool]

    def survivors(self) -> list[str]:
        found = []
        for process in Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.mark.encode() in words:
                found.append(f"{process.name}: {b' '.join(words).decode(errors='replace')}")
        return found

    def assert_nothing_survives(self) -> None:
        deadline = time.monotonic() + GONE_SECONDS
        while self.survivors() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.survivors() == []


class Calls:
    def __init__(self, servers: Servers, runner: asyncio.Runner) -> None:
        self.servers = servers
        self.runner = runner
        root = servers.project.root
        self.context = CallContext(workspace=Workspace((root,), root), emit=servers.events.append)

    def __call__(self, tool: str, **arguments: Any) -> Called:
        return self.together((tool, arguments))[0]

    def together(self, *calls: tuple[str, dict[str, Any]]) -> list[Called]:
        return self.runner.run(self._all(calls))

    async def _all(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Called]:
        return await asyncio.gather(*(self.one(tool, **arguments) for tool, arguments in calls))

    async def one(self, tool: str, **arguments: Any) -> Called:
        started = time.monotonic()
        context = msgspec.structs.replace(self.context, resolve=get_registry().load)
        result = await call_tool(tool, {"input": arguments}, context)
        outcome = ToolOutcome(result)
        shown = json.dumps(result["content"], ensure_ascii=False)
        return Called(outcome.code or ANSWER, shown, outcome.data, time.monotonic() - started)


def as_toml(value: Any) -> str:
    """A value of a table, inline. Numbers, texts, lists of them and tables are all that entries have."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)
