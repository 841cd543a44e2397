"""The way out: names are resolved here, each address is judged, and the connection goes to that very address.

Since nobody resolves a second time, a name that changes its address in between (DNS rebinding) gains nothing.
TLS still checks the certificate against the name in the URL.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import httpcore  # noqa: TID253 - only the bodies of tools import this module
import httpx  # noqa: TID253 - likewise

from strands_cli.http_tools.addresses import Address, Allowed, canonical, known_addresses, permitted
from strands_cli.http_tools.http_failures import not_connected, request_failed
from strands_cli.toolkit.execution import Job, daemon_pool

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a host name and a port to addresses."""

_LOOKUP_THREADS = 16
_MOST_ADDRESSES = 8
_PATIENCE_SECONDS = 5.0
"""How long one of several addresses is waited for before the next is tried."""


async def look_up(host: str, port: int) -> list[str]:
    """The system's answer. In a daemon thread: a resolver that hangs holds up neither deadline nor exit."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str] | None] = loop.create_future()

    def deliver(addresses: list[str] | None) -> None:
        try:
            loop.call_soon_threadsafe(_settle, answer, addresses)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    job = Job(lambda: _system_addresses(host, port), deliver)
    pool = daemon_pool(_LOOKUP_THREADS)
    pool.submit(job)
    try:
        addresses = await answer
    finally:
        pool.abandon(job)
    if not addresses:
        raise request_failed(
            f"the host {host} could not be found",
            code="network",
            hint="Check its spelling and the network connection.",
        )
    return addresses


def _settle(answer: "asyncio.Future[list[str] | None]", addresses: list[str] | None) -> None:
    if not answer.done():
        answer.set_result(addresses)


def _system_addresses(host: str, port: int) -> list[str] | None:
    try:  # bytes, since for a string Python would apply its own, older rules for international names
        found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """TCP to permitted addresses. Unix sockets are not implemented, so there is no way to one."""

    def __init__(self, allowed: tuple[Allowed, ...], resolve: Resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = permitted(host, port, await self._addresses(host, port), self._allowed)
        connect = partial(
            self._network.connect_tcp, port=port, local_address=local_address, socket_options=socket_options
        )
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await connect(str(address), timeout=_PATIENCE_SECONDS)
        try:
            return await connect(str(last), timeout=timeout)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise not_connected(host, port, error) from error

    async def _addresses(self, host: str, port: int) -> list[Address]:
        return known_addresses(host) or [canonical(text) for text in await self._resolve(host, port)]


class _Incoming(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class GuardedTransport(httpx.AsyncBaseTransport):
    def __init__(self, allowed: tuple[Allowed, ...], resolve: Resolve = look_up) -> None:
        self._pool = httpcore.AsyncConnectionPool(network_backend=GuardedBackend(allowed, resolve))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        content = await request.aread()
        answer = await self._pool.handle_async_request(
            httpcore.Request(request.method, url, headers=request.headers.raw, content=content)
        )
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Incoming(answer), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
