"""The values of a module's names, as far as its text tells them. Nothing is run.

Read are literals, names that the module assigns once, names of sibling files, `ToolSpec(…)`,
`ToolCategory.X`, `+` and `**`. Whatever else stands there is an `Unread` in the place of the value, with line
and reason, so that a dictionary with one computed entry still gives all the others. A name that is assigned
twice, or changed in any way, is unread as a whole: what it holds in the end is for running to tell.
"""

import ast
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.files import TooLarge, read_regular_file, unread_reason
from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolCategory

MAX_SOURCE_BYTES = 250_000
MAX_DEPTH = 100
MAX_STEPS = 100_000
"""How many parts one reading may look at: a few names that double each other would be endless."""
_CHARACTERS_PER_STEP = 64
ONLY_RUNNING = "which only running the module can answer"

_OUR_PACKAGES = ("strands_cli", "strands")
_SPEC_CLASSES = frozenset({"ToolSpec", "ToolInfo"})
_CATEGORIES = frozenset({"ToolCategory"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def parse_source_file(file: Path) -> ast.Module | Issue:
    """The file's syntax tree, or why it cannot be parsed."""
    try:
        data = read_regular_file(file, MAX_SOURCE_BYTES)
    except TooLarge as error:
        remedy = "Move its data into a separate file."
        return Issue(file=str(file), reason=unread_reason(error), remediation=remedy)
    except (OSError, ValueError) as error:
        remedy = "Make the file readable, or move it out of the tools directory."
        return Issue(file=str(file), reason=unread_reason(error), remediation=remedy)
    try:
        with warnings.catch_warnings():
            # A warning about somebody's backslash is for whoever runs that file.
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python does not tell the line of a null byte.
        line = getattr(error, "lineno", None) or data.count(b"\n", 0, max(data.find(b"\0"), 0)) + 1
        column = max(getattr(error, "offset", None) or 0, 0)
        reason = f"Syntax error: {getattr(error, 'msg', None) or str(error) or type(error).__name__}."
        remedy = "Fix the file; its tools cannot be loaded."
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as undecoded:
            if b"coding" not in data[:200]:
                line, column = data.count(b"\n", 0, undecoded.start) + 1, 0
                byte = data[undecoded.start]
                reason = f"It is not UTF-8: the byte 0x{byte:02x} on line {line} cannot be decoded."
                remedy = "Save the file as UTF-8."
        return Issue(file=str(file), line=line, column=column, reason=reason, remediation=remedy)


def resolve_import(file: Path, root: Path, module: str, level: int) -> Path | None:
    """The path, without a suffix, that an import in `file` means; None where that is outside of `root`.

    An absolute import is matched by the names of the directories around the file, since the package that a
    tools directory will be loaded as is not always the one that its author had in mind.
    """
    here = file.parent
    parts = module.split(".") if module else []
    if level:
        base = [here, *here.parents][min(level - 1, len(here.parents))]
        return base.joinpath(*parts) if base.is_relative_to(root) else None
    if len(parts) == 1:
        return here / parts[0]
    for anchor in (here, here.parent):
        if anchor.is_relative_to(root) and anchor.name in parts:
            last = len(parts) - 1 - parts[::-1].index(anchor.name)
            return anchor.joinpath(*parts[last + 1 :])
    return None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One statement that gives a name its value: an assignment, a definition or an import."""

    name: str
    """`*` for an import of everything."""
    line: int
    is_certain: bool
    """Whether it happens whenever the module is loaded, and to the whole of `value`."""
    value: ast.expr | None = None
    definition: Definition | None = None
    module: str | None = None
    level: int = 0
    imported: str = ""
    """The name within `module`; empty where the module itself is meant."""

    @property
    def our_package(self) -> str:
        """The package of ours that it imports from, or nothing."""
        package = "" if self.level else (self.module or "").partition(".")[0]
        return package if package in _OUR_PACKAGES else ""


_CHANGING_METHODS = (
    frozenset(dir(dict) + dir(list)) - set(dir(tuple)) - {"copy", "get", "items", "keys", "values"}
)


class Scope:
    """The bindings of a module, and the names that something changes besides binding them."""

    def __init__(self, tree: ast.Module) -> None:
        self.bindings: dict[str, list[Binding]] = {}
        self._changes: dict[str, int] = {}
        """The line of the first change, by name."""
        self._assigned: set[ast.expr] = set()
        for node, is_certain in _module_nodes(tree):
            self._add_bindings(node, is_certain)
            self._add_changes(node, is_certain)
        for name in list(self._changes):
            self._change_aliases(name)

    def last(self, name: str) -> Binding | None:
        return self.bindings[name][-1] if name in self.bindings else None

    def definitions(self) -> list[Definition]:
        """The functions and classes that are there in the end, in the order in which they are written."""
        last = [bindings[-1].definition for bindings in self.bindings.values()]
        return sorted((found for found in last if found is not None), key=lambda found: found.lineno)

    def line_of_change(self, name: str) -> int:
        """The line that leaves a name's value to running: a change, a branch, a second assignment; or 0."""
        *earlier, last = self.bindings[name]
        return self._changes.get(name, last.line if earlier or not last.is_certain else 0)

    def _add_bindings(self, node: ast.AST, is_certain: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self._bind(name, node, is_certain, module=alias.name if alias.asname else name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                where = {"module": node.module or "", "level": node.level, "imported": alias.name}
                self._bind(alias.asname or alias.name, node, is_certain, **where)
        elif isinstance(node, Definition):
            self._bind(node.name, node, is_certain, definition=node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    self._assigned.add(target)
                    self._bind(target.id, target, is_certain, value=node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in self._assigned:
            self._bind(node.id, node, False)  # unpacking, a loop's head, `with … as`, `:=`

    def _add_changes(self, node: ast.AST, is_certain: bool) -> None:
        if isinstance(node, Definition):
            self._add_body_changes(node)
        elif isinstance(node, ast.AugAssign):
            self._change(node.target)
        elif isinstance(node, ast.Delete) and is_certain:
            for target in node.targets:
                self.bindings.pop(getattr(target, "id", ""), None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            self._change(node.func)  # whether a method changes what it is called on is not for us to know
        elif isinstance(node, ast.expr) and _is_change(node):
            self._change(node)

    def _add_body_changes(self, definition: Definition) -> None:
        """A function may change what the module has: `global X`, `X["key"] = …`, `X.update(…)`."""
        nodes = list(ast.walk(definition))
        own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        for node in nodes:
            if isinstance(node, ast.Global):
                for name in node.names:
                    self._changes.setdefault(name, node.lineno)
            elif isinstance(node, ast.expr) and _is_change(node):
                self._change(node, own)

    def _bind(self, name: str, node: ast.stmt | ast.expr, is_certain: bool, **parts: Any) -> None:
        binding = Binding(name=name, line=node.lineno, is_certain=is_certain, **parts)
        self.bindings.setdefault(name, []).append(binding)

    def _change(self, target: ast.expr, own: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        line = target.lineno
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id not in own:
            self._changes.setdefault(target.id, line)

    def _change_aliases(self, name: str) -> None:
        """`X = TOOL_SPEC` and a change of X change TOOL_SPEC too."""
        for binding in self.bindings.get(name, ()):
            if isinstance(binding.value, ast.Name) and binding.value.id not in self._changes:
                self._changes[binding.value.id] = self._changes[name]
                self._change_aliases(binding.value.id)


def _module_nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """What is not inside a function or a class, in the order in which it is written; and whether it is a
    statement of the module itself.
    """
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in reversed(tree.body)]
    while waiting:
        node, is_certain = waiting.pop()
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()])):
                continue  # what stands there never happens to a module that is loaded
            case ast.AnnAssign(value=None):
                continue  # an annotation alone binds nothing
        yield node, is_certain
        if not isinstance(node, Definition):
            waiting += [(child, False) for child in reversed([*ast.iter_child_nodes(node)])]


def _is_change(node: ast.expr) -> bool:
    """`X.update(…)`, `X["key"] = …`, `X.key = …`, `del X["key"]`, `del X`."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load) or getattr(node, "attr", "") in _CHANGING_METHODS
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)


# --- Values -----------------------------------------------------------------------------------------------


class Unread(msgspec.Struct, frozen=True):
    """In place of a value: where and why reading stopped. The reason goes on from the name of the value."""

    file: str
    line: int
    reason: str


class Unreadable(Exception):
    """A part was unread without which there is no value."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.reason)
        self.unread = unread


class FieldValue(msgspec.Struct, frozen=True):
    """The value of one field, and where it stands."""

    value: Any
    key: str
    """What the author calls the field."""
    file: str
    line: int


class SpecCall(msgspec.Struct, frozen=True, eq=False):
    """`ToolSpec(…)`, with the arguments as they were written."""

    file: str
    line: int
    arguments: dict[str, FieldValue]


class SourceFiles:
    """The files of one reading. Each is parsed once; all of them share one allowance of steps."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, None] = {}
        self.steps = MAX_STEPS
        self.depth = 0
        self.underway: set[tuple[Path, str]] = set()
        self._open: dict[Path, SourceFile | Issue] = {}

    def open(self, path: Path) -> "SourceFile | Issue":
        if path not in self._open:
            self.seen[str(path)] = None
            tree = parse_source_file(path)
            self._open[path] = tree if isinstance(tree, Issue) else SourceFile(self, path, tree)
        return self._open[path]

    def open_module(self, path: Path | None) -> "SourceFile | Issue | None":
        """The package or module file behind a path without a suffix, if there is one."""
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")) if path else ():
            self.seen[str(candidate)] = None
            if os.path.isfile(candidate):  # Path.is_file raises where a name is too long
                return self.open(candidate)
        return None


class SourceFile:
    """One file: the values of its names, and where they are defined."""

    def __init__(self, files: SourceFiles, path: Path, tree: ast.Module) -> None:
        self.files = files
        self.path = path
        self.scope = Scope(tree)
        self.docstring = ast.get_docstring(tree, clean=False)

    def value(self, name: str, line: int = 1, prefix: str = "") -> Any:
        """The value of a module-level name once the module is loaded, or an Unread."""
        binding, star, key = self.scope.last(name), self.scope.last("*"), (self.path, name)
        if binding is None and name == "__doc__":
            return self.docstring
        if binding is None:
            may_come = f"may come from 'from {star.module} import *', {ONLY_RUNNING}" if star else ""
            return self.unread(line, prefix + (may_come or "the file neither assigns nor imports"))
        if change := self.scope.line_of_change(name):
            return self.unread(change, f"{prefix}is set or changed on line {change}, {ONLY_RUNNING}")
        if binding.definition:
            return self.unread(binding.line, f"{prefix}is a function or a class")
        if key in self.files.underway:
            return self.unread(binding.line, f"{prefix}is defined by itself: its imports form a circle")
        self.files.underway.add(key)
        try:
            return self.evaluate(binding.value) if binding.value else self._imported_value(binding, prefix)
        finally:
            self.files.underway.discard(key)

    def find(self, name: str) -> "tuple[SourceFile, Binding] | None":
        """Where a name is defined, through imports of files in the tools directory."""
        file, binding = self, self.scope.last(name)
        if binding is None:
            star = self.scope.last("*")
            return (self, star) if star else None
        visited = set()
        while binding.module is not None and (file.path, binding.name) not in visited:
            visited.add((file.path, binding.name))
            target = file.open_module(binding.module, binding.level)
            inner = target.scope.last(binding.imported) if isinstance(target, SourceFile) else None
            if not isinstance(target, SourceFile) or inner is None:
                break
            file, binding = target, inner
        return file, binding

    def origin_of(self, node: ast.expr, names: frozenset[str]) -> str:
        """Which of our packages an expression takes one of these names from, under whatever alias."""
        root, _, attributes = dotted_name(node).partition(".")
        for binding in self.scope.bindings.get(root, ()):
            if not binding.our_package:
                _, binding = self.find(root) or (self, binding)
            if (attributes.rpartition(".")[2] or binding.imported) in names and binding.our_package:
                return binding.our_package
        return ""

    def unread(self, node: ast.expr | int, reason: str) -> Unread:
        return Unread(str(self.path), node if isinstance(node, int) else node.lineno, reason)

    # --- imports ------------------------------------------------------------------------------------------

    def open_module(self, module: str, level: int = 0) -> "SourceFile | Issue | None":
        """The file of the tools directory that a module's name means here, if it is one of them."""
        return self.files.open_module(resolve_import(self.path, self.files.root, module, level))

    def _imported_value(self, binding: Binding, prefix: str) -> Any:
        """A sibling's value, or a sibling as a whole, whose names are then read as its attributes."""
        module, name = binding.module or "", binding.imported
        target = self.open_module(module, binding.level)
        if isinstance(target, SourceFile) and not name:
            return target
        if isinstance(target, SourceFile) and target is not self and target.scope.last(name):
            return target.value(name)
        path = resolve_import(self.path, self.files.root, module, binding.level)
        submodule = self.files.open_module(path / name if path else None)
        if isinstance(submodule, SourceFile):
            return submodule
        lacks = f"which does not have {name!r}"
        why = (
            lacks if isinstance(target, SourceFile) else "which is not a readable file of the tools directory"
        )
        return self.unread(binding.line, f"{prefix}comes from {'.' * binding.level}{module}, {why}")

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression at the top level of the module."""
        files = self.files
        files.steps -= 1
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes):  # a few names can double a long text, too
                files.steps -= len(node.value) // _CHARACTERS_PER_STEP
            return node.value
        if files.steps < 0 or files.depth >= MAX_DEPTH:
            return self.unread(
                node, "is too large, or nested too deeply, to be read without running the module"
            )
        evaluator = getattr(self, f"_read_{type(node).__name__.lower()}", None)
        files.depth += 1
        try:
            return evaluator(node) if evaluator else self.unread(node, describe_expression(node))
        except Unreadable as error:
            return error.unread
        except (TypeError, ValueError, KeyError):  # an operation that these values do not have
            return self.unread(node, describe_expression(node))
        finally:
            files.depth -= 1

    def _whole(self, node: ast.expr, kind: Any = object) -> Any:
        """A value that has to be there, and to be of that kind, for the expression around it to have one."""
        value = self.evaluate(node)
        if isinstance(value, Unread):
            raise Unreadable(value)
        if not isinstance(value, kind):
            raise TypeError
        return value

    def _read_name(self, node: ast.Name) -> Any:
        return self.value(node.id, node.lineno, f"uses {node.id!r}, which ")

    def _read_attribute(self, node: ast.Attribute) -> Any:
        """`ToolCategory.X`, or a name of a sibling that was imported as a whole."""
        if self.origin_of(node.value, _CATEGORIES):
            member = ToolCategory.__members__.get(node.attr)
            return member.value if member else node.attr.lower()
        owner = self._whole(node.value, SourceFile)
        return owner.value(node.attr, prefix=f"uses {dotted_name(node)}, which ")

    def _read_subscript(self, node: ast.Subscript) -> Any:
        """`TOOL_SPEC["inputSchema"]`, as a ToolSpec beside a TOOL_SPEC takes its schema; nothing else."""
        return self._whole(node.value, dict)[self._whole(node.slice, str)]

    def _read_list(self, node: ast.List | ast.Tuple) -> list[Any]:
        members: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                members.extend(self._whole(item.value, list | tuple))
            else:
                members.append(self.evaluate(item))
        return members

    def _read_tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._read_list(node))

    def _read_dict(self, node: ast.Dict) -> Any:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result |= self._whole(value, dict)
            else:
                result[self._whole(key)] = self.evaluate(value)
        return result

    def _read_unaryop(self, node: ast.UnaryOp) -> Any:
        """A number with its sign, which the syntax takes for an operation."""
        return ast.literal_eval(node)

    def _read_binop(self, node: ast.BinOp) -> Any:
        left = self._whole(node.left)
        right = self._whole(node.right, type(left))
        if isinstance(node.op, ast.Add) and isinstance(left, str | bytes | list | tuple):
            return left + right
        if isinstance(node.op, ast.BitOr) and isinstance(left, dict):
            return left | right
        raise TypeError

    def _read_call(self, node: ast.Call) -> Any:
        if node.args or not self.origin_of(node.func, _SPEC_CLASSES):
            raise TypeError
        return SpecCall(str(self.path), node.lineno, self.keywords(node))

    def keywords(self, node: ast.Call) -> dict[str, FieldValue]:
        """The named arguments of a call, without those that are None; Unreadable where `**` hides some."""
        arguments: dict[str, FieldValue] = {}
        for keyword in node.keywords:
            line = keyword.value.lineno
            given = {keyword.arg: self.evaluate(keyword.value)} if keyword.arg else self._whole(keyword.value)
            if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
                raise Unreadable(self.unread(line, "unpacks something that is not a dictionary of arguments"))
            for name, value in given.items():
                if value is not None:
                    arguments[name] = FieldValue(value, name, str(self.path), line)
        return arguments


def describe_expression(node: ast.expr) -> str:
    """What an expression does that its text does not show."""
    name = dotted_name(node.func) if isinstance(node, ast.Call) else ""
    return f"is computed by {f'a call of {name}()' if name else 'an expression'}, {ONLY_RUNNING}"


def dotted_name(node: ast.expr) -> str:
    """`a.b.c` as it is written, or nothing where the expression is something else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
