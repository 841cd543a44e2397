"""Whether this processor can run the engine. It would otherwise end the whole process, without a word."""

import platform
from pathlib import Path

NEEDED = ("avx2", "fma", "f16c")
_INTEL = {"x86_64", "amd64"}


def missing_flags(flags: str) -> list[str]:
    """What the engine needs and this text of flags (as in /proc/cpuinfo) does not have."""
    present = set(flags.lower().split())
    return [flag for flag in NEEDED if flag not in present]


def lacking_here() -> list[str]:
    """What this machine's processor lacks; nothing where that cannot be known, or is not a question."""
    if platform.machine().lower() not in _INTEL:
        return []
    flags = flags_in(_cpuinfo())
    return missing_flags(flags) if flags else []


def flags_in(cpuinfo: str) -> str:
    """The first processor's flags in a text such as /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    return next((flags for name, _, flags in lines if name.strip() == "flags"), "")


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
