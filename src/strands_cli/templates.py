"""`{{ … }}` in prompts, inputs, headers and paths: rendered strictly in a sandbox, and read without running.

Jinja is imported only for a text with something to render. Plain text is never handed to it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import Issue, SpecError, did_you_mean

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import SandboxedEnvironment

    from strands_cli.types.sections import BaseSpec

MAX_CHARACTERS = 10_000_000
"""The longest text that a template may become, or that one operation in it may make."""

_MARKS = ("{{", "{%", "{#")


class Each(Enum):
    """What a loop takes of the value it goes through."""

    ITEM = "item"
    VALUE = "value"
    """Of a mapping, whose items are its keys."""


Path = tuple[str | int | Each, ...]
_KEEPING_FILTERS = ("list", "reverse", "sort", "unique", "select", "reject", "selectattr", "rejectattr")
"""Their items are some of those that they are given."""


class Name(msgspec.Struct, frozen=True):
    """A name that a template takes from its scope, with what it asks of it: `a[0].b` is a and (0, "b").

    A variable of a loop is what it stands for: `b` in `for b in a` is a and (Each.ITEM,).
    """

    name: str
    path: Path = ()
    line: int = 0
    """Lines after the template's first."""
    guarded: bool = False
    """Whether the template says what to do if it is not defined."""


class Flaw(msgspec.Struct, frozen=True):
    """Why a text is not a template."""

    reason: str
    line: int = 0
    remediation: str = ""


class TemplateError(SpecError):
    """A template that cannot be rendered."""

    code = "template"


class _UndefinedName(Exception):
    """A name that the scope, or a mapping in it, does not have; and the names that the mapping has."""

    def __init__(self, name: str, known: list[Any] | None) -> None:
        super().__init__(name)
        self.name, self.known = name, known


def render(
    text: str,
    scope: Mapping[str, Any],
    *,
    spec: "BaseSpec | None" = None,
    pointer: str = "",
) -> str:
    """The text with its names filled in. An error says where the text stands, at `pointer` in `spec`."""
    if not any(mark in text for mark in _MARKS):
        return text
    import jinja2

    # What a template computes is its author's: a wrong type or a division by zero is not a bug of ours.
    # A SyntaxError is Python's: loops in loops, deeper than it compiles.
    wrong = (
        *(ArithmeticError, LookupError, TypeError, ValueError, AttributeError),
        *(SyntaxError, RecursionError, MemoryError),
    )
    parts: list[str] = []
    size = 0
    try:
        for part in _compiled_template(text).generate(dict(scope)):
            size += len(part)
            _check_text_size(size)
            parts.append(part)
        return "".join(parts)
    except _UndefinedName as error:
        reason = f"There is no name {error.name!r} here"
        known = sorted(map(str, error.known if error.known is not None else scope))
        hint = did_you_mean(error.name, known) or (f"Available: {', '.join(known[:20])}." if known else "")
        line = _template_line(error)
    except jinja2.TemplateSyntaxError as error:
        reason = f"Invalid template: {_jinja_message(error)}"
        hint, line = "Correct the template.", error.lineno
    except (jinja2.TemplateError, *wrong) as error:
        reason = f"The template failed: {_jinja_message(error)}"
        hint, line = "Fix the template, or the values it gets.", _template_line(error)
    reason = f"{reason}{f' (line {line} of the text)' if line and text.strip().count(chr(10)) else ''}."
    if spec is not None:
        issue = spec.issue(pointer, reason, hint)
    else:
        issue = Issue(reason=reason, remediation=hint, pointer=pointer)
    message = f"{issue.place}: {reason}" if issue.place else reason
    raise TemplateError(message, hint=hint, issues=[issue])


def render_known(text: str, scope: Mapping[str, Any]) -> str:
    """As `render`, as far as the scope goes: a part that needs other names stays as it is written.

    So does what could take long: to look at a file must be quick, whatever stands in it.
    """
    parts = _template_parts(text)
    if len(parts) > _MOST_PARTS:
        return text
    size = len(str(scope)) + len(text) if _LOOP.search(text) else 0
    return "".join(_render_part(part, scope, size) for part in parts)


def _render_part(part: str, scope: Mapping[str, Any], size: int) -> str:
    loops = len(_LOOP.findall(part))
    if _ENDLESS.search(part) or (loops and (size ** (loops + 1) > _MOST_WORK or _GROWING.search(part))):
        return part
    names, flaws = names_in_template(part)
    if flaws or any(name.name not in scope for name in names):
        return part
    try:
        return render(part, scope)
    except TemplateError:
        return part


_ENDLESS = re.compile(
    r"\b(?:range|namespace|cycler|joiner|recursive|self|wordwrap)\b|\{%[-+]?\s*(?:set|macro)\b"
)
_LOOP = re.compile(r"\{%[-+]?\s*for\b")
_GROWING = re.compile(r"\*|\d{5,}|\b(?:replace|format|center|indent|with)\b|\bjoin\((?!['\"])")
"""What can make a long text of a short one, for a loop to go through."""
_MOST_PARTS = 2000
_MOST_WORK = 100_000_000
"""What nested loops over all characters of scope and text may come to, with a filter in the innermost."""
_OPENING_TAGS = ("for", "if", "call", "filter", "with", "autoescape", "block")


def _template_parts(text: str) -> list[str]:
    """A template cut into texts, expressions and whole statements, each of which can be rendered by itself.

    A template that makes variables or macros is one part.
    """
    if not any(mark in text for mark in _MARKS):
        return [text]
    from jinja2 import TemplateSyntaxError

    parts, part, depth, last = [], "", 0, ""
    try:
        for _, kind, token in template_environment().lex(text):
            is_tag = last == "block_begin" and kind != "whitespace"
            if is_tag and token in ("set", "macro"):
                return [text]
            depth += is_tag and (token in _OPENING_TAGS) - token.startswith("end")
            depth += (kind == "raw_begin") - (kind == "raw_end")
            last = kind if kind != "whitespace" else last
            part += token
            if depth == 0 and (kind == "data" or kind.endswith("_end")):
                parts.append(part)
                part = ""
    except TemplateSyntaxError:
        return [text]
    return [*parts, part]


# --- Reading ----------------------------------------------------------------------------------------------


def names_in_template(text: str) -> tuple[list[Name], list[Flaw]]:
    """The names that a template takes from its scope, and why a text is not a template. Never raises."""
    if not any(mark in text for mark in _MARKS):
        return [], []
    from jinja2 import TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables

    try:
        tree = template_environment().parse(text)
        flaws = [*_template_flaws(tree)]
        free = set() if flaws else find_undeclared_variables(tree) - template_environment().globals.keys()
        return _with_guards([name for name in _walk_names(tree, {}) if name.name in free]), flaws
    except TemplateSyntaxError as error:
        return [], [Flaw(f"Invalid template: {_jinja_message(error)}", error.lineno - 1, "Correct it.")]
    except RecursionError:
        return [], [Flaw("This template is nested too deep", 0, "Make it simpler.")]


def _template_flaws(tree: "nodes.Template") -> Iterator[Flaw]:
    """What Jinja parses and would refuse later."""
    from jinja2 import nodes

    filters = template_environment().filters
    for used in tree.find_all(nodes.Filter):
        if used.name not in filters:
            hint = did_you_mean(used.name, filters) or "Use one of Jinja's filters."
            yield Flaw(f"There is no filter {used.name!r}", used.lineno - 1, hint)
    for taken in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        reason = "Templates cannot include other files"
        yield Flaw(reason, taken.lineno - 1, "Write the text here.")


def _with_guards(found: list[Name]) -> list[Name]:
    """`{% if a is defined %}{{ a }}`: a name that is guarded once is taken to be guarded everywhere."""
    guarded = {(name.name, name.path) for name in found if name.guarded}
    return [
        msgspec.structs.replace(name, guarded=True)
        if any((name.name, name.path[:size]) in guarded for size in range(len(name.path) + 1))
        else name
        for name in found
    ]


_Locals = dict[str, tuple[str, Path] | None]
"""The variables that a template makes itself, with what they stand for; None if that may be anything."""


def _walk_names(node: "nodes.Node", local: _Locals, guarded: bool = False) -> Iterator[Name]:
    from jinja2 import nodes

    chain = name_and_path(node)
    if chain is not None:
        if (meant := _without_locals(chain, local)) is not None:
            yield Name(*meant, node.lineno - 1, guarded)
        return
    children, inner = list(node.iter_child_nodes()), local
    match node:
        case nodes.For(target=target, iter=source):
            yield from _walk_names(source, local)
            yield from (name for child in node.else_ for name in _walk_names(child, local))
            children = [*node.body, *([node.test] if node.test else [])]
            inner = {**local, "loop": None, **_loop_variables(target, source, local)}
        case nodes.Assign(target=nodes.Name(name=name), node=value):
            yield from _walk_names(value, local)
            # What is set twice may be either.
            local[name] = _value_source(value, local) if name not in local else None
            return
        case nodes.Macro() | nodes.CallBlock() | nodes.With() | nodes.AssignBlock():
            inner = {
                **local,
                **dict.fromkeys(made.name for made in node.find_all(nodes.Name) if made.ctx != "load"),
            }
        case nodes.Filter():
            yield from _names_of_attributes(node, local)
    guards = (isinstance(node, nodes.Filter) and node.name in ("default", "d")) or (
        isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
    )
    for child in children:
        yield from _walk_names(child, inner, guards and child is getattr(node, "node", None))


def _without_locals(chain: tuple[str, Path], local: _Locals) -> tuple[str, Path] | None:
    """A name and its path as the scope has them; None for what the template has made itself."""
    name, path = chain
    if name not in local:
        return chain
    source = local[name]
    return None if source is None else (source[0], (*source[1], *path))


def _value_source(node: "nodes.Node | None", local: _Locals) -> tuple[str, Path] | None:
    chain = name_and_path(node) if node is not None else None
    return None if chain is None else _without_locals(chain, local)


def _item_source(node: "nodes.Node | None", local: _Locals) -> tuple[str, Path] | None:
    """What an item of a value stands for."""
    from jinja2 import nodes

    step, method = Each.ITEM, ""
    while isinstance(node, nodes.Filter) and node.name in _KEEPING_FILTERS:
        node = node.node
    if isinstance(node, nodes.Call) and isinstance(called := node.node, nodes.Getattr):
        node, method, step = called.node, called.attr, Each.VALUE
    source = _value_source(node, local) if method in ("", "values") else None
    return None if source is None else (source[0], (*source[1], step))


def _loop_variables(target: "nodes.Node", source: "nodes.Node", local: _Locals) -> _Locals:
    from jinja2 import nodes

    match target, source:
        case nodes.Name(name=name), _:
            return {name: _item_source(source, local)}
        case (
            nodes.Tuple(items=[nodes.Name(name=key), nodes.Name(name=value)]),
            nodes.Call(node=nodes.Getattr(node=mapping, attr="items")),
        ):
            found = _value_source(mapping, local)
            return {key: None, value: found and (found[0], (*found[1], Each.VALUE))}
    return {made.name: None for made in target.find_all(nodes.Name)}


def _names_of_attributes(node: "nodes.Filter", local: _Locals) -> Iterator[Name]:
    """`steps | map(attribute="response")` asks for the response of each step."""
    from jinja2 import nodes

    named = [pair.value for pair in node.kwargs if pair.key == "attribute"]
    if node.name in ("selectattr", "rejectattr", "groupby"):
        named += node.args[:1]
    source = _item_source(node.node, local)
    guarded = any(pair.key == "default" for pair in node.kwargs) or any(
        isinstance(test, nodes.Const) and test.value in ("defined", "undefined") for test in node.args[1:2]
    )
    for value in named:
        if source is not None and isinstance(value, nodes.Const) and isinstance(value.value, str):
            for attribute in value.value.split(",") if node.name == "sort" else [value.value]:
                parts = (int(part) if part.isdigit() else part for part in attribute.split("."))
                yield Name(source[0], (*source[1], *parts), node.lineno - 1, guarded)


def name_and_path(node: "nodes.Node") -> tuple[str, Path] | None:
    """`a[0].b` as its name and its path; None for anything that is not made of constants alone."""
    from jinja2 import nodes

    path: list[str | int] = []
    while True:
        match node:
            case nodes.Name(name=name, ctx="load"):
                return name, tuple(reversed(path))
            case (
                nodes.Getattr(node=inner, attr=part) | nodes.Getitem(node=inner, arg=nodes.Const(value=part))
            ):
                path.append(part)
            case nodes.Getitem(node=inner, arg=nodes.Neg(node=nodes.Const(value=int(index)))):
                path.append(-index)  # which Jinja reads as an operation
            case _:
                return None
        node = inner


# --- Rendering --------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _compiled_template(text: str) -> "Template":
    return template_environment().from_string(text)


def _check_text_size(size: float) -> None:
    if size > MAX_CHARACTERS:
        raise OverflowError(f"it makes more than {MAX_CHARACTERS} characters")


def _jinja_message(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error).rstrip(".") or type(error).__name__


def _template_line(error: BaseException) -> int:
    """The line of the template that Jinja has put into the traceback."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _printed_value(_: Any, value: Any) -> Any:
    """What is not text, a number or a result of ours is written as JSON; nothing is written for null.

    It takes the context, which it does not need, so that Jinja computes nothing when it only compiles.
    """
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        import json

        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _result_size(left: Any, operator: str, right: Any) -> float:
    """How much `left * right` and the like would make, at least."""
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * abs(right)
    if operator == "%" and isinstance(left, str):
        return _max_width(left)
    if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        return len(left) + len(right)
    if operator == "*" and hasattr(left, "__len__") and isinstance(right, int):
        return len(left) * right
    if operator == "*" and hasattr(right, "__len__") and isinstance(left, int):
        return len(right) * left
    return 0


def _max_width(pattern: str) -> int:
    """The largest number in a format, which may be a width."""
    return max((int(width) for width in re.findall(r"\d{1,12}", pattern)), default=0)


def _bound_arguments(*arguments: Any) -> None:
    """Refuses numbers that could only ask for too much text."""
    for value in arguments:
        _check_text_size(abs(value) if isinstance(value, int) else 0)


def _bounded_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose output grows with an argument, within bounds."""

    @wraps(function)
    def filtered(value: Any, *arguments: Any, **named: Any) -> Any:
        _bound_arguments(
            *arguments, *named.values(), _max_width(value) if function.__name__ == "do_format" else 0
        )
        return function(value, *arguments, **named)

    return filtered


@cache
def template_environment() -> "SandboxedEnvironment":
    from jinja2 import ChainableUndefined, StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import missing

    class Missing(ChainableUndefined, StrictUndefined):
        """Fails when it is used; what is below it is missing too, so that `a.b | default("x")` works."""

        def __init__(self, hint: Any = None, obj: Any = missing, name: Any = None, exc: Any = None) -> None:
            def undefined(_: str) -> Exception:
                inside = list(obj) if isinstance(obj, Mapping) else []
                return _UndefinedName(str(name), None if obj is missing else inside)

            super().__init__(hint, obj, name, exc or undefined)  # type: ignore[arg-type]

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def getattr(self, obj: Any, attribute: str) -> Any:
            """What a mapping holds comes before what it can do: a task or an input may be called `items`."""
            if isinstance(obj, Mapping) and attribute in obj:
                return obj[attribute]
            return super().getattr(obj, attribute)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _check_text_size(_result_size(left, operator, right))
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, *arguments: Any, **named: Any) -> Any:
            owner = getattr(obj, "__self__", None)
            _bound_arguments(*arguments, *named.values(), _max_width(owner) if isinstance(owner, str) else 0)
            return super().call(context, obj, *arguments, **named)

    sandbox = Sandbox(
        undefined=Missing,
        finalize=pass_context(_printed_value),
        keep_trailing_newline=True,
        optimized=False,
    )
    del sandbox.globals["lipsum"]
    for name in ("batch", "center", "format", "indent", "slice"):
        sandbox.filters[name] = _bounded_filter(sandbox.filters[name])
    return sandbox
