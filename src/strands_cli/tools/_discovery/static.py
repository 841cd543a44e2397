"""The values of a module's names, as far as its text tells them. Nothing is run.

Read are literals, names that the module assigns once, names of sibling files, `ToolSpec(…)`,
`ToolCategory.X`, `+` and `**`. Whatever else stands there is an `Unread` in the place of the value, with line
and reason, so that a dictionary with one computed entry still gives all the others. A name that is assigned
twice, or changed in any way, is unread as a whole: what it holds in the end is for running to tell.
"""

import ast
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolCategory

MAX_SOURCE_BYTES = 1_000_000
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
    """The file's syntax tree, or why there is none."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return _source_refusal(file, "It is not a regular file", remedy=_UNREADABLE)
        if status.st_size > MAX_SOURCE_BYTES:
            size = f"It has {status.st_size:,} bytes; at most {MAX_SOURCE_BYTES:,} are read"
            return _source_refusal(file, size, remedy="Move its data into a file of its own.")
        with file.open("rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        return _source_refusal(file, f"It cannot be read: {error.strerror}", remedy=_UNREADABLE)
    null = data.find(b"\0")
    line_of_null = data.count(b"\n", 0, null) + 1 if null >= 0 else 1
    try:
        with warnings.catch_warnings():
            # A warning about somebody's backslash is for whoever runs that file.
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except SyntaxError as error:
        return _syntax_issue(file, data, error, line_of_null)
    except (ValueError, RecursionError, MemoryError) as error:
        return _source_refusal(
            file, f"It cannot be parsed: {str(error) or type(error).__name__}", line_of_null
        )


def _syntax_issue(file: Path, data: bytes, error: SyntaxError, line_of_null: int) -> Issue:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        if b"coding" not in data[:200]:
            line = data.count(b"\n", 0, wrong.start) + 1
            reason = f"It is not UTF-8: the byte 0x{data[wrong.start]:02x} on line {line} cannot be decoded"
            return _source_refusal(file, reason, line, remedy="Save the file as UTF-8.")
    remedy = "Correct the syntax; nothing of the file can be used until then."
    return _source_refusal(
        file, f"Syntax error: {error.msg}", error.lineno or line_of_null, error.offset or 0, remedy
    )


_UNREADABLE = "Make the file readable, or move it out of the tools directory."


def _source_refusal(file: Path, reason: str, line: int = 0, column: int = 0, remedy: str = "") -> Issue:
    remedy = remedy or "Correct the file; nothing of it can be used until then."
    return Issue(file=str(file), line=line, column=max(column, 0), reason=f"{reason}.", remediation=remedy)


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
    line: int
    value: ast.expr | None = None
    definition: Definition | None = None
    module: str | None = None
    level: int = 0
    imported: str = ""
    """The name within `module`; empty where the module itself is meant."""
    how: str = ""
    """What decides the value, where only running the module can tell."""


_BLOCKS: dict[type[ast.AST], str] = {
    ast.If: "an 'if'",
    ast.Try: "a 'try'",
    ast.TryStar: "a 'try'",
    ast.With: "a 'with'",
    ast.For: "a loop",
    ast.While: "a loop",
    ast.Match: "a 'match'",
}


_CHANGING_METHODS = (
    frozenset(dir(dict) + dir(list)) - set(dir(tuple)) - {"copy", "get", "items", "keys", "values"}
)


class Scope:
    """The bindings of a module, and the names that something changes besides binding them."""

    def __init__(self, tree: ast.Module) -> None:
        self.bindings: dict[str, list[Binding]] = {}
        self.changes: dict[str, int] = {}
        """The line of the first change, by name."""
        self.stars: list[Binding] = []
        for statement in tree.body:
            self._add(statement, "")
        for name in list(self.changes):
            self._change_aliases(name)

    def last(self, name: str) -> Binding | None:
        return self.bindings[name][-1] if name in self.bindings else None

    def definitions(self) -> list[Definition]:
        """The functions and classes that are there in the end, in the order in which they are written."""
        last = [bindings[-1].definition for bindings in self.bindings.values()]
        return sorted((found for found in last if found is not None), key=lambda found: found.lineno)

    def _add(self, node: ast.stmt, how: str) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self._bind(name, node, how, module=alias.name if alias.asname else name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                where = {"module": node.module or "", "level": node.level, "imported": alias.name}
                self._bind(alias.asname or alias.name, node, how, **where)
        elif isinstance(node, Definition):
            self._bind(node.name, node, how, definition=node)
            self._add_body_changes(node)
        elif type(node) in _BLOCKS:
            self._add_block(node, how or _BLOCKS[type(node)])
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Name) and not how:
                    self.bindings.pop(target.id, None)
                self._change(target)
        else:
            self._add_assignment(node, how)

    def _add_assignment(self, node: ast.stmt, how: str) -> None:
        """An assignment, or an expression by itself."""
        value = getattr(node, "value", node)
        if isinstance(node, ast.AugAssign):
            self._change(node.target)
        for target in getattr(node, "targets", [node.target] if isinstance(node, ast.AnnAssign) else []):
            if not isinstance(target, ast.Name):
                self._add_names(target, how or "unpacking")
            elif value is not None:
                self._bind(target.id, target, how, value=value)
        if value is not None:
            self._add_names(value, how or "an expression")

    def _add_block(self, node: ast.AST, how: str) -> None:
        """The statements of an `if`, a loop and the like, and the names that their heads bind."""
        test = node.test if isinstance(node, ast.If) else None
        is_comparison = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
        if is_comparison and getattr(test.left, "id", "") == "__name__":  # type: ignore[union-attr]
            return  # what stands there never happens to a module that is loaded
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._add(child, how)
            elif isinstance(child, ast.excepthandler | ast.match_case):
                self._add_block(child, how)
            else:
                self._add_names(child, how)

    def _add_names(self, node: ast.AST, how: str) -> None:
        """Names that are bound to what is not read (unpacking, a loop's head, `with … as`, `:=`) or changed.

        Whether a method such as `X.update(…)` changes X is not for us to know.
        """
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self._bind(part.id, part, how)
            elif isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
                self._change(part)
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                self._change(part.func)

    def _add_body_changes(self, definition: Definition) -> None:
        """A function may change what the module has: `global X`, `X["key"] = …`, `X.update(…)`."""
        nodes = list(ast.walk(definition))
        shared = {name: node.lineno for node in nodes if isinstance(node, ast.Global) for name in node.names}
        for name, line in shared.items():
            self.changes.setdefault(name, line)
        own = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        for node in nodes:
            if not isinstance(node, ast.Attribute | ast.Subscript):
                continue
            is_method = isinstance(node, ast.Attribute) and node.attr in _CHANGING_METHODS
            if is_method or not isinstance(node.ctx, ast.Load):
                self._change(node, own)

    def _bind(self, name: str, node: ast.stmt | ast.expr, how: str, **parts: Any) -> None:
        binding = Binding(name=name, line=node.lineno, how=how, **parts)
        if name == "*":
            self.stars.append(binding)
        else:
            self.bindings.setdefault(name, []).append(binding)

    def _change(self, target: ast.expr, own: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        line = target.lineno
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id not in own:
            self.changes.setdefault(target.id, line)

    def _change_aliases(self, name: str) -> None:
        """`X = TOOL_SPEC` and a change of X change TOOL_SPEC too."""
        for binding in self.bindings.get(name, ()):
            if isinstance(binding.value, ast.Name) and binding.value.id not in self.changes:
                self.changes[binding.value.id] = self.changes[name]
                self._change_aliases(binding.value.id)


# --- Values -----------------------------------------------------------------------------------------------


class Unread(msgspec.Struct, frozen=True):
    """In place of a value: where and why reading stopped. The reason goes on from the name of the value."""

    file: str
    line: int
    reason: str


class SpecCall(msgspec.Struct, frozen=True, eq=False):
    """`ToolSpec(…)`, with the arguments as they were written."""

    file: str
    line: int
    arguments: dict[str, Any]
    lines: dict[str, int]


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

    def file_of(self, path: Path | None) -> Path | None:
        """The package or module file behind a path without a suffix, if there is one."""
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")) if path else ():
            self.seen[str(candidate)] = None
            if os.path.isfile(candidate):  # Path.is_file raises where a name is too long
                return candidate
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
        binding, stars = self.scope.last(name), self.scope.stars
        if binding is None and name == "__doc__":
            return self.docstring
        if binding is None and stars:
            return self.unread(
                line, f"{prefix}may come from 'from {stars[0].module} import *', {ONLY_RUNNING}"
            )
        if binding is None:
            return self.unread(
                line, f"{prefix or f'is {name!r}, which '}the file neither assigns nor imports"
            )
        if name in self.scope.changes:
            place = self.scope.changes[name]
            return self.unread(place, f"{prefix}is changed on line {place}, {ONLY_RUNNING}")
        if binding.how:
            reason = f"{prefix}is decided by {binding.how} on line {binding.line}, {ONLY_RUNNING}"
            return self.unread(binding.line, reason)
        if len(self.scope.bindings[name]) > 1:
            reason = f"{prefix}is assigned again on line {binding.line}, {ONLY_RUNNING}"
            return self.unread(binding.line, reason)
        key = (self.path, name)
        if key in self.files.underway:
            return self.unread(binding.line, f"{prefix}is defined by itself: its imports form a circle")
        self.files.underway.add(key)
        try:
            if binding.value is not None:
                return self.evaluate(binding.value)
            if binding.module is not None:
                return self._imported_value(binding, prefix)
            return self.unread(
                binding.line, f"{prefix}is a function or a class, not a value that can be read"
            )
        finally:
            self.files.underway.discard(key)

    def find(self, name: str) -> "tuple[SourceFile, Binding] | None":
        """Where a name is defined, through imports of files in the tools directory."""
        file, binding = self, self.scope.last(name)
        visited = set()
        while binding and binding.module is not None and (file.path, binding.name) not in visited:
            visited.add((file.path, binding.name))
            target = file.open_module(binding.module, binding.level)
            inner = target.scope.last(binding.imported) if isinstance(target, SourceFile) else None
            if not isinstance(target, SourceFile) or inner is None:
                break
            file, binding = target, inner
        if binding is None:
            return (self, self.scope.stars[0]) if self.scope.stars else None
        return file, binding

    def origin_of(self, node: ast.expr, names: frozenset[str]) -> str:
        """Which of our packages an expression takes one of these names from, under whatever alias."""
        if isinstance(node, ast.Attribute) and node.attr in names:
            root = dotted_name(node).partition(".")[0]
            packages = [_imported_package(binding) for binding in self.scope.bindings.get(root, ())]
        elif isinstance(node, ast.Name):
            packages = [self._origin(binding, names) for binding in self.scope.bindings.get(node.id, ())]
        else:
            return ""
        return next(filter(None, packages), "")

    def _origin(self, binding: Binding, names: frozenset[str]) -> str:
        if binding.module is None:
            return ""
        found = None if _imported_package(binding) else self.find(binding.name)
        binding = found[1] if found else binding
        return _imported_package(binding) if binding.imported in names else ""

    def unread(self, node: ast.AST | int, reason: str) -> Unread:
        return Unread(str(self.path), node if isinstance(node, int) else getattr(node, "lineno", 1), reason)

    # --- imports ------------------------------------------------------------------------------------------

    def open_module(self, module: str, level: int = 0) -> "SourceFile | Issue | None":
        """The file of the tools directory that a module's name means here, if it is one of them."""
        file = self.files.file_of(resolve_import(self.path, self.files.root, module, level))
        return self.files.open(file) if file else None

    def _imported_value(self, binding: Binding, prefix: str) -> Any:
        """A sibling's value, or a sibling as a whole, whose names are then read as its attributes."""
        module = binding.module or ""
        target = self.open_module(module, binding.level)
        if isinstance(target, SourceFile) and not binding.imported:
            return target
        if isinstance(target, SourceFile) and target is not self and target.scope.last(binding.imported):
            return target.value(binding.imported)
        path = resolve_import(self.path, self.files.root, module, binding.level)
        file = self.files.file_of(path / binding.imported if path else None)
        submodule = self.files.open(file) if file else None
        if isinstance(submodule, SourceFile):
            return submodule
        written = "." * binding.level + module
        if isinstance(target, Issue):
            why = f"comes from {written}, which cannot be read ({Path(target.file).name}:{target.line})"
        elif target is not None:
            why = f"comes from {written}, which does not have {binding.imported!r}"
        else:
            why = f"comes from {written}, which is not a file of the tools directory"
        return self.unread(binding.line, prefix + why)

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression at the top level of the module."""
        files = self.files
        files.steps -= 1
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes):  # a few names can double a long text, too
                files.steps -= len(node.value) // _CHARACTERS_PER_STEP
            return node.value
        if files.steps < 0:
            return self.unread(node, "is too large to be read without running the module")
        if files.depth >= MAX_DEPTH:
            return self.unread(node, "is nested too deeply to be read without running the module")
        evaluator = _EVALUATORS.get(type(node))
        if evaluator is None:
            return self.unread(node, describe_expression(node))
        files.depth += 1
        try:
            return evaluator(self, node)
        finally:
            files.depth -= 1

    def _name(self, node: ast.Name) -> Any:
        return self.value(node.id, node.lineno, f"uses {node.id!r}, which ")

    def _attribute(self, node: ast.Attribute) -> Any:
        """`ToolCategory.X`, or a name of a sibling that was imported as a whole."""
        if self.origin_of(node.value, _CATEGORIES):
            member = ToolCategory.__members__.get(node.attr)
            return member.value if member else node.attr.lower()
        owner = self.evaluate(node.value)
        if isinstance(owner, SourceFile):
            return owner.value(node.attr, prefix=f"uses {dotted_name(node)}, which ")
        reason = f"reads {dotted_name(node) or f'the attribute {node.attr}'}, {ONLY_RUNNING}"
        return owner if isinstance(owner, Unread) and not dotted_name(node) else self.unread(node, reason)

    def _subscript(self, node: ast.Subscript) -> Any:
        """`TOOL_SPEC["inputSchema"]`, as a ToolSpec beside a TOOL_SPEC takes its schema; nothing else."""
        owner = self.evaluate(node.value)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(owner, Unread):
            return owner
        if not isinstance(owner, dict) or not isinstance(key, str):
            return self.unread(node, describe_expression(node))
        return owner[key] if key in owner else self.unread(node, f"asks for {key!r}, which is not there")

    def _sequence(self, node: ast.List | ast.Tuple) -> Any:
        members: list[Any] = []
        for item in node.elts:
            if not isinstance(item, ast.Starred):
                members.append(self.evaluate(item))
                continue
            inner = self.evaluate(item.value)
            if not isinstance(inner, list | tuple):
                wrong = self.unread(item, "unpacks something that is not a list")
                return inner if isinstance(inner, Unread) else wrong
            members.extend(inner)
        return members if isinstance(node, ast.List) else tuple(members)

    def _dict(self, node: ast.Dict) -> Any:
        result: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node)
            key = self.evaluate(key_node) if key_node is not None else None
            if isinstance(key, Unread):
                return key
            if key_node is None and not isinstance(value, dict):
                wrong = self.unread(value_node, "unpacks something that is not a dictionary")
                return value if isinstance(value, Unread) else wrong
            try:
                result |= value if key_node is None else {key: value}
            except TypeError:
                return self.unread(key_node or node, "has a key that a dictionary cannot hold")
        return result

    def _unary(self, node: ast.UnaryOp) -> Any:
        """A number with its sign, which the syntax takes for an operation."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            return self.unread(node, describe_expression(node))

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        for side in (left, right):
            if isinstance(side, Unread):
                return side
        alike = type(left) is type(right)
        if alike and isinstance(node.op, ast.Add) and isinstance(left, str | bytes | list | tuple):
            return left + right
        if alike and isinstance(node.op, ast.BitOr) and isinstance(left, dict):
            return left | right
        return self.unread(node, describe_expression(node))

    def _call(self, node: ast.Call) -> Any:
        if not self.origin_of(node.func, _SPEC_CLASSES):
            return self.unread(node, describe_expression(node))
        if node.args:
            return self.unread(node, "has an argument without a name, and ToolSpec takes named ones only")
        arguments, lines = self.keywords(node)
        if isinstance(arguments, Unread):
            return arguments
        return SpecCall(str(self.path), node.lineno, arguments, lines)

    def keywords(self, node: ast.Call) -> tuple[dict[str, Any] | Unread, dict[str, int]]:
        """The named arguments of a call, and the line of each."""
        arguments: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
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


_EVALUATORS: dict[type[ast.AST], Callable[[SourceFile, Any], Any]] = {
    ast.List: SourceFile._sequence,
    ast.Tuple: SourceFile._sequence,
    ast.Dict: SourceFile._dict,
    ast.UnaryOp: SourceFile._unary,
    ast.BinOp: SourceFile._binary,
    ast.Subscript: SourceFile._subscript,
    ast.Name: SourceFile._name,
    ast.Attribute: SourceFile._attribute,
    ast.Call: SourceFile._call,
}

_NAMES = {
    ast.Compare: "a comparison",
    ast.BoolOp: "a condition",
    ast.IfExp: "a condition",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "a format",
    ast.Subscript: "a lookup",
    ast.Lambda: "a lambda",
}


def describe_expression(node: ast.expr) -> str:
    """What an expression does that its text does not show."""
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


def _imported_package(binding: Binding) -> str:
    """The package of ours that a binding imports from, or nothing."""
    package = "" if binding.level else (binding.module or "").partition(".")[0]
    return package if package in _OUR_PACKAGES else ""
