"""What a call of a plugin's tool costs once its process waits for it, against a process started for the call.

All of it through `call_tool`, in one event loop, as an agent's run does. Wall time, since most of it is spent
in other processes; with a rest before each call. The floor is `posix_spawn` of the same static C program. A
host of 1 GB must change nothing. What is compared with the floor or with itself is the lower quartile: every
hop between processes waits for a processor on a busy machine. What has a budget in time is the median.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measuring import PYTHON, Row, child_cpu, environment

from strands_cli.plugins.plugin import read_plugin
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.settings import load_settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace

PARKED_MS = 3
FLOOR_TIMES = 2
HOST_BYTES = 1 << 30
REST_SECONDS = 0.15
"""Between two calls: the process for the next call of the same tool starts in it, and nothing else runs."""
BARE = [PYTHON, "-c", "pass"]

C = r"""
#include <unistd.h>
int main() { char b[64]; while (read(0, b, 64) > 0); return write(1, "{\"ok\": 1}\n", 10) != 10; }
"""
SCRIPTS = {
    "bash": '#!/bin/bash\nread -r input\necho "{\\"ok\\": ${#input}}"\n',
    "python3": """#!/usr/bin/env python3
import json, sys
print(json.dumps({"ok": len(json.load(sys.stdin))}))
""",
    "node": """#!/usr/bin/env node
let input = '';
process.stdin.on('data', chunk => input += chunk);
process.stdin.on('end', () => console.log(JSON.stringify({ok: Object.keys(JSON.parse(input)).length})));
""",
}

Taken = dict[str, list[float]]


def measure(rounds: int = 15) -> Iterator[Row]:
    missing = [program for program in ("gcc", *SCRIPTS) if shutil.which(program) is None]
    if missing:
        print(f"{', '.join(missing)}: missing, nothing is measured")
        return
    with tempfile.TemporaryDirectory() as place:
        project = Path(place)
        _make_plugin(project / "plugins" / "bench")
        small = asyncio.run(_measured(project, rounds))
        ballast = bytearray(os.urandom(4096)) * (HOST_BYTES // 4096)
        large = asyncio.run(_measured(project, rounds))
        del ballast
    yield from _rows(small, large)


def _rows(small: Taken, large: Taken) -> Iterator[Row]:
    slowed = max(1.0, _median(small["bare wall"]) / _median(small["bare cpu"]))
    yield Row("bare python, wall over CPU: how busy it is here", slowed, "x")
    for name in SCRIPTS:
        yield Row(f"{name}, spawned for the call", _median(small[f"{name} fresh"]), "ms")
        value = _median(small[f"{name} call"])
        against = f"{PARKED_MS} ms, as busy as it is"
        yield Row(f"{name}, parked", value, "ms", against, value / slowed / PARKED_MS, 1)
    floor = _quartile(small["floor"])
    yield Row("floor: posix_spawn of a static C program", floor, "ms")
    for name, budget in (("c fresh", None), ("c call", FLOOR_TIMES)):
        value = _quartile(small[name])
        what = "C, parked" if budget else "C, spawned for the call"
        yield Row(what, value, "ms", "floor", value / floor, budget)
    for name in ("c call", "c fresh", "python3 call"):
        value = _quartile(large[name])
        change = (value / _quartile(large["floor"])) / (_quartile(small[name]) / floor)
        yield Row(f"{name}, 1 GB host", value, "ms", "small host", change, 2)


_median = statistics.median


def _quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def _make_plugin(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "c.c").write_text(C)
    subprocess.run(["gcc", "-O2", "-static", "-o", place / "c", place / "c.c"], check=True)
    for name, source in SCRIPTS.items():
        (place / name).write_text(source)
        (place / name).chmod(0o755)
    tools = [
        {"name": f"{name}-{mode}", "path": name, "mode": mode, "annotations": {"readOnlyHint": True}}
        for name in ("c", *SCRIPTS)
        for mode in ("call", "fresh")
    ]
    (place / "plugin.json").write_text(json.dumps({"name": "bench", "cli_tools": tools}))


async def _measured(project: Path, rounds: int) -> Taken:
    plugin = read_plugin(project / "plugins" / "bench").plugin
    assert plugin is not None
    settings = load_settings(project)
    context = CallContext(settings=settings, workspace=Workspace((project,), project))
    tools = {
        tool.name.replace("-", " "): plugin_tool(plugin, tool, settings) for tool in plugin.manifest.cli_tools
    }
    taken: Taken = {name: [] for name in (*tools, "floor", "bare wall", "bare cpu")}
    for _ in range(rounds + 1):
        for name, tool in tools.items():
            await asyncio.sleep(REST_SECONDS)
            taken[name].append(await _answered(tool, context))
        await asyncio.sleep(REST_SECONDS)
        taken["floor"].append(_spawned(str(project / "plugins" / "bench" / "c")))
        taken["bare wall"].append(_wall(BARE))
        taken["bare cpu"].append(child_cpu(BARE, env=environment()))
    return {name: values[1:] for name, values in taken.items()}


async def _answered(tool: Tool, context: CallContext) -> float:
    started = time.perf_counter()
    result = await call_tool(tool, {"toolUseId": "t", "input": {"a": 1}}, context)
    taken = 1000 * (time.perf_counter() - started)
    assert result["status"] == "success", result
    return taken


def _wall(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment(), check=True)
    return 1000 * (time.perf_counter() - started)


def _spawned(program: str) -> float:
    started = time.perf_counter()
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, writing, 1)]
    process = os.posix_spawn(program, [program], {}, file_actions=actions)
    os.close(writing)
    assert os.read(reading, 20) == b'{"ok": 1}\n'
    os.waitpid(process, 0)
    os.close(reading)
    return 1000 * (time.perf_counter() - started)
