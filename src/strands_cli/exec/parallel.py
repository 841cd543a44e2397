"""Branches at the same time, then maybe one step over all of them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions, together
from strands_cli.exec.steps import Wanted, all_answers, run_step, run_steps
from strands_cli.types import Branch, Parallel, RunResult, Spec, StepResult


async def run_parallel(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _parallel, Parallel)


async def _parallel(run: Run, pattern: Parallel) -> StepResult:
    run.names["branches"] = {}
    ended: dict[str, StepResult] = {}
    ends = await together(
        run, [_branch(run, pattern, index, branch, ended) for index, branch in enumerate(pattern.branches)]
    )
    branches = {end.id: end for end in ends}
    if pattern.reduce is None:
        return ends[-1]
    wanted = Wanted(otherwise=all_answers(branches))
    names = {"branches": branches}
    return await run_step(run, "reduce", pattern.reduce, title="reduce", names=names, wanted=wanted)


async def _branch(
    run: Run, pattern: Parallel, index: int, branch: Branch, ended: dict[str, StepResult]
) -> StepResult:
    """`ended` has what is there so far, for a run that does not come to its end."""
    done = await run_steps(run, f"branches/{index}/steps", branch.steps, titles=branch.id)
    ended[branch.id] = msgspec.structs.replace(done[-1], id=branch.id)
    run.names["branches"] = {other.id: ended[other.id] for other in pattern.branches if other.id in ended}
    return ended[branch.id]
