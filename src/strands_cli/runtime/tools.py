"""Tools for an agent: from the references in a spec, and from whatever a program holds."""

import os
from collections.abc import Iterable, Iterator, MutableMapping
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from strands.agent import AgentBase
from strands.tools import ToolProvider
from strands.types.tools import AgentTool

from strands_cli.errors import ToolError
from strands_cli.toolkit.bridge import ToolBridge, bridge_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import as_tool, tools_in
from strands_cli.toolkit.functions import tool_from_sdk
from strands_cli.tools import get_registry
from strands_cli.tools.registry import NOT_ALLOWED

_SUBAGENT = "agent"
"""The SDK's `tool_type` of an agent that is used as a tool: it takes as long as it takes."""


def load_python_callable(reference: str) -> Tool:
    """Loads the tool for any form of reference. The tool is also the callable that the reference names.

    A file is relative to the current directory.
    """
    registry = get_registry()
    info = None
    try:
        info = registry.require(reference)
        return registry.load(info)
    except ToolError as error:
        message, hint = error.message, error.hint
        if info is not None:
            message = message.replace(f"'{info.id}'", f"'{reference}'", 1)
        elif error.code == "unknown_tool":
            names = sorted({info.id for info in registry.list_all()})
            message, hint = NOT_ALLOWED.format(reference), f"{hint} Allowed: {', '.join(names)}."
        raise ToolError(message, code=error.code, hint=hint, issue=error.issue) from error


def agent_tools(tools: Any) -> list[Any]:
    """Returns tools for an Agent from references, functions, tools, modules of tools and the SDK's own tools.

    `tools` is one of these or several. All of them follow the contract. Objects that only the SDK knows, such
    as agents and tool providers, stay unchanged. This also redacts the SDK's spans, because tools are created
    before their agent.
    """
    redact_sdk_spans()
    is_one = isinstance(tools, str) or not isinstance(tools, Iterable)
    return [made for value in ([tools] if is_one else tools) for made in _for_agent(value)]


def _for_agent(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield bridge_of(load_python_callable(value))
    elif isinstance(value, Tool):
        yield bridge_of(value)
    elif isinstance(value, ModuleType):
        yield from (bridge_of(tool) for tool in tools_in(value))
    elif isinstance(value, AgentTool) and not isinstance(value, ToolBridge) and value.tool_type != _SUBAGENT:
        yield bridge_of(tool_from_sdk(value))
    elif isinstance(value, list | tuple | set):
        yield from (made for inner in value for made in _for_agent(inner))
    elif isinstance(value, FunctionType | MethodType | partial):
        yield bridge_of(as_tool(value))
    elif isinstance(value, AgentTool | AgentBase | ToolProvider | Iterable):
        yield value
    else:
        raise ToolError(
            f"{value!r} is not a tool",
            code="unknown_tool",
            hint="Give a reference, a function, a tool, a module with tools, an agent or a tool provider.",
        )


_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
_TOKEN = "gen_ai_unredacted_attributes="


def redact_sdk_spans(environment: MutableMapping[str, str] = os.environ) -> None:
    """Has the SDK write `[REDACTED]` for what people and models say, unless the user chose what may be shown.

    The SDK reads the variable once, when the process makes its first Agent: call this before.
    """
    tokens = [token for token in environment.get(_VARIABLE, "").split(",") if token.strip()]
    if not any(token.strip().startswith(_TOKEN) for token in tokens):
        environment[_VARIABLE] = ",".join([*tokens, _TOKEN])
