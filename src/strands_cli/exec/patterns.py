"""The table of patterns."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from strands_cli.exec.chain import run_chain
from strands_cli.exec.evaluator_optimizer import run_evaluator_optimizer
from strands_cli.exec.graph import run_graph
from strands_cli.exec.orchestrator_workers import run_orchestrator_workers
from strands_cli.exec.parallel import run_parallel
from strands_cli.exec.routing import run_routing
from strands_cli.exec.state import RunOptions
from strands_cli.exec.workflow import run_workflow
from strands_cli.types import (
    Chain,
    EvaluatorOptimizer,
    Graph,
    OrchestratorWorkers,
    Parallel,
    Routing,
    RunResult,
    Spec,
    Workflow,
)

RunPattern = Callable[[Spec, Mapping[str, Any] | None, RunOptions], Awaitable[RunResult]]

PATTERNS: dict[type, RunPattern] = {
    Chain: run_chain,
    Workflow: run_workflow,
    Routing: run_routing,
    Parallel: run_parallel,
    EvaluatorOptimizer: run_evaluator_optimizer,
    OrchestratorWorkers: run_orchestrator_workers,
    Graph: run_graph,
}
