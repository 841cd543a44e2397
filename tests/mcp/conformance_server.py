"""The server that the official conformance suite tests: its fixed tools, as tools of ours, over HTTP.

python -m tests.mcp.conformance_server PORT
"""

import asyncio
import base64
import struct
import sys
import time
import zlib
from typing import Any

from strands_cli import ToolContext, ToolFailed, tool
from strands_cli.mcp.http_server import listening_socket, serve_http
from strands_cli.mcp.served_call import Offer
from strands_cli.mcp.server import ToolServer
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import as_tool


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixel = zlib.compress(b"\x00\xff\x00\x00")
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")
IMAGE = {"image": {"format": "png", "source": {"bytes": _png()}}}
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
DEFAULTS_FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
OPTIONS, VALUES = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
TITLED = [{"const": value, "title": f"Option {value[-1]}"} for value in VALUES]
ENUMS_FORM = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
    "required": [],
}
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool
def test_simple_text() -> str:
    """Answers with text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Any:
    """Answers with an image."""
    return {"status": "success", "content": [IMAGE]}


@tool
def test_audio_content() -> Any:
    """Answers with a sound."""
    sound = {"format": "wav", "name": "sound", "source": {"bytes": WAV}}
    return {"status": "success", "content": [{"document": sound}]}


@tool
def test_embedded_resource() -> Any:
    """Answers with a document."""
    text = {"format": "txt", "name": "text", "source": {"bytes": b"This is an embedded resource content."}}
    return {"status": "success", "content": [{"document": text}]}


@tool
def test_multiple_content_types() -> Any:
    """Answers with several kinds of content."""
    data = {"format": "json", "name": "data", "source": {"bytes": b'{"test":"data","value":123}'}}
    return {"status": "success", "content": [{"text": "Several kinds:"}, IMAGE, {"document": data}]}


@tool
def test_error_handling() -> str:
    """Always fails."""
    raise ToolFailed("This tool intentionally returns an error for testing")


@tool
def test_tool_with_progress(context: ToolContext) -> str:
    """Reports its progress."""
    for number in (0, 50, 100):
        context.progress({"progress": number, "total": 100})
        time.sleep(0.05)
    return "done"


def _asking(name: str, question: str, message: str, form: dict[str, Any]) -> Tool:
    @tool(name=name, description="Asks the user with a form.")
    def ask(context: ToolContext) -> str:
        answer = context.interrupt(question, {"message": message, "requestedSchema": form})
        return f"Elicitation completed: action=accept, content={answer}, state-ok"

    return as_tool(ask)


@tool
def test_elicitation(message: str, context: ToolContext) -> str:
    """Asks the user."""
    form = {**NAME_FORM, "properties": {**NAME_FORM["properties"], "email": {"type": "string"}}}  # type: ignore[dict-item]
    return f"User response: {context.interrupt('user', {'message': message, 'requestedSchema': form})}"


@tool
def test_input_required_result_multi_round(context: ToolContext) -> str:
    """Asks two questions, one after the other."""
    first = context.interrupt("step1", {"message": "What is your name?", "requestedSchema": NAME_FORM})
    second = context.interrupt("step2", {"message": "And your colour?", "requestedSchema": NAME_FORM})
    return f"{first} {second}"


def _tools() -> list[Tool]:
    ok = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    hello = "What is your name?"
    schema = tool(
        name="json_schema_2020_12_tool", description="Words of 2020-12.", inputSchema=SCHEMA_2020_12
    )
    region = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    headers = tool(name="test_custom_headers", description="Mirrored in headers.", inputSchema=region)
    plain = [
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_progress,
        test_elicitation,
        test_input_required_result_multi_round,
        schema(lambda **given: given),
        headers(lambda region="": region),
    ]
    asking = [
        _asking("test_elicitation_sep1034_defaults", "defaults", "Check these", DEFAULTS_FORM),
        _asking("test_elicitation_sep1330_enums", "enums", "Choose", ENUMS_FORM),
        _asking("test_input_required_result_elicitation", "user_name", hello, NAME_FORM),
        _asking("test_input_required_result_request_state", "confirm", "Please confirm", ok),
        _asking("test_input_required_result_tampered_state", "confirm", "Please confirm", ok),
        _asking("test_input_required_result_capabilities", "user_name", hello, NAME_FORM),
        _asking("test_streaming_elicitation", "user_name", hello, NAME_FORM),
    ]
    return [*map(as_tool, plain), *asking]


async def serve(port: int) -> None:
    served = {one.id: one for one in _tools()}
    changing: dict[str, Tool] = {}

    @tool
    async def test_trigger_tool_change() -> str:
        """Adds a tool, or takes it away again."""
        if changing.pop("changing", None) is None:
            changing["changing"] = as_tool(
                tool(name="changing", description="Comes and goes.")(lambda: "here")
            )
        await server.replace_offer(offer())
        return "changed"

    served["test_trigger_tool_change"] = as_tool(test_trigger_tool_change)

    def offer() -> Offer:
        tools = {**served, **changing}
        return Offer(tools=tools, load=tools.__getitem__)

    server = ToolServer(
        offer(), version="1.0.0", describe=lambda called, *_: f"Run {called.id}?", warn=lambda text: None
    )
    listening = listening_socket("127.0.0.1", port)
    print(listening.getsockname()[1], flush=True)
    await serve_http(server, listening, host="127.0.0.1")


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
