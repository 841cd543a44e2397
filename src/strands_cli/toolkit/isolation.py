"""`isolate: process`, the host's side: a body runs in a child, which is killed with its whole process tree.

The child (`isolation_child`) is a fresh interpreter, not a fork of the host: it imports the tool by its place
and gets the arguments as data. What it says comes back in frames: four bytes of length, then a msgpack map
with one of the keys `progress`, `json`, `failed` (JSON text: msgpack has no integers of any size; after a
crash with its `traceback`) and `value` (what has bytes in it).
"""

import inspect
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

import msgspec

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.sandbox.process_tree import end_marked_tree
from strands_cli.toolkit.context import ToolContext, tool_of, tool_use_with
from strands_cli.toolkit.values import Raised, tool_failed_from_error

_LENGTH_BYTES = 4
MARK = "STRANDS_ISOLATED_CALL"
"""The variable of the environment by which what a body leaves behind is known."""
MAX_FRAME_BYTES = 256 * 1024 * 1024


class FunctionPlace(msgspec.Struct, frozen=True):
    """Where a child finds the function: its module, or the module's file where no name leads to it."""

    module: str
    name: str
    file: str
    package: str = ""
    package_path: list[str] = []
    """The top-level package around the module, for directories of tools that no import path leads to."""


class IsolatedCall(msgspec.Struct, frozen=True):
    """What the child reads: one call of one function."""

    place: FunctionPlace
    call: str
    """The call, with its validated arguments, as JSON: msgpack has no integers of more than 64 bits."""
    sys_path: list[str]
    workspace: list[str]
    base: str
    allowed: list[str]
    invocation_state: dict[str, Any]
    key: str


def place_of_function(function: Callable[..., Any]) -> FunctionPlace:
    """Where a function can be found again; ToolError for one that only exists in this process."""
    name, module = function.__qualname__, function.__module__
    if "." in name:
        raise ToolError(
            f"{name} cannot run in a separate process: only a function at the top of a module can",
            code="unavailable",
            hint="Move it to the top of its module, or leave out isolate='process'.",
        )
    top = module.partition(".")[0]
    package = sys.modules.get(top)
    path = list(getattr(package, "__path__", [])) if top != module else []
    return FunctionPlace(module, name, inspect.getsourcefile(function) or "", top if path else "", path)


class IsolatedBody:
    """One body in one child. A worker thread waits for it; `kill` may come from any thread."""

    def __init__(self, arguments: dict[str, Any], context: ToolContext) -> None:
        self._arguments = arguments
        self._context = context
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = os.urandom(16).hex()

    def outcome(self) -> Any:
        """The body's outcome; nothing that it started is left when this returns."""
        try:
            return self._run()
        except Exception as error:  # noqa: BLE001 - a worker thread waits here, and must come back with something
            return Raised(error)
        finally:
            self.kill()
            if self._process is not None:
                self._process.wait()

    def _run(self) -> Any:
        context, tool = self._context, tool_of(self._context)
        request = IsolatedCall(
            place=tool.place,
            call=json.dumps(tool_use_with(context, self._arguments)),
            sys_path=[entry for entry in sys.path if entry],
            workspace=[str(root) for root in context.workspace.roots],
            base=str(context.workspace.base),
            allowed=[str(path) for path in context.workspace.allowed],
            invocation_state=_encodable_state(context.invocation_state),
            key=context.key,
        )
        # Standard output is the channel; the child sends what the body prints to standard error.
        command = [sys.executable, "-m", "strands_cli.toolkit.isolation_child", str(os.getpid())]
        pipe, marked = subprocess.PIPE, {**os.environ, MARK: self._mark}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=marked, start_new_session=True)
        if context.cancelled:  # the deadline passed while the child was being started
            raise ToolFailed("The call was cancelled: nobody waits for its answer", code="cancelled")
        with self._process.stdin as stdin, self._process.stdout as stdout:  # type: ignore[union-attr]
            stdin.write(msgspec.msgpack.encode(request))
            stdin.close()
            while (frame := _read_frame(stdout)) is not None:
                if "progress" in frame:
                    context.progress(json.loads(frame["progress"]))
                elif "failed" in frame:
                    raise _failure_of(frame, tool.id)
                else:
                    return json.loads(frame["json"]) if "json" in frame else frame.get("value")
        status = self._process.wait()
        how = f"exit status {status}"
        if status < 0:
            known = -status in set(signal.Signals)
            how = f"signal {signal.Signals(-status).name if known else -status}"
        raise ToolFailed(f"Execution failed: the process of {tool.id} ended with {how}", code="crashed")

    def kill(self) -> None:
        if self._process is not None:
            end_marked_tree(self._process.pid, f"{MARK}={self._mark}")


def _failure_of(frame: dict[str, Any], tool_id: str) -> ToolFailed:
    if "traceback" in frame:
        logging.getLogger("strands_cli.tools").info("tool %s crashed\n%s", tool_id, frame["traceback"])
    return tool_failed_from_error(json.loads(frame["failed"]))


def _encodable_state(state: Any) -> dict[str, Any]:
    """The part of the caller's state that can cross to another process."""
    kept = {}
    for name, value in state.items():
        try:
            msgspec.msgpack.encode(value)
        except (TypeError, OverflowError):
            continue
        kept[name] = value
    return kept


def _read_frame(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next frame, or None if the child has ended without one."""
    length = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(length, "big")
    if size > MAX_FRAME_BYTES:
        text = f"The tool's answer has {size} bytes; the limit is {MAX_FRAME_BYTES}"
        raise ToolFailed(text, code="output_invalid")
    data = stream.read(size)
    if len(length) < _LENGTH_BYTES or len(data) < size:
        return None
    frame: dict[str, Any] = msgspec.msgpack.decode(data)
    return frame


def frame_of(message: dict[str, Any]) -> bytes:
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data
