"""`run_chain`: runs a chain without writing its artifacts."""

from collections.abc import Mapping
from typing import Any

from strands_cli.errors import UsageError
from strands_cli.exec.run import prepare, run_pattern
from strands_cli.exec.steps import DEFAULTS, RunOptions
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.types import RunResult


async def run_chain(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    if not isinstance(spec.pattern, Chain):
        raise UsageError(
            f"{spec.name} is a {spec.pattern.kind}, not a chain.",
            hint="Use strands_cli.run, which runs every pattern.",
        )
    return await run_pattern(prepare(spec, variables, options, with_artifacts=False))
