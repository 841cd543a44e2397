"""What is attacked: the tool as it ships, the same code under some of the layers, or the guide's first version."""

import base64
import io
from contextlib import redirect_stdout
from typing import Any, Literal

import msgspec

from strands_cli import tool
from strands_cli.sandbox.profile import PYTHON_PROFILE, Layer
from strands_cli.sandbox.python_code import run_python
from strands_cli.toolkit.contract import Tool
from strands_cli.tools import get_registry

Target = list[Layer] | Literal["exec"] | None
"""The layers in force; None is `python_exec` itself, "exec" runs the code in the host, as the guide does."""


def target(wanted: Target) -> Tool:
    if wanted is None:
        return get_registry().load("python_exec")
    return _in_the_host() if wanted == "exec" else _under(frozenset(wanted))


def _under(layers: frozenset[Layer]) -> Tool:
    # It has a limit of its own, since without layers a process can keep the sandbox waiting.
    @tool(timeout=10)
    async def layered(
        code: str, timeout: int = 5, files: dict[str, Any] | None = None, session: str = ""
    ) -> Any:
        """Runs code under some layers."""
        profile = msgspec.structs.replace(PYTHON_PROFILE, seconds=float(timeout))
        given = {name: text.encode() for name, text in (files or {}).items()}
        outcome = await run_python(code, profile=profile, files=given, session=session, _layers=layers)
        told = msgspec.to_builtins(outcome)
        told["files"] = {name: base64.b64encode(data).decode() for name, data in outcome.files.items()}
        return {"status": "error" if outcome.error else "success", "content": [{"json": told}]}

    return layered


def _in_the_host() -> Tool:
    sessions: dict[str, dict[str, Any]] = {}

    @tool(timeout=10)
    def layered(code: str, timeout: int = 5, files: dict[str, Any] | None = None, session: str = "") -> Any:
        """Runs code with exec() and captures what it prints."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            names: dict[str, Any] = {"__name__": "__main__"}
            value = _executed(code, sessions.setdefault(session, names) if session else names)
        return {"status": "success", "content": [{"text": printed.getvalue()}, {"json": {"value": value}}]}

    return layered


def _executed(code: str, names: dict[str, Any]) -> str:
    """As the guide's tool, and besides it answers with the value of code that is one expression."""
    try:
        return repr(eval(compile(code, "<code>", "eval"), names))
    except SyntaxError:
        exec(compile(code, "<code>", "exec"), names)
    return ""
