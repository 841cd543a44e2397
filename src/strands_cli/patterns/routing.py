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
    HumanStep,
    Parts,
    Pattern,
    Step,
    StepRunner,
    Steps,
    agent_place,
    arrows_in_a_row,
    is_certain,
    replaced_schema,
    shaped_steps,
    step_box,
    step_places,
    step_results,
    with_shaped,
)
from strands_cli.patterns.review import Review, check_review_default, review_boxes, review_place
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


def check_router_review(pattern: "Routing", spec: BaseSpec) -> Iterator[Issue]:
    return check_review_default(spec, "router", pattern.router_review, pattern.routes)


class Routing(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "routing"
    title = "routing"
    names = ("steps", "route")
    review_names = ("reason",)
    checks = {check_router_schema: ("/pattern*",), check_default: (), check_router_review: ("/pattern*",)}

    router: Step
    router_review: HumanStep | None = None
    max_retries: int = 2
    routes: dict[str, Route]
    default: str | None = None

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        routes = {name: shaped_steps(route) for name, route in config["routes"].items()}
        router = dict(config["router"])
        retries = {key: router.pop(key) for key in ("max_retries",) if key in router}
        return with_shaped({**config, **retries, "router": router, "routes": routes}, "router")

    @property
    def has_review(self) -> bool:
        return self.router_review is not None

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        yield agent_place(f"{CONFIG}/router", self.router, partial(scope_names, spec))
        reviewing = partial(scope_names, spec, route=None, reason=None)
        yield from review_place("router", self.router_review, reviewing)
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
        boxes += review_boxes("router", self.router_review, stage=2)
        last = boxes[-1].key
        arrows, frames = arrows_in_a_row([START, *(box.key for box in boxes)]), list[Frame]()
        chooser = "the router or the review chooses" if self.has_review else "the router chooses"
        for name, route in self.routes.items():
            is_default = name == self.default
            steps = [
                step_box(
                    f"routes/{name}/steps/{index}",
                    step,
                    f"step {index + 1}",
                    stage=index + (3 if self.has_review else 2),
                    when=f"{chooser} {name}{' or none' if is_default else ''}",
                    calls=Calls(int(len(self.routes) == 1), 1),
                )
                for index, step in enumerate(route.steps)
            ]
            boxes += steps
            keys = [step.key for step in steps]
            label = f"{name} (default)" if is_default else name
            arrows += [Arrow(source=last, target=keys[0], label=label), *arrows_in_a_row([*keys, END])]
            frames.append(Frame(title=f"route {name}", boxes=tuple(keys)))
        return boxes, arrows, frames

    def calls(self, boxes: Sequence[Box]) -> Calls:
        often = {box.key: box.calls for box in boxes}
        least, most = [], []
        for name, route in self.routes.items():
            own = [often[f"routes/{name}/steps/{index}"].most for index in range(len(route.steps))]
            most.append(sum(own))
            # Of what is never certain, a box does not say how often it is done where the route is taken.
            least.append(sum(calls for step, calls in zip(route.steps, own, strict=True) if is_certain(step)))
        return Calls(1 + min(least), 1 + max(most))

    def story(self, spec: BaseSpec) -> str:
        *others, last = self.routes
        names = f"{', '.join(others)} or {last}" if others else last
        default = f"; if it names none of them, {first_line(self.default)} is taken" if self.default else ""
        router = first_line(self.router.agent)
        review = " A human approves it, or names another." if self.has_review else ""
        return f"{router} chooses one route: {names}{default}.{review} Only the steps of that route run."

    async def run(self, run: StepRunner) -> StepResult:
        route, reason = await self._choose(run)
        review = Review(run, self.router_review, "router", self.routes)
        decision = await review.decide({"route": route, "reason": reason})
        if decision.action == "route":
            route = decision.text
        run.names["route"] = route
        steps = self.routes[route].steps
        return (await run.steps(f"routes/{route}/steps", steps, names={"route": route}))[-1]

    @property
    def instructions(self) -> str:
        lines = (f"- {name}: {route.description}" for name, route in self.routes.items())
        listed = "\n".join(line.removesuffix(": ") for line in lines)
        return f"Choose one of these routes:\n{listed}"

    async def _choose(self, run: StepRunner) -> tuple[str, str]:
        """The route that the router names, and why; the default if it names none of them."""
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
                max_retries=self.max_retries,
            )
        except AnswerError:
            if self.default is None:
                raise
            run.notice(f"The router did not name a known route; {self.default} is taken.", "router")
            return self.default, ""
        return str(chosen.output["route"]), str(chosen.output.get("reason", ""))


def _steps_at(route: str) -> str:
    return f"{CONFIG}/routes{json_pointer((route, 'steps'))}"
