"""The tools that a file, or the package of a family, declares: by TOOL_SPEC, TOOL_SPECS or @tool.

What several places say of one callable is put together, located, held against the rules in `toolkit.info`,
and kept as a ToolInfo or refused with file, line, reason and remedy.
"""

import ast
from pathlib import Path
from typing import Any

from strands_cli.errors import Issue, closest
from strands_cli.toolkit.info import FIELDS, ToolCategory, ToolInfo, bare_schema, tool_name_problem
from strands_cli.tools._discovery import MAX_MODULES, Discovered, is_module_name
from strands_cli.tools._discovery.declarations import (
    NotJson,
    ToolDeclaration,
    add_signature,
    declaration_from_call,
    declaration_from_function,
    declaration_from_spec,
    declarations_from_assignments,
    exported_names,
    first_unread_part,
    is_module_function,
    literal_as_json,
    tool_class_of,
    tool_decorator_of,
)
from strands_cli.tools._discovery.static import (
    Binding,
    Function,
    SourceFile,
    SourceFiles,
    SpecCall,
    Unread,
    resolve_import,
)

_FAMILY_FILES = ("schema.py", "tests.py")
"""A family keeps these beside its tools."""
_NO_TOOL = "it needs a TOOL_SPEC and a function of that name, or a function decorated with @tool"
_LITERALLY = "Write it out as a literal, or as a name that is assigned once in the tools directory."
_LOADED = (
    "It can be called. 'strands tool show {} --load' shows its arguments; a function with @tool, or a "
    "TOOL_SPEC beside a class in __all__, shows them without loading."
)
_NOT_CALLABLE = ast.Constant | ast.Dict | ast.List | ast.Set | ast.Tuple | ast.JoinedStr


def read_tools(
    path: Path,
    *,
    module_path: str,
    source: str,
    origin: str,
    family: str = "",
    root: Path | None = None,
    is_family: bool = False,
    attribute: str = "",
) -> Discovered:
    """The tools of a file, or of a family's directory; with `attribute`, of the file that defines it.

    Imports are followed to files below `root`, by default the directory around `path`. Without an `origin`,
    each tool gets its own file, relative to the directory that holds the root.
    """
    place = path.parent if path.name == "__init__.py" else path
    root = root or place.parent
    depth = len(place.relative_to(root).parts)
    package = ".".join(module_path.split(".")[:-depth])
    family = family or (path.name if is_family else "")
    reader = _ToolReader(root, package, source=source, origin=origin, family=family)
    if attribute:
        reader.read_attribute(path, attribute)
    elif is_family:
        reader.read_file(path / "__init__.py", family)
    else:
        reader.read_file(path)
    issues = tuple(dict.fromkeys(reader.issues))
    return Discovered(tuple(reader.infos.values()), issues, tuple(reader.files.seen))


class _ToolReader:
    """`root` is the directory that imports are followed in, `package` its dotted name."""

    def __init__(self, root: Path, package: str, *, source: str, origin: str, family: str) -> None:
        self.files = SourceFiles(root)
        self.issues: list[Issue] = []
        self.infos: dict[tuple[str, str], ToolInfo] = {}
        self._package = package
        self._source = source
        self._origin = origin
        self._family = family
        self._declared: dict[Path, list[ToolDeclaration]] = {}

    def read_file(self, path: Path, family: str = "") -> None:
        """The tools of a file. Those of a family are listed in the TOOL_SPECS of its `__init__.py`, or else
        they are those of that file and of every submodule.
        """
        file = self.files.open(path)
        if isinstance(file, Issue):
            self.issues.append(file)
            return
        tools, issues = len(self.infos), len(self.issues)
        listed = self._add_specs(file)
        self._add_declared(file, own_only=bool(family))
        if family and listed is not True:
            for submodule in self._submodules(path.parent):
                self.read_file(submodule)
        if isinstance(listed, Unread) and len(self.infos) > tools:
            self.issues.append(_unread_specs_issue(listed))
        elif isinstance(listed, Unread):  # never passed over: the listing has something in its place
            name, part = family or path.stem, ("TOOL_SPECS", listed)
            declared = ToolDeclaration(id=name, file=str(file.path), line=listed.line, unread=part)
            self._keep(declared, file, None, name)
        if len(self.infos) == tools and len(self.issues) == issues:
            self.issues.append(_no_tool_issue(file, family))

    def _submodules(self, directory: Path) -> list[Path]:
        self.files.seen[str(directory)] = None
        try:
            files = sorted(directory.iterdir())
        except OSError as error:
            reason = f"The family's directory cannot be listed: {error.strerror}."
            remedy = "Make it readable, or remove it."
            self.issues.append(Issue(file=str(directory), reason=reason, remediation=remedy))
            files = []
        found = [file for file in files if is_module_name(file.name) and file.name not in _FAMILY_FILES]
        if len(found) > MAX_MODULES:
            reason = f"The family has {len(found):,} modules; {MAX_MODULES:,} are read."
            remedy = "Move what is not a tool to another directory."
            self.issues.append(Issue(file=str(directory), reason=reason, remediation=remedy))
        return found[:MAX_MODULES]

    def read_attribute(self, path: Path, attribute: str) -> None:
        """The tools of the file that defines an attribute of a module; the attribute's own is among them."""
        file = self.files.open(path)
        found = file.find(attribute) if isinstance(file, SourceFile) else None
        if isinstance(file, Issue) or found is None:
            self.read_file(path)
            return
        self._add_specs(file)
        self._add_declared(file, own_only=True)
        if found[0] is not file:
            self.read_file(found[0].path)

    # --- TOOL_SPECS ---------------------------------------------------------------------------------------

    def _add_specs(self, file: SourceFile) -> bool | Unread:
        """Adds the tools of TOOL_SPECS; false if it is missing, an Unread if it cannot be read."""
        binding = file.scope.last("TOOL_SPECS")
        if binding is None:
            return False
        specs = file.value("TOOL_SPECS")
        if isinstance(specs, Unread):
            return specs
        for item in specs if isinstance(specs, list | tuple) else [specs]:
            declared = _declaration_from_item(file, item, binding)
            if isinstance(declared, Issue):
                self.issues.append(declared)
            else:
                self._add_listed(file, declared)
        return True

    def _add_listed(self, file: SourceFile, declared: ToolDeclaration) -> None:
        """Adds one item of TOOL_SPECS, filled up with what its callable's own file says."""
        if tool_name_problem(declared.id):
            self._keep(declared, file, None, "")
            return
        name = declared.text("callable_name") or declared.id
        homes = self._homes(file, declared)
        if homes is None:
            return
        found = next(filter(None, (home.find(name) for home in homes)), None)
        places = (declared.values.get(field) for field in ("callable_name", "module_path"))
        is_guessed = declared.unread or any(place and isinstance(place.value, Unread) for place in places)
        if found is None and homes and not is_guessed:
            self.issues.append(_missing_callable_issue(declared, name, homes[0]))
            return
        home, binding = found or (file, None)
        for base in self._declarations(home):
            if binding and base.callable_name == binding.name:
                base.is_listed = True
                declared.inferred = base.inferred and "input_schema" not in declared.values
                declared.unread = declared.unread or base.unread
                declared.values = {**base.values, **declared.values}
        function = binding.definition if binding else None
        if isinstance(function, Function):
            add_signature(home, function, declared, takes_any=is_module_function(function))
        self._keep(declared, home, binding, name)

    def _homes(self, file: SourceFile, declared: ToolDeclaration) -> list[SourceFile] | None:
        """The files that may hold the callable: empty where it is elsewhere, None where that is wrong."""
        module_path = declared.text("module_path")
        if not module_path:
            own = self.files.open(Path(declared.file))
            return [home for home in (file, own) if isinstance(home, SourceFile)]
        if module_path == self._dotted(file.path):
            return [file]
        home = file.open_module(module_path)
        if isinstance(home, Issue):
            self.issues.append(home)
            return None
        is_ours = "." in module_path and resolve_import(file.path, self.files.root, module_path, 0)
        if home is None and is_ours:
            place = declared.values["module_path"]
            problem = f"there is no file for its module_path {module_path!r}"
            remedy = "Fix module_path, or leave it out: by default it is the module of TOOL_SPECS."
            self.issues.append(declared.refusal(problem, remedy, place.file, place.line))
            return None
        return [home] if home else []

    # --- TOOL_SPEC and @tool ------------------------------------------------------------------------------

    def _add_declared(self, file: SourceFile, *, own_only: bool = False) -> None:
        """Adds what TOOL_SPEC and decorators declare, except what TOOL_SPECS already took up.

        With `own_only`, a TOOL_SPEC that is imported from another file is left to that file.
        """
        binding = file.scope.last("TOOL_SPEC")
        borrowed = own_only and binding is not None and binding.module is not None
        for declared in self._declarations(file):
            is_borrowed = borrowed and declared.has_spec and not declared.decorated
            if not declared.is_listed and not is_borrowed:
                home, bound = file.find(declared.callable_name) or (file, None)
                self._keep(declared, home, bound, declared.callable_name)

    def _declarations(self, file: SourceFile) -> list[ToolDeclaration]:
        """What a file's TOOL_SPEC and decorators declare; what is wrong with them is noted once."""
        if file.path not in self._declared:
            functions = {}
            for function in file.scope.definitions():
                decorator = tool_decorator_of(file, function) if isinstance(function, Function) else None
                if isinstance(function, Function) and decorator:
                    functions[function.name] = declaration_from_function(file, function, decorator)
            self.issues += [found for found in functions.values() if isinstance(found, Issue)]
            found = self._with_tool_spec(file, functions)
            names = {declared.callable_name for declared in found}
            self._declared[file.path] = [*found, *declarations_from_assignments(file, names)]
        return self._declared[file.path]

    def _with_tool_spec(
        self, file: SourceFile, functions: dict[str, ToolDeclaration | Issue]
    ) -> list[ToolDeclaration]:
        """The decorated functions, and the one that TOOL_SPEC is for, be it decorated or plain."""
        binding = file.scope.last("TOOL_SPEC")
        decorated = [found for found in functions.values() if isinstance(found, ToolDeclaration)]
        users = [found for found in decorated if found.uses_tool_spec]
        for user in users:
            if not user.unread and user.callable_name != user.id.replace("-", "_"):
                self.issues.append(_missing_callable_issue(user, user.id, file))
                decorated.remove(user)
        if binding is None or users:
            return decorated
        declared = declaration_from_spec(file, file.value("TOOL_SPEC"), _module_stem(file.path), binding)
        if isinstance(declared, Issue):
            self.issues.append(declared)
            return decorated
        named = functions.get(declared.id)
        if isinstance(named, ToolDeclaration):
            named.values |= declared.values
            named.unread, named.inferred, named.has_spec = declared.unread, False, True
        elif named is None and (declared.unread or file.find(declared.id) or file.scope.last("__getattr__")):
            declared.callable_name = declared.id
            return [declared, *decorated]
        elif named is None and (
            classes := [name for name in exported_names(file) if tool_class_of(file, name)]
        ):
            declared.callable_name = classes[0]
            return [declared, *decorated]
        elif named is None:
            self.issues.append(_missing_callable_issue(declared, declared.id, file))
        return decorated

    # --- keeping ------------------------------------------------------------------------------------------

    def _keep(self, declared: ToolDeclaration, file: SourceFile, binding: Binding | None, name: str) -> None:
        """Keeps a tool whose callable is `name`, bound there; without a binding, as far as anybody knows."""
        if binding and isinstance(binding.value, _NOT_CALLABLE):
            problem = f"{binding.name!r} on line {binding.line} is not a function"
            remedy = f"Define def {binding.name}(…), or fix the name in the spec."
            self.issues.append(declared.refusal(problem, remedy, str(file.path), binding.line))
            return
        module_path = self._dotted(file.path)
        origin = self._origin or file.path.relative_to(self.files.root.parent).as_posix()
        place = {
            "module_path": module_path if binding else declared.text("module_path") or module_path,
            "callable_name": binding.name if binding and binding.name != "*" else name,
            "file": str(file.path),
            "line": binding.line if binding else declared.line,
            "source": self._source,
            "origin": origin,
        }
        info, issues = _info_of_declaration(declared, place, self._family)
        self.issues += issues
        if info is None:
            return
        first = self.infos.setdefault((info.id, info.version), info)
        if first is not info:
            problem = f"version {info.version} of it is declared before, at {first.file}:{first.line}"
            self.issues.append(declared.refusal(problem, "Remove one of them, or give it another version."))

    def _dotted(self, file: Path) -> str:
        parts = [*file.relative_to(self.files.root).parent.parts]
        parts += [] if file.stem == "__init__" else [file.stem]
        return ".".join(filter(None, [self._package, *parts]))


def _info_of_declaration(
    declared: ToolDeclaration, place: dict[str, Any], family: str
) -> tuple[ToolInfo | None, list[Issue]]:
    """The tool, unless something about it is refused; and what there is to report about it."""
    unread, values, issues = [declared.unread] if declared.unread else [], dict[str, Any](), list[Issue]()
    if problem := tool_name_problem(declared.id):
        issues.append(declared.refusal(problem, FIELDS["id"].remedy_for(declared.id)))
    for name, found in declared.values.items():
        field, value = FIELDS[name], found.value
        part = first_unread_part(value, found.key)
        if part:
            unread += [part] if field.listed else []
            continue
        problem = field.problem(value)
        try:
            values[name] = literal_as_json(value) if isinstance(value, dict | list | tuple) else value
        except NotJson as error:
            problem = problem or f"{{key}} is not JSON: {error}"
        if problem:
            reason = problem.replace("{key}", found.key)
            issues.append(declared.refusal(reason, field.remedy_for(value), found.file, found.line))
    if issues:
        return None, issues
    for name in {"input_schema", "output_schema"} & values.keys():
        values[name] = bare_schema(values[name])
    if "category" in values:
        values["category"] = ToolCategory(values["category"])
    values["family"] = values.get("family") or family
    if unread:
        key, why = unread[0]
        values["unread"] = f"{key!r} {why.reason}"
        warning = Issue(
            severity="warning",
            file=why.file,
            line=why.line,
            reason=f"Tool {declared.id!r} cannot be read without running it: {values['unread']}.",
            remediation=_LOADED.format(declared.id) if key == declared.callable_name else _LITERALLY,
        )
        issues.append(warning)
    return ToolInfo(**{**values, **place, "id": declared.id, "inferred": declared.inferred}), issues


def _declaration_from_item(file: SourceFile, item: object, binding: Binding) -> ToolDeclaration | Issue:
    guess = _module_stem(file.path)
    if isinstance(item, SpecCall):
        return declaration_from_call(item, guess)
    if isinstance(item, dict):
        return declaration_from_spec(file, item, guess, binding)
    if isinstance(item, Unread):
        return _unread_specs_issue(item, "An item of TOOL_SPECS")
    reason = "TOOL_SPECS has an item that is neither a ToolSpec nor a dictionary like TOOL_SPEC."
    remedy = 'Write TOOL_SPECS = [ToolSpec(id="my_tool", …)].'
    return Issue(file=str(file.path), line=binding.line, reason=reason, remediation=remedy)


def _unread_specs_issue(unread: Unread, subject: str = "TOOL_SPECS") -> Issue:
    return Issue(
        severity="warning",
        file=unread.file,
        line=unread.line,
        reason=f"{subject} {unread.reason}.",
        remediation="Write TOOL_SPECS as a list of ToolSpec(…) with literal arguments.",
    )


def _module_stem(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


def _missing_callable_issue(declared: ToolDeclaration, name: str, file: SourceFile) -> Issue:
    functions = [item.name for item in file.scope.definitions() if isinstance(item, Function)]
    match = closest(name, functions) or (functions[0] if len(functions) == 1 else None)
    remedy = f"The closest is {match!r}: rename it to {name!r}" if match else f"Define def {name}(…)"
    problem = f"{file.path.name} has no function {name!r}"
    if not name.isidentifier():
        return declared.refusal(problem, "Use a name that a function can have.")
    return declared.refusal(problem, f"{remedy}, or fix the name in the spec.")


def _no_tool_issue(file: SourceFile, family: str) -> Issue:
    classes = [item for item in file.scope.definitions() if isinstance(item, ast.ClassDef)]
    unused = [item.name for item in classes if tool_class_of(file, item.name)]
    methods = [item for owner in classes for item in owner.body if isinstance(item, Function)]
    needs_object = any(tool_decorator_of(file, method) for method in methods)
    why = "methods decorated with @tool need an instance, which only a program makes"
    what = f"The family {family!r}" if family else file.path.name
    made = f"Make an object of {unused[0]}, or write __all__ = [{unused[0]!r}]. " if unused else ""
    return Issue(
        severity="warning" if needs_object else "error",
        file=str(file.path),
        line=1,
        reason=f"{what} has no tool: {why if needs_object else _NO_TOOL}.",
        remediation=f"{made}If it only serves other modules, rename it to "
        f"_{file.path.parent.name if family else file.path.name}.",
    )
