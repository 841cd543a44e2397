"""What a module binds at its top level, in order, as far as that shows without running it."""

import ast

import msgspec

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef

END = 1 << 60
"""After the last statement."""

_CHANGE_LISTS = {"append", "extend", "insert", "pop", "remove", "reverse", "sort"}
_CHANGE_OTHERS = {"add", "clear", "discard", "popitem", "setdefault", "update"}
_CHANGING_METHODS = _CHANGE_LISTS | _CHANGE_OTHERS


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One statement that gives a name its value: an assignment, a definition or an import."""

    name: str
    order: int
    line: int
    value: ast.expr | None = None
    definition: Definition | None = None
    module: str | None = None
    level: int = 0
    imported: str = ""
    """The name within `module`; empty where the module itself is meant."""
    how: str = ""
    """What decides the value, where only running the module can tell."""


class Scope(ast.NodeVisitor):
    """The bindings of a module, and the names that it changes afterwards."""

    def __init__(self, tree: ast.Module) -> None:
        self.bindings: dict[str, list[Binding]] = {}
        self.changes: dict[str, int] = {}
        self.stars: list[Binding] = []
        self._order = 0
        self._how = ""
        self._visit_all(tree.body)

    def last(self, name: str, before: int = END) -> Binding | None:
        found = [binding for binding in self.bindings.get(name, ()) if binding.order < before]
        return found[-1] if found else None

    def definitions(self) -> list[Definition]:
        """The functions and classes that are there in the end, in the order in which they are written."""
        last = [bindings[-1] for bindings in self.bindings.values()]
        found = [binding.definition for binding in last if binding.definition is not None]
        return sorted(found, key=lambda definition: definition.lineno)

    # --- collecting ---------------------------------------------------------------------------------------

    def generic_visit(self, node: ast.AST) -> None:
        """Other statements bind nothing."""

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change(node.target)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bindings.pop(target.id, None)
            self._change(target)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in _CHANGING_METHODS:
            self._change(method)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else name
            self._bind(name, node, module=module)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name
            self._bind(name, node, module=node.module or "", level=node.level, imported=alias.name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._bind(node.name, node, definition=node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._bind(node.name, node, definition=node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name, node, definition=node)

    def visit_If(self, node: ast.If) -> None:
        if not _asks_for_main(node.test):
            self._inside("an 'if'", node)

    def visit_Try(self, node: ast.Try) -> None:
        self._inside("a 'try'", node)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self._inside("a 'try'", node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._assign(item.optional_vars, None, "a 'with'")
        self._inside("a 'with'", node)

    def visit_For(self, node: ast.For) -> None:
        self._assign(node.target, None, "a loop")
        self._inside("a loop", node)

    def visit_While(self, node: ast.While) -> None:
        self._inside("a loop", node)

    def visit_Match(self, node: ast.Match) -> None:
        self._inside("a 'match'", node)

    def _visit_all(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._order += 1
            self.visit(statement)

    def _inside(self, block: str, node: ast.stmt) -> None:
        outer, self._how = self._how, self._how or block
        parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
        for part in parts:
            for field in ("body", "orelse", "finalbody"):
                self._visit_all(getattr(part, field, []))
        self._how = outer

    def _assign(self, target: ast.expr, value: ast.expr | None, how: str = "") -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, target, value=value, how=how)
        elif isinstance(target, ast.Tuple | ast.List):
            for part, item in zip(target.elts, _parts(target, value), strict=True):
                self._assign(part, item, how or ("" if item is not None else "unpacking"))
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None, "unpacking")
        else:
            self._change(target)

    def _bind(
        self,
        name: str,
        node: ast.stmt | ast.expr,
        *,
        value: ast.expr | None = None,
        definition: Definition | None = None,
        module: str | None = None,
        level: int = 0,
        imported: str = "",
        how: str = "",
    ) -> None:
        binding = Binding(
            name=name,
            order=self._order,
            line=node.lineno,
            value=value,
            definition=definition,
            module=module,
            level=level,
            imported=imported,
            how=self._how or how,
        )
        if name == "*":
            self.stars.append(binding)
        else:
            self.bindings.setdefault(name, []).append(binding)

    def _change(self, target: ast.expr) -> None:
        line = target.lineno
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            self.changes.setdefault(target.id, line)


def _parts(target: ast.Tuple | ast.List, value: ast.expr | None) -> list[ast.expr | None]:
    """What each name of `a, b = …` gets, where both sides are written out."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(target.elts):
        return [None] * len(target.elts)
    if any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts)):
        return [None] * len(target.elts)
    return list(value.elts)


def _asks_for_main(test: ast.expr) -> bool:
    """`if __name__ == "__main__"`: what stands there never happens to a module that is loaded."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.Name) and test.left.id == "__name__"
