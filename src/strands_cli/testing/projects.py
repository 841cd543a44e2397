"""Test projects: files in a directory, the `strands` command run in it, and tool calls."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import UsageError
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.workspace import Workspace, current_directory
from strands_cli.tools import calls, get_registry

if TYPE_CHECKING:
    from strands_cli.runtime.resources import Model
    from strands_cli.types import RunResult

COMMAND_SECONDS = 60
"""How long a command may take."""


class CommandOutcome:
    """The outcome of a `strands` command."""

    def __init__(self, done: "subprocess.CompletedProcess[str]", seconds: float) -> None:
        self.exit_code = done.returncode
        self.out = done.stdout
        self.err = done.stderr
        self.seconds = seconds

    @property
    def json(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.exit_code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class StrandsProject:
    """A project in a directory: files, the command run in it, and workflows run in this process."""

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
        """Writes a file of the project."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def write_tool(self, name: str, source: str) -> Path:
        """Writes `tools/NAME.py`. Common indentation is removed."""
        file = self.write(f"tools/{name}.py", dedent(source))
        get_registry().refresh()
        return file

    def write_workflow(self, text: str, path: str = "flow.yaml") -> Path:
        """Writes a workflow file. Common indentation is removed."""
        return self.write(path, dedent(text))

    def strands(
        self, *arguments: str, input: str | None = None, cwd: Path | None = None, **env: str
    ) -> CommandOutcome:
        """Runs the `strands` command in a child process, with extra environment variables."""
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "strands_cli", *arguments],
            cwd=cwd or self.root,
            env=self.environment | env,
            input=input if input is not None else "",
            capture_output=True,
            encoding="utf-8",
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return CommandOutcome(done, time.monotonic() - started)

    def run(
        self,
        workflow: str | Path,
        variables: Mapping[str, Any] | None = None,
        *,
        model: "Model | None" = None,
        **options: Any,
    ) -> "RunResult":
        """Runs a workflow of the project in this process; `model` replaces every provider.

        `options` are fields of `RunOptions`.
        """
        from strands_cli.exec.run import run_sync
        from strands_cli.exec.steps import RunOptions

        given = RunOptions(model=model, **{"directory": self.root, **options})
        return run_sync(self.root / workflow, variables, given)

    @contextmanager
    def current(self) -> Iterator["StrandsProject"]:
        """Makes the project the current directory, with its tools in the registry.

        At the end, modules imported from it are removed from `sys.modules`.
        """
        before, modules, places = current_directory(), {*sys.modules}, [*sys.path]
        cache = os.environ.get("XDG_CACHE_HOME")
        os.chdir(self.root)
        os.environ["XDG_CACHE_HOME"] = self.environment["XDG_CACHE_HOME"]
        get_registry().refresh()
        try:
            yield self
        finally:
            os.chdir(before)
            os.environ.pop("XDG_CACHE_HOME")
            os.environ.update({"XDG_CACHE_HOME": cache} if cache is not None else {})
            sys.path[:] = places
            for name in {*sys.modules} - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{self.root}{os.sep}"):
                    del sys.modules[name]
            get_registry().unregister()
            get_registry().refresh()


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a tool call."""

    result: ToolResult
    """The result that an agent would get."""

    @property
    def code(self) -> str | None:
        """The error code; None if the call succeeded."""
        error = error_of(self.result)
        return error["code"] if error else None

    @property
    def text(self) -> str:
        """The answer, or the error message."""
        if error := error_of(self.result):
            return str(error["message"])
        parts = self.result["content"]
        return "\n".join(
            str(part["text"]) if "text" in part else json.dumps(part.get("json"), ensure_ascii=False)
            for part in parts
            if "text" in part or "json" in part
        )

    @property
    def data(self) -> Any:
        """The answer as data; None if it is text."""
        return next((part["json"] for part in self.result["content"] if "json" in part), None)

    def expect(self, code: str | None, pointer: str = "") -> "ToolOutcome":
        """Asserts that the call failed with this error code, or that it succeeded if `code` is None.

        `pointer`, such as `/text`, must be one of the places in the input that the error names.
        """
        __tracebackhide__ = True
        error = error_of(self.result) or {}
        details = [detail for detail in error.get("details", ()) if isinstance(detail, dict)]
        if self.code == code and (not pointer or pointer in (detail.get("pointer") for detail in details)):
            return self
        places = [
            str(detail.get("pointer") or f"{detail['file']}:{detail.get('line')}")
            for detail in details
            if detail.get("pointer") or detail.get("file")
        ]
        expected = f"{code or 'success'} at {pointer}" if pointer else code or "success"
        found = f"{self.code or 'success'} at {', '.join(places)}" if places else self.code or "success"
        raise AssertionError(f"Expected {expected}, got {found}: {self.text}")


async def _grant(tool: Tool, arguments: dict[str, Any]) -> None:
    """Consents to every call."""


class CallTool:
    """Calls a tool under the full contract: checks of input and output, a time limit, and consent."""

    def __init__(self, workspace: Workspace | None = None) -> None:
        """Without a `workspace`, tools use that of the project."""
        self.context = CallContext(workspace=workspace, permit=_grant)
        """Replace it to call with other settings, or without consent."""

    def __call__(
        self, tool: calls.Callee, arguments: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> ToolOutcome:
        """`tool` is a tool, a function, or the id of one of the project's tools."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            resolve = self.context.resolve or get_registry().load
            context = msgspec.structs.replace(self.context, resolve=resolve)
            return ToolOutcome(asyncio.run(calls.call_tool(tool, arguments, context, **keywords)))
        raise UsageError(
            "This cannot be called in a running event loop.", hint="Write: await strands_cli.call_tool(…)"
        )


def call(tool: calls.Callee, arguments: Mapping[str, Any] | None = None, /, **keywords: Any) -> ToolOutcome:
    """Calls a tool under the full contract, with consent, in the workspace of the current project.

    `tool` is a tool, a function, or the id of one of the project's tools: `call("greet", name="Ada").text`.
    For a tool that writes files, use the fixture `call_tool`, which has an empty workspace.
    """
    return CallTool()(tool, arguments, **keywords)
