"""A project in a temporary directory, and the real `strands` command run in it."""

import array
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import IO

import pytest

from strands_cli.cli.app import run_command_line
from strands_cli.testing import CommandOutcome as Outcome
from strands_cli.testing import StrandsProject

__all__ = ["Outcome", "Project"]


class Project(StrandsProject):
    def strands(
        self, *arguments: str, input: str | None = None, cwd: Path | None = None, **env: str
    ) -> Outcome:
        """The command in a process of its own; see `command_server`."""
        environment = self.environment | env
        if any(os.environ.get(name) != environment.get(name) for name in _AT_START):
            return super().strands(*arguments, input=input, cwd=cwd, **env)
        started = time.monotonic()
        request = {"arguments": arguments, "cwd": str(cwd or self.root), "env": environment}
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write((input or "").encode())
            given.seek(0)
            exit_code = _served(request, [given.fileno(), out.fileno(), err.fileno()])
            texts = [_text_of(out), _text_of(err)]
        done = subprocess.CompletedProcess(arguments, exit_code, *texts)
        return Outcome(done, time.monotonic() - started)

    def shown_by(self, command: str) -> tuple[int, str]:
        """Runs a command line without a shell's signs: its exit code, and what both of its streams show."""
        _, *arguments = shlex.split(command.replace("\\\n", " "))
        request = {"arguments": arguments, "cwd": str(self.root), "env": self.environment}
        with tempfile.TemporaryFile() as out, Path(os.devnull).open() as nothing:
            exit_code = _served(request, [nothing.fileno(), out.fileno(), out.fileno()])
            return exit_code, _text_of(out)

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


# --- The process that runs commands ------------------------------------------------------------------------

_AT_START = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUTF8",
    "PYTHONIOENCODING",
    "PYTHONWARNINGS",
    "PYTHONHASHSEED",
    "LC_ALL",
)
"""What an interpreter reads when it starts."""
COMMAND_SECONDS = 60


@cache
def _command_server() -> tuple[str, "subprocess.Popen[bytes]"]:
    """The process that runs commands, which ends with this one, and its address."""
    directory = tempfile.mkdtemp(prefix="strands-tests-")
    address = f"{directory}/commands"
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("command_server.py")), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return address, server


def end_command_server() -> None:
    """Ends the process, if there is one; what coverage has counted there is written then."""
    if _command_server.cache_info().currsize:
        _, server = _command_server()
        for stream in (server.stdin, server.stdout):
            assert stream is not None
            stream.close()
        server.wait()


def _served(request: dict[str, object], streams: list[int]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_command_server()[0])
        text = json.dumps(request).encode("utf-8", "surrogateescape")
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
        connection.sendmsg([b"%08d" % len(text)], passed)
        connection.sendall(text)
        connection.settimeout(COMMAND_SECONDS)
        with connection.makefile("rb") as answers:
            pid = int(answers.readline())
            try:
                return int(answers.read())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(str(request["arguments"]), COMMAND_SECONDS) from None


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8").replace("\r\n", "\n")
