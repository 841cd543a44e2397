"""What a turn of an agent costs in a workflow, against the bare SDK doing the same turns."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import strands
from measuring import Row, interleaved
from strands.models import Model

from strands_cli.exec.chain import run_chain
from strands_cli.exec.run import prepare, run_pattern
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import PROVIDERS, Provider

BUDGETS = {10: 1.10, 50: 1.0, 200: 1.0}
"""Turns in one step, and what one of ours may cost of the SDK's; slices pay off where there are many."""

FLOW = """\
version: 0
name: turns
runtime: {provider: ollama, max_parallel: 50}
tools: {python: [echo]}
agents: {worker: {prompt: You work.}}
pattern:
"""
CHAIN = FLOW + "  {type: chain, config: {steps: [{agent: worker, input: go}]}}\n"
BRANCHES = FLOW + "  type: parallel\n  config:\n    branches:\n"


class Turning(Model):
    """Calls a tool as often as it is told, then answers."""

    turns = 0

    def __init__(self, turns: int | None = None) -> None:
        self._turns = turns

    def update_config(self, **_: Any) -> None:
        """It has none."""

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        done = len(messages) // 2
        yield {"messageStart": {"role": "assistant"}}
        if done < (self.turns if self._turns is None else self._turns):
            use = {"toolUseId": f"t{done}", "name": "echo"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"message": "hi"})}}}}
            reason = "tool_use"
        else:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            reason = "end_turn"
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}
        usage = {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


def build(_: object) -> Model:
    return Turning()


@strands.tool(name="echo", description="Echo a message")
def sdk_echo(message: str) -> str:
    return message


def measure() -> Iterator[Row]:
    PROVIDERS["ollama"] = Provider(build=build, default_model="turning")
    with tempfile.TemporaryDirectory() as directory:
        chain = _spec(Path(directory) / "chain.yaml", CHAIN)
        for turns, budget in BUDGETS.items():
            yield from _turns(chain, turns, budget)
        names = "".join(f"      - {{id: b{n}, steps: [{{agent: worker, input: go}}]}}\n" for n in range(50))
        yield from _branches(_spec(Path(directory) / "branches.yaml", BRANCHES + names))


def _spec(file: Path, text: str) -> Spec:
    file.write_text(text)
    return load_spec(file)


def _turns(spec: Spec, turns: int, budget: float) -> Iterator[Row]:
    Turning.turns = turns
    cases = {"SDK": lambda: _cpu(lambda: _sdk(turns)), "ours": lambda: _cpu(lambda: run_chain(spec))}
    medians = interleaved(cases, max(3, 150 // turns))
    ours, sdk = medians["ours"] / turns, medians["SDK"] / turns
    yield Row(f"SDK, a turn of {turns}", sdk, "ms")
    yield Row(f"a workflow's step, a turn of {turns}", ours, "ms", "SDK", ours / sdk, budget)


async def _run(spec: Spec) -> object:
    return await run_pattern(prepare(spec, with_artifacts=False))


def _branches(spec: Spec) -> Iterator[Row]:
    Turning.turns = 2
    cases = {
        "SDK": lambda: _cpu(_many),
        "ours": lambda: _cpu(lambda: run_pattern(prepare(spec, with_artifacts=False))),
    }
    medians = interleaved(cases, 3)
    yield Row("SDK, 50 agents at once, 2 turns each", medians["SDK"], "ms")
    yield Row("50 branches, 2 turns each", medians["ours"], "ms", "SDK", medians["ours"] / medians["SDK"])


async def _sdk(turns: int) -> None:
    agent = strands.Agent(model=Turning(turns), tools=[sdk_echo], callback_handler=None)
    await agent.invoke_async("go")


async def _many() -> None:
    await asyncio.gather(*(_sdk(2) for _ in range(50)))


def _cpu(work: Callable[[], Any]) -> float:
    """CPU milliseconds."""
    started = time.process_time()
    asyncio.run(work())
    return 1000 * (time.process_time() - started)
