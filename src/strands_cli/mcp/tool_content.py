"""Tools and their answers in the words of MCP."""

import json
from base64 import b64encode
from collections.abc import Iterator
from mimetypes import guess_type
from typing import Any
from urllib.parse import quote

from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import ToolFields, bare_schema, instead_of
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.values import value_of_result

ERROR_KEY = "strands-cli/error"
"""Where the `_meta` of a failed call has our error. Not in its structured content: clients hold that against
the output schema even if the call has failed."""

_COMPLETE = {"resultType": "complete"}
"""Wanted since 2026-07-28; taken out again for older clients."""
_TEXT_TYPES = ("text/", "application/json", "application/xml")
_MEDIA_TYPES = {
    "md": "text/markdown",
    "wav": "audio/wav",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Those that the tables of some systems lack, or call otherwise."""


def tool_definition(tool: ToolFields) -> dict[str, Any]:
    """The entry of a tool in `tools/list`."""
    description = tool.description or tool.id
    if tool.deprecated:
        description = f"(Deprecated{instead_of(tool)}.) {description}"
    entry: dict[str, Any] = {
        "name": tool.id,
        "description": description,
        "inputSchema": {"type": "object", **bare_schema(tool.input_schema or {})},
    }
    if tool.output_schema is not None and (schema := object_schema(tool.output_schema)) is not None:
        entry["outputSchema"] = schema
    if tool.annotations:
        entry["annotations"] = dict(tool.annotations)
    return entry


def object_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """An output schema as MCP takes it: of an object, so that any other value becomes `{"result": …}`.

    None if a reference in it would lead elsewhere when the schema is part of another one.
    """
    schema = bare_schema(schema)
    if _is_of_object(schema):
        return {"type": "object", **schema}
    definitions = {name: part for name, part in schema.items() if name in ("$defs", "definitions")}
    if any(not reference.startswith(("#/$defs/", "#/definitions/")) for reference in _references(schema)):
        return None
    inner = {name: part for name, part in schema.items() if name not in (*definitions, "$schema", "$id")}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **definitions}


def _is_of_object(schema: dict[str, Any]) -> bool:
    """Whether a schema says that it is one of an object, itself or in the definition that it names."""
    _, _, name = str(schema.get("$ref", "")).partition("#/$defs/")
    named = schema.get("$defs", {}).get(name) if name else None
    return any(isinstance(part, dict) and part.get("type") == "object" for part in (schema, named))


def _references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from (str(part[name]) for name in ("$ref", "$dynamicRef") if name in part)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def call_answer(result: ToolResult, tool: Tool | None) -> dict[str, Any]:
    """The answer to `tools/call`: its content, the same as data where it is an object, and the error."""
    blocks = result["content"]
    if (error := error_of(result)) is not None:
        shown = [block for block in blocks if block.get("json") != {"error": error}]
        content = [*map(_content_block, shown)] or [{"type": "text", "text": str(error.get("message", ""))}]
        return {**_COMPLETE, "content": content, "isError": True, "_meta": {ERROR_KEY: error}}
    answer: dict[str, Any] = {**_COMPLETE, "content": [*map(_content_block, blocks)], "isError": False}
    if tool is not None and tool.output_schema is not None:
        value = value_of_result(result, tool)
        is_object = _is_of_object(bare_schema(tool.output_schema))
        answer["structuredContent"] = value if is_object else {"result": value}
    elif len(blocks) == 1 and isinstance(blocks[0].get("json"), dict):
        answer["structuredContent"] = blocks[0]["json"]
    return answer


def _content_block(block: dict[str, Any]) -> dict[str, Any]:
    if "text" in block:
        return {"type": "text", "text": block["text"]}
    if "json" in block:
        return {"type": "text", "text": json.dumps(block["json"], ensure_ascii=False)}
    ((kind, part),) = block.items()
    name, form = str(part.get("name") or kind), str(part["format"])
    data = part["source"].get("bytes")
    if not isinstance(data, bytes):  # a place in a store, which the client may know
        return {"type": "text", "text": json.dumps(part, ensure_ascii=False, default=str)}
    media_type = _media_type(kind, form)
    for mcp_kind in ("image", "audio"):
        if media_type.startswith(f"{mcp_kind}/"):
            return {"type": mcp_kind, "data": b64encode(data).decode(), "mimeType": media_type}
    file = name if name.endswith(f".{form}") else f"{name}.{form}"
    resource = {"uri": f"document:///{quote(file)}", "mimeType": media_type}
    return {"type": "resource", "resource": {**resource, **_resource_content(data, media_type)}}


def _media_type(kind: str, form: str) -> str:
    if kind in ("image", "video"):
        return f"{kind}/{form}"
    return _MEDIA_TYPES.get(form) or guess_type(f"file.{form}")[0] or "application/octet-stream"


def _resource_content(data: bytes, media_type: str) -> dict[str, str]:
    if media_type.startswith(_TEXT_TYPES):
        try:
            return {"text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"blob": b64encode(data).decode()}
