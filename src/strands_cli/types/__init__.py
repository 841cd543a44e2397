"""The nouns that files, events and results speak of. They follow the JSON Schema; a test compares the two."""

from strands_cli.types.run_results import RunResult, StepResult, Usage
from strands_cli.types.sections import AgentSpec, BaseSpec

__all__ = ["AgentSpec", "BaseSpec", "RunResult", "StepResult", "Usage"]
