"""From results back to values and failures, for bodies and compositions that call other tools."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strands_cli.documents.problems import JsonPath, pointer
from strands_cli.errors import ToolFailed
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.values import plain_answer

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

_WORDS = {"None": None, "True": True, "False": False}


def value_of_result(result: ToolResult, tool: "Tool | None" = None) -> Any:
    """The JSON or the text of a result, a list where there are several blocks; ToolFailed for an error.

    In a result every scalar is text. Where `tool` is given and has an output schema, the value is what that
    speaks of: text becomes a number, a boolean or null again where one is asked for.
    """
    error = error_of(result)
    if error is not None:
        raise failed_as(error)
    if tool is not None and tool.accepted_output is not None:
        return _typed(plain_answer(result, result), tool.accepted_output)
    values = [_value_of_block(block) for block in result["content"]]
    return values[0] if len(values) == 1 else values or None


def answer_of(result: ToolResult, tool: "Tool") -> Any:
    """What a body returns to answer as another tool did: the same blocks, and scalars as they were."""
    if len(result["content"]) == 1 and "text" in result["content"][0]:
        return value_of_result(result, tool)
    return {**result, "toolUseId": ""}


def value_or_error(result: ToolResult, tool: "Tool") -> Any:
    """The value, or the error as a value, where one failure must not hide the other answers."""
    error = error_of(result)
    return value_of_result(result, tool) if error is None else {"error": error}


def failed_as(error: Mapping[str, Any]) -> ToolFailed:
    """The failure that an error in a result tells of."""
    return ToolFailed(
        str(error.get("message", "")),
        code=str(error["code"]),
        hint=str(error.get("hint", "")),
        details=error.get("details") or (),
    )


def raise_first(results: Mapping[JsonPath, ToolResult]) -> None:
    """Raises the first failure among the results, each of which belongs to a place; its details name all."""
    errors = {pointer(path): error for path, result in results.items() if (error := error_of(result))}
    for place, first in errors.items():
        more = f" ({len(errors) - 1} more failed)" if len(errors) > 1 else ""
        details = [as_detail(error, pointer=at) for at, error in errors.items()]
        raise failed_as({**first, "message": f"{place}: {first['message']}{more}", "details": details})


def raise_at_step(result: ToolResult, index: int, tool_id: str) -> None:
    """Raises the failure of one step of several. Its input is the caller's own in the first step only."""
    error = error_of(result)
    if error is None:
        return
    is_callers = index == 0 or error["code"] not in ("input_malformed", "input_invalid")
    details = [{**detail, "step": index, "tool": tool_id} for detail in error.get("details") or ()]
    message = f"Step {index} ({tool_id}): {error.get('message', '')}"
    code = error["code"] if is_callers else "failed"
    raise failed_as({**error, "code": code, "message": message, "details": details})


def as_detail(error: Mapping[str, Any], **place: str) -> dict[str, Any]:
    """An error as one of the details of another."""
    detail = {"pointer": "", "expected": "success", "got": error["message"], "hint": error.get("hint", "")}
    return {**detail, "code": error["code"], **place}


def _value_of_block(block: dict[str, Any]) -> Any:
    for kind in ("json", "text"):
        if kind in block:
            return block[kind]
    return block  # an image or a document is its own value


def _typed(value: Any, accepted: Validator) -> Any:
    if not isinstance(value, str) or accepted.accepts(value):
        return value
    try:
        scalar = _WORDS[value] if value in _WORDS else json.loads(value)
    except ValueError:
        return value
    return scalar if accepted.accepts(scalar) else value
