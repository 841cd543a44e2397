"""The patterns of workflows, one file each, and the table of them."""

from strands_cli.patterns.chain import Chain
from strands_cli.patterns.evaluator_optimizer import EvaluatorOptimizer
from strands_cli.patterns.graph import Graph
from strands_cli.patterns.orchestrator_workers import OrchestratorWorkers
from strands_cli.patterns.parallel import Parallel
from strands_cli.patterns.pattern import HumanStep, Pattern, Step
from strands_cli.patterns.routing import Routing
from strands_cli.patterns.workflow import Workflow

PATTERNS: dict[str, type[Pattern]] = {
    "chain": Chain,
    "workflow": Workflow,
    "routing": Routing,
    "parallel": Parallel,
    "evaluator_optimizer": EvaluatorOptimizer,
    "orchestrator_workers": OrchestratorWorkers,
    "graph": Graph,
}
"""By their `type` in the file."""

__all__ = ["PATTERNS", "HumanStep", "Pattern", "Step"]
