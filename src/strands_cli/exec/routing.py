"""A router chooses one of several routes."""

from collections.abc import Mapping
from typing import Any

from strands_cli.errors import AnswerError
from strands_cli.exec.running import run_pattern
from strands_cli.exec.state import DEFAULTS, Run, RunOptions
from strands_cli.exec.steps import Wanted, run_step, run_steps
from strands_cli.types import Routing, RunResult, Spec, StepResult


async def run_routing(
    spec: Spec, variables: Mapping[str, Any] | None = None, options: RunOptions = DEFAULTS
) -> RunResult:
    return await run_pattern(spec, variables, options, _routing, Routing)


async def _routing(run: Run, pattern: Routing) -> StepResult:
    route = await _choose(run, pattern)
    run.names["route"] = route
    steps = pattern.routes[route].steps
    return (await run_steps(run, f"routes/{route}/steps", steps, names={"route": route}))[-1]


async def _choose(run: Run, pattern: Routing) -> str:
    """The route that the router names; the default where it names none of them."""
    wanted = Wanted(schema=_schema(pattern), instructions=_instructions(pattern))
    try:
        chosen = await run_step(run, "router", pattern.router, title="router", names={}, wanted=wanted)
    except AnswerError:
        if pattern.default is None:
            raise
        run.notice(f"The router named none of the routes; {pattern.default} is taken.", "router")
        return pattern.default
    return str(chosen.output["route"])


def _schema(pattern: Routing) -> dict[str, Any]:
    route = {"enum": list(pattern.routes), "description": "The name of the route"}
    reason = {"type": "string", "description": "Why, in one sentence"}
    return {"type": "object", "properties": {"route": route, "reason": reason}, "required": ["route"]}


def _instructions(pattern: Routing) -> str:
    lines = (f"- {name}: {route.description}" for name, route in pattern.routes.items())
    return "Choose one of these routes:\n" + "\n".join(line.removesuffix(": ") for line in lines)
