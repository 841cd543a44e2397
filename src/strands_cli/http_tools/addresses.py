"""Which addresses may be reached.

The judgement is about addresses, never about the text of a URL: a name may stand for any address, and an
address has many spellings. The transport asks here with the very address that it is about to connect to.
"""

import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from unicodedata import normalize
from urllib.parse import unquote

import msgspec

from strands_cli.http_tools.http_failures import request_failed

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
_WITH_PORT = re.compile(r"\[(?P<bracketed>.+)\](?::(?P<port>\d+))?|(?P<plain>[^:]+):(?P<plain_port>\d+)")


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
        return address in self.network if self.network else plain_name(host) == self.name


def parse_allowed(entries: Iterable[str]) -> tuple[Allowed, ...]:
    return tuple(_parse_entry(entry) for entry in entries)


def allowed_host(host: str, port: int) -> Allowed:
    """Permits one host, at whatever address it is, and one port of it."""
    address = literal_address(host)
    return Allowed(plain_name(host), ip_network(address) if address else None, port)


def _parse_entry(entry: str) -> Allowed:
    match = _WITH_PORT.fullmatch(entry.strip())
    target, port = entry.strip(), None
    if match:
        target = match["bracketed"] or match["plain"]
        port = match["port"] or match["plain_port"]
    network = _network(target)
    if network is None and not _HOST_NAME.fullmatch(plain_name(target)):
        raise request_failed(
            f"the entry {entry!r} of [http] allow in strands.toml is not a host, address or network",
            hint='Write entries such as "host.example", "127.0.0.1:8080", "[::1]:8080" or "10.0.0.0/8".',
        )
    return Allowed(plain_name(target), network, int(port) if port else None)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(literal_address(text) or text, strict=False)
    except ValueError:
        return None


def plain_name(host: str) -> str:
    return host.lower().removesuffix(".")


def known_addresses(host: str) -> list[Address]:
    """The addresses that a host means without asking anybody. `localhost` is never a question (RFC 6761)."""
    if f".{plain_name(host)}".endswith(".localhost"):
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    literal = literal_address(host)
    return [literal] if literal else []


def literal_address(host: str) -> Address | None:
    """The address that a host spells, in any of the ways that some resolver or library would accept."""
    text = normalize("NFKC", unquote(host)).replace("。", ".").strip("[]").removesuffix(".").lower()
    try:
        return canonical(text)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(text)) if _NUMBERS.fullmatch(text) else None
    except OSError:
        return None


def canonical(text: str) -> Address:
    """An address as it is connected to: the system takes an IPv4-mapped one as the IPv4 address itself."""
    address = ip_address(text)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def special_kind(address: Address) -> str:
    """What an address is that is not public, or nothing."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return special_kind(IPv4Address(int(address) & 0xFFFFFFFF))
    for network, kind in _SPECIAL:
        if address in network:
            return kind
    return "reserved" if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST else ""


def permitted(host: str, port: int, addresses: list[Address], allowed: tuple[Allowed, ...]) -> list[Address]:
    """Those of a host's addresses that may be connected to; ToolFailed (`forbidden`) where there are none.

    A name with public and other addresses stays reachable at its public ones: nothing is connected to that
    was not judged here, so the others do no harm.
    """
    fine = [
        address
        for address in addresses
        if not special_kind(address) or any(entry.covers(host, port, address) for entry in allowed)
    ]
    if fine:
        return fine
    first = addresses[0]
    meaning = f"{first} is" if str(first) == host else f"{host} stands for {first}, which is"
    raise request_failed(
        f"{meaning} not a public address ({special_kind(first)})",
        code="forbidden",
        hint=f'Use a public address, or permit this one: [http] allow = ["{first}"] in strands.toml.',
    )
