"""What `Retry-After` asks for. It is a server's text: nonsense in it is as good as nothing."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LONGEST_DATE = 60


def requested_pause(retry_after: str) -> float | None:
    """The seconds until the time that is meant, which may be past; None where no time is meant."""
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if len(text) > _LONGEST_DATE or not text.isascii():
        return None
    try:
        moment = parsedate_to_datetime(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (aware - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError, LookupError):
        return None
