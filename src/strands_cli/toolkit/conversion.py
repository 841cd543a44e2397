"""From validated JSON to the objects that a body declared, by msgspec; and what is said where that fails."""

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem, describe
from strands_cli.errors import ToolFailed

Arguments = dict[str, Any]
Convert = Callable[[Arguments], Arguments]

_PATH = re.compile(r"(?P<said>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])")
_WRONG_TYPE = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_EXPECTED = {
    "Invalid RFC3339 encoded datetime": "an RFC 3339 date and time, such as 2026-01-31T14:30:00Z",
    "Invalid RFC3339 encoded date": "an RFC 3339 date, such as 2026-01-31",
    "Invalid RFC3339 encoded time": "an RFC 3339 time, such as 14:30:00",
    "Invalid ISO8601 duration": "an ISO 8601 duration, such as PT1H30M",
    "Invalid base64 encoded string": "base64 text",
    "Invalid decimal string": "a decimal number",
    "Invalid UUID": "a UUID",
}


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
            raise refused([_complaint(str(error), arguments)]) from None
        return arguments | {name: getattr(made, name) for name in names if name in arguments}

    return convert


def _restore(kind: type, value: Any) -> Any:
    """What msgspec has no form for itself."""
    if issubclass(kind, PurePath):
        return kind(value)
    raise NotImplementedError


class Complaint(msgspec.Struct, frozen=True):
    """Why a value that its schema let through is none of its type."""

    path: JsonPath
    said: str
    got: str
    is_expectation: bool = False
    """Whether what is said continues "it must be"; otherwise it is a type's own sentence."""
    keyword: str = "type"

    @property
    def problem(self) -> Problem:
        return Problem(path=self.path, keyword=self.keyword, expected=self.said, got=self.got)

    @property
    def sentence(self) -> str:
        if self.is_expectation:
            return self.problem.sentence
        return f"{self.problem.pointer}: {self.said} (it is {self.got})"


def refused(complaints: list[Complaint]) -> ToolFailed:
    return ToolFailed(
        f"The input does not fit: {'; '.join(complaint.sentence for complaint in complaints)}",
        code="input_invalid",
        details=[complaint.problem.as_detail() for complaint in complaints],
    )


def value_at(arguments: Any, path: JsonPath) -> Any:
    for step in path:
        arguments = arguments[step]
    return arguments


def _complaint(message: str, arguments: Arguments) -> Complaint:
    match = _PATH.fullmatch(message)
    said, place = (match["said"], match["path"] or "") if match else (message, "")
    path = _existing_path(place, arguments)
    got = describe(value_at(arguments, path))
    wrong_type = _WRONG_TYPE.fullmatch(said)
    expected = wrong_type[1] if wrong_type else _EXPECTED.get(said)
    return Complaint(path, expected or said, got, is_expectation=expected is not None)


def _existing_path(place: str, arguments: Any) -> JsonPath:
    """msgspec's `.name[0]` as far as it leads: for the values of a dictionary it does not tell the key."""
    path: list[str | int] = []
    for step in _STEP.finditer(place):
        key = step[1] if step[1] is not None else int(step[2]) if step[2] else None
        if key is None or not leads_on(arguments, key):
            break
        path.append(key)
        arguments = arguments[key]
    return tuple(path)


def leads_on(value: Any, key: str | int) -> bool:
    if isinstance(key, int):
        return isinstance(value, list) and key < len(value)
    return isinstance(value, dict) and key in value
