"""The middlewares and hooks that make a `strands.Agent` keep our contract, all of them public seams."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from functools import partial
from hashlib import sha256
from threading import RLock
from typing import Any, cast

import msgspec
from opentelemetry.trace import get_current_span
from strands import Agent
from strands.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
)
from strands.interrupt import InterruptException
from strands.middleware import (
    ExecuteToolContext,
    ExecuteToolStage,
    InvokeModelContext,
    InvokeModelStage,
    MiddlewareNext,
)
from strands.types.content import Message
from strands.types.events import ModelStopReason, ToolResultEvent, TypedEvent
from strands.types.tools import ToolResult as SdkToolResult
from strands.types.tools import ToolUse as SdkToolUse

from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.events import ToolFinished, ToolStarted
from strands_cli.runtime.model_output import (
    ToolUseCollector,
    malformed_input_text,
    repair_message,
    repaired_events,
)
from strands_cli.runtime.model_requests import (
    STOPPED_TEXT,
    QuickHistory,
    abandon_unresponsive,
    stopped_answer,
    until_stopped,
)
from strands_cli.runtime.step_log import StepLog
from strands_cli.runtime.structured import canonical_json
from strands_cli.toolkit.arguments import parse_object
from strands_cli.toolkit.bridge import (
    CONTEXT_KEY,
    CallerState,
    ToolBridge,
    is_engine_key,
    tool_behind,
)
from strands_cli.toolkit.call import prepare_arguments
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import NO_CONTEXT, CallContext, emit_event, workspace_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.effects import protected_writes
from strands_cli.toolkit.results import error_of, failure_result
from strands_cli.toolkit.schedule import Turn
from strands_cli.toolkit.values import encoded_size
from strands_cli.toolkit.workspace import protected_refusal


class PendingCall(msgspec.Struct, frozen=True):
    """A call that waits for consent, with the arguments for its body."""

    call_id: str
    tool: Tool
    arguments: dict[str, Any]
    protected: tuple[str, ...] = ()
    """The protected paths that it writes, such as `.git/config`. They need consent of their own."""


AskConsent = Callable[[Sequence[PendingCall]], Awaitable[Collection[str]]]
"""Asks about the calls of one turn that need consent, once; returns the ids of those that are granted."""


class ModelTurn:
    """The calls of one assistant message. It outlives an interruption, so that nothing is asked twice."""

    def __init__(self, number: int, message: Message) -> None:
        self.number = number
        self.order = call_ids(message)
        self._places = {call_id: place for place, call_id in reversed([*enumerate(self.order)])}
        self.schedule: Turn
        self.granted: dict[str, tuple[str, ...] | None] = {}
        """What the user decided about calls, by call id: None is a refusal, anything else an agreement, with
        the protected paths that the call may write."""
        self.started: dict[str, asyncio.Task[ToolResultEvent]] = {}
        """The calls that run already, and that the SDK has not asked for yet."""
        self.answered: set[str] = set()
        """The calls with a result of their own, not one that the SDK made up."""
        self._watched: dict[tuple[str, asyncio.Task[Any] | None], Callable[[object], None]] = {}
        """By the task too: ids may be repeated, and calls of the same id have a task each or take turns."""

    def place_of(self, call_id: str) -> int:
        """Where a call stands among the requests; what was not requested comes last."""
        return self._places.get(call_id, len(self.order))

    def name_of(self, call_id: str) -> str:
        """Where a call stands in its step; empty for one that the message does not ask for."""
        return f"{self.number}/{self._places[call_id]}" if call_id in self._places else ""

    def watch(self, call_id: str) -> None:
        """If the call ends without an answer, because a hook asked a human, its dependents are blocked."""
        task = asyncio.current_task()
        if task is None or (call_id, task) in self._watched:  # as it is when a hook has it made again
            return

        def end(_task: object) -> None:
            self.schedule.block(call_id)

        task.add_done_callback(end)
        self._watched[call_id, task] = end

    def answer(self, call_id: str) -> None:
        """The call has a result: those that wait for it may go on."""
        self.answered.add(call_id)
        self.schedule.release(call_id)
        task = asyncio.current_task()
        end = self._watched.pop((call_id, task), None)
        if task is not None and end is not None:
            task.remove_done_callback(end)

    def abandon(self) -> None:
        """Cancels the calls that the SDK will not ask for any more."""
        while self.started:
            _, task = self.started.popitem()
            task.cancel()
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # so none warns


def tool_uses(message: Message) -> list[SdkToolUse]:
    return [block["toolUse"] for block in message["content"] if "toolUse" in block]


def call_ids(message: Message) -> list[str]:
    return [use["toolUseId"] for use in tool_uses(message)]


def call_key(context: CallContext, name: str, tool: Tool, arguments: Any) -> str:
    """The idempotency key of a call, from its position, its tool and its arguments.

    A step that starts again may make another call at the same position.
    """
    if not (context.key and name):
        return ""
    what = canonical_json([tool.id, arguments]).encode("utf-8", "surrogatepass")
    return f"{context.key}/{name}/{sha256(what).hexdigest()[:12]}"


def pending_calls(agent: Agent, message: Message, context: CallContext = NO_CONTEXT) -> list[PendingCall]:
    """The calls of a message that will run: not those that are done, unknown, or refused for their input."""
    # Calls may have been answered before a human was asked, maybe in another process.
    state = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]
    pending = state.get("pending_tool_execution") or {}
    done = {result["toolUseId"] for result in pending.get("completed_tool_results", ())}
    tools = {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}
    found: list[PendingCall] = []
    for use in tool_uses(message):
        tool = tool_behind(tools.get(use["name"]))
        if use["toolUseId"] in done or tool is None:
            continue
        if malformed_input_text(use["input"]) is not None:
            continue
        try:
            arguments = prepare_arguments(tool, {"input": use["input"]})
        except ToolFailed:
            continue  # the call will say so itself
        protected = protected_writes(tool, arguments, context)
        shown = tuple(workspace_of(context).display(path) for path in protected)
        found.append(PendingCall(use["toolUseId"], tool, arguments, shown))
    return found


_ALREADY_RUN = "event_loop_cycle_id"
"""A state that has this key has been through the SDK, which has written its own names over the caller's."""
_MAX_NAMES = 20
_STARTED_AT_ONCE = 10
_END_SECONDS = 1.0
_NO_ANSWER = "(the model gave no answer)"
_NAMELESS_CALL = "(a call without a name or an id)"


def equip(
    agent: Agent,
    *,
    context: CallContext = NO_CONTEXT,
    ask_consent: AskConsent | None = None,
    log: StepLog | None = None,
    is_own: bool = False,
) -> "AgentHooks":
    """Applies the contract to an agent. `context` is passed to each of its calls.

    `ask_consent` is called once per turn with all calls that need consent, before any of them runs. Without
    it, `context.permit` decides for each call. With a `log`, calls that it has are answered from it. An agent
    `is_own` if nobody else adds hooks or middleware to it, or reads its stream and its metrics.
    """
    hooks = AgentHooks(agent, context, ask_consent, log, is_own)
    agent.add_middleware(InvokeModelStage, abandon_unresponsive)
    agent.add_middleware(InvokeModelStage, hooks.stream_model)
    agent.add_middleware(ExecuteToolStage, hooks.run_call)
    agent.add_hook(hooks.begin_invocation, BeforeInvocationEvent)
    agent.add_hook(hooks.end_invocation, AfterInvocationEvent)
    agent.add_hook(hooks.begin_request, BeforeModelCallEvent)
    agent.add_hook(hooks.begin_turn, BeforeToolsEvent)
    agent.add_hook(hooks.begin_call, BeforeToolCallEvent)
    agent.add_hook(hooks.end_call, AfterToolCallEvent)
    agent.add_hook(hooks.end_turn, AfterToolsEvent)
    agent.messages = QuickHistory(agent.messages)
    return hooks


class AgentHooks:
    """An equipped agent. Like in the SDK, only one invocation can run at a time."""

    def __init__(
        self,
        agent: Agent,
        context: CallContext,
        ask_consent: AskConsent | None,
        log: StepLog | None,
        is_own: bool,
    ) -> None:
        self.agent = agent
        self.context = context
        self._ask_consent = ask_consent
        self._log = log
        self._is_own = is_own
        self._cancel = Cancellation()
        self._lock = RLock()  # a signal's handler may stop the agent while it holds the lock
        self._is_running = False
        self._turn: ModelTurn | None = None
        self._turns = 0
        self._misnamed: dict[str, str] = {}
        self._passed: dict[str, Any] = {}

    # --- stopping ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stops the invocation, from any thread. Running calls return `cancelled`.

        The agent is cancelled first, so that it does not go on when its calls return. Its history ends with
        an assistant message and accepts a new prompt.
        """
        with self._lock:
            if self._is_running:  # the agent would keep the signal for its next invocation otherwise
                self.agent.cancel(message=STOPPED_TEXT)
        self._cancel.set()

    @property
    def is_stopped(self) -> bool:
        return self._cancel.is_set()

    def renew(self) -> None:
        """Allows a new invocation after a stop, unless the whole run was cancelled."""
        if self.context.cancel is None or not self.context.cancel.is_set():
            self._cancel = Cancellation()

    # --- the model's side -------------------------------------------------------------------------------

    async def stream_model(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        """Passes on the model's events, and repairs what no history may contain."""
        if self.is_stopped:
            yield stopped_answer()
            return
        collector = ToolUseCollector()
        async with aclosing(until_stopped(repaired_events(next_fn(context)), self._cancel)) as events:
            async for event in events:
                collector.add(event.get("event") or {})
                if isinstance(event, ModelStopReason):
                    self._misnamed = repair_message(event.message, collector.texts)
                    nothing = _NAMELESS_CALL if event.stop_reason == "tool_use" else _NO_ANSWER
                    event.message["content"] = event.message["content"] or [{"text": nothing}]
                yield event

    # --- a turn -----------------------------------------------------------------------------------------

    def begin_invocation(self, event: BeforeInvocationEvent) -> None:
        """Remembers what the caller passed under names that the SDK is going to use itself."""
        # A run lives longer than its agents: it knows an agent only while that has something to do.
        is_known = self._is_running  # from an earlier invocation that could not begin, and never ended
        self._is_running = True
        if self.context.cancel is not None and not is_known:
            self.context.cancel.add_callback(self.stop)
        state = event.invocation_state
        if _ALREADY_RUN not in state:
            self._passed = {name: value for name, value in state.items() if is_engine_key(name)}

    def end_invocation(self, event: AfterInvocationEvent) -> None:
        with self._lock:
            self._is_running = False
        if self._turn is not None:  # the caller may have been cancelled while calls were starting
            self._turn.abandon()
        if self.context.cancel is not None:
            self.context.cancel.remove_callback(self.stop)

    def begin_request(self, event: BeforeModelCallEvent) -> None:
        """What the model answers is a turn of its own, even if it uses the ids of an earlier one again."""
        self._turn = None

    async def begin_turn(self, event: BeforeToolsEvent) -> None:
        """Before any body starts: who waits for whom, and what needs consent."""
        turn = self._turn
        if turn is None or turn.order != call_ids(event.message):
            self._turns += 1
            turn = self._turn = ModelTurn(self._turns, event.message)
        calls = pending_calls(self.agent, event.message, self.context)
        calls = [call for call in calls if self._recorded(turn, call.call_id) is None]
        if self._log is not None and not all(call.tool.is_repeatable for call in calls):
            await self._log.committed()  # what changes something is done for an answer that cannot be lost
        prepared = [(call.call_id, call.tool, call.arguments) for call in calls]
        turn.schedule = Turn(prepared, self.context.workspace)
        asked = [call for call in calls if call.tool.requires_consent or call.protected]
        unasked = [call for call in asked if call.call_id not in turn.granted]
        if self._ask_consent and unasked and not self._is_cancelled:
            if self._log is None:
                granted = await self._ask_consent(unasked)
            else:
                granted = await self._log.consent(f"consent/{turn.number}", unasked)
            turn.granted |= {
                call.call_id: call.protected if call.call_id in granted else None for call in unasked
            }
        await self._start(turn, calls, event)

    @property
    def _is_cancelled(self) -> bool:
        return self.is_stopped or self.agent.cancel_signal.is_set()

    async def _start(self, turn: ModelTurn, calls: Sequence[PendingCall], event: BeforeToolsEvent) -> None:
        """Starts the calls of an own agent now, while the SDK has yet to prepare each of them.

        A few at a time, so that the first bodies work while the last ones are prepared. With a span, a call
        waits for the SDK, which puts it below a span of its own; so do calls that share an id.
        """
        uses = {use["toolUseId"]: use for use in tool_uses(event.message)}
        has_span = get_current_span().is_recording()
        if not self._is_own or has_span or self._is_cancelled or len(uses) < len(turn.order):
            return
        agent, state, tools = self.agent, event.invocation_state, self.agent.tool_registry.registry
        specs = [{"toolSpec": spec} for spec in agent.tool_registry.get_all_tool_specs()]
        state.update(  # as the SDK does for each call
            agent=agent,
            model=agent.model,
            messages=agent.messages,
            system_prompt=agent.system_prompt,
            tool_config={"tools": specs, "toolChoice": {"auto": {}}},
        )
        for first in range(0, len(calls), _STARTED_AT_ONCE):
            for call in calls[first : first + _STARTED_AT_ONCE]:
                use = uses[call.call_id]
                if isinstance(bridge := tools.get(use["name"]), ToolBridge):
                    body = self._answer(turn, bridge, use, state)
                    turn.started[call.call_id] = asyncio.create_task(body)
            await asyncio.sleep(0)  # the calls begin
            await asyncio.sleep(0)  # and their bodies
        if self._is_cancelled and turn.started:  # the SDK will not ask for them; they end soon
            await asyncio.wait(turn.started.values(), timeout=_END_SECONDS)

    async def _answer(
        self, turn: ModelTurn, bridge: ToolBridge, use: SdkToolUse, state: dict[str, Any]
    ) -> ToolResultEvent:
        """Makes a call of our own agent when it is its turn."""
        began = time.time()
        try:
            async with turn.schedule.slot(use["toolUseId"], InterruptException):
                answer = await bridge.answer(use, self._state_for(use, bridge.tool, state))
        except ToolFailed as blocked:
            answer = ToolResultEvent(_refused_call(use["toolUseId"], blocked))
        self._record(use, bridge.tool, answer.tool_result, began)
        return answer

    def end_turn(self, event: AfterToolsEvent) -> None:
        """Results in the order of the requests, each of them coded; a message without any gets a text."""
        content: list[Any] = event.message["content"]
        turn = self._turn
        if turn is not None:
            for result in (block["toolResult"] for block in content):
                self._add_code(turn, result)
            content.sort(key=lambda block: turn.place_of(block["toolResult"]["toolUseId"]))
            turn.abandon()
        if not content:
            content.append({"text": "Nothing was called: the call had no name or no id."})

    def _add_code(self, turn: ModelTurn, result: SdkToolResult) -> None:
        """Gives a result that the SDK made up, for a call that it did not make, the one error shape."""
        call_id, content = result["toolUseId"], result["content"]
        started = turn.started.get(call_id)
        if started is not None and started.done() and not started.cancelled() and not started.exception():
            turn.answered.add(call_id)
            result.update(started.result().tool_result)
        if call_id not in turn.answered and result["status"] == "error" and len(content) == 1:
            code = "cancelled" if self.agent.cancel_signal.is_set() else "denied"
            result.update(_refused_call(call_id, ToolFailed(content[0].get("text", code), code=code)))

    # --- a call -----------------------------------------------------------------------------------------

    def begin_call(self, event: BeforeToolCallEvent) -> None:
        """A hook may ask a human, and the call then ends without a result: its dependents must know."""
        if self._turn is not None:
            self._turn.watch(event.tool_use["toolUseId"])

    def end_call(self, event: AfterToolCallEvent) -> None:
        """The call is over for those that wait for it, unless a hook wants it made again."""
        call_id = event.tool_use["toolUseId"]
        if event.cancel_message is not None:
            event.result = _refused_call(call_id, ToolFailed(event.cancel_message, code="denied"))
        if self._turn is not None and not event.retry:
            self._turn.answer(call_id)

    async def run_call(
        self, context: ExecuteToolContext, next_fn: "MiddlewareNext[ExecuteToolContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        """Makes one call as our contract says, when it is its turn, unless the log has its result."""
        call_id, began = context.tool_use["toolUseId"], time.time()
        if self._turn is not None and (task := self._turn.started.pop(call_id, None)):
            yield await task
            return
        if (known := self._recorded(self._turn, call_id)) is not None:
            yield ToolResultEvent(cast(SdkToolResult, {**known["result"], "toolUseId": call_id}))
            return
        tool = tool_behind(context.tool) if context.tool is not None else None
        async with aclosing(self._results_of(context, tool, next_fn)) as events:
            async for event in events:
                if isinstance(event, ToolResultEvent):
                    self._record(context.tool_use, tool, event.tool_result, began)
                yield event

    def _recorded(self, turn: "ModelTurn | None", call_id: str) -> Any | None:
        name = turn.name_of(call_id) if self._log is not None and turn is not None else ""
        return self._log.get(f"tool/{name}") if self._log is not None and name else None

    def _record(self, use: SdkToolUse, tool: Tool | None, result: SdkToolResult, began: float) -> None:
        """Keeps a result, unless the call was cut short: what fails after a stop may fail because of it."""
        if self._log is None or self._turn is None:
            return
        name = self._turn.name_of(use["toolUseId"])
        error = error_of(cast(Any, result))
        code = error["code"] if error else None
        if not name or (code is not None and self.is_stopped):
            return
        row = {
            "at": began,
            "seconds": time.time() - began,
            "tool": use["name"],
            "version": tool.version if tool else "",
            "arguments": use["input"],
            "result": result,
            "code": code,
        }
        self._log.put(f"tool/{name}", row)

    def _results_of(
        self,
        context: ExecuteToolContext,
        tool: Tool | None,
        next_fn: "MiddlewareNext[ExecuteToolContext, TypedEvent]",
    ) -> AsyncGenerator[TypedEvent, None]:
        text = malformed_input_text(context.tool_use["input"])
        if context.tool is None:
            return _one_event(self._unknown(context))
        if tool is not None:
            use = context.tool_use if text is None else {**context.tool_use, "input": text}
            state = self._state_for(context.tool_use, tool, context.invocation_state)
            return self._in_turn(context.replace(tool_use=cast(Any, use), invocation_state=state), next_fn)
        return next_fn(context) if text is None else _one_event(_malformed_call(context, text))

    def _state_for(self, use: SdkToolUse, tool: Tool, state: dict[str, Any]) -> dict[str, Any]:
        """The invocation state of one call, with the context that it gets."""
        call_id, turn = use["toolUseId"], self._turn
        name = turn.name_of(call_id) if turn is not None else ""
        permit = partial(self._permit, call_id, tool) if self._ask_consent else None
        context = msgspec.structs.replace(
            self.context,
            key=call_key(self.context, name, tool, use["input"]),
            permit=permit or self.context.permit,
            permit_protected=permit or self.context.permit_protected,
            cancel=self._cancel,
            invocation_state=self.context.invocation_state or CallerState(state, self._passed),
        )
        return {**state, CONTEXT_KEY: context}

    async def _in_turn(
        self, context: ExecuteToolContext, next_fn: "MiddlewareNext[ExecuteToolContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        call_id = context.tool_use["toolUseId"]
        schedule = self._turn.schedule if self._turn else Turn([])
        # For a call that a program makes without an invocation.
        cancel = None if self._is_running else self.context.cancel
        if cancel is not None:
            cancel.add_callback(self.stop)
        try:
            async with schedule.slot(call_id, InterruptException):
                async for event in next_fn(context):
                    yield event
        except ToolFailed as blocked:
            yield ToolResultEvent(_refused_call(call_id, blocked))
        finally:
            if cancel is not None:
                cancel.remove_callback(self.stop)

    async def _permit(
        self,
        call_id: str,
        tool: Tool,
        judged: Tool,
        arguments: dict[str, Any],
        protected: tuple[str, ...] = (),
    ) -> None:
        """Raises if the call is refused; for a tool that a body calls, the user is asked only now."""
        if (judged.requires_consent or protected) and self._ask_consent is not None:
            decided = self._turn.granted if self._turn and judged is tool else {}
            agreed = decided.get(call_id)
            granted = agreed is not None
            # Since the turn began, a link may have been put in the way.
            if call_id not in decided or (agreed is not None and not set(protected) <= set(agreed)):
                pending = PendingCall(call_id, judged, arguments, protected)
                granted = call_id in await self._ask_consent([pending])
            if not granted and protected:
                raise protected_refusal(protected)
            if not granted:
                raise ToolFailed(
                    f"The user refused the call to {judged.id}",
                    code="denied",
                    hint="Do not call it again: ask what to do instead.",
                )
        if self.context.permit is not None:
            await self.context.permit(judged, arguments)

    def _unknown(self, context: ExecuteToolContext) -> ToolResultEvent:
        call_id = context.tool_use["toolUseId"]
        name = self._misnamed.get(call_id, context.tool_use["name"])
        known = self.agent.tool_names
        listed = f"Available tools: {', '.join(known[:_MAX_NAMES])}." if known else "You have no tools."
        hint = did_you_mean(name, known) or listed
        result = _refused_call(call_id, ToolFailed(f"Unknown tool: {name}", code="unknown_tool", hint=hint))
        emit_event(self.context, ToolStarted(name, "", call_id, context.tool_use["input"]))
        size, content = encoded_size(cast(Any, result)), result["content"]
        emit_event(self.context, ToolFinished(name, "", call_id, 0.0, size, "unknown_tool", content))
        return ToolResultEvent(result)


def _refused_call(call_id: str, failed: ToolFailed) -> SdkToolResult:
    return cast(SdkToolResult, failure_result(call_id, failed))


def _malformed_call(context: ExecuteToolContext, text: str) -> ToolResultEvent:
    try:
        parse_object(text)
    except ToolFailed as failed:
        return ToolResultEvent(_refused_call(context.tool_use["toolUseId"], failed))
    raise AssertionError("only what cannot be parsed is kept as text")


async def _one_event(event: TypedEvent) -> AsyncGenerator[TypedEvent, None]:
    yield event
