"""Our tools as an MCP server, over the official package's protocol; every call is `call_tool`.

The package is imported only where a server is made: it takes longer to import than most commands run.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from strands_cli.errors import ToolError, ToolFailed, did_you_mean
from strands_cli.mcp.served_call import DescribeCall, Offer, ServedCall
from strands_cli.mcp.tool_content import call_answer, tool_definition
from strands_cli.toolkit.info import ToolFields, ToolInfo, missing_requirements
from strands_cli.toolkit.results import failure_result

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

_MOST_WAITING = 1000
"""Calls whose questions are open; the oldest are forgotten, and ask again."""
_SESSION_KEPT = "strands_cli.session_kept"


class ToolServer:
    """One server, for any number of clients."""

    def __init__(
        self,
        offer: Offer,
        *,
        version: str,
        describe: DescribeCall,
        warn: Callable[[str], None],
        name: str = "strands-cli",
        instructions: str | None = None,
    ) -> None:
        """`warn` is told of tools that cannot be served."""
        self._offer = offer
        self._describe, self._warn = describe, warn
        self._waiting: dict[str, ServedCall] = {}
        """Those whose question is with the client, by their keys. Each state counts once."""
        self._listing: list[dict[str, Any]] | None = None
        self._left_out: set[str] = set()
        self._sessions: set[Any] = set()
        self._calls = count(1)
        self.protocol = self._build(name, version, instructions)

    def _build(self, name: str, version: str, instructions: str | None) -> "Server[Any]":
        from mcp.server.caching import CacheHint
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
        from mcp_types import CallToolRequestParams, PaginatedRequestParams, SubscriptionsListenRequestParams

        server: Server[Any] = Server(
            name, version=version, instructions=instructions, cache_hints={"tools/list": CacheHint()}
        )
        self._changes = InMemorySubscriptionBus()
        server.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        listen = ListenHandler(self._changes)
        server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
        boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(ttl=3600), default_audience=name)
        # Instead of the package's own middleware, whose spans nobody has asked for.
        server.middleware = [self._remember_session, boundary]
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        # Sessions over HTTP ask for it without saying that the list of tools changes.
        server.create_initialization_options = lambda *_, **__: options  # type: ignore[method-assign]
        return server

    # --- the list ---------------------------------------------------------------------------------------

    async def _list_tools(
        self, ctx: "ServerRequestContext[Any, Any]", params: "PaginatedRequestParams"
    ) -> "HandlerResult":
        if self._listing is None:
            self._listing = [*self._definitions()]
        return {"tools": self._listing, "resultType": "complete"}

    def _definitions(self) -> Iterator[dict[str, Any]]:
        """Every tool that can be called. One whose schemas are known only then is loaded."""
        for name, tool in self._offer.tools.items():
            try:
                yield {**tool_definition(self._readable(name, tool)), "name": name}
            except ToolError as error:
                if name not in self._left_out:
                    self._left_out.add(name)
                    self._warn(f"{name} is not served: {error.message}")

    def _readable(self, name: str, tool: ToolFields) -> ToolFields:
        if missing := missing_requirements(tool.requires):
            raise ToolError(f"it is unavailable, since {'; '.join(missing)}", code="unavailable")
        is_partly_read = isinstance(tool, ToolInfo) and bool(tool.unread or tool.inferred)
        return self._offer.load(name) if is_partly_read or tool.input_schema is None else tool

    async def replace_offer(self, offer: Offer) -> None:
        """Serves other tools from now on. Clients hear of it if their list has become another one."""
        before = self._listing
        self._offer, self._listing = offer, None
        self._left_out.clear()
        if before is None:  # nobody has seen it
            return
        self._listing = [*self._definitions()]
        if self._listing == before:
            return
        from mcp.server.subscriptions import ToolsListChanged

        await self._changes.publish(ToolsListChanged())
        for session in [*self._sessions]:
            await session.send_tool_list_changed()

    async def _remember_session(
        self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext"
    ) -> "HandlerResult":
        """Keeps the sessions of the handshake era, which are told of changes without asking for it."""
        if ctx.method == "notifications/initialized":
            connection = ctx.session._connection  # nothing public leads to the end of a session
            if _SESSION_KEPT not in connection.state:
                connection.state[_SESSION_KEPT] = True
                self._sessions.add(ctx.session)
                connection.exit_stack.callback(self._sessions.discard, ctx.session)
        return await call_next(ctx)

    # --- a call -----------------------------------------------------------------------------------------

    async def _call_tool(
        self, ctx: "ServerRequestContext[Any, Any]", params: "CallToolRequestParams"
    ) -> "HandlerResult":
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        offer, name = self._offer, params.name
        if name not in offer.tools:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}. {did_you_mean(name, offer.tools)}".strip())
        try:
            call = self._waiting.pop(params.request_state or "", None) or self._new_call(offer, name)
        except ToolError as error:
            failed = ToolFailed(error.message, code=error.code, hint=error.hint)
            return call_answer(failure_result("", failed), None)
        answer, is_question = await call.answer(ctx, params)
        if is_question:
            self._waiting[call.key] = call
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.pop(next(iter(self._waiting))).abandon()
        return answer

    def _new_call(self, offer: Offer, name: str) -> ServedCall:
        return ServedCall(offer, name, f"mcp-{next(self._calls)}", self._describe)
