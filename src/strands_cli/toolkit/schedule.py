"""Many calls of one turn: who waits for whom, and `call_tools`.

A tool declares what it touches (`contract.Effects`), or that it must run alone. Calls that touch the same
thing, one of them writing, keep the order in which they were asked for; all others run at the same time. A
tool that declares nothing is independent of all but the exclusive ones.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.call import call_tool, prepare_arguments
from strands_cli.toolkit.context import NO_CONTEXT, CallContext, InterruptRequested
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.effects import Resource, Resources, resources_of
from strands_cli.toolkit.results import ToolResult, ToolUse, failure_result
from strands_cli.toolkit.workspace import Workspace

# --- who waits for whom -----------------------------------------------------------------------------------


class _CallOrder:
    """What each call waits for; calls are added one after the other, in request order.

    Only the last writer of a resource counts: it waits itself for all that came before.
    """

    def __init__(self) -> None:
        self._users: defaultdict[tuple[str, Resource], list[int]] = defaultdict(list)
        """Who reads, writes, reads below and writes below a resource."""
        self._since_exclusive: list[int] = []
        self._exclusive: set[int] = set()

    def before(self, index: int, touched: Resources) -> set[int]:
        found = set(self._exclusive)
        if touched.exclusive:
            found.update(self._since_exclusive)
            self._users.clear()
            self._since_exclusive, self._exclusive = [], {index}
            return found
        self._since_exclusive.append(index)
        for resource in touched.reads | touched.writes:
            found.update(self._conflicting(resource, resource in touched.writes))
        for resource in touched.reads | touched.writes:
            self._note(index, resource, resource in touched.writes)
        return found

    def _conflicting(self, resource: Resource, writes: bool) -> Iterator[int]:
        for act in ("write", "read") if writes else ("write",):
            yield from self._users[act, resource]
            yield from self._users[f"{act} below", resource]
            for length in range(1, len(resource)):
                yield from self._users[act, resource[:length]]

    def _note(self, index: int, resource: Resource, writes: bool) -> None:
        act = "write" if writes else "read"
        if writes:
            for earlier in ("write", "read", "write below", "read below"):
                self._users[earlier, resource].clear()
        self._users[act, resource].append(index)
        for length in range(1, len(resource)):
            self._users[f"{act} below", resource[:length]].append(index)


class _ScheduledCall(msgspec.Struct, eq=False):
    tool_id: str
    waits_for: set[int]
    followers: list[int] = []
    finished: bool = False
    released_followers: bool = False
    """Whether the followers have been released: not before all that this call waited for have finished."""
    blocked_by: str = ""
    ready: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.ready is not None and not self.ready.done():
            self.ready.set_result(None)


class Turn:
    """The calls of one turn, in request order, each with those that it must wait for. Used in one event loop.

    A call is `(call_id, tool, arguments)`, with what `prepare_arguments` gave; one without a tool or without
    arguments cannot run and is independent. Calls with the same id are distinct: they run one after the
    other, and the n-th `slot` or `release` of the id means the n-th of them.
    """

    def __init__(
        self,
        calls: Sequence[tuple[str, Tool | None, dict[str, Any] | None]],
        workspace: Workspace | None = None,
    ) -> None:
        self._entries: list[_ScheduledCall] = []
        self._indexes: dict[str, list[int]] = {}
        self._entered: dict[str, int] = {}
        self._released: dict[str, int] = {}
        order = _CallOrder()
        for index, (call_id, tool, arguments) in enumerate(calls):
            before: set[int] = set()
            if tool is not None and arguments is not None:
                before = order.before(index, resources_of(tool.effects, arguments, workspace))
            same = self._indexes.setdefault(call_id, [])
            before.update(same[-1:])
            same.append(index)
            self._entries.append(_ScheduledCall(tool.id if tool else "", before))
            for earlier in before:
                self._entries[earlier].followers.append(index)

    @asynccontextmanager
    async def slot(self, call_id: str, *interruptions: type[BaseException]) -> AsyncIterator[None]:
        """Waits for all that the call depends on; releases the call at the end, whatever happens.

        ToolFailed (`blocked`) if one of those was interrupted. A call that the turn does not know waits for
        nothing. An interruption inside blocks the dependents; `interruptions` are classes for it beside ours.
        """
        index = self._next(self._entered, call_id)
        if index is None:
            yield
            return
        asking: tuple[type[BaseException], ...] = (InterruptRequested, *interruptions)
        try:
            await self._wait(self._entries[index])
            yield
        except asking:
            self._block(index)
            raise
        finally:
            self._finish(index)

    def release(self, call_id: str) -> None:
        """The call has ended, or will not start: those that wait for it may go on. May be repeated."""
        index = self._next(self._released, call_id)
        if index is not None:
            self._finish(index)

    def block(self, call_id: str) -> None:
        """The call waits for a human: whatever depends on it, directly or not, is answered with `blocked`."""
        indexes = self._indexes.get(call_id, [])
        unfinished = [index for index in indexes if not self._entries[index].finished]
        for index in unfinished[:1] or indexes[-1:]:
            self._block(index)

    def _next(self, counts: dict[str, int], call_id: str) -> int | None:
        indexes = self._indexes.get(call_id)
        if not indexes:
            return None
        count = counts[call_id] = counts.get(call_id, 0) + 1
        return indexes[min(count, len(indexes)) - 1]

    async def _wait(self, entry: _ScheduledCall) -> None:
        if entry.waits_for and not entry.blocked_by:
            entry.ready = asyncio.get_running_loop().create_future()
            await entry.ready
        if entry.blocked_by:
            raise ToolFailed(
                f"{entry.tool_id} did not run: it depends on {entry.blocked_by}, which waits for a human",
                code="blocked",
                hint="Make the call again when that one has been answered.",
            )

    def _finish(self, index: int) -> None:
        """Releases the followers; a call that gave up waiting does so when it would have started."""
        self._entries[index].finished = True
        pending = [index]
        while pending:
            index = pending.pop()
            entry = self._entries[index]
            if entry.released_followers or entry.waits_for or not entry.finished:
                continue
            entry.released_followers = True
            for number in entry.followers:
                follower = self._entries[number]
                follower.waits_for.discard(index)
                if not follower.waits_for:
                    follower.wake()
                    pending.append(number)

    def _block(self, index: int) -> None:
        cause = self._entries[index].tool_id or "another call"
        waiting = list(self._entries[index].followers)
        while waiting:
            entry = self._entries[waiting.pop()]
            if not entry.blocked_by:
                entry.blocked_by = cause
                entry.wake()
                waiting += entry.followers
        self._finish(index)


async def call_tools(
    calls: Sequence[tuple[Tool, ToolUse]],
    context: CallContext = NO_CONTEXT,
    *,
    max_parallel: int | None = None,
) -> list[ToolResult]:
    """Calls many tools, in parallel where their effects allow it. Results keep the order of the request.

    A tool's time limit starts when the tool may start. A failure does not affect the other calls. If one asks
    a human, the others finish before that is raised. Each call gets its own idempotency key.
    """
    prepared = [(str(index), tool, _prepared_arguments(tool, use)) for index, (tool, use) in enumerate(calls)]
    turn = Turn(prepared, context.workspace)
    room = asyncio.Semaphore(max_parallel) if max_parallel else nullcontext()

    async def call(index: int, tool: Tool, use: ToolUse) -> ToolResult:
        key = f"{context.key}/{index}" if context.key else ""
        try:
            async with turn.slot(str(index)), room:
                return await call_tool(tool, use, msgspec.structs.replace(context, key=key))
        except ToolFailed as blocked:
            return failure_result(use.get("toolUseId", ""), blocked)

    answers = await asyncio.gather(
        *(call(index, tool, use) for index, (tool, use) in enumerate(calls)), return_exceptions=True
    )
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def _prepared_arguments(tool: Tool, call: ToolUse) -> dict[str, Any] | None:
    """The arguments that effects name; None for a call that will be refused anyway."""
    if not tool.effects:
        return {}
    try:
        return prepare_arguments(tool, call)
    except ToolFailed:
        return None
