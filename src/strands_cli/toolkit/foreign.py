"""Tools of other kinds as Tools: SDK tools, modules, classes and files. Nothing here imports the SDK."""

from collections.abc import AsyncIterator
from inspect import isawaitable, iscoroutinefunction
from types import ModuleType
from typing import Any

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.toolkit.context import InterruptRequested, ToolContext, engine_state_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import tool, tool_from_function
from strands_cli.toolkit.functions import spec_parts
from strands_cli.toolkit.info import ToolInfo, declared_fields


def as_tool(value: Any, spec: dict[str, Any] | None = None, **options: Any) -> Tool:
    """Any callable or object that is a tool somewhere, as a Tool.

    `spec` is the TOOL_SPEC beside it; `options` are fields of Tool that count over its own.
    """
    if isinstance(value, Tool):
        return value.with_fields(**options) if options else value
    if is_sdk_tool(value):
        return tool_from_sdk(value, **options)
    if spec is not None and _is_native(value):
        return tool_from_class(value, spec, **options)
    if spec is not None:
        return tool_from_function(value, spec, **options)
    if callable(value):
        return tool(value).with_fields(**options)
    raise ToolError(
        f"{value!r} is not a tool", code="unavailable", hint="A tool is a function, or has a TOOL_SPEC."
    )


def tool_in(module: ModuleType, info: ToolInfo) -> Tool:
    """The tool that a listing shows of a loaded module.

    What its ToolSpec declares counts over the function's own; what it leaves at its default does not. A file
    that could only be read in part shows defaults where it says more: the loaded tool wins there.
    """
    attribute = getattr(module, info.callable_name)
    spec = getattr(module, "TOOL_SPEC", None)
    if spec is not None:
        spec = {**spec, "name": info.id}
    elif info.input_schema is not None and not info.inferred:
        spec = {"name": info.id, "description": info.description, "inputSchema": info.input_schema}
    fields = declared_fields(info)
    for name in ("description", "input_schema"):
        fields.pop(name, None)  # which the tool brings along
    own = attribute if isinstance(attribute, Tool) else None
    if own and own.output_schema is not None:
        fields.pop("output_schema", None)
    fields |= {"id": info.id, "origin": info.origin, "family": (own and own.family) or info.family}
    return as_tool(attribute, spec, **fields)


def tools_in(module: ModuleType) -> list[Tool]:
    """Every tool of a loaded module: its TOOL_SPEC, else the tools in its `__all__` or public names."""
    spec = getattr(module, "TOOL_SPEC", None)
    if spec is not None:
        name = spec.get("name", "") if isinstance(spec, dict) else ""
        if not hasattr(module, name):
            raise ToolError(
                f"{module.__name__} has a TOOL_SPEC for {name!r} but nothing of that name", code="unavailable"
            )
        return [as_tool(getattr(module, name), spec)]
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    found = [getattr(module, name) for name in names]
    return [as_tool(value) for value in found if isinstance(value, Tool) or is_sdk_tool(value)]


def is_sdk_tool(value: Any) -> bool:
    """Whether a value looks like the SDK's AgentTool; asking its class would import the SDK."""
    return not isinstance(value, type) and all(
        hasattr(value, name) for name in ("tool_spec", "tool_name", "stream")
    )


def tool_from_sdk(sdk: Any, **options: Any) -> Tool:
    """An SDK tool under our contract: its input is checked first, and it is held to a deadline."""
    spec = sdk.tool_spec
    parts = {
        key: spec[key] for key in ("name", "description", "inputSchema", "outputSchema") if spec.get(key)
    }

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        use = {**context.tool_use, "name": sdk.tool_name, "input": arguments}
        return await _last(sdk.stream(use, engine_state_of(context)), context)

    return Tool(
        **(spec_parts(parts) | {"origin": f"{type(sdk).__module__}.{type(sdk).__name__}"} | options),
        invoke=invoke,
        is_async=True,
    )


async def _last(events: AsyncIterator[Any], context: ToolContext) -> Any:
    """The result in a stream of SDK events, or the last thing that an AgentTool of one's own yields."""
    last: Any = None
    async for event in events:
        for interrupt in getattr(event, "interrupts", None) or ():
            raise InterruptRequested(interrupt.name, interrupt.reason, pending=interrupt)
        result = getattr(event, "tool_result", None)
        if result is not None:
            return result
        if isinstance(event, dict) and "tool_stream_event" in event:
            last = event["tool_stream_event"].get("data")
        else:
            last = event
        if not _is_final(last):
            context.progress(last)
    return last


def _is_final(value: Any) -> bool:
    return isinstance(value, dict) and value.get("status") in ("success", "error") and "content" in value


def _is_native(value: Any) -> bool:
    """Whether a value is a class, or an object, in the manner of `strands_cli.tools.base.NativeTool`."""
    return callable(getattr(value, "execute", None)) and callable(getattr(value, "validate_inputs", None))


def tool_from_class(value: Any, spec: dict[str, Any], **options: Any) -> Tool:
    """A class with `validate_inputs` and `execute`, or an object of one, as a Tool."""
    instance = value() if isinstance(value, type) else value

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        fits, reason = instance.validate_inputs(arguments)
        if not fits:
            raise ToolFailed(f"The input does not fit: {reason}", code="input_invalid")
        use = {**context.tool_use, "toolUseId": context.tool_use.get("toolUseId", ""), "input": arguments}
        return instance.execute(use, **context.invocation_state)

    async def invoke_async(arguments: dict[str, Any], context: ToolContext) -> Any:
        value = invoke(arguments, context)
        return await value if isawaitable(value) else value

    is_async = iscoroutinefunction(instance.execute)
    return Tool(
        **(spec_parts(spec) | options), invoke=invoke_async if is_async else invoke, is_async=is_async
    )
