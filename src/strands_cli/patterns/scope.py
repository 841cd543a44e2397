"""What is in scope where: the names that the template of each place may use.

Everywhere: `inputs`, and each input by its own name. Besides:

    place                              names
    step of a chain, route or branch   steps (those before it, by index or id); last_response but in the first
    step of a route                    also route
    task of a workflow                 tasks (all that it needs); last_response if it needs exactly one
    reduce of parallel                 branches
    evaluator                          draft, last_response (the draft)
    revise                             draft, evaluation, last_response (the draft)
    orchestrator, its reduce           tasks (a list of the workers' results)
    worker                             task
    node of a graph                    nodes (those that lead to it); last_response unless it is an entry
    condition of an edge               nodes (those that lead to it, and its source); last_response
    artifacts                          TRACE, last_response, and what the pattern's last place knows
    headers of an HTTP executor        secrets

A prompt is rendered with each step that its agent does, and sees what that step sees.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from strands_cli.errors import did_you_mean
from strands_cli.types.sections import BaseSpec

WHY_ABSENT = {
    "steps": "only the steps of chains, routes and branches have steps before them",
    "tasks": "only workflows and orchestrators have tasks",
    "branches": "branches are known when all of them have ended, in 'reduce' and in artifacts",
    "nodes": "only graphs have nodes",
    "last_response": "nothing has answered before it",
    "task": "only a worker is given a task",
    "evaluation": "there is one in 'revise' and in artifacts only, after the evaluator has judged",
    "draft": "there is one after the producer has written",
    "route": "it is known in the routes and in artifacts only",
    "secrets": "they are for the headers of HTTP executors, and no model sees them",
    "TRACE": "it is known when the run has ended, in artifacts only",
}
_OF_MAPPINGS = ("items", "keys", "values", "get", "copy")


class Names(msgspec.Struct, frozen=True):
    """The names at one level of a scope."""

    known: Mapping[str, "Names | None"]
    """With what is below each of them; None if that may be anything."""
    noun: str = "name"
    absent: Mapping[str, str] = {}
    """Names that exist, but not here, and why not."""
    blocked: Callable[[str], str] | None = None
    """Says why a known name cannot be used here, where that is costly to know beforehand."""
    length: int | None = None
    """How many there are, for those that have an index too."""
    methods: tuple[str, ...] = _OF_MAPPINGS
    """What the level can do where it is a mapping; what it holds comes first, as in templates."""


_RESULT = Names({"response": None, "output": None, "agent": None, "id": None}, "part of a result", methods=())


def result_names(keys: Iterable[str]) -> dict[str, "Names | None"]:
    """A result under each of the keys. All places of a pattern share it: there may be thousands of them."""
    return dict.fromkeys(keys, _RESULT)


def unresolved_name(scope: Names, name: str, path: Collection[str | int]) -> tuple[str, str] | None:
    """Why a name with its path means nothing in a scope, and what to do; None if it means something."""
    level: Names | None = scope
    path_text = ""
    for part in (name, *path):
        if level is None or (part in level.methods and part not in level.known):
            return None
        key = str(part + (level.length or 0) if isinstance(part, int) and part < 0 else part)
        path_text = (
            f"{path_text}[{part}]" if isinstance(part, int) else f"{path_text}.{part}".removeprefix(".")
        )
        if level.length is not None and isinstance(part, str) and part.isdigit():
            return f"There is no {level.noun} with the id {part!r}", f"An index has no quotes: [{part}]."
        reason = level.absent.get(key) or (level.blocked(key) if level.blocked and key in level.known else "")
        if reason:
            return f"{path_text!r} is not there yet: {reason}", _known_names_hint(level, key)
        if key not in level.known:
            return f"There is no {level.noun} {key!r}", _known_names_hint(level, key)
        level = level.known[key]
    return None


def _known_names_hint(level: Names, key: str) -> str:
    usable = [name for name in level.known if not (level.blocked and level.blocked(name))][:20]
    known = f"Known here: {', '.join(usable)}." if usable else "None is known here."
    return did_you_mean(key, usable) or known


# --- Scopes -----------------------------------------------------------------------------------------------


def scope_names(spec: BaseSpec, why: str = "", /, **names: Names | None) -> Names:
    """The inputs, and the names that a place has besides; `why` explains a missing last_response."""
    input_names = [*spec.inputs.declared, *spec.inputs.values, *spec.variables]
    inputs: dict[str, Names | None] = dict.fromkeys(input_names)
    known = {**inputs, "inputs": Names(inputs, "input"), **names}
    absent = {name: text for name, text in WHY_ABSENT.items() if name not in known}
    if why and "last_response" in absent:
        absent["last_response"] = why
    return Names(known, absent=absent, methods=())


def header_scope(spec: BaseSpec) -> Names:
    secrets: dict[str, Names | None] = {secret.name: None for secret in spec.env.secrets}
    return scope_names(spec, secrets=Names(secrets, "secret"))


# --- Ways through a graph ---------------------------------------------------------------------------------


def reachable_names(edges: Mapping[str, Collection[str]], start: Collection[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges.get(name, ())
    return found
