"""What `python_exec` costs: warm and cold calls, a busy loop against CPython, many calls at once."""

import asyncio
import statistics
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from measuring import PYTHON, Row, child_cpu, environment, interleaved

from strands_cli import call_tool, get_registry
from strands_cli.sandbox.launcher import ZYGOTES

WARM_MS, COLD_MS, LATE_MS = 8, 150, 250
"""Wall times: somebody waits for the answer."""
TOGETHER = 16
BARE = [PYTHON, "-c", "pass"]

LOOP = """
import time
started = time.process_time()
total = 0
for number in range(1_500_000):
    total += number * number % 7
print(time.process_time() - started)
"""
FIRST_CALL = """
import asyncio, time
from strands_cli import call_tool, get_registry
tool = get_registry().load("python_exec")
async def first():
    started = time.perf_counter()
    result = await call_tool(tool, {"toolUseId": "t", "input": {"code": "6 * 7"}})
    assert result["status"] == "success", result
    print(1000 * (time.perf_counter() - started))
asyncio.run(first())
"""


def measure(rounds: int = 15) -> Iterator[Row]:
    cases = {
        "warm": lambda: asyncio.run(_warm()),
        "cold": lambda: asyncio.run(_cold()),
        "first": lambda: _printed(FIRST_CALL),
        "bare": lambda: _wall(BARE),
        "bare cpu": lambda: child_cpu(BARE),
    }
    taken = interleaved(cases, rounds)
    # Budgets in milliseconds are for a machine that does nothing else: what others take from it is taken out.
    slowed = max(1.0, taken["bare"] / taken["bare cpu"])
    yield Row("bare python, wall over CPU: how busy it is here", slowed, "x")
    yield _within("warm call", taken["warm"], WARM_MS, slowed)
    yield _within("cold call: a new zygote", taken["cold"], COLD_MS, slowed)
    yield Row("first call of a process, self-test included", taken["first"], "ms")
    loops = interleaved({"sandbox": lambda: asyncio.run(_loop()), "CPython": lambda: _printed(LOOP)}, rounds)
    yield Row("busy loop, CPython", 1000 * loops["CPython"], "ms")
    ratio = loops["sandbox"] / loops["CPython"]
    yield Row("busy loop, sandbox", 1000 * loops["sandbox"], "ms", "CPython", ratio, 1.1)
    late = statistics.median(asyncio.run(_latest()) for _ in range(3))
    yield _within(f"{TOGETHER} busy calls: the latest after its limit", late, LATE_MS, slowed)
    quick = statistics.median(asyncio.run(_quick_among_busy()) for _ in range(3))
    yield Row(f"a small call among {TOGETHER - 1} busy ones", quick, "ms")


def _within(what: str, value: float, budget: float, slowed: float) -> Row:
    return Row(what, value, "ms", f"{budget} ms, as busy as it is", value / slowed / budget, 1)


def _wall(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment(), check=True)
    return 1000 * (time.perf_counter() - started)


async def _call(code: str, timeout: int = 5) -> dict[str, Any]:
    tool = get_registry().load("python_exec")
    return await call_tool(tool, {"toolUseId": "t", "input": {"code": code, "timeout": timeout}})


async def _answered(code: str) -> float:
    """Milliseconds to the answer of a call that succeeds."""
    started = time.perf_counter()
    result = await _call(code)
    assert result["status"] == "success", result
    return 1000 * (time.perf_counter() - started)


async def _warm(calls: int = 20) -> float:
    """The median of calls that come one after the other, when nothing is left to be prepared."""
    for _ in range(5):
        await _answered("6 * 7")
    await asyncio.sleep(0.5)
    return statistics.median([await _answered("6 * 7") for _ in range(calls)])


async def _cold() -> float:
    ZYGOTES.close()
    return await _answered("6 * 7")


async def _loop() -> float:
    result = await _call(LOOP, 60)
    return float(result["content"][0]["text"])


def _printed(code: str) -> float:
    """The number that a plain child prints."""
    command = [PYTHON, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return float(done.stdout)


async def _latest() -> float:
    """Milliseconds from its limit to the latest of many answers; half of the calls have twice the time."""

    async def one(limit: int) -> float:
        started = time.perf_counter()
        result = await _call("while True: pass", limit)
        assert result["status"] == "error"
        return 1000 * (time.perf_counter() - started - limit)

    return max(await asyncio.gather(*(one(1 + number % 2) for number in range(TOGETHER))))


async def _quick_among_busy() -> float:
    busy = [asyncio.create_task(_call("while True: pass", 1)) for _ in range(TOGETHER - 1)]
    await asyncio.sleep(0.3)
    took = await _answered("6 * 7")
    await asyncio.gather(*busy)
    return took
