"""The way out: names are resolved here, each address is judged, and the connection goes to that very address.

The judgement is about addresses, never about the text of a URL: a name may stand for any address, and an
address has many spellings. Since nobody resolves a second time, a name that changes its address in between
(DNS rebinding) gains nothing. TLS still checks the certificate against the name in the URL.
"""

import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import unquote

import httpcore
import httpx
import msgspec

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.execution import call_in_pool
from strands_cli.types.settings_file import UrlLimits, read_url_limits

# --- what can go wrong, in the words that the caller reads ------------------------------------------------
#
# No text here shows a header's value or the user and password of a URL: results are shown and logged.

EXPECTED = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpx.HTTPError,
    httpx.InvalidURL,
    OSError,
)
"""All that the libraries below raise when the other side, or the way to it, is at fault."""

GO_DIRECTLY = "Request the final address itself."


class HostUnknown(ToolFailed):
    """A host name that does not exist: asking again at once gives the same answer."""


def request_failed(reason: str, *, code: str = "failed", hint: str = "") -> ToolFailed:
    return ToolFailed(f"HTTP request failed: {reason}", code=code, hint=hint)


def explain_http_error(error: Exception) -> ToolFailed:
    """The failure that an EXPECTED exception stands for."""
    tls = next((cause for cause in _exception_chain(error) if isinstance(cause, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return request_failed(
            f"the server's certificate is not trusted: {tls.verify_message}",
            hint="Check the host name; SSL_CERT_FILE names a file with more trusted authorities.",
        )
    if tls is not None:
        reason = (tls.reason or type(tls).__name__).replace("_", " ").lower()
        return request_failed(
            f"the TLS connection failed: {reason}",
            code="network",
            hint="Check that the port speaks https, or use http://.",
        )
    if isinstance(error, httpx.RemoteProtocolError | httpx.InvalidURL):  # from building the next request only
        return request_failed("the server redirects to an invalid URL", hint=GO_DIRECTLY)
    if isinstance(error, httpcore.LocalProtocolError):  # its text quotes what was to be sent
        return request_failed("the request is not valid HTTP", hint="Check the method and the headers.")
    if isinstance(error, httpcore.RemoteProtocolError):
        return request_failed(
            f"the answer is not complete, valid HTTP: {shorten_text(str(error), 200)}",
            code="network",
            hint="Try again, or check that the port speaks HTTP.",
        )
    return request_failed(
        f"the connection was lost: {_system_reason(error)}", code="network", hint="Try again."
    )


def _system_reason(error: Exception) -> str:
    """The operating system's words, which lie below several layers of exceptions."""
    numbers = [cause.errno for cause in _exception_chain(error) if isinstance(cause, OSError) and cause.errno]
    if numbers:
        return os.strerror(numbers[-1])
    return "it took too long" if isinstance(error, httpcore.TimeoutException) else type(error).__name__


def _exception_chain(error: BaseException | None) -> list[BaseException]:
    """The exception and those below it, the deepest last."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return found


# --- which addresses may be reached -----------------------------------------------------------------------

Address = IPv4Address | IPv6Address

# The IANA registries of special-purpose addresses, and the addresses of cloud metadata services; the first
# row that fits gives the word. Our own table, since `ipaddress.is_global` differs between versions of Python.
# A tunnel's address carries an IPv4 address of anybody's choice.
_SPECIAL = tuple(
    (ip_network(network), kind)
    for kind, networks in (
        ("cloud metadata", ("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254")),
        ("loopback", ("127.0.0.0/8", "::1")),
        ("unspecified", ("0.0.0.0/8", "::")),
        ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
        ("link-local", ("169.254.0.0/16", "fe80::/10")),
        ("shared (carrier-grade NAT)", ("100.64.0.0/10",)),
        ("multicast", ("224.0.0.0/4", "ff00::/8")),
        ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")),
        ("documentation", ("2001:db8::/32", "3fff::/20")),
        ("benchmarking", ("198.18.0.0/15",)),
        ("tunnel", ("192.88.99.0/24", "2001::/32", "2002::/16")),
        ("reserved", ("192.0.0.0/24", "240.0.0.0/4", "2001::/23")),
    )
    for network in networks
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

_NUMBERS = re.compile(r"[0-9a-fx.]+")
_HOST_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*")
_WITH_PORT = re.compile(r"(?:\[(?P<bracketed>.+)\]|(?P<plain>[^:]+))(?::(?P<port>\d+))?")


class Allowed(msgspec.Struct, frozen=True):
    """One entry of `[http] allow`: a network (an address is a network of one), or a host name.

    A name opens every address that it stands for: whoever enters it trusts those who rule over it.
    """

    name: str
    network: IPv4Network | IPv6Network | None
    port: int | None

    def covers(self, host: str, port: int, address: Address) -> bool:
        if self.port not in (None, port):
            return False
        return address in self.network if self.network else plain_host_name(host) == self.name


def parse_allowed(entries: Iterable[str]) -> tuple[Allowed, ...]:
    return tuple(_parse_allowed_entry(entry.strip()) for entry in entries)


def allowed_host(host: str, port: int) -> Allowed:
    """Permits one host, at whatever address it is, and one port of it."""
    address = literal_address(host)
    return Allowed(plain_host_name(host), ip_network(address) if address else None, port)


def _parse_allowed_entry(entry: str) -> Allowed:
    match = _WITH_PORT.fullmatch(entry)
    target = (match["bracketed"] or match["plain"]) if match else entry
    port = match["port"] if match else None
    network = None
    with suppress(ValueError):
        network = ip_network(literal_address(target) or target, strict=False)
    if network is None and not _HOST_NAME.fullmatch(plain_host_name(target)):
        raise request_failed(
            f"the entry {entry!r} of [http] allow in strands.toml is not a host, address or network",
            hint='Write entries such as "host.example", "127.0.0.1:8080", "[::1]:8080" or "10.0.0.0/8".',
        )
    return Allowed(plain_host_name(target), network, int(port) if port else None)


def plain_host_name(host: str) -> str:
    return host.lower().removesuffix(".")


def known_addresses(host: str) -> list[Address]:
    """The addresses that a host means without asking anybody. `localhost` is never a question (RFC 6761)."""
    if f".{plain_host_name(host)}".endswith(".localhost"):
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    literal = literal_address(host)
    return [literal] if literal else []


def literal_address(host: str) -> Address | None:
    """The address that a host spells, in any of the ways that some resolver or library would accept."""
    text = normalize("NFKC", unquote(host)).replace("。", ".").strip("[]").removesuffix(".").lower()
    with suppress(ValueError):
        return canonical_address(text)
    with suppress(OSError):
        return IPv4Address(socket.inet_aton(text)) if _NUMBERS.fullmatch(text) else None
    return None


def canonical_address(text: str) -> Address:
    """An address as it is connected to: the system takes an IPv4-mapped one as the IPv4 address itself."""
    address = ip_address(text)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def special_address_kind(address: Address) -> str:
    """What an address is that is not public, or nothing."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return special_address_kind(IPv4Address(int(address) & 0xFFFFFFFF))
    for network, kind in _SPECIAL:
        if address in network:
            return kind
    return "reserved" if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST else ""


def permitted_addresses(
    host: str, port: int, addresses: list[Address], allowed: tuple[Allowed, ...]
) -> list[Address]:
    """The addresses of a host that may be connected to; ToolFailed (`forbidden`) if no address may.

    A name with public and other addresses stays reachable at its public ones: nothing is connected to that
    was not judged here, so the others do no harm.
    """
    fine = [
        address
        for address in addresses
        if not special_address_kind(address) or any(entry.covers(host, port, address) for entry in allowed)
    ]
    if fine:
        return fine
    first = addresses[0]
    meaning = f"{first} is" if str(first) == host else f"{host} stands for {first}, which is"
    raise request_failed(
        f"{meaning} not a public address ({special_address_kind(first)})",
        code="forbidden",
        hint=f'Use a public address, or permit this one: [http] allow = ["{first}"] in strands.toml.',
    )


# --- from a name to a connection --------------------------------------------------------------------------

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""From a host name and a port to addresses."""

_LOOKUP_THREADS = 16
_MAX_ADDRESSES = 8
_PATIENCE_SECONDS = 5.0
"""How long one of several addresses is waited for before the next is tried."""


async def look_up_addresses(host: str, port: int) -> list[str]:
    """The system's answer. In a daemon thread: a resolver that hangs holds up neither deadline nor exit."""

    def ask() -> tuple[list[str], bool]:
        """The addresses, and whether asking again may give others."""
        try:  # bytes, since for a string Python would apply its own, older rules for international names
            found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return [], isinstance(error, OSError) and error.errno == socket.EAI_AGAIN
        return list(dict.fromkeys(str(entry[4][0]) for entry in found)), True

    addresses: list[str]
    addresses, may_pass = await call_in_pool(ask, threads=_LOOKUP_THREADS, owner=f"the look-up of {host}")
    if not addresses:
        failed = request_failed(
            f"the host {host} could not be found",
            code="network",
            hint="Check its spelling and the network connection.",
        )
        raise failed if may_pass else HostUnknown(failed.message, code=failed.code, hint=failed.hint)
    return addresses


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
        found = known_addresses(host) or [canonical_address(text) for text in await self._resolve(host, port)]
        addresses = permitted_addresses(host, port, found, self._allowed)
        connect = partial(
            self._network.connect_tcp, port=port, local_address=local_address, socket_options=socket_options
        )
        *others, last = addresses[:_MAX_ADDRESSES]
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await connect(str(address), timeout=_PATIENCE_SECONDS)
        try:
            return await connect(str(last), timeout=timeout)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise request_failed(
                f"could not connect to {host}:{port}: {_system_reason(error)}",
                code="network",
                hint="Check the host and the port, and that the server is running.",
            ) from error


def check_url_limits(url: httpx.URL, limits: UrlLimits) -> None:
    """ToolFailed (`forbidden`) where the user's limits refuse a URL, however it is spelled."""
    host = plain_host_name(url.raw_host.decode("ascii"))
    hosts = {host, plain_host_name(url.host), str(literal_address(host) or host)}
    hosts |= {f"{url.scheme}://{name}{end}" for name in hosts for end in ("", "/")}
    plain = f"{url.scheme}://{host}{url.raw_path.decode('ascii')}"
    if problem := limits.problem(hosts, {str(url), plain, unquote(plain)}):
        hint = "Request another address. Only the user can change these limits."
        raise request_failed(f"{host} may not be reached: {problem}", code="forbidden", hint=hint)


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class GuardedTransport(httpx.AsyncBaseTransport):
    """Refuses addresses that are not permitted, and URLs that the limits of the environment exclude."""

    def __init__(self, allowed: tuple[Allowed, ...], resolve: Resolve = look_up_addresses) -> None:
        self._limits = read_url_limits()
        self._pool = httpcore.AsyncConnectionPool(network_backend=GuardedBackend(allowed, resolve))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        check_url_limits(request.url, self._limits)
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
            answer.status,
            headers=answer.headers,
            stream=_ResponseStream(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
