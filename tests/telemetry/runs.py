"""Runs as a listener hears them: events in real tasks, and real tool calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.events import (
    Event,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    ModelText,
    RunFinished,
    RunOutcome,
    RunStarted,
    StepFinished,
    StepStarted,
)
from strands_cli.toolkit.contract import Tool
from strands_cli.types.run_results import Usage

USAGE = Usage(11, 7)


def spec(name: str) -> dict[str, Any]:
    properties = {"text": {"type": "string"}}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


@tool(spec=spec("inner"), version="1.2.3")
async def inner(text: str = "") -> str:
    await asyncio.sleep(0.001)
    return f"got {text}"


@tool(spec=spec("outer"))
async def outer(context: ToolContext, text: str = "") -> str:
    answers = await asyncio.gather(context.call("inner", text=text), context.call("inner", text=text))
    return " ".join(answers)


@tool(spec=spec("refuse"))
async def refuse(text: str = "") -> str:
    raise ToolFailed(f"no {text}", code="not_found")


def of_step(emit: Listener, step: str) -> Listener:
    """A listener that is told which step the calls belong to."""

    def tell(event: Event) -> None:
        emit(msgspec.structs.replace(event, step=step))

    return tell


async def use(emit: Listener, step: str, used: Tool, text: str = "", call_id: str = "t1") -> None:
    context = CallContext(emit=of_step(emit, step) if step else emit, resolve=lambda _: inner)
    await call_tool(used, {"toolUseId": call_id, "input": {"text": text}}, context)


async def ask(emit: Listener, step: str, *, retries: int = 0, error: str = "") -> None:
    """One request to a model, from a task of its own, as the agent engine makes it."""

    async def request() -> None:
        for attempt in range(retries):
            emit(ModelStarted(step, "acme one"))
            emit(ModelFinished(step, "acme one", 0.1, Usage(), error="429 too many"))
            emit(ModelRetried(step, attempt + 1, 0.5, "429 too many\nthe body of the answer"))
        emit(ModelStarted(step, "acme one"))
        await asyncio.sleep(0.001)
        emit(ModelText(step, "the answer"))
        emit(ModelFinished(step, "acme one", 0.25, USAGE, "end_turn", error))

    await asyncio.create_task(request())


Body = Callable[[Listener, str], Awaitable[None]]


async def run_step(emit: Listener, key: str, body: Body, error: str = "") -> None:
    emit(StepStarted(key, f"title {key}", "writer", "acme one"))
    await asyncio.create_task(_body(body, emit, key))
    emit(StepFinished(key, f"title {key}", "writer", 0.5, USAGE, error))


async def _body(body: Body, emit: Listener, key: str) -> None:
    await body(emit, key)


async def a_turn(emit: Listener, key: str) -> None:
    """A model, two calls at once, and the model again."""
    await ask(emit, key)
    calls = [use(emit, key, outer, key, "t1"), use(emit, key, inner, key, "t2")]
    await asyncio.gather(*calls)
    await ask(emit, key)


async def run(
    emit: Listener, *keys: str, body: Body = a_turn, outcome: RunOutcome = "done", error: str = ""
) -> None:
    """A run of which all steps go on at the same time."""
    emit(RunStarted("flow", "parallel"))
    await asyncio.gather(*(run_step(emit, key, body) for key in keys))
    emit(RunFinished(outcome, 1.5, Usage(11 * len(keys), 7 * len(keys)), error))
