"""Many calls of many plugins at once: each gets its own answer, its own limits, and a place of its own."""

import asyncio
import os
import time
from typing import Any

import pytest

from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, ToolUse
from strands_cli.toolkit.schedule import call_tools
from tests.plugins.makers import BASH, NODE, PYTHON, SH, Bench, error, json_of, need

CALLS = 100
ECHO_C = """#include <stdio.h>
int main() {
    static char line[4096];
    if (!fgets(line, sizeof line, stdin)) return 1;
    printf("{\\"by\\": \\"c\\", \\"input\\": %s}", line);
    return 0;
}
"""
TOOLS: dict[str, dict[str, Any]] = {
    "sh": {
        # What another call has left in scratch, this one would see.
        "source": f"""{SH}read -r line
left=0; test -e "$TMPDIR/mine" && left=1
echo "$line" > "$TMPDIR/mine"; sleep 0.05
test "$line" = "$(cat "$TMPDIR/mine")" && echo "{{\\"by\\": \\"sh\\", \\"left\\": $left, \\"input\\": $line}}"
""",
    },
    "bash": {"source": f'{BASH}read -r line; echo "{{\\"by\\": \\"bash\\", \\"input\\": $line}}"\n', "mode": "fresh"},
    "python": {
        "source": f"""{PYTHON}import json, os, sys
given = json.load(sys.stdin)
print(json.dumps({{"by": "python", "input": given, "secret": os.environ.get("ONLY_PYTHON", "")}}))
""",
        "env": ["ONLY_PYTHON"],
    },
    "node": {
        "source": f"""{NODE}const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify({{by: 'node', input: given, secret: process.env.ONLY_PYTHON || ''}}));
""",
    },
    "worker": {
        "source": f"""{PYTHON}import json, random, sys, threading, time
def work(message):
    time.sleep(random.random() / 20)
    print(json.dumps({{"id": message["id"], "result": {{"by": "worker", "input": message["input"]}}}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "input" in message:
        threading.Thread(target=work, args=(message,)).start()
""",
        "mode": "worker",
    },
    "c": {"source": ECHO_C},
    "slow": {"source": f"{SH}sleep 600\n", "timeout": 2},
    "greedy": {
        "source": f"{PYTHON}import time\nheld = bytearray(200_000_000)\ntime.sleep(5)\n",
        "memory": "64MB",
    },
    "loud": {"source": f"{SH}yes\n"},
    "broken": {"source": f'{SH}read -r line; echo "{{\\"error\\": \\"no\\", \\"input\\": $line}}"\n'},
    "curious": {"source": f"{SH}cat ../outside/secret; echo x > made\n"},
}  # fmt: skip
CODES = {
    "slow": "timeout",
    "greedy": "crashed",
    "loud": "output_invalid",
    "broken": "failed",
    "curious": "forbidden",
}
"""What the calls of those come to that fail."""


def tools_of(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tool]:
    """A plugin for each, all of them marked."""
    need("bash", "gcc", "node")
    monkeypatch.setenv("STRANDS_TEST_MARK", bench.mark)
    monkeypatch.setenv("ONLY_PYTHON", "canary")
    found: dict[str, Tool] = {}
    for name, keys in TOOLS.items():
        bench.plugin({**keys, "env": [*keys.get("env", ()), "STRANDS_TEST_MARK"]}, name=name)
        plugin = bench.loaded(name)
        found[name] = plugin_tool(plugin, plugin.manifest.cli_tools[0], bench.settings)
    return found


def uses_of(tools: dict[str, Tool]) -> list[tuple[str, dict[str, Any]]]:
    names = list(tools)
    return [(names[n % len(names)], {"n": n, "text": f"call {n}"}) for n in range(CALLS)]


@pytest.mark.timeout(120)
def test_a_hundred_calls_of_mixed_plugins_keep_apart(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tools_of(bench, monkeypatch)
    (bench.outside / "secret").write_text("canary")
    uses = uses_of(tools)

    async def all_at_once() -> list[tuple[ToolResult, float]]:
        return await asyncio.gather(*(timed(bench, tools[name], given) for name, given in uses))

    found = asyncio.run(all_at_once())
    for (name, given), (result, seconds) in zip(uses, found, strict=True):
        check(name, given, result)
        assert seconds < 40, f"{name} took {seconds:.1f} s"
    assert not (bench.project / "made").exists()
    assert bench.nothing_survives()


def turn_call(tool: Tool, number: int, given: dict[str, Any]) -> tuple[Tool, ToolUse]:
    return tool, {"toolUseId": str(number), "name": tool.id, "input": given}


async def timed(bench: Bench, tool: Tool, given: dict[str, Any]) -> tuple[ToolResult, float]:
    started = time.monotonic()
    result = await bench.ask(tool, given)
    return result, time.monotonic() - started


def check(name: str, given: dict[str, Any], result: ToolResult) -> None:
    """The answer belongs to this call and to no other."""
    if name in CODES:
        found = error(result)
        assert found["code"] == CODES[name], (name, found)
        assert "canary" not in str(result)
        if name == "broken":
            assert found["details"] == [{"input": given}]
        return
    answer = json_of(result)
    assert (answer["by"], answer["input"]) == (name, given)
    assert answer.get("left", 0) == 0
    assert answer.get("secret", "") == ("canary" if name == "python" else "")


@pytest.mark.timeout(120)
def test_the_answers_of_one_turn_come_in_the_order_of_its_calls(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = {name: tool for name, tool in tools_of(bench, monkeypatch).items() if name not in CODES}
    uses = uses_of(tools)
    calls = [turn_call(tools[name], n, given) for n, (name, given) in enumerate(uses)]
    results = asyncio.run(call_tools(calls, bench.context()))
    assert [result["toolUseId"] for result in results] == [str(n) for n in range(CALLS)]
    for (name, given), result in zip(uses, results, strict=True):
        check(name, given, result)
    assert bench.nothing_survives()


def test_calls_that_write_the_same_file_take_turns(bench: Bench) -> None:
    """What a plugin declares as its effects holds among processes too."""
    script = f"""{BASH}read -r line
count=$(cat count); sleep 0.05; echo $((count + 1)) > count; echo "$count"
"""
    (bench.project / "count").write_text("0")
    tool = bench.tool(script, files={"write": ["count"]}, effects={"writes": ["file:count"]})
    calls = [turn_call(tool, n, {}) for n in range(8)]
    results = asyncio.run(call_tools(calls, bench.context()))
    assert [result["content"] for result in results] == [[{"text": str(n)}] for n in range(8)]
    assert (bench.project / "count").read_text() == "8\n"


def test_many_calls_do_not_hold_descriptors(bench: Bench) -> None:
    tool = bench.tool(f'{SH}read -r line; echo "$line"\n')

    async def calls() -> tuple[int, int]:
        await asyncio.gather(*(bench.ask(tool, {"n": n}) for n in range(10)))
        before = len(os.listdir("/proc/self/fd"))
        await asyncio.gather(*(bench.ask(tool, {"n": n}) for n in range(50)))
        await asyncio.sleep(0.2)
        return before, len(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(calls())
    assert after <= before + 4
