"""Parse JSON and pick a value out of it."""

from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool

TOOL_SPEC = {
    "name": "parse_json",
    "description": (
        "Parse JSON, given as text or as the path of a file, and return it, or the part that a query names. "
        "What is wrong with invalid JSON is told with line and column."
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
    family="data_tools",
    category="data",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def parse_json(
    text: str | None = None, path: str | None = None, query: str = "", *, context: ToolContext
) -> Any:
    from strands_cli.tools.data_tools._documents import file_text, parse, refuse_deep
    from strands_cli.tools.data_tools._queries import select

    if (text is None) == (path is None):
        raise ToolFailed(
            f"Give text or path: {'neither was' if path is None else 'both were'} given",
            code="input_invalid",
            hint="text is the JSON itself, path the name of a file that holds it.",
        )
    source = "The text" if path is None else path
    document = parse(text if text is not None else file_text(context.workspace, source), source)
    value = select(document, query)
    refuse_deep(value)
    return _as_answer(value)


def _as_answer(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() >= {"status", "content"}:
        # A document of this form would be taken for a tool's result, which it is to be the content of.
        return {"status": "success", "content": [{"json": value}]}
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return value
