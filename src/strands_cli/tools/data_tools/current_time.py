"""Tell the current date and time."""

import re
from contextlib import suppress
from datetime import UTC, datetime, tzinfo

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ToolFailed, closest, did_you_mean
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "current_time",
    "description": "Get the current date and time in a time zone, in the format you choose.",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "timezone": {
                    "type": "string",
                    "description": "IANA time zone, such as 'Europe/Berlin' or 'Asia/Tokyo', or 'local'",
                    "default": "UTC",
                    "maxLength": 100,
                },
                "format": {
                    "type": "string",
                    "description": "iso (2025-01-31T12:00:00+00:00), date, time, unix (seconds since 1970), "
                    "human (Friday, 31 January 2025, 12:00:00 UTC), rfc2822, or a strftime pattern such as "
                    "'%A, %d %B %Y'",
                    "default": "iso",
                    "maxLength": 200,
                },
            },
        }
    },
}

_FORMATS = ("iso", "date", "time", "unix", "human", "rfc2822")
_PATTERNS = {
    "date": "%Y-%m-%d",
    "time": "%H:%M:%S",
    "human": "%A, %d %B %Y, %H:%M:%S %Z",
    "rfc2822": "%a, %d %b %Y %H:%M:%S %z",
}
_DIRECTIVE = re.compile(r"%(-?[a-zA-Z]|%|.?)", re.DOTALL)
# %s is left out: the C library takes the clock time for one in the machine's own zone.
_DIRECTIVES = frozenset("aAbBcdDeFfGghHIjmMnprRStTuUVwWxXyYzZ")

_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_ABBREVIATIONS = {
    # Those that people use although the database does not have them.
    "AEST": "Australia/Sydney",
    "BST": "Europe/London",
    "CDT": "America/Chicago",
    "CEST": "Europe/Berlin",
    "CST": "America/Chicago",
    "EDT": "America/New_York",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MDT": "America/Denver",
    "PDT": "America/Los_Angeles",
    "PST": "America/Los_Angeles",
}


@tool(spec=TOOL_SPEC, version="1.0.0", category="data", timeout=10.0, annotations={"readOnlyHint": True})
def current_time(timezone: str = "UTC", format: str = "iso") -> str:
    now, name = datetime.now(_time_zone(timezone)), format.lower()
    if name == "iso":
        return now.isoformat(timespec="seconds")
    if name == "unix":
        return str(int(now.timestamp()))
    return _time_by_pattern(now, _PATTERNS.get(name, format))


def _time_by_pattern(now: datetime, pattern: str) -> str:
    remedy = f"Use {', '.join(_FORMATS)}, or a strftime pattern such as '%d.%m.%Y %H:%M'."
    if "%" not in pattern:
        hint = f"{did_you_mean(pattern, _FORMATS)} {remedy}".strip()
        raise ToolFailed(f"Unknown format {shorten_text(pattern)!r}", code="input_invalid", hint=hint)
    for directive in _DIRECTIVE.findall(pattern):
        if directive != "%" and directive.removeprefix("-") not in _DIRECTIVES:
            hint = "Use the format 'unix' for seconds since 1970." if directive == "s" else remedy
            raise ToolFailed(
                f"{'%' + directive!r} is not a strftime directive", code="input_invalid", hint=hint
            )
    try:
        if "\0" in pattern:  # the C library would take it for the end of the pattern
            raise ValueError("it contains a null character")
        return now.strftime(pattern)
    except ValueError as error:
        raise ToolFailed(f"The pattern cannot be used: {error}", code="input_invalid", hint=remedy) from None


def _time_zone(name: str) -> tzinfo:
    if name.strip().upper() in ("UTC", "Z", ""):
        return UTC
    if name.strip().lower() == "local" and (local := datetime.now().astimezone().tzinfo):
        return local
    from zoneinfo import ZoneInfo, available_timezones

    with suppress(KeyError, ValueError, OSError):  # it refuses names that would leave its directories, too
        return ZoneInfo(name)
    known = available_timezones()
    if not known:
        raise ToolFailed(
            "This machine has no time zone database, so only UTC is known",
            code="unavailable",
            hint="Install the Python package tzdata.",
        )
    same = [other for other in sorted(known) if other.lower() == name.lower()]
    if not same:
        reason, hint = f"Unknown time zone {shorten_text(name)!r}", _time_zone_remedy(name, known)
        raise ToolFailed(reason, code="not_found", hint=hint)
    return ZoneInfo(same[0])


def _time_zone_remedy(name: str, known: set[str]) -> str:
    if offset := _OFFSET.fullmatch(name.strip()):
        sign, hours, minutes = offset.groups()
        if int(minutes or 0) or int(hours) > 12:
            return "Use the name of a place, such as 'Asia/Kolkata' for UTC+05:30."
        zone = f"Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}"
        return f"The zone UTC{sign}{int(hours)} is called {zone!r}, with the opposite sign."
    place = name.strip().replace(" ", "_")
    cities = {zone.rpartition("/")[2].lower(): zone for zone in sorted(known, reverse=True)}
    named = [cities[part] for part in reversed(place.lower().split("/")) if part in cities]
    match = _ABBREVIATIONS.get(place.upper()) or (named[0] if named else closest(place, known))
    if match is None and (city := closest(place.rpartition("/")[2].lower(), cities)):
        match = cities[city]
    return f"Did you mean {match!r}?" if match else "Use a name such as 'Europe/Berlin'."


__getattr__ = with_tool_specs(__name__)
