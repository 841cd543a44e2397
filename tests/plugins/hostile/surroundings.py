"""What a hostile plugin could reach, and what is looked at once it has been called."""

import asyncio
import json
import os
import select
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from strands_cli.events import ToolProgress
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.sandbox.executables import executables_level
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of
from tests.plugins.hostile.records import ANSWER, Hostile
from tests.plugins.makers import SH, Bench, text_of

CANARY = "canary-7f3a9c51"
"""Stands in the environment, at home and outside the workspace."""
SETTING = "sesame-4b81e0d2"
"""The value of a sensitive setting, which the tool gets and nobody else."""
MAX_CHARACTERS = 250_000
"""Of an answer, progress aside: what a model would have to read."""
MAX_PROGRESS = 1000
SLACK_SECONDS = 3.0
"""For a machine on which much else runs; a call that nothing ended would take ten times that."""


class Surroundings:
    """A project with a workspace, a home, secrets, listeners, and a process that must live."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.home = bench.root / "home"
        (self.home / ".ssh").mkdir(parents=True)
        (bench.project / "out").mkdir()
        for file in (bench.outside / "secret.txt", self.home / ".netrc", self.home / ".ssh" / "id_rsa"):
            file.write_text(CANARY)
        (bench.project / "data.txt").write_text("data\n")
        self.victim = subprocess.Popen(["sleep", "60"])
        self.listeners = self._listen()

    def _listen(self) -> list[socket.socket]:
        tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        with_path, without = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        here = os.open(self.bench.project, os.O_RDONLY)
        with_path.bind(f"/proc/self/fd/{here}/socket")  # the path itself may be too long for an address
        os.close(here)
        without.bind(f"\0strands-{self.bench.mark}")
        for server in (tcp, with_path, without):
            server.listen()
        return [tcp, udp, with_path, without]

    def close(self) -> None:
        for server in self.listeners:
            server.close()
        self.victim.kill()
        self.victim.wait()

    def tool(self, hostile: Hostile) -> Tool:
        for place, target in hostile.links.items():
            (self.bench.project / place).parent.mkdir(parents=True, exist_ok=True)
            (self.bench.project / place).symlink_to(self._filled(target))
        return self.bench.tool(self._filled(hostile.source), **hostile.keys)

    async def calls(self, tool: Tool, hostile: Hostile) -> list[tuple[ToolResult, float]]:
        """Each answer with the seconds that it took. Between two calls, the next process is started ahead."""
        found = []
        for number in range(hostile.calls):
            await asyncio.sleep(0.2 if number else 0)
            started = time.monotonic()
            result = await self.bench.ask(tool, hostile.input)
            found.append((result, time.monotonic() - started))
        return found

    def _filled(self, text: str) -> str:
        values = {
            "outside": self.bench.outside,
            "workspace": self.bench.project,
            "plugin": self.bench.project / "plugins" / "p",
            "home": self.home,
            "port": self.listeners[0].getsockname()[1],
            "socket": self.bench.project / "socket",
            "abstract": f"strands-{self.bench.mark}",
            "victim": self.victim.pid,
            "host": os.getpid(),
            "mark": self.bench.mark,
        }
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    # --- Afterwards ---------------------------------------------------------------------------------------

    def contents(self) -> dict[str, tuple[int, bytes]]:
        """Every file with its mode, but for the place where a plugin may write."""
        found = {}
        for directory, _, names in os.walk(self.bench.root):
            if Path(directory).is_relative_to(self.bench.project / "out"):
                continue
            for file in (Path(directory, name) for name in names):
                status = file.lstat()
                if stat.S_ISREG(status.st_mode) and "/cache/" not in str(file):
                    found[str(file)] = (status.st_mode, file.read_bytes())
        return found

    def set_user_id_files(self) -> list[Path]:
        return [file for file in (self.bench.project / "out").iterdir() if file.lstat().st_mode & 0o6000]

    def was_contacted(self) -> bool:
        poll = select.poll()
        for server in self.listeners:
            poll.register(server, select.POLLIN)
        return bool(poll.poll(0))

    def nothing_survives(self) -> bool:
        """Neither what bears the mark in its environment, nor what bears it in its name."""
        return self.bench.nothing_survives() and not self._named_survivors()

    def _named_survivors(self) -> list[int]:
        found = []
        for process in Path("/proc").iterdir():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if self.bench.mark.encode() in words:
                found.append(int(process.name))
        return found

    def still_serves(self) -> bool:
        self.bench.plugin({"source": f"{SH}read -r line; echo good\n"}, name="good")
        plugin = self.bench.loaded("good")
        tool = plugin_tool(plugin, plugin.manifest.cli_tools[0], self.bench.settings)
        return text_of(self.bench.call(tool)) == "good"


def shown(result: ToolResult, surroundings: Surroundings) -> str:
    """All that anybody is told about a call, as JSON that any program reads."""
    events = [event.data for event in surroundings.bench.events if isinstance(event, ToolProgress)]
    assert len(events) <= MAX_PROGRESS * 3, "progress was passed on without end"
    texts = json.dumps([result["content"], events], allow_nan=False, ensure_ascii=False)
    return texts.encode("utf-8").decode() + str(surroundings.bench.events)


def code_of(result: ToolResult) -> str:
    found = error_of(result)
    return str(found["code"]) if found else ANSWER


def hint_of(result: ToolResult) -> str:
    found: dict[str, Any] = error_of(result) or {}
    return str(found.get("hint", ""))


def is_in_a_room() -> bool:
    return "namespaces" in executables_level().layers
