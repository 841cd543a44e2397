"""The nouns of a workflow. They follow the JSON Schema; a test compares the two."""

from strands_cli.types.patterns import (
    Branch,
    Chain,
    Edge,
    EvaluatorOptimizer,
    Graph,
    HumanStep,
    Node,
    OrchestratorWorkers,
    Parallel,
    Pattern,
    Route,
    Routing,
    Step,
    Task,
    Workflow,
)
from strands_cli.types.results import RunResult, StepResult, Usage
from strands_cli.types.spec import AgentSpec, Spec

__all__ = [
    "AgentSpec",
    "Branch",
    "Chain",
    "Edge",
    "EvaluatorOptimizer",
    "Graph",
    "HumanStep",
    "Node",
    "OrchestratorWorkers",
    "Parallel",
    "Pattern",
    "Route",
    "Routing",
    "RunResult",
    "Spec",
    "Step",
    "StepResult",
    "Task",
    "Usage",
    "Workflow",
]
