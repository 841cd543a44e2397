"""How many threads the engine computes with."""

import os
from collections.abc import Mapping

from strands_cli.errors import UsageError

MOST = 8
"""Beyond that, small models gain nothing."""


def thread_count(setting: int | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """What the environment says, else the setting `local.threads`, else one per processor we may use."""
    text = environment.get("STRANDS_LOCAL_THREADS", "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise UsageError(
            f"STRANDS_LOCAL_THREADS: {text!r} is not a number of threads", hint="Use 1, 2 or more."
        )
    return int(text) if text else setting or min(_usable(), MOST)


def _usable() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
