"""A project in a temporary directory, and the real `strands` command run in it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Outcome:
    """What one run of the command came to."""

    def __init__(self, done: subprocess.CompletedProcess[str], seconds: float) -> None:
        self.exit_code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.seconds = seconds

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.exit_code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        (root / "strands.toml").touch()
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(root.parent / "cache"),
            "HOME": str(root.parent / "home"),
            "NO_COLOR": "1",
        }
        self.environment.pop("BYPASS_TOOL_CONSENT", None)
        self.environment.pop("STRANDS_CUSTOM_TOOL_ALLOWLIST", None)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def tool(self, name: str, body: str, *, properties: str = "{}", options: str = "") -> Path:
        """A tool in `tools/`: its body is the text of a function of that name."""
        decorator = f"@tool(spec=TOOL_SPEC, {options})\n" if options else ""
        schema = f'{{"json": {{"type": "object", "properties": {properties}}}}}'
        spec = f'TOOL_SPEC = {{"name": "{name}", "description": "A test tool", "inputSchema": {schema}}}'
        imports = "import asyncio, os, sys, time\nfrom strands_cli import ToolContext, ToolFailed, tool\n"
        return self.write(f"tools/{name}.py", f"{imports}\n{spec}\n\n{decorator}{body}\n")

    def strands(
        self, *arguments: str, input: str | None = None, cwd: Path | None = None, **env: str
    ) -> Outcome:
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "strands_cli", *arguments],
            cwd=cwd or self.root,
            env=self.environment | env,
            input=input if input is not None else "",
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        return Outcome(done, time.monotonic() - started)
