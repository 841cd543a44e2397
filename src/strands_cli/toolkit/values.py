"""From what a body did to the result that its caller gets, and back for those who call other tools."""

import json
import math
import os
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.files import write_private_file
from strands_cli.documents.problems import Problem, json_pointer, shorten_text
from strands_cli.errors import ToolFailed
from strands_cli.schema.validator import Validator
from strands_cli.settings import answers_directory
from strands_cli.toolkit.context import InterruptRequested, ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of, sendable_text, success_result

# --- the outcome of a body --------------------------------------------------------------------------------
#
# It crosses threads and tasks as a value, never as an exception: a StopIteration would hang the future that
# carries it, a SystemExit would end the loop.

_LONGEST_MESSAGE = 2000


class Raised(msgspec.Struct, frozen=True):
    error: BaseException


def run_body_inline(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """The body's outcome, in this thread."""
    try:
        return tool.invoke(arguments, context)
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome, not ours
        return Raised(error)


async def await_body(awaitable: Awaitable[Any]) -> Any:
    """The outcome of an async body, in this task."""
    try:
        return await awaitable
    except BaseException as error:  # noqa: BLE001 - as in run_body_inline
        return Raised(error)


def value_of_outcome(outcome: Any, tool: Tool) -> Any:
    """The value of an outcome; ToolFailed if the body raised, unless it asks for a human."""
    if not isinstance(outcome, Raised):
        return outcome
    error = outcome.error
    if isinstance(error, ToolFailed | InterruptRequested):
        raise error
    import logging

    # The traceback is for the tool's author, in the log, and never for the model.
    logging.getLogger("strands_cli.tools").info("tool %s crashed", tool.id, exc_info=error)
    raise crash_failure(error) from error


def crash_failure(error: BaseException) -> ToolFailed:
    """What a caller gets of an exception: its type, its text, and where the tool's own code raised it."""
    text = f"Execution failed: {type(error).__name__}: {_exception_text(error)}"
    return ToolFailed(text, code="crashed", details=_crash_place(error))


def _crash_place(error: BaseException) -> list[dict[str, Any]]:
    """Where the tool's own code failed: the last line of the traceback in its file or beside it."""
    import sys
    from traceback import walk_tb

    own, place = None, list[dict[str, Any]]()
    for frame, line in walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_caller = file.parent == _HERE or package == "strands" or package in sys.stdlib_module_names
        if own is None and not is_caller:  # the body's frame is the first below those that called it
            own = file.parent
        if own is not None and file.is_relative_to(own):
            place = [{"file": _shown_path(file), "line": line, "function": frame.f_code.co_name}]
    return place


_HERE = Path(__file__).parent


def _shown_path(file: Path) -> str:
    """Below the current directory without it, as the user would type it."""
    with suppress(OSError, ValueError):
        return str(file.relative_to(Path.cwd()))
    return str(file)


def _exception_text(error: BaseException) -> str:
    try:
        return shorten_text(str(error), _LONGEST_MESSAGE)
    except BaseException:  # noqa: BLE001 - an exception whose own text fails is still a crash to report
        return "(its message cannot be shown)"


# --- from a value to a result -----------------------------------------------------------------------------

_BINARY_KINDS = ("image", "document", "video")
_NUMBERS, _ARRAYS = (int, float), (list, tuple)  # tuples: a union would be made anew for each answer
_BLOCK_KINDS = frozenset({"text", "json", *_BINARY_KINDS})
_IMAGE_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"RIFF", "webp"),
)


def normalise_result(call_id: str, value: object) -> ToolResult:
    """Any value as a result: scalars become text, structures JSON, a ToolResult dict itself."""
    try:
        if isinstance(value, dict) and is_tool_result(value):
            # Under the id of the call: an answer to another one would break a history.
            own_id = call_id or str(value.get("toolUseId", ""))
            content = [made for place in enumerate(value["content"]) for made in _checked_blocks(*place)]
            return {"toolUseId": own_id, "status": value["status"], "content": content}
        return success_result(call_id, [_content_block(value)])
    except ToolFailed:
        raise
    except BaseException as error:  # noqa: BLE001 - a value's own methods run here, and are the tool's code too
        reason = f"{type(error).__name__}: {_exception_text(error)}"
        raise unusable_output(f"its {type(value).__name__} has no text or JSON form: {reason}") from None


def _content_block(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text": sendable_text(value)}
    if isinstance(value, bytes):
        return _image_block(value)
    if value is None or isinstance(value, _NUMBERS):
        _refuse_nan(value, ())
        return {"text": str(value)}
    plain = plain_json(value)
    return {"text": sendable_text(plain)} if isinstance(plain, str) else {"json": plain}


def plain_json(value: object) -> Any:
    """Dataclasses, models, enums, dates and containers of them as JSON; ToolFailed for anything else."""
    try:
        try:
            encoded = msgspec.json.encode(value, enc_hook=_model_as_builtins)
        except OverflowError:  # an integer of more than 64 bits
            plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_model_as_builtins)
            encoded = json.dumps(plain).encode()
        if b"null" in encoded:  # msgspec writes NaN as null, so only here can there be one
            _refuse_nan(msgspec.to_builtins(value, str_keys=True, enc_hook=_model_as_builtins), ())
    except (TypeError, ValueError, RecursionError) as error:
        raise unusable_output(f"the tool returned something that is not JSON: {error}") from None
    return json.loads(encoded)


def plain_answer(value: object, result: ToolResult) -> object:
    """The value that an output schema describes: the plain value, or the single JSON block of a result."""
    blocks = [block["json"] for block in result["content"] if "json" in block]
    if len(blocks) == 1:
        return blocks[0]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return result["content"][0].get("text") if result["content"] else None


def encoded_size(result: ToolResult) -> int:
    """The size of a result's content in bytes, as it goes to a model."""
    return sum(
        len(block["text"].encode() if "text" in block else msgspec.json.encode(block, enc_hook=str))
        for block in result["content"]
    )


def unusable_output(reason: str, problems: list[Problem] | None = None) -> ToolFailed:
    return ToolFailed(
        f"The tool's answer cannot be used: {reason}",
        code="output_invalid",
        hint="This is a bug in the tool, not in the call: other arguments will not help.",
        details=[problem.as_detail() for problem in problems or ()],
    )


def is_tool_result(value: dict[str, Any]) -> bool:
    return value.get("status") in ("success", "error") and isinstance(value.get("content"), list)


def _checked_blocks(index: int, block: object) -> Iterator[dict[str, Any]]:
    """One block for each kind of content in it: providers read only one."""
    known = block.keys() & _BLOCK_KINDS if isinstance(block, dict) else ()
    if not known or not isinstance(block, dict):
        raise unusable_output(f"content block {index} is not text, JSON, an image, a document or a video")
    for kind in (kind for kind in block if kind in known):
        part = block[kind]
        if kind == "text":
            yield {"text": sendable_text(str(part))}
        elif kind == "json":
            yield {"json": plain_json(part)}
        elif kind == "image" and isinstance(part, bytes):
            yield _image_block(part)
        else:
            source = part.get("source") if isinstance(part, dict) else None
            data = source.get("bytes", source.get("location")) if isinstance(source, dict) else None
            if not data or not isinstance(data, bytes | dict) or not isinstance(part.get("format"), str):
                reason = f"the {kind} in content block {index} must have a format, and bytes in its source"
                raise unusable_output(reason)
            yield {kind: part}


def _image_block(data: bytes) -> dict[str, Any]:
    for signature, name in _IMAGE_SIGNATURES:
        if data.startswith(signature):
            return {"image": {"format": name, "source": {"bytes": data}}}
    raise unusable_output("the tool returned bytes that are not a PNG, JPEG, GIF or WebP image")


def _model_as_builtins(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, BaseException | type) or not hasattr(value, "__fspath__"):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return value.__fspath__()


def _refuse_nan(value: object, path: tuple[str | int, ...]) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise unusable_output(f"{json_pointer(path) or 'the value'} is {value}, which JSON does not have")
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_nan(inner, (*path, key))
    elif isinstance(value, _ARRAYS):
        for index, inner in enumerate(value):
            _refuse_nan(inner, (*path, index))


# --- answers that are too long for a model ----------------------------------------------------------------

_MAX_PREVIEWS = 8
_KEPT_SECONDS = 7 * 24 * 3600
_PREVIEW_SHARE = 0.5
"""How much of the limit the preview may take, so that path and size fit beside it."""


def capped_result(tool_id: str, result: ToolResult, limit: int) -> ToolResult:
    """The result itself where it is short enough, else previews that name the files with the whole.

    The limit is for all blocks together; where there are many they become one, with one file. Images and
    documents are not counted: models take them by other measures.
    """
    content = result["content"]
    # The common case without encoding anything: one short text, of at most four bytes a character.
    if not limit or (len(content) == 1 and "text" in content[0] and len(content[0]["text"]) * 4 <= limit):
        return result
    blocks = [block for block in content if not any(kind in block for kind in _BINARY_KINDS)]
    if encoded_size({**result, "content": blocks}) <= limit:
        return result
    if len(blocks) > _MAX_PREVIEWS:
        others = [block for block in content if not block.keys() & {"text", "json"}]
        content, blocks = [_joined_block(blocks), *others], blocks[:1]
    share = limit // len(blocks)
    return {**result, "content": [_preview_block(tool_id, block, share) for block in content]}


def _joined_block(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    if all("text" in block for block in blocks):
        return {"text": "\n".join(block["text"] for block in blocks)}
    return {"json": [block["json"] if "json" in block else block["text"] for block in blocks]}


def _preview_block(tool_id: str, block: dict[str, Any], limit: int) -> dict[str, Any]:
    if "text" in block:
        data, suffix, how = block["text"].encode(), ".txt", "file_read reads it"
    elif "json" in block:
        data, suffix = _encoded_json(block["json"]), ".json"
        how = "parse_json reads it, or part of it with a query"
    else:
        return block
    if len(data) <= limit:
        return block
    path = None
    try:
        path = _write_answer_file(tool_id, data, suffix)
        whole = f"The full answer is in {path}; {how}."
    except OSError as error:
        whole = f"The rest is lost, because it could not be written to a file ({error.strerror})."
    note = f"The answer has {len(data)} bytes. {whole}"
    room = int(limit * _PREVIEW_SHARE)
    if "text" in block:
        return {"text": f"{data[:room].decode(errors='ignore')}\n… {note}"}
    preview = _pruned_json(block["json"], room)
    return {"json": {"truncated": True, "size": len(data), "path": path, "note": note, "preview": preview}}


def _encoded_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_describe_unencodable).encode()


def _describe_unencodable(value: object) -> str:
    return f"({type(value).__name__} of {len(value)} bytes)" if isinstance(value, bytes) else str(value)


def _pruned_json(value: Any, room: int) -> Any:
    """As much of a JSON value as fits into about `room` characters, still valid JSON."""
    if isinstance(value, str):
        data = value.encode()
        return value if len(data) <= room else data[: max(room, 0)].decode(errors="ignore") + "…"
    if isinstance(value, dict):
        return dict(_first_members(value.items(), room))
    if isinstance(value, list):
        return [inner for _, inner in _first_members((("", inner) for inner in value), room)]
    return _describe_unencodable(value) if isinstance(value, bytes) else value


def _first_members(pairs: Iterable[tuple[str, Any]], room: int) -> Iterator[tuple[str, Any]]:
    """The first members of an object or an array, as many as there is room for."""
    for key, inner in pairs:
        room -= len(key) + 6  # quotes, colon, comma and spaces
        if room <= 0:
            return
        shown = _pruned_json(inner, room)
        yield key, shown
        room -= len(_encoded_json(shown))


def _write_answer_file(tool_id: str, data: bytes, suffix: str) -> str:
    """The path of a new file; those of last week make room for it."""
    path = answers_directory() / f"{tool_id}-{os.urandom(16).hex()}{suffix}"
    write_private_file(path, data, keep_seconds=_KEPT_SECONDS)
    return str(path)


# --- from a result back to a value ------------------------------------------------------------------------

_WORDS = {"None": None, "True": True, "False": False}


def value_of_result(result: ToolResult, tool: Tool | None = None) -> Any:
    """The JSON or the text of a result, a list where there are several blocks; ToolFailed for an error.

    In a result every scalar is text. If `tool` has an output schema, the value is the one it describes: text
    becomes a number, a boolean or null again if the schema asks for one.
    """
    error = error_of(result)
    if error is not None:
        raise tool_failed_from_error(error)
    if tool is not None and tool.accepted_output is not None:
        return _typed_scalar(plain_answer(result, result), tool.accepted_output)
    # An image or a document is its own value.
    values = [block.get("json", block.get("text", block)) for block in result["content"]]
    return values[0] if len(values) == 1 else values or None


def tool_failed_from_error(error: Mapping[str, Any]) -> ToolFailed:
    """The failure that an error in a result describes."""
    return ToolFailed(
        str(error.get("message", "")),
        code=str(error["code"]),
        hint=str(error.get("hint", "")),
        details=error.get("details") or (),
    )


def _typed_scalar(value: Any, accepted: Validator) -> Any:
    if not isinstance(value, str) or accepted.accepts(value):
        return value
    try:
        scalar = _WORDS[value] if value in _WORDS else json.loads(value)
    except ValueError:
        return value
    return scalar if accepted.accepts(scalar) else value
