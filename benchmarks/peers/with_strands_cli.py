"""strands-cli: a workflow of one step; with the argument `agent`, its tools in a bare agent of the SDK."""

import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strands_model import Calling
from worker import NAP_SECONDS, add, async_nap, nap, serve

from strands_cli import call_tool, run, tool
from strands_cli.loader import load_spec
from strands_cli.providers.choice import PROVIDERS, Provider

FLOW = """\
version: 0
name: calls
runtime: {provider: ollama}
tools: {python: [add, nap, async_nap]}
agents: {worker: {prompt: You work., tools: [TOOL]}}
pattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}
"""
specs: dict[str, Any] = {}
TOOLS = "import asyncio\nimport time\n\nfrom strands_cli import tool\n\nNAP_SECONDS = {seconds}\n"


async def call(made: Any, arguments: dict[str, int]) -> Any:
    return await call_tool(made, {"toolUseId": "t", "name": made.id, "input": arguments})


async def run_workflow(made: Any, turns: int, calls: int) -> None:
    PROVIDERS["ollama"] = Provider(build=lambda _: Calling(made.id, turns, calls), default_model="calling")
    result = await run(specs[made.id])
    assert result.last_response == "done", result


async def run_agent(made: Any, turns: int, calls: int) -> None:
    from strands import Agent

    await Agent(model=Calling(made.id, turns, calls), tools=[made], callback_handler=None).invoke_async("go")


def make(function: Callable[..., Any]) -> Any:
    return tool(function)


if sys.argv[1:] == ["agent"]:
    serve(make=make, call=call, run=run_agent)
else:
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("tools").mkdir()
        sources = [f"\n\n@tool\n{inspect.getsource(function)}" for function in (add, nap, async_nap)]
        Path("tools/measured.py").write_text(TOOLS.format(seconds=NAP_SECONDS) + "".join(sources))
        for name in ("add", "nap", "async_nap"):
            Path(f"{name}.yaml").write_text(FLOW.replace("TOOL", name))
            specs[name] = load_spec(Path(f"{name}.yaml"))
        serve(make=make, call=call, run=run_workflow)
