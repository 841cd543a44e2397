"""From a function, a class or an SDK tool to what can be invoked; what does not fit is refused here."""

import inspect
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from functools import partial
from typing import Any

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.toolkit.arguments import Convert
from strands_cli.toolkit.context import (
    AgentView,
    InterruptRequested,
    ToolContext,
    call_context_of,
    engine_state_of,
    times_of,
    tool_of,
    tool_use_with,
)
from strands_cli.toolkit.contract import Invoke, Tool
from strands_cli.toolkit.info import bare_schema, tool_spec_problem
from strands_cli.toolkit.values import is_tool_result

Function = Callable[..., Any]

_ITEMS_AT_ONCE = 16
_CONTEXT = re.compile(r"\bToolContext\b")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_SDK_MEMBERS = frozenset(
    [
        "tool_name",
        "tool_spec",
        "tool_type",
        "stream",
        "is_dynamic",
        "mark_dynamic",
        "supports_hot_reload",
        "get_display_properties",
    ]
)


class AgentReadyTool(Tool, kw_only=True, eq=False):
    """A tool as programs hold it: an SDK agent takes it for one of its own, wherever it looks for tools.

    The SDK finds the tools of a module by `isinstance(value, DecoratedFunctionTool)`, which asks a value for
    its `__class__`. Where the SDK is not imported yet, nothing here imports it.
    """

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> Any:
        decorator = sys.modules.get("strands.tools.decorator")
        return getattr(decorator, "DecoratedFunctionTool", type(self))

    def __getattr__(self, name: str) -> Any:
        """What the SDK asks of a tool, its bridge answers."""
        if name in _SDK_MEMBERS:
            return getattr(next(iter(self)), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __iter__(self) -> Iterator[Any]:
        """Its bridge: an SDK agent that does not take it for a tool takes it for a collection of them."""
        from strands_cli.toolkit.bridge import bridge_of

        yield bridge_of(self)


def tool_spec_parts(spec: object) -> dict[str, Any]:
    """The parts of a TOOL_SPEC as Tool takes them; ToolError names what is missing or unknown."""
    problem = tool_spec_problem(spec)
    if problem or not isinstance(spec, dict):
        raise ToolError(f"TOOL_SPEC is invalid: {problem}", code="unavailable")
    parts = {
        "id": spec["name"],
        "description": spec.get("description", ""),
        "input_schema": spec["inputSchema"],
    }
    return parts | ({"output_schema": spec["outputSchema"]} if spec.get("outputSchema") else {})


def is_method(function: Function) -> bool:
    """Whether a function is written as a method, and so is a tool only once it is bound to an object."""
    first = next(iter(inspect.signature(function).parameters), "")
    return first in ("self", "cls") and not inspect.ismethod(function)


def is_context_parameter(parameter: inspect.Parameter) -> bool:
    """Whether the platform fills this parameter; its annotation may be a string, and may allow None too."""
    annotation = parameter.annotation
    written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _CONTEXT.search(written) is not None


def takes_tool_use(function: Function, schema: dict[str, Any] | None) -> bool:
    """Whether a function beside a spec is called as SDK modules are: `f(tool, **kwargs)`.

    Where nobody gave a schema, only a function of exactly that form is.
    """
    parameters = parameters_of(function)
    if schema is None:
        kinds = [(item.name, item.kind) for item in parameters]
        return len(kinds) == 2 and kinds[0][0] == "tool" and kinds[1][1] is inspect.Parameter.VAR_KEYWORD
    first = parameters[0] if parameters else None
    if first is None or first.kind not in _POSITIONAL or is_context_parameter(first):
        return False
    if first.name in bare_schema(schema).get("properties", {}):
        return False
    others = [
        item for item in parameters[1:] if item.default is item.empty and not is_context_parameter(item)
    ]
    return "tool" in first.name or (bool(others) and all(item.kind is item.VAR_KEYWORD for item in others))


def tool_use_invoke(function: Function) -> Invoke:
    takes_state = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters_of(function))

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        use = tool_use_with(context, arguments)
        return function(use, **context.invocation_state) if takes_state else function(use)

    return _draining_invoke(function, invoke)


def keyword_invoke(
    function: Function,
    context_name: str | None = None,
    convert: Convert | None = None,
    agent_name: str | None = None,
) -> Invoke:
    """Calls a function with its arguments by name, converted to what it declared."""
    if context_name is None and convert is None and agent_name is None:
        return _draining_invoke(function, lambda arguments, _: function(**arguments))

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        converted = convert(arguments) if convert else arguments
        filled: dict[str, Any] = {context_name: context} if context_name else {}
        if agent_name:
            filled[agent_name] = context.agent
        return function(**converted, **filled)

    return _draining_invoke(function, invoke)


def _draining_invoke(function: Function, invoke: Invoke) -> Invoke:
    """What is called decides, not what it wraps: a wrapper may make a list of a generator, or wait itself.

    Where a plain function is around another kind, only its value tells what it did.
    """
    called, written = _called_function(function), innermost_function(function)
    if inspect.isgeneratorfunction(called):
        return lambda arguments, context: drain_generator(invoke(arguments, context), context)
    if inspect.isasyncgenfunction(called):
        return lambda arguments, context: drain_async_generator(invoke(arguments, context), context)
    if called is written:
        return invoke
    if inspect.iscoroutinefunction(called):
        return lambda arguments, context: _settled_value(invoke(arguments, context), context)
    if runs_async(function):
        return partial(_invoke_wrapper, invoke)

    def drained(arguments: dict[str, Any], context: ToolContext) -> Any:
        value = invoke(arguments, context)
        return drain_generator(value, context) if inspect.isgenerator(value) else value

    return drained


async def _invoke_wrapper(invoke: Invoke, arguments: dict[str, Any], context: ToolContext) -> Any:
    """A plain function around an async one may block: it gets a thread, and its answer is awaited here."""
    from strands_cli.toolkit.execution import call_in_pool, threads_for

    body, owner = partial(invoke, arguments, context), tool_of(context).id
    cancel, times = call_context_of(context).cancel, times_of(context)
    value = await call_in_pool(body, owner=owner, threads=threads_for(context), times=times, cancel=cancel)
    return await _settled_value(value, context)


async def _settled_value(value: Any, context: ToolContext) -> Any:
    while inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        return await drain_async_generator(value, context)
    return drain_generator(value, context) if inspect.isgenerator(value) else value


def runs_async(function: Function) -> bool:
    """Whether its invoke gives something to wait for, because it or what it wraps is async."""
    kinds = (_called_function(function), innermost_function(function))
    return any(inspect.iscoroutinefunction(kind) or inspect.isasyncgenfunction(kind) for kind in kinds)


def _called_function(function: Any) -> Any:
    """The function that a call runs first."""
    function = _unbound_callable(function)
    return function if inspect.isroutine(function) else type(function).__call__


def innermost_function(function: Any) -> Any:
    """The function as written, under partials, bindings and wrappers."""
    inner = _unbound_callable(function)
    while hasattr(inner, "__wrapped__"):
        inner = _unbound_callable(inner.__wrapped__)
    return inner if inspect.isroutine(inner) else type(inner).__call__


def _unbound_callable(function: Any) -> Any:
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
            function = function.__func__
        else:
            return function


def context_parameter_name(function: Function, context: bool | str = False) -> str | None:
    """The parameter that the platform fills, if there is one."""
    named = context if isinstance(context, str) else "tool_context" if context else None
    parameters = parameters_of(function)
    return next((item.name for item in parameters if is_context_parameter(item) or item.name == named), None)


def refuse_signature_mismatch(function: Function, schema: dict[str, Any], context: str | None) -> None:
    """ToolError if a function cannot take what its schema lets through."""
    parameters = [item for item in parameters_of(function) if item.name != context]
    mismatch = _signature_mismatch(parameters, bare_schema(schema))
    if mismatch:
        name = getattr(function, "__name__", type(function).__name__)
        hint = "Let the parameters and the properties have the same names, and defaults where needed."
        raise ToolError(f"{name} does not fit its spec: {mismatch}", code="unavailable", hint=hint)


def _signature_mismatch(parameters: list[inspect.Parameter], schema: dict[str, Any]) -> str:
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


def parameters_of(function: Function) -> list[inspect.Parameter]:
    """A function's parameters, without the `self` or `cls` of a method."""
    parameters = list(inspect.signature(function).parameters.values())
    return parameters[1:] if is_method(function) else parameters


# --- bodies that yield: each yield is reported, the last is the result ------------------------------------


def drain_generator(generator: Generator[Any, Any, Any], context: ToolContext) -> Any:
    """A sync generator's return value, else its last yield. It ends when the call is cancelled."""
    last = None
    while True:
        try:
            item = next(generator)
        except StopIteration as end:
            return last if end.value is None else end.value
        if context.cancelled:
            generator.close()
            raise ToolFailed("The call was cancelled: nobody waits for its answer", code="cancelled")
        _report_item(item, context)
        last = item


async def drain_async_generator(generator: AsyncGenerator[Any, Any], context: ToolContext) -> Any:
    """An async generator's last yield."""
    from asyncio import sleep

    last, count = None, 0
    async for item in generator:
        _report_item(item, context)
        last = item
        count += 1
        if count % _ITEMS_AT_ONCE == 0:
            # A body that never waits for anything would keep the loop, and its deadline, to itself.
            await sleep(0)
    return last


def _report_item(item: Any, context: ToolContext) -> None:
    """Reports what a body yields, at once; a result is only its answer."""
    if not (isinstance(item, dict) and is_tool_result(item)):
        context.progress(item)


# --- tools of other kinds; nothing here imports the SDK ---------------------------------------------------


_SDK_TOOL = ("tool_spec", "tool_name", "stream")


def is_sdk_tool(value: Any) -> bool:
    """Whether a value looks like the SDK's AgentTool; asking its class would import the SDK."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in _SDK_TOOL)


def tool_from_sdk(sdk: Any, **options: Any) -> Tool:
    """An SDK tool under our contract: its input is checked first, and it is held to a deadline."""
    spec = sdk.tool_spec
    parts = {
        key: spec[key] for key in ("name", "description", "inputSchema", "outputSchema") if spec.get(key)
    }

    async def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        use = {**tool_use_with(context, arguments), "name": sdk.tool_name}
        state = engine_state_of(context)
        state.setdefault("agent", _NoAgent(sdk.tool_name, call_context_of(context).agent))
        return await _sdk_stream_result(sdk.stream(use, state), context)

    return AgentReadyTool(
        **(tool_spec_parts(parts) | {"origin": f"{type(sdk).__module__}.{type(sdk).__name__}"} | options),
        invoke=invoke,
        is_async=True,
    )


class _NoAgent:
    """What a tool of the SDK gets as its agent where none makes the call: as much as the caller gave."""

    def __init__(self, tool_name: str, view: AgentView | None) -> None:
        self._tool_name = tool_name
        self._view = view

    def __getattr__(self, name: str) -> Any:
        if self._view is not None and name in ("name", "state"):
            return getattr(self._view, name)
        raise AttributeError(
            f"{self._tool_name} uses 'agent.{name}', and no agent makes this call. Call it in a workflow, in "
            "'strands chat' or in an agent of your program."
        )


async def _sdk_stream_result(events: AsyncIterator[Any], context: ToolContext) -> Any:
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
        _report_item(last, context)
    return last


def is_native_tool(value: Any) -> bool:
    """Whether a value is a class, or an object, in the manner of `strands_cli.tools.base.NativeTool`."""
    return callable(getattr(value, "execute", None)) and callable(getattr(value, "validate_inputs", None))


def is_tool_class(value: Any) -> bool:
    """Whether a value is a class of tools, the SDK's AgentTool or ours, that objects can be made of."""
    is_sdk = all(hasattr(value, name) for name in _SDK_TOOL)
    return isinstance(value, type) and not inspect.isabstract(value) and (is_sdk or is_native_tool(value))


def made_tool(value: Any) -> Any:
    """An object of a class of tools; anything else is itself."""
    if not is_tool_class(value):
        return value
    try:
        return value()
    except TypeError as error:  # it asks for arguments
        reason = f"{value.__name__}() failed: {type(error).__name__}: {error}"
        hint = f"Make the object yourself: my_tool = {value.__name__}(…)."
        raise ToolError(reason, code="unavailable", hint=hint) from error


def spec_beside(value: Any) -> dict[str, Any]:
    """The TOOL_SPEC of a class of ours, or of the module that defines it."""
    kind = type(value)
    spec = getattr(value, "TOOL_SPEC", None) or getattr(sys.modules.get(kind.__module__), "TOOL_SPEC", None)
    if isinstance(spec, dict):
        return spec
    hint = "Write TOOL_SPEC = {…} in the class, or beside it in its module."
    raise ToolError(f"{kind.__name__} has no TOOL_SPEC", code="unavailable", hint=hint)


def tool_from_class(value: Any, spec: dict[str, Any], **options: Any) -> Tool:
    """An object with `validate_inputs` and `execute` as a Tool."""
    instance = made_tool(value)

    def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
        fits, reason = instance.validate_inputs(arguments)
        if not fits:
            raise ToolFailed(f"Invalid input: {reason}", code="input_invalid")
        return instance.execute(tool_use_with(context, arguments), **context.invocation_state)

    return AgentReadyTool(
        **(tool_spec_parts(spec) | options),
        invoke=_draining_invoke(instance.execute, invoke),
        is_async=runs_async(instance.execute),
    )
