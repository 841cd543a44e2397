"""Branches at the same time, then maybe one step over all of them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions, together
from strands_cli.exec.steps import run_step, run_steps
from strands_cli.types import Branch, Parallel, RunResult, Spec, StepResult


async def run_parallel(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _parallel, Parallel)


async def _parallel(run: Run, pattern: Parallel) -> StepResult:
    run.names["branches"] = ended = dict[str, StepResult]()
    ends = await together(
        run, [_branch(run, index, branch, ended) for index, branch in enumerate(pattern.branches)]
    )
    run.names["branches"] = branches = {end.id: end for end in ends}
    if pattern.reduce is None:
        return ends[-1]
    return await run_step(run, "reduce", pattern.reduce, title="reduce", names={"branches": branches})


async def _branch(run: Run, index: int, branch: Branch, ended: dict[str, StepResult]) -> StepResult:
    """`ended` has what is there so far, for a run that does not come to its end."""
    done = await run_steps(run, f"branches/{index}/steps", branch.steps, titles=branch.id)
    ended[branch.id] = msgspec.structs.replace(done[-1], id=branch.id)
    return ended[branch.id]
