"""Searches a text with a regular expression, in a process of its own.

Python matches without letting go of the interpreter's lock, and some expressions take years on a short text:
in our own process not even a deadline would be noticed.
"""

import json
import re
import sys
import time

from strands_cli.templates.meter import TooMuch, current_meter

_LONGEST_PATTERN = 1_000
_START = 500_000
"""The cost of a process, in units of the meter: about 15 ms."""
_UNITS_PER_SECOND = 15_000_000
_CPU_SECONDS = 1
_WALL_SECONDS = 20
"""For systems that cannot limit CPU time; a busy machine must not fail a quick search."""
_PROGRAM = f"""
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, ({_CPU_SECONDS}, {_CPU_SECONDS + 1}))
except (ImportError, ValueError, OSError):
    pass
import time
pattern, text, flags = json.load(sys.stdin)
found = re.search(pattern, text, flags)
group = found and (found[1] if found.re.groups else found[0]) or ""
json.dump([found is not None, group, time.process_time()], sys.stdout)
"""


def check_pattern(pattern: str) -> None:
    """ValueError if `search_pattern` cannot search with it."""
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"the regular expression has more than {_LONGEST_PATTERN} characters")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:100]!r} is not a regular expression: {error}") from None


def search_pattern(pattern: str, text: str, *, ignore_case: bool = True) -> str | None:
    """What the first match found: group 1, or all of it if the pattern has no group; None without a match.

    ValueError if the pattern is not a regular expression, TooMuch if the search takes too long.
    """
    check_pattern(pattern)
    import subprocess  # here, since few templates search

    meter = current_meter()
    meter.spend(_START + len(text))
    began = time.monotonic()
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            input=json.dumps([pattern, text, int(re.IGNORECASE) if ignore_case else 0]).encode(),
            capture_output=True,
            timeout=_WALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        ended = None
    except OSError as error:
        raise ValueError(f"no process can be started for the search: {error.strerror}") from None
    if ended is None or ended.returncode:
        slow = ended is None or ended.returncode < 0 or time.monotonic() - began >= _CPU_SECONDS
        why = "takes too long" if slow else "fails"
        raise TooMuch(f"the search for {pattern[:100]!r} {why}")
    has_match, group, seconds = json.loads(ended.stdout)
    meter.spend(int(seconds * _UNITS_PER_SECOND))
    return str(group) if has_match else None
