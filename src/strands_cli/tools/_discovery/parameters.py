"""A function's parameters as a JSON Schema, where its annotations are simple enough to be sure.

Whatever is not simple makes the whole schema None: it is known when the tool is loaded, not before.
"""

import ast
from typing import Any

from strands_cli.toolkit.docstring import read_docstring
from strands_cli.tools._discovery.static import NotJson, SourceFile, as_json, dotted_name
from strands_cli.tools._discovery.syntax import Function

Schema = dict[str, Any]

_FILLED_BY_THE_PLATFORM = frozenset({"self", "cls", "agent"})
_PLAIN_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "List": "array",
    "dict": "object",
    "Dict": "object",
}


class _NotSimple(Exception):
    """An annotation or a default that only loading the tool can settle."""


def schema_of(file: SourceFile, function: Function, context: object = False) -> Schema | None:
    """The schema of what a model fills in; `context` is the decorator's argument of that name."""
    try:
        properties, required = _properties(file, function, context)
    except _NotSimple:
        return None
    return {"type": "object", "properties": properties, "required": required}


def summary_of(function: Function) -> str:
    """The first paragraph of the docstring, on one line."""
    return read_docstring(ast.get_docstring(function)).description


def _properties(file: SourceFile, function: Function, context: object) -> tuple[dict[str, Schema], list[str]]:
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        raise _NotSimple
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults, *arguments.kw_defaults]
    documented = read_docstring(ast.get_docstring(function)).parameters
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for argument, default in zip([*arguments.args, *arguments.kwonlyargs], defaults, strict=True):
        if is_filled_by_platform(argument, context):
            continue
        properties[argument.arg] = _property(file, argument, default, documented.get(argument.arg, ""))
        if default is None:
            required.append(argument.arg)
    return properties, required


def is_filled_by_platform(argument: ast.arg, context: object) -> bool:
    if argument.arg in _FILLED_BY_THE_PLATFORM or (context is True and argument.arg == "tool_context"):
        return True
    return context == argument.arg or _last_name(argument.annotation) == "ToolContext"


def _last_name(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2].strip()
    return dotted_name(annotation).rpartition(".")[2] if annotation else ""


def _property(file: SourceFile, argument: ast.arg, default: ast.expr | None, description: str) -> Schema:
    if argument.annotation is None:
        raise _NotSimple
    schema = _type(argument.annotation)
    value = file.evaluate(default) if default is not None else ...
    if value is None and "anyOf" not in schema:
        schema = {"anyOf": [schema, {"type": "null"}]}
    if description:
        schema = {**schema, "description": description}
    if default is None:
        return schema
    try:
        return {**schema, "default": as_json(value)}
    except NotJson:
        raise _NotSimple from None


def _type(node: ast.expr) -> Schema:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _type(_parsed(node.value))
    if isinstance(node, ast.Constant) and node.value is None:
        return {"type": "null"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _generic(dotted_name(node.value).rpartition(".")[2], node.slice)
    name = dotted_name(node).rpartition(".")[2]
    if name not in _PLAIN_TYPES:
        raise _NotSimple
    return {"type": _PLAIN_TYPES[name]}


def _parsed(text: str) -> ast.expr:
    """An annotation that is written as a string."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _NotSimple from None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        raise _NotSimple
    return node


def _generic(name: str, inner: ast.expr) -> Schema:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in ("list", "List") and len(parts) == 1:
        return {"type": "array", "items": _type(parts[0])}
    if name in ("dict", "Dict") and len(parts) == 2 and dotted_name(parts[0]) == "str":
        return {"type": "object", **_additional(parts[1])}
    if name == "Optional" and len(parts) == 1:
        return _union([parts[0], ast.Constant(value=None)])
    if name == "Union":
        return _union(parts)
    if name == "Literal":
        return _choice(parts)
    raise _NotSimple


def _additional(node: ast.expr) -> Schema:
    is_any = dotted_name(node).rpartition(".")[2] in ("Any", "object")
    return {} if is_any else {"additionalProperties": _type(node)}


def _union(parts: list[ast.expr]) -> Schema:
    """`X | None`. Unions of several types are left to the loaded tool, which also converts their values."""
    null = {"type": "null"}
    others = [schema for schema in map(_type, parts) if schema != null]
    if len(others) != 1 or len(parts) != 2:
        raise _NotSimple
    return {"anyOf": [others[0], null]}


def _choice(parts: list[ast.expr]) -> Schema:
    values = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return {"type": "string", "enum": values}
    if kinds == {int}:
        return {"type": "integer", "enum": values}
    raise _NotSimple
