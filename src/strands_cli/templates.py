"""`{{ … }}` in prompts, inputs, headers and paths: rendered strictly in a sandbox, and read without running.

Jinja costs as much to import as five bare interpreters. Plain text is never handed to it, and `names` reads
the usual forms (`{{ a }}`, `{{ a.b | trim }}`, `{{ a[0].b | default("x") }}`) by itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import Issue, SpecError, did_you_mean

if TYPE_CHECKING:
    from jinja2 import StrictUndefined, Template, nodes
    from jinja2.sandbox import SandboxedEnvironment

MOST_CHARACTERS = 10_000_000
"""The longest text that a template may become, or that one operation in it may make."""

GLOBALS = frozenset({"range", "dict", "cycler", "joiner", "namespace"})
"""Jinja's own, without the one that makes up text."""
_FILTERS = """
abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape
format groupby indent int items join last length list lower map max min pprint random reject rejectattr
replace reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate
unique upper urlencode urlize wordcount wordwrap xmlattr
"""
FILTERS = frozenset(_FILTERS.split())
_DEFAULTS = ("default", "d")
_NO_NAMES = "true false none True False None not and or if else in is loop self super"
_WORDS = frozenset(_NO_NAMES.split())

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TEXT = r"""(?:'[^'\\]*'|"[^"\\]*")"""
_ACCESS = rf"(?:\.\s*{_NAME}|\[\s*(?:-?\d+|{_TEXT})\s*\])"
_LITERAL = rf"(?:-?\d+(?:\.\d+)?|{_TEXT}|[Tt]rue|[Ff]alse|[Nn]one)"
_ARGUMENT = rf"(?:{_NAME}\s*=\s*)?{_LITERAL}"
_FILTER = rf"\|\s*{_NAME}\s*(?:\(\s*(?:{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)?\s*\))?"
_PRINT = re.compile(rf"\{{\{{[-+]?\s*({_NAME})\s*((?:{_ACCESS}\s*)*)((?:{_FILTER}\s*)*)[-+]?\}}\}}")
_PARTS = re.compile(rf"\.\s*({_NAME})|\[\s*(?:(-?\d+)|({_TEXT}))\s*\]")
_FILTER_NAMES = re.compile(rf"\|\s*({_NAME})")
_MARKS = ("{{", "{%", "{#")
Path = tuple[str | int, ...]


class Name(msgspec.Struct, frozen=True):
    """A name that a template takes from its scope, with what it asks of it: `a[0].b` is a and (0, "b")."""

    name: str
    path: Path = ()
    line: int = 0
    """Lines after the template's first."""
    guarded: bool = False
    """Whether the template says what is to be done where it is not defined."""


class Flaw(msgspec.Struct, frozen=True):
    """Why a text is no template."""

    reason: str
    line: int = 0
    remediation: str = ""


class TemplateError(SpecError):
    """A template that cannot be rendered."""

    code = "template"


class _Undefined(Exception):
    """A name that the scope, or a mapping in it, does not have; and the names that the mapping has."""

    def __init__(self, name: str, known: list[Any] | None) -> None:
        super().__init__(name)
        self.name, self.known = name, known


def render(
    text: str,
    scope: Mapping[str, Any],
    *,
    pointer: str = "",
    position: tuple[str, int, int] = ("", 0, 0),
) -> str:
    """The text with its names filled in. `pointer` and `position` say where it stands, for the error."""
    if not any(mark in text for mark in _MARKS):
        return text
    import jinja2

    # What a template computes is its author's: a wrong type or a division by zero is told, not a bug of ours.
    wrong = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError)
    try:
        return _generate(_compiled(text), scope)
    except _Undefined as error:
        reason = f"There is no name {error.name!r} here"
        known = sorted(map(str, error.known if error.known is not None else scope))
        hint = did_you_mean(error.name, known) or (f"There are {', '.join(known[:20])}." if known else "")
        line = _line(error)
    except jinja2.TemplateSyntaxError as error:
        reason = f"This is not a template: {_sentence(error)}"
        hint, line = "Correct the template.", error.lineno
    except (jinja2.TemplateError, *wrong) as error:
        reason = f"The template fails: {_sentence(error)}"
        hint, line = "Correct the template, or what it is given.", _line(error)
    reason = f"{reason}{f' (line {line} of the text)' if line and text.strip().count(chr(10)) else ''}."
    file, row, column = position
    issue = Issue(reason=reason, remediation=hint, pointer=pointer, file=file, line=row, column=column)
    message = f"{issue.place}: {reason}" if issue.place else reason
    raise TemplateError(message, hint=hint, issues=[issue])


def names(text: str) -> tuple[list[Name], list[Flaw]]:
    """The names that a template takes from its scope, and why it is none, where it is not. Never raises."""
    if not any(mark in text for mark in _MARKS):
        return [], []
    plain = _plain_names(text)
    return plain if plain is not None else _parsed_names(text)


# --- Reading without Jinja --------------------------------------------------------------------------------


def _plain_names(text: str) -> tuple[list[Name], list[Flaw]] | None:
    """What `names` answers, where a regular expression is enough; else None."""
    if "{%" in text or "{#" in text:
        return None
    found: list[Name] = []
    flaws: list[Flaw] = []
    at = text.find("{{")
    while at >= 0:
        match = _PRINT.match(text, at)
        if match is None or match[1] in _WORDS:
            return None
        line = text.count("\n", 0, at)
        filters = _FILTER_NAMES.findall(_without_texts(match[3]))
        flaws += [_unknown_filter(name, line) for name in filters if name not in FILTERS]
        if match[1] not in GLOBALS:
            found.append(Name(match[1], _path(match[2]), line, filters[:1] in (["default"], ["d"])))
        at = text.find("{{", match.end())
    return _with_guards(found), flaws


def _without_texts(text: str) -> str:
    return re.sub(_TEXT, "''", text)


def _path(text: str) -> Path:
    return tuple(
        name or (int(number) if number else quoted[1:-1]) for name, number, quoted in _PARTS.findall(text)
    )


def _with_guards(found: list[Name]) -> list[Name]:
    """`{% if a is defined %}{{ a }}`: a name that is guarded once is taken to be guarded everywhere."""
    guarded = {(name.name, name.path) for name in found if name.guarded}
    return [
        msgspec.structs.replace(name, guarded=True)
        if any((name.name, name.path[:size]) in guarded for size in range(len(name.path) + 1))
        else name
        for name in found
    ]


def _unknown_filter(name: str, line: int) -> Flaw:
    return Flaw(
        f"There is no filter {name!r}", line, did_you_mean(name, FILTERS) or "Use one of Jinja's filters."
    )


# --- Reading with Jinja -----------------------------------------------------------------------------------


def _parsed_names(text: str) -> tuple[list[Name], list[Flaw]]:
    from jinja2 import TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables

    try:
        tree = _environment().parse(text)
        flaws = _flaws(tree)
        free = set() if flaws else find_undeclared_variables(tree) - GLOBALS
        return _with_guards([name for name in _walk(tree) if name.name in free]), flaws
    except TemplateSyntaxError as error:
        return [], [Flaw(f"This is not a template: {_sentence(error)}", error.lineno - 1, "Correct it.")]
    except RecursionError:
        return [], [Flaw("This template is nested too deep", 0, "Make it simpler.")]


def _flaws(tree: "nodes.Template") -> list[Flaw]:
    """What Jinja parses and would refuse later."""
    from jinja2 import nodes

    flaws = [
        _unknown_filter(used.name, used.lineno - 1)
        for used in tree.find_all(nodes.Filter)
        if used.name not in FILTERS
    ]
    elsewhere = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    return flaws + [
        Flaw("A template here takes nothing from other files", used.lineno - 1, "Write the text out.")
        for used in tree.find_all(elsewhere)
    ]


def _walk(node: "nodes.Node", guarded: bool = False) -> Iterator[Name]:
    from jinja2 import nodes

    chain = _chain(node)
    if chain is not None:
        name, path = chain
        yield Name(name, path, node.lineno - 1, guarded)
        return
    guards = (isinstance(node, nodes.Filter) and node.name in _DEFAULTS) or (
        isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
    )
    for child in node.iter_child_nodes():
        yield from _walk(child, guards and child is getattr(node, "node", None))


def _chain(node: "nodes.Node") -> tuple[str, Path] | None:
    """`a[0].b` as its name and its path; None for anything that is not made of constants alone."""
    from jinja2 import nodes

    path: list[str | int] = []
    while True:
        if isinstance(node, nodes.Getattr):
            path.append(node.attr)
            node = node.node
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            path.append(node.arg.value)
            node = node.node
        elif isinstance(node, nodes.Getitem) and (index := _from_the_end(node.arg)) is not None:
            path.append(index)
            node = node.node
        else:
            break
    return (node.name, tuple(reversed(path))) if isinstance(node, nodes.Name) and node.ctx == "load" else None


def _from_the_end(node: "nodes.Node") -> int | None:
    """The index that `-1` is, which Jinja reads as an operation."""
    from jinja2 import nodes

    if not isinstance(node, nodes.Neg) or not isinstance(node.node, nodes.Const):
        return None
    return -node.node.value if isinstance(node.node.value, int) else None


# --- Rendering --------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _compiled(text: str) -> "Template":
    return _environment().from_string(text)


def _generate(template: "Template", scope: Mapping[str, Any]) -> str:
    parts: list[str] = []
    size = 0
    for part in template.generate(dict(scope)):
        size += len(part)
        _bound(size)
        parts.append(part)
    return "".join(parts)


def _bound(size: float) -> None:
    if size > MOST_CHARACTERS:
        raise OverflowError(f"it makes more than {MOST_CHARACTERS} characters")


def _sentence(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error).rstrip(".") or type(error).__name__


def _line(error: BaseException) -> int:
    """The line of the template that Jinja has put into the traceback."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _printed(_: Any, value: Any) -> Any:
    """What is not text, a number or a result of ours is written as JSON; nothing is written for null.

    It takes the context, which it does not need, so that Jinja computes nothing when it only compiles.
    """
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        import json

        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _size_of(left: Any, operator: str, right: Any) -> float:
    """How much `left * right` and the like would make, at least."""
    if operator == "**" and isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * abs(right)
    if operator == "%" and isinstance(left, str):
        return _widest(left)
    if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        return len(left) + len(right)
    if operator == "*" and hasattr(left, "__len__") and isinstance(right, int):
        return len(left) * right
    if operator == "*" and hasattr(right, "__len__") and isinstance(left, int):
        return len(right) * left
    return 0


def _widest(pattern: str) -> int:
    """The largest number in a format, which may be a width."""
    return max((int(width) for width in re.findall(r"\d{1,12}", pattern)), default=0)


def _bound_arguments(*given: Any) -> None:
    """Refuses numbers that could only ask for too much text."""
    for value in given:
        _bound(abs(value) if isinstance(value, int) else 0)


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that makes as much as it is told to, within bounds."""

    @wraps(function)
    def filtered(value: Any, *given: Any, **named: Any) -> Any:
        _bound_arguments(*given, *named.values(), _widest(value) if function.__name__ == "do_format" else 0)
        return function(value, *given, **named)

    return filtered


def _undefined_type() -> "type[StrictUndefined]":
    from jinja2 import StrictUndefined
    from jinja2.utils import missing

    class Missing(StrictUndefined):
        """Fails where it is used; what is below it is missing too, so that `a.b | default("x")` works."""

        def __init__(
            self, hint: str | None = None, obj: Any = missing, name: str | None = None, exc: Any = None
        ) -> None:
            def undefined(_: str) -> Exception:
                inside = list(obj) if isinstance(obj, Mapping) else []
                return _Undefined(str(name), None if obj is missing else inside)

            super().__init__(hint, obj, name, exc or undefined)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self

        def __getitem__(self, key: Any) -> Any:
            return self

    return Missing


@cache
def _environment() -> "SandboxedEnvironment":
    from jinja2 import pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def getattr(self, obj: Any, attribute: str) -> Any:
            """What a mapping holds comes before what it can do: a task or an input may be called `items`."""
            if isinstance(obj, Mapping) and attribute in obj:
                return obj[attribute]
            return super().getattr(obj, attribute)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _bound(_size_of(left, operator, right))
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, *given: Any, **named: Any) -> Any:
            owner = getattr(obj, "__self__", None)
            _bound_arguments(*given, *named.values(), _widest(owner) if isinstance(owner, str) else 0)
            return super().call(context, obj, *given, **named)

    made = Sandbox(
        undefined=_undefined_type(),
        finalize=pass_context(_printed),
        keep_trailing_newline=True,
        optimized=False,
    )
    del made.globals["lipsum"]
    for name in ("batch", "center", "format", "indent", "slice"):
        made.filters[name] = _bounded(made.filters[name])
    return made
