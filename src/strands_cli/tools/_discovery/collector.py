"""The tools of one reading: each declaration is put together, located, judged, and kept or refused."""

import ast
from pathlib import Path

from strands_cli.errors import Issue, closest
from strands_cli.toolkit.info import ToolInfo, name_problem
from strands_cli.tools._discovery.drafts import (
    Draft,
    Written,
    draft_of_call,
    draft_of_spec,
    drafts_of_assignments,
    drafts_of_functions,
)
from strands_cli.tools._discovery.infos import Place, finish, refusal
from strands_cli.tools._discovery.reading import Reading
from strands_cli.tools._discovery.scope import Function
from strands_cli.tools._discovery.source import resolve_import
from strands_cli.tools._discovery.syntax import Found, ModuleReader, Sources
from strands_cli.tools._discovery.values import SpecCall, Unread

_NOT_CALLABLE = ast.Constant | ast.Dict | ast.List | ast.Set | ast.Tuple | ast.JoinedStr


class Collector:
    """`root` is the directory that imports are followed in, `package` its dotted name."""

    def __init__(self, root: Path, package: str, *, source: str, origin: str, family: str) -> None:
        self.sources = Sources(root)
        self.issues: list[Issue] = []
        self.infos: dict[tuple[str, str], ToolInfo] = {}
        self._package = package
        self._source = source
        self._origin = origin
        self._family = family
        self._declared: dict[Path, list[Draft]] = {}
        self._used: set[tuple[str, str]] = set()

    def reading(self) -> Reading:
        issues = tuple(dict.fromkeys(self.issues))
        return Reading(tuple(self.infos.values()), issues, tuple(self.sources.seen))

    # --- TOOL_SPECS ---------------------------------------------------------------------------------------

    def add_specs(self, reader: ModuleReader) -> bool | Unread:
        """Adds the tools of TOOL_SPECS; false where there is none, an Unread where it cannot be read."""
        binding = reader.scope.last("TOOL_SPECS")
        if binding is None:
            return False
        value = reader.value("TOOL_SPECS")
        if isinstance(value, Unread):
            return value
        for item in value if isinstance(value, list | tuple) else [value]:
            draft = self._draft_of_item(reader, item, binding.line)
            if isinstance(draft, Issue):
                self.issues.append(draft)
            else:
                self._add_listed(reader, draft)
        return True

    def add_unread(self, reader: ModuleReader, tool_id: str, unread: Unread) -> None:
        """Keeps a place in the listing for what TOOL_SPECS would have said."""
        unread_part = ("TOOL_SPECS", unread)
        draft = Draft(id=tool_id, file=str(reader.file), line=unread.line, unread=unread_part)
        self._keep(draft, Found(reader, None), tool_id)

    def _draft_of_item(self, reader: ModuleReader, item: object, line: int) -> Draft | Issue:
        guess = _stem(reader.file)
        if isinstance(item, SpecCall):
            return draft_of_call(item, guess)
        if isinstance(item, dict):
            return draft_of_spec(reader, item, Written("TOOL_SPECS", line, None), guess)
        if isinstance(item, Unread):
            return unread_specs(item, "An item of TOOL_SPECS")
        return Issue(
            file=str(reader.file),
            line=line,
            reason="TOOL_SPECS has an item that is neither a ToolSpec nor a dictionary like TOOL_SPEC.",
            remediation='Write TOOL_SPECS = [ToolSpec(id="my_tool", …)].',
        )

    def _add_listed(self, reader: ModuleReader, draft: Draft) -> None:
        """Adds one item of TOOL_SPECS, filled up with what its callable's own file says."""
        if name_problem(draft.id):
            self._keep(draft, Found(reader, None), "")
            return
        name = _said_text(draft, "callable_name") or draft.id
        homes = self._homes(reader, draft)
        if homes is None:
            return
        found = next(filter(None, (home.find(name) for home in homes)), None)
        if not homes or (found is None and _is_guessed(draft)):
            self._keep(draft, Found(reader, None), name)
        elif found is None:
            self.issues.append(_missing_callable(draft, name, homes[0]))
        elif self._is_callable(draft, found):
            base = self._base(found, draft.id)
            if base:
                self._used.add((base.file, base.callable_name))
                draft.inferred = base.inferred and "input_schema" not in draft.said
                draft.unread = draft.unread or base.unread
                draft.said = {**base.said, **draft.said}
            self._keep(draft, found, name)

    def _homes(self, reader: ModuleReader, draft: Draft) -> list[ModuleReader] | None:
        """The files that may hold the callable: empty where it is elsewhere, None where that is wrong."""
        module_path = _said_text(draft, "module_path")
        if not module_path:
            own = self.sources.open(Path(draft.file))
            return [reader] if isinstance(own, Issue) else [reader, own]
        if module_path == self._dotted(reader.file):
            return [reader]
        home = reader.open_module(module_path)
        if isinstance(home, Issue):
            self.issues.append(home)
            return None
        if (
            home is None
            and "." in module_path
            and resolve_import(reader.file, self.sources.root, module_path, 0)
        ):
            said = draft.said["module_path"]
            problem = f"there is no file for its module_path {module_path!r}"
            remedy = "Correct module_path, or leave it out: by default it is the module of TOOL_SPECS."
            self.issues.append(refusal(draft.id, said.file, said.line, problem, remedy))
            return None
        return [home] if home else []

    def _base(self, found: Found, tool_id: str) -> Draft | None:
        name = found.binding.name if found.binding else ""
        drafts = self.declared(found.reader)
        named = [draft for draft in drafts if draft.callable_name == name]
        return next((draft for draft in named if draft.id == tool_id), named[0] if named else None)

    # --- TOOL_SPEC and @tool ------------------------------------------------------------------------------

    def add_declared(self, reader: ModuleReader, *, own_only: bool = False) -> None:
        """Adds what TOOL_SPEC and decorators declare, except what TOOL_SPECS already took up.

        With `own_only`, a TOOL_SPEC that is imported from another file is left to that file.
        """
        binding = reader.scope.last("TOOL_SPEC")
        borrowed = own_only and binding is not None and binding.module is not None
        for draft in self.declared(reader):
            is_used = (draft.file, draft.callable_name) in self._used
            if is_used or (borrowed and draft.has_spec and not draft.decorated):
                continue
            found = reader.find(draft.callable_name)
            if found is None or self._is_callable(draft, found):
                self._keep(draft, found or Found(reader, None), draft.callable_name)

    def declared(self, reader: ModuleReader) -> list[Draft]:
        """The drafts from a file's TOOL_SPEC and decorators; what is wrong with them is noted once."""
        if reader.file not in self._declared:
            self._declared[reader.file] = []
            functions = drafts_of_functions(reader)
            self.issues += [issue for issue in functions.values() if isinstance(issue, Issue)]
            drafts = self._with_tool_spec(reader, functions)
            names = {draft.callable_name for draft in drafts}
            self._declared[reader.file] = [*drafts, *drafts_of_assignments(reader, names)]
        return self._declared[reader.file]

    def _with_tool_spec(self, reader: ModuleReader, functions: dict[str, Draft | Issue]) -> list[Draft]:
        binding = reader.scope.last("TOOL_SPEC")
        drafts = [draft for draft in functions.values() if isinstance(draft, Draft)]
        if binding is None:
            return drafts
        others = [draft for draft in drafts if not draft.uses_tool_spec]
        users = [draft for draft in drafts if draft.uses_tool_spec]
        if users:
            return [*others, *(draft for draft in users if self._fits(draft, reader))]
        written = Written("TOOL_SPEC", binding.line, binding.value)
        draft = draft_of_spec(reader, reader.value("TOOL_SPEC"), written, _stem(reader.file))
        if isinstance(draft, Issue):
            self.issues.append(draft)
            return others
        named = functions.get(draft.id)
        if isinstance(named, Draft):
            named.said |= draft.said
            named.unread, named.inferred, named.has_spec = draft.unread, False, True
        if named is not None:
            return others
        if reader.find(draft.id) is None and not draft.unread and not reader.binds("__getattr__"):
            self.issues.append(_missing_callable(draft, draft.id, reader))
            return others
        draft.callable_name = draft.id
        return [draft, *others]

    def _fits(self, draft: Draft, reader: ModuleReader) -> bool:
        """Whether a function that is decorated with TOOL_SPEC has the name that the spec says."""
        if draft.unread or draft.callable_name in (draft.id, draft.id.replace("-", "_")):
            return True
        self.issues.append(_missing_callable(draft, draft.id, reader))
        return False

    # --- keeping ------------------------------------------------------------------------------------------

    def _is_callable(self, draft: Draft, found: Found) -> bool:
        binding = found.binding
        if binding is None or not isinstance(binding.value, _NOT_CALLABLE):
            return True
        problem = f"{binding.name!r} on line {binding.line} is not a function"
        remedy = f"Define def {binding.name}(…), or correct the name in the spec."
        self.issues.append(refusal(draft.id, str(found.reader.file), binding.line, problem, remedy))
        return False

    def _keep(self, draft: Draft, found: Found, name: str) -> None:
        place = self._place(draft, found, name)
        info, issues = finish(draft, place)
        if info and _needs_schema(draft, info, found):
            problem = "it has no input schema"
            remedy = "Give its ToolSpec an input_schema, or its module a TOOL_SPEC with an inputSchema."
            issues.append(refusal(draft.id, draft.file, draft.line, problem, remedy))
            info = None
        self.issues += issues
        if info is None:
            return
        first = self.infos.setdefault((info.id, info.version), info)
        if first is not info:
            problem = f"version {info.version} of it is declared before, at {first.file}:{first.line}"
            remedy = "Remove one of them, or give it another version."
            self.issues.append(refusal(draft.id, draft.file, draft.line, problem, remedy))

    def _place(self, draft: Draft, found: Found, name: str) -> Place:
        binding, file = found.binding, found.reader.file
        module_path = self._dotted(file)
        if binding is None:
            module_path = _said_text(draft, "module_path") or module_path
        origin = self._origin or _relative(file, self.sources.root.parent)
        return Place(
            module_path=module_path,
            callable_name=binding.name if binding and binding.name != "*" else name,
            file=str(file),
            line=binding.line if binding else draft.line,
            family=self._family,
            source=self._source,
            origin=origin,
        )

    def _dotted(self, file: Path) -> str:
        parts = [*file.relative_to(self.sources.root).parent.parts]
        parts += [] if file.stem == "__init__" else [file.stem]
        return ".".join(filter(None, [self._package, *parts]))


def _needs_schema(draft: Draft, info: ToolInfo, found: Found) -> bool:
    """A plain function has no schema of its own; anything else may still bring one when it is loaded."""
    is_plain = found.binding is not None and isinstance(found.binding.definition, Function)
    return is_plain and info.input_schema is None and not (draft.inferred or info.unread)


def _is_guessed(draft: Draft) -> bool:
    """Whether it is uncertain where the callable is, because that is computed."""
    places = [draft.said[field].value for field in ("callable_name", "module_path") if field in draft.said]
    return draft.unread is not None or any(isinstance(value, Unread) for value in places)


def unread_specs(unread: Unread, subject: str = "TOOL_SPECS") -> Issue:
    return Issue(
        severity="warning",
        file=unread.file,
        line=unread.line,
        reason=f"{subject} {unread.reason}.",
        remediation="Write TOOL_SPECS as a list of ToolSpec(…) with literal arguments.",
    )


def _said_text(draft: Draft, field: str) -> str:
    said = draft.said.get(field)
    return said.value if said and isinstance(said.value, str) else ""


def _stem(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


def _relative(file: Path, directory: Path) -> str:
    return file.relative_to(directory).as_posix() if file.is_relative_to(directory) else str(file)


def _missing_callable(draft: Draft, name: str, reader: ModuleReader) -> Issue:
    functions = [item.name for item in reader.scope.definitions() if isinstance(item, Function)]
    match = closest(name, functions) or (functions[0] if len(functions) == 1 else None)
    problem = f"{reader.file.name} has no function {name!r}"
    if not name.isidentifier():
        return refusal(draft.id, draft.file, draft.line, problem, "Use a name that a function can have.")
    remedy = f"Define def {name}(…), or correct the name in the spec."
    if match:
        remedy = f"The closest is {match!r}: rename it to {name!r}, or correct the name in the spec."
    return refusal(draft.id, draft.file, draft.line, problem, remedy)
