"""Tool results: their blocks, the one error shape, and the table of error codes."""

from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard

import msgspec

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import EXIT_INTERRUPTED, ToolFailed
from strands_cli.secrets import URL_CREDENTIALS, without_credentials


class ToolUse(TypedDict):
    """A request to call a tool. `input` is an object, or the text that a model sent."""

    toolUseId: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[Any]


def is_tool_use(value: dict[str, Any]) -> TypeGuard[ToolUse]:
    """Whether a dictionary is a tool use; otherwise it holds the arguments themselves."""
    return "toolUseId" in value or ("input" in value and value.keys() <= {"name", "input"})


class ToolResult(TypedDict):
    toolUseId: str
    status: Literal["success", "error"]
    content: list[dict[str, Any]]


class Code(msgspec.Struct, frozen=True):
    """One row of the table: what a code means, and what follows from it."""

    name: str
    meaning: str
    acts: str
    """Who must do something about it: the model, the user, the tool's author, or nobody."""
    retryable: bool = False
    """Whether the same call may succeed when it is made again."""
    exit_code: int = 10
    """What `strands tool call` exits with."""


_ROWS = (
    Code("input_malformed", "The input is not a JSON object; the tool did not run.", "model", exit_code=2),
    Code(
        "input_invalid",
        "The input does not match the tool's schema; the tool did not run.",
        "model",
        exit_code=2,
    ),
    Code("unknown_tool", "No tool has this name.", "model", exit_code=2),
    Code("unavailable", "The tool needs something that is missing on this machine.", "user", exit_code=18),
    Code("denied", "The user or a rule of the run refused the call.", "user"),
    Code(
        "consent_required",
        "The tool needs consent, and nobody could be asked.",
        "user",
        exit_code=19,
    ),
    Code("timeout", "The tool did not answer within its time limit.", "author", retryable=True),
    Code(
        "overloaded",
        "No worker thread was free in time, or abandoned calls hold too many; the tool did not run.",
        "nobody",
        retryable=True,
    ),
    Code(
        "busy",
        "A call that was given up still runs and touches the same things; the tool did not run.",
        "nobody",
        retryable=True,
    ),
    Code("cancelled", "The call was cancelled.", "nobody", retryable=True, exit_code=EXIT_INTERRUPTED),
    Code(
        "blocked", "The call depends on one that waits for a human; it did not run.", "nobody", retryable=True
    ),
    Code("crashed", "The tool raised an unexpected exception.", "author"),
    Code("output_invalid", "The tool's answer does not match its output schema.", "author"),
    Code("failed", "The tool ran and reported a failure.", "model"),
    Code("not_found", "Something that the call names was not found.", "model"),
    Code("forbidden", "The call tried to access something that the tool must not access.", "model"),
    Code("conflict", "Something that the call would create already exists.", "model"),
    Code("network", "A server could not be reached, or the connection was lost.", "nobody", retryable=True),
)

CODES = {row.name: row for row in _ROWS}


def error_code_row(code: str) -> Code:
    """The row of a code; any other code of a tool is treated as `failed`."""
    return CODES.get(code) or CODES["failed"]


def success_result(call_id: str, content: list[dict[str, Any]]) -> ToolResult:
    return {"toolUseId": call_id, "status": "success", "content": content}


_LONGEST_MESSAGE = 4000
_MAX_DETAILS = 50
_MAX_DETAIL_BYTES = 16_000
"""For all details of an error together."""


def failure_result(call_id: str, failed: ToolFailed) -> ToolResult:
    """The one error shape: text for a reader, then JSON for a program."""
    message = _shortened_message(without_credentials(failed.message or str(failed)))
    details = list(failed.details)
    told = list(_plain_details(details))
    error = {
        "code": failed.code,
        "message": message,
        "retryable": error_code_row(failed.code).retryable,
        "details": told,
    }
    if len(told) < len(details):
        error["details_omitted"] = len(details) - len(told)
    if failed.hint:
        error["hint"] = _shortened_message(without_credentials(failed.hint))
    text = f"{message}\n{error['hint']}" if failed.hint else message
    return {"toolUseId": call_id, "status": "error", "content": [{"text": text}, {"json": {"error": error}}]}


def _shortened_message(text: str) -> str:
    """An error is read by a model too: it must not fill its context."""
    return sendable_text(shorten_text(text, _LONGEST_MESSAGE))


def _plain_details(details: list[Any]) -> Iterator[Any]:
    """The first details as JSON, as many as there is room for; what has no JSON form, or is long, is text."""
    room = _MAX_DETAIL_BYTES
    for detail in details[:_MAX_DETAILS]:
        try:
            encoded = msgspec.json.encode(detail, enc_hook=str)
        except (TypeError, ValueError, RecursionError, OverflowError):
            encoded = _detail_text(repr(detail))
        if len(encoded) > _LONGEST_MESSAGE:
            encoded = _detail_text(encoded.decode())
        room -= len(encoded)
        if room < 0:
            return
        yield URL_CREDENTIALS.value(msgspec.json.decode(encoded))


def _detail_text(text: str) -> bytes:
    return msgspec.json.encode({"detail": _shortened_message(text)})


def sendable_text(text: str) -> str:
    """Text that can be sent: half of a surrogate pair has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def with_error_code(result: ToolResult) -> ToolResult:
    """The result; a failure that a tool returned without a code gets the one error shape."""
    error = error_of(result)
    if error is None or any(block.get("json") == {"error": error} for block in result["content"]):
        return result
    message = _shortened_message(error["message"] or "The tool failed and gave no reason")
    content = result["content"] or [{"text": message}]
    return {**result, "content": [*content, {"json": {"error": {**error, "message": message}}}]}


def error_of(result: ToolResult) -> dict[str, Any] | None:
    """Returns the error of a result, or None for a success. An error that a tool returned itself has the code
    `failed`."""
    if result["status"] != "error":
        return None
    for block in result["content"]:
        error = block.get("json", {}).get("error") if isinstance(block.get("json"), dict) else None
        if isinstance(error, dict) and "code" in error:
            return error
    text = "\n".join(str(block["text"]) for block in result["content"] if "text" in block)
    return {"code": "failed", "message": text, "retryable": False, "details": []}
