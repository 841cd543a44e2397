"""One exchange: a request, its redirects, and the answer, all within one time limit."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx  # noqa: TID253 - only the bodies of tools import this module

from strands_cli.http_tools.failures import EXPECTED, explain, timed_out, too_many_redirects
from strands_cli.http_tools.incoming import read_result
from strands_cli.http_tools.transport import GuardedTransport

MOST_REDIRECTS = 10

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
) -> dict[str, Any]:
    """The answer to a request; ToolFailed where there is none. `late` is the hint if it takes too long."""
    try:
        async with asyncio.timeout(seconds), _client(transport) as client:
            return await _answer(client, request, check_url, max_bytes)
    except TimeoutError:
        raise timed_out(seconds, late) from None
    except EXPECTED as error:
        raise explain(error) from error


def without_userinfo(url: httpx.URL) -> httpx.URL:
    return url.copy_with(userinfo=b"") if url.userinfo else url


def _client(transport: GuardedTransport) -> httpx.AsyncClient:
    # trust_env off: a proxy of the environment would resolve names itself, and .netrc would add credentials.
    # No time limits of its own: one limit holds for the whole.
    return httpx.AsyncClient(transport=transport, trust_env=False, timeout=None)


async def _answer(
    client: httpx.AsyncClient, request: httpx.Request, check_url: CheckUrl, max_bytes: int
) -> dict[str, Any]:
    own_cookie = request.headers.get("cookie", "")
    for hops in range(MOST_REDIRECTS + 1):
        response = await client.send(request, auth=None, stream=True)
        following = response.next_request
        try:
            if following is None:
                result = await read_result(response, max_bytes)
                return result | ({"url": str(request.url)} if hops else {})
        finally:
            await response.aclose()
        check_url(following.url)
        following.url = without_userinfo(following.url)  # nobody's credentials but the caller's are sent
        if not _same_party(request.url, following.url):
            own_cookie = ""
            _strip(following.headers)
        _add_cookie(following.headers, own_cookie)
        request = following
    raise too_many_redirects(MOST_REDIRECTS)


def _same_party(old: httpx.URL, new: httpx.URL) -> bool:
    """The same origin, or its own move from http to https on the default ports."""
    if old.raw_host != new.raw_host:
        return False
    upgraded = (old.scheme, new.scheme) == ("http", "https") and old.port is None and new.port is None
    return upgraded or (old.scheme, old.port) == (new.scheme, new.port)


def _strip(headers: httpx.Headers) -> None:
    for name in list(headers):
        if name.lower() not in _HARMLESS:
            del headers[name]


def _add_cookie(headers: httpx.Headers, own: str) -> None:
    """httpx keeps only the cookies that servers set; the caller's stay as long as the origin does."""
    parts = [part for part in (own, headers.get("cookie", "")) if part]
    if parts:
        headers["cookie"] = "; ".join(parts)
