"""Workflows for tests: a pattern and a few agents, in a real file, run with the scripted model."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from strands_cli.events import Event
from strands_cli.exec.run import prepare, run_pattern
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.testing import ScriptedModel
from strands_cli.types import RunResult

AGENT = {"prompt": "You work."}


class Flow:
    """One workflow in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[Event] = []

    def document(self, kind: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
        base = {
            "version": 0,
            "name": "flow",
            "runtime": {"provider": "ollama", "failure_policy": {"retries": 0}},
            "agents": {name: AGENT for name in sorted(_agents(config))},
        }
        return {**base, **more, "pattern": {"type": kind, "config": config}}

    def spec(self, kind: str, config: dict[str, Any], **more: Any) -> Spec:
        file = self.directory / "flow.yaml"
        file.write_text(yaml.safe_dump(self.document(kind, config, **more), sort_keys=False))
        return load_spec(file)

    def run(
        self,
        kind: str,
        config: dict[str, Any],
        variables: dict[str, Any] | None = None,
        *,
        model: ScriptedModel | None = None,
        **more: Any,
    ) -> RunResult:
        return self.run_spec(self.spec(kind, config, **more), variables, model=model)

    def run_spec(self, spec: Spec, variables: dict[str, Any] | None = None, **options: Any) -> RunResult:
        given = RunOptions(listeners=(self.events.append,), directory=self.directory, **options)

        async def go() -> RunResult:
            return await run_pattern(prepare(spec, variables, given, with_artifacts=False))

        return asyncio.run(go())

    def heard(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def _agents(config: Any) -> set[str]:
    if isinstance(config, list):
        return {name for item in config for name in _agents(item)}
    if not isinstance(config, dict):
        return set()
    own = {config["agent"]} if isinstance(config.get("agent"), str) else set()
    return own | {name for item in config.values() for name in _agents(item)}


def steps(*inputs: str, agent: str = "worker") -> list[dict[str, str]]:
    return [{"agent": agent, "input": text} for text in inputs]
