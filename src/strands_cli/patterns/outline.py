"""The nouns of an outline: boxes for what is done, arrows for what follows, frames around branches."""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Literal

import msgspec

Kind = Literal[
    "start", "step", "human", "tool", "workflow",
    "router", "evaluator", "orchestrator", "worker", "reduce", "end",
]  # fmt: skip

START, END = "start", "end"


class Calls(msgspec.Struct, frozen=True):
    """How often a model is asked, not counting that it is asked again after every round of tool calls."""

    least: int
    most: int

    def __mul__(self, times: "Calls") -> "Calls":
        return Calls(self.least * times.least, self.most * times.most)

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}–{self.most}"


ONCE = Calls(1, 1)
NEVER = Calls(0, 0)


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happens: a position in the pattern, however often it is run."""

    key: str
    """Its place in the pattern, such as `steps/0`; unique in an outline."""
    kind: Kind
    title: str
    agent: str = ""
    tools: tuple[str, ...] = ()
    own_tools: tuple[str, ...] | None = None
    """The tools that the step names in place of its agent's."""
    input: str = ""
    vars: dict[str, Any] = {}
    """The names that the step gives its templates."""
    instructions: str = ""
    """What the pattern adds to the prompt of the agent."""
    stage: int = 0
    """When it runs, from 1 on, if everything takes equally long; what has the same number runs at the same
    time. 0 for what never does."""
    when: str = ""
    """On what it depends whether it runs."""
    note: str = ""
    description: str = ""
    """What the file says of it, for people."""
    foreach: str = ""
    """The items for each of which it is done."""
    workflow: str = ""
    """The file of the workflow that it runs."""
    has_tool_rounds: bool = False
    """Whether a model is asked again in it after each round of tool calls."""
    calls: Calls = ONCE
    conversation: str | None = None
    """What the step says of its conversation."""
    remembers: str = ""
    """Whose conversation it goes on with."""


class Arrow(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    target: str
    label: str = ""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or a route: boxes one after the other."""

    title: str
    boxes: tuple[str, ...]


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow would do. The first box is the start, the last the end."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    calls: Calls
    """Of the whole run, within its budget of steps."""
    frames: tuple[Frame, ...] = ()
    capped: bool = False
    """Whether the budget of steps may end the run early."""

    @property
    def work(self) -> tuple[Box, ...]:
        """The boxes in which something is done, in the order in which it is."""
        inner = [box for box in self.boxes if box.kind not in ("start", "end")]
        return tuple(sorted(inner, key=lambda box: box.stage or len(self.boxes)))

    @property
    def has_tool_rounds(self) -> bool:
        return any(box.has_tool_rounds for box in self.boxes)

    @property
    def stages(self) -> int:
        return max((box.stage for box in self.boxes), default=0)


def tool_name(reference: str) -> str:
    """The part of a reference by which people know the tool: `native:echo` is `echo`."""
    if reference.endswith(".py"):
        return reference.rpartition("/")[2].removesuffix(".py")
    name, at, version = reference.rpartition(":")[2].partition("@")
    return name.rpartition(".")[2] + at + version


def task_stages(needs: Mapping[str, Iterable[str]], at_once: int) -> dict[str, int]:
    """The stage of each name, from 1 on, if all take equally long and `at_once` run together at most.

    Names that wait for each other have none.
    """
    order = {name: index for index, name in enumerate(needs)}
    waits = {name: {other for other in others if other in order} for name, others in needs.items()}
    followers: dict[str, list[str]] = {name: [] for name in order}
    for name, others in waits.items():
        for other in others:
            followers[other].append(name)
    ready = [(order[name], name) for name, others in waits.items() if not others]
    heapify(ready)
    found: dict[str, int] = {}
    stage = 0
    while ready:
        stage += 1
        running = [heappop(ready)[1] for _ in range(min(at_once, len(ready)))]
        found |= dict.fromkeys(running, stage)
        finished = set(running)
        for name in dict.fromkeys(follower for done in running for follower in followers[done]):
            waits[name] -= finished
            if not waits[name]:
                heappush(ready, (order[name], name))
    return found


def first_line(text: str, max_length: int = 100) -> str:
    """The first line of a text that has something in it, cut to a length; '…' if there is more."""
    lines = text.strip().splitlines() or [""]
    line = " ".join(lines[0].split(maxsplit=max_length)) + (" …" if len(lines) > 1 else "")
    return printable_text(line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…")


def printable_text(text: str) -> str:
    """Text without characters that do something to a terminal instead of standing there."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
