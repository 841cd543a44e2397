"""Tools made of tools: `pipe`, `fan_out`, `fallback`, `each`.

A composition is a Tool like any other, with its own id, schemas and limits. Its steps are called through
`call_tool`, under the same context one level deeper: each is permitted, timed and reported by itself, so
that the composition asks for no consent where its steps do. Its effects are those of its steps.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from inspect import isawaitable
from itertools import combinations, pairwise
from math import ceil
from typing import Any, TypedDict, Unpack
from zlib import crc32

import msgspec

from strands_cli.documents.problems import (
    OPENING_KEYWORDS,
    JsonPath,
    describe_value,
    json_pointer,
    local_reference_target,
    relocated_schema,
    schema_branches,
)
from strands_cli.errors import ToolError, ToolFailed
from strands_cli.toolkit.call import call_tool, nested_context
from strands_cli.toolkit.context import ToolContext, call_id_of
from strands_cli.toolkit.contract import PLACEHOLDER, Effects, Tool, closed_schema
from strands_cli.toolkit.decorator import FunctionTool, as_tool
from strands_cli.toolkit.effects import LONGEST_GRACE_SECONDS
from strands_cli.toolkit.functions import is_sdk_tool
from strands_cli.toolkit.results import ToolResult, ToolUse, error_of
from strands_cli.toolkit.schedule import call_tools
from strands_cli.toolkit.values import tool_failed_from_error, value_of_result

Step = Tool | Callable[[Any], Any]
Body = Callable[[dict[str, Any], ToolContext], Coroutine[Any, Any, Any]]

_BETWEEN_STEPS_SECONDS = 1.0
"""Added to what the steps may take, so that a step's own limit ends it before the composition's does."""
_FINAL_CODES = frozenset({"cancelled", "denied", "consent_required", "blocked"})
"""Failures after which trying something else would be against the user's will."""


class Identity(TypedDict, total=False):
    """The options of a composition; the rest follows from its tools."""

    name: str
    description: str
    version: str
    timeout: float


def pipe(first: Tool, *others: Step, **identity: Unpack[Identity]) -> FunctionTool:
    """Passes the value of each step to the next.

    An object becomes the arguments; any other value goes to the only required (or only) property. A step can
    be a plain function from the value to the input of the next step. Steps that can never fit are an error
    here.
    """
    steps = tuple(map(_as_step, (first, *others)))
    first, last = steps[0], steps[-1]
    tools = _checked_tools([step for step in steps if isinstance(step, Tool) or not callable(step)])
    if not isinstance(first, Tool):
        raise _composition_refusal(
            "a pipe that begins with a function has no known input", "Begin with a tool."
        )
    for earlier, later in pairwise(steps):
        if isinstance(earlier, Tool) and isinstance(later, Tool):
            _refuse_misfit_steps(earlier, later)

    async def body(arguments: dict[str, Any], context: ToolContext) -> Any:
        value: Any = arguments
        for index, step in enumerate(steps):
            if not isinstance(step, Tool):
                value = step(value)
                value = await value if isawaitable(value) else value
                continue
            result = await _call_step(step, _arguments_from_value(value, step), context, str(index))
            _raise_step_failure(result, index, step.id)
            value = value_of_result(result, step)
        return _result_as_answer(result, last) if isinstance(last, Tool) else value

    parts = {
        "name": _joined_name("then", (tool.id for tool in tools)),
        "description": _describe_tools("Calls these tools, each with the value of the one before:", tools),
        "input_schema": first.input_schema,
        "output_schema": last.output_schema if isinstance(last, Tool) else None,
        "timeout": sum(map(_longest_call_seconds, tools)) + _BETWEEN_STEPS_SECONDS,
        "effects": _effects_of_pipe(tools),
    }
    return _composed_tool(tools, body, parts | identity)


def fan_out(
    *tools: Tool,
    partial: bool = False,
    name: str = "",
    description: str = "",
    version: str = "0.0.0",
    timeout: float = 0,
    **named: Tool,
) -> FunctionTool:
    """Sends the same input to all tools at once. The value is an object with the value of each under its
    name.

    A tool's name is its id or its keyword. Each gets the arguments that it accepts. If one fails, the call
    fails; with `partial=True`, its value is `{"error": …}` instead.
    """
    tools, named = tuple(map(_as_step, tools)), {key: _as_step(tool) for key, tool in named.items()}
    _checked_tools([*tools, *named.values()])
    members = {tool.id: tool for tool in tools} | named
    inner = list(members.values())
    if len(inner) < len(tools) + len(named):
        raise _composition_refusal("two of its tools have the same name", "Name them: fan_out(one=…, two=…).")

    async def body(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        calls = [
            (tool, _step_tool_use(tool, _taken_arguments(arguments, tool), context, key))
            for key, tool in members.items()
        ]
        results = dict(zip(members, await call_tools(calls, nested_context(context)), strict=True))
        if not partial:
            _raise_first_failure({(key,): result for key, result in results.items()})
        return {key: _value_or_error(result, members[key]) for key, result in results.items()}

    outputs = {key: _output_schema_at(("properties", key), tool, partial) for key, tool in members.items()}
    parts = {
        "name": name or _joined_name("and", members),
        "description": description or _describe_tools("Calls all of these tools with the same input:", inner),
        "version": version,
        "input_schema": _shared_input_schema(inner),
        "output_schema": {"type": "object", "properties": outputs, "required": list(outputs)},
        "timeout": timeout or max(map(_longest_call_seconds, inner)) + _BETWEEN_STEPS_SECONDS,
        "effects": _united_effects(inner),
    }
    return _composed_tool(inner, body, parts)


def fallback(*tools: Tool, **identity: Unpack[Identity]) -> FunctionTool:
    """Returns the value of the first tool that does not fail. If all fail, returns the last failure, with all
    in its details.

    No other tool is tried after a call that was cancelled, denied or blocked, or that had no consent.
    """
    inner = _checked_tools([*map(_as_step, tools)])

    async def body(arguments: dict[str, Any], context: ToolContext) -> Any:
        details: list[dict[str, Any]] = []
        for index, tool in enumerate(inner):
            result = await _call_step(tool, _taken_arguments(arguments, tool), context, str(index))
            error = error_of(result)
            if error is None:
                return _result_as_answer(result, tool)
            details.append(_error_detail(error, tool=tool.id))
            if index == len(inner) - 1 or error["code"] in _FINAL_CODES:
                raise tool_failed_from_error({**error, "details": details})
        raise AssertionError("the last tool answers or fails")

    outputs = [_output_schema_at(("anyOf", index), tool) for index, tool in enumerate(inner)]
    parts = {
        "name": _joined_name("or", (tool.id for tool in inner)),
        "description": _describe_tools("Calls the first of these tools that does not fail:", inner),
        "input_schema": _shared_input_schema(inner),
        "output_schema": {"anyOf": outputs} if all(tool.output_schema for tool in inner) else None,
        "timeout": sum(map(_longest_call_seconds, inner)) + _BETWEEN_STEPS_SECONDS,
        "effects": _united_effects(inner),
    }
    return _composed_tool(inner, body, parts | identity)


def each(
    tool: Tool,
    *,
    partial: bool = False,
    max_items: int = 100,
    max_parallel: int = 8,
    **identity: Unpack[Identity],
) -> FunctionTool:
    """Calls a tool for each of `items`, its inputs. The value is the list of its values, in order.

    If an item fails, the call fails, with a pointer to the item. With `partial=True`, its value is `{"error":
    …}` instead. The time limit is long enough for `max_items`, `max_parallel` at once.
    """
    tool = _as_step(tool)
    inner = _checked_tools([tool])
    for name, limit in (("max_items", max_items), ("max_parallel", max_parallel)):
        if limit < 1:
            raise _composition_refusal(f"{name} must be 1 or more, and is {limit}")

    async def body(arguments: dict[str, Any], context: ToolContext) -> list[Any]:
        items = enumerate(arguments["items"])
        calls = [(tool, _step_tool_use(tool, item, context, str(index))) for index, item in items]
        results = await call_tools(calls, nested_context(context), max_parallel=arguments["max_parallel"])
        if not partial:
            _raise_first_failure({("items", index): result for index, result in enumerate(results)})
        return [_value_or_error(result, tool) for result in results]

    taken = relocated_schema(closed_schema(tool.input_schema), "/properties/items/items")
    properties = {
        "items": {"type": "array", "maxItems": max_items, "items": taken},
        "max_parallel": {"type": "integer", "minimum": 1, "maximum": max_parallel, "default": max_parallel},
    }
    parts = {
        "name": _joined_name("of", ("each", tool.id)),
        "description": _describe_tools("Calls this tool once for each of the items:", inner),
        "input_schema": {"type": "object", "properties": properties, "required": ["items"]},
        "output_schema": {"type": "array", "items": _output_schema_at(("items",), tool, partial)},
        "timeout": _longest_call_seconds(tool) * ceil(max_items / max_parallel) + _BETWEEN_STEPS_SECONDS,
        "effects": _effects_of_each(tool),
    }
    return _composed_tool(inner, body, parts | identity)


async def _call_step(tool: Tool, arguments: dict[str, Any], context: ToolContext, key: str) -> ToolResult:
    return await call_tool(tool, _step_tool_use(tool, arguments, context, key), nested_context(context, key))


def _step_tool_use(tool: Tool, arguments: dict[str, Any], context: ToolContext, key: str) -> ToolUse:
    call_id = f"{call_id_of(context)}/{key}"
    return {"toolUseId": call_id, "name": tool.id, "input": arguments}


def _arguments_from_value(value: Any, tool: Tool) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    name = _only_property(tool)
    if name is None:
        raise ToolFailed(
            f"{tool.id} takes several arguments, and the step before it gave {describe_value(value)}"
        )
    return {name: value}


def _composed_tool(tools: Sequence[Tool], body: Body, parts: Mapping[str, Any]) -> FunctionTool:
    async def function(**arguments: Any) -> Any:
        return value_of_result(await call_tool(composed, {"name": composed.id, "input": arguments}), composed)

    fields = {"id" if key == "name" else key: value for key, value in parts.items()}
    caps = [tool.max_output for tool in tools]
    fields["max_output"] = max(caps) if all(caps) else 0
    rules = {"readOnlyHint": all, "idempotentHint": all, "destructiveHint": any, "openWorldHint": any}
    hints = {hint: rule(tool.annotations.get(hint) for tool in tools) for hint, rule in rules.items()}
    fields["annotations"] = {hint: True for hint, is_so in hints.items() if is_so}
    composed = FunctionTool(invoke=body, function=function, binding=lambda _: body, is_async=True, **fields)
    return composed


def _joined_name(word: str, names: Iterable[str]) -> str:
    name = f"_{word}_".join(names)
    return name if len(name) <= 64 else f"{name[:55]}_{crc32(name.encode()):08x}"


def _describe_tools(how: str, tools: Sequence[Tool]) -> str:
    return "\n".join([how, *(f"- {tool.id}: {tool.description}" for tool in tools)])


def _longest_call_seconds(tool: Tool) -> float:
    """The seconds that a call may take: each try has the tool's limit.

    Between two of them there is a pause, and the first one may take a while to end after its deadline.
    """
    pauses = 0.1 * 2**tool.retries + tool.retries * LONGEST_GRACE_SECONDS if tool.retries else 0
    return tool.timeout * (tool.retries + 1) + pauses


def _united_effects(tools: Sequence[Tool]) -> Effects | None:
    declared: list[Effects] = [tool.effects for tool in tools if tool.effects]
    if any(effects.exclusive for effects in declared):
        return Effects(exclusive=True)
    reads = dict.fromkeys(template for effects in declared for template in effects.reads)
    writes = dict.fromkeys(template for effects in declared for template in effects.writes)
    return Effects(reads=tuple(reads), writes=tuple(writes)) if declared else None


def _effects_of_pipe(tools: Sequence[Tool]) -> Effects | None:
    """What a later step touches is known when it gets its input: a pipe with such a step runs alone."""
    later = _united_effects(tools[1:])
    if later and any(map(PLACEHOLDER.search, later.reads + later.writes)):
        return Effects(exclusive=True)
    return _united_effects(tools)


def _effects_of_each(tool: Tool) -> Effects | None:
    effects = tool.effects
    if effects is None:
        return None
    reads, writes = (
        tuple(PLACEHOLDER.sub(r"{items.\1}", template) for template in side)
        for side in (effects.reads, effects.writes)
    )
    return Effects(reads=reads, writes=writes, exclusive=effects.exclusive)


def _as_step(value: Any) -> Any:
    """A tool of the SDK under our contract; anything else as it is."""
    return as_tool(value) if is_sdk_tool(value) else value


def _checked_tools(items: Sequence[object]) -> list[Tool]:
    for item in items:
        if not isinstance(item, Tool):
            raise _composition_refusal(f"{item!r} is not a tool", "Make one of it with @tool.")
    if not items:
        raise _composition_refusal("it contains no tools")
    return [item for item in items if isinstance(item, Tool)]


# --- the results of the steps -------------------------------------------------------------------------------


def _result_as_answer(result: ToolResult, tool: Tool) -> Any:
    """What a body returns to answer as another tool did: the same blocks, and scalars as they were."""
    if len(result["content"]) == 1 and "text" in result["content"][0]:
        return value_of_result(result, tool)
    return {**result, "toolUseId": ""}


def _value_or_error(result: ToolResult, tool: Tool) -> Any:
    """The value, or the error as a value, where one failure must not hide the other answers."""
    error = error_of(result)
    return value_of_result(result, tool) if error is None else {"error": error}


def _raise_first_failure(results: Mapping[JsonPath, ToolResult]) -> None:
    """Raises the first failure among the results, each of which belongs to a place; its details name all."""
    errors = {json_pointer(path): error for path, result in results.items() if (error := error_of(result))}
    for place, first in errors.items():
        more = f" ({len(errors) - 1} more failed)" if len(errors) > 1 else ""
        details = [_error_detail(error, pointer=at) for at, error in errors.items()]
        raise tool_failed_from_error(
            {**first, "message": f"{place}: {first['message']}{more}", "details": details}
        )


def _raise_step_failure(result: ToolResult, index: int, tool_id: str) -> None:
    """Raises the failure of one step of several. Its input is the caller's own in the first step only."""
    error = error_of(result)
    if error is None:
        return
    is_callers = index == 0 or error["code"] not in ("input_malformed", "input_invalid")
    details = [{**detail, "step": index, "tool": tool_id} for detail in error.get("details") or ()]
    message = f"Step {index} ({tool_id}): {error.get('message', '')}"
    code = error["code"] if is_callers else "failed"
    raise tool_failed_from_error({**error, "code": code, "message": message, "details": details})


def _error_detail(error: Mapping[str, Any], **place: str) -> dict[str, Any]:
    """An error as one of the details of another."""
    detail = {"pointer": "", "expected": "success", "got": error["message"], "hint": error.get("hint", "")}
    return {**detail, "code": error["code"], **place}


# --- the schemas: what fits together, what it takes, what it gives ----------------------------------------

Schema = dict[str, Any]

_PLAIN = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}
"""The keywords of input schemas that can be merged property by property."""
_ADAPT = "Put a function between the two, from the value of the first to the arguments of the second."


def _composition_refusal(reason: str, hint: str = "") -> ToolError:
    return ToolError(f"The composition is invalid: {reason}", code="unavailable", hint=hint)


def _property_schemas(schema: Schema) -> dict[str, list[Any]]:
    """All that a schema says of each property, wherever it says so."""
    found: dict[str, list[Any]] = {}
    for branch in schema_branches(schema, schema):
        for name, part in branch.get("properties", {}).items():
            found.setdefault(name, []).append(part)
    return found


def _argument_names(tool: Tool) -> frozenset[str] | None:
    """The names of a tool's arguments; None if it takes any."""
    branches = schema_branches(tool.input_schema, tool.input_schema)
    takes_others = any(branch.get(keyword) for branch in branches for keyword in OPENING_KEYWORDS)
    names_some = any("properties" in branch for branch in branches)
    return frozenset(_property_schemas(tool.input_schema)) if names_some and not takes_others else None


def _taken_arguments(arguments: dict[str, Any], tool: Tool) -> dict[str, Any]:
    names = _argument_names(tool)
    return arguments if names is None else {name: value for name, value in arguments.items() if name in names}


def _only_property(tool: Tool) -> str | None:
    """Where a value goes that is not an object: to the only required property, or to the only one."""
    for names in (tool.input_schema.get("required", []), list(_property_schemas(tool.input_schema))):
        if len(names) == 1:
            return str(names[0])
    return None


def _refuse_misfit_steps(first: Tool, second: Tool) -> None:
    """Refuses two steps of which the second can never take what the first gives."""
    output, taken = first.output_schema or {}, _property_schemas(second.input_schema)
    types = _allowed_types(output, output) or {"object"}
    matched = {name: parts for name, parts in _property_schemas(output).items() if name in taken}
    if "object" not in types:
        name = _only_property(second)
        if name is None:
            raise _composition_refusal(
                f"{first.id} does not give an object, and {second.id} takes several arguments", _ADAPT
            )
        matched = {name: [output]}
    for name, parts in matched.items():
        if _have_disjoint_types(parts, output, taken.get(name, []), second.input_schema):
            raise _composition_refusal(
                f"what {first.id} gives is of another type than {name!r} of {second.id}", _ADAPT
            )


def _have_disjoint_types(some: list[Any], root: Schema, others: list[Any], other_root: Schema) -> bool:
    types, other_types = _allowed_types({"anyOf": some}, root), _allowed_types({"anyOf": others}, other_root)
    return types is not None and other_types is not None and not types & other_types


def _allowed_types(schema: Any, root: Schema, depth: int = 8) -> set[str] | None:
    """The JSON types that a schema allows; None if it does not plainly say."""
    if not isinstance(schema, dict) or depth == 0:
        return None
    named = schema.get("type")
    if named:
        types = {named} if isinstance(named, str) else set(named)
        return types | {"integer"} if "number" in types else types
    if "$ref" in schema:
        return _allowed_types(local_reference_target(schema["$ref"], root), root, depth - 1)
    alternatives = schema.get("anyOf") or schema.get("oneOf") or ()
    options = [_allowed_types(option, root, depth - 1) for option in alternatives]
    known = [types for types in options if types is not None]
    return set().union(*known) if options and len(known) == len(options) else None


def _shared_input_schema(tools: Sequence[Tool]) -> Schema:
    """What the tools take together. If two ask for different types under one name, no input fits."""
    schemas = [tool.input_schema for tool in tools]
    for tool, other in combinations(tools, 2):
        parts, others = _property_schemas(tool.input_schema), _property_schemas(other.input_schema)
        for name in parts.keys() & others.keys():
            if _have_disjoint_types(parts[name], tool.input_schema, others[name], other.input_schema):
                raise _composition_refusal(f"{tool.id} and {other.id} take different types of {name!r}")
    is_open = any(_argument_names(tool) is None for tool in tools)
    if all(schema.keys() <= _PLAIN and b'"$ref"' not in msgspec.json.encode(schema) for schema in schemas):
        return _merged_input_schema(schemas) | ({"additionalProperties": True} if is_open else {})
    members = [
        {key: part for key, part in relocated_schema(schema, f"/allOf/{index}").items() if part is not False}
        for index, schema in enumerate(schemas)
    ]
    return {"type": "object", "allOf": members, "unevaluatedProperties": is_open}


def _merged_input_schema(schemas: Sequence[Schema]) -> Schema:
    properties: dict[str, Any] = {}
    for schema in schemas:
        for name, part in schema.get("properties", {}).items():
            known = properties.setdefault(name, part)
            properties[name] = part if known == part else {"allOf": [known, part]}
    required = dict.fromkeys(name for schema in schemas for name in schema.get("required", []))
    return {"type": "object", "properties": properties, "required": list(required)}


def _output_schema_at(path: tuple[str | int, ...], tool: Tool, partial: bool = False) -> Schema:
    """What a tool gives, at a place of the composition's output schema."""
    place = json_pointer((*path, "anyOf", 0) if partial else path)
    schema: Schema = relocated_schema(tool.output_schema or {}, place)
    return {"anyOf": [schema, {"type": "object", "required": ["error"]}]} if partial else schema
