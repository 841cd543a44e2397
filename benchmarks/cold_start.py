"""How long a command takes to start, against a bare interpreter."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measuring import PYTHON, STRANDS, Row, child_cpu, environment, interleaved

BUDGETS = {
    "strands --version": 3,
    "strands --help": 7,
    "strands list-tools": 7,
    "strands tool call echo message=hi": 12,
}


def measure(rounds: int = 21) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        run = partial(child_cpu, cwd=Path(place), env=environment(XDG_CACHE_HOME=f"{place}/cache"))
        cases = {"python -c pass": lambda: run([PYTHON, "-c", "pass"])}
        for text in BUDGETS:
            cases[text] = partial(run, [STRANDS, *text.split()[1:]])
        medians = interleaved(cases, rounds)
    floor = medians["python -c pass"]
    yield Row("python -c pass", floor, "ms")
    for text, budget in BUDGETS.items():
        yield Row(text, medians[text], "ms", "bare python", medians[text] / floor, budget)
