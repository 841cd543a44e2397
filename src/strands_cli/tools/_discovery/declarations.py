"""What one place in a file says of a tool: a TOOL_SPEC, a `ToolSpec(…)` or a decorator.

Only the form is judged here; `tool_files` puts the places together and holds the values against the rules.
"""

import ast
from collections.abc import Iterator
from typing import Any

import msgspec

from strands_cli.errors import Issue, closest, did_you_mean
from strands_cli.toolkit.info import FIELDS, OPTIONS, SPEC_KEYS, ToolInfo, spec_problem
from strands_cli.tools._discovery.parameters import schema_of, summary_of
from strands_cli.tools._discovery.static import SourceFile, SpecCall, Unread, describe, first_unread
from strands_cli.tools._discovery.syntax import Function

_TOOL = frozenset({"tool"})
_FIELD_OF_KEY = {"description": "description", "inputSchema": "input_schema", "outputSchema": "output_schema"}


class FieldValue(msgspec.Struct, frozen=True):
    """The value of one field, and where it stands."""

    value: Any
    key: str
    """What the author calls the field."""
    file: str
    line: int


class ToolDeclaration(msgspec.Struct, kw_only=True):
    """A tool as one place declares it."""

    id: str
    file: str
    line: int
    callable_name: str = ""
    values: dict[str, FieldValue] = {}
    unread: tuple[str, Unread] | None = None
    inferred: bool = False
    has_spec: bool = False
    decorated: bool = False
    uses_tool_spec: bool = False

    def text(self, field: str) -> str:
        found = self.values.get(field)
        return found.value if found and isinstance(found.value, str) else ""

    def refusal(self, problem: str, remedy: str, file: str = "", line: int = 0) -> Issue:
        reason = f"Tool {self.id!r} is refused: {problem}."
        return Issue(file=file or self.file, line=line or self.line, reason=reason, remediation=remedy)


def from_spec(
    file: SourceFile, spec: object, guess: str, *, name: str, line: int, node: ast.expr | None
) -> ToolDeclaration | Issue:
    """What a TOOL_SPEC says. `guess` is the id where the spec's own cannot be read; `name`, `line` and `node`
    are what the spec is called there, and where it stands.
    """
    declared = ToolDeclaration(id=guess, file=str(file.path), line=line, has_spec=True)
    if isinstance(spec, Unread):
        declared.unread = (name, spec)
        return declared
    keys = [key for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []
    lines = {str(key.value): key.lineno for key in keys}
    readable: Any = spec
    if isinstance(spec, dict):
        stand_ins = {"name": guess, "inputSchema": {}, "outputSchema": {}}
        readable = {
            key: part if first_unread(part, "") is None else stand_ins.get(str(key), "")
            for key, part in spec.items()
        }
    problem = spec_problem(readable)
    if problem or not isinstance(spec, dict):
        good: dict[Any, Any] = {"name": "name", "inputSchema": {}}
        parts = readable.items() if isinstance(readable, dict) else ()
        faulty = next((str(key) for key, part in parts if spec_problem({**good, key: part})), "")
        keys_of_spec = f"the keys {', '.join(SPEC_KEYS)}; name and inputSchema have to be there"
        return Issue(
            file=declared.file,
            line=lines.get(faulty, line),
            reason=f"{name} is refused: {problem}.",
            remediation=f"A {name} is a dictionary with {keys_of_spec}.",
        )
    declared.id = readable["name"]
    declared.unread = first_unread(spec.get("name"), "name")
    for key, field in _FIELD_OF_KEY.items():
        if spec.get(key) is not None:
            declared.values[field] = FieldValue(spec[key], key, declared.file, lines.get(key, line))
    return declared


def from_call(call: SpecCall, guess: str) -> ToolDeclaration | Issue:
    """What `ToolSpec(…)` says."""
    fields = ToolInfo.__struct_fields__
    for name in call.arguments:
        if name not in fields:
            hint = did_you_mean(name, fields) or f"The fields are {', '.join(fields)}."
            reason = f"ToolSpec has no field {name!r}."
            return Issue(file=call.file, line=call.lines[name], reason=reason, remediation=hint)
    if "id" not in call.arguments:
        reason, remedy = "A ToolSpec has no id.", 'Give it one: ToolSpec(id="my_tool", …).'
        return Issue(file=call.file, line=call.line, reason=reason, remediation=remedy)
    identity = call.arguments["id"]
    declared = ToolDeclaration(id=guess, file=call.file, line=call.line)
    if isinstance(identity, Unread):
        declared.unread = ("id", identity)
    else:
        declared.id = identity
    for name, value in call.arguments.items():
        if name in FIELDS and name != "id" and value is not None:
            declared.values[name] = FieldValue(value, name, call.file, call.lines[name])
    return declared


def decorator_of(file: SourceFile, function: Function) -> ast.expr | None:
    for decorator in function.decorator_list:
        if file.origin_of(decorator.func if isinstance(decorator, ast.Call) else decorator, _TOOL):
            return decorator
    return None


def from_function(file: SourceFile, function: Function, decorator: ast.expr) -> ToolDeclaration | Issue:
    """What `@tool` says, and where it says nothing, the function's signature and docstring."""
    options, lines = file.keywords(decorator) if isinstance(decorator, ast.Call) else ({}, {})
    name = function.name
    declared = ToolDeclaration(id=name, file=str(file.path), line=function.lineno, callable_name=name)
    if isinstance(options, Unread):
        declared.unread = ("@tool", options)
        return declared
    known = {*OPTIONS, "spec", "context"}
    unknown = next((option for option in options if option not in known), "")
    # The SDK's decorator may learn arguments that nobody here has heard of.
    if unknown and file.origin_of(decorator.func, _TOOL) == "strands_cli":  # type: ignore[attr-defined]
        match = closest(unknown, known)
        remedy = f"Did you mean {match!r}?" if match else f"The arguments are {', '.join(sorted(known))}."
        return declared.refusal(f"@tool has no argument {unknown!r}", remedy, line=lines[unknown])
    if options.get("spec") is not None:
        found = _from_own_spec(file, function, decorator, options["spec"])
        if isinstance(found, Issue):
            return found
        declared = found
    elif isinstance(options.get("name"), Unread):
        declared.unread = ("name", options["name"])
    elif options.get("name") is not None:
        declared.id = options["name"]
    declared.decorated = True
    for option, field in OPTIONS.items():
        if option != "name" and options.get(option) is not None:
            declared.values[field] = FieldValue(options[option], option, declared.file, lines[option])
    _add_signature(file, function, declared, options.get("context", False))
    return declared


def _add_signature(file: SourceFile, function: Function, declared: ToolDeclaration, context: object) -> None:
    line = function.lineno
    if not declared.has_spec and "input_schema" not in declared.values:
        declared.inferred = True
        schema = schema_of(file, function, context)
        if schema is not None:
            declared.values["input_schema"] = FieldValue(schema, "signature", declared.file, line)
    summary = summary_of(function)
    if summary and "description" not in declared.values:
        declared.values["description"] = FieldValue(summary, "docstring", declared.file, line)


def _from_own_spec(
    file: SourceFile, function: Function, decorator: ast.expr, spec: object
) -> ToolDeclaration | Issue:
    """What the spec says that a decorator is given: a dictionary there, or a name such as TOOL_SPEC."""
    node = next((item.value for item in getattr(decorator, "keywords", ()) if item.arg == "spec"), decorator)
    binding = file.scope.last(node.id) if isinstance(node, ast.Name) else None
    name = binding.name if binding else "spec"
    line = binding.line if binding else node.lineno
    value = binding.value if binding else node
    declared = from_spec(file, spec, function.name, name=name, line=line, node=value)
    if isinstance(declared, ToolDeclaration):
        declared.callable_name = function.name
        declared.uses_tool_spec = name == "TOOL_SPEC"
    return declared


def from_assignments(file: SourceFile, known: set[str]) -> Iterator[ToolDeclaration]:
    """`greet = tool(…)(function)`: certainly a tool, but what it is shows only when the module runs."""
    for name, bindings in file.scope.bindings.items():
        call = bindings[-1].value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
            call = call.func
        if name not in known and isinstance(call, ast.Call) and file.origin_of(call.func, _TOOL):
            line = bindings[-1].line
            unread = (name, file.unread(line, describe(call)))
            yield ToolDeclaration(id=name, file=str(file.path), line=line, callable_name=name, unread=unread)
