"""A server that runs elsewhere: streamable HTTP, with headers that go to its own origin alone."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from strands_cli.mcp.server_process import expanded, variables_in
from strands_cli.mcp.sign_in import OpenPage, SignIn, TokenFile, oauth_of
from strands_cli.secrets import Redactor, looks_secret
from strands_cli.types.servers import DeclaredServer

LARGEST_RESPONSE = 64 * 1024 * 1024
_CONNECT_SECONDS = 30.0
_SILENCE_SECONDS = 600.0


class _BoundedStream(httpx2.AsyncByteStream):
    """A response that ends with an error when it becomes too large. An event stream counts by its pieces."""

    def __init__(self, stream: httpx2.AsyncByteStream, is_events: bool) -> None:
        self._stream, self._is_events = stream, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for part in self._stream:
            total += len(part)
            if total > LARGEST_RESPONSE:
                raise httpx2.ReadError("the response is too large")
            if self._is_events and part.endswith((b"\n\n", b"\r\n\r\n")):
                total = 0
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class Address(msgspec.Struct):
    """What is known of a server that is reached."""

    redactor: Redactor
    is_forgotten: bool = False
    """Whether it no longer knows the session: it did nothing then, and wants a new one."""


class _Transport(httpx2.AsyncHTTPTransport):
    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        packed = response.headers.get("content-encoding", "identity")
        if packed != "identity":  # a little of it could unpack to anything
            await response.aclose()
            raise httpx2.ReadError(f"the response is packed ({packed}), which was not asked for")
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            self._address.is_forgotten = True
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _BoundedStream(response.stream, is_events)
        return response


@asynccontextmanager
async def reached_server(
    declared: DeclaredServer, open_page: OpenPage | None
) -> AsyncIterator[tuple[tuple[Any, Any], Address]]:
    """The streams of a server at an address. With `open_page`, the user can sign in."""
    server, scope = declared.server, os.environ
    headers = {name: expanded(text, scope, name=declared.name) for name, text in server.headers.items()}
    home = httpx2.URL(server.url)

    async def on_request(request: httpx2.Request) -> None:
        """Redirects and authorization servers do not get the headers that are for the server."""
        is_home = (request.url.scheme, request.url.host, request.url.port) == (
            home.scheme,
            home.host,
            home.port,
        )
        for name, value in headers.items():
            if is_home:
                request.headers[name] = value
            elif name in request.headers:
                del request.headers[name]

    secrets = [value for text in server.headers.values() for value in variables_in(text, scope).values()]
    for words in (text.split() for name, text in headers.items() if looks_secret(name)):
        secrets += words[1:] or words  # the first of several is the scheme, such as "Bearer"
    address = Address(Redactor(secrets))
    sign_in = SignIn(declared, open_page)
    signs = not any(name.lower() == "authorization" for name in headers)
    if signs:
        await sign_in.listen(await TokenFile(declared).get_client_info())
    try:
        async with (
            httpx2.AsyncClient(
                transport=_Transport(address),
                auth=oauth_of(declared, sign_in) if signs else None,
                timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_SILENCE_SECONDS),
                follow_redirects=True,
                event_hooks={"request": [on_request]},
            ) as client,
            streamable_http_client(server.url, http_client=client) as streams,
        ):
            yield streams, address
    finally:
        sign_in.close()
