"""Steps one after the other."""

from collections.abc import Mapping
from typing import Any

from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions
from strands_cli.exec.steps import run_steps
from strands_cli.types import Chain, RunResult, Spec, StepResult


async def run_chain(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _chain, Chain)


async def _chain(run: Run, pattern: Chain) -> StepResult:
    return (await run_steps(run, "steps", pattern.steps))[-1]
