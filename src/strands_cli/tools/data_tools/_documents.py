"""JSON documents: from a text or a file to a value, strictly, and with the place of what is wrong."""

import json
import math
import os
import re
import sys
from typing import Any, NoReturn

from strands_cli.documents.problems import shorten
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.workspace import Workspace, refusal

MOST_BYTES = 50_000_000
MOST_LEVELS = 200
"""Of nesting; what is deeper cannot be passed on by everything that reads a result."""

# Strings are matched so that what looks like a number in them is passed over.
_NUMBER = re.compile(r'"(?:[^"\\]++|\\.)*+"|(NaN|-?Infinity|-?[0-9][0-9.eE+-]*)', re.DOTALL)
_FORM = "JSON has double quotes around names and texts, no comma before a closing bracket, and no comments."


def file_text(workspace: Workspace, path: str) -> str:
    with workspace.open(path) as stream:
        if os.fstat(stream.fileno()).st_size > MOST_BYTES:
            raise _too_large(path)
        try:
            data = stream.read(MOST_BYTES)
        except OSError as error:
            raise refusal(error, path, "read") from None
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{path} is not JSON: its byte {error.start + 1} is not {error.encoding} text",
            hint="JSON files are encoded as UTF-8.",
        ) from None


def parse(text: str, source: str) -> Any:
    """The value of a JSON text; ToolFailed with line and column where it is none."""
    if len(text) > MOST_BYTES:
        raise _too_large(source)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ToolFailed(f"{source} is empty, which is not JSON", hint="The shortest JSON is {} or null.")
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _malformed(source, error) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise _unusable_number(source, text) from None
    _refuse_half_characters(value, text, source)
    return value


def _malformed(source: str, error: json.JSONDecodeError) -> ToolFailed:
    near = shorten(error.doc[error.pos : error.pos + 30].split("\n")[0])
    place = f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
    hint = _FORM
    if error.msg == "Extra data":
        hint = "It holds more than one value; separate values belong in an array, or in calls of their own."
    return ToolFailed(f"{source} is not JSON: {place}{f', near {near!r}' if near else ''}", hint=hint)


def _refuse_number(token: str) -> NoReturn:
    raise ValueError(token)


def _finite(token: str) -> float:
    number = float(token)
    if not math.isfinite(number):
        _refuse_number(token)
    return number


def _unusable_number(source: str, text: str) -> ToolFailed:
    """NaN, Infinity, and numbers beyond what Python holds; the parser does not tell where they stand."""
    number = next(match for match in _NUMBER.finditer(text) if match[1] and _is_unusable(match[1]))
    start = number.start(1)
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    return ToolFailed(
        f"{source} is not usable JSON: the number {shorten(number[1], 30)} at line {line}, column {column}",
        hint="JSON has no NaN or Infinity; write null, or the number as a text.",
    )


def _is_unusable(token: str) -> bool:
    if token.lstrip("-").isdigit():
        return len(token.lstrip("-")) > sys.get_int_max_str_digits() > 0
    return not math.isfinite(float(token))


def _refuse_half_characters(value: Any, text: str, source: str) -> None:
    """A lone half of a surrogate pair can be written in JSON, but there is no text with one."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ToolFailed(
            f"{source} cannot be used: {half} is half of a character", hint="Such halves come in pairs."
        ) from None
    except RecursionError:
        raise _too_deep() from None


def refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return
        level = [
            inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)
        ]
    raise _too_deep()


def _too_deep() -> ToolFailed:
    return ToolFailed(
        f"The JSON is nested more than {MOST_LEVELS} levels deep",
        hint="Pick a part of it with query, or flatten it.",
    )


def _too_large(source: str) -> ToolFailed:
    return ToolFailed(
        f"{source} is larger than {MOST_BYTES:,} bytes",
        hint="Split it, or pick what you need with file_search.",
    )
