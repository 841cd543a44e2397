"""From a draft to a ToolInfo: every value is held against the rules, and each refusal has its line."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from strands_cli.errors import Issue, did_you_mean
from strands_cli.toolkit.info import ToolCategory, ToolInfo, bare_schema, name_problem, version_problem
from strands_cli.toolkit.requirements import requirements_problem
from strands_cli.tools._discovery.drafts import Draft, Said
from strands_cli.tools._discovery.values import NotJson, Unread, as_json, first_unread

_SCHEMAS = ("input_schema", "output_schema")
_CATEGORIES = [category.value for category in ToolCategory]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tool's callable is, and what is known of all tools there."""

    module_path: str
    callable_name: str
    file: str
    line: int
    family: str
    source: str
    origin: str


def finish(draft: Draft, place: Place) -> tuple[ToolInfo | None, list[Issue]]:
    """The tool, unless something about it is refused; and what is to be said about it."""
    unread = [part for said in draft.said.values() if (part := first_unread(said.value, said.key))]
    dropped = {key.partition(".")[0] for key, _ in unread}
    readable = {field: said for field, said in draft.said.items() if said.key not in dropped}
    issues = list(_refusals(draft, readable))
    if issues:
        return None, issues
    values = {field: said.value for field, said in readable.items()}
    values |= _converted(values) | {"family": values.get("family") or place.family}
    values |= {name: getattr(place, name) for name in place.__struct_fields__ if name != "family"}
    values.pop("timeout", None)
    if draft.unread or unread:
        part = draft.unread or unread[0]
        values["unread"] = _sentence(*part)
        issues.append(_unread_warning(draft, *part))
    return ToolInfo(id=draft.id, inferred=draft.inferred, **values), issues


def _converted(values: dict[str, Any]) -> dict[str, Any]:
    """The values that ToolInfo holds in another form than authors write them in."""
    converted = {name: as_json(values[name]) for name in (*_SCHEMAS, "requires") if name in values}
    converted |= {name: bare_schema(converted[name]) for name in _SCHEMAS if name in converted}
    if "category" in values:
        converted["category"] = ToolCategory(values["category"])
    if "timeout" in values:
        converted["timeout_ms"] = values.get("timeout_ms", round(values["timeout"] * 1000))
    return converted


def _sentence(key: str, unread: Unread) -> str:
    return f"{key!r} {unread.reason}"


def _unread_warning(draft: Draft, key: str, unread: Unread) -> Issue:
    return Issue(
        severity="warning",
        file=unread.file,
        line=unread.line,
        reason=f"Tool {draft.id!r} cannot be read without running it: {_sentence(key, unread)}.",
        remediation="Write it out as a literal, or as a name that is assigned once in the tools directory.",
    )


# --- the rules --------------------------------------------------------------------------------------------


def _refusals(draft: Draft, readable: dict[str, Said]) -> Iterator[Issue]:
    problem = name_problem(draft.id)
    if problem:
        yield refusal(draft.id, draft.file, draft.line, problem, "Use up to 64 letters, digits, '_' and '-'.")
    for field, said in readable.items():
        yield from _refusals_of(draft, field, said)


def _refusals_of(draft: Draft, field: str, said: Said) -> Iterator[Issue]:
    check, remedy = _RULES[field]
    problem = check(said.value)
    if problem:
        hint = _category_hint(said.value) if field == "category" else remedy
        yield refusal(draft.id, said.file, said.line, problem.replace("{key}", said.key), hint)


def refusal(tool_id: object, file: str, line: int, problem: str, remedy: str) -> Issue:
    reason = f"Tool {tool_id!r} is refused: {problem}."
    return Issue(file=file, line=line, reason=reason, remediation=remedy)


def _text(value: object) -> str:
    return "" if isinstance(value, str) else "{key} must be a string"


def _fact(value: object) -> str:
    return "" if isinstance(value, bool) else "{key} must be True or False"


def _version(value: object) -> str:
    return version_problem(value) if isinstance(value, str) else _text(value)


def _family(value: object) -> str:
    problem = name_problem(value) if isinstance(value, str) and value else _text(value)
    return problem.replace("its name", "its family's name")


def _category(value: object) -> str:
    if isinstance(value, str) and value in _CATEGORIES:
        return ""
    return f"there is no category {value!r}"


def _category_hint(value: object) -> str:
    guess = did_you_mean(value, _CATEGORIES) if isinstance(value, str) else ""
    return " ".join(filter(None, [guess, f"The categories are {', '.join(_CATEGORIES)}."]))


def _positive(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if is_number and 0 < value < math.inf else "{key} must be a number greater than zero"  # type: ignore[operator]


def _milliseconds(value: object) -> str:
    return (
        "{key} must be a whole number greater than zero" if not isinstance(value, int) else _positive(value)
    )


def _requires(value: object) -> str:
    problem = requirements_problem(value)
    return problem or _json(value)


def _output_schema(value: object) -> str:
    return _json(value) if isinstance(value, dict) else "{key} must be a dictionary"


def _input_schema(value: object) -> str:
    problem = _output_schema(value)
    if problem or not isinstance(value, dict):
        return problem
    takes_object = bare_schema(value).get("type", "object") == "object"
    return "" if takes_object else "{key} is not of type object"


def _json(value: object) -> str:
    try:
        as_json(value)
    except NotJson as error:
        return f"{{key}} is not JSON: {error}"
    return ""


_STRING = "Write it as a string in quotes."
_BOOLEAN = "Write True or False."
_JSON = "Use strings, numbers, True, False, None, lists and dictionaries only."
_RULES: dict[str, tuple[Callable[[Any], str], str]] = {
    "module_path": (_text, _STRING),
    "callable_name": (_text, _STRING),
    "description": (_text, _STRING),
    "replaced_by": (_text, _STRING),
    "family": (_family, "Use up to 64 letters, digits, '_' and '-'."),
    "version": (_version, 'Write it as in version="1.0.0".'),
    "category": (_category, ""),
    "deprecated": (_fact, _BOOLEAN),
    "requires_consent": (_fact, _BOOLEAN),
    "timeout": (_positive, "Give the seconds, such as 30."),
    "timeout_ms": (_milliseconds, "Give the milliseconds, such as 30000."),
    "requires": (_requires, "See 'requires' in TOOL_DEVELOPMENT.md."),
    "input_schema": (_input_schema, f"A tool takes an object. {_JSON}"),
    "output_schema": (_output_schema, _JSON),
}
