"""The value of an expression, as far as it can be told without running anything.

What cannot be told is an `Unread` in the place where the value would stand, so that a dictionary with one
computed entry still gives all the others.
"""

import ast
import os
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolCategory
from strands_cli.tools._discovery.literals import LITERALS, Evaluator, describe, dotted_name
from strands_cli.tools._discovery.scope import END, Binding, Scope
from strands_cli.tools._discovery.source import parse, resolve_import
from strands_cli.tools._discovery.values import ONLY_RUNNING, SpecCall, Unread

MAX_DEPTH = 100
MAX_STEPS = 100_000
"""How many parts one reading may look at: a few names that double each other would be endless."""

OUR_PACKAGES = ("strands_cli", "strands")
SPEC_CLASSES = frozenset({"ToolSpec", "ToolInfo"})
_CATEGORIES = frozenset({"ToolCategory"})


class Sources:
    """The files of one reading. Each is parsed once; all of them share one allowance of steps."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, None] = {}
        self.steps = MAX_STEPS
        self.depth = 0
        self.underway: set[tuple[Path, str, int]] = set()
        self._readers: dict[Path, ModuleReader | Issue] = {}

    def open(self, file: Path) -> "ModuleReader | Issue":
        if file not in self._readers:
            self.seen[str(file)] = None
            tree = parse(file)
            self._readers[file] = tree if isinstance(tree, Issue) else ModuleReader(self, file, tree)
        return self._readers[file]

    def file_of(self, path: Path | None) -> Path | None:
        """The package or module file behind a path without a suffix, if there is one."""
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")) if path else ():
            self.seen[str(candidate)] = None
            if os.path.isfile(candidate):  # noqa: PTH113 - Path.is_file raises where a name is too long
                return candidate
        return None


class Module(msgspec.Struct, frozen=True, eq=False):
    """A module of the tools directory that another one has imported as a whole."""

    reader: "ModuleReader"


class ModuleReader:
    """One file: the values of its names, and where they are defined."""

    def __init__(self, sources: Sources, file: Path, tree: ast.Module) -> None:
        self.sources = sources
        self.file = file
        self.scope = Scope(tree)
        self.docstring = ast.get_docstring(tree, clean=False)

    def value(self, name: str) -> Any:
        """The value of a module-level name once the module is loaded, or an Unread."""
        return self._value(name, END, 1, "")

    def binds(self, name: str) -> bool:
        return self.scope.last(name) is not None

    def find(self, name: str) -> "Found | None":
        """Where a name is defined, through imports of files in the tools directory."""
        reader, binding = self, self.scope.last(name)
        visited = set()
        while binding and binding.module is not None and (reader.file, binding.name) not in visited:
            visited.add((reader.file, binding.name))
            target = reader._imported_from(binding)
            inner = target.scope.last(binding.imported) if target else None
            if target is None or inner is None:
                break
            reader, binding = target, inner
        if binding is None:
            return Found(self, self.scope.stars[0]) if self.scope.stars else None
        return Found(reader, binding)

    def origin_of(self, node: ast.expr, names: frozenset[str]) -> str:
        """Which of our packages an expression takes one of these names from, under whatever alias."""
        if isinstance(node, ast.Attribute) and node.attr in names:
            root = dotted_name(node).partition(".")[0]
            packages = [_package(binding) for binding in self.scope.bindings.get(root, ())]
        elif isinstance(node, ast.Name):
            packages = [self._origin(binding, names) for binding in self.scope.bindings.get(node.id, ())]
        else:
            return ""
        return next(filter(None, packages), "")

    def _origin(self, binding: Binding, names: frozenset[str]) -> str:
        if binding.module is None:
            return ""
        if not _package(binding):
            found = self.find(binding.name)
            binding = (found and found.binding) or binding
        return _package(binding) if binding.imported in names else ""

    def unread(self, node: ast.AST | int, reason: str) -> Unread:
        return Unread(str(self.file), node if isinstance(node, int) else getattr(node, "lineno", 1), reason)

    def spend(self, steps: int) -> None:
        self.sources.steps -= steps

    # --- names --------------------------------------------------------------------------------------------

    def _value(self, name: str, before: int, line: int, prefix: str) -> Any:
        binding = self.scope.last(name, before)
        if binding is None:
            return self._value_of_unbound(name, line, prefix)
        if name in self.scope.changes:
            place = self.scope.changes[name]
            return self.unread(place, f"{prefix}is changed on line {place}, {ONLY_RUNNING}")
        if binding.how:
            reason = f"{prefix}is decided by {binding.how} on line {binding.line}, {ONLY_RUNNING}"
            return self.unread(binding.line, reason)
        key = (self.file, name, binding.order)
        if key in self.sources.underway:
            return self.unread(binding.line, f"{prefix}is defined by itself: its imports form a circle")
        self.sources.underway.add(key)
        try:
            return self._bound_value(binding, prefix)
        finally:
            self.sources.underway.discard(key)

    def _bound_value(self, binding: Binding, prefix: str) -> Any:
        if binding.value is not None:
            return self.evaluate(binding.value, binding.order)
        if binding.module is not None:
            return self._imported_value(binding, prefix)
        return self.unread(binding.line, f"{prefix}is a function or a class, not a value that can be read")

    def _value_of_unbound(self, name: str, line: int, prefix: str) -> Any:
        if name == "__doc__":
            return self.docstring
        for star in self.scope.stars:
            target = self._imported_from(star)
            if target and target.binds(name):
                return target.value(name)
        if self.scope.stars:
            reason = f"{prefix}may come from 'from {self.scope.stars[0].module} import *', {ONLY_RUNNING}"
            return self.unread(line, reason)
        return self.unread(line, f"{prefix or f'is {name!r}, which '}the file neither assigns nor imports")

    # --- imports ------------------------------------------------------------------------------------------

    def _imported_value(self, binding: Binding, prefix: str) -> Any:
        target = self._imported_from(binding)
        if target and not binding.imported:
            return Module(target)
        if target and target is not self and target.binds(binding.imported):
            return target.value(binding.imported)
        submodule = self._submodule(binding)
        if submodule:
            return Module(submodule)
        return self.unread(binding.line, prefix + self._why_not_imported(binding, target))

    def _imported_from(self, binding: Binding) -> "ModuleReader | None":
        reader = self.open_module(binding.module or "", binding.level)
        return None if isinstance(reader, Issue) else reader

    def open_module(self, module: str, level: int = 0) -> "ModuleReader | Issue | None":
        """The file of the tools directory that a module's name means here, if it is one of them."""
        path = resolve_import(self.file, self.sources.root, module, level)
        file = self.sources.file_of(path)
        return self.sources.open(file) if file else None

    def _submodule(self, binding: Binding) -> "ModuleReader | None":
        path = resolve_import(self.file, self.sources.root, binding.module or "", binding.level)
        file = self.sources.file_of(path / binding.imported if path else None)
        reader = self.sources.open(file) if file else None
        return None if isinstance(reader, Issue) else reader

    def _why_not_imported(self, binding: Binding, target: "ModuleReader | None") -> str:
        module = "." * binding.level + (binding.module or "")
        reader = self.open_module(binding.module or "", binding.level)
        if isinstance(reader, Issue):
            return f"comes from {module}, which cannot be read ({Path(reader.file).name}:{reader.line})"
        if target is not None:
            return f"comes from {module}, which does not have {binding.imported!r}"
        return f"comes from {module}, which is not a file of the tools directory"

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr, before: int = END) -> Any:
        """The value of an expression where it stands; `before` is the order of its statement."""
        if isinstance(node, ast.Constant):
            return node.value
        self.sources.steps -= 1
        if self.sources.steps < 0:
            return self.unread(node, "is too large to be read without running the module")
        if self.sources.depth >= MAX_DEPTH:
            return self.unread(node, "is nested too deeply to be read without running the module")
        evaluator = _EVALUATORS.get(type(node))
        if evaluator is None:
            return self.unread(node, describe(node))
        self.sources.depth += 1
        try:
            return evaluator(self, node, before)
        finally:
            self.sources.depth -= 1

    def _name(self, node: ast.Name, before: int) -> Any:
        return self._value(node.id, before, node.lineno, f"uses {node.id!r}, which ")

    def _attribute(self, node: ast.Attribute, before: int) -> Any:
        if self.origin_of(node.value, _CATEGORIES):
            member = ToolCategory.__members__.get(node.attr)
            return member.value if member else node.attr.lower()
        owner = self.evaluate(node.value, before)
        if isinstance(owner, Module):
            return owner.reader._value(node.attr, END, 1, f"uses {dotted_name(node)}, which ")
        if isinstance(owner, SpecCall) and node.attr in owner.arguments:
            return owner.arguments[node.attr]
        reason = f"reads {dotted_name(node) or f'the attribute {node.attr}'}, {ONLY_RUNNING}"
        return owner if isinstance(owner, Unread) and not dotted_name(node) else self.unread(node, reason)

    def _call(self, node: ast.Call, before: int) -> Any:
        if self.origin_of(node.func, SPEC_CLASSES):
            return self._spec_call(node, before)
        if isinstance(node.func, ast.Name) and node.func.id == "set" and not (node.args or node.keywords):
            return set()
        return self.unread(node, describe(node))

    def _spec_call(self, node: ast.Call, before: int) -> Any:
        if node.args:
            return self.unread(node, "has an argument without a name, and ToolSpec takes named ones only")
        arguments, lines = self.keywords(node, before)
        if isinstance(arguments, Unread):
            return arguments
        return SpecCall(str(self.file), node.lineno, arguments, lines)

    def keywords(self, node: ast.Call, before: int) -> tuple[dict[str, Any] | Unread, dict[str, int]]:
        """The named arguments of a call, and the line of each."""
        arguments: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, before)
            if keyword.arg is not None:
                arguments[keyword.arg] = value
                lines[keyword.arg] = keyword.value.lineno
            elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
                arguments |= value
                lines |= dict.fromkeys(value, keyword.value.lineno)
            else:
                wrong = self.unread(keyword.value, "unpacks something that is not a dictionary")
                return (value if isinstance(value, Unread) else wrong), lines
        return arguments, lines


class Found(msgspec.Struct, frozen=True, eq=False):
    """Where a name was found to be defined."""

    reader: ModuleReader
    binding: Binding | None
    """None where the name is known only from what somebody says of it."""


def _package(binding: Binding) -> str:
    """The package of ours that a binding imports from, or nothing."""
    package = "" if binding.level else (binding.module or "").partition(".")[0]
    return package if package in OUR_PACKAGES else ""


_EVALUATORS: dict[type[ast.AST], Evaluator] = {
    **LITERALS,
    ast.Name: ModuleReader._name,
    ast.Attribute: ModuleReader._attribute,
    ast.Call: ModuleReader._call,
}
