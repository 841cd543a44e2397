"""The inputs of a run: what the file declares, what it holds itself, what the caller gives."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from strands_cli.documents.problems import describe
from strands_cli.errors import Issue, SpecError, did_you_mean
from strands_cli.types.spec import Input, Spec

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def resolve_inputs(spec: Spec, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The value of every input of a run; SpecError where one is missing, unknown or of another type."""
    given = {**spec.inputs.values, **spec.variables, **(variables or {})}
    issues = [*_given_issues(spec, given), *_missing_issues(spec, given)]
    if issues:
        raise SpecError(issues[0].reason, hint=issues[0].remediation, issues=issues)
    defaults = {
        name: declared.default
        for name, declared in spec.inputs.declared.items()
        if declared.default is not msgspec.UNSET
    }
    return {**{name: None for name in spec.inputs.optional}, **defaults, **given}


def check_variables(spec: Spec) -> list[Issue]:
    """What is wrong with the values that are known when a workflow is loaded."""
    defaults = {
        f"/inputs/{group}/{name}/default": (name, declared)
        for group in ("required", "optional")
        for name, declared in getattr(spec.inputs, group).items()
        if declared.default is not msgspec.UNSET
    }
    return [
        *_given_issues(spec, {**spec.inputs.values, **spec.variables}),
        *(
            spec.issue(place, f"The default of {name} is not one: {reason}.", "Give another default.")
            for place, (name, declared) in defaults.items()
            for reason in _mismatch(declared, declared.default)
        ),
    ]


def _given_issues(spec: Spec, given: Mapping[str, Any]) -> Iterator[Issue]:
    declared = spec.inputs.declared
    for name, value in given.items():
        place = f"/inputs/values/{name}" if name in spec.inputs.values else "/inputs"
        if declared and name not in declared:
            hint = did_you_mean(name, declared) or f"The inputs are {', '.join(declared)}."
            yield spec.issue(place, f"There is no input {name!r}.", hint)
            continue
        for reason in _mismatch(declared.get(name, Input()), value):
            yield spec.issue(place, f"The input {name!r} is not valid: {reason}.", "Give another value.")


def _missing_issues(spec: Spec, given: Mapping[str, Any]) -> Iterator[Issue]:
    for name, declared in spec.inputs.required.items():
        if name not in given and declared.default is msgspec.UNSET:
            text = f": {declared.description}" if declared.description else ""
            yield spec.issue(
                f"/inputs/required/{name}",
                f"The input {name!r} is missing{text}.",
                f"Give it with --var {name}=…",
            )


def _mismatch(declared: Input, value: Any) -> Iterator[str]:
    kind = _KINDS.get(declared.type or "")
    is_number = isinstance(value, bool) and declared.type in ("integer", "number")
    if kind is not None and (not isinstance(value, kind) or is_number):
        yield f"expected {declared.type}, got {describe(value)}"
    elif declared.enum and value not in declared.enum:
        yield f"expected one of {', '.join(repr(item) for item in declared.enum)}, got {describe(value)}"
