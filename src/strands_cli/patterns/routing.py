"""A router chooses one of several routes."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import AnswerError, Issue, did_you_mean
from strands_cli.patterns.outline import END, START, Arrow, Box, Calls, Frame, first_line
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    Parts,
    Pattern,
    Step,
    StepRunner,
    Steps,
    agent_place,
    arrows_in_a_row,
    replaced_schema,
    shaped_step,
    shaped_steps,
    step_box,
    step_places,
    step_results,
)
from strands_cli.patterns.scope import Names, scope_names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


class Route(msgspec.Struct, frozen=True, kw_only=True):
    steps: Steps
    description: str = ""


def check_router_schema(pattern: "Routing", spec: BaseSpec) -> Iterator[Issue]:
    return replaced_schema(spec, pattern.router.agent, "router", "the route that it chooses")


def check_default(pattern: "Routing", spec: BaseSpec) -> Iterator[Issue]:
    if pattern.default is not None and pattern.default not in pattern.routes:
        hint = did_you_mean(pattern.default, pattern.routes) or f"Available: {', '.join(pattern.routes)}."
        yield spec.issue(f"{CONFIG}/default", f"There is no route {pattern.default!r}.", hint)


class Routing(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "routing"
    title = "routing"
    names = ("steps", "route")
    checks = {check_router_schema: ("/pattern*",), check_default: ()}

    router: Step
    routes: dict[str, Route]
    default: str | None = None

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        routes = {name: shaped_steps(route) for name, route in config["routes"].items()}
        return {**config, "routes": routes, "router": shaped_step(config["router"])}

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        yield agent_place(f"{CONFIG}/router", self.router, partial(scope_names, spec))
        for name, route in self.routes.items():
            yield from step_places(spec, _steps_at(name), route.steps, route=None)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        """The steps are those of the route that was taken."""
        results = [step_results(spec, route.steps) for route in self.routes.values()]
        known = {
            key: result if sum(key in other for other in results) == 1 else None
            for steps in results
            for key, result in steps.items()
        }
        longest = max((len(route.steps) for route in self.routes.values()), default=0)
        return {"route": None, "steps": Names(known, "step", length=longest, methods=())}

    def id_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        for name, route in self.routes.items():
            yield _steps_at(name), [step.id for step in route.steps]

    def outline(self, spec: BaseSpec) -> Parts:
        boxes = [step_box("router", self.router, "router", "router", stage=1, instructions=self.instructions)]
        arrows, frames = [Arrow(source=START, target="router")], list[Frame]()
        for name, route in self.routes.items():
            is_default = name == self.default
            steps = [
                step_box(
                    f"routes/{name}/steps/{index}",
                    step,
                    f"step {index + 1}",
                    stage=index + 2,
                    when=f"the router chooses {name}{' or none' if is_default else ''}",
                    calls=Calls(int(len(self.routes) == 1), 1),
                )
                for index, step in enumerate(route.steps)
            ]
            boxes += steps
            keys = [step.key for step in steps]
            label = f"{name} (default)" if is_default else name
            arrows += [Arrow(source="router", target=keys[0], label=label), *arrows_in_a_row([*keys, END])]
            frames.append(Frame(title=f"route {name}", boxes=tuple(keys)))
        return boxes, arrows, frames

    def calls(self, boxes: Sequence[Box]) -> Calls:
        agents = [sum(isinstance(step, Step) for step in route.steps) for route in self.routes.values()]
        return Calls(1 + min(agents), 1 + max(agents))

    def story(self, spec: BaseSpec) -> str:
        *others, last = self.routes
        names = f"{', '.join(others)} or {last}" if others else last
        default = f"; if it names none of them, {first_line(self.default)} is taken" if self.default else ""
        router = first_line(self.router.agent)
        return f"{router} chooses one route: {names}{default}. Only the steps of that route run."

    async def run(self, run: StepRunner) -> StepResult:
        route = await self._choose(run)
        run.names["route"] = route
        steps = self.routes[route].steps
        return (await run.steps(f"routes/{route}/steps", steps, names={"route": route}))[-1]

    @property
    def instructions(self) -> str:
        lines = (f"- {name}: {route.description}" for name, route in self.routes.items())
        listed = "\n".join(line.removesuffix(": ") for line in lines)
        return f"Choose one of these routes:\n{listed}"

    async def _choose(self, run: StepRunner) -> str:
        """The route that the router names; the default if it names none of them."""
        route = {"enum": list(self.routes), "description": "The name of the route"}
        reason = {"type": "string", "description": "Why, in one sentence"}
        schema = {"type": "object", "properties": {"route": route, "reason": reason}, "required": ["route"]}
        try:
            chosen = await run.step(
                "router",
                self.router,
                title="router",
                names={},
                schema=schema,
                instructions=self.instructions,
            )
        except AnswerError:
            if self.default is None:
                raise
            run.notice(f"The router did not name a known route; {self.default} is taken.", "router")
            return self.default
        return str(chosen.output["route"])


def _steps_at(route: str) -> str:
    return f"{CONFIG}/routes{json_pointer((route, 'steps'))}"
