"""What a function says of itself as a tool, by its annotations and its docstring."""

import inspect
from collections import abc
from typing import Annotated, Any, Never, NoReturn, get_args, get_origin

import msgspec

from strands_cli.toolkit.conversion import Convert
from strands_cli.toolkit.declaration import Declaration, Function, is_union
from strands_cli.toolkit.docstring import read_docstring
from strands_cli.toolkit.inputs import Inputs
from strands_cli.toolkit.structures import NeedsPydantic, Unknown, Unreadable, is_typed_dict
from strands_cli.toolkit.type_schemas import Schema, SchemaReader

# A body that promises no more than these may return anything, a whole ToolResult too.
_PROMISES_NOTHING = (Any, object, None, type(None), NoReturn, Never, dict, list, abc.Mapping, abc.Sequence)
# At the top of a result these become an image, not text.
_BYTES = (bytes, bytearray)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_AWAITABLES = (abc.Awaitable, abc.Coroutine)


class Signature(msgspec.Struct, frozen=True):
    description: str
    input_schema: Schema
    output_schema: Schema | None
    """None where the annotation of the result says nothing that could be checked."""
    convert: Convert | None
    """From validated arguments to the objects that the body declared; None where they are the same."""
    context_parameter: str | None
    agent_parameter: str | None = None
    """A parameter `agent` in the SDK's manner, for as much of the agent as a tool may see."""


def read_signature(function: Function, *, context: bool | str = False) -> Signature:
    """ToolError (`unavailable`) names the parameter that no tool can have, and what to write instead."""
    declared = Declaration(function, context)
    documented = read_docstring(declared.plain.__doc__)
    inputs = Inputs(declared, documented.parameters)
    return Signature(
        documented.description,
        inputs.schema,
        _output_schema(declared),
        inputs.convert,
        declared.context_parameter,
        declared.agent_parameter,
    )


def _output_schema(declared: Declaration) -> Schema | None:
    annotation = declared.result_type
    if get_origin(annotation) in _AWAITABLES:
        annotation = get_args(annotation)[-1]
    if _is_generator(declared.plain) or not _promises(annotation):
        return None
    reader = SchemaReader(output=True)
    try:
        schema = reader.read(annotation)
    except (Unknown, Unreadable):  # a class of somebody's own, which is for the body to encode
        return None
    except NeedsPydantic:
        return _pydantic_output(annotation)
    if not schema:
        return None
    return schema | {"$defs": reader.definitions} if reader.definitions else schema


def _pydantic_output(annotation: Any) -> Schema | None:
    from strands_cli.toolkit.pydantic_types import pydantic_output

    try:
        return pydantic_output(annotation)
    except Unreadable:
        return None


def _is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _promises(annotation: Any) -> bool:
    """Whether an annotation tells one value from another, and whether the value is checked as it stands."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _promises(parts[0])
    if is_union(annotation):
        return all(part is type(None) or _promises(part) for part in parts)
    if origin in _MAPPINGS:
        return bool(parts) and parts[1] not in (Any, object)
    if origin is not None:
        return bool(parts)
    is_result = isinstance(annotation, type) and is_typed_dict(annotation) and _has_result_keys(annotation)
    return annotation not in _PROMISES_NOTHING and annotation not in _BYTES and not is_result


def _has_result_keys(cls: Any) -> bool:
    return {"status", "content"}.issubset(cls.__annotations__)
