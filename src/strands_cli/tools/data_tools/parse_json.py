"""Parse JSON and pick a value out of it."""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from strands_cli.documents.problems import describe_value, json_pointer, pointer_steps, shorten_text
from strands_cli.documents.reader import is_nested_deeper
from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.toolkit.workspace import Workspace, file_refusal
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "parse_json",
    "description": (
        "Parse JSON, given as text or as the path of a file, and return it, or the part that a query names. "
        "Invalid JSON is refused with line and column."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The JSON text; give this or path"},
                "path": {
                    "type": "string",
                    "description": "The path of a JSON file in the workspace; give this or text",
                    "minLength": 1,
                },
                "query": {
                    "type": "string",
                    "description": "Which part to return: a path such as 'users[0].name' or 'users[*].name' "
                    "(from all of them), or a JSON pointer such as '/users/0/name'; without it, everything",
                    "maxLength": 1000,
                },
            },
        }
    },
}


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="data",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def parse_json(
    text: str | None = None, path: str | None = None, query: str = "", *, context: ToolContext
) -> Any:
    if (text is None) == (path is None):
        raise ToolFailed(
            f"Give text or path: {'neither was' if path is None else 'both were'} given",
            code="input_invalid",
            hint="text is the JSON itself, path the name of a file that holds it.",
        )
    source = "The text" if path is None else path
    text = text if text is not None else _file_text(context.workspace, source)
    document = _parse_json_text(text, source, context)
    value = _select_by_query(document, query)
    _stop_if_cancelled(context)
    if is_nested_deeper(value, _MAX_LEVELS):
        raise _json_too_deep()
    if isinstance(value, dict) and value.keys() >= {"status", "content"}:
        # A document of this form would be taken for a tool's result, which it is to be the content of.
        return {"status": "success", "content": [{"json": value}]}
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value


# --- JSON texts: read strictly, and with the place of what is wrong ---------------------------------------

_MAX_BYTES = 50_000_000
_MAX_LEVELS = 200
"""Of nesting; what is deeper cannot be passed on by everything that reads a result."""

# Strings are matched so that what looks like a number in them is passed over.
_NUMBER = re.compile(r'"(?:[^"\\]++|\\.)*+"|(NaN|-?Infinity|-?[0-9][0-9.eE+-]*)', re.DOTALL)
_FORM = "JSON needs double quotes around names and strings, no trailing commas, and no comments."


def _file_text(workspace: Workspace, path: str) -> str:
    with workspace.open(path) as stream:
        if os.fstat(stream.fileno()).st_size > _MAX_BYTES:
            raise _json_too_large(path)
        try:
            data = stream.read(_MAX_BYTES)
        except OSError as error:
            raise file_refusal(error, path, "read") from None
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{path} is not JSON: its byte {error.start + 1} is not {error.encoding} text",
            hint="JSON files are encoded as UTF-8.",
        ) from None


def _stop_if_cancelled(context: ToolContext) -> None:
    """A long text takes seconds, and nobody may wait for it any longer."""
    if context.cancelled:
        raise ToolFailed("The call was cancelled", code="cancelled")


def _parse_json_text(text: str, source: str, context: ToolContext) -> Any:
    """The value of a JSON text; ToolFailed with line and column where it is not JSON."""
    if len(text) > _MAX_BYTES:
        raise _json_too_large(source)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ToolFailed(f"{source} is empty, which is not JSON", hint="The shortest JSON is {} or null.")
    try:
        value = _load_finite_json(text, context)
    except json.JSONDecodeError as error:
        raise _malformed_json(source, error) from None
    except RecursionError:
        raise _json_too_deep() from None
    except ValueError:
        raise _unusable_number(source, text, context) from None
    _stop_if_cancelled(context)
    _refuse_half_characters(value, text, source)
    return value


def _malformed_json(source: str, error: json.JSONDecodeError) -> ToolFailed:
    near = shorten_text(error.doc[error.pos : error.pos + 30].split("\n")[0])
    place = f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
    hint = _FORM
    if error.msg == "Extra data":
        hint = "It holds more than one value; separate values belong in an array, or in separate calls."
    return ToolFailed(f"{source} is not JSON: {place}{f', near {near!r}' if near else ''}", hint=hint)


def _load_finite_json(text: str, context: ToolContext) -> Any:
    """ValueError, and not JSONDecodeError, for NaN, Infinity, and numbers beyond what Python holds."""

    def finite(token: str) -> float:
        number = float(token)
        if not math.isfinite(number):
            raise ValueError(token)
        if context.cancelled:
            _stop_if_cancelled(context)
        return number

    return json.loads(text, parse_constant=finite, parse_float=finite)


def _unusable_number(source: str, text: str, context: ToolContext) -> ToolFailed:
    """The parser does not tell where a number stands."""
    for number in _NUMBER.finditer(text):
        try:
            _load_finite_json(number[1] or "0", context)
        except ValueError:
            break
    start = number.start(1)
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    shown = shorten_text(number[1], 30)
    return ToolFailed(
        f"{source} is not usable JSON: the number {shown} at line {line}, column {column}",
        hint="JSON has no NaN or Infinity; write null, or the number as a text.",
    )


def _refuse_half_characters(value: Any, text: str, source: str) -> None:
    """A lone half of a surrogate pair can be written in JSON, but there is no text with one."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ToolFailed(
            f"{source} cannot be used: {half} is half of a character", hint="Surrogates come in pairs."
        ) from None
    except RecursionError:
        raise _json_too_deep() from None


def _json_too_deep() -> ToolFailed:
    return ToolFailed(
        f"The JSON is nested more than {_MAX_LEVELS} levels deep",
        hint="Pick a part of it with query, or flatten it.",
    )


def _json_too_large(source: str) -> ToolFailed:
    return ToolFailed(
        f"{source} is larger than {_MAX_BYTES:,} bytes",
        hint="Split it, or pick what you need with file_search.",
    )


# --- Queries: a JSON pointer (`/users/0/name`), or a path with dots and brackets (`users[*].name`) --------

_Found = tuple[tuple[str | int, ...], Any]
"""Where a value stands in the document, and the value."""

_EVERY = None
_PART = re.compile(
    r"\[\s*(?:(?P<index>-?[0-9]{1,18}|\*)|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")\s*\]"
    r"|(?:^|\.)(?P<name>[^.\[\]]+)"
)
_INDEX = re.compile(r"-?[0-9]{1,18}")
_SHOWN_KEYS = 20


def _select_by_query(document: Any, query: str) -> Any:
    """What the query names: one value, or with wildcards the list of all that there are."""
    found: list[_Found] = [((), document)]
    is_many = False
    steps: Iterable[str | None] = _query_steps(query)
    if query.startswith("/"):
        steps = pointer_steps(query)
    for step in steps:
        if step is _EVERY:
            found = [inner for outer in found for inner in _json_children(outer)]
            is_many = True
            continue
        kept: list[_Found] = []
        failure = None
        for outer in found:
            try:
                kept.append(_json_child(outer, step))
            except ToolFailed as failed:  # the items of real arrays are not all alike
                failure = failure or failed
        if failure and not kept:
            raise failure
        found = kept
    return [value for _, value in found] if is_many else found[0][1]


def _query_steps(query: str) -> Iterator[str | None]:
    position = 1 if re.match(r"\$(?=[.\[]|$)", query) else 0
    while position < len(query):
        match = _PART.match(query, position)
        if match is None or match.lastgroup is None:
            rest = shorten_text(query[position:], 20)
            raise ToolFailed(
                f"Syntax error in the query at position {position + 1}, near {rest!r}",
                hint="Write it like users[0].name, users[*].name or users[0]['first name'].",
            )
        yield _EVERY if match[match.lastgroup] == "*" else match[match.lastgroup]
        position = match.end()


def _json_children(outer: _Found) -> list[_Found]:
    path, value = outer
    if not isinstance(value, dict | list):
        reason = f"{_json_place(path)} is {_json_kind(value)}, which contains nothing"
        raise ToolFailed(reason, code="not_found")
    parts: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    return [((*path, key), inner) for key, inner in parts]


def _json_child(outer: _Found, step: str) -> _Found:
    path, value = outer
    if isinstance(value, dict) and step in value:
        return (*path, step), value[step]
    if isinstance(value, dict):
        raise _missing_key(path, value, step)
    place, kind, hint = _json_place(path), _json_kind(value), ""
    count = len(value) if isinstance(value, list) else 0
    if not isinstance(value, list):
        reason = f"{place} is {kind}, so there is no {shorten_text(step)!r} in it"
    elif not _INDEX.fullmatch(step):
        reason = f"{place} is {kind}, so it has no key {shorten_text(step)!r}"
        hint = "Take one item by its index, such as [0], or all of them with [*]."
    elif -count <= int(step) < count:
        return (*path, int(step) % count), value[int(step)]
    else:
        reason = f"{place} has no item {step}: it is {kind}"
        hint = f"The indexes are 0 to {count - 1}." if count else ""
    raise ToolFailed(reason, code="not_found", hint=hint)


def _missing_key(path: tuple[str | int, ...], value: dict[str, Any], step: str) -> ToolFailed:
    keys = ", ".join(shorten_text(key) for key in list(value)[:_SHOWN_KEYS])
    more = f" and {len(value) - _SHOWN_KEYS} more" if len(value) > _SHOWN_KEYS else ""
    present = f"Its keys are {keys}{more}." if keys else "It has no keys."
    hint = f"{did_you_mean(step, value)} {present}".strip()
    return ToolFailed(f"{_json_place(path)} has no key {shorten_text(step)!r}", code="not_found", hint=hint)


def _json_kind(value: Any) -> str:
    described = describe_value(value)
    if described in ("null", "true", "false"):
        return described
    return f"an {described}" if described[0] in "aio" else f"a {described}"


def _json_place(path: tuple[str | int, ...]) -> str:
    return json_pointer(path) or "The document"


__getattr__ = with_tool_specs(__name__)
