"""`load_spec`: text, document, variables, schema, Spec; every problem with its place in the file."""

import copy
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, members, pointer, schemas_at
from strands_cli.documents.reader import Document, read_file, with_whole_numbers
from strands_cli.errors import Issue, SpecError
from strands_cli.loader.run_values import check_variables, typed_variables
from strands_cli.loader.spec import Spec, spec_of
from strands_cli.schema.validator import Validator, published_schema

MOST_REPAIRED = 500
"""With more problems than these, there is no looking for others."""
_DECLARATIONS = (("inputs", "required"), ("inputs", "optional"))
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_FORMAT_HINT = "'strands schema' prints the format."
# What is asked of a value beyond its type is asked by the schema alone: the types take it as it is.
_HARMLESS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "propertyNames",
        "uniqueItems",
    }
)
_EMPTY: dict[str, Any] = {
    "string": "",
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
}
_NO_PATTERN = {"type": "chain", "config": {"steps": []}}
_DEEPEST = 8


def load_spec(path: str | Path, variables: Mapping[str, Any] | None = None) -> Spec:
    """The workflow in a file; SpecError has every problem that keeps it from being one.

    `variables` are values for its inputs.
    """
    spec, issues = examine(path, variables)
    if spec is None or issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise SpecError(f"{issues[0].place or path}: {issues[0].reason}{more}", issues=issues)
    return spec


def examine(path: str | Path, variables: Mapping[str, Any] | None = None) -> tuple[Spec | None, list[Issue]]:
    """The workflow in a file, as far as it is one, and every problem with it.

    With problems, the Spec is what could be made in spite of them: enough to look for more, not to be run.
    """
    document = _read(Path(path))
    if document.issues and document.value is None:
        return None, document.issues
    if not isinstance(document.value, dict):
        reason = "A workflow is a mapping with the keys version, name, runtime, agents and pattern."
        return None, [Issue(file=str(path), line=1, reason=reason, remediation=_FORMAT_HINT)]
    value = _expanded(document.value, (), document)
    _follow_references(value, document, Path(path))
    schema = published_schema("workflow")
    problems = [
        inner
        for problem in schema.problems(value, MOST_REPAIRED + 1)
        for inner in _looked_into(problem, value, schema)
    ]
    issues = document.issues + [
        document.schema_issue(problem, "the workflow", _FORMAT_HINT) for problem in problems
    ]
    spec = _spec(value, problems, schema)
    if spec is None:
        return None, issues
    spec = msgspec.structs.replace(
        spec,
        file=Path(path),
        positions=document.positions,
        variables=typed_variables(variables or {}, spec.inputs.declared),
    )
    told = {issue.pointer for issue in issues}
    return spec, issues + [issue for issue in check_variables(spec) if issue.pointer not in told]


def _looked_into(problem: Problem, value: dict[str, Any], schema: Validator) -> Iterator[Problem]:
    """The problem, if it is one, or those behind it.

    An input that is an object is told by what is in it, not by the short form that it might have. The schema
    knows our own providers; others are those of installed packages.
    """
    group, name = problem.path[:-1], problem.path[-1] if problem.path else ""
    is_model = group == ("runtime",) or (len(group) == 2 and group[0] == "agents")
    if is_model and name == "provider" and problem.keyword == "enum":
        from strands_cli.providers.choice import PROVIDERS

        place = value["runtime"] if group == ("runtime",) else value["agents"][group[1]]
        if isinstance(place["provider"], str) and place["provider"] in PROVIDERS:
            return
    inputs = value["inputs"][group[1]] if group in _DECLARATIONS and problem.keyword == "enum" else {}
    if not isinstance(inputs.get(name), dict):
        yield problem
        return
    definitions = schema.schema["$defs"]
    long_form = Validator({**definitions["input"]["oneOf"][1], "$defs": definitions})
    for inner in long_form.problems(inputs[name]):
        yield msgspec.structs.replace(inner, path=(*problem.path, *inner.path))


def _spec(value: dict[str, Any], problems: list[Problem], schema: Validator) -> Spec | None:
    if not problems:
        try:
            return spec_of(value)
        except msgspec.ValidationError:
            return spec_of(with_whole_numbers(value))
    if len(problems) > MOST_REPAIRED:
        return None
    return _partial_spec(value, problems, schema.schema)


def _read(path: Path) -> Document:
    return read_file(path, "Give a YAML or JSON file with a workflow.")


def _expanded(value: Any, path: JsonPath, document: Document) -> Any:
    """The value with `${NAME}` and `${NAME:-default}` filled in; `$${` stands for `${`."""
    if isinstance(value, dict):
        return {key: _expanded(inner, (*path, key), document) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner, (*path, index), document) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def fill(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        text = os.environ.get(name) or default
        if text is None:
            reason = f"The environment variable {name} is not set."
            remedy = f"Set it, or give a default: ${{{name}:-…}}."
            document.issues.append(document.issue(path, reason, remedy))
            return match[0]
        return text

    return _VARIABLE.sub(fill, value)


def _follow_references(value: dict[str, Any], document: Document, path: Path) -> None:
    """Puts the files that `agents.*.$ref` names in their places; their values keep their own positions."""
    agents = value.get("agents")
    for name, agent in (agents or {}).items() if isinstance(agents, dict) else ():
        if not isinstance(agent, dict) or not isinstance(agent.get("$ref"), str):
            continue
        place: JsonPath = ("agents", name)
        other = _read(path.parent / agent["$ref"])
        if not isinstance(other.value, dict) or other.issues:
            reason = other.issues[0].reason if other.issues else "It holds no agent."
            reason = f"{agent['$ref']}: {reason}"
            document.issues.append(document.issue((*place, "$ref"), reason, "Name an agent's file."))
            value["agents"][name] = {"prompt": ""}
            continue
        inner = _expanded(other.value, (), other)
        document.issues += other.issues
        document.positions |= {
            pointer(place) + inside: position for inside, position in other.positions.items() if inside
        }
        value["agents"][name] = {**inner, **{key: part for key, part in agent.items() if key != "$ref"}}


# --- A Spec in spite of problems --------------------------------------------------------------------------
# So that one look at a file finds the mistakes of every kind. What keeps the types from being filled is taken
# out where it may be absent, and replaced by something empty where it may not. Nothing is moved: every
# pointer still means the same place.


def _partial_spec(
    document: dict[str, Any], problems: Sequence[Problem], schema: dict[str, Any]
) -> Spec | None:
    """The workflow that is left of a document; None where that is too little."""
    repaired = copy.deepcopy(document)
    for problem in problems:
        if problem.keyword not in _HARMLESS:
            _repair(repaired, problem, schema)
    return _converted(repaired) or _converted({**repaired, "pattern": _NO_PATTERN})


def _converted(document: dict[str, Any]) -> Spec | None:
    try:
        return spec_of(document)
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
        # Not every combination of problems can be repaired; there is a Spec or there is none.
        return None


def _repair(document: dict[str, Any], problem: Problem, schema: dict[str, Any]) -> None:
    *way, last = problem.path or ("",)
    holder: Any = document
    for step in way:
        holder = _inside(holder, step)
    if isinstance(holder, dict) and ("name" in problem.facts or _may_be_absent(schema, tuple(way), last)):
        holder.pop(last, None)
    elif isinstance(holder, dict | list):
        holder[last] = _stand_in(schemas_at(schema, *problem.path), schema)  # type: ignore[index]


def _inside(holder: Any, step: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(str(step))
    return holder[step] if isinstance(holder, list) and isinstance(step, int) and step < len(holder) else None


def _may_be_absent(schema: dict[str, Any], holder: JsonPath, key: str | int) -> bool:
    """Whether a key is one that the schema names and does not require."""
    parts = schemas_at(schema, *holder)
    is_named = any(key in part.get("properties", {}) for part in parts)
    return is_named and not any(key in part.get("required", ()) for part in parts)


def _stand_in(parts: list[dict[str, Any]], schema: dict[str, Any], depth: int = 0) -> Any:
    """Something empty that fits the types."""
    for part in parts:
        if "const" in part:
            return part["const"]
        if "enum" in part:
            return part["enum"][0]
        if part.get("type") == "object" and depth < _DEEPEST:
            # What any of the parts requires: a key too many does no harm here.
            required = [name for part in parts for name in part.get("required", ())]
            return {name: _stand_in(members(parts, name, schema), schema, depth + 1) for name in required}
        if part.get("type") in _EMPTY:
            return copy.deepcopy(_EMPTY[part["type"]])
    return None
