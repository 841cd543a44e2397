"""The seven patterns, one class each, and the steps that they are made of."""

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="agent", tag_field="kind"):
    """One agent, one input."""

    agent: str
    input: str = ""
    id: str = ""


class HumanStep(msgspec.Struct, frozen=True, kw_only=True, tag="human", tag_field="kind"):
    """A question to a human."""

    prompt: str
    default: str | None = None
    timeout_s: float | None = None
    id: str = ""


Steps = tuple[Step | HumanStep, ...]


class Chain(msgspec.Struct, frozen=True, kw_only=True, tag="chain", tag_field="type"):
    steps: Steps


class Task(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    input: str = ""
    needs: tuple[str, ...] = ()


class Workflow(msgspec.Struct, frozen=True, kw_only=True, tag="workflow", tag_field="type"):
    tasks: tuple[Task, ...]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    steps: Steps
    description: str = ""


class Routing(msgspec.Struct, frozen=True, kw_only=True, tag="routing", tag_field="type"):
    router: Step
    routes: dict[str, Route]
    default: str | None = None


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    steps: Steps


class Parallel(msgspec.Struct, frozen=True, kw_only=True, tag="parallel", tag_field="type"):
    branches: tuple[Branch, ...]
    reduce: Step | None = None


class EvaluatorOptimizer(
    msgspec.Struct, frozen=True, kw_only=True, tag="evaluator_optimizer", tag_field="type"
):
    producer: Step
    evaluator: Step
    revise: str = ""
    min_score: float = 80
    max_iters: int = 3


class OrchestratorWorkers(
    msgspec.Struct, frozen=True, kw_only=True, tag="orchestrator_workers", tag_field="type"
):
    orchestrator: Step
    worker: Step
    reduce: Step | None = None
    max_tasks: int = 8
    max_rounds: int = 1


class Node(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    input: str = ""


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    source: str = msgspec.field(name="from")
    to: tuple[str, ...]
    when: str | None = None


class Graph(msgspec.Struct, frozen=True, kw_only=True, tag="graph", tag_field="type"):
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    start: str | None = None
    max_visits: int = 10

    @property
    def entries(self) -> tuple[str, ...]:
        """Where it begins: the start, else the nodes that no edge leads to."""
        if self.start is not None:
            return (self.start,)
        reached = {name for edge in self.edges for name in edge.to}
        return tuple(name for name in self.nodes if name not in reached)


Pattern = Chain | Workflow | Routing | Parallel | EvaluatorOptimizer | OrchestratorWorkers | Graph
