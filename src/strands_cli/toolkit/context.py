"""What the outside gives to a call, and the narrow view of it that a tool's body gets."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.events import Event, Listener, ToolProgress, ToolStderr
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.settings import Settings, load_settings
from strands_cli.toolkit.arguments import copied_json
from strands_cli.toolkit.cancellation import Cancellation, call_in_loop
from strands_cli.toolkit.results import ToolUse
from strands_cli.toolkit.workspace import Workspace, current_directory

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

Permit = Callable[["Tool", dict[str, Any]], Awaitable[None]]
"""Returns when the call may go on; raises ToolFailed (`denied`, `consent_required`) when it may not."""

PermitProtected = Callable[["Tool", dict[str, Any], tuple[str, ...]], Awaitable[None]]
"""Like Permit, for a call that writes the protected paths that it is given."""

CallOther = Callable[["ToolContext", "Tool", dict[str, Any], int], Any]
"""How a body makes its n-th call of another tool; `call.py` gives it, which this module need not know."""


class AgentView(msgspec.Struct, frozen=True):
    """As much of an agent as a tool may see."""

    name: str
    state: Any


class InterruptRequested(BaseException):
    """Ends a call until a human has answered; the call is then made again and gets the answer.

    Not an Exception, so that a body's own `except Exception` does not swallow it: it is not a failure.
    """

    def __init__(self, name: str, reason: Any = None, *, pending: Any = None) -> None:
        super().__init__(name)
        self.name = name
        self.reason = reason
        self.pending = pending
        """What the engine that asks the human knows this question by; only that engine looks at it."""


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a caller can pass to a call. Every field is optional."""

    emit: Listener | None = None
    permit: Permit | None = None
    permit_protected: PermitProtected | None = None
    """Asked instead of `permit` about a call that writes what other programs act on, such as `.git/` or
    `strands.toml`. Without it, such a call is refused."""
    interrupt: Callable[[str, Any], Any] | None = None
    """Asks a human. Returns the answer, or ends the call (with a BaseException) until there is one."""
    cancel: Cancellation | None = None
    timeout: float | None = None
    """Seconds that replace the tool's own limit."""
    max_output: int | None = None
    """Bytes that replace the tool's own limit; 0 means no limit."""
    settings: Settings | None = None
    workspace: Workspace | None = None
    resolve: "Callable[[str], Tool] | None" = None
    """Finds another tool by reference, for bodies that call tools."""
    offered: "Callable[[str], Tool] | None" = None
    """Finds a tool of the agent that makes the call by its name, for code that a model wrote."""
    key: str = ""
    """Identifies this call when a run is repeated, so that a tool does not act twice."""
    invocation_state: Mapping[str, Any] = {}
    agent: AgentView | None = None
    engine_state: Mapping[str, Any] = {}
    """What the agent engine passes to tools of the SDK, and only to those."""
    redactor: Redactor = NOTHING_SECRET
    """Hides secrets in what a call reports and answers, before a model or a file gets it."""
    depth: int = 0
    """How deeply this call is nested in calls of other tools."""


NO_CONTEXT = CallContext()


class ToolContext:
    """What a tool's body can see of its call. A parameter with this annotation is filled in for you."""

    # What the platform itself asks of a context are functions below, so that authors do not see them here.
    __slots__ = (
        "_abandoned",
        "_call",
        "_calls",
        "_inner_cancel",
        "_loop",
        "_outer",
        "_own_use",
        "_times",
        "_tool",
        "_use",
    )

    def __init__(
        self,
        tool: "Tool",
        tool_use: ToolUse,
        outer: CallContext = NO_CONTEXT,
        call: CallOther | None = None,
    ) -> None:
        self._use = tool_use
        self._own_use: ToolUse | None = None
        self._tool = tool
        self._outer = outer
        self._call = call
        self._loop: Any = None
        """The event loop of the call, where the body runs in another thread."""
        self._times: Any = None
        self._calls = count(1)  # not a number: bodies may call tools from several threads
        self._abandoned = False
        self._inner_cancel: Cancellation | None = None

    @property
    def tool_use(self) -> ToolUse:
        """The request as it came, in a copy: the one that was sent may be part of a history."""
        if self._own_use is None:
            self._own_use = copied_json(self._use)
        return self._own_use

    @property
    def workspace(self) -> Workspace:
        """The directories that this call can access."""
        return workspace_of(self._outer)

    @property
    def invocation_state(self) -> Mapping[str, Any]:
        """What the caller of the agent passed."""
        return self._outer.invocation_state

    @property
    def agent(self) -> AgentView:
        """The name and the state of the agent that makes the call."""
        if self._outer.agent is None:
            raise ToolFailed(f"{self._tool.id} needs an agent, and this call does not come from one")
        return self._outer.agent

    @property
    def key(self) -> str:
        """Identifies this call when a run is repeated, so that you do not do the work twice."""
        return self._outer.key

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled or timed out. Check it in long loops."""
        return self._abandoned or (self._outer.cancel is not None and self._outer.cancel.is_set())

    def progress(self, data: Any) -> None:
        """Reports to listeners how far the body has come."""
        if self._outer.emit is None:
            return
        if self._loop is None:
            _emit_progress(self, data)
        else:  # by way of the loop, where the order is certain: nothing is reported after the end of the call
            told = data.copy() if isinstance(data, dict | list) else data  # the body may go on to change it
            call_in_loop(self._loop, _emit_progress, self, told)

    def call(self, reference: str, **arguments: Any) -> Any:
        """Calls another tool and returns its value. Await it in an async body. Raises ToolFailed."""
        return _call_found(self, self._outer.resolve, reference, arguments)

    def interrupt(self, name: str, reason: Any = None) -> Any:
        """Asks a human and returns the answer; without one, the call ends here. Await it in an async body."""
        if self._outer.interrupt is None:
            raise ToolFailed(
                f"{self._tool.id} asks a human ({name}), and nobody can be asked here", code="denied"
            )
        answer = self._outer.interrupt(name, reason)
        return _awaitable_answer(answer) if self._tool.is_async else answer


async def _awaitable_answer(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


# --- for the platform, not for bodies ---------------------------------------------------------------------


def call_for_model(context: ToolContext, name: str, arguments: dict[str, Any]) -> Any:
    """As `ToolContext.call`, for code that a model wrote: that of an agent may call the agent's tools only.

    Without an agent, whoever makes the call may call any tool.
    """
    return _call_found(context, context._outer.offered or context._outer.resolve, name, arguments)


def _call_found(
    context: ToolContext, find: "Callable[[str], Tool] | None", reference: str, arguments: dict[str, Any]
) -> Any:
    if context._call is None or find is None:
        raise ToolFailed(f"{context._tool.id} calls other tools, and no tools are available here")
    return context._call(context, find(reference), arguments, next(context._calls))


def uncapped(context: CallContext) -> CallContext:
    """For whoever takes an answer as data: a part of it would be of no use."""
    return msgspec.structs.replace(context, max_output=0)


def emit_event(context: CallContext, event: Event) -> None:
    """A listener that fails is its owner's trouble, not the call's."""
    try:
        if context.emit is not None:
            context.emit(event)
    except Exception:  # listeners are other people's code
        import logging

        logging.getLogger("strands_cli.tools").exception("a listener failed at %s", type(event).__name__)


def report_stderr(context: ToolContext, text: str, refused: str) -> None:
    """Tells listeners what an executable said beside its answer."""
    if text or refused:
        told = ToolStderr(context._tool.id, call_id_of(context), text, refused)
        emit_event(context._outer, context._outer.redactor.value(told))


def _emit_progress(context: ToolContext, data: Any) -> None:
    if not context._abandoned:
        call_id = call_id_of(context)
        shown = context._outer.redactor.value(data)
        emit_event(context._outer, ToolProgress(context._tool.id, call_id, shown))


def leave_loop(context: ToolContext, loop: Any) -> None:
    """The body will run in another thread than the loop of its call."""
    context._loop = loop


def keep_times(context: ToolContext, times: Any) -> None:
    """The clock of a body in a task, which the body itself may have to set: it may wait for a thread."""
    context._times = times


def times_of(context: ToolContext) -> Any:
    return context._times


def loop_of(context: ToolContext) -> Any:
    """The event loop that the body's own thread may wait for; None for bodies that run in the loop."""
    return context._loop


def tool_of(context: ToolContext) -> "Tool":
    return context._tool


def call_id_of(context: ToolContext) -> str:
    return context._use.get("toolUseId", "")


def tool_use_with(context: ToolContext, arguments: dict[str, Any]) -> dict[str, Any]:
    """The request with the arguments that the body gets, as the SDK's tools take it."""
    return {"toolUseId": "", **context._use, "input": arguments}


def call_context_of(context: ToolContext) -> CallContext:
    """All that the outside gave to the call, of which a body sees only a part."""
    return context._outer


def workspace_of(context: CallContext) -> Workspace:
    if context.workspace is not None:
        return context.workspace
    return Workspace((context.settings or load_settings()).workspace, current_directory())


def settings_of(context: ToolContext) -> Settings:
    return context._outer.settings or load_settings()


def engine_state_of(context: ToolContext) -> dict[str, Any]:
    """The invocation state as the SDK's agent passes it, for tools that were written for the SDK."""
    return {**context._outer.invocation_state, **context._outer.engine_state}


def call_time_limit(context: ToolContext) -> float:
    """The seconds that a call may take: its caller's, else the tool's where the settings don't lower them."""
    tool, outer = context._tool, context._outer
    if outer.timeout is not None:
        return outer.timeout
    bound = outer.settings.timeout if outer.settings else None
    return min(tool.timeout, bound) if bound else tool.timeout


def abandon_body(context: ToolContext) -> None:
    """Cancels the body, for which nothing waits any longer, and the calls that it makes."""
    context._abandoned = True
    if context._inner_cancel is not None:
        if context._outer.cancel is not None:
            context._outer.cancel.remove_callback(context._inner_cancel.set)
        context._inner_cancel.set()


def inner_cancel_of(context: ToolContext) -> Cancellation:
    """What cancels the calls that a body makes: the end of its own call, or whatever cancels that."""
    if context._inner_cancel is None:
        context._inner_cancel = Cancellation()
        if context._outer.cancel is not None:
            context._outer.cancel.add_callback(context._inner_cancel.set)
    return context._inner_cancel
