"""What `strands tool check` asks of a tool beyond what reading it already found.

It compiles the schemas, which is too dear for a listing, and holds a function's parameters against its schema
with the very code that would refuse the tool when it is made.
"""

import ast
from pathlib import Path

from strands_cli.errors import Issue, ToolError
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.contract import Tool, closed_schema
from strands_cli.toolkit.functions import context_parameter_name, refuse_signature_mismatch, takes_tool_use
from strands_cli.toolkit.info import ToolInfo, declared_fields
from strands_cli.tools._discovery.declarations import stand_in_function
from strands_cli.tools._discovery.static import Function, Scope, parse_source_file


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
    tree = parse_source_file(Path(info.file)) if info.file else None
    binding = Scope(tree).last(info.callable_name) if isinstance(tree, ast.Module) else None
    function = binding.definition if binding and isinstance(binding.definition, Function) else None
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


def _context_option(function: Function) -> bool | str:
    """The `context` of the decorator: the parameter that the platform fills, or True for `tool_context`."""
    calls = [decorator for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    for keyword in (keyword for call in calls for keyword in call.keywords):
        if keyword.arg == "context" and isinstance(keyword.value, ast.Constant):
            return keyword.value.value if isinstance(keyword.value.value, bool | str) else False
    return False
