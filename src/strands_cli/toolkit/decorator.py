"""`@tool`: from a function to a Tool that can also be called directly; `as_tool`: from any form of tool."""

import inspect
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import update_wrapper
from types import ModuleType
from typing import Any, Literal, overload

from strands_cli.errors import Issue, ToolError, ToolFailed, did_you_mean
from strands_cli.toolkit.call import finish_result, prepare_arguments
from strands_cli.toolkit.context import CallContext, ToolContext
from strands_cli.toolkit.contract import Invoke, Tool
from strands_cli.toolkit.functions import (
    AgentReadyTool,
    Function,
    context_parameter_name,
    is_method,
    is_native_tool,
    is_sdk_tool,
    is_tool_class,
    keyword_invoke,
    made_tool,
    refuse_signature_mismatch,
    runs_async,
    spec_beside,
    takes_tool_use,
    tool_from_class,
    tool_from_sdk,
    tool_spec_parts,
    tool_use_invoke,
)
from strands_cli.toolkit.info import OPTIONS, Requires, ToolCategory, ToolInfo, declared_fields
from strands_cli.toolkit.results import ToolResult, ToolUse, failure_result, is_tool_use
from strands_cli.toolkit.values import await_body, run_body_inline, value_of_outcome


class FunctionTool(AgentReadyTool, kw_only=True, eq=False):
    """A Tool made from a function: called with a tool use it is the tool, with anything else the function."""

    function: Function
    binding: Callable[[Function], Invoke]
    """How the function, or the method of an object, is invoked."""

    def _take(self, names: Collection[str]) -> None:
        Tool._take(self, names)
        if self.isolate and self.place is None:
            from strands_cli.toolkit.isolation import place_of_function

            self.place = place_of_function(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        use = args[0] if len(args) == 1 else None
        if isinstance(use, dict) and is_tool_use(use):
            return call_directly(self, use, kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool":
        """The tool of one object: `database.query` is a tool that shares the state of `database`."""
        if instance is None:
            return self
        bound = copy(self)
        bound.function = self.function.__get__(instance, owner)
        bound.invoke = self.binding(bound.function)
        return bound


def call_directly(tool: Tool, call: ToolUse, state: Mapping[str, Any]) -> ToolResult:
    """Prepare, body, finish: no deadline and no consent, since the caller is the program itself.

    `state` is what an SDK agent passes along when it gets the tool's module.
    """
    call_id = call.get("toolUseId", "")
    try:
        arguments = prepare_arguments(tool, call)
        context = ToolContext(tool, call, CallContext(invocation_state=state))
        value = value_of_outcome(run_body_inline(tool, arguments, context), tool)
        if tool.is_async:
            from strands_cli.toolkit.execution import run_coroutine_in_thread

            value = value_of_outcome(run_coroutine_in_thread(await_body(value)), tool)
        return finish_result(tool, call_id, value)
    except ToolFailed as failed:
        return failure_result(call_id, failed)


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *,
    spec: dict[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    inputSchema: dict[str, Any] | None = None,  # noqa: N803 - the SDK's spelling
    output_schema: dict[str, Any] | None = None,
    context: bool | str = False,
    version: str = "0.0.0",
    family: str = "",
    category: ToolCategory | str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    max_output: int | None = None,
    blocking: bool = True,
    isolate: Literal["process"] | None = None,
    effects: Mapping[str, list[str]] | str | None = None,
    annotations: Mapping[str, bool] | None = None,
    requires: Requires | None = None,
    requires_consent: bool = False,
    deprecated: bool = False,
    replaced_by: str = "",
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None, /, **options: Any
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Turns a function into a tool.

    Name, description and schemas come from the function. `name`, `description`, `inputSchema` and
    `output_schema` replace single ones, `spec` (a TOOL_SPEC) replaces all of them.
    """
    if function is not None:
        return _decorated_tool(function, {})
    return lambda decorated: _decorated_tool(decorated, options)


def _decorated_tool(function: Function, options: dict[str, Any]) -> FunctionTool:
    options = {name: value for name, value in options.items() if value is not None}
    spec = options.pop("spec", None)
    known = {*OPTIONS, "context"}
    try:
        for name in options:
            if name not in known:
                hint = did_you_mean(name, known) or f"The options are {', '.join(sorted(known))}."
                raise ToolError(f"@tool has no option {name!r}", code="unavailable", hint=hint)
        if spec is not None:
            return tool_from_function(function, spec, **options)
        return _inferred_tool(function, options)
    except ToolError as error:
        raise _error_with_place(function, error) from None
    except Exception as error:
        refused = ToolError(
            f"@tool cannot make a tool of this: {type(error).__name__}: {error}", code="unavailable"
        )
        raise _error_with_place(function, refused) from error


def _error_with_place(function: Function, error: ToolError) -> ToolError:
    """The same error with the file and the line of the culprit."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else ("", 0)
    reason = error.issue.reason if error.issue else error.message
    issue = Issue(reason=reason, remediation=error.hint or "Fix the tool's definition.", file=file, line=line)
    return ToolError(f"{error.message} ({issue.place})", code=error.code, hint=error.hint, issue=issue)


def _inferred_tool(function: Function, options: dict[str, Any]) -> FunctionTool:
    """A tool whose spec is its signature and docstring."""
    from strands_cli.toolkit.signature import read_signature

    name = getattr(function, "__name__", type(function).__name__)
    read = read_signature(function, context=options.pop("context", False))
    own_schema = options.pop("inputSchema", None)
    if own_schema is not None:
        refuse_signature_mismatch(function, own_schema, read.context_parameter)
    parts = {
        "id": options.pop("name", name),
        "description": options.pop("description", read.description or name),
        "input_schema": own_schema or read.input_schema,
        "output_schema": read.output_schema,
        "check": None if own_schema else read.check,
    }
    names = (read.context_parameter, read.convert, read.agent_parameter)
    return _make_function_tool(function, parts | options, lambda bound: keyword_invoke(bound, *names))


def tool_from_function(function: Function, spec: dict[str, Any], **options: Any) -> FunctionTool:
    """A function and its TOOL_SPEC as a Tool."""
    if not callable(function):
        raise ToolError(
            f"{spec.get('name')} is {type(function).__name__}, not a function", code="unavailable"
        )
    context_option = options.pop("context", False)
    parts = tool_spec_parts(spec) | options
    if takes_tool_use(function, spec["inputSchema"]):
        return _make_function_tool(function, parts, tool_use_invoke)
    context = context_parameter_name(function, context_option)
    refuse_signature_mismatch(function, spec["inputSchema"], context)
    return _make_function_tool(function, parts, lambda bound: keyword_invoke(bound, context))


def _make_function_tool(
    function: Function, parts: dict[str, Any], binding: Callable[[Function], Invoke]
) -> FunctionTool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    function_tool = FunctionTool(
        **{"origin": code.co_filename if code else "", **parts},
        function=function,
        binding=binding,
        invoke=_refuse_unbound_method if is_method(function) else binding(function),
        is_async=runs_async(function),
    )
    update_wrapper(function_tool, function)
    return function_tool


def _refuse_unbound_method(_arguments: dict[str, Any], _context: ToolContext) -> Any:
    raise ToolFailed(
        "The tool is a method: it can be called on an object of its class only", code="unavailable"
    )


# --- every form of tool -----------------------------------------------------------------------------------


def as_tool(value: Any, spec: dict[str, Any] | None = None, **options: Any) -> Tool:
    """Converts a callable, or any object that is a tool, to a Tool.

    `spec` is its TOOL_SPEC; `options` are fields of Tool that override its own.
    """
    if isinstance(value, Tool):
        return value.with_fields(**options) if options else value
    value = made_tool(value)
    if is_sdk_tool(value):
        return tool_from_sdk(value, **options)
    if is_native_tool(value):
        return tool_from_class(value, spec or spec_beside(value), **options)
    if spec is not None:
        return tool_from_function(value, spec, **options)
    if callable(value):
        return tool(value).with_fields(**options)
    raise ToolError(
        f"{value!r} is not a tool", code="unavailable", hint="A tool is a function, or has a TOOL_SPEC."
    )


def tool_in(module: ModuleType, info: ToolInfo) -> Tool:
    """The tool that a listing shows of a loaded module.

    What its ToolSpec declares wins over the function's own; what it leaves at its default does not. A file
    that could only be read in part shows defaults where it says more: the loaded tool wins there.
    """
    attribute = getattr(module, info.callable_name)
    spec = getattr(module, "TOOL_SPEC", None)
    if spec is not None:
        spec = {**spec, "name": info.id}
    elif info.input_schema is not None and not info.inferred:
        spec = {"name": info.id, "description": info.description, "inputSchema": info.input_schema}
    elif inspect.isfunction(attribute) and takes_tool_use(attribute, None):
        spec = {"name": info.id, "description": info.description, "inputSchema": {"type": "object"}}
    fields = declared_fields(info)
    for name in ("description", "input_schema"):
        fields.pop(name, None)  # which the tool brings along
    own = attribute if isinstance(attribute, Tool) else None
    if own and own.output_schema is not None:
        fields.pop("output_schema", None)
    fields |= {"id": info.id, "origin": info.origin, "family": (own and own.family) or info.family}
    return as_tool(attribute, spec, **fields)


def tools_in(module: ModuleType) -> list[Tool]:
    """Returns the tools of a loaded module: its TOOL_SPEC, or the tools in its `__all__` or public names.

    A class of tools is included if `__all__` lists it.
    """
    spec, exported = getattr(module, "TOOL_SPEC", None), getattr(module, "__all__", None)
    found = [getattr(module, name) for name in exported or vars(module) if exported or name[0] != "_"]
    classes = [value for value in found if exported and is_tool_class(value)]
    if spec is not None:
        name = spec.get("name", "") if isinstance(spec, dict) else ""
        values = [getattr(module, name)] if hasattr(module, name) else classes[:1]
        if not values:
            raise ToolError(
                f"{module.__name__} has a TOOL_SPEC for {name!r} but nothing of that name", code="unavailable"
            )
        return [as_tool(values[0], spec)]
    tools = [value for value in found if isinstance(value, Tool) or is_sdk_tool(value) or _is_object(value)]
    if not tools and not classes:
        hint = "It needs a function with @tool, a TOOL_SPEC, an AgentTool, or a class of tools in __all__."
        raise ToolError(f"The module {module.__name__} has no tool", code="unavailable", hint=hint)
    return [as_tool(value) for value in (*tools, *classes)]


def _is_object(value: Any) -> bool:
    return is_native_tool(value) and not isinstance(value, type)
