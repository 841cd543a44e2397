"""From a function and its spec to something that can be invoked. What does not fit is refused here."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from strands_cli.errors import ToolError
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.contract import Invoke
from strands_cli.toolkit.info import bare_schema, name_problem
from strands_cli.toolkit.outcome import drain, drain_async

Function = Callable[..., Any]
Convert = Callable[[dict[str, Any]], dict[str, Any]]

SPEC_KEYS = ("name", "description", "inputSchema", "outputSchema")
_CONTEXT = re.compile(r"\bToolContext\b")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def spec_parts(spec: object) -> dict[str, Any]:
    """The parts of a TOOL_SPEC as Tool takes them; ToolError names what is missing or unknown."""
    problem = spec_problem(spec)
    if problem or not isinstance(spec, dict):
        raise ToolError(f"TOOL_SPEC is refused: {problem}", code="unavailable")
    parts = {
        "id": spec["name"],
        "description": spec.get("description", ""),
        "input_schema": spec["inputSchema"],
    }
    return parts | ({"output_schema": spec["outputSchema"]} if spec.get("outputSchema") else {})


def spec_problem(spec: object) -> str:
    """Why a TOOL_SPEC is refused, or nothing."""
    if not isinstance(spec, dict):
        return "it is not a dictionary"
    if name_problem(spec.get("name")):
        return name_problem(spec.get("name"))
    if not isinstance(spec.get("inputSchema"), dict):
        return "it has no inputSchema"
    if not isinstance(spec.get("description", ""), str):
        return "its description is not a string"
    unknown = [key for key in spec if key not in SPEC_KEYS]
    return f"it has the unknown key {unknown[0]!r}; the keys are {', '.join(SPEC_KEYS)}" if unknown else ""


def is_method(function: Function) -> bool:
    """Whether a function is written as a method, and so is a tool only once it is bound to an object."""
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls") and not inspect.ismethod(function)


def is_context(parameter: inspect.Parameter) -> bool:
    """Whether the platform fills this parameter; its annotation may be a string, and may allow None too."""
    annotation = parameter.annotation
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _CONTEXT.search(written) is not None


def takes_tool_use(function: Function, schema: dict[str, Any]) -> bool:
    """Whether a function beside a spec is called as SDK modules are: `f(tool, **kwargs)`."""
    parameters = _parameters(function)
    first = parameters[0] if parameters else None
    if first is None or first.kind not in _POSITIONAL or is_context(first):
        return False
    if first.name in bare_schema(schema).get("properties", {}):
        return False
    others = [item for item in parameters[1:] if item.default is item.empty and not is_context(item)]
    return "tool" in first.name or (bool(others) and all(item.kind is item.VAR_KEYWORD for item in others))


def tool_use_invoke(function: Function) -> Invoke:
    takes_state = any(parameter.kind is parameter.VAR_KEYWORD for parameter in _parameters(function))

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        use = {**context.tool_use, "toolUseId": context.tool_use.get("toolUseId", ""), "input": arguments}
        return function(use, **context.invocation_state) if takes_state else function(use)

    return _yielding(function, invoke)


def keyword_invoke(
    function: Function,
    context_name: str | None = None,
    convert: Convert | None = None,
    agent_name: str | None = None,
) -> Invoke:
    """Calls a function with its arguments by name, converted to what it declared."""
    if context_name is None and convert is None and agent_name is None:
        return _yielding(function, lambda arguments, _: function(**arguments))

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        converted = convert(arguments) if convert else arguments
        filled: dict[str, Any] = {context_name: context} if context_name else {}
        if agent_name:
            filled[agent_name] = context.agent
        return function(**converted, **filled)

    return _yielding(function, invoke)


def _yielding(function: Function, invoke: Invoke) -> Invoke:
    function = innermost(function)
    if inspect.isgeneratorfunction(function):
        return lambda arguments, context: drain(invoke(arguments, context), context)
    if inspect.isasyncgenfunction(function):
        return lambda arguments, context: drain_async(invoke(arguments, context), context)
    return invoke


def runs_async(function: Function) -> bool:
    """Whether calling it gives something to wait for; a plain wrapper gives what it wraps."""
    inner = innermost(function)
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)


def innermost(function: Any) -> Any:
    """The function as written, under partials, bindings and wrappers."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function if inspect.isroutine(function) else type(function).__call__


def context_name(function: Function, context: bool | str = False) -> str | None:
    """The parameter that the platform fills, if there is one."""
    named = context if isinstance(context, str) else "tool_context" if context else None
    names = [item.name for item in _parameters(function) if is_context(item) or item.name == named]
    return names[0] if names else None


def refuse_mismatch(function: Function, schema: dict[str, Any], context: str | None) -> None:
    """ToolError if a function cannot take what its schema lets through."""
    mismatch = _mismatch(
        [item for item in _parameters(function) if item.name != context], bare_schema(schema)
    )
    if mismatch:
        name = getattr(function, "__name__", type(function).__name__)
        raise ToolError(f"{name} does not fit its spec: {mismatch}", code="unavailable")


def _mismatch(parameters: list[inspect.Parameter], schema: dict[str, Any]) -> str:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {
        item.name: item for item in parameters if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    }
    for name in properties:
        if name not in named and not takes_any:
            return f"it has no parameter for the property {name!r}"
    for name, parameter in named.items():
        if parameter.default is not parameter.empty:
            continue
        if name not in properties:
            return f"its parameter {name!r} is not among the schema's properties"
        if name not in required and "default" not in properties[name]:
            return f"its parameter {name!r} needs a default, since the schema does not require it"
    return ""


def _parameters(function: Function) -> list[inspect.Parameter]:
    """A function's parameters, without the `self` or `cls` of a method."""
    parameters = list(inspect.signature(function).parameters.values())
    return parameters[1:] if is_method(function) else parameters
