"""Our own budgets: `make bench ARGS=all`, or those named: `make bench ARGS="cold_start calls"`.

Every figure is a ratio taken in one run: ours and what it is measured against are interleaved, and medians of
CPU time are compared, so that a busy machine disturbs both alike. Each benchmark has a process of its own, so
that none measures what another has left behind. `--quick` shortens those that know it: cluster. Exits with 1
when a budget is missed.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

BENCHMARKS = (
    "cold_start",
    "growth",
    "calls",
    "file_tools",
    "runs",
    "journal",
    "sandbox",
    "executables",
    "plugins",
    "mcp_server",
    "mcp_client",
    "cluster",
)


def main(names: list[str]) -> int:
    if "--quick" in names:
        os.environ["STRANDS_BENCH_QUICK"] = "1"
        names = [name for name in names if name != "--quick"]
    names = [] if names == ["all"] else names
    if len(names) == 1:
        return measured(names[0])
    runs = {
        name: subprocess.run([sys.executable, __file__, name], check=False) for name in names or BENCHMARKS
    }
    failed = [name for name, run in runs.items() if run.returncode]
    print(f"\nbudgets missed in: {', '.join(failed)}" if failed else "\nall budgets met")
    return 1 if failed else 0


def measured(name: str) -> int:
    print(f"\n== {name}", flush=True)
    missed = 0
    for row in importlib.import_module(name).measure():
        print(row, flush=True)
        missed += row.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
