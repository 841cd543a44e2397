"""A tool of a server as a Tool: its calls, and what their results become."""

import base64
import binascii
from typing import Any

import msgspec

from strands_cli.documents.reader import is_nested_deeper
from strands_cli.errors import ToolError, ToolFailed
from strands_cli.mcp.tool_content import ERROR_KEY
from strands_cli.settings import Settings
from strands_cli.toolkit.context import ToolContext, call_context_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import DEFAULTS, ToolInfo
from strands_cli.toolkit.results import CODES, failure_result
from strands_cli.toolkit.values import plain_json
from strands_cli.types.servers import DeclaredServer

_DEEPEST = 200
_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}


def server_tool(declared: DeclaredServer, info: ToolInfo, settings: Settings) -> Tool:
    """The tool that a listing showed. Its server is started in the first call."""
    if not declared.trusted:
        raise ToolError(declared.distrust, code="unavailable", hint=declared.trust_hint)

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        from strands_cli.mcp.connection import connections_of_loop

        outer = call_context_of(context)
        roots = outer.workspace.roots if outer.workspace else (outer.settings or settings).workspace
        scoped = msgspec.structs.replace(settings, workspace=roots)
        raw = await connections_of_loop().call(
            declared, scoped, info.callable_name, arguments, context, is_repeatable=tool.is_repeatable
        )
        return result_of(raw, tool)

    fields = {name: getattr(info, name) for name in DEFAULTS if name != "input_schema"}
    tool = Tool(
        **fields,
        id=info.id,
        input_schema=info.input_schema or {"type": "object"},
        invoke=invoke,
        is_async=True,
        origin=info.origin,
    )
    return tool


def learn_tools(declared: DeclaredServer, settings: Settings) -> None:
    """The first start of a server: its tools are recorded, so that a workflow can be checked, and it ends.

    ToolError where it cannot be used.
    """
    from strands_cli.mcp.connection import ServerConnection, ServerDied
    from strands_cli.toolkit.execution import run_coroutine_in_thread

    async def look() -> None:
        connection = ServerConnection(declared, settings)
        try:
            await connection.accepted_listing()
        finally:
            await connection.aclose()

    try:
        run_coroutine_in_thread(look())
    except (ToolFailed, ServerDied) as error:
        raise ToolError(error.message, code=error.code, hint=error.hint) from None


def result_of(raw: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """A result as MCP has it, as one of ours. What does not fit gets a code; its text is kept."""
    if is_nested_deeper(raw, _DEEPEST):
        raise ToolFailed(f"The answer is nested more than {_DEEPEST} levels deep", code="output_invalid")
    problems: list[str] = []
    content: list[dict[str, Any]] = []
    given = raw.get("content")
    for block in given if isinstance(given, list) else []:
        made, problem = _block(block)
        content.append(made)
        problems += [problem] if problem else []
    if given is not None and not isinstance(given, list):
        problems.append("its content is not a list")
        content.append({"text": given if isinstance(given, str) else _json_text(given)})
    if raw.get("isError") is True:
        return _failed(raw, content)
    structured = raw.get("structuredContent")
    if structured is not None and not _is_plain(structured):
        problems.append("its structured content has numbers that JSON does not have")
    elif structured is not None:
        content = [{"json": structured}, *(one for one in content if not _repeats(one, structured))]
    if not problems:
        problems += _schema_problems(structured, tool)
    if problems:
        message = f"The answer of {tool.id} cannot be used: {'; '.join(problems)}"
        return _error_result(content, ToolFailed(message, code="output_invalid"))
    return {"status": "success", "content": content or [{"text": ""}]}


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_plain(value: object) -> bool:
    """Whether a value can be written as JSON: NaN cannot."""
    try:
        plain_json(value)
    except ToolFailed:
        return False
    return True


def _schema_problems(structured: object, tool: Tool) -> list[str]:
    accepted = tool.accepted_output
    if accepted is None:
        return []
    if structured is None:
        return ["it declares an output schema but returned no structured content"]
    if accepted.accepts(structured):
        return []
    return [problem.sentence for problem in accepted.problems(structured, 5)]


def _failed(raw: dict[str, Any], content: list[dict[str, Any]]) -> dict[str, Any]:
    """A failure that the server reports; one of our own servers says which."""
    meta = raw.get("_meta")
    error = meta.get(ERROR_KEY) if isinstance(meta, dict) else None
    structured = raw.get("structuredContent")
    if structured is not None and not any("text" in block for block in content):
        content = [*content, {"json": structured}]  # nothing else says why
    if not isinstance(error, dict) or not isinstance(message := error.get("message"), str):
        return {"status": "error", "content": [*map(_as_text, content)]}
    code, hint, details = error.get("code"), error.get("hint"), error.get("details")
    if not isinstance(code, str) or code not in CODES or code == "cancelled":  # which only the caller can do
        code = "failed"
    failed = ToolFailed(
        message,
        code=code,
        hint=hint if isinstance(hint, str) else "",
        details=details if isinstance(details, list) else [],
    )
    return _error_result(content, failed)


def _error_result(content: list[dict[str, Any]], failed: ToolFailed) -> dict[str, Any]:
    shape = failure_result("", failed)["content"][-1]
    return {"status": "error", "content": [*map(_as_text, content), shape]}


def _as_text(block: dict[str, Any]) -> dict[str, Any]:
    """Data of a server in a failure, as text: it must not pass for the error itself."""
    return {"text": _json_text(block["json"])} if "json" in block else block


def _repeats(block: dict[str, Any], structured: object) -> bool:
    """Whether a text is the structured content once more, for clients that know only text."""
    alone = structured
    if isinstance(structured, dict) and len(structured) == 1:
        (alone,) = structured.values()
    try:
        return "text" in block and (
            block["text"] == alone or msgspec.json.decode(block["text"]) in (structured, alone)
        )
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False


def _block(block: object) -> tuple[dict[str, Any], str]:
    """A block of content, and what is wrong with it."""
    kind = block.get("type") if isinstance(block, dict) else None
    if isinstance(block, dict) and kind == "text" and isinstance(block.get("text"), str):
        return {"text": block["text"]}, ""
    if isinstance(block, dict) and kind in ("image", "audio"):
        return _binary(block.get("data"), str(block.get("mimeType") or kind), str(kind))
    if isinstance(block, dict) and kind == "resource" and isinstance(block.get("resource"), dict):
        inner = block["resource"]
        if isinstance(inner.get("text"), str):
            return {"text": inner["text"]}, ""
        return _binary(inner.get("blob"), str(inner.get("mimeType") or "file"), str(inner.get("uri")))
    if isinstance(block, dict) and kind == "resource_link":
        words = (block.get("title") or block.get("name"), block.get("uri"), block.get("description"))
        return {"text": " ".join(str(word) for word in words if word)}, ""
    shown = {"json": block} if _is_plain(block) else {"text": _json_text(block)}
    return shown, f"it has content of an unknown type: {kind!r}"


def _binary(data: object, kind: str, name: str) -> tuple[dict[str, Any], str]:
    """An image as a model takes it; of anything else, that it is there."""
    try:
        decoded = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return {"text": f"[{name}: {kind}]"}, f"its {name} is not valid base64"
    if decoded and kind in _IMAGES:
        return {"image": {"format": _IMAGES[kind], "source": {"bytes": decoded}}}, ""
    return {"text": f"[{name}: {kind}, {len(decoded):,} bytes]"}, ""
