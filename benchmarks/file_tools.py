"""What a call of a file tool costs, against the same done with plain calls of the system in a thread."""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measuring import Row, interleaved, timed

from strands_cli import CallContext, Tool, call_tool
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools.data_tools.parse_json import parse_json
from strands_cli.tools.file_operations.file_list import file_list
from strands_cli.tools.file_operations.file_read import file_read
from strands_cli.tools.file_operations.file_write import file_write

CALLS = 100
BUDGETS = {"file_read": 6, "parse_json": 6, "file_list": 8, "file_write": 4, "append": 4}
"""How many times as much CPU as the plain calls; about one and a half times what a quiet machine measures."""


def measure(rounds: int = 15) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        medians = interleaved(cases(root), rounds)
    for name, budget in BUDGETS.items():
        ours, plain = medians[name], medians[f"plain {name}"]
        yield Row(name, ours, "us", "plain calls", ours / plain, budget)


def cases(root: Path) -> dict[str, Callable[[], float]]:
    """CPU microseconds of one call, by name: our tools, and what they are measured against."""
    place = root / "a/b"
    place.mkdir(parents=True)
    (place / "text.json").write_text(json.dumps([{"name": "x" * 40}] * 80))
    for number in range(100):
        (root / f"{number}.txt").touch()
    read, write = {"path": "a/b/text.json"}, {"path": "a/b/new.txt", "content": "x" * 4000}
    file = place / "text.json"
    text = "x" * 4000
    return {
        "file_read": ours(root, file_read, read),
        "plain file_read": plain(file.read_text),
        "parse_json": ours(root, parse_json, read),
        "plain parse_json": plain(lambda: json.loads(file.read_bytes())),
        "file_list": ours(root, file_list, {}),
        "plain file_list": plain(lambda: sorted((one.name, one.stat().st_size) for one in os.scandir(root))),
        "file_write": ours(root, file_write, {**write, "mode": "overwrite"}),
        "plain file_write": plain(lambda: replaced(place / "plain.txt", text)),
        "append": ours(root, file_write, {**write, "path": "a/b/log.txt", "content": "x", "mode": "append"}),
        "plain append": plain(lambda: replaced(place / "plain-log.txt", text)),
    }


def replaced(file: Path, text: str) -> None:
    """A file with other content, whole or not at all, and on the disk."""
    draft = file.with_suffix(".tmp")
    with draft.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def ours(root: Path, tool: Tool, given: dict[str, Any]) -> Callable[[], float]:
    async def permit(_tool: Tool, _arguments: dict[str, Any]) -> None: ...

    context = CallContext(workspace=Workspace((root,), root), permit=permit)

    async def once() -> None:
        result = await call_tool(tool, {"toolUseId": "x", "input": given}, context)
        assert result["status"] == "success", result

    return timed(once, CALLS)


def plain(work: Callable[[], object]) -> Callable[[], float]:
    async def once() -> None:
        await asyncio.to_thread(work)

    return timed(once, CALLS)
