"""The limits of a run, and the names of patterns, as people say them."""

from strands_cli.types import Spec

_PATTERNS = {
    "chain": "chain",
    "workflow": "workflow",
    "routing": "routing",
    "parallel": "parallel branches",
    "evaluator_optimizer": "evaluator and optimizer",
    "orchestrator_workers": "orchestrator and workers",
    "graph": "graph",
}


def pattern_name(spec: Spec) -> str:
    return _PATTERNS[str(spec.pattern.__struct_config__.tag)]


def budget_texts(spec: Spec) -> list[str]:
    budgets = spec.runtime.budgets
    texts = [
        (budgets.max_steps, "steps"),
        (budgets.max_tokens, "tokens"),
        (budgets.max_duration_s, "seconds"),
    ]
    return [f"{number:g} {noun}" for number, noun in texts if number is not None]
