"""`call_tool`: the one way a tool is called.

Parse, validate, permit, run, normalise, check the output, cap, report. `prepare_arguments` (the first two)
and `finish_result` (normalise to cap) are pure and synchronous, so that a direct call is prepare, body,
finish.
"""

from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from strands_cli.documents.problems import joined_sentences
from strands_cli.errors import ToolFailed
from strands_cli.events import ToolFinished, ToolStarted
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.toolkit.arguments import CONTAINERS, copied_json, fit_arguments, parse_object
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import (
    NO_CONTEXT,
    CallContext,
    InterruptRequested,
    Permit,
    ToolContext,
    abandon_body,
    call_context_of,
    call_id_of,
    emit_event,
    inner_cancel_of,
    loop_of,
    tool_of,
    workspace_of,
)
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.effects import (
    are_bodies_left,
    has_body_ended,
    protected_writes,
    wait_for_left_bodies,
)
from strands_cli.toolkit.info import missing_requirements
from strands_cli.toolkit.results import (
    ToolResult,
    ToolUse,
    error_code_row,
    error_of,
    failure_result,
    with_error_code,
)
from strands_cli.toolkit.values import (
    capped_result,
    encoded_size,
    normalise_result,
    plain_answer,
    run_body_inline,
    unusable_output,
    value_of_outcome,
    value_of_result,
)
from strands_cli.toolkit.workspace import protected_refusal

DEEPEST_CALL = 16
_FIRST_PAUSE_SECONDS = 0.1


async def call_tool(tool: Tool, call: ToolUse, context: CallContext = NO_CONTEXT) -> ToolResult:
    """Calls a tool and returns a result. Failures are results with an error code, not exceptions."""
    if context.emit is None:
        return await _answer_call(tool, call, context)
    call_id = call.get("toolUseId", "")
    started = perf_counter()
    emit_event(context, ToolStarted(tool.id, tool.version, call_id, call.get("input")))
    code: str | None = "cancelled"  # if the caller's own task is cancelled
    size, content = 0, None
    try:
        result = await _answer_call(tool, call, context)
        error, content = error_of(result), result["content"]
        code, size = error["code"] if error else None, encoded_size(result)
        return result
    except InterruptRequested:
        code = "interrupted"
        raise
    finally:
        seconds = perf_counter() - started
        emit_event(context, ToolFinished(tool.id, tool.version, call_id, seconds, size, code, content))


async def _answer_call(tool: Tool, call: ToolUse, context: CallContext) -> ToolResult:
    call_id = call.get("toolUseId", "")
    try:
        arguments = prepare_arguments(tool, call)
        if protected := protected_writes(tool, arguments, context):
            context = await _allow_protected_writes(tool, arguments, context, protected)
        elif tool.requires or tool.requires_consent or context.permit is not None:
            await _check_permission(tool, arguments, context)
        if are_bodies_left():
            await wait_for_left_bodies(tool, arguments, context)
        if context.cancel is not None and context.cancel.is_set():
            raise ToolFailed(f"The call to {tool.id} was cancelled before it began", code="cancelled")
        if tool.runs_inline:
            inner = ToolContext(tool, call, context, _call_other_tool)
            outcome = run_body_inline(tool, arguments, inner)
            abandon_body(inner)
            value = value_of_outcome(outcome, tool)
        else:
            value = await _run_with_retries(tool, call, arguments, context)
        return finish_result(tool, call_id, value, context.max_output, context.redactor)
    except ToolFailed as failed:
        if context.redactor.is_empty:
            return failure_result(call_id, failed)
        # Before it is cut, which may leave a part of a secret; and then what the details come to as text.
        message, hint = map(context.redactor.text, (failed.message or str(failed), failed.hint))
        shown = ToolFailed(message, code=failed.code, hint=hint, details=failed.details)
        return _redacted_result(failure_result(call_id, shown), context.redactor)


def prepare_arguments(tool: Tool, call: ToolUse) -> dict[str, Any]:
    """The body's arguments; ToolFailed (`input_malformed`, `input_invalid`) if the input is wrong."""
    sent = parse_object(call.get("input", {}))
    arguments = fit_arguments(sent, tool.accepted_input, tool.check, tool.aliases)
    own = tool.shape.complete(arguments) if tool.shape else arguments.copy()
    for name, value in own.items():
        if isinstance(value, CONTAINERS):
            own[name] = copied_json(value)
    return own


def finish_result(
    tool: Tool,
    call_id: str,
    value: object,
    max_output: int | None = None,
    redactor: Redactor = NOTHING_SECRET,
) -> ToolResult:
    """The body's value as a result that fits the output schema; ToolFailed (`output_invalid`) otherwise."""
    result = normalise_result(call_id, value)
    if tool.accepted_output is not None and result["status"] == "success":
        answer = plain_answer(value, result)
        if not tool.accepted_output.accepts(answer):
            problems = tool.accepted_output.problems(answer)
            raise unusable_output(joined_sentences(problems), problems)
    if not redactor.is_empty:  # before a part of it goes to a file
        result = _redacted_result(result, redactor)
    capped = capped_result(tool.id, result, tool.max_output if max_output is None else max_output)
    return capped if capped["status"] == "success" else with_error_code(capped)


def _redacted_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Also without a secret that is divided over several blocks of text."""
    texts = iter(redactor.texts([block["text"] for block in result["content"] if "text" in block]))
    content = [
        {**redactor.value(block), "text": next(texts)} if "text" in block else redactor.value(block)
        for block in result["content"]
    ]
    return {**result, "content": content}


async def _allow_protected_writes(
    tool: Tool, arguments: dict[str, Any], context: CallContext, protected: tuple[Path, ...]
) -> CallContext:
    """The context in which the call may write these paths; ToolFailed where it may not be made at all."""
    workspace = workspace_of(context)
    shown = tuple(map(workspace.display, protected))
    ask = context.permit_protected
    if ask is None:
        raise protected_refusal(shown)

    async def permit(tool: Tool, arguments: dict[str, Any]) -> None:
        await ask(tool, arguments, shown)

    await _check_permission(tool, arguments, msgspec.structs.replace(context, permit=permit))
    allowed = msgspec.structs.replace(workspace, allowed=(*workspace.allowed, *protected))
    return msgspec.structs.replace(context, workspace=allowed)


async def _check_permission(tool: Tool, arguments: dict[str, Any], context: CallContext) -> None:
    missing = missing_requirements(tool.requires)
    if missing:
        raise ToolFailed(f"{tool.id} is unavailable: {'; '.join(missing)}", code="unavailable")
    if context.permit is not None:
        await _ask_permission(context.permit, tool, arguments)
    elif tool.requires_consent and not (context.settings and context.settings.bypass_consent):
        raise ToolFailed(
            f"{tool.id} needs consent to run, and nobody can be asked here",
            code="consent_required",
            hint="Consent in advance: --yes, BYPASS_TOOL_CONSENT=true, or CallContext(permit=…) in Python.",
        )


async def _ask_permission(permit: Permit, tool: Tool, arguments: dict[str, Any]) -> None:
    """What cannot be asked is not allowed."""
    try:
        await permit(tool, arguments)
    except ToolFailed:
        raise
    except Exception as error:
        raise ToolFailed(f"Asking for consent to run {tool.id} failed: {error!r}", code="denied") from error


async def _run_with_retries(
    tool: Tool, call: ToolUse, arguments: dict[str, Any], context: CallContext
) -> Any:
    """The body's value, after as many tries as the tool allows; never two bodies at the same time."""
    from strands_cli.toolkit.execution import run_body

    for attempt in range(tool.retries + 1):
        inner = ToolContext(tool, call, context, _call_other_tool)
        try:
            return await run_body(arguments, inner)
        except ToolFailed as failed:
            may_help = error_code_row(failed.code).retryable and failed.code != "cancelled"
            if attempt == tool.retries or not may_help or not await has_body_ended(inner, context.cancel):
                raise
            arguments = prepare_arguments(tool, call)  # the body may have changed its own
            if await (context.cancel or Cancellation()).wait(_FIRST_PAUSE_SECONDS * 2**attempt):
                raise ToolFailed(f"The call to {tool.id} was cancelled", code="cancelled") from failed
    raise AssertionError("the last attempt returns or raises")


def _call_other_tool(context: ToolContext, other: Tool, arguments: dict[str, Any], count: int) -> Any:
    """A body's call of another tool, one level deeper: its value, or a coroutine of it for an async body."""
    caller = tool_of(context)
    call_id = f"{call_id_of(context)}/{count}"
    call: ToolUse = {"toolUseId": call_id, "name": other.id, "input": arguments}
    inner = nested_context(context, str(count))

    async def value() -> Any:
        return value_of_result(await call_tool(other, call, inner), other)

    if caller.is_async:
        return value()
    from strands_cli.toolkit.execution import run_coroutine_in_loop, run_coroutine_in_thread

    loop = loop_of(context)
    if loop is None:  # the body has the loop's own thread, so that the loop cannot go on
        return run_coroutine_in_thread(value())
    return run_coroutine_in_loop(value, loop, inner_cancel_of(context))


def nested_context(context: ToolContext, step: str = "") -> CallContext:
    """The context of a call inside a call: its own limits and key, and no cap: only the whole is capped."""
    outer = call_context_of(context)
    if outer.depth >= DEEPEST_CALL:
        raise ToolFailed(
            f"{tool_of(context).id} is already {DEEPEST_CALL} calls deep", hint="A tool may not call itself."
        )
    key = f"{outer.key}/{step}" if outer.key and step else outer.key
    cancel = inner_cancel_of(context)
    return msgspec.structs.replace(
        outer, depth=outer.depth + 1, timeout=None, max_output=0, key=key, cancel=cancel
    )
