"""The tool's exchange: any host, at addresses that are public or permitted."""

from typing import Any

from strands_cli.http_tools.addresses import parse_allowed
from strands_cli.http_tools.exchange import exchange as exchange_within
from strands_cli.http_tools.transport import GuardedTransport
from strands_cli.settings import HttpSettings
from strands_cli.tools.http_request._outgoing import Outgoing, build_request, check_url

_LATE = "Raise timeout_ms (at most 300000), or ask for less at once."


async def exchange(outgoing: Outgoing, settings: HttpSettings, seconds: float) -> dict[str, Any]:
    allowed = parse_allowed(settings.allow)
    return await exchange_within(
        build_request(outgoing, allowed),
        GuardedTransport(allowed),
        check_url,
        seconds=seconds,
        max_bytes=settings.max_bytes,
        late=_LATE,
    )
