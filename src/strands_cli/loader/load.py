"""`load_spec`: text, document, variables, schema, Spec; every problem with its place in the file."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, json_pointer, repaired_document
from strands_cli.documents.reader import Document, read_document_file, with_whole_numbers
from strands_cli.errors import Issue, SpecError
from strands_cli.loader.run_values import check_variables, typed_variables
from strands_cli.loader.spec import Spec, spec_of
from strands_cli.schema.validator import Validator, published_schema

MAX_REPAIRED = 500
"""With more problems than these, there is no looking for others."""
_DECLARATIONS = (("inputs", "required"), ("inputs", "optional"))
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_FILE_HINT = "Give a YAML or JSON file with a workflow."
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


def load_spec(path: str | Path, variables: Mapping[str, Any] | None = None) -> Spec:
    """Reads a workflow file. Raises SpecError with all problems if the file is not valid.

    `variables` are the values of its inputs.
    """
    spec, issues = examine_workflow(path, variables)
    if spec is None or issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise SpecError(f"{issues[0].place or path}: {issues[0].reason}{more}", issues=issues)
    return spec


def examine_workflow(
    path: str | Path, variables: Mapping[str, Any] | None = None
) -> tuple[Spec | None, list[Issue]]:
    """The workflow in a file, as far as it is one, and every problem with it.

    With problems, the Spec is what could be made in spite of them: enough to look for more, not to be run.
    """
    document = read_document_file(Path(path), _FILE_HINT)
    if document.issues and document.value is None:
        return None, document.issues
    if not isinstance(document.value, dict):
        reason = "A workflow is a mapping with the keys version, name, runtime, agents and pattern."
        return None, [Issue(file=str(path), line=1, reason=reason, remediation=_FORMAT_HINT)]
    value = _expanded_variables(document.value, (), document)
    _follow_references(value, document, Path(path))
    schema = published_schema("workflow")
    problems = [
        inner
        for problem in schema.problems(value, MAX_REPAIRED + 1)
        for inner in _detailed_problems(problem, value, schema)
    ]
    issues = document.issues + [
        document.schema_issue(problem, "The workflow", _FORMAT_HINT, schema.schema) for problem in problems
    ]
    spec = _spec_despite_problems(value, problems, schema)
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


def _detailed_problems(problem: Problem, value: dict[str, Any], schema: Validator) -> Iterator[Problem]:
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


def _spec_despite_problems(value: dict[str, Any], problems: list[Problem], schema: Validator) -> Spec | None:
    """With problems, a Spec in spite of them, so that one look at a file finds the mistakes of every kind."""
    if not problems:
        try:
            return spec_of(value)
        except msgspec.ValidationError:
            return spec_of(with_whole_numbers(value))
    if len(problems) > MAX_REPAIRED:
        return None
    left = repaired_document(
        value, [found for found in problems if found.keyword not in _HARMLESS], schema.schema
    )
    for document in (left, {**left, "pattern": {"type": "chain", "config": {"steps": []}}}):
        try:
            return spec_of(document)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
            continue  # not every combination of problems can be repaired
    return None


def _expanded_variables(value: Any, path: JsonPath, document: Document) -> Any:
    """The value with `${NAME}` and `${NAME:-default}` filled in; `$${` stands for `${`."""
    if isinstance(value, dict):
        return {key: _expanded_variables(inner, (*path, key), document) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded_variables(inner, (*path, index), document) for index, inner in enumerate(value)]
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
        other = read_document_file(path.parent / agent["$ref"], _FILE_HINT)
        if not isinstance(other.value, dict) or other.issues:
            reason = other.issues[0].reason if other.issues else "It does not define an agent."
            reason = f"{agent['$ref']}: {reason}"
            document.issues.append(document.issue((*place, "$ref"), reason, "Name an agent's file."))
            value["agents"][name] = {"prompt": ""}
            continue
        inner = _expanded_variables(other.value, (), other)
        document.issues += other.issues
        document.positions |= {
            json_pointer(place) + inside: position for inside, position in other.positions.items() if inside
        }
        value["agents"][name] = {**inner, **{key: part for key, part in agent.items() if key != "$ref"}}
