"""All benchmarks, or those named: `make bench ARGS="cold_start calls"`.

Every figure is a ratio taken in one run: ours and what it is measured against are interleaved, and medians of
CPU time are compared, so that a busy machine disturbs both alike. Exits with 1 when a budget is missed.
"""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

BENCHMARKS = ("cold_start", "growth", "calls", "sandbox", "executables")


def main(names: list[str]) -> int:
    missed = 0
    for name in names or BENCHMARKS:
        print(f"\n== {name}")
        for row in importlib.import_module(name).measure():
            print(row)
            missed += row.missed
    print(f"\n{missed} budgets missed" if missed else "\nall budgets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
