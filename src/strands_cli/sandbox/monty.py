"""Where the kernel cannot confine code: pydantic-monty, an interpreter of a part of Python with no way out.

It runs in a worker process of its own. It knows fewer modules and no inheritance, and is slower.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from strands_cli.sandbox.code_run import CallTool, PythonError, PythonOutcome
from strands_cli.sandbox.profile import MEGABYTE, Profile

_MAX_MEMORY_BYTES = 64 * MEGABYTE
"""Beyond this its own accounting is known to be too generous."""
_GRACE_SECONDS = 0.5
_LONGEST_MESSAGE = 10_000


async def run_interpreted(
    code: str,
    profile: Profile,
    files: Mapping[str, bytes],
    session: str = "",
    call_tool: CallTool | None = None,
) -> PythonOutcome:
    """As `run_python`, without sessions."""
    if session:
        text = "sessions need confined processes, and this machine offers the level 'interpreter' only"
        return PythonOutcome(error=PythonError("SandboxError", text), files={})
    loop = asyncio.get_running_loop()
    outcome = PythonOutcome(files={}, is_whole=True)

    def call(name: str, **arguments: Any) -> Any:
        outcome.calls += 1
        if call_tool is None:
            raise RuntimeError("There are no tools to call here")
        answer = asyncio.run_coroutine_threadsafe(call_tool(name, arguments), loop).result()
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["value"]

    await asyncio.to_thread(_run_in_monty, code, profile, files, {"call_tool": call}, outcome)
    return outcome


def _run_in_monty(
    code: str, profile: Profile, files: Mapping[str, bytes], lookup: dict[str, Any], outcome: PythonOutcome
) -> None:
    import pydantic_monty as monty

    given = {f"/{name.lstrip('/')}": _text_or_bytes(data) for name, data in files.items()}
    disk = monty.OSAccess([monty.MemoryFile(path, content=data) for path, data in given.items()])
    printed = monty.CollectStreams(2 * profile.output_bytes)
    limits: monty.ResourceLimits = {
        "max_feed_duration_secs": profile.seconds,
        "max_memory": min(profile.memory_bytes, _MAX_MEMORY_BYTES),
    }
    try:
        with (
            monty.Monty(max_processes=1, feed_duration_limit_grace=_GRACE_SECONDS) as pool,
            pool.checkout(limits=limits) as worker,
        ):
            value = worker.feed_run(code, print_callback=printed, external_lookup=lookup, os=disk)
        _note_value(value, profile.output_bytes, outcome)
    except monty.MontyError as error:
        inner = error.exception()
        lines = [frame.line for frame in getattr(error, "traceback", list)()]
        text = str(inner)[:_LONGEST_MESSAGE]
        outcome.error = PythonError(type(inner).__name__, text, lines[-1] if lines else None)
        outcome.timed_out = outcome.error.type == "TimeoutError"
    for stream, text in printed.output:
        setattr(outcome, stream, getattr(outcome, stream) + text)
    for file in disk.files:
        data = file.read_content()
        if given.get(str(file.path)) != data:
            outcome.files[str(file.path).lstrip("/")] = data.encode() if isinstance(data, str) else data


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _note_value(value: object, limit: int, outcome: PythonOutcome) -> None:
    try:
        encoded = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        encoded = ""
    if encoded and len(encoded) <= limit:
        outcome.value = json.loads(encoded)
    else:
        outcome.representation = repr(value)[:limit]
