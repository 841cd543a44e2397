"""The expressions that say their own value: literals, containers, and the few operators between them."""

import ast
from collections.abc import Callable
from typing import Any, Protocol

from strands_cli.tools._discovery.values import ONLY_RUNNING, Unread

_MAX_INTEGER = 1 << 64
_CHARACTERS_PER_STEP = 64


class Reader(Protocol):
    """What evaluates the parts of an expression."""

    def evaluate(self, node: ast.expr, before: int) -> Any: ...
    def unread(self, node: ast.AST | int, reason: str) -> Unread: ...
    def spend(self, steps: int) -> None: ...


_SEQUENCES = (str, bytes, list, tuple)

Evaluator = Callable[[Any, Any, int], Any]


def _list(reader: Reader, node: ast.List, before: int) -> Any:
    return _members(reader, node.elts, before)


def _tuple(reader: Reader, node: ast.Tuple, before: int) -> Any:
    members = _members(reader, node.elts, before)
    return members if isinstance(members, Unread) else tuple(members)


def _set(reader: Reader, node: ast.Set, before: int) -> Any:
    members = _members(reader, node.elts, before)
    try:
        return members if isinstance(members, Unread) else set(members)
    except TypeError:
        return reader.unread(node, "is a set of things that a set cannot hold")


def _members(reader: Reader, nodes: list[ast.expr], before: int) -> list[Any] | Unread:
    members: list[Any] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            members.append(reader.evaluate(node, before))
            continue
        inner = reader.evaluate(node.value, before)
        if isinstance(inner, Unread):
            return inner
        if not isinstance(inner, list | tuple | set | dict):
            return reader.unread(node, "unpacks something that is not a list")
        reader.spend(len(inner))
        members.extend(inner)
    return members


def _dict(reader: Reader, node: ast.Dict, before: int) -> Any:
    result: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = reader.evaluate(value_node, before)
        if key_node is None:
            if not isinstance(value, dict):
                unread = reader.unread(value_node, "unpacks something that is not a dictionary")
                return value if isinstance(value, Unread) else unread
            reader.spend(len(value))
            result |= value
            continue
        key = reader.evaluate(key_node, before)
        if isinstance(key, Unread):
            return key
        try:
            result[key] = value
        except TypeError:
            return reader.unread(key_node, "has a key that a dictionary cannot hold")
    return result


def _unary(reader: Reader, node: ast.UnaryOp, before: int) -> Any:
    value = reader.evaluate(node.operand, before)
    if isinstance(value, Unread):
        return value
    if _is_number(value) and isinstance(node.op, ast.USub | ast.UAdd):
        return -value if isinstance(node.op, ast.USub) else value
    return reader.unread(node, describe(node))


def _binary(reader: Reader, node: ast.BinOp, before: int) -> Any:
    left, right = reader.evaluate(node.left, before), reader.evaluate(node.right, before)
    for side in (left, right):
        if isinstance(side, Unread):
            return side
    if isinstance(node.op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
        reader.spend(len(left) + len(right))
        return left | right
    if isinstance(node.op, ast.Add) and type(left) is type(right) and type(left) in _SEQUENCES:
        steps = len(left) + len(right)
        reader.spend(steps // _CHARACTERS_PER_STEP if isinstance(left, str | bytes) else steps)
        return left + right
    if _is_number(left) and _is_number(right):
        return _arithmetic(reader, node, left, right)
    return reader.unread(node, describe(node))


def _arithmetic(reader: Reader, node: ast.BinOp, left: Any, right: Any) -> Any:
    operation = _OPERATIONS.get(type(node.op))
    if operation is None:
        return reader.unread(node, describe(node))
    try:
        result = operation(left, right)
    except OverflowError:
        result = _MAX_INTEGER
    if isinstance(result, int) and abs(result) >= _MAX_INTEGER:
        return reader.unread(node, f"is a number too large to be computed here, {ONLY_RUNNING}")
    return result


_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex) and not isinstance(value, bool)


def _joined(reader: Reader, node: ast.JoinedStr, before: int) -> Any:
    texts: list[str] = []
    for part in node.values:
        plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
        value = reader.evaluate(part.value if plain else part, before)  # type: ignore[attr-defined]
        if isinstance(value, Unread):
            return value
        if not isinstance(value, str | int | float):
            return reader.unread(part, describe(node))
        texts.append(str(value))
    text = "".join(texts)
    reader.spend(len(text) // _CHARACTERS_PER_STEP)
    return text


def _subscript(reader: Reader, node: ast.Subscript, before: int) -> Any:
    owner = reader.evaluate(node.value, before)
    key = reader.evaluate(node.slice, before)
    for side in (owner, key):
        if isinstance(side, Unread):
            return side
    if not isinstance(owner, dict | list | tuple) or not isinstance(key, str | int):
        return reader.unread(node, describe(node))
    try:
        return owner[key]  # type: ignore[index]  # a wrong pair is a TypeError, as it is when the module runs
    except (KeyError, IndexError, TypeError):
        return reader.unread(node, f"asks for the item {key!r}, which is not there")


LITERALS: dict[type[ast.AST], Evaluator] = {
    ast.List: _list,
    ast.Tuple: _tuple,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.JoinedStr: _joined,
    ast.Subscript: _subscript,
}

_NAMES = {
    ast.Compare: "a comparison",
    ast.BoolOp: "a condition",
    ast.IfExp: "a condition",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.FormattedValue: "a format",
    ast.JoinedStr: "a format",
    ast.Subscript: "a lookup",
    ast.Lambda: "a lambda",
}


def describe(node: ast.expr) -> str:
    """What an expression does that cannot be told from its text."""
    if isinstance(node, ast.Call):
        name = dotted_name(node.func)
        return f"is computed by a call{f' of {name}()' if name else ''}, {ONLY_RUNNING}"
    return f"is computed by {_NAMES.get(type(node), 'an expression')}, {ONLY_RUNNING}"


def dotted_name(node: ast.expr) -> str:
    """`a.b.c` as it is written, or nothing where the expression is something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
