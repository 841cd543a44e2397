"""A project in a temporary directory, and the real `strands` command run in it."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from strands_cli.cli.app import run_command_line
from strands_cli.testing import CommandOutcome as Outcome
from strands_cli.testing import StrandsProject

__all__ = ["Outcome", "Project"]


class Project(StrandsProject):
    def here(self, capture: pytest.CaptureFixture[str], *arguments: str, cwd: Path | None = None) -> Outcome:
        """The command in this process, which is quicker; directory and environment stay as they are."""
        before, directory, started = dict(os.environ), Path.cwd(), time.monotonic()
        try:
            os.environ.clear()
            os.environ.update(self.environment)
            os.chdir(cwd or self.root)
            capture.readouterr()
            exit_code = run_command_line(list(arguments))
        finally:
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(before)
        done = subprocess.CompletedProcess(arguments, exit_code, *capture.readouterr())
        return Outcome(done, time.monotonic() - started)

    def tool(self, name: str, body: str, *, properties: str = "{}", options: str = "") -> Path:
        """A tool in `tools/`: its body is the text of a function of that name."""
        decorator = f"@tool(spec=TOOL_SPEC, {options})\n" if options else ""
        schema = f'{{"json": {{"type": "object", "properties": {properties}}}}}'
        spec = f'TOOL_SPEC = {{"name": "{name}", "description": "A test tool", "inputSchema": {schema}}}'
        imports = "import asyncio, os, sys, time\nfrom strands_cli import ToolContext, ToolFailed, tool\n"
        return self.write(f"tools/{name}.py", f"{imports}\n{spec}\n\n{decorator}{body}\n")
