"""What one place in the source says of a tool: a TOOL_SPEC, a ToolSpec(…) or a decorator.

Nothing is judged here but the form; `infos.py` holds the values against the rules.
"""

import ast
from typing import Any

import msgspec

from strands_cli.errors import Issue, closest, did_you_mean
from strands_cli.toolkit.adapt import SPEC_KEYS, spec_problem
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery.literals import describe
from strands_cli.tools._discovery.scope import END, Function
from strands_cli.tools._discovery.signature import schema_of, summary_of
from strands_cli.tools._discovery.syntax import ModuleReader
from strands_cli.tools._discovery.values import SpecCall, Unread, first_unread

TOOL_NAMES = frozenset({"tool"})

_FIELD_OF_KEY = {"description": "description", "inputSchema": "input_schema", "outputSchema": "output_schema"}
_FIELD_OF_OPTION = {
    "description": "description",
    "inputSchema": "input_schema",
    **dict.fromkeys(("version", "family", "category", "timeout", "output_schema", "requires")),
    **dict.fromkeys(("requires_consent", "deprecated", "replaced_by")),
}
"""The decorator's arguments that a listing shows, and the field of ToolInfo where it is called otherwise."""
_OTHER_OPTIONS = frozenset(
    {"spec", "name", "context", "blocking", "retries", "max_output", "isolate", "effects", "annotations"}
)
_FILLED_BY_DISCOVERY = frozenset({"id", "source", "origin", "file", "line", "unread", "inferred"})


class Said(msgspec.Struct, frozen=True):
    """One thing that is said of a tool, and where."""

    value: Any
    key: str
    """As the author calls it."""
    file: str
    line: int


class Draft(msgspec.Struct, kw_only=True):
    """A tool in the making: `said` has fields of ToolInfo, and `timeout`, which is in seconds."""

    id: str
    file: str
    line: int
    """Where the tool is declared."""
    callable_name: str = ""
    said: dict[str, Said] = {}
    unread: tuple[str, Unread] | None = None
    inferred: bool = False
    has_spec: bool = False
    decorated: bool = False
    uses_tool_spec: bool = False


class Written(msgspec.Struct, frozen=True):
    """Where a spec stands: the name that it has there, its line and its expression."""

    name: str
    line: int
    node: ast.expr | None


def draft_of_spec(reader: ModuleReader, value: object, written: Written, guess: str) -> Draft | Issue:
    """A draft from the value of a TOOL_SPEC; `guess` is the id where the spec's own cannot be read."""
    draft = Draft(id=guess, file=str(reader.file), line=written.line, has_spec=True)
    if isinstance(value, Unread):
        draft.unread = (written.name, value)
        return draft
    if not isinstance(value, dict):
        return _spec_refusal(draft, written.name, "it is not a dictionary", written.line)
    lines = _key_lines(written.node)
    readable = {key: _stand_in(key, part, guess) for key, part in value.items()}
    problem = spec_problem(readable)
    if problem:
        line = lines.get(_faulty_key(readable), written.line)
        return _spec_refusal(draft, written.name, problem, line)
    draft.id = readable["name"]
    draft.unread = first_unread(value.get("name"), "name")
    for key, field in _FIELD_OF_KEY.items():
        if value.get(key) is not None:
            draft.said[field] = Said(value[key], key, draft.file, lines.get(key, written.line))
    return draft


def _stand_in(key: object, value: object, guess: str) -> Any:
    """The value, or something of the right kind where it could not be read."""
    if first_unread(value, "") is None:
        return value
    return {"name": guess, "inputSchema": {}, "outputSchema": {}}.get(str(key), "")


def _faulty_key(spec: dict[Any, Any]) -> str:
    good: dict[Any, Any] = {"name": "name", "inputSchema": {}}
    return next((str(key) for key, value in spec.items() if spec_problem({**good, key: value})), "")


def _key_lines(node: ast.expr | None) -> dict[str, int]:
    if not isinstance(node, ast.Dict):
        return {}
    keys = [key for key in node.keys if isinstance(key, ast.Constant)]
    return {str(key.value): key.lineno for key in keys}


def _spec_refusal(draft: Draft, name: str, problem: str, line: int) -> Issue:
    keys = ", ".join(SPEC_KEYS)
    remedy = f"A {name} is a dictionary with the keys {keys}; name and inputSchema have to be there."
    return Issue(file=draft.file, line=line, reason=f"{name} is refused: {problem}.", remediation=remedy)


def draft_of_call(call: SpecCall, guess: str) -> Draft | Issue:
    """A draft from `ToolSpec(…)`."""
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
    draft = Draft(id=guess, file=call.file, line=call.line)
    if isinstance(identity, Unread):
        draft.unread = ("id", identity)
    else:
        draft.id = identity
    for name, value in call.arguments.items():
        if name not in _FILLED_BY_DISCOVERY and value is not None:
            draft.said[name] = Said(value, name, call.file, call.lines[name])
    return draft


def drafts_of_functions(reader: ModuleReader) -> dict[str, Draft | Issue]:
    """The functions of a module that are decorated with @tool, by their names."""
    functions = [item for item in reader.scope.definitions() if isinstance(item, Function)]
    decorated = [(function, tool_decorator(reader, function)) for function in functions]
    return {
        function.name: draft_of_function(reader, function, decorator)
        for function, decorator in decorated
        if decorator is not None
    }


def tool_decorator(reader: ModuleReader, function: Function) -> ast.expr | None:
    for decorator in function.decorator_list:
        if reader.origin_of(_called(decorator), TOOL_NAMES):
            return decorator
    return None


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def draft_of_function(reader: ModuleReader, function: Function, decorator: ast.expr) -> Draft | Issue:
    options: dict[str, Any] | Unread = {}
    lines: dict[str, int] = {}
    binding = reader.scope.last(function.name)
    if isinstance(decorator, ast.Call):
        options, lines = reader.keywords(decorator, binding.order if binding else END)
    if isinstance(options, Unread):
        return _draft_of_name(reader, function, ("@tool", options))
    wrong = _unknown_option(reader, function, decorator, options, lines)
    draft = wrong or _identified(reader, function, decorator, options)
    if isinstance(draft, Issue):
        return draft
    draft.callable_name = function.name
    draft.decorated = True
    for name, field in _FIELD_OF_OPTION.items():
        if options.get(name) is not None:
            draft.said[field or name] = Said(options[name], name, draft.file, lines[name])
    return _with_signature(reader, function, draft, options.get("context", False))


def _draft_of_name(
    reader: ModuleReader, function: Function, unread: tuple[str, Unread] | None = None
) -> Draft:
    file, name = str(reader.file), function.name
    return Draft(id=name, file=file, line=function.lineno, callable_name=name, unread=unread)


def _identified(
    reader: ModuleReader, function: Function, decorator: ast.expr, options: dict[str, Any]
) -> Draft | Issue:
    """A draft with its id: from the decorator's spec, its name, or the function's name."""
    if options.get("spec") is not None:
        return _draft_of_own_spec(reader, function, decorator, options["spec"])
    draft = _draft_of_name(reader, function)
    name = options.get("name")
    if isinstance(name, Unread):
        draft.unread = ("name", name)
    elif name is not None:
        draft.id = name
    return draft


def _draft_of_own_spec(
    reader: ModuleReader, function: Function, decorator: ast.expr, spec: object
) -> Draft | Issue:
    node = next((item.value for item in getattr(decorator, "keywords", ()) if item.arg == "spec"), decorator)
    binding = reader.scope.last(node.id) if isinstance(node, ast.Name) else None
    name = binding.name if binding else "spec"
    line = binding.line if binding else node.lineno
    written = binding.value if binding else node
    draft = draft_of_spec(reader, spec, Written(name, line, written), function.name)
    if isinstance(draft, Draft):
        draft.uses_tool_spec = name == "TOOL_SPEC"
    return draft


def _unknown_option(
    reader: ModuleReader,
    function: Function,
    decorator: ast.expr,
    options: dict[str, Any],
    lines: dict[str, int],
) -> Issue | None:
    if reader.origin_of(_called(decorator), TOOL_NAMES) != "strands_cli":
        return None  # the SDK's decorator may learn arguments that nobody here has heard of
    known = {*_FIELD_OF_OPTION, *_OTHER_OPTIONS}
    name = next((name for name in options if name not in known), None)
    if name is None:
        return None
    match = closest(name, known)
    remedy = f"Did you mean {match!r}?" if match else f"The arguments are {', '.join(sorted(known))}."
    reason = f"Tool {function.name!r} is refused: @tool has no argument {name!r}."
    return Issue(file=str(reader.file), line=lines[name], reason=reason, remediation=remedy)


def _with_signature(reader: ModuleReader, function: Function, draft: Draft, context: object) -> Draft:
    """Adds what the function itself says, where nothing else said it."""
    if not draft.has_spec and "input_schema" not in draft.said:
        draft.inferred = True
        schema = schema_of(reader, function, context)
        if schema is not None:
            draft.said["input_schema"] = Said(schema, "signature", draft.file, function.lineno)
    summary = summary_of(function)
    if "description" not in draft.said and summary:
        draft.said["description"] = Said(summary, "docstring", draft.file, function.lineno)
    return draft


def drafts_of_assignments(reader: ModuleReader, known: set[str]) -> list[Draft]:
    """`greet = tool(…)(function)`: certainly a tool, but what it is shows only when the module runs."""
    drafts = []
    for name, bindings in reader.scope.bindings.items():
        call = bindings[-1].value
        while isinstance(call, ast.Call) and isinstance(call.func, ast.Call):
            call = call.func
        if name in known or not isinstance(call, ast.Call) or not reader.origin_of(call.func, TOOL_NAMES):
            continue
        line = bindings[-1].line
        unread = (name, reader.unread(line, describe(call)))
        drafts.append(Draft(id=name, file=str(reader.file), line=line, callable_name=name, unread=unread))
    return drafts


def has_tool_methods(reader: ModuleReader) -> bool:
    """Whether a class of the module has methods decorated with @tool, which need an instance."""
    classes = [item for item in reader.scope.definitions() if isinstance(item, ast.ClassDef)]
    methods = [item for owner in classes for item in owner.body if isinstance(item, Function)]
    return any(tool_decorator(reader, method) for method in methods)
