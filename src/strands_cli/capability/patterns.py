"""Steps, tasks, branches and routes: their names, and how they depend on each other."""

from collections.abc import Iterable, Iterator

from strands_cli.capability.places import CONFIG
from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.types import Chain, Parallel, Routing, Spec, Workflow


def check_ids(spec: Spec) -> Iterator[Issue]:
    for at, names in _lists_of_ids(spec):
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if name and name in seen:
                yield spec.issue(
                    f"{at}/{index}/id",
                    f"The id {name!r} stands here a second time; the first is at {at}/{seen[name]}.",
                    "Give each of them an id of its own.",
                )
            seen.setdefault(name, index)


def _lists_of_ids(spec: Spec) -> Iterator[tuple[str, Iterable[str]]]:
    """Each list whose members must differ in their ids."""
    pattern = spec.pattern
    if isinstance(pattern, Chain):
        yield f"{CONFIG}/steps", [step.id for step in pattern.steps]
    elif isinstance(pattern, Workflow):
        yield f"{CONFIG}/tasks", [task.id for task in pattern.tasks]
    elif isinstance(pattern, Routing):
        for name, route in pattern.routes.items():
            yield f"{CONFIG}/routes{pointer((name, 'steps'))}", [step.id for step in route.steps]
    elif isinstance(pattern, Parallel):
        yield f"{CONFIG}/branches", [branch.id for branch in pattern.branches]
        for index, branch in enumerate(pattern.branches):
            yield f"{CONFIG}/branches/{index}/steps", [step.id for step in branch.steps]


def check_needs(spec: Spec) -> Iterator[Issue]:
    if not isinstance(spec.pattern, Workflow):
        return
    tasks = spec.pattern.tasks
    known = {task.id for task in tasks}
    for index, task in enumerate(tasks):
        for number, need in enumerate(task.needs):
            at = f"{CONFIG}/tasks/{index}/needs/{number}"
            if need == task.id:
                yield spec.issue(at, f"The task {need!r} needs itself.", "Take it out of its own needs.")
            elif need not in known:
                hint = did_you_mean(need, known) or f"There are {', '.join(sorted(known))}."
                yield spec.issue(at, f"There is no task {need!r}.", hint)
    yield from _cycles(spec, spec.pattern)


def _cycles(spec: Spec, pattern: Workflow) -> Iterator[Issue]:
    from graphlib import CycleError, TopologicalSorter

    needs = {task.id: [need for need in task.needs if need != task.id] for task in pattern.tasks}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        index = next(index for index, task in enumerate(pattern.tasks) if task.id in cycle)
        yield spec.issue(
            f"{CONFIG}/tasks/{index}/needs",
            f"These tasks wait for each other: {' -> '.join(reversed(cycle))}.",
            "Take one of them out of the other's needs.",
        )


def check_routes(spec: Spec) -> Iterator[Issue]:
    pattern = spec.pattern
    if isinstance(pattern, Routing) and pattern.default is not None and pattern.default not in pattern.routes:
        hint = did_you_mean(pattern.default, pattern.routes) or f"There are {', '.join(pattern.routes)}."
        yield spec.issue(f"{CONFIG}/default", f"There is no route {pattern.default!r}.", hint)
