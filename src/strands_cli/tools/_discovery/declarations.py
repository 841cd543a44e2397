"""What one place in a file says of a tool: a TOOL_SPEC, a `ToolSpec(…)`, or a decorator with its function.

Only the form is judged here; `tool_files` puts the places together and holds the values against the rules.
Where the annotations of a function are not simple, its schema is left out until the tool is loaded.
"""

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from strands_cli.errors import Issue, did_you_mean
from strands_cli.toolkit.docstring import read_docstring
from strands_cli.toolkit.info import FIELDS, OPTIONS, SPEC_KEYS, ToolInfo, tool_spec_problem
from strands_cli.tools._discovery.static import (
    FieldValue,
    Function,
    SourceFile,
    SpecCall,
    Unread,
    Unreadable,
    describe_expression,
    dotted_name,
)

Schema = dict[str, Any]

_TOOL = frozenset({"tool"})
_LARGEST = 1e300
"""Beyond it a number is infinite, or not a number, or an integer that nobody meant."""

_FILLED_BY_THE_PLATFORM = frozenset({"self", "cls", "agent"})
_PLAIN_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "List": "array",
    "dict": "object",
    "Dict": "object",
}
_FIELD_OF_KEY = {"description": "description", "inputSchema": "input_schema", "outputSchema": "output_schema"}


def first_unread_part(value: object, key: str) -> tuple[str, Unread] | None:
    """The first part of a value that could not be read, with the dotted path to it from `key`."""
    if isinstance(value, Unread):
        return key, value
    parts: list[tuple[str, object]] = []
    if isinstance(value, dict):
        parts = [(f"{key}.{name}", part) for name, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(key, part) for part in value]
    return next(filter(None, (first_unread_part(part, name) for name, part in parts)), None)


class NotJson(ValueError):
    """A value that no JSON document can hold."""


def literal_as_json(value: object, path: str = "") -> Any:
    """The value as JSON has it, tuples as lists; NotJson says what has no place there."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, list | tuple):
        return [literal_as_json(part, f"{path}/{index}") for index, part in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: literal_as_json(part, f"{path}/{name}") for name, part in value.items()}
    kind = "dictionary whose keys are not all strings" if isinstance(value, dict) else type(value).__name__
    raise NotJson(f"there is a {kind} at {path or '/'}, which JSON does not have")


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
    is_listed: bool = False
    """Whether an item of TOOL_SPECS has taken it up."""

    def take_id(self, given: FieldValue) -> None:
        """Takes the id that is given, or says that it could not be read."""
        if isinstance(given.value, Unread):
            self.unread = (given.key, given.value)
        else:
            self.id = given.value

    def text(self, field: str) -> str:
        found = self.values.get(field)
        return found.value if found and isinstance(found.value, str) else ""

    def refusal(self, problem: str, remedy: str, file: str = "", line: int = 0) -> Issue:
        reason = f"Tool {self.id!r} is refused: {problem}."
        return Issue(file=file or self.file, line=line or self.line, reason=reason, remediation=remedy)


def declaration_from_spec(
    file: SourceFile, spec: object, guess: str, *, name: str, line: int, node: ast.expr | None
) -> ToolDeclaration | Issue:
    """What a TOOL_SPEC says. `guess` is the id where the spec's own cannot be read; `name`, `line` and `node`
    are what the spec is called there, and where it stands.
    """
    declared = ToolDeclaration(id=guess, file=str(file.path), line=line, has_spec=True)
    if isinstance(spec, Unread):
        declared.unread = (name, spec)
        return declared
    stand_ins = {"name": guess, "inputSchema": {}, "outputSchema": {}}
    parts = spec if isinstance(spec, dict) else {}
    readable: dict[Any, Any] = {
        key: stand_ins.get(key, "") if first_unread_part(part, "") else part for key, part in parts.items()
    }
    keys = node.keys if isinstance(node, ast.Dict) else []
    lines = {key.value: key.lineno for key in keys if isinstance(key, ast.Constant)}
    if problem := tool_spec_problem(readable if isinstance(spec, dict) else spec):
        good = {"name": "name", "inputSchema": {}}
        faulty = (key for key, part in readable.items() if tool_spec_problem({**good, key: part}))
        return Issue(
            file=declared.file,
            line=lines.get(next(faulty, ""), line),
            reason=f"{name} is refused: {problem}.",
            remediation=f"A {name} is a dictionary with the keys {', '.join(SPEC_KEYS)}; name and "
            "inputSchema have to be there.",
        )
    declared.id = readable["name"]
    declared.unread = first_unread_part(parts["name"], "name")
    for key, field in _FIELD_OF_KEY.items():
        if parts.get(key) is not None:
            declared.values[field] = FieldValue(parts[key], key, declared.file, lines.get(key, line))
    return declared


def declaration_from_call(call: SpecCall, guess: str) -> ToolDeclaration | Issue:
    """What `ToolSpec(…)` says."""
    fields = ToolInfo.__struct_fields__
    for name, argument in call.arguments.items():
        if name not in fields:
            hint = did_you_mean(name, fields) or f"The fields are {', '.join(fields)}."
            reason = f"ToolSpec has no field {name!r}."
            return Issue(file=call.file, line=argument.line, reason=reason, remediation=hint)
    if "id" not in call.arguments:
        reason, remedy = "A ToolSpec has no id.", 'Give it one: ToolSpec(id="my_tool", …).'
        return Issue(file=call.file, line=call.line, reason=reason, remediation=remedy)
    declared = ToolDeclaration(id=guess, file=call.file, line=call.line)
    declared.take_id(call.arguments["id"])
    declared.values = {
        name: call.arguments[name] for name in call.arguments if name in FIELDS and name != "id"
    }
    return declared


def tool_decorator_of(file: SourceFile, function: Function) -> ast.expr | None:
    for decorator in function.decorator_list:
        if file.origin_of(decorator.func if isinstance(decorator, ast.Call) else decorator, _TOOL):
            return decorator
    return None


def declaration_from_function(
    file: SourceFile, function: Function, decorator: ast.expr
) -> ToolDeclaration | Issue:
    """What `@tool` says, and where it says nothing, the function's signature and docstring."""
    name = function.name
    declared = ToolDeclaration(id=name, file=str(file.path), line=function.lineno, callable_name=name)
    try:
        options = file.keywords(decorator) if isinstance(decorator, ast.Call) else {}
    except Unreadable as error:
        declared.unread = ("@tool", error.unread)
        return declared
    known = {*OPTIONS, "spec", "context"}
    unknown = next((option for option in options if option not in known), "")
    # The SDK's decorator may learn arguments that nobody here has heard of.
    if unknown and file.origin_of(decorator.func, _TOOL) == "strands_cli":  # type: ignore[attr-defined]
        remedy = did_you_mean(unknown, known) or f"The arguments are {', '.join(sorted(known))}."
        return declared.refusal(f"@tool has no argument {unknown!r}", remedy, line=options[unknown].line)
    if "spec" in options:
        found = _declaration_from_decorator_spec(file, function, decorator, options["spec"].value)
        if isinstance(found, Issue):
            return found
        declared = found
    elif "name" in options:
        declared.take_id(options["name"])
    declared.decorated = True
    declared.values |= {
        field: options[option] for option, field in OPTIONS.items() if option in options and field != "id"
    }
    context = options["context"].value if "context" in options else False
    _add_signature(file, function, declared, context)
    return declared


def _add_signature(file: SourceFile, function: Function, declared: ToolDeclaration, context: object) -> None:
    line, documented = function.lineno, read_docstring(ast.get_docstring(function))
    if not declared.has_spec and "input_schema" not in declared.values:
        declared.inferred = True
        with suppress(_SignatureNotSimple, NotJson, RecursionError):
            schema = _signature_schema(file, function, documented.parameters, context)
            declared.values["input_schema"] = FieldValue(schema, "signature", declared.file, line)
    if documented.description and "description" not in declared.values:
        text = documented.description
        declared.values["description"] = FieldValue(text, "docstring", declared.file, line)


def _declaration_from_decorator_spec(
    file: SourceFile, function: Function, decorator: ast.expr, spec: object
) -> ToolDeclaration | Issue:
    """What the spec says that a decorator is given: a dictionary there, or a name such as TOOL_SPEC."""
    node = next((item.value for item in getattr(decorator, "keywords", ()) if item.arg == "spec"), decorator)
    binding = file.scope.last(node.id) if isinstance(node, ast.Name) else None
    name = binding.name if binding else "spec"
    line = binding.line if binding else node.lineno
    value = binding.value if binding else node
    declared = declaration_from_spec(file, spec, function.name, name=name, line=line, node=value)
    if isinstance(declared, ToolDeclaration):
        declared.callable_name = function.name
        declared.uses_tool_spec = name == "TOOL_SPEC"
    return declared


def declarations_from_assignments(file: SourceFile, known: set[str]) -> Iterator[ToolDeclaration]:
    """`greet = tool(…)(function)`: certainly a tool, but what it is shows only when the module runs."""
    for name, bindings in file.scope.bindings.items():
        call = bindings[-1].value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
            call = call.func
        if name not in known and isinstance(call, ast.Call) and file.origin_of(call.func, _TOOL):
            line = bindings[-1].line
            unread = (name, file.unread(line, describe_expression(call)))
            yield ToolDeclaration(id=name, file=str(file.path), line=line, callable_name=name, unread=unread)


# --- A signature as a schema ------------------------------------------------------------------------------


class _SignatureNotSimple(Exception):
    """An annotation or a default that only loading the tool can settle."""


def _signature_schema(
    file: SourceFile, function: Function, documented: dict[str, str], context: object
) -> Schema:
    """What a model fills in; `context` is the decorator's argument of that name."""
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        raise _SignatureNotSimple
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults, *arguments.kw_defaults]
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for argument, default in zip([*arguments.args, *arguments.kwonlyargs], defaults, strict=True):
        name, annotation = argument.arg, argument.annotation
        type_name = ast.unparse(annotation).strip("'\" ").rpartition(".")[2] if annotation else ""
        is_context = name == context or (context is True and name == "tool_context")
        if is_context or name in _FILLED_BY_THE_PLATFORM or type_name == "ToolContext":
            continue
        properties[name] = _parameter_schema(file, annotation, default, documented.get(name, ""))
        if default is None:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _last_name(node: ast.expr) -> str:
    return dotted_name(node).rpartition(".")[2]


def _parameter_schema(
    file: SourceFile, annotation: ast.expr | None, default: ast.expr | None, description: str
) -> Schema:
    if annotation is None:
        raise _SignatureNotSimple
    schema = _annotation_schema(annotation)
    given = {"default": literal_as_json(file.evaluate(default))} if default else {}
    if given == {"default": None} and "anyOf" not in schema:
        schema = {"anyOf": [schema, {"type": "null"}]}
    described = {"description": description} if description else {}
    return {**schema, **described, **given}


def _annotation_schema(node: ast.expr) -> Schema:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise _SignatureNotSimple from None
    if isinstance(node, ast.Constant) and node.value is None:
        return {"type": "null"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union_schema([node.left, node.right])
    if isinstance(node, ast.Subscript):
        return _generic_schema(_last_name(node.value), node.slice)
    name = _last_name(node)
    if name not in _PLAIN_TYPES:
        raise _SignatureNotSimple
    return {"type": _PLAIN_TYPES[name]}


def _generic_schema(name: str, inner: ast.expr) -> Schema:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in ("list", "List") and len(parts) == 1:
        return {"type": "array", "items": _annotation_schema(parts[0])}
    if name in ("dict", "Dict") and len(parts) == 2 and dotted_name(parts[0]) == "str":
        if _last_name(parts[1]) in ("Any", "object"):
            return {"type": "object"}
        return {"type": "object", "additionalProperties": _annotation_schema(parts[1])}
    if name == "Optional" and len(parts) == 1:
        return _union_schema([parts[0], ast.Constant(value=None)])
    if name == "Union":
        return _union_schema(parts)
    if name == "Literal":
        values = [part.value if isinstance(part, ast.Constant) else None for part in parts]
        for kind, type_name in ((str, "string"), (int, "integer")):
            if all(type(value) is kind for value in values):
                return {"type": type_name, "enum": values}
    raise _SignatureNotSimple


def _union_schema(parts: list[ast.expr]) -> Schema:
    """`X | None`. Unions of several types are left to the loaded tool, which also converts their values."""
    null = {"type": "null"}
    others = [schema for schema in map(_annotation_schema, parts) if schema != null]
    if len(others) != 1 or len(parts) != 2:
        raise _SignatureNotSimple
    return {"anyOf": [others[0], null]}
