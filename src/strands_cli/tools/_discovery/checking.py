"""What `strands tool check` asks of a tool beyond what reading it already found.

It compiles the schemas, which is too dear for a listing, and holds a function's parameters against its schema
with the very code that would refuse the tool when it is made.
"""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.contract import Tool, closed_schema
from strands_cli.toolkit.docstring import read_docstring
from strands_cli.toolkit.functions import context_parameter_name, refuse_signature_mismatch, takes_tool_use
from strands_cli.toolkit.info import ToolInfo, declared_fields
from strands_cli.toolkit.type_schemas import NOT_JSON, default_as_json
from strands_cli.tools._discovery.declarations import plain_type, stand_in_function
from strands_cli.tools._discovery.static import Function, Scope, parse_source_file

_TYPE_KEYWORDS = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not", "if"})


def check_tools(infos: list[ToolInfo], project: Path) -> list[Issue]:
    """What is wrong with the tools and their files, for Python, for us or for a model; nothing is run."""
    issues = [issue for info in infos for issue in tool_schema_issues(info)]
    own = [info for info in infos if info.file.endswith(".py") and not info.manifest]
    for file in dict.fromkeys(info.file for info in own):
        needed = {name for info in own if info.file == file for name in info.requires or ()}
        issues += source_issues(Path(file), project, needed)
    issues += [issue for info in own if not info.unread for issue in _usability_issues(info)]
    return issues


def source_issues(file: Path, project: Path, needed: set[str]) -> Iterator[Issue]:
    """What Python would refuse when it loads a file: errors that only compiling finds, and missing imports.

    Packages in `needed` are requirements of the tool: without them it is unavailable, not wrong.
    """
    tree = parse_source_file(file)
    if isinstance(tree, Issue):
        return  # reading the file has told
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        reason = f"Syntax error: {getattr(error, 'msg', None) or error}."
        line = getattr(error, "lineno", None) or 1
        yield Issue(file=str(file), line=line, reason=reason, remediation="Correct the file.")
    for node in tree.body:  # what stands in a branch or a function may be missing on purpose
        for name, found in _imports_of(node, file, project):
            if not found and name.partition(".")[0] not in needed:
                remedy = "Correct the import, or install the package that has the module."
                reason = f"The module {name} is not found."
                yield Issue(file=str(file), line=node.lineno, reason=reason, remediation=remedy)


def _imports_of(node: ast.stmt, file: Path, project: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a statement imports, and whether each is there."""
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    def is_file(path: Path) -> bool:
        return path.is_dir() or path.with_name(f"{path.name}.py").is_file()

    def is_importable(name: str) -> bool:
        top = name.partition(".")[0]  # looking further would run the package
        try:
            return bool(find_spec(top) or PathFinder.find_spec(top, [str(project)]))
        except ValueError:  # a module of this program that has no file
            return True

    match node:
        case ast.Import(names=names):
            yield from ((alias.name, is_importable(alias.name)) for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module, is_importable(module)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = file.parents[min(level, len(file.parents)) - 1]
            dots = "." * level
            if module:
                yield f"{dots}{module}", is_file(base.joinpath(*module.split(".")))
            elif not (base / "__init__.py").is_file():
                yield from ((f"{dots}{alias.name}", is_file(base / alias.name)) for alias in names)


def _usability_issues(info: ToolInfo) -> Iterator[Issue]:
    """What keeps a model from using a tool well."""
    if not info.description.strip():
        reason = f"Tool {info.id!r} has no description, so no model knows when to call it."
        remedy = "Write a docstring, or give the tool a description."
        yield Issue(file=info.file, line=info.line, reason=reason, remediation=remedy)
    function = _function_of(info)
    found = [*_docstring_problems(function)] if function else []
    if not info.inferred:
        properties = (info.input_schema or {}).get("properties", {}).items()
        bare = [
            name for name, part in properties if isinstance(part, dict) and not _TYPE_KEYWORDS & part.keys()
        ]
        found += [
            (info.line, f"the property {name!r} has no type", "Add a type to its schema.") for name in bare
        ]
    elif function and info.input_schema != {"type": "object"}:  # which takes the whole tool use
        found += _parameter_problems(function)
    for line, why, remedy in found:
        reason = f"Tool {info.id!r}: {why}."
        yield Issue(severity="warning", file=info.file, line=line, reason=reason, remediation=remedy)


def _docstring_problems(function: Function) -> Iterator[tuple[int, str, str]]:
    every = [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    names = [argument.arg for argument in every]
    for name in read_docstring(ast.get_docstring(function)).parameters:
        if name not in names:
            remedy = did_you_mean(name, names) or "Use the name of a parameter, or remove the line."
            yield function.lineno, f"the docstring describes {name!r}, which is not a parameter", remedy


def _parameter_problems(function: Function) -> Iterator[tuple[int, str, str]]:
    """Parameters without a type, and defaults that do not fit theirs."""
    stand_in = stand_in_function(function, type_of=ast.unparse, default_of=lambda node: node)
    filled = {context_parameter_name(stand_in, _context_option(function)), "self", "cls", "agent"}
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        name, default = argument.arg, stand_in.__signature__.parameters[argument.arg].default
        if argument.annotation is None and name not in filled:
            yield argument.lineno, f"the parameter {name!r} has no type", f"Annotate it, as in {name}: str."
        elif (
            argument.annotation and isinstance(default, ast.expr) and _is_misfit(argument.annotation, default)
        ):
            why = f"the default of {name!r} is {ast.unparse(default)}, which does not fit its type"
            yield argument.lineno, why, "Correct one of them: a call without the argument gets this default."


def _is_misfit(annotation: ast.expr, default: ast.expr) -> bool:
    """Whether a default that is written out is of another type than its parameter."""
    try:
        kind, value = plain_type(annotation), ast.literal_eval(default)
    except (LookupError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return value is not None and default_as_json(value, kind) is NOT_JSON


def tool_schema_issues(info: ToolInfo) -> list[Issue]:
    """What is wrong with a tool's schemas, and with its function in view of them; nothing is run."""
    problems = []
    for side, schema in (("input", info.input_schema), ("output", info.output_schema)):
        try:
            if schema is not None:
                Validator(closed_schema(schema) if side == "input" else schema)
        except SchemaInvalid as error:
            remedy = "Fix the schema; it is JSON Schema 2020-12."
            problems.append((f"its {side} schema is not a valid JSON Schema: {error}", remedy))
    if not problems and not info.unread:
        try:
            _try_tool(info)
        except ToolError as error:
            problem = error.issue.reason if error.issue else error.message
            problems.append((problem, error.hint or "Fix the tool's definition."))
        except ValueError as error:
            problems.append((str(error), "Fix the function's parameters."))
    return [
        Issue(
            file=info.file, line=info.line, reason=f"Tool {info.id!r} is invalid: {why}.", remediation=remedy
        )
        for why, remedy in problems
    ]


def _try_tool(info: ToolInfo) -> None:
    """Makes a stand-in for the tool, and for its function; ToolError or ValueError where neither will do."""
    function = _function_of(info)
    if function is not None and info.inferred and function.args.vararg:
        problem = f"no tool can have the parameter *{function.args.vararg.arg}"
        raise ToolError(problem, hint="Name each parameter.")
    schema = info.input_schema
    if schema is None:  # known on load, but for the names
        arguments = [*function.args.args, *function.args.kwonlyargs] if function else []
        schema = {"type": "object", "properties": {argument.arg: {} for argument in arguments}}
    Tool(
        id=info.id,
        invoke=lambda _arguments, _context: None,
        is_async=isinstance(function, ast.AsyncFunctionDef),
        **{**declared_fields(info), "input_schema": schema},
    )
    if function is not None and info.input_schema is not None and not info.inferred:
        stand_in = stand_in_function(function, type_of=ast.unparse, default_of=lambda _: None)
        context = context_parameter_name(stand_in, _context_option(function))
        if not takes_tool_use(stand_in, schema):
            refuse_signature_mismatch(stand_in, schema, context)


def _function_of(info: ToolInfo) -> Function | None:
    tree = parse_source_file(Path(info.file)) if info.file else None
    binding = Scope(tree).last(info.callable_name) if isinstance(tree, ast.Module) else None
    return binding.definition if binding and isinstance(binding.definition, Function) else None


def _context_option(function: Function) -> bool | str:
    """The `context` of the decorator: the parameter that the platform fills, or True for `tool_context`."""
    calls = [decorator for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    for keyword in (keyword for call in calls for keyword in call.keywords):
        if keyword.arg == "context" and isinstance(keyword.value, ast.Constant):
            return keyword.value.value if isinstance(keyword.value.value, bool | str) else False
    return False
