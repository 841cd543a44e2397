"""What `strands tool check` asks of a tool beyond what reading it already found.

It compiles the schemas, which is too dear for a listing, and holds a function's parameters against its schema
with the very code that would refuse the tool when it is made.
"""

import ast
import inspect
from pathlib import Path
from typing import Any

from strands_cli.errors import Issue, ToolError
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.contract import Tool, closed_schema
from strands_cli.toolkit.functions import context_name, refuse_mismatch, takes_tool_use
from strands_cli.toolkit.info import ToolInfo, declared_fields
from strands_cli.tools._discovery.syntax import Function, Scope, parse


def schema_issues(info: ToolInfo) -> list[Issue]:
    """What is wrong with a tool's schemas, and with its function in view of them; nothing is run."""
    issues = []
    if info.input_schema is not None:
        issues += _schema_problem(info, closed_schema(info.input_schema), "input")
    if info.output_schema is not None:
        issues += _schema_problem(info, info.output_schema, "output")
    if not issues and not info.unread:
        issues += _declaration_problem(info)
    if info.input_schema is not None and not (issues or info.inferred or info.unread):
        issues += _signature_problem(info, info.input_schema)
    return issues


def _declaration_problem(info: ToolInfo) -> list[Issue]:
    """What the contract would refuse, tried on a stand-in for the tool."""
    function = _definition(info)
    if function is not None and info.inferred and function.args.vararg:
        problem = f"no tool can have the parameter *{function.args.vararg.arg}"
        return [_issue(info, problem, "Name each parameter.")]
    schema = info.input_schema if info.input_schema is not None else _open_schema(function)
    try:
        Tool(
            id=info.id,
            invoke=lambda _arguments, _context: None,
            is_async=isinstance(function, ast.AsyncFunctionDef),
            **{**declared_fields(info), "input_schema": schema},
        )
    except ToolError as error:
        problem = error.issue.reason if error.issue else error.message
        return [_issue(info, problem, error.hint or "Correct the tool's definition.")]
    return []


def _open_schema(function: Function | None) -> dict[str, Any]:
    """For a schema that is known on load: at least the names of the parameters are known."""
    arguments = [*function.args.args, *function.args.kwonlyargs] if function else []
    return {"type": "object", "properties": {argument.arg: {} for argument in arguments}}


def _schema_problem(info: ToolInfo, schema: dict[str, Any], side: str) -> list[Issue]:
    try:
        Validator(schema)
    except SchemaInvalid as error:
        remedy = "Correct the schema; it is JSON Schema 2020-12."
        return [_issue(info, f"its {side} schema is not a JSON Schema: {error}", remedy)]
    return []


def _signature_problem(info: ToolInfo, schema: dict[str, Any]) -> list[Issue]:
    function = _definition(info)
    if function is None:
        return []
    stand_in = _stand_in(function)
    try:
        if not takes_tool_use(stand_in, schema):
            refuse_mismatch(stand_in, schema, context_name(stand_in, _context_option(function)))
    except ToolError as error:
        remedy = "Let the parameters and the properties have the same names, and defaults where needed."
        return [_issue(info, error.message, remedy)]
    return []


def _definition(info: ToolInfo) -> Function | None:
    tree = parse(Path(info.file)) if info.file else None
    if not isinstance(tree, ast.Module):
        return None
    binding = Scope(tree).last(info.callable_name)
    definition = binding.definition if binding else None
    return definition if isinstance(definition, Function) else None


def _context_option(function: Function) -> bool | str:
    """The `context` of the decorator: the parameter that the platform fills, or True for `tool_context`."""
    calls = [decorator for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    for keyword in (keyword for call in calls for keyword in call.keywords):
        if keyword.arg == "context" and isinstance(keyword.value, ast.Constant):
            return keyword.value.value if isinstance(keyword.value.value, bool | str) else False
    return False


def _stand_in(function: Function) -> Any:
    """Something with the function's name and signature, and without its body."""

    def stand_in() -> None: ...

    stand_in.__name__ = function.name
    stand_in.__signature__ = inspect.Signature(_parameters(function.args))  # type: ignore[attr-defined]
    return stand_in


def _parameters(arguments: ast.arguments) -> list[inspect.Parameter]:
    kinds = inspect.Parameter
    positional = [
        *((argument, kinds.POSITIONAL_ONLY) for argument in arguments.posonlyargs),
        *((argument, kinds.POSITIONAL_OR_KEYWORD) for argument in arguments.args),
    ]
    optional_from = len(positional) - len(arguments.defaults)
    parameters = [
        _parameter(argument, kind, optional=index >= optional_from)
        for index, (argument, kind) in enumerate(positional)
    ]
    if arguments.vararg:
        parameters.append(_parameter(arguments.vararg, kinds.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(_parameter(argument, kinds.KEYWORD_ONLY, optional=default is not None))
    if arguments.kwarg:
        parameters.append(_parameter(arguments.kwarg, kinds.VAR_KEYWORD))
    return parameters


def _parameter(argument: ast.arg, kind: Any, *, optional: bool = False) -> inspect.Parameter:
    annotation = inspect.Parameter.empty if argument.annotation is None else ast.unparse(argument.annotation)
    default = None if optional else inspect.Parameter.empty
    return inspect.Parameter(argument.arg, kind, default=default, annotation=annotation)


def _issue(info: ToolInfo, problem: str, remedy: str) -> Issue:
    reason = f"Tool {info.id!r} is refused: {problem}."
    return Issue(file=info.file, line=info.line, reason=reason, remediation=remedy)
