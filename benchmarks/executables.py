"""What it costs to start an executable under confinement, against the machine's own floor for starting one.

The floor is `posix_spawn` of a static C program from a small process. A host of 1 GB must change nothing, so
the same is measured again with that much memory in use. Wall time, since most of it is spent in other
processes; the lower quartile, since every hop between processes waits for a processor on a busy machine.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from measuring import Row

from strands_cli.sandbox.executables import complete_confined, executables_level, run_confined, start_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, Profile

SOURCE = """
#include <unistd.h>
int main() { char b[64]; while (read(0, b, 64) > 0); return write(1, "ok", 2) != 2; }
"""
HOST_BYTES = 1 << 30
REST_SECONDS = 0.05
"""Between two calls, so that neither pays for what the other left to be done."""


def measure(rounds: int = 25) -> Iterator[Row]:
    if shutil.which("gcc") is None:
        print("gcc is missing: nothing is measured")
        return
    with tempfile.TemporaryDirectory() as place:
        program = _compiled(Path(place))
        profile = msgspec.structs.replace(EXECUTABLE_PROFILE, reads=(place,))
        cases = {
            "floor: posix_spawn of a static C program": partial(_spawned, program),
            "confined, started for the call": partial(_confined, program, profile),
            "confined, parked on stdin before the call": partial(_parked, program, profile),
            "confined, without namespaces": partial(_confined, program, profile, room=False),
        }
        print(f"level: {executables_level().name}, processes: {executables_level().processes}")
        small = _lower_quartiles(cases, rounds)
        ballast = bytearray(os.urandom(4096)) * (HOST_BYTES // 4096)
        large = _lower_quartiles(cases, rounds)
        del ballast
    yield from _rows(small, large)


def _lower_quartiles(cases: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds + 1):
        for name, measured in cases.items():
            taken[name].append(measured())
    return {name: statistics.quantiles(values[1:], n=4)[0] for name, values in taken.items()}


def _rows(small: dict[str, float], large: dict[str, float]) -> Iterator[Row]:
    floor, *names = small
    yield Row(floor, small[floor], "ms")
    for name in names:
        budget = 2 if "parked" in name else None
        yield Row(name, small[name], "ms", "floor", small[name] / small[floor], budget)
    for name in names[:2]:
        change = (large[name] / large[floor]) / (small[name] / small[floor])
        yield Row(f"{name}, 1 GB host", large[name], "ms", "small host", change, 2)


def _compiled(place: Path) -> str:
    (place / "program.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-static", "-o", place / "program", place / "program.c"], check=True)
    return str(place / "program")


def _timed(act: Callable[[], object]) -> float:
    time.sleep(REST_SECONDS)
    started = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - started)


def _spawned(program: str) -> float:
    def act() -> None:
        reading, writing = os.pipe()
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, writing, 1)]
        process = os.posix_spawn(program, [program], {}, file_actions=actions)
        os.close(writing)
        assert os.read(reading, 10) == b"ok"
        os.waitpid(process, 0)
        os.close(reading)

    return _timed(act)


def _confined(program: str, profile: Profile, *, room: bool = True) -> float:
    async def call() -> float:
        await asyncio.sleep(REST_SECONDS)
        started = time.perf_counter()
        done = await run_confined([program], profile, cwd=Path(program).parent, input=b"{}", room=room)
        taken = 1000 * (time.perf_counter() - started)
        assert done.stdout == b"ok", done
        return taken

    return asyncio.run(call())


def _parked(program: str, profile: Profile) -> float:
    async def call() -> float:
        parked = await start_confined([program], profile, cwd=Path(program).parent)
        await asyncio.sleep(REST_SECONDS)
        started = time.perf_counter()
        done = await complete_confined(parked, input=b"{}")
        taken = 1000 * (time.perf_counter() - started)
        assert done.stdout == b"ok", done
        return taken

    return asyncio.run(call())
