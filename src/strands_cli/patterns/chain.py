"""Steps one after the other."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from strands_cli.patterns.outline import END, START
from strands_cli.patterns.pattern import (
    CONFIG,
    AgentPlace,
    Parts,
    Pattern,
    StepRunner,
    Steps,
    arrows_in_a_row,
    shaped_steps,
    step_box,
    step_places,
    step_results,
)
from strands_cli.patterns.scope import Names
from strands_cli.types.run_results import StepResult
from strands_cli.types.sections import BaseSpec


class Chain(msgspec.Struct, Pattern, frozen=True, kw_only=True):
    kind = "chain"
    title = "chain"
    names = ("steps",)

    steps: Steps

    @classmethod
    def shape(cls, config: dict[str, Any]) -> dict[str, Any]:
        return shaped_steps(config)

    @property
    def is_single(self) -> bool:
        return len(self.steps) == 1

    def places(self, spec: BaseSpec) -> Iterator[AgentPlace]:
        return step_places(spec, f"{CONFIG}/steps", self.steps)

    def artifact_names(self, spec: BaseSpec) -> dict[str, Names | None]:
        known = step_results(spec, self.steps)
        return {"steps": Names(known, "step", length=len(self.steps), methods=())}

    def id_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        yield f"{CONFIG}/steps", [step.id for step in self.steps]

    def outline(self, spec: BaseSpec) -> Parts:
        boxes = [
            step_box(f"steps/{index}", step, f"step {index + 1}", stage=index + 1)
            for index, step in enumerate(self.steps)
        ]
        return boxes, arrows_in_a_row([START, *(box.key for box in boxes), END]), []

    def story(self, spec: BaseSpec) -> str:
        if self.is_single:
            return "One step runs."
        return f"{len(self.steps)} steps run one after the other; each sees what came before."

    async def run(self, run: StepRunner) -> StepResult:
        return (await run.steps("steps", self.steps))[-1]
