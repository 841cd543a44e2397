"""The patterns of workflows, one file each, and the table of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from strands_cli.patterns.pattern import HumanStep, Pattern, Step

_TABLE = {
    "chain": "Chain",
    "workflow": "Workflow",
    "routing": "Routing",
    "parallel": "Parallel",
    "evaluator_optimizer": "EvaluatorOptimizer",
    "orchestrator_workers": "OrchestratorWorkers",
    "graph": "Graph",
}
"""By their `type` in the file, which is the name of their module too."""


class _LazyPatterns(Mapping[str, type[Pattern]]):
    """Each is imported when it is asked for: a workflow has one of them."""

    def __getitem__(self, kind: str) -> type[Pattern]:
        return cast("type[Pattern]", getattr(import_module(f"{__name__}.{kind}"), _TABLE[kind]))

    def __iter__(self) -> Iterator[str]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)


PATTERNS = _LazyPatterns()

__all__ = ["PATTERNS", "HumanStep", "Pattern", "Step"]
