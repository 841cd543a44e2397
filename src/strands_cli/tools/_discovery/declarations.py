"""What one place in a file says of a tool: a TOOL_SPEC, a `ToolSpec(…)`, or a decorator with its function.

Only the form is judged here; `tool_files` puts the places together and holds the values against the rules.
Where the annotations of a function are not plain types, its schema is left out until the tool is loaded.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Annotated, Any, Literal, Optional, Union

import msgspec

from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.toolkit.docstring import read_docstring
from strands_cli.toolkit.functions import takes_tool_use
from strands_cli.toolkit.info import FIELDS, OPTIONS, SPEC_KEYS, ToolInfo, tool_spec_problem
from strands_cli.tools._discovery.static import (
    Binding,
    FieldValue,
    Function,
    SourceFile,
    SpecCall,
    Unread,
    Unreadable,
    describe_expression,
    dotted_name,
)

_TOOL = frozenset({"tool"})
_TOOL_CLASSES = frozenset({"AgentTool", "NativeTool"})
_TOOL_METHODS = ({"tool_spec", "tool_name", "stream"}, {"execute", "validate_inputs"})
_LARGEST = 1e300
"""Beyond it a number is infinite, or not a number, or an integer that nobody meant."""

_PLAIN_TYPES: dict[str, Any] = {
    **{kind.__name__: kind for kind in (str, int, float, bool, list, dict, object)},
    **{"List": list, "Dict": dict, "Any": Any, "Optional": Optional, "Union": Union, "Literal": Literal},
    "Annotated": Annotated,
    # Those of the parameters that the platform fills, which are known by their names.
    **{name: type(name, (), {"__module__": "strands"}) for name in ("ToolContext", "Agent")},
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
        reason = f"Tool {self.id!r} is invalid: {problem}."
        return Issue(file=file or self.file, line=line or self.line, reason=reason, remediation=remedy)


def declaration_from_spec(
    file: SourceFile, spec: object, guess: str, binding: Binding
) -> ToolDeclaration | Issue:
    """What a TOOL_SPEC says. `guess` is the id where the spec's own cannot be read; the binding tells what
    the spec is called there, and where it stands.
    """
    name, line, node = binding.name, binding.line, binding.value
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
            reason=f"{name} is invalid: {problem}.",
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
    add_signature(file, function, declared, context)
    return declared


def is_module_function(function: Function) -> bool:
    """Whether it has the form `f(tool, **kwargs)`, whose input is whatever a schema says."""
    return takes_tool_use(stand_in_function(function, ast.unparse, lambda _: None), None)


def add_signature(
    file: SourceFile,
    function: Function,
    declared: ToolDeclaration,
    context: object = False,
    *,
    takes_any: bool = False,
) -> None:
    """Adds what the function itself tells, where nobody has declared it: schema and description."""
    line, description = function.lineno, read_docstring(ast.get_docstring(function)).description
    if not declared.has_spec and "input_schema" not in declared.values:
        declared.inferred = True
        if schema := {"type": "object"} if takes_any else _signature_schema(file, function, context):
            declared.values["input_schema"] = FieldValue(schema, "signature", declared.file, line)
    if description and "description" not in declared.values:
        declared.values["description"] = FieldValue(description, "docstring", declared.file, line)


def _declaration_from_decorator_spec(
    file: SourceFile, function: Function, decorator: ast.expr, spec: object
) -> ToolDeclaration | Issue:
    """What the spec says that a decorator is given: a dictionary there, or a name such as TOOL_SPEC."""
    node = next((item.value for item in getattr(decorator, "keywords", ()) if item.arg == "spec"), decorator)
    binding = file.scope.last(node.id) if isinstance(node, ast.Name) else None
    binding = binding or Binding(name="spec", line=node.lineno, is_certain=True, value=node)
    declared = declaration_from_spec(file, spec, function.name, binding)
    if isinstance(declared, ToolDeclaration):
        declared.callable_name = function.name
        declared.uses_tool_spec = binding.name == "TOOL_SPEC"
    return declared


def declarations_from_assignments(file: SourceFile, known: set[str]) -> Iterator[ToolDeclaration]:
    """`greet = tool(…)(function)`, `weather = Weather()` or a class in `__all__`: certainly tools, but what
    they are shows only when the module runs.
    """
    made: set[str] = set()
    for name, bindings in file.scope.bindings.items():
        call = bindings[-1].value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
            call = call.func
        if name in known or not isinstance(call, ast.Call):
            continue
        owner = tool_class_of(file, dotted_name(call.func)) if name[0] != "_" else None
        if owner or file.origin_of(call.func, _TOOL):
            made |= {owner.name} if owner else set()
            line = bindings[-1].line
            unread = (name, file.unread(line, describe_expression(call)))
            yield _made_tool(file, owner, name, line, unread)
    for name in exported_names(file):
        owner = tool_class_of(file, name)
        if owner and name not in known and owner.name not in made:
            unread = (
                name,
                file.unread(
                    owner.lineno, "is a class, and what its tool takes is known when the module runs"
                ),
            )
            yield _made_tool(file, owner, name, owner.lineno, unread)


def _made_tool(
    file: SourceFile, owner: ast.ClassDef | None, name: str, line: int, unread: tuple[str, Unread]
) -> ToolDeclaration:
    """A tool that the module makes. Its id is what its class returns as `tool_name`, else `name`."""
    found = name
    for item in owner.body if owner else ():
        match item:
            case ast.FunctionDef(name="tool_name", body=[*_, ast.Return(value=ast.Constant(value=str(own)))]):
                found = own
    return ToolDeclaration(id=found, file=str(file.path), line=line, callable_name=name, unread=unread)


def exported_names(file: SourceFile) -> list[str]:
    """The names in `__all__`, as far as they can be read."""
    names = file.value("__all__")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else []


def tool_class_of(file: SourceFile, name: str, seen: frozenset[str] = frozenset()) -> ast.ClassDef | None:
    """The class of that name, if objects of it are tools: so its bases say, or its methods."""
    home, binding = file.find(name) or (file, None)
    owner = binding.definition if binding else None
    if not isinstance(owner, ast.ClassDef) or name in seen:
        return None
    methods = {item.name for item in owner.body if isinstance(item, Function)}
    is_tool = any(wanted <= methods for wanted in _TOOL_METHODS) or any(
        home.origin_of(base, _TOOL_CLASSES) or tool_class_of(home, dotted_name(base), seen | {name})
        for base in owner.bases
    )
    return owner if is_tool else None


# --- A signature as a schema ------------------------------------------------------------------------------


def _signature_schema(file: SourceFile, function: Function, context: object) -> dict[str, Any] | None:
    """The schema that the loaded tool will have, where types and defaults can be read; `context` is the
    decorator's argument of that name.
    """
    from strands_cli.toolkit.signature import read_signature

    def default_of(node: ast.expr) -> Any:
        value = file.evaluate(node)
        if first_unread_part(value, ""):
            raise ValueError
        return value

    try:
        stand_in = stand_in_function(function, plain_type, default_of)
        return read_signature(
            stand_in, context=context if isinstance(context, bool | str) else False
        ).input_schema
    except (ToolError, LookupError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def plain_type(node: ast.expr) -> Any:
    """The type that an annotation means; LookupError where it is not made of those in the table."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return plain_type(ast.parse(node.value.strip(), mode="eval").body)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[plain_type(node.left), plain_type(node.right)]  # noqa: UP007 - of what is only known here
    if isinstance(node, ast.Subscript):
        kind = plain_type(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if kind is Annotated:
            return Annotated[(plain_type(parts[0]), *map(_annotation_note, parts[1:]))]
        inner = [ast.literal_eval(part) if kind is Literal else plain_type(part) for part in parts]
        return kind[tuple(inner) if len(inner) > 1 else inner[0]]
    return _PLAIN_TYPES[dotted_name(node).rpartition(".")[2]]


def _annotation_note(node: ast.expr) -> str | msgspec.Meta:
    """Returns what follows the type in `Annotated`: a text, or a `Meta` of literals; else LookupError."""
    if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] == "Meta" and not node.args:
        values = {item.arg or "": literal_as_json(ast.literal_eval(item.value)) for item in node.keywords}
        try:
            return msgspec.Meta(**values)
        except re.error as error:  # in `pattern`
            raise ValueError from error
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise LookupError


def stand_in_function(
    function: Function, type_of: Callable[[ast.expr], Any], default_of: Callable[[ast.expr], Any]
) -> Any:
    """Something with the function's name, signature and docstring, and without its body."""

    def stand_in() -> None: ...

    arguments, kinds = function.args, inspect.Parameter
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[Any, Any] = {
        **dict(zip(by_place[::-1], arguments.defaults[::-1], strict=False)),
        **dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)),
    }
    given = [
        *zip(arguments.posonlyargs, repeat(kinds.POSITIONAL_ONLY)),
        *zip(arguments.args, repeat(kinds.POSITIONAL_OR_KEYWORD)),
        (arguments.vararg, kinds.VAR_POSITIONAL),
        *zip(arguments.kwonlyargs, repeat(kinds.KEYWORD_ONLY)),
        (arguments.kwarg, kinds.VAR_KEYWORD),
    ]
    parameters = [
        kinds(
            argument.arg,
            kind,
            default=default_of(defaults[argument]) if defaults.get(argument) else kinds.empty,
            annotation=type_of(argument.annotation) if argument.annotation else kinds.empty,
        )
        for argument, kind in given
        if argument is not None
    ]
    stand_in.__name__, stand_in.__doc__ = function.name, ast.get_docstring(function)
    stand_in.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {
        item.name: item.annotation for item in parameters if item.annotation is not kinds.empty
    }
    return stand_in
