"""A server in use: started or reached when a tool is first called, shared by the calls of one event loop.

The official package speaks the protocol; tools and results are judged one by one (`lenient`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
import mcp_types as types
import msgspec
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ArtifactError, ToolError, ToolFailed
from strands_cli.mcp.elicitation import answer_question
from strands_cli.mcp.lenient import DEEPEST, RAW, TOO_DEEP, LenientDispatcher, as_list, oversized_tools
from strands_cli.mcp.listing import MAX_TOOLS, RawTool, is_same_listing, newly_accepted
from strands_cli.mcp.records import ServerRecord, read_record, write_record
from strands_cli.mcp.server_process import UNREADABLE, ServerProcess, started_server
from strands_cli.secrets import NOTHING_SECRET
from strands_cli.settings import Settings
from strands_cli.toolkit.context import InterruptRequested, ToolContext, call_context_of, times_of
from strands_cli.types.servers import DeclaredServer

if TYPE_CHECKING:
    from strands_cli.mcp.addresses import Address

IDLE_SECONDS = 600.0
MAX_PAGES = 100
MAX_PROGRESS = 1000
_CLOSING_SECONDS = 3.0
_LONGEST_QUESTION_SECONDS = 24 * 3600.0
MAX_ROUNDS = 10
"""How often one call may ask for more input."""
_LONGEST_TITLE = 100
_CLIENT = types.Implementation(name="strands-cli", version=version("strands-cli"))
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_LOST = ("Connection closed", "SSE stream ended")
"""How the transport's own errors begin; servers use their code for errors of their own."""

_log = logging.getLogger(__name__)


class ServerListing(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself."""

    tools: tuple[RawTool, ...] = ()
    dropped: dict[str, str] = {}
    """Tools that may not be used, with the reason."""
    remarks: tuple[str, ...] = ()
    title: str = ""
    version: str = ""
    protocol: str = ""
    seconds: float = 0.0
    """From its start until its tools were known."""


class ServerDied(Exception):
    """The server is gone; `was_sent` says whether the call may have reached it."""

    def __init__(self, message: str, hint: str = "", *, code: str = "crashed", was_sent: bool = True) -> None:
        super().__init__(message)
        self.message, self.hint, self.code, self.was_sent = message, hint, code, was_sent

    def as_failure(self) -> ToolFailed:
        return ToolFailed(self.message, code=self.code, hint=self.hint)


class _Caller(msgspec.Struct, eq=False):
    """A call that waits for its answer, for questions that the server asks meanwhile."""

    context: ToolContext | None
    task: "asyncio.Task[Any] | None"
    timer: asyncio.Timeout | None = None
    asked: InterruptRequested | None = None
    progress: int = 0
    """How often the server has told how far it has come."""


class ServerConnection:
    """One server in one event loop, until it dies, is idle for too long, or the loop ends."""

    def __init__(
        self,
        declared: DeclaredServer,
        settings: Settings,
        *,
        open_page: Callable[[str], Any] | None = None,
    ) -> None:
        self.declared, self._settings, self._open_page = declared, settings, open_page
        self._last_used = time.monotonic()
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._closing = asyncio.Event()
        self._session: ClientSession | None = None
        self._callers: list[_Caller] = []
        self._process: ServerProcess | None = None
        self._address: Address | None = None
        self._redactor = NOTHING_SECRET
        self._is_stale, self._is_accepted = False, False
        self._listing_lock = asyncio.Lock()
        self.listing = ServerListing()
        self.is_over = False
        self._start_error: ToolFailed | None = None
        self.life = loop.create_task(self._live())

    @property
    def noise(self) -> tuple[int, list[str]]:
        """How many lines on standard output were not protocol messages, and the first of them."""
        return (self._process.noise_lines, self._process.noise) if self._process else (0, [])

    async def ready(self) -> None:
        """Returns when the tools of the server are known; ToolFailed where it cannot be used."""
        await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        self._closing.set()
        await asyncio.wait([self.life], timeout=_CLOSING_SECONDS)
        self.life.cancel()
        await asyncio.wait([self.life], timeout=_CLOSING_SECONDS)

    # --- its life -------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        failure: ToolFailed | None = None
        try:
            async with AsyncExitStack() as stack:
                failure = self._start_error = await self._live_in(stack)
        except ToolFailed as failed:
            failure = failed
        except ToolError as error:
            failure = ToolFailed(error.message, code=error.code, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - whatever the tasks of a transport raise ends the server
            _log.debug("the MCP server %s failed", self.declared.name, exc_info=error)
            # What a transport raises when it is closed does not matter.
            failure = self._start_error or _transport_failure(self.declared, error)
        finally:
            self.is_over = True
            self._session = None
            if not self._ready.done():
                self._ready.set_exception(
                    failure or ToolFailed(f"The MCP server {self.declared.name} was ended", code="cancelled")
                )
                self._ready.exception()  # somebody who no longer waits need not be told

    async def _live_in(self, stack: AsyncExitStack) -> ToolFailed | None:
        """Why it could not be started, once nothing in the stack needs to be told; None for a whole life."""
        started = time.monotonic()
        limit = self.declared.server.start_seconds
        if self.declared.server.url:
            from strands_cli.mcp.addresses import reached_server

            (read, write), self._address = await stack.enter_async_context(
                reached_server(self.declared, self._open_page)
            )
            self._redactor = self._address.redactor
        else:
            process, (read, write) = await stack.enter_async_context(
                started_server(self.declared, self._settings)
            )
            self._process, self._redactor = process, process.redactor
        dispatcher = LenientDispatcher(read, write)
        dispatcher.waits_for_person = self._open_page is not None
        session = await stack.enter_async_context(
            ClientSession(
                dispatcher=dispatcher,
                client_info=_CLIENT,
                elicitation_callback=self._answer_question,
                message_handler=self._on_message,
            )
        )
        try:
            async with asyncio.timeout(None if self._open_page else limit):
                await self._negotiate(session)
                self.listing = await self._list_tools(session)
        except TimeoutError:
            errors = self._process.errors if self._process else ""
            said = f": {errors}" if errors else ""
            reason = (
                f"The MCP server {self.declared.name} did not answer within {limit:g} s of its start{said}"
            )
            hint = "Give it a longer 'start_timeout' or MCP_STARTUP_TIMEOUT_S, or correct its command."
            return ToolFailed(reason, code="timeout", hint=hint)
        except (MCPError, ToolFailed, ValueError, RuntimeError, *_CLOSED) as error:
            return await self._start_failure(error)
        self.listing = msgspec.structs.replace(self.listing, seconds=time.monotonic() - started)
        self._session = session
        self._ready.set_result(None)
        await self._until_over()
        return None

    async def _negotiate(self, session: ClientSession) -> None:
        """Both eras of the protocol: a program is first asked as nearly all of them understand it.

        One that knows only the other era says so at once; asked the other way round, many of today's programs
        say nothing for as long as somebody waits. Over HTTP a refusal comes at once either way.
        """
        try:
            if self.declared.server.url:
                await session.discover()
            else:
                await session.initialize()
        except (MCPError, RuntimeError, ValueError) as error:
            is_over = self._process is not None and self._process.exited.done()
            if is_over or (self._process is not None and not isinstance(error, MCPError)):
                raise
            _log.debug("%s refused the first handshake: %s", self.declared.name, error)
            try:
                await (session.initialize() if self.declared.server.url else session.discover())
            except MCPError as second:
                if second.code == types.METHOD_NOT_FOUND:  # then the first refusal says why
                    raise error from None
                raise

    async def _start_failure(self, error: Exception) -> ToolFailed:
        if isinstance(error, ToolFailed):
            return error
        if self._process is not None and self._process.exited.done():
            message, hint = await self._process.death()
            return ToolFailed(message, code="unavailable", hint=hint)
        name = self.declared.name
        if isinstance(error, _CLOSED) or (isinstance(error, MCPError) and self._is_lost(error)):
            return ToolFailed(
                f"The connection to the MCP server {name} was lost at its start", code="network"
            )
        reason = error.message if isinstance(error, MCPError) else str(error).splitlines()[0]
        message = f"The MCP server {name} does not speak the protocol as it should: {reason}"
        return ToolFailed(message, code="unavailable", hint="Is it an MCP server?")

    def _is_lost(self, error: MCPError) -> bool:
        """Whether there is nobody left to answer."""
        if self._process is not None:
            return self._process.exited.done()
        return error.code == types.CONNECTION_CLOSED and error.message.startswith(_LOST)

    async def _until_over(self) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        waiting = [closing, *([self._process.exited] if self._process else [])]
        try:
            while not any(one.done() for one in waiting):
                idle = self._last_used + IDLE_SECONDS - time.monotonic()
                if idle <= 0 and not self._callers:
                    return
                await asyncio.wait(waiting, timeout=max(idle, 1.0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            self.is_over = True

    # --- its tools ------------------------------------------------------------------------------------------

    async def _list_tools(self, session: ClientSession) -> ServerListing:
        tools: list[RawTool] = []
        remarks: list[str] = []
        kept: set[str] = set()
        cursors: set[str] = set()
        cursor: str | None = None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await session.list_tools(params=params)
            offered = (page.meta or {}).get(RAW, {}).get("tools")
            tools += [tool for tool in as_list(offered) if isinstance(tool, dict)]
            if not isinstance(offered, list):
                remarks.append("its answer to tools/list has no list of tools")
            elif wrong := sum(not isinstance(tool, dict) for tool in offered):
                remarks.append(f"{wrong} of its tools are not objects, and are left out")
            kept |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                break
            if cursor in cursors or len(cursors) == MAX_PAGES or len(tools) > MAX_TOOLS:
                remarks.append("its list of tools does not end: the rest of it is left out")
                break
            cursors.add(cursor)
        if len(tools) > MAX_TOOLS:
            remarks.append(f"it has {len(tools):,} tools: only the first {MAX_TOOLS:,} are used")
        named = {str(tool.get("name")): tool for tool in tools if isinstance(tool.get("name"), str)}
        deep = {name for name, tool in named.items() if TOO_DEEP in tool}
        reason = "it asks for HTTP headers in a way that the protocol does not allow (x-mcp-header)"
        dropped = {name: reason for name in named if name not in kept}
        dropped |= dict.fromkeys(deep, f"its definition is nested more than {DEEPEST} levels deep")
        dropped |= oversized_tools(named)
        info = session.server_info
        return ServerListing(
            tools=tuple(tool for tool in tools[:MAX_TOOLS] if tool.get("name") not in dropped),
            dropped={shorten_text(name, _LONGEST_TITLE): reason for name, reason in dropped.items()},
            remarks=tuple(remarks),
            title=shorten_text(info.name, _LONGEST_TITLE) if info else "",
            version=shorten_text(info.version, _LONGEST_TITLE) if info else "",
            protocol=session.protocol_version or "",
        )

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._is_stale = True

    async def accepted_listing(self) -> ServerListing:
        """What the server offers, as the user has accepted it; ToolFailed where that has changed.

        ServerDied if it went away while it was asked again.
        """
        await self.ready()
        async with self._listing_lock:
            if self._is_stale and self._session is not None:
                await self._list_again(self._session)
            if not self._is_accepted:
                try:
                    accept_or_block(self.declared, self.listing)
                except ArtifactError as error:
                    raise ToolFailed(error.message, code="unavailable", hint=error.hint) from None
                self._is_accepted = True
        return self.listing

    async def _list_again(self, session: ClientSession) -> None:
        seconds, is_listed = self.listing.seconds, False
        self._is_stale = False  # it may change once more meanwhile
        try:
            listing = await self._list_tools(session)
            is_listed = True
        except MCPError as error:
            if self._is_lost(error):
                self.is_over = True
                reason = f"The MCP server {self.declared.name} has ended"
                raise ServerDied(reason, was_sent=False) from None
            reason = f"The MCP server {self.declared.name} does not list its tools again: "
            reason += self._redactor.text(error.message)
            raise ToolFailed(reason, code="unavailable") from None
        finally:
            self._is_stale = self._is_stale or not is_listed
        self.listing, self._is_accepted = msgspec.structs.replace(listing, seconds=seconds), False

    # --- calls ----------------------------------------------------------------------------------------------

    async def call(
        self, name: str, arguments: dict[str, Any], context: ToolContext | None = None
    ) -> dict[str, Any]:
        """The raw result of a call; ServerDied if the server went away meanwhile."""
        session = self._session
        if session is None or self.is_over:
            raise ServerDied(f"The MCP server {self.declared.name} has ended", was_sent=False)
        caller = _Caller(context, asyncio.current_task())
        self._callers.append(caller)
        try:
            async with asyncio.timeout(self.declared.server.timeout) as caller.timer:
                raw = await self._call_rounds(session, name, arguments, caller)
                return self._process.explained(raw) if self._process else raw
        except asyncio.CancelledError:
            if caller.asked is None or caller.task is None:
                raise
            caller.task.uncancel()
            raise caller.asked from None
        except TimeoutError:
            limit = self.declared.server.timeout
            raise ToolFailed(
                f"{name} of {self.declared.name} did not answer within {limit:g} s", code="timeout"
            ) from None
        except MCPError as error:
            raise await self._call_failure(name, error) from None
        finally:
            self._callers.remove(caller)
            self._last_used = time.monotonic()
            if self._process is not None:
                self._process.refuse_protected()

    async def _call_rounds(
        self, session: ClientSession, name: str, arguments: dict[str, Any], caller: _Caller
    ) -> dict[str, Any]:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            caller.progress += 1
            if caller.context is not None and caller.progress <= MAX_PROGRESS:
                told = {"progress": progress, "total": total, "message": message}
                said = {key: value for key, value in told.items() if value is not None}
                caller.context.progress(self._redactor.value(said))

        responses: types.InputResponses | None = None
        state: str | None = None
        for _ in range(MAX_ROUNDS):
            result = await session.call_tool(
                name,
                arguments,
                progress_callback=on_progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
            if not isinstance(result, types.InputRequiredResult):
                raw: dict[str, Any] = (result.meta or {}).get(RAW, {})
                return raw if self._redactor.is_empty else self._redactor.value(raw)
            responses, state = await self._answers(session, result.input_requests or {}), result.request_state
            if not responses:
                responses = None
                await asyncio.sleep(0.1)
        raise ToolFailed(f"{name} of {self.declared.name} asks for input again and again", code="failed")

    async def _answers(
        self, session: ClientSession, requests: Mapping[str, types.InputRequest]
    ) -> types.InputResponses:
        responses: types.InputResponses = {}
        for key, request in requests.items():
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                reason = f"{self.declared.name} asks for something that is not offered here: {answer.message}"
                raise ToolFailed(reason, code="failed")
            responses[key] = answer
        return responses

    async def _call_failure(self, name: str, error: MCPError) -> Exception:
        if self._process is not None and self._is_lost(error):
            self.is_over = True
            return ServerDied(*await self._process.death())
        is_forgotten = self._address is not None and self._address.is_forgotten
        if self._process is None and (self._is_lost(error) or is_forgotten):
            if is_forgotten:
                self.is_over = True
                self._closing.set()
            reason = f"The connection to the MCP server {self.declared.name} was lost: {error.message}"
            return ServerDied(reason, code="network", was_sent=not is_forgotten)
        code = "output_invalid" if error.message == UNREADABLE else "failed"
        message = self._redactor.text(error.message)
        return ToolFailed(f"{name} of {self.declared.name}: {message}", code=code)

    @contextmanager
    def _clock_stopped(self, caller: _Caller) -> Iterator[None]:
        """While somebody is asked, the time of the call does not count."""
        assert caller.context is not None
        asked, times, timer = time.monotonic(), times_of(caller.context), caller.timer
        begun = times.begun if times else 0.0
        if times:
            times.begun = begun + _LONGEST_QUESTION_SECONDS
        if timer is not None:
            timer.reschedule(None)
        try:
            yield
        finally:
            if times:
                times.begun = begun + time.monotonic() - asked
            if timer is not None and not timer.expired():
                timer.reschedule(asyncio.get_running_loop().time() + self.declared.server.timeout)

    async def _answer_question(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Asks whoever made the last call: the protocol does not say which call it is about."""
        caller = next((one for one in reversed(self._callers) if one.context is not None), None)
        if caller is None or caller.context is None:
            return types.ElicitResult(action="cancel")
        outer = call_context_of(caller.context)
        if outer.interrupt is None:
            return types.ElicitResult(action="cancel")
        try:
            with self._clock_stopped(caller):
                # In a thread: whoever is asked may take a while, and the server may have more to say.
                return await asyncio.to_thread(answer_question, self.declared.name, params, outer.interrupt)
        except InterruptRequested as asked:
            caller.asked = asked
            if caller.task is not None:
                caller.task.cancel()
            return types.ElicitResult(action="cancel")
        except ToolFailed:
            return types.ElicitResult(action="cancel")


def _transport_failure(declared: DeclaredServer, error: BaseException) -> ToolFailed:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ToolFailed):
        return error
    if declared.server.url and isinstance(error, OAuthFlowError):
        reason = f"Signing in to the MCP server {declared.name} failed: {error}"
        hint = f"Try again: strands mcp check {declared.argument}"
        return ToolFailed(reason, code="unavailable", hint=hint)
    if declared.server.url:
        reason = str(error) or type(error).__name__
        return ToolFailed(f"The MCP server {declared.name} cannot be reached: {reason}", code="network")
    reason = f"The MCP server {declared.name} cannot be used: {type(error).__name__}: {error}"
    return ToolFailed(reason, code="unavailable")


def accept_or_block(declared: DeclaredServer, listing: ServerListing) -> None:
    """Records what a server offers; ToolFailed where that is not what the user accepted.

    The first listing is accepted with the server itself; ArtifactError where it cannot be recorded.
    """
    before = read_record(declared)
    if before is None:
        write_record(declared, accepted_record(declared, listing))
        return
    is_same = is_same_listing(declared, before.accepted, listing.tools)
    now = accepted_record(declared, listing, before)
    if not is_same:
        now = msgspec.structs.replace(before, changed=listing.tools)
    if now != before:
        with suppress(ArtifactError):
            write_record(declared, now)
    if not is_same:
        raise blocked_failure(declared)


def accepted_record(
    declared: DeclaredServer, listing: ServerListing, before: ServerRecord | None = None
) -> ServerRecord:
    """The record of a server whose tools the user accepts as they are now."""
    return ServerRecord(
        server=declared.name,
        scope=declared.scope,
        accepted=newly_accepted(declared, before.accepted, listing.tools) if before else listing.tools,
        version=listing.version,
        title=listing.title,
        protocol=listing.protocol,
    )


def blocked_failure(declared: DeclaredServer) -> ToolFailed:
    return ToolFailed(
        f"The tools of the MCP server {declared.name} are not those that you accepted",
        code="unavailable",
        hint=f"Look at the difference and decide: strands mcp trust {declared.argument}",
    )


class ServerConnections:
    """The servers of one event loop, with which they end."""

    def __init__(self) -> None:
        self._running: dict[tuple[object, ...], ServerConnection] = {}

    async def get(self, declared: DeclaredServer, settings: Settings) -> ServerConnection:
        key = (declared.scope, declared.name, declared.server.fingerprint, settings.workspace)
        connection = self._running.get(key)
        if connection is None or connection.is_over:
            connection = self._running[key] = ServerConnection(declared, settings)
            # A connection holds its loop, which would otherwise never be freed.
            connection.life.add_done_callback(partial(self._forget, key))
        await connection.accepted_listing()
        return connection

    async def call(
        self,
        declared: DeclaredServer,
        settings: Settings,
        name: str,
        arguments: dict[str, Any],
        context: ToolContext | None = None,
        *,
        is_repeatable: bool = False,
    ) -> dict[str, Any]:
        """The raw result of a call. For one that may be repeated, a server that dies is started again."""
        for may_start_again in (True, False):
            try:
                connection = await self.get(declared, settings)
                return await connection.call(name, arguments, context)
            except ServerDied as died:
                if not may_start_again or (died.was_sent and not is_repeatable):
                    raise died.as_failure() from None
                _log.info("%s; it is started again, and %s is called once more", died.message, name)
        raise AssertionError("the second attempt returns or raises")

    def _forget(self, key: tuple[object, ...], life: "asyncio.Task[None]") -> None:
        if key in self._running and self._running[key].life is life:
            del self._running[key]

    async def aclose(self) -> None:
        for connection in [*self._running.values()]:
            await connection.aclose()
        self._running.clear()


_connections_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, ServerConnections]" = WeakKeyDictionary()


def connections_of_loop() -> ServerConnections:
    """Those of the running loop."""
    return _connections_of_loops.setdefault(asyncio.get_running_loop(), ServerConnections())
