"""Writes the table of docs/concepts/local-model.md from the output of `strands eval --json`.

    make local-table

For each name, `local_evals/NAME.yaml` has the cases and `results/local-NAME.json` the result.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strands_cli.evals.cases import EvalCase, load_eval

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "concepts" / "local-model.md"
BEGIN, END = "<!-- Written by 'make local-table'. -->\n", "<!-- The end of the table. -->"

Attempt = dict[str, Any]


def rates(name: str) -> dict[str, str]:
    """What one column of the table shows."""
    result = json.loads((HERE / "results" / f"local-{name}.json").read_text("utf-8"))
    attempts = {case["case"]: case["attempts"][0] for case in result["cases"]}
    cases = load_eval(HERE / "local_evals" / f"{name}.yaml").cases
    pairs = [(case, attempts[case.name]) for case in cases]
    one, two, none = (
        [pair for pair in pairs if pair[0].name.startswith(kind)]
        for kind in ("one-tool", "two-step", "no-tool")
    )
    return {
        "one tool: the first call is of the right tool": share(is_right_tool(*pair) for pair in one),
        "one tool: with the right arguments": share(meets(attempt, "calls") for _, attempt in one),
        "one tool: the right answer": share(meets(attempt, "matches") for _, attempt in one),
        "one tool: all of it": share(attempt["passed"] for _, attempt in one),
        "two steps: both calls in order, and the right answer": share(
            attempt["passed"] for _, attempt in two
        ),
        "no tool: no call": share(attempt["passed"] for _, attempt in none),
    }


def is_right_tool(case: EvalCase, attempt: Attempt) -> bool:
    assert case.expect.calls is not None
    assert case.expect.calls.expected
    made = [call["tool"] for call in attempt["calls"]]
    return made[:1] == [case.expect.calls.expected[0].tool]


def meets(attempt: Attempt, expectation: str) -> bool:
    failed = {mismatch["expectation"] for mismatch in attempt["mismatches"]}
    return not failed & {expectation, "error"}


def share(facts: Iterator[bool]) -> str:
    known = [*facts]
    return f"{sum(known)}/{len(known)}"


def main(names: list[str]) -> int:
    columns = {name: rates(name) for name in names}
    rows = [[key, *(column[key] for column in columns.values())] for key in columns[names[0]]]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    table = "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)]) + "\n"
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", "utf-8")
    print(table, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
