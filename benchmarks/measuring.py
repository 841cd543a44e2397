"""What the benchmarks share: child processes by CPU time, and rows with a budget."""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTHON = sys.executable
STRANDS = str(Path(sys.executable).with_name("strands"))


@dataclass
class Row:
    what: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    budget: float | None = None

    @property
    def missed(self) -> bool:
        return self.budget is not None and self.ratio is not None and self.ratio > self.budget

    def __str__(self) -> str:
        text = f"{self.what:48} {self.value:9.2f} {self.unit:3}"
        if self.ratio is not None:
            text += f"  {self.ratio:6.2f} x {self.against}"
        if self.budget is not None:
            text += f"  (budget {self.budget:g}) {'MISSED' if self.missed else 'ok'}"
        return text


def environment(**more: str) -> dict[str, str]:
    """The caller's environment, with bytecode allowed: without it every start compiles everything anew."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | more


def child_cpu(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> float:
    """CPU milliseconds, user and system, of one child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd, env=env, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def timed(once: Callable[[], Awaitable[Any]], calls: int) -> Callable[[], float]:
    """Measures CPU microseconds of one call, as the mean of many in one event loop."""

    async def many() -> float:
        started = time.process_time()
        for _ in range(calls):
            await once()
        return 1e6 * (time.process_time() - started) / calls

    return lambda: asyncio.run(many())


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each case, all cases measured in turn in each round."""
    for measure in cases.values():
        measure()
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, measure in cases.items():
            taken[name].append(measure())
    return {name: statistics.median(values) for name, values in taken.items()}
