"""Questions of servers to the user: the fields of a form, one by one, with answers as their schema wants."""

from collections.abc import Callable
from typing import Any

import mcp_types as types

from strands_cli.errors import ToolFailed

Ask = Callable[[str, str], Any]
"""Asks a human: a name for the question, and its text. ToolFailed where nobody can be asked."""

_MAX_TRIES = 3
_YES = frozenset({"yes", "y", "true", "1", "ok"})
_NO = frozenset({"no", "n", "false", "0"})
_MAX_FIELDS = 50


def answer_question(server: str, params: types.ElicitRequestParams, ask: Ask) -> types.ElicitResult:
    """The user's answer to a form or to an address that the server wants to be opened."""
    if isinstance(params, types.ElicitRequestURLParams):
        text = f"{server} asks you to open {params.url}: {params.message}\nAnswer yes when you are done."
        return types.ElicitResult(action="accept" if _word(ask(server, text)) in _YES else "decline")
    schema = params.requested_schema
    fields = schema.get("properties") or {}
    if len(fields) > _MAX_FIELDS:
        raise ToolFailed(f"{server} asks for {len(fields)} values at once; the maximum is {_MAX_FIELDS}")
    if not fields:
        agreed = _word(ask(server, f"{server} asks: {params.message} (yes or no)")) in _YES
        return types.ElicitResult(action="accept", content={}) if agreed else _declined()
    content: dict[str, Any] = {}
    for name, field in fields.items():
        is_needed = name in (schema.get("required") or ())
        try:
            value = _ask_field(server, params.message, name, field, is_needed=is_needed, ask=ask)
        except _NoAnswer:
            return _declined()
        if value is not None:
            content[name] = value
    return types.ElicitResult(action="accept", content=content)


def _declined() -> types.ElicitResult:
    return types.ElicitResult(action="decline")


class _NoAnswer(Exception):
    """A value that is needed was not given."""


def _word(answer: object) -> str:
    return str(answer).strip().lower()


def _ask_field(
    server: str, message: str, name: str, field: dict[str, Any], *, is_needed: bool, ask: Ask
) -> Any:
    title = field.get("title") or name
    about = ". ".join(filter(None, (field.get("description"), _choices_text(field))))
    default = field.get("default")
    extra = f" [{default}]" if default is not None else "" if is_needed else " (may be empty)"
    text = f"{server} asks: {message}\n{title}{f': {about}' if about else ''}{extra}"
    for _ in range(_MAX_TRIES):
        answer = ask(name, text)
        if not str(answer).strip():
            if default is not None or not is_needed:
                return default
            continue
        try:
            return field_value(answer, field)
        except ValueError as error:
            text = f"{error}\n{text}"
    raise _NoAnswer


def _choices_text(field: dict[str, Any]) -> str:
    if field.get("type") == "boolean":
        return "yes or no"
    choices = _choices(field if field.get("type") != "array" else field.get("items") or {})
    return f"one of {', '.join(choices)}" if choices else ""


def _choices(field: dict[str, Any]) -> list[str]:
    titled = [one["const"] for one in field.get("oneOf") or field.get("anyOf") or () if "const" in one]
    return [str(choice) for choice in field.get("enum") or titled]


def field_value(answer: object, field: dict[str, Any]) -> Any:
    """An answer as its field wants it; ValueError says what is wrong."""
    text, kind = str(answer).strip(), field.get("type")
    if kind == "boolean":
        if text.lower() not in _YES | _NO:
            raise ValueError(f"{text!r} is neither yes nor no.")
        return text.lower() in _YES
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number.") from None
    if kind == "array":
        inner = field.get("items") or {}
        return [field_value(part, inner) for part in text.split(",") if part.strip()]
    choices = _choices(field)
    if choices and text not in choices:
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}.")
    return text
