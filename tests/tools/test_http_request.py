"""`http_request` against real servers on loopback, which `[http] allow` opens where a test needs it."""

import asyncio
import gzip
import json
import socket
import struct
import time
import tracemalloc
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.errors import ToolFailed
from strands_cli.http_tools.transport import (
    EXPECTED,
    GuardedTransport,
    explain_http_error,
    literal_address,
    look_up_addresses,
    parse_allowed,
    special_address_kind,
)
from strands_cli.settings import Settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext, ToolContext
from strands_cli.toolkit.results import error_of
from strands_cli.tools.http_request import TOOL_SPEC, http_request
from strands_cli.types.settings_file import HttpSettings
from tests.sites import Answer, Request, Site, answer, endlessly, failing, serving

LOOPBACK = ("127.0.0.1",)
ENDLESS = 10**12


# --- Servers and calls ------------------------------------------------------------------------------------


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Site]:
    with serving() as running:
        yield running


class Canary:
    """Listens on loopback, over IPv4 and where there is IPv6 over that, and knows whether somebody came."""

    def __init__(self) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        with suppress(OSError):
            self.sockets.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for listener in self.sockets:
            listener.setblocking(False)

    def was_reached(self) -> bool:
        for listener in self.sockets:
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                return True
        return False


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    for listener in made.sockets:
        listener.close()


def call(url: str, *, allow: tuple[str, ...] = LOOPBACK, max_bytes: int = 10_000, **arguments: Any) -> Any:
    """What the tool answers, as `strands tool call` would get it."""
    here = Path.cwd()
    http = HttpSettings(allow=allow, max_bytes=max_bytes)
    context = CallContext(settings=Settings(project=here, workspace=(here,), http=http))
    use: Any = {"toolUseId": "1", "input": {"url": url, **arguments}}
    return asyncio.run(call_tool(http_request, use, context))


def past_the_schema(url: str) -> object:
    """What the body answers to a URL that the schema might have refused."""
    here = Path.cwd()
    context = CallContext(settings=Settings(project=here, workspace=(here,), http=HttpSettings()))
    return asyncio.run(http_request(url, context=ToolContext(http_request, {}, context), timeout_ms=5000))


def fetch(url: str, **arguments: Any) -> dict[str, Any]:
    result = call(url, **arguments)
    assert result["status"] == "success", result
    answered: dict[str, Any] = result["content"][0]["json"]
    return answered


def failure(url: str, **arguments: Any) -> dict[str, Any]:
    error = error_of(call(url, **arguments))
    assert error is not None
    if error["code"] != "input_invalid":
        assert error["message"].startswith("HTTP request failed: ")
        assert error["hint"]
    return error


# --- What is sent, and what comes back --------------------------------------------------------------------


def test_the_answer_has_status_headers_and_body(site: Site) -> None:
    site.answers["/"] = answer(body="héllo", Content_Type="text/plain; charset=utf-8", X_Mark="a")
    answered = fetch(site.url)
    assert answered["status_code"] == 200
    assert answered["headers"]["x-mark"] == "a"
    assert answered["body"] == "héllo"
    assert answered.keys() == {"status_code", "headers", "body"}


@pytest.mark.parametrize("status", [201, 204, 304, 404, 500])
def test_any_status_is_a_success_of_the_tool(site: Site, status: int) -> None:
    site.answers["/"] = answer(status)
    assert fetch(site.url)["status_code"] == status


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "patch", "Get"])
def test_every_method_is_sent_in_whatever_case_it_is_written(site: Site, method: str) -> None:
    answered = fetch(site.url, method=method)
    assert site.seen[0].method == method.upper()
    assert answered["body"] == ("" if method == "HEAD" else "hello")


def test_json_data_is_sent_as_json(site: Site) -> None:
    fetch(site.url, method="POST", json_data={"name": "Ada", "half": "\ud800"})
    assert site.seen[0].headers["content-type"] == "application/json"
    assert json.loads(site.seen[0].body) == {"name": "Ada", "half": "\ud800"}


def test_a_text_body_is_sent_as_it_is_and_the_callers_content_type_stays(site: Site) -> None:
    fetch(site.url, method="PUT", body="<a>é</a>", headers={"content-type": "application/xml"})
    assert site.seen[0].body == "<a>é</a>".encode()
    assert site.seen[0].headers["content-type"] == "application/xml"


def test_two_bodies_are_refused(site: Site) -> None:
    assert "both json_data and body" in failure(site.url, method="POST", json_data={}, body="")["message"]


def test_headers_are_sent_and_the_url_carries_basic_credentials(site: Site) -> None:
    url = site.url.replace("//", "//ada:pa%40ss@")
    fetch(url, headers={"X-One": " 1 ", "User-Agent": "mine"})
    seen = site.seen[0].headers
    assert (seen["x-one"], seen["user-agent"]) == ("1", "mine")
    assert b64decode(seen["authorization"].removeprefix("Basic ")) == b"ada:pa@ss"


def test_a_proxy_of_the_environment_is_not_used(
    site: Site, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    assert fetch(site.url)["body"] == "hello"
    assert not canary.was_reached()


def test_the_tool_is_called_directly_with_a_tool_use_as_in_the_sdk() -> None:
    result = http_request({"toolUseId": "7", "input": {"url": "http://127.0.0.1/"}})
    assert (result["toolUseId"], result["status"]) == ("7", "error")
    assert TOOL_SPEC["name"] == http_request.id == "http_request"


# --- Bodies -----------------------------------------------------------------------------------------------

BODIES = [
    ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
    ("text/plain; charset=utf-16", "né".encode("utf-16"), "né"),
    ("text/html", b"caf\xe9", "caf\ufffd"),
    ("text/plain; charset=no-such-thing", "é".encode(), "é"),
    ("text/plain; charset=zlib", b"plain", "plain"),
    ("text/plain; charset=idna", b"plain", "plain"),
    ("text/plain; charset=unicode_escape", rb"\d", r"\d"),
    ("application/ld+json", b'{"a": "\xff"}', '{"a": "\ufffd"}'),
    ("application/octet-stream", b"only text", "only text"),
    ("", "schön".encode(), "schön"),
]


@pytest.mark.parametrize(("content_type", "data", "text"), BODIES)
def test_text_is_decoded_by_its_charset_or_as_utf_8(
    site: Site, content_type: str, data: bytes, text: str
) -> None:
    site.answers["/"] = answer(body=data, Content_Type=content_type)
    answered = fetch(site.url)
    assert answered["body"] == text
    assert "body_base64" not in answered


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\xff", b"nul\0nul"])
def test_a_body_that_is_not_text_comes_in_base64(site: Site, data: bytes) -> None:
    site.answers["/"] = answer(body=data, Content_Type="image/png")
    answered = fetch(site.url)
    assert answered["body"] == ""
    assert b64decode(answered["body_base64"]) == data


def test_a_body_over_the_limit_is_cut_and_its_stream_closed(site: Site) -> None:
    site.answers["/"] = endlessly(answer(length=ENDLESS), b"a" * 1000)
    answered = fetch(site.url, max_bytes=1500)
    assert answered["body"] == "a" * 1500
    assert answered["truncated"] is True
    assert site.broken_off.wait(5)


def test_a_cut_within_a_character_leaves_text(site: Site) -> None:
    site.answers["/"] = answer(body="éé")
    assert fetch(site.url, max_bytes=3)["body"] == "é"


def test_a_body_of_just_the_limit_is_whole(site: Site) -> None:
    assert fetch(site.url, max_bytes=5) == fetch(site.url)


def gzipped(site: Site, data: bytes, encoding: str = "gzip") -> str:
    site.answers["/"] = answer(body=data, Content_Encoding=encoding)
    return site.url


def test_gzip_is_asked_for_and_unpacked_all_members_of_it(site: Site) -> None:
    url = gzipped(site, gzip.compress(b"one ", mtime=0) + gzip.compress(b"two", mtime=0))
    assert fetch(url)["body"] == "one two"
    assert site.seen[0].headers["accept-encoding"] == "gzip"


def test_a_gzip_bomb_is_cut_while_it_is_unpacked(site: Site) -> None:
    url = gzipped(site, gzip.compress(b"a" * 50_000_000, mtime=0))
    tracemalloc.start()
    answered = fetch(url, max_bytes=20_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(answered["body"]), answered["truncated"]) == (20_000, True)
    assert peak < 5_000_000


def test_encodings_within_encodings_are_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(gzip.compress(bytes(1_000_000)))
    answered = fetch(gzipped(site, bomb, "gzip, gzip"))
    assert b64decode(answered["body_base64"]) == bomb


def test_what_follows_the_gzip_data_is_not_read(site: Site) -> None:
    start = answer(body=gzip.compress(b"all", mtime=0), length=ENDLESS, Content_Encoding="gzip")
    site.answers["/"] = endlessly(start, b"garbage")
    assert fetch(site.url, timeout_ms=5000)["body"] == "all"


@pytest.mark.parametrize("data", [b"no gzip at all", gzip.compress(b"cut" * 100, mtime=0)[:-12]])
def test_broken_gzip_data_is_told(site: Site, data: bytes) -> None:
    assert "body" in failure(gzipped(site, data))["message"]


# --- Addresses --------------------------------------------------------------------------------------------

# Every one of them means this machine, and a canary listens there.
SPELLINGS_OF_LOOPBACK = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7F.0x0.0x0.0x1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.01",
    "127.000.000.001",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "any.localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.0.0.1",
    "example.com@127.0.0.1",
    "example.com:80@[::1]",
]
# These mean other machines, or this one by way of a tunnel.
OTHER_ADDRESSES = [
    "127.255.255.254",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[::ffff:0:127.0.0.1]",
    "10.0.0.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.1.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "[fc00::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "192.0.0.192",
    "[2001:db8::1]",
    "[3fff::1]",
    "0.1.2.3",
]


@pytest.mark.parametrize("host", SPELLINGS_OF_LOOPBACK + OTHER_ADDRESSES)
def test_an_address_that_is_not_public_is_forbidden_however_it_is_spelled(host: str, canary: Canary) -> None:
    url = f"http://{host}:{canary.port}/"
    with pytest.raises(ToolFailed) as refused:
        past_the_schema(url)
    assert refused.value.code == "forbidden"
    assert "not a public address" in refused.value.message
    assert '[http] allow = ["' in refused.value.hint
    assert failure(url, allow=())["code"] in ("forbidden", "input_invalid")
    assert not canary.was_reached()


@given(
    number=st.integers(0, 2**32 - 1),
    parts=st.integers(1, 4),
    styles=st.lists(st.sampled_from("dxXo"), min_size=4),
)
def test_every_number_form_of_an_address_is_understood(number: int, parts: int, styles: list[str]) -> None:
    octets = list(number.to_bytes(4, "big"))
    numbers = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]), "big")]
    written = {"d": "{}", "x": "0x{:x}", "X": "0X{:08X}", "o": "0{:o}"}
    host = ".".join(written[style].format(value) for style, value in zip(styles, numbers, strict=False))
    assert literal_address(host) == ip_address(number)


@given(st.text())
def test_no_text_breaks_the_reading_of_addresses(host: str) -> None:
    assert literal_address(host) is None or host


PUBLIC = [
    "1.1.1.1",
    "100.63.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700::1111",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not_special(address: str) -> None:
    assert special_address_kind(ip_address(address)) == ""


@pytest.mark.parametrize(
    "host", ["example.com", "cafe.fed", "256.256.256.256", "1.2.3.4.5", "127.0.0.1.example", ""]
)
def test_a_name_is_no_address(host: str) -> None:
    assert literal_address(host) is None


@pytest.mark.parametrize(
    ("entry", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "2130706433"),
        ("127.0.0.1", "[::ffff:127.0.0.1]"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.0/8", "127.0.0.1"),
        ("127.0.0.1/8", "127.1"),
        ("127.0.0.1:{port}", "127.0.0.1"),
        ("127.0.0.0/8:{port}", "127.0.0.1"),
        ("localhost", "localhost"),
        ("LocalHost.:{port}", "localhost"),
        ("[127.0.0.1]:{port}", "127.0.0.1"),
    ],
)
def test_an_entry_of_allow_opens_the_way(site: Site, entry: str, host: str) -> None:
    allow = ("10.0.0.0/8", "::1", entry.format(port=site.port))
    assert fetch(f"http://{host}:{site.port}/", allow=allow)["body"] == "hello"


@pytest.mark.parametrize(
    "entry", ["127.0.0.1:1", "localhost:1", "[::1]", "10.0.0.0/8", "example.com", "localhost.example"]
)
def test_an_entry_of_allow_opens_no_other_way(canary: Canary, entry: str) -> None:
    for host in ("127.0.0.1", "127.0.0.1.", "example.com@127.0.0.1"):
        assert failure(f"http://{host}:{canary.port}/", allow=(entry,))["code"] == "forbidden"
    assert not canary.was_reached()


@pytest.mark.parametrize("entry", ["http://host", "10.0.0.0/33", "*.example", "", "a b"])
def test_an_entry_of_allow_that_means_nothing_is_told(entry: str) -> None:
    error = failure("http://example.com/", allow=(entry,))
    assert repr(entry) in error["message"]
    assert "10.0.0.0/8" in error["hint"]


@pytest.mark.parametrize("entry", ["::1", "[::1]:80", "[::1]", "fd00::/8", "[fd00::/8]:8080"])
def test_ipv6_entries_are_understood(entry: str) -> None:
    assert parse_allowed([entry])[0].network is not None


# --- Names ------------------------------------------------------------------------------------------------


class Names:
    """A resolver whose answers a test sets, one after the other; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def get(url: str, names: Names, *allow: str) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = GuardedTransport(parse_allowed(allow), names)
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            return await client.get(url)

    return asyncio.run(send())


def test_the_address_that_was_judged_is_the_one_connected_to(site: Site) -> None:
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    assert get(f"http://rebound.example:{site.port}/", names, "127.0.0.1").text == "hello"
    assert names.asked == 1
    assert site.seen[0].headers["host"] == f"rebound.example:{site.port}"


def test_a_name_that_has_moved_to_a_forbidden_address_is_refused(site: Site) -> None:
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    url = f"http://rebound.example:{site.port}/"
    get(url, names, "127.0.0.1")
    with pytest.raises(ToolFailed) as refused:
        get(url, names, "127.0.0.1")
    assert refused.value.code == "forbidden"


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["::1", "127.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%lo"]]
)
def test_a_name_with_no_permitted_address_is_refused(canary: Canary, addresses: list[str]) -> None:
    with pytest.raises(ToolFailed) as refused:
        get(f"http://inside.example:{canary.port}/", Names(addresses))
    assert refused.value.code == "forbidden"
    assert not canary.was_reached()


def test_of_several_addresses_only_permitted_ones_are_used(site: Site) -> None:
    names = Names(["10.0.0.1", "169.254.169.254", "127.0.0.1"])
    assert get(f"http://mixed.example:{site.port}/", names, "127.0.0.1").text == "hello"


def test_the_next_address_is_tried_where_one_does_not_answer(site: Site) -> None:
    names = Names(["127.0.0.9", "127.0.0.1"])
    assert get(f"http://two.example:{site.port}/", names, "127.0.0.0/8").text == "hello"


def test_a_name_that_nobody_knows_is_told_by_name() -> None:
    error = failure("http://no-such-host.invalid/")
    assert (error["code"], error["retryable"]) == ("network", True)
    assert "no-such-host.invalid" in error["message"]


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".invalid", "-.invalid"])
def test_a_name_that_cannot_be_looked_up_is_told(host: str) -> None:
    assert failure(f"http://{host}/")["code"] == "network"


@pytest.mark.parametrize(("problem", "attempts"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, 3)])
def test_only_a_look_up_that_failed_for_now_is_repeated(
    monkeypatch: pytest.MonkeyPatch, problem: int, attempts: int
) -> None:
    asked: list[object] = []

    def resolve(host: object, *_: object, **__: object) -> object:
        asked.append(host)
        raise socket.gaierror(problem, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)  # what a resolver answers depends on the machine
    assert failure("http://no-such-host.invalid/")["code"] == "network"
    assert len(asked) == attempts


def test_the_system_resolves_names() -> None:
    assert "127.0.0.1" in asyncio.run(look_up_addresses("localhost", 80))


# --- Redirects --------------------------------------------------------------------------------------------


def redirect(location: str, status: int = 302) -> Answer:
    return answer(status, "moved", Location=location)


def test_redirects_are_followed_and_the_final_url_is_told(site: Site) -> None:
    site.answers["/"] = redirect("/a")
    site.answers["/a"] = redirect(f"//127.0.0.1:{site.port}/b#part", 308)
    answered = fetch(site.url.replace("//", "//ada:secret@") + "/")
    assert answered["body"] == "hello"
    assert answered["url"] == f"{site.url}/b#part"
    assert all("authorization" in request.headers for request in site.seen)


def test_a_redirect_is_judged_like_a_request(site: Site, canary: Canary) -> None:
    allow = (f"127.0.0.1:{site.port}",)
    for host in ("127.0.0.1", "localhost", "2130706433", "[::1]", "169.254.169.254"):
        site.answers["/"] = redirect(f"http://{host}:{canary.port}/")
        assert failure(site.url, allow=allow)["code"] == "forbidden"
    assert not canary.was_reached()


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:1/x"])
def test_a_redirect_to_another_scheme_is_forbidden(site: Site, location: str) -> None:
    site.answers["/"] = redirect(location)
    error = failure(site.url)
    assert error["code"] == "forbidden"
    assert location.partition(":")[0] in error["message"]


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:port/", "http://[::1", "javascript:alert(1)", "http://0177.0.0.1/"]
)
def test_a_redirect_to_nonsense_is_told(site: Site, location: str) -> None:
    site.answers["/"] = redirect(location)
    assert failure(site.url)["code"] in ("failed", "forbidden")


def test_ten_redirects_are_followed_and_no_more(site: Site) -> None:
    for number in range(11):
        site.answers[f"/{number}"] = redirect(f"/{number + 1}")
    assert fetch(f"{site.url}/1")["url"] == f"{site.url}/11"
    assert "more than 10 times" in failure(f"{site.url}/0")["message"]


def test_the_body_of_a_redirect_is_not_read(site: Site) -> None:
    site.answers["/"] = endlessly(answer(302, length=ENDLESS, Location="/b"), b"x" * 1000)
    assert fetch(site.url, timeout_ms=5000)["body"] == "hello"


def test_a_post_becomes_a_get_after_303_and_stays_a_post_after_307(site: Site) -> None:
    for status, method, body in ((303, "GET", b""), (307, "POST", b'{"a": 1}')):
        site.answers["/"] = redirect("/b", status)
        fetch(f"{site.url}/", method="POST", json_data={"a": 1})
        assert (site.seen[-1].method, site.seen[-1].body) == (method, body)


CREDENTIALS = {"Authorization": "Bearer t", "Cookie": "own=1", "X-Api-Key": "k", "Private-Token": "p"}


def test_another_origin_gets_none_of_the_callers_credentials(site: Site, other: Site) -> None:
    site.answers["/"] = redirect(f"{other.url}/")
    other.answers["/"] = redirect(f"{site.url}/back")
    fetch(f"{site.url}/", headers={**CREDENTIALS, "Accept-Language": "de"})
    names = {name.lower() for name in CREDENTIALS}
    assert names <= site.seen[0].headers.keys()
    for request in (other.seen[0], site.seen[1]):
        assert not names & request.headers.keys()
        assert request.headers["accept-language"] == "de"


def test_the_same_origin_gets_them_again_and_the_cookies_it_set(site: Site) -> None:
    site.answers["/"] = answer(302, Location="/b", Set_Cookie="set=2")
    fetch(f"{site.url}/", headers=CREDENTIALS)
    assert {**site.seen[1].headers, "cookie": ""} == {**site.seen[0].headers, "cookie": ""}
    assert site.seen[1].headers["cookie"] == "own=1; set=2"


# --- Time limits and broken connections -------------------------------------------------------------------


@pytest.mark.parametrize(
    "slow",
    [
        endlessly(answer(length=ENDLESS), b"a", pause=0.05),
        endlessly(lambda request: request.write(b"HTTP/1.1 200 OK\r\n"), b"X: y\r\n", pause=0.05),
        lambda request: time.sleep(2),
    ],
    ids=["body", "headers", "silence"],
)
def test_a_server_that_drips_is_answered_at_the_time_limit(site: Site, slow: Answer) -> None:
    site.answers["/"] = slow
    started = time.monotonic()
    error = failure(site.url, timeout_ms=300)
    assert (error["code"], error["retryable"]) == ("timeout", True)
    assert "300 ms" in error["message"]
    assert "timeout_ms" in error["hint"]
    assert time.monotonic() - started < 2


def test_the_time_limit_holds_over_all_redirects(site: Site) -> None:
    def late(request: Request) -> None:
        time.sleep(0.15)
        redirect("/")(request)

    site.answers["/"] = late
    assert failure(f"{site.url}/", timeout_ms=400)["code"] == "timeout"


# --- Trying again -----------------------------------------------------------------------------------------


def drop(request: Request) -> None:
    request.connection.close()


@pytest.mark.parametrize("passing", [drop, answer(503, Retry_After="0"), answer(503)])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_dropped_connection_and_a_busy_server_are_tried_again(
    site: Site, passing: Answer, method: str
) -> None:
    site.answers["/"] = failing(1, passing)
    assert fetch(site.url, method=method)["status_code"] == 200
    assert [seen.method for seen in site.seen] == [method, method]


def test_the_body_of_a_request_is_sent_again_with_it(site: Site) -> None:
    site.answers["/"] = failing(1, drop)
    assert fetch(site.url, method="PUT", body="x")["body"] == "at last"
    assert [seen.body for seen in site.seen] == [b"x", b"x"]


def test_a_server_that_stays_busy_is_asked_three_times_and_its_answer_is_the_answer(site: Site) -> None:
    site.answers["/"] = answer(503, body="busy", Retry_After="0")
    assert fetch(site.url)["body"] == "busy"
    assert len(site.seen) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_may_do_something_twice_is_sent_once(site: Site, method: str) -> None:
    site.answers["/"] = failing(1, answer(503, Retry_After="0"))
    assert fetch(site.url, method=method)["status_code"] == 503
    site.answers["/"] = failing(1, drop)
    assert failure(site.url, method=method)["code"] == "network"
    assert len(site.seen) == 2


LATER = formatdate(time.time() + 3600, usegmt=True)


@pytest.mark.parametrize("pause", ["20", "3600", LATER], ids=["seconds", "hour", "date"])
def test_a_pause_that_the_time_limit_does_not_allow_is_not_waited_for(site: Site, pause: str) -> None:
    site.answers["/"] = answer(503, body="busy", Retry_After=pause)
    assert fetch(site.url, timeout_ms=15_000)["body"] == "busy"
    assert len(site.seen) == 1


def test_the_time_limit_holds_over_all_attempts(site: Site) -> None:
    site.answers["/"] = failing(1, answer(503, Retry_After="0"), then=lambda request: time.sleep(5))
    error = failure(site.url, timeout_ms=1000)
    assert error["code"] == "timeout"
    assert "1000 ms" in error["message"]


def test_a_refused_connection_is_told(canary: Canary) -> None:
    for listener in canary.sockets:
        listener.close()
    error = failure(f"http://127.0.0.1:{canary.port}/")
    assert error["code"] == "network"
    assert f"127.0.0.1:{canary.port}" in error["message"]
    assert "refused" in error["message"].lower()


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut",
        b"HTTP/1.1 2\r\n\r\n",
    ],
    ids=["nothing", "another protocol", "cut", "nonsense"],
)
def test_an_answer_that_is_not_http_or_breaks_off_is_told(site: Site, reply: bytes) -> None:
    site.answers["/"] = lambda request: request.write(reply)
    assert failure(site.url)["code"] == "network"


def test_a_connection_that_is_reset_is_told(site: Site) -> None:
    def reset(request: Request) -> None:
        answer(length=100)(request)
        time.sleep(0.1)  # so that the headers have arrived
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()

    site.answers["/"] = reset
    error = failure(site.url)
    assert error["code"] == "network"


def test_an_error_that_quotes_what_was_sent_is_not_passed_on() -> None:
    assert (
        "s3cret"
        not in explain_http_error(httpcore.LocalProtocolError("Illegal header value b's3cret'")).message
    )


def test_every_error_of_the_library_below_is_expected() -> None:
    kinds = [getattr(httpcore, name) for name in httpcore.__all__ if name != "SOCKET_OPTION"]
    errors = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)}
    without_proxies_and_pools = errors - {httpcore.ProxyError, httpcore.ConnectionNotAvailable}
    assert [kind for kind in without_proxies_and_pools if not issubclass(kind, EXPECTED)] == []


# --- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http:///path", "no host"),
        ("http://127.0.0.1:99999/", "port"),
        ("http://127.0.0.1:0/", "port"),
        ("http://ex%61mple.com/", "percent-encoded"),
        ("mailto:ada@example.com", "mailto: addresses"),
        ("file:///etc/passwd", "file: addresses"),
        ("ftp://example.com/", "ftp: addresses"),
        ("gopher://example.com/", "gopher: addresses"),
        ("http://0177.0.0.1/", "the url cannot be used"),
        (f"http://example.com/{'x' * 70_000}", "too long"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_a_sentence(url: str, said: str) -> None:
    error = failure(url)
    assert said in error["message"]


@pytest.mark.parametrize("url", ["", "example.com", "no url", "http://a b/", "http://x:port/", "http://\n/"])
def test_what_is_no_url_does_not_fit_the_schema(url: str) -> None:
    assert failure(url)["code"] == "input_invalid"


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://x:port/", "http://\n/", "http://xn--\u00fc/", "example.com"]
)
def test_the_body_itself_refuses_what_is_no_url(url: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        past_the_schema(url)
    assert refused.value.message.startswith("HTTP request failed: ")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("X-A", "s3cret\r\nX-B: 1", "line break"),
        ("X-A", "s3cret\0", "line break"),
        ("X-A", "s3crét", "line break"),
        ("X-A: s3cret", "1", "'X-A'"),
        ("", "s3cret", "header name"),
        ("Host", "s3cret.example", "the tool sets"),
        ("transfer-encoding", "s3cret", "the tool sets"),
        ("Content-Length", "3", "the tool sets"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(
    site: Site, name: str, value: str, said: str
) -> None:
    error = failure(site.url, headers={name: value})
    assert said in error["message"]
    assert "s3c" not in str(error)
    assert site.seen == []


@pytest.mark.parametrize(
    "rest", ["127.0.0.1:1/", "10.0.0.1/", "127.0.0.1:99999/", "0177.0.0.1/", "no.invalid/"]
)
def test_no_error_shows_the_credentials_of_the_url(rest: str) -> None:
    assert "s3cret" not in str(call(f"http://ada:s3cret@{rest}", headers={"Authorization": "s3cret"}))


def test_an_invalid_port_is_not_quoted_since_it_may_be_a_password() -> None:
    with pytest.raises(ToolFailed) as refused:
        past_the_schema("http://ada:s3c/ret@example.com/")
    assert "s3c" not in refused.value.message
    assert "invalid port" in refused.value.message


# --- TLS --------------------------------------------------------------------------------------------------

# Signed by itself, for localhost, until 2120. The key guards nothing.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgIvwRLpZUrSGF8n13
VMQqb6aALA3DPOWrFeEdCi71BZyhRANCAASVNfQ6ipItYaMfj9NfH6XaN4OXWE9h
ILTmgTPUK3eeSDUC36W4sZ5TCKyntP7eXNtcmsxx6z0lk2HdHVcKj6x5
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBkjCCATigAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJU19DqKki1hox+P
018fpdo3g5dYT2EgtOaBM9Qrd55INQLfpbixnlMIrKe0/t5c21yazHHrPSWTYd0d
VwqPrHmjeTB3MBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/
MA4GA1UdDwEB/wQEAwIChDAdBgNVHQ4EFgQUKcyfZWXT8zq3HajBnfQ4ajQ8aqAw
HwYDVR0jBBgwFoAUKcyfZWXT8zq3HajBnfQ4ajQ8aqAwCgYIKoZIzj0EAwIDSAAw
RQIhAM8QaIrgS+GNpmJydJLnebEpMqbDT21fG6jtGKhFVUj+AiBzPLIx4b7wzpSr
jkY171Nb35asIOQRdC9BkjY972L3aQ==
-----END CERTIFICATE-----
"""


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Site]:
    file = tmp_path / "certificate.pem"
    file.write_text(CERTIFICATE, "ascii")
    with serving(file) as running:
        yield running


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: Site) -> None:
    error = failure(f"https://localhost:{secure.port}/")
    assert (error["code"], error["retryable"]) == ("failed", False)
    assert "certificate is not trusted: self" in error["message"]
    assert "SSL_CERT_FILE" in error["hint"]
    assert secure.seen == []


def test_the_certificate_is_checked_against_the_name_not_the_address(
    secure: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    assert fetch(f"https://localhost:{secure.port}/")["body"] == "hello"
    error = failure(f"https://127.0.0.1:{secure.port}/")
    assert "IP address mismatch" in error["message"]


def test_https_to_a_plain_server_is_told(site: Site) -> None:
    error = failure(f"https://127.0.0.1:{site.port}/")
    assert error["code"] == "network"
    assert "TLS connection" in error["message"]
