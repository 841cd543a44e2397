"""What a tool's author sees of a call."""

from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest

from strands_cli import ToolContext
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import CallContext, abandon_body, inner_cancel_of
from strands_cli.toolkit.decorator import tool

PUBLIC = {
    "agent",
    "call",
    "cancelled",
    "interrupt",
    "invocation_state",
    "key",
    "progress",
    "tool_use",
    "workspace",
}


@tool
def idle() -> None:
    """Do nothing."""


def test_the_context_offers_authors_this_and_nothing_else() -> None:
    assert {name for name in dir(ToolContext) if not name.startswith("_")} == PUBLIC


def test_a_call_that_has_ended_cancels_what_its_body_began_and_leaves_its_run_alone() -> None:
    run = Cancellation()
    context = ToolContext(idle, {"input": {}}, CallContext(cancel=run))
    inner = inner_cancel_of(context)

    abandon_body(context)

    assert inner.is_set()
    assert context.cancelled
    assert not run.is_set()


def test_a_cancelled_run_cancels_the_calls_that_a_body_makes() -> None:
    run = Cancellation()
    inner = inner_cancel_of(ToolContext(idle, {"input": {}}, CallContext(cancel=run)))

    run.set()

    assert inner.is_set()


def plain(text: str, context: ToolContext) -> str:
    return f"{text} {context.tool_use['toolUseId']}"


def quoted(text: str, context: "ToolContext") -> str:
    return plain(text, context)


def optional(text: str, context: ToolContext | None = None) -> str:
    return plain(text, context) if context else "nothing"


def old_optional(text: str, context: Optional["ToolContext"] = None) -> str:
    return optional(text, context)


def described(text: str, context: Annotated[ToolContext, "ours"]) -> str:
    return plain(text, context)


@pytest.mark.parametrize("function", [plain, quoted, optional, old_optional, described])
def test_the_context_is_given_beside_a_spec_however_it_is_annotated(function: Callable[..., Any]) -> None:
    properties = {"text": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["text"]}
    made = tool(spec={"name": "say", "description": "Say it.", "inputSchema": {"json": schema}})(function)

    result = made({"toolUseId": "t1", "input": {"text": "call"}})

    assert result["content"] == [{"text": "call t1"}]
