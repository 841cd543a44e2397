"""From validated JSON to the objects that a body declared, by msgspec; and the refusal where that fails."""

import re
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, describe
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.values import plain_json

Arguments = dict[str, Any]
Convert = Callable[[Arguments], Arguments]

NOT_JSON: Any = object()
"""In the place of a default that JSON does not have."""

_MESSAGE = re.compile(r"(?P<reason>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def msgspec_takes(annotation: Any) -> bool:
    """Whether msgspec can convert to a type that has a schema; it cannot tell two dataclasses apart, say."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=_restore)
    except (TypeError, RecursionError):
        return False
    return True


def converter(types: dict[str, Any]) -> Convert:
    """Converts these arguments, as fields of one Struct: msgspec prepares that once, other types anew."""
    fields: list[tuple[str, Any, Any]] = [(name, annotation, None) for name, annotation in types.items()]
    shape = msgspec.defstruct("Arguments", fields)
    names = tuple(types)

    def convert(arguments: Arguments) -> Arguments:
        try:
            # Not strict only so that 5.0 is an int: strings for numbers the schema has refused already.
            made = msgspec.convert(arguments, shape, strict=False, str_keys=True, dec_hook=_restore)
        except msgspec.ValidationError as error:
            raise refused([_problem(str(error), arguments)]) from None
        return arguments | {name: getattr(made, name) for name in names if name in arguments}

    return convert


def default_as_json(default: Any, annotation: Any) -> Any:
    """A default in JSON, if it comes back from there as it was; NOT_JSON otherwise."""
    try:
        value = plain_json(default)
        back = msgspec.convert(value, annotation, str_keys=True, dec_hook=_restore)
    except (ToolFailed, ValueError, TypeError, RecursionError):
        return NOT_JSON
    return value if back == default else NOT_JSON


def _restore(kind: type, value: Any) -> Any:
    """What msgspec has no form for itself."""
    if kind is object:
        return value
    if issubclass(kind, PurePath):
        return kind(value)
    raise NotImplementedError


def refused(problems: list[Problem]) -> ToolFailed:
    """Why values that their schema let through are not of their types, in the words of the types."""
    sentences = (f"{problem.pointer}: {problem.expected} (it is {problem.got})" for problem in problems)
    return ToolFailed(
        f"The input does not fit: {'; '.join(sentences)}",
        code="input_invalid",
        details=[problem.as_detail() for problem in problems],
    )


def _problem(message: str, arguments: Arguments) -> Problem:
    match = _MESSAGE.fullmatch(message)
    reason, place = (match["reason"], match["path"] or "") if match else (message, "")
    # For the values of a dictionary msgspec does not tell the key: its path is followed up to there.
    steps = (step[1] or int(step[2]) for step in _STEP.finditer(place.partition("[...]")[0]))
    path, value = follow(arguments, steps)
    return Problem(path=path, keyword="type", expected=reason, got=describe(value))


def follow(value: Any, steps: Iterable[str | int]) -> tuple[JsonPath, Any]:
    """Where these steps lead in a JSON value, and what is there; those that lead nowhere are left out."""
    path: JsonPath = ()
    for step in steps:
        if isinstance(step, int):
            leads_on = isinstance(value, list) and step < len(value)
        else:
            leads_on = isinstance(value, dict) and step in value
        if leads_on:
            path, value = (*path, step), value[step]
    return path, value
