"""One turn of a model: the calls it asked for at once, their order, and who said yes to them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import msgspec
from strands import Agent
from strands.types.content import Message

from strands_cli.errors import ToolFailed
from strands_cli.runtime.answers import kept_text
from strands_cli.toolkit.bridge import ToolBridge
from strands_cli.toolkit.call import prepare
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.schedule import Turn
from strands_cli.toolkit.workspace import Workspace


class PendingCall(msgspec.Struct, frozen=True):
    """A call that is about to be made, with the arguments that its body would get."""

    call_id: str
    tool: Tool
    arguments: dict[str, Any]


AskConsent = Callable[[Sequence[PendingCall]], Awaitable[Collection[str]]]
"""Asks about the calls of one turn that need consent, once; returns the ids of those that are granted."""


class ModelTurn:
    """The calls of one assistant message. It outlives an interruption, so that nothing is asked twice."""

    def __init__(self, number: int, message: Message) -> None:
        self.number = number
        self.order = call_ids(message)
        self.schedule = Turn([])
        self.granted: dict[str, bool] = {}
        """What was said about the calls that need consent."""
        self.answered: set[str] = set()
        """The calls that came to a result of their own, and not to one that the SDK made up."""
        self._watched: dict[str, tuple[asyncio.Task[Any], Callable[[object], None]]] = {}

    def place_of(self, call_id: str) -> int:
        """Where a call stands among the requests; what was not requested comes last."""
        return self.order.index(call_id) if call_id in self.order else len(self.order)

    def begin(self, calls: Sequence[PendingCall], workspace: Workspace | None) -> None:
        self.schedule = Turn([(call.call_id, call.tool, call.arguments) for call in calls], workspace)

    async def ask(self, calls: Sequence[PendingCall], ask_consent: AskConsent) -> None:
        """Asks about all calls that nobody has been asked about, at once."""
        asked = [call for call in calls if call.tool.requires_consent and call.call_id not in self.granted]
        if asked:
            granted = await ask_consent(asked)
            self.granted |= {call.call_id: call.call_id in granted for call in asked}

    def watch(self, call_id: str, task: "asyncio.Task[Any]") -> None:
        """Where the call ends without an answer, because a hook asked a human, its dependents are blocked."""

        def end(_task: object) -> None:
            self.schedule.block(call_id)

        task.add_done_callback(end)
        self._watched[call_id] = (task, end)

    def answer(self, call_id: str) -> None:
        """The call has come to a result: those that wait for it may go on."""
        self.answered.add(call_id)
        self.schedule.release(call_id)
        if call_id in self._watched:
            task, end = self._watched.pop(call_id)
            task.remove_done_callback(end)


def call_ids(message: Message) -> list[str]:
    return [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]


def pending_calls(agent: Agent, message: Message) -> list[PendingCall]:
    """The calls of a message that will run: not those that are done, unknown, or refused for their input."""
    done = _done_before(agent)
    found: list[PendingCall] = []
    for block in message["content"]:
        use = block.get("toolUse")
        bridge = _tool_named(agent, use["name"]) if use else None
        if use is None or use["toolUseId"] in done or not isinstance(bridge, ToolBridge):
            continue
        if kept_text(use["input"]) is not None:
            continue
        try:
            arguments = prepare(bridge.tool, {"input": use["input"]})
        except ToolFailed:
            continue  # the call will say so itself
        found.append(PendingCall(use["toolUseId"], bridge.tool, arguments))
    return found


def _tool_named(agent: Agent, name: str) -> object:
    tools = agent.tool_registry
    return tools.dynamic_tools.get(name) or tools.registry.get(name)


def _done_before(agent: Agent) -> set[str]:
    """The calls of the last message that were answered before a human was asked, maybe in another process."""
    state = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]
    pending = state.get("pending_tool_execution") or {}
    return {result["toolUseId"] for result in pending.get("completed_tool_results", ())}
