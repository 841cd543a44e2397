"""The Jinja environment for templates: a sandbox in which every operation costs units of the meter.

Imported only if there is a template to render.
"""
# ruff: noqa: TID253

import json
import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import cache, cached_property, wraps
from string import Formatter
from typing import Any

from jinja2 import (
    ChainableUndefined,
    StrictUndefined,
    nodes,
    pass_context,
    pass_environment,
    pass_eval_context,
)
from jinja2.filters import do_truncate
from jinja2.lexer import TOKEN_STRING, Lexer, Token
from jinja2.runtime import LoopContext, markup_join, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing
from jinja2.visitor import NodeTransformer

from strands_cli.templates.meter import (
    ITEM,
    MAX_BITS,
    NODE,
    OPERATION,
    TooMuch,
    checked_integer,
    current_meter,
)
from strands_cli.templates.pattern_search import search_pattern
from strands_cli.types.run_results import StepList, StepResult


class UndefinedName(Exception):
    """A name that is not in the scope or in a mapping; `known` has the names that are."""

    def __init__(self, name: str, known: list[Any] | None) -> None:
        super().__init__(name)
        self.name, self.known = name, known


# --- What grows -------------------------------------------------------------------------------------------
#
# For filters and methods (the names are the same): the size of the result, and the units of work, if they do
# not follow from the weight of the arguments. The first value is the one that the filter is applied to.

_PERCENT_FIELD = re.compile(r"%(\([^()]*(?:\)|(\()))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?.?", re.DOTALL)
_QUICK_CODECS = ("utf-8", "utf8", "ascii", "latin-1")


def _integers(values: tuple[Any, ...]) -> int:
    """The sum of all integer arguments: an upper bound for a width, whichever argument it is."""
    return sum(abs(value) for value in values if isinstance(value, int))


def _longest(values: tuple[Any, ...]) -> int:
    return max((len(value) for value in values if isinstance(value, str)), default=0)


def _padded(value: Any, *others: Any) -> int:
    return len(str(value)) + _integers(others)


def _replaced(value: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    text = value if isinstance(value, str | bytes) else str(value)
    found = text.count(old) if isinstance(old, type(text)) else text.count(str(old))  # type: ignore[arg-type]
    return len(text) + found * len(new if isinstance(new, str | bytes) else str(new))


def _joined(value: Any, *others: Any) -> int:
    """For the filter, whose first value is the list, and the method, whose first value is the separator."""
    sides = (value, *others[:1])
    count = max(
        (len(side) for side in sides if hasattr(side, "__len__") and not isinstance(side, str)), default=0
    )
    count = count or max(map(_size, sides))
    return count * (1 + _longest(sides)) + current_meter().weight(sides)


def _formatted(value: Any, *others: Any) -> int:
    """`'%5d' % 1` and `'%5d' | format(1)`."""
    fields = _PERCENT_FIELD.findall(str(value))
    if any(nested or "*" in (width, precision) for _, nested, width, precision in fields):
        raise TooMuch("a format field takes its width from a value, or has a name with parentheses")
    return _filled(value, others, [part for field in fields for part in field[2:]], len(fields))


def _formatted_in_braces(value: Any, *others: Any) -> int:
    """`'{:5}'.format(1)`."""
    layouts = [layout or "" for _, name, layout, _ in Formatter().parse(str(value)) if name is not None]
    if any("{" in layout for layout in layouts):
        raise TooMuch("a format field takes its width from a value")
    return _filled(value, others, re.findall(r"\d+", " ".join(layouts)), len(layouts))


def _filled(value: Any, others: tuple[Any, ...], widths: list[str], fields: int) -> int:
    """The upper bound of a formatted text: every field may contain all arguments."""
    text = str(value)
    weight = max((current_meter().weight(other) for other in others), default=0)
    current_meter().spend(20 * len(text))
    return len(text) + fields * weight + sum(int(width[:9]) for width in widths if width)


def _indented(value: Any, *others: Any) -> int:
    text = str(value)
    return len(text) + (text.count("\n") + 1) * (4 + _integers(others) + _longest(others))


def _wrapped(value: Any, width: Any = 79, *others: Any) -> int:
    """Quadratic for long words: they are cut piece by piece, and the rest is copied each time."""
    text, size = str(value), max(1, width) if isinstance(width, int) else 1
    longest = max(map(len, text.split()), default=0)
    return 40 * len(text) + (len(text) // size + 1) * _longest(others) + (longest * longest // size >> 7)


def _times(factor: int) -> Callable[..., int]:
    return lambda value, *_: factor * current_meter().weight(value)


def _per_pair(value: Any, *others: Any) -> int:
    """Quadratic: searches from the right, and strips, compare every character with every other."""
    text = str(value)
    return len(text) * (_longest(others) + 64) >> 6


def _without_tags(value: Any, *_: Any) -> int:
    text = str(value)
    return len(text) * (text.count("<") + 64) >> 6


def _sorted(value: Any, *_: Any) -> int:
    count = _size(value)
    return OPERATION * count + (current_meter().weight(value) * count.bit_length() >> 3)


def _encoded(value: Any, codec: Any = "utf-8", *_: Any) -> int:
    return len(value) * (1 if str(codec).lower() in _QUICK_CODECS else len(value))


def _summed(value: Any, *others: Any) -> int:
    """Quadratic for lists: the sum is copied for each list that is added."""
    is_quick = all(isinstance(other, str | int | float | None) for other in others)
    return OPERATION * _size(value) + (0 if is_quick else _size(value) * current_meter().weight(value))


def _translated(value: Any, *others: Any) -> int:
    return len(value) * (1 + current_meter().weight(others))


def _size(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


_SIZES: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("batch", "center", "ljust", "rjust", "slice", "to_bytes", "truncate", "zfill"), _padded),
    "format": _formatted,
    "format_map": _formatted_in_braces,
    "expandtabs": lambda value, *others: len(value) + value.count("\t") * (8 + _integers(others)),
    "indent": _indented,
    "join": _joined,
    "replace": _replaced,
    "translate": _translated,
}
_COSTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("dictsort", "groupby", "max", "min", "sort", "unique"), _sorted),
    **dict.fromkeys(
        ("lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip", "trim"), _per_pair
    ),
    **dict.fromkeys(("capitalize", "list", "title", "urlencode", "wordcount", "xmlattr"), _times(10)),
    **dict.fromkeys(("decode", "encode"), _encoded),
    "pprint": _times(200),
    "round": lambda _, *others: _integers(others) ** 2,
    "striptags": _without_tags,
    "sum": _summed,
    "urlize": lambda value, *others: len(str(value)) * (200 + _longest(others)),
    "wordwrap": _wrapped,
}
_FREE = frozenset({"attr", "count", "d", "default", "first", "items", "last", "length", "random", "safe"})
_LAZY = frozenset({"map", "reject", "rejectattr", "select", "selectattr"})
"""Filters that return iterators: they are paid for item by item, when the items are used."""


def _paid(name: str, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """Runs an operation if the meter has enough units left for it."""
    meter = current_meter()
    if name in _FREE or name in _LAZY:
        meter.spend(OPERATION)
        return meter.made_items(result) if isinstance(result := run(), Iterator) else result
    meter.read(*values)
    if name in _SIZES:
        meter.make(_SIZES[name](*values))
    if name in _COSTS:
        meter.spend(_COSTS[name](*values))
    return meter.made(run())


def _result_size(left: Any, operator: str, right: Any) -> int:
    """The minimum size of the result of `left * right` and other operators."""
    if isinstance(left, int) and isinstance(right, int):
        left, right = checked_integer(left), checked_integer(right)
        bits = left.bit_length() * abs(right) if operator == "**" else left.bit_length() + right.bit_length()
        if operator in ("*", "**") and bits > MAX_BITS:
            raise TooMuch("it makes an integer with too many digits")
        return 0
    if operator == "%" and isinstance(left, str | bytes):
        return _formatted(left, right)
    if operator == "+":
        return _size(left) + _size(right)
    if operator == "*" and isinstance(right, int):
        return _size(left) * abs(right)
    if operator == "*" and isinstance(left, int):
        return _size(right) * abs(left)
    return 0


def _metered_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test that pays for its work."""
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context or environment

    @wraps(function)
    def filtered(*arguments: Any, **named: Any) -> Any:
        if name in ("join", "sum") and isinstance(arguments[skipped], Iterator):
            arguments = (*arguments[:skipped], list(arguments[skipped]), *arguments[skipped + 1 :])
        values = (*arguments[skipped:], *named.values())
        return _paid(name, values, lambda: function(*arguments, **named))

    return filtered


# --- What templates are made into -------------------------------------------------------------------------

_SPEND, _LOOP, _READ, _MADE, _CONCATENATE = "(spend)", "(loop)", "(read)", "(made)", "(~)"
"""Internal filters, inserted where the sandbox has no hook. Templates cannot use these names."""
_REPEATED = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)


def _loop(value: Any, cost: int) -> Any:
    """Pays for a loop over a value. An iterator was already paid for, item by item."""
    current_meter().spend(OPERATION + cost * _size(value))
    return value


def _read(value: Any) -> Any:
    current_meter().read(value)
    return value


@pass_eval_context
def _concatenate(evaluation: Any, parts: tuple[Any, ...]) -> str:
    meter = current_meter()
    meter.make(OPERATION + sum(map(meter.weight, parts)))
    return markup_join(parts) if evaluation.autoescape else str_join(parts)


class _Metering(NodeTransformer):
    """Adds the meter to a template's syntax tree."""

    def visit(self, node: nodes.Node, *arguments: Any, **named: Any) -> Any:
        body = NODE * (2 + _node_count(node.body)) if isinstance(node, _REPEATED) else 0
        test = _node_count([node.test]) if isinstance(node, nodes.For) and node.test else 0
        self.generic_visit(node)
        match node:
            case _ if isinstance(node, _REPEATED):
                payment = _filtered(nodes.Const(body, lineno=node.lineno), _SPEND)
                node.body.insert(0, nodes.ExprStmt(payment, lineno=node.lineno))
                if isinstance(node, nodes.For):
                    node.iter = _filtered(node.iter, _LOOP, nodes.Const(ITEM + NODE * test))
            case nodes.Compare() | nodes.Operand():
                node.expr = _filtered(node.expr, _READ)
            case nodes.Concat():
                return _filtered(nodes.Tuple(node.nodes, "load", lineno=node.lineno), _CONCATENATE)
            case nodes.Getitem(arg=nodes.Slice()) | nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
                return _filtered(node, _MADE)
        return node


def _node_count(found: list[nodes.Node]) -> int:
    """The size of a body in nodes; attributes count more, since the sandbox checks each access."""
    inner = (node for part in found for node in (part, *part.find_all(nodes.Node)))
    return sum(3 if isinstance(node, nodes.Getattr) else 1 for node in inner)


def _filtered(node: nodes.Node, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


class _Missing(ChainableUndefined, StrictUndefined):
    """An undefined value. Using it is an error; its attributes are undefined, so `a.b | default(1)` works."""

    def __init__(self, hint: Any = None, obj: Any = missing, name: Any = None, exc: Any = None) -> None:
        def undefined(_: str) -> Exception:
            inside = list(obj) if isinstance(obj, Mapping) else []
            return UndefinedName(str(name), None if obj is missing else inside)

        super().__init__(hint, obj, name, exc or undefined)  # type: ignore[arg-type]


class _Namespace(Namespace):
    """Like Jinja's, but its `repr` does not write out the contents, which are not metered."""

    def __repr__(self) -> str:
        return "<Namespace>"


def printed_json(value: Any, **options: Any) -> str:
    meter = current_meter()
    meter.make(meter.weight(value))
    if "indent" not in options:
        return json.dumps(value, **options)
    # Deep values are mostly indentation, which `weight` does not count.
    return meter.collect(json.JSONEncoder(**options).iterencode(value))


def _as_json(value: Any, indent: int | None = None) -> str:
    """Plain JSON. Jinja's own `tojson` escapes it for HTML, and all that is not ASCII."""
    options = {} if indent is None else {"indent": indent}
    if isinstance(indent, int):
        current_meter().spend(indent)  # the encoder makes that many spaces before anybody counts them
    value = list(value) if isinstance(value, StepList) else value
    return printed_json(value, ensure_ascii=False, default=_json_value, **options)


def _json_value(value: Any) -> Any:
    if isinstance(value, StepResult):
        return value.parts
    if isinstance(value, StepList | KeysView | ValuesView | ItemsView | Iterator):
        return list(value)
    return str(value)


@pass_environment
def _truncated(environment: Any, text: Any, *arguments: Any, **named: Any) -> str:
    """Cuts hard where the length is all that is given, as other runners do; else as Jinja does."""
    text = str(text)
    if len(arguments) == 1 and not named and isinstance(length := arguments[0], int):
        return text if len(text) <= length else f"{text[: max(length - 3, 0)]}..."[: max(length, 0)]
    return do_truncate(environment, text, *arguments, **named)


def _regex_search(value: Any, pattern: str) -> str:
    return search_pattern(str(pattern), "" if value is None else str(value)) or ""


def _printed_value(_: Any, value: Any) -> Any:
    """The output of `{{ value }}`: JSON, unless it is text, a number or a result of ours; empty for null.

    The unused context parameter prevents Jinja from evaluating constants at compile time.
    """
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        return printed_json(value, ensure_ascii=False, default=str)
    return value


_ESCAPE = re.compile(r"""\\([\\'"abfnrtv0-7xNuU\n]?)""")


def with_valid_escapes(literal: str) -> str:
    r"""The source of a text whose `\d` is written `\\d`: Python deprecates escapes that it does not know."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", literal)


class _Lexer(Lexer):
    def wrap(self, stream: Any, *place: Any) -> Iterator[Token]:
        tokens = (
            (line, kind, with_valid_escapes(text) if kind == TOKEN_STRING else text)
            for line, kind, text in stream
        )
        return super().wrap(tokens, *place)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    @cached_property
    def lexer(self) -> Lexer:
        return _Lexer(self)

    def _generate(self, source: nodes.Template, *arguments: Any, **named: Any) -> str:
        source = _Metering().visit(source)
        source.set_environment(self)
        return super()._generate(source, *arguments, **named)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A mapping's keys win over its methods: a task or an input may be called `items`."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        current_meter().spend(3 * NODE)  # `map(attribute="a.b.c")` calls this for each part
        return super().getitem(obj, argument)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        meter = current_meter()
        meter.make(OPERATION + _result_size(left, operator, right))
        result = super().call_binop(context, operator, left, right)
        return result if isinstance(result, str | int | float) else meter.made(result)

    def call(self, context: Any, obj: Any, *arguments: Any, **named: Any) -> Any:
        method = getattr(obj, "__wrapped__", obj)  # Jinja wraps str.format
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(obj, LoopContext):
            current_meter().spend(NODE * sum(map(_size, arguments)))
        if name == "format" and isinstance(owner, str):
            name = "format_map"  # the filter `format` has another syntax
        if name == "join":
            arguments = tuple(list(value) if isinstance(value, Iterator) else value for value in arguments)
        values = (*(() if owner is None else (owner,)), *arguments, *named.values())
        run = super().call
        return _paid(
            name if owner is not None else "", values, lambda: run(context, obj, *arguments, **named)
        )

    def concat(self, parts: Any) -> str:
        return current_meter().collect(parts)


@cache
def template_environment() -> ImmutableSandboxedEnvironment:
    sandbox = _Sandbox(
        undefined=_Missing,
        finalize=pass_context(_printed_value),
        keep_trailing_newline=True,
        optimized=False,
    )
    del sandbox.globals["lipsum"]
    sandbox.globals["namespace"] = _Namespace
    sandbox.filters |= {"tojson": _as_json, "truncate": _truncated, "regex_search": _regex_search}
    for table in (sandbox.filters, sandbox.tests):
        for name, function in list[tuple[str, Any]](table.items()):
            table[name] = _metered_filter(name, function)
    own = {_LOOP: _loop, _READ: _read, _CONCATENATE: _concatenate}
    own[_SPEND] = lambda cost: current_meter().spend(cost)
    own[_MADE] = lambda value: current_meter().made(value)
    sandbox.filters.update(own)
    return sandbox
