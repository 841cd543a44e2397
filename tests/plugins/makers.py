"""Plugins made by tests, and calls of their tools."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strands_cli.events import Event
from strands_cli.plugins.plugin import Plugin, read_plugin
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.sandbox import process_tree
from strands_cli.settings import Settings, load_settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.workspace import Workspace

SH = "#!/bin/sh\n"
BASH = "#!/bin/bash\n"
PYTHON = "#!/usr/bin/env python3\n"
NODE = "#!/usr/bin/env node\n"


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
                pytest.fail(f"{program} is missing")
            pytest.skip(f"{program} is missing")


class Bench:
    """A project with a workspace, a place outside it, and plugins as a test wants them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.outside = root / "outside"
        for directory in (self.project / "plugins", self.outside):
            directory.mkdir(parents=True)
        (self.project / "strands.toml").touch()
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.events: list[Event] = []

    @property
    def settings(self) -> Settings:
        return load_settings(self.project)

    def plugin(self, *tools: dict[str, Any], name: str = "p", **manifest: Any) -> Path:
        """A plugin whose tools have a `source` in place of a path, where the test writes no file itself."""
        place = self.project / "plugins" / name
        (place / "cli-tools").mkdir(parents=True, exist_ok=True)
        declared = [self._declared(place, dict(tool)) for tool in tools]
        document = {"name": name, "cli_tools": declared, **manifest}
        (place / "plugin.json").write_text(json.dumps(document, indent=2))
        return place

    def _declared(self, place: Path, tool: dict[str, Any]) -> dict[str, Any]:
        source = tool.pop("source", None)
        tool.setdefault("name", "t")
        tool.setdefault("path", f"cli-tools/{tool['name']}")
        file = place / tool["path"]
        if source is not None and source.lstrip().startswith("#include"):
            need("gcc")
            (self.root / "program.c").write_text(source)
            subprocess.run(["gcc", "-w", "-O2", "-static", "-o", file, self.root / "program.c"], check=True)
        elif source is not None:
            file.write_text(source)
            file.chmod(0o755)
        return tool

    def loaded(self, name: str = "p") -> Plugin:
        reading = read_plugin(self.project / "plugins" / name)
        assert reading.plugin is not None, reading.issues
        return reading.plugin

    def tool(self, source: str, **keys: Any) -> Tool:
        """The one tool of a plugin; `marked` children are found again by their environment."""
        os.environ["STRANDS_TEST_MARK"] = self.mark
        keys["env"] = [*keys.get("env", []), "STRANDS_TEST_MARK"]
        self.plugin({"source": source, **keys})
        plugin = self.loaded()
        return plugin_tool(plugin, plugin.manifest.cli_tools[0], self.settings)

    def context(self, **changes: Any) -> CallContext:
        workspace = Workspace((self.project,), self.project)
        given = {"workspace": workspace, "settings": self.settings, "emit": self.events.append, **changes}
        return CallContext(**given)

    async def ask(self, tool: Tool, arguments: dict[str, Any] | None = None, **changes: Any) -> ToolResult:
        use = {"toolUseId": "1", "input": arguments or {}}
        return await call_tool(tool, use, self.context(**changes))  # type: ignore[arg-type]

    def call(self, tool: Tool, arguments: dict[str, Any] | None = None, **changes: Any) -> ToolResult:
        return asyncio.run(self.ask(tool, arguments, **changes))

    def run(self, source: str, arguments: dict[str, Any] | None = None, **keys: Any) -> ToolResult:
        return self.call(self.tool(source, **keys), arguments)

    def survivors(self) -> list[int]:
        proc = process_tree.open_proc()
        try:
            return process_tree.marked_processes(f"STRANDS_TEST_MARK={self.mark}", proc)
        finally:
            os.close(proc)

    def nothing_survives(self) -> bool:
        deadline = time.monotonic() + 3
        while self.survivors() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.survivors()


def error(result: ToolResult) -> dict[str, Any]:
    found = error_of(result)
    assert found is not None, result
    return found


def json_of(result: ToolResult) -> Any:
    assert result["status"] == "success", result
    return next(block["json"] for block in result["content"] if "json" in block)


def text_of(result: ToolResult) -> str:
    assert result["status"] == "success", result
    return "\n".join(block["text"] for block in result["content"] if "text" in block)


async def until(is_true: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.01)
