"""What runs inside a confined process: one piece of code after another, and what became of it.

By the time that it runs, the process can only compute, and speak with the host over one descriptor.
"""

import ast
import io
import json
import os
import signal
import sys
import types
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any

from strands_cli.sandbox import messages
from strands_cli.sandbox.inside.memory_files import MemoryFiles

CODE_NAME = "<code>"
_LONGEST_MESSAGE = 10_000
_HELD_BYTES = 16_384
_HELD_SECONDS = 0.05
_EARLY_SECONDS = 0.1
"""How long before its end code is asked where it stands, so that the answer can say so."""


class _OutputStream(io.RawIOBase):
    """Standard output or error: frames to the host, up to a limit; what is beyond it is counted.

    What is printed after a rest is sent at once, so that it is known even if the process is killed; what
    comes in quick succession is sent together.
    """

    def __init__(self, channel: int, kind: bytes, limit: int) -> None:
        super().__init__()
        self._channel, self._kind, self._room = channel, kind, limit
        self._held = bytearray()
        self._sent = 0.0
        self.dropped = 0
        self.text = io.TextIOWrapper(
            io.BufferedWriter(self, _HELD_BYTES), "utf-8", "backslashreplace", "\n", line_buffering=True
        )

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        kept = bytes(data[: self._room])
        self._room -= len(kept)
        self.dropped += size - len(kept)
        self._held += kept
        if len(self._held) >= _HELD_BYTES or monotonic() - self._sent > _HELD_SECONDS:
            self.send()
        return size

    def send(self) -> None:
        held, self._held = self._held, bytearray()
        if held:
            messages.write_frame(self._channel, self._kind, bytes(held))
            self._sent = monotonic()


class ToolCallError(RuntimeError):
    """A tool that confined code called has failed; `code` says how."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class HostTools:
    """`tools.name(...)` in confined code: the same as `call_tool("name", ...)`."""

    def __init__(self, channel: int) -> None:
        import threading

        self.__channel = channel
        self.__lock = threading.Lock()

    def __call__(self, name: str, /, **arguments: Any) -> Any:
        request = json.dumps({"name": name, "arguments": arguments}).encode()
        with self.__lock:  # the answers come in the order of the questions
            messages.write_frame(self.__channel, messages.CALL, request)
            answer = json.loads(messages.read_frame(self.__channel)[1])
        if "error" in answer:
            raise ToolCallError(answer["error"]["message"], answer["error"]["code"])
        return answer["value"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda **arguments: self(name, **arguments)


class Interpreter:
    """Runs code for one call, or for all calls of a session, with the names that earlier code has left."""

    def __init__(self, channel: int, files: MemoryFiles) -> None:
        self._channel = channel
        self._files = files
        tools = HostTools(channel)
        self._main = types.ModuleType("__main__")
        self._main.__dict__.update(call_tool=tools, tools=tools)
        sys.modules["__main__"] = self._main
        self._outputs: list[_OutputStream] = []

    def serve(self) -> bool:
        """Runs the next piece of code; whether there may be another one."""
        request = self._request()
        limit, goes_on = request["output_bytes"], request["session"]
        self._outputs = [
            _OutputStream(self._channel, kind, limit) for kind in (messages.STDOUT, messages.STDERR)
        ]
        sys.stdout, sys.stderr = (output.text for output in self._outputs)
        sys.stdin = io.StringIO()
        signal.signal(signal.SIGALRM, self._tell_where_it_stands)
        left = request["until"] - monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left - _EARLY_SECONDS, left / 2, 0.001))
        outcome = self._outcome(request["code"], limit, ends=not goes_on)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._send_files(request["files_bytes"], outcome)
        outcome["dropped"] = [output.dropped for output in self._outputs]
        messages.write_frame(self._channel, messages.OUTCOME, json.dumps(outcome).encode())
        return bool(goes_on)

    def _request(self) -> dict[str, Any]:
        while True:
            kind, content = messages.read_frame(self._channel)
            if kind == messages.FILE:
                self._files.put(*messages.split_file(content))
            elif kind == messages.CODE:
                request: dict[str, Any] = json.loads(content)
                return request

    def _outcome(self, code: str, limit: int, *, ends: bool) -> dict[str, Any]:
        """What the code came to: the value of its last expression, or what it raised."""
        import atexit
        import threading

        try:
            outcome = _reported_value(self._run(code), limit)
            if ends:  # as at the end of a program: its threads are waited for, its exit functions run
                threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls then
                atexit._run_exitfuncs()
        except SystemExit as left:
            outcome = {"error": _described_error(left)} if left.code not in (None, 0) else {}
        except BaseException as error:  # noqa: BLE001 - whatever the code raises is its outcome
            outcome = {"error": _described_error(error)}
        self._flush()
        return outcome

    def _run(self, code: str) -> Any:
        import linecache

        tree = ast.parse(code, CODE_NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        # Tracebacks that the code prints itself show its lines.
        linecache.cache[CODE_NAME] = (len(code), None, code.splitlines(keepends=True), CODE_NAME)
        names = self._main.__dict__
        exec(compile(tree, CODE_NAME, "exec"), names)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), CODE_NAME, "eval"), names)

    def _send_files(self, limit: int, outcome: dict[str, Any]) -> None:
        changed = list(self._files.changed())
        size = sum(len(data) for _, data in changed)
        if size > limit:
            text = f"the files that the code wrote have {size} bytes; {limit} can be returned"
            outcome.setdefault("error", {"type": "OSError", "message": text, "line": None})
            return
        for name, data in changed:
            messages.write_frame(self._channel, messages.FILE, messages.file_content(name, data))

    def _flush(self) -> None:
        for output in self._outputs:
            try:
                output.text.flush()
            except BaseException:  # noqa: BLE001 - it was being written to, or the code has broken it
                pass
            output.send()

    def _tell_where_it_stands(self, _number: int, frame: FrameType | None) -> None:
        """Shortly before the end: what was printed so far, and the line that is being executed."""
        while frame is not None and frame.f_code.co_filename != CODE_NAME:
            frame = frame.f_back
        self._flush()
        messages.write_frame(
            self._channel, messages.LATE, json.dumps({"line": frame.f_lineno if frame else None}).encode()
        )


def _reported_value(value: object, limit: int) -> dict[str, Any]:
    """The value as JSON where it has such a form, else as its text."""
    try:
        if len(json.dumps(value, allow_nan=False)) <= limit:
            return {"value": value}
    except (TypeError, ValueError, RecursionError):
        pass
    return {"repr": _text_or_failure(repr, value)[:limit]}


def _described_error(error: BaseException) -> dict[str, Any]:
    text = _text_or_failure(str, error)[:_LONGEST_MESSAGE]
    return {"type": type(error).__name__, "message": text, "line": _failing_line(error)}


def _text_or_failure(make: Callable[[object], str], value: object) -> str:
    try:
        return make(value)
    except BaseException as error:  # noqa: BLE001 - a value's own text is code that a model wrote, too
        return f"<{type(value).__name__}; its {make.__name__} raises {type(error).__name__}>"


def _failing_line(error: BaseException) -> int | None:
    """The line of the code that raised: the deepest one, since what it calls is not the model's."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == CODE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def run_interpreter(descriptor: int, files: MemoryFiles) -> None:
    """Runs whatever the host sends, until it sends no more."""
    interpreter = Interpreter(descriptor, files)
    try:
        while interpreter.serve():
            pass
    except (EOFError, BrokenPipeError):
        pass  # the host has gone, or has stopped listening
    os._exit(0)
