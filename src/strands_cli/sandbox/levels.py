"""What confinement this machine really offers for Python code: found out once, by trying to break out."""

import asyncio
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal

import msgspec

from strands_cli.sandbox.profile import ALL_LAYERS, PYTHON_PROFILE, Layer, Profile

LevelName = Literal["full", "seccomp+landlock", "seccomp", "interpreter", "disabled"]

_REMEDIES = {
    "seccomp": "install libseccomp (Debian: libseccomp2, Fedora: libseccomp) and the package pyseccomp",
    "landlock": "needs Linux 5.13 or newer with landlock among the modules of the kernel parameter lsm=",
    "namespaces": "needs root, or user namespaces for ordinary users (user.max_user_namespaces above 0, "
    "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)",
    "uid": "needs root, which becomes nobody before any code runs",
    "rlimits": "needs a Unix kernel",
}

_SELF_TEST = """
import _socket, mmap, os, posix

def is_refused(act):
    try:
        act()
    except (PermissionError, MemoryError):
        return True
    except OSError:
        pass
    return False

def leaves():
    if posix.fork() == 0:
        os._exit(0)

{name: is_refused(act) for name, act in {
    "open": lambda: posix.open("/", 0),
    "stat": lambda: posix.stat("/"),
    "list": lambda: posix.listdir("/"),
    "internet": lambda: _socket.socket(_socket.AF_INET),
    "local sockets": lambda: _socket.socket(_socket.AF_UNIX),
    "fork": leaves,
    "execute": lambda: posix.execv("/missing", ["missing"]),
    "signal": lambda: posix.kill(posix.getppid(), 0),
    "machine code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
    "memory": lambda: bytearray(1 << 40),
}.items()}
"""
_TEST_PROFILE = Profile(seconds=10.0, memory_bytes=PYTHON_PROFILE.memory_bytes)


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """How model-written Python is confined here."""

    name: LevelName
    layers: frozenset[str] = frozenset()
    missing: Mapping[str, str] = {}
    """The layers that are not in force, with the reason and what they would need."""
    reason: str = ""
    """Why it is not a better one: what the self-test found."""

    @property
    def is_confined(self) -> bool:
        return self.name in ("full", "seccomp+landlock", "seccomp")


_found: Level | None = None


async def python_level() -> Level:
    """The level in force, from a self-test at first use."""
    global _found  # noqa: PLW0603 - found once, and the same for the whole process
    if _found is None or _found.name == "disabled":
        _found = await try_level()
    return _found


def python_level_now() -> Level:
    """The same for callers without a running loop, such as `strands doctor`."""
    return asyncio.run(python_level())


async def try_level(wanted: frozenset[Layer] = ALL_LAYERS) -> Level:
    """Starts a confined process and has it try what it must not be able to do."""
    if sys.platform != "linux":
        return _without_kernel(f"{sys.platform} has no seccomp", {"seccomp": "needs Linux"})
    from strands_cli.sandbox.launcher import ZygoteLost
    from strands_cli.sandbox.running import run_confined
    from strands_cli.sandbox.seccomp import SeccompMissing

    try:
        outcome, zygote = await run_confined(_SELF_TEST, _TEST_PROFILE, wanted, parks=False)
    except SeccompMissing as error:
        return _without_kernel(str(error), {"seccomp": f"{error}: {_REMEDIES['seccomp']}"})
    except ZygoteLost as error:
        return _without_kernel(f"no process could be started: {error or 'it ended at once'}", {})
    missing = {name: f"{why}; {_REMEDIES[name]}" for name, why in zygote.missing.items() if _matters(name)}
    if outcome.error is not None or not isinstance(outcome.value, dict):
        return _without_kernel(f"the self-test failed: {outcome.error}", missing)
    holes = [name for name, is_refused in outcome.value.items() if not is_refused]
    if holes:
        return _without_kernel(f"the self-test broke out: {', '.join(holes)}", missing)
    return Level(name=_name_of(zygote.layers), layers=zygote.layers, missing=missing)


def _matters(layer: str) -> bool:
    """An ordinary user has nobody to become: that layer is missing to root only."""
    import os

    return layer != "uid" or os.geteuid() == 0


def _name_of(layers: frozenset[str]) -> LevelName:
    if {"seccomp", "landlock", "namespaces"} <= layers:
        return "full"
    return "seccomp+landlock" if "landlock" in layers else "seccomp"


def _without_kernel(reason: str, missing: Mapping[str, str]) -> Level:
    if find_spec("pydantic_monty") is not None:
        return Level(name="interpreter", reason=reason, missing=missing)
    return Level(name="disabled", reason=reason, missing=missing)
