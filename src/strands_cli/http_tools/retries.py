"""Requests that are sent again where the failure may pass."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from strands_cli.errors import ToolFailed

REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that do no more when they are sent twice; others are sent once, whatever happens."""
LONGEST_PAUSE_SECONDS = 30.0
"""A server that asks for a longer pause is not waited for: its answer is the answer."""

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_OWN_PAUSE_SECONDS = 8.0
_PASSING = ("network", "timeout")

Send = Callable[[], Awaitable[dict[str, Any]]]


async def send_repeatedly(send: Send, retries: int) -> dict[str, Any]:
    """The first answer that is final, or what the last attempt comes to."""
    for attempt in range(retries):
        pause: float | None = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_OWN_PAUSE_SECONDS)
        try:
            result = await send()
        except ToolFailed as failed:
            if failed.code not in _PASSING:
                raise
        else:
            if result["status_code"] != 429 and result["status_code"] < 500:
                return result
            pause = _asked_pause(result["headers"].get("retry-after", ""), pause)
            if pause is None:
                return result
        await asyncio.sleep(pause or 0.0)
    return await send()


def _asked_pause(retry_after: str, own: float | None) -> float | None:
    """What the server asks for, in seconds or as a date; else our own. None where it is too long."""
    try:
        asked = float(retry_after)
    except ValueError:
        asked_until = _seconds_until(retry_after)
        if asked_until is None:
            return own
        asked = asked_until
    return max(asked, 0.0) if asked <= LONGEST_PAUSE_SECONDS else None


def _seconds_until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()
