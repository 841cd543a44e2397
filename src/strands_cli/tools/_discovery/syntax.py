"""A file of tools as a syntax tree: what it binds at its top level, and the files that its imports mean."""

import ast
import stat
import warnings
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.errors import Issue

MAX_SOURCE_BYTES = 1_000_000

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def parse(file: Path) -> ast.Module | Issue:
    """The file's syntax tree, or why there is none."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return _refusal(file, "It is not a regular file", remedy=_UNREADABLE)
        if status.st_size > MAX_SOURCE_BYTES:
            size = f"It has {status.st_size:,} bytes; at most {MAX_SOURCE_BYTES:,} are read"
            return _refusal(file, size, remedy="Move its data into a file of its own.")
        with file.open("rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        return _refusal(file, f"It cannot be read: {error.strerror}", remedy=_UNREADABLE)
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
        return _refusal(file, f"It cannot be parsed: {str(error) or type(error).__name__}", line_of_null)


def _syntax_issue(file: Path, data: bytes, error: SyntaxError, line_of_null: int) -> Issue:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        if b"coding" not in data[:200]:
            line = data.count(b"\n", 0, wrong.start) + 1
            reason = f"It is not UTF-8: the byte 0x{data[wrong.start]:02x} on line {line} cannot be decoded"
            return _refusal(file, reason, line, remedy="Save the file as UTF-8.")
    remedy = "Correct the syntax; nothing of the file can be used until then."
    return _refusal(
        file, f"Syntax error: {error.msg}", error.lineno or line_of_null, error.offset or 0, remedy
    )


_UNREADABLE = "Make the file readable, or move it out of the tools directory."


def _refusal(file: Path, reason: str, line: int = 0, column: int = 0, remedy: str = "") -> Issue:
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
        else:
            self._add_simple(node, how)

    def _add_simple(self, node: ast.stmt, how: str) -> None:
        """An assignment, a deletion or an expression."""
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        elif isinstance(node, ast.AugAssign):
            self._change(node.target)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Name) and not how:
                    self.bindings.pop(target.id, None)
                self._change(target)
        for target in targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, target, how, value=node.value)  # type: ignore[attr-defined]
            else:
                self._store(target, how or "unpacking")
        self._add_expression(node, how)

    def _add_block(self, node: ast.AST, how: str) -> None:
        """The statements of an `if`, a loop and the like, and the names that their heads bind."""
        if isinstance(node, ast.If) and _asks_for_main(node.test):
            return  # what stands there never happens to a module that is loaded
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._add(child, how)
            elif isinstance(child, ast.excepthandler | ast.match_case):
                self._add_block(child, how)
            elif isinstance(child, ast.withitem):
                self._store(child, how)
            elif isinstance(child, ast.expr):
                self._store(child, how)
                self._add_expression(child, how)

    def _store(self, node: ast.AST, how: str) -> None:
        """Names that something binds which is not read: unpacking, a loop's head, `with … as`."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
                self._change(part)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self._bind(part.id, part, how)

    def _add_expression(self, node: ast.AST, how: str) -> None:
        """`(X := 1)`, and calls of methods: whether `X.update(…)` changes X is not for us to know."""
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                self._bind(part.target.id, part, how or "an expression")
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


def _asks_for_main(test: ast.expr) -> bool:
    """`if __name__ == "__main__"`"""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.Name) and test.left.id == "__name__"
