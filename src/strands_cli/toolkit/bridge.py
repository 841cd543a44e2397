"""A Tool as the SDK takes it: every call goes through `call_tool`, in anyone's `strands.Agent` too."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from functools import cached_property
from threading import Event as Signal
from typing import Any, cast

import msgspec
from strands.interrupt import Interrupt, InterruptException
from strands.types.events import ToolResultEvent
from strands.types.tools import AgentTool, ToolGenerator, ToolSpec
from strands.types.tools import ToolContext as SdkToolContext
from strands.types.tools import ToolResult as SdkToolResult
from strands.types.tools import ToolUse as SdkToolUse

from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.events import Event, Listener, ToolProgress
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.cancellation import Cancellation, call_in_loop
from strands_cli.toolkit.context import NO_CONTEXT, AgentView, CallContext, InterruptRequested
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.provider_schema import provider_schema
from strands_cli.toolkit.results import ToolResult, ToolUse, error_of, failure_result

CONTEXT_KEY = "strands_cli"
"""Where a call's CallContext stands in the SDK's invocation_state."""

ENGINE_KEYS = frozenset(
    {"agent", "model", "messages", "system_prompt", "tool_config", "request_state", CONTEXT_KEY}
)
"""What the SDK itself, and we, put into the state that an agent's caller passes along."""
ENGINE_PREFIX = "event_loop_"

_POLL_SECONDS = 0.05
"""How often the SDK's own signal is looked at: a thread's event cannot be waited for in a loop."""


def bridge_of(tool: Tool) -> "ToolBridge":
    """The tool's bridge, always the same one. A copy of a tool, such as a bound method, gets its own."""
    bridge = tool.__dict__.get("_bridge")
    if bridge is None or bridge.tool is not tool:
        bridge = tool.__dict__["_bridge"] = ToolBridge(tool)
    return cast(ToolBridge, bridge)


def tool_behind(value: object) -> Tool | None:
    """The Tool that an SDK agent holds, itself or its bridge; None for a tool that is not ours."""
    if isinstance(value, ToolBridge):
        return value.tool
    return value if isinstance(value, Tool) else None


class ToolBridge(AgentTool):
    """What an SDK agent calls in place of a Tool."""

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        self.tool = tool

    @property
    def tool_name(self) -> str:
        return self.tool.id

    @cached_property
    def tool_spec(self) -> ToolSpec:  # the SDK asks for it again and again
        tool = self.tool
        spec: dict[str, Any] = {
            "name": tool.id,
            "description": tool.description or tool.id,
            "inputSchema": {"json": provider_schema(tool.input_schema)},
        }
        if tool.output_schema is not None:
            spec["outputSchema"] = {"json": tool.output_schema}
        if tool.annotations:
            spec["annotations"] = dict(tool.annotations)
        return cast(ToolSpec, spec)

    @property
    def tool_type(self) -> str:
        return "strands_cli"

    async def stream(self, tool_use: SdkToolUse, invocation_state: dict[str, Any], **_: Any) -> ToolGenerator:
        """Yields what the body reports, as it reports it, then the result.

        The SDK makes a ToolStreamEvent of what is not an event, and takes an InterruptException for the
        tool's question to a human.
        """
        call = cast(ToolUse, tool_use)
        context = context_for(call, invocation_state)
        relay = _ProgressRelay(context.emit, self.tool.id, call.get("toolUseId", ""))
        listened = msgspec.structs.replace(context, emit=relay.emit)
        task = asyncio.create_task(self._answer(call, listened, invocation_state))
        task.add_done_callback(relay.close)
        try:
            async for data in relay.reports():
                yield data
            yield await task
        finally:
            relay.is_open = False
            task.cancel()

    async def answer(self, tool_use: SdkToolUse, invocation_state: dict[str, Any]) -> ToolResultEvent:
        """Like the last event of `stream`, for a caller that has a listener in the context for the rest."""
        call = cast(ToolUse, tool_use)
        return await self._answer(call, context_for(call, invocation_state), invocation_state)

    async def _answer(
        self, call: ToolUse, context: CallContext, invocation_state: dict[str, Any]
    ) -> ToolResultEvent:
        call_id = call.get("toolUseId", "")
        signal = getattr(invocation_state.get("agent"), "cancel_signal", None)
        with _call_cancellation(context.cancel, signal) as cancel:
            if cancel.is_set():  # the run was stopped while the call waited for another
                failed = ToolFailed(f"The call to {self.tool.id} was cancelled", code="cancelled")
                return ToolResultEvent(cast(SdkToolResult, failure_result(call_id, failed)))
            try:
                result = await call_tool(self.tool, call, msgspec.structs.replace(context, cancel=cancel))
            except InterruptRequested as asked:
                own = Interrupt(f"{CONTEXT_KEY}:{call_id}:{asked.name}", asked.name, asked.reason)
                raise HumanAsked(asked.pending if isinstance(asked.pending, Interrupt) else own) from None
        error = error_of(result)
        failed_call = CallFailed(error["code"]) if error else None
        return ToolResultEvent(cast(SdkToolResult, _result_for_providers(result)), exception=failed_call)


class CallFailed(Exception):
    """Tells the SDK's spans and hooks that a call failed; only by its code, since messages quote inputs."""


class HumanAsked(InterruptException):
    """The SDK's way to ask a human; only by name, since its text goes to spans and a reason quotes inputs."""

    def __str__(self) -> str:
        return self.interrupt.name


def _result_for_providers(result: ToolResult) -> ToolResult:
    """The result as every provider takes it: some refuse non-object JSON, blank text or no content."""
    content: list[dict[str, Any]] = []
    for block in result["content"]:
        if "json" in block and not isinstance(block["json"], dict):
            content.append({"text": json.dumps(block["json"], ensure_ascii=False)})
        elif block.keys() != {"text"} or block["text"].strip():
            content.append(block)
    return {**result, "content": content or [{"text": "(the tool returned nothing)"}]}


# --- What the SDK offers to a call ------------------------------------------------------------------------


def context_for(call: ToolUse, invocation_state: dict[str, Any]) -> CallContext:
    """The context of a call; what its caller left out comes from the agent that makes it."""
    context = invocation_state.get(CONTEXT_KEY)
    context = context if isinstance(context, CallContext) else NO_CONTEXT
    agent = invocation_state.get("agent")
    engine_state = {name: value for name, value in invocation_state.items() if name != CONTEXT_KEY}
    state: Any = context.invocation_state
    if not isinstance(state, CallerState) and not state:
        state = CallerState(invocation_state)
    changes = {"invocation_state": state, "engine_state": context.engine_state or engine_state}
    if agent is not None:
        if context.interrupt is None:
            sdk = SdkToolContext(tool_use=cast(SdkToolUse, call), agent=agent, invocation_state=engine_state)
            changes["interrupt"] = _interrupt_function(sdk)
        changes["offered"] = _tool_resolver(agent)
        changes["resolve"] = context.resolve or changes["offered"]
        changes["agent"] = context.agent or AgentView(agent.name, agent.state)
    return msgspec.structs.replace(context, **changes)


class CallerState(MutableMapping[str, Any]):
    """The state that an agent's caller passed along, without what the SDK and we put into it.

    It is the caller's own dictionary: what a tool writes, the other tools and the caller see.
    """

    def __init__(self, state: dict[str, Any], passed: Mapping[str, Any] | None = None) -> None:
        self._state = state
        self._passed = passed or {}
        """What the caller passed under names that the SDK uses, and has overwritten."""

    def __getitem__(self, name: str) -> Any:
        if name in self._passed:
            return self._passed[name]
        if is_engine_key(name):
            raise KeyError(name)
        return self._state[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if is_engine_key(name):
            raise KeyError(f"{name} is a name of the agent engine's own")
        self._state[name] = value

    def __delitem__(self, name: str) -> None:
        if is_engine_key(name):
            raise KeyError(name)
        del self._state[name]

    def __iter__(self) -> Iterator[str]:
        own = [name for name in self._state if not is_engine_key(name)]
        return iter([*own, *self._passed])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_engine_key(name: str) -> bool:
    return name in ENGINE_KEYS or name.startswith(ENGINE_PREFIX)


def _interrupt_function(context: SdkToolContext) -> Callable[[str, Any], Any]:
    """How a body asks a human: through what the SDK gives a call."""

    def ask(name: str, reason: Any) -> Any:
        try:
            return context.interrupt(name, reason=reason)
        except InterruptException as waiting:
            raise InterruptRequested(name, reason, pending=waiting.interrupt) from None

    return ask


def _tool_resolver(agent: Any) -> Callable[[str], Tool]:
    """A body may call the other tools of its agent."""

    def resolve(reference: str) -> Tool:
        known = agent.tool_registry.registry
        if found := tool_behind(known.get(reference)):
            return found
        hint = did_you_mean(reference, known) or f"The tools of this agent are: {', '.join(known)}."
        raise ToolFailed(f"Unknown tool: {reference}", code="unknown_tool", hint=hint)

    return resolve


# --- While a call runs ------------------------------------------------------------------------------------

_END = object()


class _ProgressRelay:
    """Passes a body's progress, reported from whatever thread, on to the stream that waits in the loop."""

    def __init__(self, listener: Listener | None, tool_id: str, call_id: str) -> None:
        self.is_open = True
        self._listener = listener
        self._source = (tool_id, call_id)
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def emit(self, event: Event) -> None:
        # Not of a tool that the body calls.
        if (
            self.is_open
            and isinstance(event, ToolProgress)
            and (event.tool_id, event.call_id) == self._source
        ):
            call_in_loop(self._loop, self._queue.put_nowait, event.data)
        if self._listener is not None:
            self._listener(event)

    def close(self, _task: object) -> None:
        self._queue.put_nowait(_END)

    async def reports(self) -> AsyncIterator[Any]:
        while (data := await self._queue.get()) is not _END:
            yield data


class _SignalWatch:
    """Looks at an agent's signal for all of its calls that are under way in one loop."""

    def __init__(self, signal: Signal, loop: asyncio.AbstractEventLoop) -> None:
        self._signal, self._loop = signal, loop
        self.calls: dict[Cancellation, None] = {}
        self.timer = loop.call_later(_POLL_SECONDS, self._look)

    def _look(self) -> None:
        if self._signal.is_set():
            for call in [*self.calls]:
                call.set()
        # The agent may clear its signal, and make more calls, while one of these has not ended yet.
        self.timer = self._loop.call_later(_POLL_SECONDS, self._look)


_watches: dict[tuple[Signal, asyncio.AbstractEventLoop], _SignalWatch] = {}


@contextmanager
def _watching(signal: Signal, call: Cancellation) -> Iterator[None]:
    """Sets a call's cancellation when the signal is set."""
    key = signal, asyncio.get_running_loop()
    watch = _watches.get(key)
    if watch is None:
        watch = _watches[key] = _SignalWatch(*key)
    watch.calls[call] = None
    if signal.is_set():
        call.set()
    try:
        yield
    finally:
        del watch.calls[call]
        if not watch.calls:
            watch.timer.cancel()
            del _watches[key]


@contextmanager
def _call_cancellation(parent: Cancellation | None, signal: Signal | None) -> Iterator[Cancellation]:
    """A call's own cancellation, set when its run is stopped or its agent is cancelled."""
    own = Cancellation()
    with (
        _watching(signal, own) if signal is not None else nullcontext(),
        parent.on_set(own.set) if parent is not None else nullcontext(),
    ):
        yield own
