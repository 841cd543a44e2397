"""MCP's streamable HTTP transport for a server, and the guard in front of it.

A page in the user's browser can send requests to any port of this machine, also under a name of its own that
leads here. So the guard wants a Host and an Origin that belong to this server, and a token.
"""

import hmac
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import UsageError
from strands_cli.mcp.stdio_server import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from strands_cli.mcp.server import ToolServer

PATH = "/mcp"
_MOST_SESSIONS = 1000
_IDLE_SECONDS = 1800.0
_SHUTDOWN_SECONDS = 1
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HttpGuard(msgspec.Struct, frozen=True, kw_only=True):
    """Refuses requests that do not come from a client of the user."""

    app: App
    host: str
    """Where the server listens."""
    names: frozenset[str] = frozenset()
    """Other names that lead to it, as the user says."""
    token: str = ""
    """Wanted in `Authorization: Bearer …`; without one, whoever reaches the server may use it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._is_own(_host_name(headers.get("host", ""))):
            await refuse(send, 421, "The Host header does not name this server.")
        elif "origin" in headers and not self._is_own(_host_name(headers["origin"].partition("://")[2])):
            await refuse(send, 403, "Requests from this Origin are not allowed.")
        elif self.token and not _has_token(headers.get("authorization", ""), self.token):
            challenge = (b"www-authenticate", b'Bearer realm="strands mcp serve"')
            await refuse(send, 401, "A token is needed: send 'Authorization: Bearer TOKEN'.", challenge)
        else:
            await self.app(scope, receive, send)

    def _is_own(self, name: str) -> bool:
        """Whether a name is one of this server's. An address cannot be a stranger's name for it."""
        if name in self.names or name == self.host.lower():
            return True
        if is_loopback(self.host):
            return name in _LOOPBACK_NAMES
        try:
            ip_address(name)
        except ValueError:
            return name == "localhost"
        return True


def _host_name(authority: str) -> str:
    """The name in `name:port` or `[address]:port`; empty if it is neither."""
    if authority.startswith("["):
        name, bracket, rest = authority[1:].partition("]")
        is_right = bool(bracket) and (not rest or rest.startswith(":"))
    else:
        name, _, rest = authority.partition(":")
        is_right = ":" not in rest
    return name.lower() if is_right else ""


def _has_token(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


async def refuse(send: Send, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
    """Answers with a JSON-RPC error: clients of MCP show its message."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [kind, *headers]})
    await send({"type": "http.response.body", "body": msgspec.json.encode(error)})


class _Sessions:
    """The sessions of all clients, at one path."""

    def __init__(self, manager: "StreamableHTTPSessionManager") -> None:
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self._manager, self._modern = manager, MODERN_PROTOCOL_VERSIONS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Since 2026-07-28 there are no sessions, and every request says its version.
        headers = dict(scope["headers"])
        is_modern = headers.get(b"mcp-protocol-version", b"").decode("latin-1") in self._modern
        opens = b"mcp-session-id" not in headers and not is_modern
        if scope["path"] != PATH:
            await refuse(send, 404, f"The path of this server is {PATH}.")
        elif opens and self._are_too_many():
            await refuse(send, 503, f"{_MOST_SESSIONS} sessions are open: close one, or wait.")
        else:
            await self._manager.handle_request(scope, receive, send)

    def _are_too_many(self) -> bool:
        """The package has no limit of its own, no public count, and keeps sessions that have ended."""
        sessions = self._manager._server_instances
        if len(sessions) < _MOST_SESSIONS:
            return False
        for key in [key for key, session in sessions.items() if session.is_terminated]:
            del sessions[key]
        return len(sessions) >= _MOST_SESSIONS


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; UsageError if that is impossible. Port 0 is any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "Give another address or port; with port 0, a free one is used."
        raise UsageError(f"Cannot listen on {host}:{port}: {reason}.", hint=hint) from None
    return listening


async def serve_http(
    server: "ToolServer",
    listening: socket.socket,
    *,
    host: str,
    names: frozenset[str] = frozenset(),
    token: str = "",
) -> None:
    """Serves until it is cancelled. Without a token, whoever reaches the server may use it."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from uvicorn import Config, Server

    class Quiet(Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:  # the command has its own handling of signals
            yield

    manager = StreamableHTTPSessionManager(
        server.protocol, session_idle_timeout=_IDLE_SECONDS, max_request_body_size=MAX_MESSAGE_BYTES
    )
    config = Config(
        HttpGuard(app=_Sessions(manager), host=host, names=names, token=token),
        interface="asgi3",
        lifespan="off",
        ws="none",  # which would not be an HTTP request, and pass the guard
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    async with manager.run():
        await Quiet(config).serve(sockets=[listening])
