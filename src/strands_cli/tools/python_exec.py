"""Run Python code that a model wrote, confined: no files, no network, no other process."""

import base64
import binascii
from itertools import count
from typing import Any

import msgspec

from strands_cli.errors import ToolError, ToolFailed, install_hint
from strands_cli.sandbox.code_run import CallTool, PythonOutcome
from strands_cli.sandbox.launcher import ZygoteLost
from strands_cli.sandbox.profile import PYTHON_PROFILE
from strands_cli.sandbox.python_code import PythonUnavailable, run_python
from strands_cli.toolkit.context import ToolContext, call_for_model
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "python_exec",
    "description": (
        "Execute Python code in a sandbox and return what it prints and the value of its last expression. "
        "The standard library is available; files, network and processes are not. open() reads the files "
        "passed in, and files that the code writes come back. call_tool('name', **arguments) calls "
        "another tool."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "Python code to execute"},
                "timeout": {
                    "type": "integer",
                    "default": 5,
                    "minimum": 1,
                    "maximum": 60,
                    "description": "Timeout in seconds, after which the code is stopped",
                },
                "files": {
                    "type": "object",
                    "description": "Files that the code can open, by path: text, or {'base64': …} for bytes",
                    "propertyNames": {"minLength": 1, "maxLength": 1000},
                    "additionalProperties": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "object",
                                "properties": {"base64": {"type": "string"}},
                                "required": ["base64"],
                                "additionalProperties": False,
                            },
                        ]
                    },
                },
                "session": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9_.-]{1,64}$",
                    "description": "Calls with the same session see each other's variables and files",
                },
            },
            "required": ["code"],
        }
    },
}

MAX_CALLS = 20
_SHOWN_CHARACTERS = 4_000


@tool(spec=TOOL_SPEC, version="1.0.0", category="compute", timeout=90)
async def python_exec(
    code: str,
    context: ToolContext,
    timeout: int = 5,
    files: dict[str, Any] | None = None,
    session: str = "",
) -> dict[str, Any]:
    if not code.strip():
        raise ToolFailed("No code provided")
    profile = msgspec.structs.replace(PYTHON_PROFILE, seconds=float(timeout), cpu_seconds=float(timeout + 1))
    contents = {name: _file_bytes(name, content) for name, content in (files or {}).items()}
    try:
        outcome = await run_python(
            code, profile=profile, files=contents, session=session, call_tool=_tool_caller(context)
        )
    except PythonUnavailable as error:
        missing = [f"{layer}: {need}" for layer, need in error.level.missing.items()]
        needs = "; ".join(missing) or "strands doctor says more"
        hint = f"{needs}. Or use the extra monty. {install_hint('monty')}"
        raise ToolFailed(str(error), code="unavailable", hint=hint) from None
    except ZygoteLost as error:
        text = f"Execution failed: SandboxError: {str(error) or 'the sandbox ended while the code ran'}"
        raise ToolFailed(text, hint="The same call may succeed.") from None
    if outcome.error is not None:
        raise _execution_failure(outcome, session)
    text = outcome.stdout or "Code executed successfully (no output)"
    return {"status": "success", "content": [{"text": text}, {"json": _outcome_report(outcome, session)}]}


def _tool_caller(context: ToolContext) -> CallTool:
    """How the code calls tools: each like any other call, and not too many."""
    numbers = count(1)

    async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if next(numbers) > MAX_CALLS:
            return _call_error("denied", f"The code has reached its limit of {MAX_CALLS} tool calls")
        try:
            return {"value": await call_for_model(context, name, arguments)}
        except (ToolFailed, ToolError) as error:
            return _call_error(error.code, f"{error.message}. {error.hint}" if error.hint else error.message)

    return call


def _call_error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _file_bytes(name: str, content: str | dict[str, str]) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "replace")
    try:
        return base64.b64decode(content["base64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolFailed(f"The file {name!r} is not base64: {error}", code="input_invalid") from None


def _outcome_report(outcome: PythonOutcome, session: str) -> dict[str, Any]:
    """What there is besides the printed text; the value is always there."""
    is_plain = outcome.representation is None
    report = {"value": outcome.value} if is_plain else {"repr": outcome.representation}
    others = {
        "stderr": outcome.stderr,
        "files": {name: _file_content(data) for name, data in outcome.files.items()},
        "dropped_bytes": outcome.dropped_bytes,
        "session": {"name": session, "new": outcome.new_session} if session else None,
    }
    return report | {name: part for name, part in others.items() if part}


def _file_content(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _execution_failure(outcome: PythonOutcome, session: str) -> ToolFailed:
    error = outcome.error
    assert error is not None
    hints = [f"Line {error.line} of the code."] if error.line else []
    if outcome.timed_out:
        hints.append("Do less at a time, or pass a higher timeout (at most 60).")
    elif error.type == "ModuleNotFoundError":
        hints.append("Only the standard library is available.")
    if session and not outcome.is_whole:
        hints.append(f"The session {session!r} ended with it: its variables are gone.")
    detail = {"type": error.type, "line": error.line}
    detail |= {"stdout": outcome.stdout[-_SHOWN_CHARACTERS:], "stderr": outcome.stderr[-_SHOWN_CHARACTERS:]}
    return ToolFailed(
        f"Execution failed: {error.type}: {error.message}",
        code="timeout" if outcome.timed_out else "failed",
        hint=" ".join(hints),
        details=[{name: value for name, value in detail.items() if value}],
    )


__getattr__ = with_tool_specs(__name__)
