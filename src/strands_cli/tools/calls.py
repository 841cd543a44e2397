"""`call_tool` and `call_tools` as programs use them: a tool may be given by name, and its arguments plainly.

The calls themselves are those of the toolkit, which knows no registry.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.toolkit import call, schedule
from strands_cli.toolkit.context import NO_CONTEXT, CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import as_tool
from strands_cli.toolkit.results import ToolResult, ToolUse, failure_result, is_tool_use
from strands_cli.tools.registry import ToolRegistry

Callee = Tool | str | Callable[..., Any]
"""A tool, a reference such as "calculator", or anything else that `as_tool` takes."""


async def call_tool(
    tool: Callee, use: Mapping[str, Any] | None = None, /, context: CallContext = NO_CONTEXT, **arguments: Any
) -> ToolResult:
    """Calls a tool and answers with a result, whatever happens: errors are coded results, not exceptions.

    `tool` is a tool, a function, or a reference such as `"calculator"`. Its arguments are keywords, or a
    dictionary. A dictionary that has `toolUseId`, or `input` with nothing but `name` beside it, is a tool
    use: its `input` holds the arguments, or the text that a model sent.
    """
    checked = _tool_use(use, arguments)
    if context is not NO_CONTEXT:
        _refuse_other_context(context)
    if not isinstance(tool, Tool):
        try:
            tool = _tool_for(tool, context)
        except (ToolError, ToolFailed) as error:
            return _load_failure(checked, error)
    return await call.call_tool(tool, checked, context)


async def call_tools(
    calls: Sequence[tuple[Callee, Mapping[str, Any]]],
    context: CallContext = NO_CONTEXT,
    *,
    max_parallel: int | None = None,
) -> list[ToolResult]:
    """Calls many tools, as concurrently as their effects allow; answers in request order.

    Tools and arguments are given as for `call_tool`. A tool's time limit counts from when it may start. A
    call that fails leaves the others alone; if one asks a human, the others finish before that is raised.
    Each call gets its own idempotency key.
    """
    _refuse_other_context(context)
    ready: list[tuple[Tool, ToolUse]] = []
    failures: dict[int, ToolResult] = {}
    for index, (tool, given) in enumerate(calls):
        use = _tool_use(given, {})
        try:
            ready.append((_tool_for(tool, context), use))
        except (ToolError, ToolFailed) as error:
            failures[index] = _load_failure(use, error)
    answers = iter(await schedule.call_tools(ready, context, max_parallel=max_parallel))
    return [failures[index] if index in failures else next(answers) for index in range(len(calls))]


def _tool_for(tool: Callee, context: CallContext) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if isinstance(tool, str):
        return (context.resolve or ToolRegistry().load)(tool)
    return as_tool(tool)


def _tool_use(given: Mapping[str, Any] | None, arguments: dict[str, Any]) -> ToolUse:
    if given is None:
        return {"input": arguments}
    if not isinstance(given, dict):
        if not isinstance(given, Mapping):
            remedy = 'Write call_tool(tool, {"name": "Ada"}) or call_tool(tool, name="Ada").'
            raise TypeError(f"The arguments of a call are {type(given).__name__}, not a dictionary. {remedy}")
        given = dict(given)
    if arguments:
        names = ", ".join(arguments)
        raise TypeError(
            f"The call has a dictionary and keywords ({names}). Put all arguments into one of them."
        )
    return given if is_tool_use(given) else {"input": given}


def _refuse_other_context(context: object) -> None:
    if not isinstance(context, CallContext):
        raise TypeError(
            f"context is {type(context).__name__}, not a CallContext. "
            "Pass an argument of that name in a dictionary, as in call_tool(tool, {'context': …})."
        )


def _load_failure(use: ToolUse, error: ToolError | ToolFailed) -> ToolResult:
    failed = ToolFailed(error.message, code=error.code, hint=error.hint)
    return failure_result(use.get("toolUseId", ""), failed)
