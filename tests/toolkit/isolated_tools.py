"""Tools that run in a process of their own: they must stand at the top of a module that a child can import."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strands_cli import ToolContext, ToolFailed, tool


def spec(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": "A test tool", "inputSchema": schema}


@tool(spec=spec("whoami"), isolate="process")
def whoami() -> dict[str, Any]:
    print("this goes to standard error")
    return {"pid": os.getpid(), "group": os.getpgrp()}


@tool(spec=spec("hold", seconds={"type": "number"}), isolate="process", timeout=1.0)
def hold(seconds: float) -> int:
    """Holds the interpreter lock, as a long computation does."""
    end = time.monotonic() + seconds
    total = 0
    while time.monotonic() < end:
        total += sum(range(10_000_000))
    return total


@tool(spec=spec("spawn", mark={"type": "string"}), isolate="process", timeout=1.0)
def spawn(mark: str) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mark])
    time.sleep(60)


@tool(
    spec=spec("leave_group", mark={"type": "string"}, then={"type": "string"}), isolate="process", timeout=60
)
def leave_group(mark: str, then: str) -> str:
    """Starts a process in a session of its own, and one that has been orphaned on purpose."""
    sleep = f"{sys.executable} -c 'import time; time.sleep(60)' {mark}"
    subprocess.Popen(["setsid", "sh", "-c", f"exec {sleep}-session"])
    subprocess.run(["sh", "-c", f"(setsid {sleep}-twice >/dev/null 2>&1 &) &"], check=True)
    time.sleep(0.3)
    if then == "crashed":
        os.kill(os.getpid(), 9)
    if then != "answered":
        time.sleep(60)
    return "answered"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@tool(spec=spec("die_async"), isolate="process", timeout=20)
async def die_async() -> None:
    raise Unspeakable


@tool(spec=spec("die", how={"type": "string"}), isolate="process", timeout=20)
def die(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), 9)
    if how == "strange details":
        raise ToolFailed("no such place", code="not_found", details=[{"place": object(), "size": 2**80}])
    if how == "exit":
        os._exit(3)
    if how == "system_exit":
        sys.exit(4)
    if how == "unspeakable":
        raise Unspeakable
    if how == "failed":
        raise ToolFailed("not here", code="not_found", hint="look elsewhere")
    raise ValueError("boom")


@tool(spec=spec("count"), isolate="process", timeout=20)
def count() -> Iterator[Any]:
    yield "one"
    yield {"two": 2}
    yield [3]


@tool(spec=spec("number"), isolate="process", output_schema={"type": "integer"})
async def number() -> int:
    return 7


@tool(spec=spec("look"), isolate="process")
def look(context: ToolContext) -> dict[str, Any]:
    root = context.workspace.roots[0]
    return {
        "id": context.tool_use["toolUseId"],
        "root": str(root),
        "key": context.key,
        "user": context.invocation_state["user"],
        "here": Path.cwd() == Path.cwd(),
    }


@tool(spec=spec("same", value={"type": "object"}), isolate="process", timeout=20)
def same(value: dict[str, Any]) -> dict[str, Any]:
    return value


@tool(spec=spec("large_number"), isolate="process", timeout=20)
def large_number() -> dict[str, Any]:
    return {"status": "success", "content": [{"json": {"number": 2**80}}]}
