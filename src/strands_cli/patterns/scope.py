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
    what is done again after a review  also review (what the reviewer asked for; empty the first time)
    review of the router               route, reason
    review of the evaluator            as revise, and round
    review of the orchestrator         tasks, plan (the texts of the new tasks)
    review of reduce                   as reduce, and last_response (its answer)
    writeup                            as reduce, and reduce_response, last_response (the answer of reduce)
    worker                             task
    step with foreach                  also item, index
    step with vars                     also these
    node of a graph                    nodes (those that lead to it); last_response unless it is an entry
    condition of an edge               nodes (those that lead to it, and its source); last_response
    artifacts                          TRACE, last_response, and what the pattern's last place knows
    headers of an HTTP executor        secrets

Names that other runners have for the same things are aliases: they work, but no hint offers them, and an
input of that name comes first. `alias_names` says which a place has, `alias_values` what they are in a run.

A prompt is rendered with each step that its agent does, and sees what that step sees.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from strands_cli.documents.problems import listed_in, local_reference_target, schema_branches
from strands_cli.errors import did_you_mean
from strands_cli.secrets import without_credentials
from strands_cli.templates import Each
from strands_cli.types.run_results import StepResult
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
    "reason": "the review of a router sees why the router chose its route",
    "plan": "the review of an orchestrator sees the tasks that it has made",
    "round": "only the review of an evaluator has rounds",
    "review": "it is what a review asks for, in the step that is done again for it",
    "reduce_response": "only the writeup after a 'reduce', and artifacts, see it",
    "writeup_response": "it is known when the run has ended, in artifacts only",
    "secrets": "they are for the headers of HTTP executors, and no model sees them",
    "item": "only a step with 'foreach' has one",
    "index": "only a step with 'foreach' has one",
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
    methods: Collection[str] = _OF_MAPPINGS
    """What the level can do where it is a mapping; what it holds comes first, as in templates."""
    item: "Names | None" = None
    """What each of them is, for a list."""
    is_list: bool = False
    hint: str = ""
    """What to do about a name that is not known, where that is more than to take another one."""
    aliases: Mapping[str, "Names | None"] = {}
    """More names, which hints do not offer: those that other runners have."""


_LARGEST_SCHEMA = 300
"""How many objects and lists of a schema are looked at; what is below others may be anything."""
_OPEN_KEYWORDS = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "dependentSchemas",
    "dependencies",
)
_OF_LISTS = ("index", "count", "copy")
_RESULT_ALIASES = dict[str, Names | None].fromkeys(
    ("status", "type", "tokens", "tokens_estimated", "index", "iteration")
)


def result_names(spec: BaseSpec, kind: str, name: str, is_each: bool) -> Names:
    """What templates see of the result of a step: of an agent, a human, a tool or a workflow of that name.

    A step that is done for each item has the outputs of all of them.
    """
    agent = spec.agents.get(name) if kind == "agent" else None
    output: Names | None = None
    if schema := agent.output_schema if agent else spec.tool_outputs.get(name) if kind == "tool" else None:
        output = schema_names(schema, schema)
    elif agent is not None or kind == "human":
        remedy = f"Give the agent {name!r} an output_schema."
        if kind == "human":
            remedy = "A human answers with text: write response."
        output = Names({}, "output key", methods=(), hint=remedy)
    if is_each:
        output = list_names(output if schema else None, "item")
    known = {"response": None, "output": output, "agent": None, "id": None}
    aliases = _RESULT_ALIASES | ({"prompt": None} if kind == "human" else {})
    return Names(known, "part of a result", methods=(), aliases=aliases)


def schema_names(
    schema: Any, root: dict[str, Any], seen: "dict[tuple[int, ...], Names | None] | None" = None
) -> Names | None:
    """The keys of the values that a JSON Schema describes; None where they may be any.

    A schema that does not say whether there are more keys is taken at its word: they are what it asks for.
    What is `seen` again, in a schema that refers to itself, is the same again.
    """
    parts = schema_branches(schema, root)
    key = tuple(id(part) for part in parts if seen is None or part is not schema)
    seen = {} if seen is None else seen
    if key in seen:
        return seen[key]
    properties = [part["properties"] for part in parts if isinstance(part.get("properties"), dict)]
    items = [part["items"] for part in parts if isinstance(part.get("items"), dict)]
    is_mixed = bool(properties) == bool(items) or any("prefixItems" in part for part in parts)
    if is_mixed or len(seen) == _LARGEST_SCHEMA or any(_is_open(part, root) for part in parts):
        return None
    if items:
        seen[key] = None
        seen[key] = list_names(schema_names({"allOf": items}, root, seen), "item")
        return seen[key]
    required = (name for part in parts for name in listed_in(part, "required") if isinstance(name, str))
    known: dict[str, Names | None] = dict.fromkeys([*(name for one in properties for name in one), *required])
    seen[key] = names = Names(known, "output key")
    for name in known:
        known[name] = schema_names({"allOf": [one[name] for one in properties if name in one]}, root, seen)
    return names


def _is_open(part: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a part of a schema allows keys that it does not name."""
    if any(part.get(word) not in (None, False) for word in _OPEN_KEYWORDS):
        return True
    if "$ref" in part and local_reference_target(part["$ref"], root) is None:
        return True
    for one in (*listed_in(part, "anyOf"), *listed_in(part, "oneOf")):
        branches = schema_branches(one, root)
        is_object = any(branch.get("type") == "object" for branch in branches)
        if one in (True, {}) or (is_object and not any("properties" in branch for branch in branches)):
            return True
    return False


def list_names(item: Names | None, noun: str) -> Names:
    """A list of which only the items are known."""
    return Names({}, noun, methods=_OF_LISTS, item=item, is_list=True)


def unresolved_name(scope: Names, name: str, path: Collection[str | int | Each]) -> tuple[str, str] | None:
    """Why a name with its path means nothing in a scope, and what to do; None if it means something."""
    level: Names | None = scope
    path_text = ""
    parts = (name, *path)
    for index, part in enumerate(parts):
        if level is None or (part in level.methods and part not in level.known):
            return None
        if isinstance(part, Each):
            return _unresolved_in_each(level, part, path_text, parts[index + 1 :])
        is_item = level.is_list and isinstance(part, int)
        if is_item or (part in level.aliases and part not in level.known):
            level = level.item if is_item else level.aliases[str(part)]
            continue
        key = str(part + (level.length or 0) if isinstance(part, int) and part < 0 else part)
        before, path_text = path_text, written_path(path_text, part)
        if level.length is not None and isinstance(part, str) and part.isdigit():
            key = id_key(part)
            if key not in level.known:
                return f"There is no {level.noun} with the id {part!r}", f"An index has no quotes: [{part}]."
        if isinstance(part, int) and level.length is None and key in level.known:
            return f"There is no {level.noun} {part}", f"Its name is a text: write {before}[{key!r}]."
        reason = level.absent.get(key) or (level.blocked(key) if level.blocked and key in level.known else "")
        if reason:
            return f"{path_text!r} is not available yet: {reason}", _known_names_hint(level, key, before)
        if key not in level.known:
            return f"There is no {level.noun} {key!r}", _known_names_hint(level, key, before)
        level = level.known[key]
    return None


def _unresolved_in_each(level: Names, step: Each, name: str, rest: Sequence[Any]) -> tuple[str, str] | None:
    """As `unresolved_name`, of what a loop goes through: it is enough that one of them has it."""
    if not rest:
        return None
    if level.is_list:
        items = [level.item]
    elif level.length is None and step is Each.ITEM and level.methods:  # a mapping, which gives its keys
        if isinstance(rest[0], int) or rest[0] in dir(str):
            return None
        return (
            f"There is no {rest[0]!r} here: a loop over {name!r} goes through its names",
            f"Loop over {name}.values(), or over {name}.items().",
        )
    else:
        usable = (key for key in level.known if not (level.blocked and level.blocked(key)))
        items = list({id(item): item for item in (level.known[key] for key in usable)}.values())
    found = [unresolved_name(Names({"": item}), "", rest) for item in items]
    return found[0] if found and all(found) else None


def written_path(path: str, part: str | int) -> str:
    """A path with one more part, as templates write it: `nodes.a`, `nodes['a-b']`, `steps[0]`."""
    if not path:
        return str(part)
    return f"{path}.{part}" if isinstance(part, str) and part.isidentifier() else f"{path}[{part!r}]"


def id_key(id: str) -> str:
    """The key of an id among names that have an index too: `'1'` is not the second of them."""
    return repr(id) if id.isdigit() else id


def _known_names_hint(level: Names, key: str, path: str) -> str:
    if level.hint:
        return level.hint
    usable = [name for name in level.known if not (level.blocked and level.blocked(name))][:20]
    known = f"Available here: {', '.join(usable)}." if usable else "None is available here."
    close = did_you_mean(key, usable)
    shown = [name for name in usable if repr(name) in close] if close else usable
    odd = [name.strip("'") for name in shown if not name.isidentifier()]
    if level.length is not None:  # an index is written as it is
        odd = [name for name in odd if not name.isdigit() or id_key(name) in shown]
    return (close or known) + (f" Write {written_path(path, odd[0])}." if odd and path else "")


# --- Scopes -----------------------------------------------------------------------------------------------


def scope_names(spec: BaseSpec, why: str = "", /, **names: Names | None) -> Names:
    """The inputs, and the names that a place has besides; `why` explains a missing last_response."""
    input_names = [*spec.inputs.declared, *spec.inputs.values, *spec.variables]
    inputs: dict[str, Names | None] = dict.fromkeys(input_names)
    known = {**inputs, "inputs": Names(inputs, "input"), **names}
    absent = {name: text for name, text in WHY_ABSENT.items() if name not in known}
    if why and "last_response" in absent:
        absent["last_response"] = why
    aliases = {} if "secrets" in names else alias_names(spec, names)
    return Names(known, absent=absent, methods=(), aliases=aliases)


def header_scope(spec: BaseSpec) -> Names:
    secrets: dict[str, Names | None] = {secret.name: None for secret in spec.env.secrets}
    return scope_names(spec, secrets=Names(secrets, "secret"))


def server_scope(spec: BaseSpec) -> Names:
    """What the headers and the environment of an MCP server see: it is started before there are inputs."""
    secrets: dict[str, Names | None] = {secret.name: None for secret in spec.env.secrets}
    return Names({"secrets": Names(secrets, "secret")})


# --- Names of other runners -------------------------------------------------------------------------------

_ROUTER = Names(dict.fromkeys(("chosen_route", "response")), "part of a router's choice")
_ROUND_PARTS = (
    *("iteration", "score", "issues", "fixes", "feedback"),
    *("draft", "draft_preview", "evaluation"),
)
_PREVIEW = 200

ResultOf = Callable[[str], StepResult | None]
"""The result of a step of the run, by its key."""


def alias_names(spec: BaseSpec, names: Mapping[str, Names | None]) -> dict[str, Names | None]:
    """The aliases of a place, by the names that it has."""
    is_artifact = "TRACE" in names
    found: list[str] = ["hitl_response"] if spec.asks_humans else []
    below: dict[str, Names | None] = {}
    if is_artifact:
        found += ["name", "timestamp", "cumulative_tokens", "execution_context"]
        for section in ("runtime", "context_policy"):
            below[section] = Names(dict.fromkeys(known_aliases(spec)[section]), f"key of {section}")
    if "route" in names:
        below["router"] = _ROUTER
        found += ["chosen_route", "router_agent"] if is_artifact else []
    rounds = list_names(Names(dict.fromkeys(_ROUND_PARTS), "part of a round"), "round")
    if "evaluation" in names and is_artifact:
        below |= {"history": rounds, "last_evaluation": names["evaluation"]}
        found += ["iterations", "final_score", "min_score", "max_iters"]
    elif "round" in names:
        below |= {"iterations": rounds, "current_evaluation": names["evaluation"]}
        found += ["iteration_index", "current_draft"]
    elif "evaluation" in names:
        found.append("iteration")
    if "plan" in names:
        below["subtasks"] = list_names(Names({"task": None}, "part of a task"), "task")
        found += ["orchestrator_response", "task_count"]
    tasks = names.get("tasks")
    if tasks is not None and tasks.is_list:
        below["workers"] = tasks
        found += ["num_workers", "worker_count", "round_count"]
        found += ["reduce_response", "writeup_response"] if is_artifact else []
    if "nodes" in names and is_artifact:
        found += ["terminal_node", "total_steps", "iteration_counts"]
    return {**dict.fromkeys(found), **below}


def with_alias(results: Mapping[str, Names | None], **aliases: Names | None) -> dict[str, Names | None]:
    """Results that have more aliases than others."""
    return {
        key: names and msgspec.structs.replace(names, aliases={**names.aliases, **aliases})
        for key, names in results.items()
    }


def alias_values(names: Mapping[str, Any], result_of: ResultOf) -> dict[str, Any]:
    """The aliases of a step during a run, by the names that it has; but for `hitl_response`."""
    values: dict[str, Any] = {}
    if "route" in names:
        router = result_of("router")
        values["router"] = {"chosen_route": names["route"], "response": router.response if router else ""}
    rounds = _rounds_so_far(result_of) if "evaluation" in names else []
    if rounds and "round" in names:
        values |= {"iterations": rounds, "iteration_index": len(rounds) - 1}
        values |= {"current_draft": names.get("draft"), "current_evaluation": names["evaluation"]}
    elif rounds:
        values["iteration"] = len(rounds) + 1
    if isinstance(plan := names.get("plan"), list):
        subtasks = [{"task": task} for task in plan]
        text = msgspec.json.format(msgspec.json.encode(subtasks), indent=0).decode()
        values |= {"orchestrator_response": text, "subtasks": subtasks, "task_count": len(subtasks)}
    if isinstance(tasks := names.get("tasks"), list):
        rounds_of_work = {result.key.rpartition("#")[2] for result in tasks}
        values |= dict.fromkeys(("num_workers", "worker_count"), len(tasks))
        values |= {"workers": tasks, "round_count": len(rounds_of_work)}
    return values


def known_aliases(spec: BaseSpec) -> dict[str, Any]:
    """The aliases of artifacts that are known before a run."""
    runtime = msgspec.to_builtins(spec.runtime)
    runtime["host"] = without_credentials(runtime["host"] or "") or None
    runtime |= {key: runtime["inference"].get(key) for key in ("temperature", "top_p", "max_tokens")}
    return {
        "name": spec.name,
        "runtime": runtime,
        "context_policy": msgspec.to_builtins(spec.context_policy),
    }


def artifact_aliases(
    spec: BaseSpec, names: Mapping[str, Any], steps: Sequence[StepResult], last: StepResult | None
) -> dict[str, Any]:
    """The aliases of artifacts, by the names and the steps of a run; `last` is its answer, if it has ended.

    What the end of a run decides is missing where it has not ended.
    """
    pattern, by_key = getattr(spec, "pattern", None), {step.key: step for step in steps}
    values = alias_values(names, by_key.get)
    values.pop("iteration", None)
    if "router" in values:
        values |= {"chosen_route": names["route"], "router_agent": pattern and pattern.router.agent}
    if last is None:
        return values
    if "evaluation" in names:
        rounds = _rounds_so_far(by_key.get)
        least: float = getattr(pattern, "min_score", 0)
        values |= {"min_score": int(least) if least == int(least) else least}
        values |= {"max_iters": getattr(pattern, "max_iters", None)}
        values |= {"iterations": len(rounds), "history": rounds, "last_evaluation": names["evaluation"]}
        values["final_score"] = names["evaluation"]["score"]
    if "workers" in values:
        for name in ("reduce", "writeup"):
            closing = _last_time(name, by_key.get)
            values[f"{name}_response"] = closing.response if closing else None
    if "nodes" in names:
        keys = [key for key in by_key if key.startswith("nodes/") and key.count("/") == 1]
        counts = Counter(key.removeprefix("nodes/").partition("#")[0] for key in keys)
        values |= {"total_steps": len(keys), "iteration_counts": dict(counts)}
        values["terminal_node"] = last.key.removeprefix("nodes/").partition("#")[0]
    return values


def _rounds_so_far(result_of: ResultOf) -> list[dict[str, Any]]:
    """What was written and how it was judged, round by round."""
    rounds: list[dict[str, Any]] = []
    for number in count(1):
        draft, verdict = result_of(f"producer#{number}"), result_of(f"evaluator#{number}")
        if draft is None or verdict is None or not isinstance(verdict.output, dict):
            break
        text, evaluation = draft.response, complete_evaluation(verdict.output)
        preview = text if len(text) <= _PREVIEW else f"{text[: _PREVIEW - 3]}..."
        own = {"iteration": number, "draft": text, "draft_preview": preview, "evaluation": evaluation}
        rounds.append({**evaluation, **own})
    return rounds


def complete_evaluation(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with all parts of an evaluation: feedback and issues stand for each other."""
    issues, feedback = answer.get("issues"), answer.get("feedback")
    if issues is None:
        issues = [feedback] if feedback else []
    if feedback is None:
        listed = issues if isinstance(issues, list) else [issues]
        texts = (one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in listed)
        feedback = "; ".join(texts)
    return {"fixes": [], **answer, "feedback": feedback, "issues": issues}


def _last_time(key: str, result_of: ResultOf) -> StepResult | None:
    """The result of a step that may have been done again."""
    last = result_of(key)
    for number in count(2):
        again = result_of(f"{key}#{number}")
        if again is None:
            return last
        last = again
    return None


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
