"""One exchange: a request that is checked, its redirects and the answer, all within one time limit.

Never more than the limit of the answer is in memory, packed bodies included.
"""

import asyncio
import codecs
import re
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Any
from urllib.parse import urlsplit

import httpx

from strands_cli.errors import ToolFailed
from strands_cli.http_tools.pauses import requested_pause
from strands_cli.http_tools.transport import (
    EXPECTED,
    GO_DIRECTLY,
    Allowed,
    GuardedTransport,
    HostUnknown,
    explain_http_error,
    literal_address,
    parse_allowed,
    permitted_addresses,
    request_failed,
)
from strands_cli.secrets import without_userinfo
from strands_cli.types.settings_file import HttpSettings

MAX_REDIRECTS = 10

CheckUrl = Callable[[httpx.URL], None]
"""Raises ToolFailed where a redirect must not be followed."""

# What goes along when a redirect leads to another origin. Any other header may be a credential (X-Api-Key,
# PRIVATE-TOKEN, …) and was meant for the first origin only. Cookie is here because at that point it holds
# only what servers set on the way, which goes by domain. A body goes along where the status asks for it
# (307, 308): that is what these codes mean, and every client does so.
_HARMLESS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "content-length",
        "content-type",
        "cookie",
        "host",
        "user-agent",
    }
)


async def exchange(
    request: httpx.Request,
    transport: GuardedTransport,
    check_url: CheckUrl,
    *,
    seconds: float,
    max_bytes: int,
    late: str,
    until: float | None = None,
    with_bytes: bool = False,
) -> dict[str, Any]:
    """The answer to a request; ToolFailed if none comes. `late` is the hint if it takes too long.

    `until`, in the loop's time, is when the seconds are over of which earlier attempts have used a part.
    """
    until = asyncio.get_running_loop().time() + seconds if until is None else until
    try:
        # trust_env off: a proxy of the environment would resolve names itself, and .netrc would add
        # credentials. No time limits of its own: one limit holds for the whole.
        client = httpx.AsyncClient(transport=transport, trust_env=False, timeout=None)
        async with asyncio.timeout_at(until), client:
            return await _follow_redirects(client, request, check_url, max_bytes, with_bytes)
    except TimeoutError:
        reason = f"there was no complete answer within {seconds * 1000:.0f} ms"
        raise request_failed(reason, code="timeout", hint=late) from None
    except EXPECTED as error:
        raise explain_http_error(error) from error


async def _follow_redirects(
    client: httpx.AsyncClient, request: httpx.Request, check_url: CheckUrl, max_bytes: int, with_bytes: bool
) -> dict[str, Any]:
    own_cookie = request.headers.get("cookie", "")
    for hops in range(MAX_REDIRECTS + 1):
        response = await client.send(request, auth=None, stream=True)
        following = response.next_request
        try:
            if following is None:
                result = await _read_response(response, max_bytes, with_bytes)
                return result | ({"url": str(request.url)} if hops else {})
        finally:
            await response.aclose()
        check_url(following.url)
        following.url = httpx.URL(
            without_userinfo(str(following.url))
        )  # nobody's credentials but the caller's are sent
        if not _is_same_origin_or_upgrade(request.url, following.url):
            own_cookie = ""
            for name in [name for name in following.headers if name.lower() not in _HARMLESS]:
                del following.headers[name]
        # httpx keeps only the cookies that servers set; the caller's stay as long as the origin does.
        cookies = [part for part in (own_cookie, following.headers.get("cookie", "")) if part]
        if cookies:
            following.headers["cookie"] = "; ".join(cookies)
        request = following
    raise request_failed(f"the server redirects more than {MAX_REDIRECTS} times", hint=GO_DIRECTLY)


def _is_same_origin_or_upgrade(old: httpx.URL, new: httpx.URL) -> bool:
    """The same origin, or its own move from http to https on the default ports."""
    if old.raw_host != new.raw_host:
        return False
    upgraded = (old.scheme, new.scheme) == ("http", "https") and old.port is None and new.port is None
    return upgraded or (old.scheme, old.port) == (new.scheme, new.port)


# --- Requests to any public URL ---------------------------------------------------------------------------


async def send_to_url(
    url: str,
    settings: HttpSettings,
    *,
    headers: Mapping[str, str],
    seconds: float,
    late: str,
    method: str = "GET",
    content: bytes | None = None,
    retries: int = 0,
    with_bytes: bool = False,
) -> dict[str, Any]:
    """The answer of a URL that a model chose; see `exchange`. `seconds` are for all attempts together."""
    allowed = parse_allowed(settings.allow)
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _unusable_url(url, str(error), allowed) from None
    _check_url(parsed)
    sent = httpx.Headers(DEFAULT_HEADERS)
    if parsed.userinfo:  # sent as a header and taken out of the URL, which is logged and shown
        sent["Authorization"] = "Basic " + b64encode(f"{parsed.username}:{parsed.password}".encode()).decode()
    for name, value in headers.items():
        check_header(name, value)
        sent[name] = value.strip()
    request = httpx.Request(method, without_userinfo(str(parsed)), headers=sent, content=content)
    until = asyncio.get_running_loop().time() + seconds

    def send() -> Awaitable[dict[str, Any]]:
        return exchange(
            request,
            GuardedTransport(allowed),
            _check_url,
            seconds=seconds,
            until=until,
            max_bytes=settings.max_bytes,
            late=late,
            with_bytes=with_bytes,
        )

    return await send_with_retries(send, retries, until)


def _check_url(url: httpx.URL) -> None:
    """Refuses what is not an http address of a host. Where the host is, the transport judges."""
    if url.scheme not in ("http", "https"):
        raise request_failed(
            f"{url.scheme}: addresses are not supported" if url.scheme else "the url has no scheme",
            code="forbidden",
            hint="Use a URL that begins with http:// or https://.",
        )
    host = url.raw_host.decode("ascii")
    if not host:
        raise request_failed("the url has no host", hint="Write it as https://host.example/path.")
    if url.port is not None and not 0 < url.port < 65536:
        raise request_failed("the url's port is not between 1 and 65535", hint="Fix it, or leave it out.")
    if "%" in host and literal_address(host) is None:
        raise request_failed("the url's host is percent-encoded", hint="Write the host name plainly.")


def _unusable_url(text: str, reason: str, allowed: tuple[Allowed, ...]) -> ToolFailed:
    """Some spellings of addresses the URL parser refuses already; for the caller they are forbidden too."""
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:
        host = ""
    address = literal_address(host)
    if address is not None:
        permitted_addresses(host, 0, [address], allowed)
    sentence = reason.partition(":")[0]  # after the colon it quotes the URL, which may hold a password
    return request_failed(
        f"the url cannot be used: {sentence[:1].lower()}{sentence[1:].rstrip('.')}",
        hint="Write it as https://host.example:port/path, with addresses in their usual form.",
    )


# --- Headers of requests: those that we set ourselves, and what others may set ----------------------------

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

# What describes the connection or the encoding of the body belongs to whoever makes the connection. A Host of
# the caller's choice would also reach virtual hosts that the URL does not name.
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
DEFAULT_HEADERS = {"Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "strands-cli"}


def header_problem(name: str, value: str) -> tuple[str, str] | None:
    """Why a header cannot be sent as it is meant, and what to do; its value is never shown."""
    if not _TOKEN.fullmatch(name):
        start = _TOKEN.match(name)
        shown = f"the header name that begins with {start[0]!r}" if start else "a header name"
        reason = f"{shown} has characters that header names cannot have"
        return reason, 'Pass headers as {"Name": "value"}.'
    if name.lower() in _OURS:
        return f"the tool sets the header {name} itself", "Leave it out."
    if not _VALUE.fullmatch(value):
        return (
            f"the value of the header {name} has a line break or other characters that headers cannot have",
            "Use printable ASCII characters only.",
        )
    return None


def check_header(name: str, value: str) -> None:
    problem = header_problem(name, value)
    if problem is not None:
        raise request_failed(problem[0], hint=problem[1])


# --- Answers ----------------------------------------------------------------------------------------------

_GZIP_MAGIC = b"\x1f\x8b"
_TEXTUAL = re.compile(r"text/|\S*\b(json|xml|javascript|yaml|csv|graphql|x-www-form-urlencoded)\b", re.I)

# Codecs of Python that are not character sets of the web: slow on long input, or yielding half characters.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"})


class _GzipUnpacker:
    """Unpacks a stream of gzip members, never yielding more than there is room for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)

    def unpack(self, data: bytes, room: int) -> bytes:
        out = self._member.decompress(data, room)
        while self._member.unused_data.startswith(_GZIP_MAGIC) and len(out) < room:
            rest = self._member.unused_data
            self._member = zlib.decompressobj(31)
            out += self._member.decompress(rest, room - len(out))
        return out

    @property
    def is_over(self) -> bool:
        """Whether what follows the last member is not a further one; it would pile up unseen."""
        return len(self._member.unused_data) >= len(_GZIP_MAGIC)

    @property
    def is_complete(self) -> bool:
        return self._member.eof


async def _read_response(response: httpx.Response, limit: int, with_bytes: bool) -> dict[str, Any]:
    """`status_code`, `headers`, `body`; `body_base64` where it is not text, `truncated` where it was cut.

    `with_bytes` adds the body as `bytes`, and the `charset` that its headers name.
    """
    try:
        data = await _read_body(response, limit + 1)
    except zlib.error:
        raise request_failed(
            "the body is not gzip, though its headers say so",
            hint="This is the server's fault; another address may give the same content.",
        ) from None
    cut = len(data) > limit
    text = _body_text(data[:limit], response.headers.get("content-type", ""), response.charset_encoding, cut)
    result: dict[str, Any] = {
        "status_code": response.status_code,
        "headers": dict(response.headers),
        "body": text or "",
    }
    if with_bytes:
        result |= {"bytes": data[:limit], "charset": response.charset_encoding}
    elif text is None:
        result["body_base64"] = b64encode(data[:limit]).decode()
    return result | ({"truncated": True} if cut else {})


async def _read_body(response: httpx.Response, limit: int) -> bytes:
    """The unpacked body, up to so many bytes.

    httpx would unpack whole chunks, and an encoding within an encoding multiplies by a thousand each time. So
    only gzip is asked for and unpacked, once; other encodings stay as they are and end up in `body_base64`.
    """
    packed = response.headers.get("content-encoding", "").strip().lower() in ("gzip", "x-gzip")
    gunzip = _GzipUnpacker() if packed else None
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += gunzip.unpack(chunk, limit - len(data)) if gunzip else chunk[: limit - len(data)]
        if len(data) >= limit or (gunzip and gunzip.is_over):
            return bytes(data)
    if gunzip and response.num_bytes_downloaded and not gunzip.is_complete:
        raise request_failed("the compressed body is incomplete", code="network", hint="Try again.")
    return bytes(data)


def _body_text(data: bytes, content_type: str, charset: str | None, cut: bool) -> str | None:
    """The text that the bytes are, or None. A declared text is shown with � for what does not fit."""
    errors = "replace" if _TEXTUAL.match(content_type) else "strict"
    with suppress(LookupError, ValueError):
        if charset and codecs.lookup(charset).name not in _NO_CHARSETS:
            return data.decode(charset, errors)
    try:
        text = codecs.getincrementaldecoder("utf-8")(errors).decode(data, final=not cut)
    except UnicodeDecodeError:
        return None
    return None if errors == "strict" and "\0" in text else text


# --- Sending again where the failure may pass -------------------------------------------------------------

REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that do no more when they are sent twice; others are sent once, whatever happens."""
LONGEST_PAUSE_SECONDS = 30.0
"""A server that asks for a longer pause is not waited for: its answer is the answer."""

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_OWN_PAUSE_SECONDS = 8.0
_PASSING = ("network", "timeout")

Send = Callable[[], Awaitable[dict[str, Any]]]


async def send_with_retries(send: Send, retries: int, until: float = inf) -> dict[str, Any]:
    """The first answer that is final, or the outcome of the last attempt. No attempt begins after `until`,
    in the loop's time."""
    now = asyncio.get_running_loop().time
    for attempt in range(retries):
        pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_OWN_PAUSE_SECONDS)
        try:
            result = await send()
        except ToolFailed as failed:
            may_pass = failed.code in _PASSING and not isinstance(failed, HostUnknown)
            if not may_pass or now() + pause >= until:
                raise
        else:
            if result["status_code"] != 429 and result["status_code"] < 500:
                return result
            asked = requested_pause(result["headers"].get("retry-after", ""))
            pause = pause if asked is None else asked
            if pause > LONGEST_PAUSE_SECONDS or now() + pause >= until:
                return result
        await asyncio.sleep(pause)
    return await send()
