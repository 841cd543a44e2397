"""What many tools cost: a listing over 1,000 files, and a call among 10,000 registered tools."""

import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measuring import STRANDS, Row, child_cpu, environment, interleaved

from strands_cli import call_tool, get_registry, tool

TOOL = '''"""Tool {number}."""

TOOL_SPEC = {{
    "name": "{name}",
    "description": "Does thing number {number} with a text and a number",
    "inputSchema": {{"json": {{
        "type": "object",
        "properties": {{
            "text": {{"type": "string", "description": "What to work on"}},
            "times": {{"type": "integer", "description": "How often", "default": 1}},
        }},
        "required": ["text"],
    }}}},
}}


def {name}(tool, **kwargs):
    return {{"status": "success", "content": [{{"text": tool["input"]["text"]}}]}}
'''


def measure(rounds: int = 15) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        cases = {}
        for count in (10, 1000):
            project = _project(Path(place) / str(count), count)
            cache = environment(XDG_CACHE_HOME=f"{place}/cache{count}")
            cases[f"second list-tools, {count} files"] = partial(
                child_cpu, [STRANDS, "list-tools"], cwd=project, env=cache
            )
        medians = interleaved(cases, rounds)
    (few_name, few), (many_name, many) = medians.items()
    yield Row(few_name, few, "ms")
    yield Row(many_name, many, "ms", "10 files", many / few, 2)
    yield from _calls()


def _project(root: Path, count: int) -> Path:
    (root / "tools").mkdir(parents=True)
    (root / "strands.toml").touch()
    for number in range(count):
        name = f"thing_{number}"
        (root / "tools" / f"{name}.py").write_text(TOOL.format(name=name, number=number))
    return root


def _calls() -> Iterator[Row]:
    """Finding and calling a tool: the same with 10 and with 10,000 others."""
    registry = get_registry()
    medians = {}
    for count in (10, 10_000):
        registry.refresh()
        registry.register(*(_small(f"small_{number}") for number in range(count)))
        gc.collect()
        gc.freeze()  # the tools stay; walking over them again and again is the collector's cost, not a call's
        medians[count] = min(interleaved({"call": lambda: asyncio.run(_one(registry))}, 5).values())
    registry.refresh()
    yield Row("find and call among 10", medians[10], "us")
    yield Row(
        "find and call among 10,000", medians[10_000], "us", "among 10", medians[10_000] / medians[10], 1.2
    )


def _small(name: str) -> object:
    spec = {"name": name, "description": "", "inputSchema": {"type": "object", "properties": {}}}

    @tool(spec=spec, blocking=False)
    def body() -> str:
        return "done"

    return body


async def _one(registry: object, calls: int = 2000) -> float:
    started = time.process_time()
    for _ in range(calls):
        await call_tool(registry.load("small_7"), {"toolUseId": "t", "input": {}})
    return 1e6 * (time.process_time() - started) / calls
