"""How well executables can be confined on this machine."""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from strands_cli.errors import ToolError
from strands_cli.sandbox.seccomp import SeccompMissing, executable_filter
from strands_cli.sandbox.spawning import Abilities, SpawnerLost, spawner

LevelName = Literal["full", "namespaces", "landlock", "seccomp", "unavailable"]
"""Which layers hold besides rlimits and seccomp: both, one of them, none. Without seccomp nothing runs."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What confines an executable on this machine."""

    name: LevelName
    layers: tuple[str, ...]
    missing: Mapping[str, str]
    """Each layer that is not there, with the reason and what it would need."""
    processes: str = "watched"
    """How the number of processes is held: `cgroup`, `rlimit`, or `watched` forty times a second."""

    @property
    def reason(self) -> str:
        return "; ".join(f"{layer}: {why}" for layer, why in self.missing.items())


def executables_level(*, network: bool = False, room: bool = True) -> Level:
    """The strongest combination that this machine offers. Starts the spawner: tens of milliseconds, once."""
    if sys.platform != "linux":
        return _unavailable({"system": f"{sys.platform} has no confinement that is supported; Linux has"})
    try:
        found = spawner(network=network, room=room).abilities()
    except SpawnerLost as lost:
        return _unavailable({"spawner": str(lost)})
    return level_of(found)


@cache
def level_of(found: Abilities) -> Level:
    missing = {}
    if why := _why_no_seccomp():
        missing["seccomp"] = why
    if not found.landlock:
        missing["landlock"] = (
            "the kernel has none: 5.13 or newer, with landlock among its active security modules"
        )
    if not found.room:
        missing["namespaces"] = (
            f"{found.why_no_room}; they need root with CAP_SYS_ADMIN, or user namespaces for everyone"
        )
    if found.why_not_alone:
        missing["network namespace"] = found.why_not_alone
    held = [name for name in ("seccomp", "landlock", "namespaces") if name not in missing]
    return Level(name=_name_of(held), layers=("rlimits", *held), missing=missing, processes=found.processes)


def _name_of(held: list[str]) -> LevelName:
    if "seccomp" not in held:
        return "unavailable"
    if len(held) == 3:
        return "full"
    return "namespaces" if "namespaces" in held else "landlock" if "landlock" in held else "seccomp"


def _unavailable(missing: dict[str, str]) -> Level:
    return Level(name="unavailable", layers=(), missing=missing)


def _why_no_seccomp() -> str:
    try:
        executable_filter(network=False)
    except SeccompMissing as missing:
        return str(missing)
    return ""


def require(level: Level, accept: str = "") -> None:
    """ToolError unless executables may run at this level; `accept` is a lower one that the user accepts."""
    if level.name in ("full", "namespaces", "landlock") or (level.name == "seccomp" and accept == "seccomp"):
        return
    hint = (
        'Set `accept = "seccomp"` under [sandbox] to run them without either.'
        if level.name == "seccomp"
        else ""
    )
    raise ToolError(f"Executables cannot be confined here ({level.reason})", code="unavailable", hint=hint)
