"""Finds the names that a template uses, without running it."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from strands_cli.errors import did_you_mean
from strands_cli.templates.meter import TooMuch, current_meter

if TYPE_CHECKING:
    from jinja2 import nodes

_MOST_FLAWS = 50
_MARKS = ("{{", "{%", "{#")
_LONGEST_KEPT = 20_000
"""Longer templates are parsed each time."""


class Each(Enum):
    """The part of a value that a loop variable stands for."""

    ITEM = "item"
    VALUE = "value"
    """A value of a mapping; its items are its keys."""


_LONGEST_PATH = 50
"""The longest path that is followed through variables; deeper names are not checked."""

Path = tuple[str | int | Each, ...]
_KEEPING_FILTERS = ("list", "reverse", "sort", "unique", "select", "reject", "selectattr", "rejectattr")
"""Filters that return some or all of their input's items."""


class Name(msgspec.Struct, frozen=True):
    """A name that a template uses, with the path below it: `a[0].b` is a and (0, "b").

    A loop variable is replaced by its source: `b` in `for b in a` is a and (Each.ITEM,).
    """

    name: str
    path: Path = ()
    line: int = 0
    """The line in the template, counted from 0."""
    guarded: bool = False
    """Whether the template handles an undefined name, for example with `default`."""


class Flaw(msgspec.Struct, frozen=True):
    """A mistake in a template."""

    reason: str
    line: int = 0
    remediation: str = ""


def may_be_template(text: str) -> bool:
    return any(mark in text for mark in _MARKS)


def jinja_message(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error).rstrip(".") or type(error).__name__


def names_in_template(text: str) -> tuple[list[Name], list[Flaw]]:
    """The names that a template uses, and its mistakes. Never raises."""
    if not may_be_template(text):
        return [], []
    from jinja2 import TemplateSyntaxError

    try:
        find = _found_names if len(text) <= _LONGEST_KEPT else _found_names.__wrapped__
        found, flaws = find(text)
        return [*found], [*flaws]
    except TemplateSyntaxError as error:
        return [], [Flaw(f"Invalid template: {jinja_message(error)}", error.lineno - 1, "Correct it.")]
    except RecursionError:
        return [], [Flaw("This template is nested too deeply", 0, "Make it simpler.")]
    except TooMuch as error:
        return [], [
            Flaw(f"This template cannot be checked: {error}", 0, "Make the templates of this file shorter.")
        ]
    except ValueError as error:  # an integer with more digits than Python accepts
        return [], [Flaw(f"Invalid template: {jinja_message(error)}", 0, "Correct it.")]


@lru_cache(maxsize=256)
def _found_names(text: str) -> tuple[tuple[Name, ...], tuple[Flaw, ...]]:
    """Kept, since a template is looked at when its file is read, when it is checked and when it is run."""
    from strands_cli.templates.environment import template_environment

    sandbox = template_environment()
    current_meter().read_code(text)
    tree = sandbox.parse(text)
    flaws = tuple(islice(_template_flaws(tree, sandbox.filters), _MOST_FLAWS))
    free = set() if flaws else _free_names(tree) - sandbox.globals.keys()
    return tuple(_with_guards([name for name in _walk_names(tree, {}, []) if name.name in free])), flaws


def _free_names(tree: "nodes.Template") -> set[str]:
    from jinja2.meta import TrackingCodeGenerator

    generator = TrackingCodeGenerator(tree.environment)  # type: ignore[arg-type]
    generator.optimizer = None  # it would evaluate constants, and only names are needed
    with current_meter().running():  # as does Jinja for `autoescape`
        generator.visit(tree)
    return generator.undeclared_identifiers


def _template_flaws(tree: "nodes.Template", filters: Mapping[str, object]) -> Iterator[Flaw]:
    """Mistakes that Jinja's parser accepts, but rendering would not."""
    from jinja2 import nodes

    for used in tree.find_all(nodes.Filter):
        if used.name not in filters:
            hint = did_you_mean(used.name, filters) or "Use one of Jinja's filters."
            yield Flaw(f"There is no filter {used.name!r}", used.lineno - 1, hint)
    for taken in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        reason = "Templates cannot include other files"
        yield Flaw(reason, taken.lineno - 1, "Write the text here.")


def _with_guards(found: list[Name]) -> list[Name]:
    """`{% if a is defined %}{{ a }}`: a name that is guarded once counts as guarded everywhere."""
    guarded = {(name.name, name.path) for name in found if name.guarded}
    return [
        msgspec.structs.replace(name, guarded=True)
        if any((name.name, name.path[:size]) in guarded for size in range(len(name.path) + 1))
        else name
        for name in found
    ]


_Locals = dict[str, tuple[str, Path] | None]
"""The template's own variables with the names they stand for; None if unknown."""


def _walk_names(node: "nodes.Node", local: _Locals, found: list[Name], guarded: bool = False) -> list[Name]:
    """Adds the names below a node to a list: nested generators would pass on each name once per level."""
    from jinja2 import nodes

    chain = name_and_path(node)
    if chain is not None:
        if (meant := _without_locals(chain, local)) is not None:
            found.append(Name(*meant, node.lineno - 1, guarded))
        return found
    children, inner = list(node.iter_child_nodes()), local
    match node:
        case nodes.For(target=target, iter=source):
            for child in (source, *node.else_):
                _walk_names(child, local, found)
            children = [*node.body, *([node.test] if node.test else [])]
            inner = {**local, "loop": None, **_loop_variables(target, source, local)}
        case nodes.Assign(target=nodes.Name(name=name), node=value):
            _walk_names(value, local, found)
            # A variable that is set twice may have either value.
            local[name] = _value_source(value, local) if name not in local else None
            return found
        case nodes.Macro(args=made) | nodes.CallBlock(args=made) | nodes.With(targets=made):
            inner = {**local, **dict.fromkeys(name.name for made_ in made for name in _names_made(made_))}
        case nodes.AssignBlock(target=target):
            inner = {**local, **dict.fromkeys(name.name for name in _names_made(target))}
        case nodes.Filter():
            found += _names_of_attributes(node, local)
    guards = (isinstance(node, nodes.Filter) and node.name in ("default", "d")) or (
        isinstance(node, nodes.Test) and node.name in ("defined", "undefined")
    )
    for child in children:
        _walk_names(child, inner, found, guards and child is getattr(node, "node", None))
    return found


def _names_made(target: "nodes.Node") -> "list[nodes.Name]":
    from jinja2 import nodes

    return [target] if isinstance(target, nodes.Name) else list(target.find_all(nodes.Name))


def _without_locals(chain: tuple[str, Path], local: _Locals) -> tuple[str, Path] | None:
    """A name and its path in the scope; None for the template's own values."""
    name, path = chain
    if name not in local:
        return chain
    source = local[name]
    if source is None or len(source[1]) > _LONGEST_PATH:
        return None
    return source[0], (*source[1], *path)


def _value_source(node: "nodes.Node | None", local: _Locals) -> tuple[str, Path] | None:
    chain = name_and_path(node) if node is not None else None
    return None if chain is None else _without_locals(chain, local)


def _item_source(node: "nodes.Node | None", local: _Locals) -> tuple[str, Path] | None:
    """The name and path that an item of a value stands for."""
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
    """`steps | map(attribute="response")` uses the response of each step."""
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
    """`a[0].b` as its name and its path; None if a part of the path is not a constant."""
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
                path.append(-index)  # Jinja parses a negative index as an operation
            case _:
                return None
        node = inner
