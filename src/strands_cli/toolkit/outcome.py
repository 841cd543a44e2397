"""What a body comes to. It crosses threads and tasks as a value, never as an exception: a StopIteration would
hang the future that carries it, a SystemExit would end the loop.
"""

from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.interrupts import InterruptRequested

_LONGEST_MESSAGE = 2000


class Raised(msgspec.Struct, frozen=True):
    error: BaseException


def run_inline(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Any:
    """The body's outcome, in this thread."""
    try:
        return tool.invoke(arguments, context)
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome, not ours
        return Raised(error)


def value_of(outcome: Any, tool: Tool) -> Any:
    """The value of an outcome; ToolFailed where the body raised, unless it asks for a human."""
    if not isinstance(outcome, Raised):
        return outcome
    error = outcome.error
    if isinstance(error, ToolFailed | InterruptRequested):
        raise error
    _log_traceback(tool, error)
    raise ToolFailed(f"Execution failed: {type(error).__name__}: {_capped(error)}", code="crashed") from error


def _log_traceback(tool: Tool, error: BaseException) -> None:
    """The traceback is for the tool's author, in the log, and never for the model."""
    import logging

    logging.getLogger("strands_cli.tools").info("tool %s crashed", tool.id, exc_info=error)


def _capped(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an exception whose own text fails is still a crash to report
        text = "(its message cannot be shown)"
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
