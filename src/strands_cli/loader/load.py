"""`load_spec`: text, document, schema, Spec; every problem with its place in the file."""

import os
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, pointer
from strands_cli.errors import Issue, SpecError
from strands_cli.loader.document import MOST_BYTES, Document, read_document
from strands_cli.loader.inputs import check_variables
from strands_cli.loader.shape import shaped
from strands_cli.loader.variables import expand_variables
from strands_cli.schema.validator import Validator
from strands_cli.types import Spec
from strands_cli.types.spec import Input

# importlib.resources would cost as much as reading the file does ten times over.
SCHEMA_FILE = Path(__file__).parent.parent / "schema" / "strands-workflow.schema.json"
MOST_MENDED = 500
"""With more problems than these, there is no looking for others."""
_DECLARATIONS = (("inputs", "required"), ("inputs", "optional"))


def load_spec(path: str | Path, variables: Mapping[str, Any] | None = None) -> Spec:
    """The workflow in a file; SpecError has every problem that keeps it from being one.

    `variables` are values for its inputs.
    """
    spec, issues = examine(path, variables)
    if spec is None or issues:
        raise SpecError(_summary(path, issues), issues=issues)
    return spec


def examine(path: str | Path, variables: Mapping[str, Any] | None = None) -> tuple[Spec | None, list[Issue]]:
    """The workflow in a file, as far as it is one, and every problem with it.

    With problems, the Spec is what could be made in spite of them: enough to look for more, not to be run.
    """
    document = _read(Path(path))
    if document.issues and document.value is None:
        return None, document.issues
    if not isinstance(document.value, dict):
        return None, [_not_a_mapping(Path(path))]
    value = _expanded(document)
    _follow_references(value, document, Path(path))
    schema = workflow_schema()
    problems = [
        inner
        for problem in schema.problems(value, MOST_MENDED + 1)
        for inner in _looked_into(problem, value, schema)
    ]
    issues = document.issues + [_issue(problem, document) for problem in problems]
    spec = _spec(value, problems, schema)
    if spec is None:
        return None, issues
    spec = msgspec.structs.replace(
        spec,
        file=Path(path),
        positions=document.positions,
        variables=_typed(variables or {}, spec.inputs.declared),
    )
    told = {issue.pointer for issue in issues}
    return spec, issues + [issue for issue in check_variables(spec) if issue.pointer not in told]


def _looked_into(problem: Problem, value: dict[str, Any], schema: Validator) -> Iterator[Problem]:
    """An input that is an object is told by what is in it, not by the short form that it might have."""
    group, name = problem.path[:-1], problem.path[-1] if problem.path else ""
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
        return _converted(shaped(value))
    if len(problems) > MOST_MENDED:
        return None
    from strands_cli.loader.partial import partial_spec

    return partial_spec(value, problems, schema.schema)


def _converted(value: dict[str, Any]) -> Spec:
    try:
        return msgspec.convert(value, Spec)
    except msgspec.ValidationError:
        # To a schema 4.0 is an integer, to the types it is none.
        return msgspec.convert(_with_whole_numbers(value), Spec)


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _typed(variables: Mapping[str, Any], declared: Mapping[str, Input]) -> dict[str, Any]:
    """The variables, with texts as their inputs ask for them: '3' is 3 where an integer is asked."""
    return {
        name: _as_asked(value, declared[name].type) if name in declared else value
        for name, value in variables.items()
    }


def _as_asked(value: Any, kind: str | None) -> Any:
    if not isinstance(value, str) or kind in (None, "string"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        # It stays as it is, and is refused as what it is.
        return value


@cache
def workflow_schema() -> Validator:
    return Validator(msgspec.json.decode(schema_text()))


def schema_text() -> str:
    return SCHEMA_FILE.read_text("utf-8")


def _read(path: Path) -> Document:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            # A device has no end, and a pipe may never begin.
            return _unread(path, "This is not a file.")
        if found.st_size > MOST_BYTES:
            return _unread(path, f"The file has {found.st_size} bytes; {MOST_BYTES} are taken at most.")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        return _unread(path, f"The file cannot be read: {error.strerror}.")
    except UnicodeDecodeError as error:
        return _unread(
            path, f"The file is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}."
        )
    except ValueError as error:
        return _unread(path, f"The file cannot be read: {error}.")
    return read_document(text, str(path))


def _unread(path: Path, reason: str) -> Document:
    issue = Issue(file=str(path), reason=reason, remediation="Give a YAML or JSON file with a workflow.")
    return Document(None, {}, [issue])


def _not_a_mapping(path: Path) -> Issue:
    return Issue(
        file=str(path),
        line=1,
        reason="A workflow is a mapping with the keys version, name, runtime, agents and pattern.",
        remediation="'strands schema' prints the format.",
    )


def _expanded(document: Document) -> Any:
    def missing(path: JsonPath, name: str) -> None:
        document.issues.append(
            _placed(
                document,
                path,
                f"The environment variable {name} is not set.",
                f"Set it, or give a default: ${{{name}:-…}}.",
            )
        )

    return expand_variables(document.value, missing, os.environ)


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
            where = (*place, "$ref")
            document.issues.append(
                _placed(document, where, f"{agent['$ref']}: {reason}", "Name an agent's file.")
            )
            value["agents"][name] = {"prompt": ""}
            continue
        inner = _expanded(other)
        document.issues += other.issues
        document.positions |= {
            pointer(place) + inside: position for inside, position in other.positions.items() if inside
        }
        value["agents"][name] = {**inner, **{key: part for key, part in agent.items() if key != "$ref"}}


def _issue(problem: Problem, document: Document) -> Issue:
    name = problem.path[-1] if problem.path else "the workflow"
    if problem.keyword == "required":
        reason = f"The key {name!r} is missing."
    elif "name" in problem.facts:
        reason = f"There is no key {name!r} here."
    else:
        reason = f"{name!r} must be {problem.expected}, and is {problem.got}."
    return _placed(document, problem.path, reason, problem.hint or "'strands schema' prints the format.")


def _placed(document: Document, path: JsonPath, reason: str, remediation: str) -> Issue:
    place = path
    while pointer(place) not in document.positions and place:
        place = place[:-1]
    file, line, column = document.positions.get(pointer(place), ("", 0, 0))
    return Issue(
        pointer=pointer(path), reason=reason, remediation=remediation, file=file, line=line, column=column
    )


def _summary(path: str | Path, issues: list[Issue]) -> str:
    first = issues[0]
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return f"{first.place or path}: {first.reason}{more}"
