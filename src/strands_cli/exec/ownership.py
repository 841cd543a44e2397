"""Which process owns a run, and what every store has to know about runs.

A process that writes a run takes it first, and gets a fencing number that is higher than those of all earlier
owners. A write with an older number is refused, so a process that was frozen, and wakes up after another one
has taken over its run, does no harm.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from strands_cli.errors import SessionError

LISTED = ("head", "status")
"""The rows of a run that a listing shows."""
LAST_CHARACTER = "\U0010ffff"
"""It sorts after every character of an id."""


class Owner(msgspec.Struct, frozen=True):
    """A process that writes a run."""

    host: str
    pid: int
    started: str = ""
    """When the process began, in the system's own units, to recognise a reused pid."""


class TakenRun(msgspec.Struct, frozen=True):
    """A run that this process has taken."""

    fence: int
    """The fencing number."""
    goes_on: Callable[[], bool]
    """Whether it goes on elsewhere if it is cancelled here: it is queued then, not interrupted."""


class Lost(SessionError):
    """This process no longer owns the run: it was deleted or taken over."""


class Unreachable(SessionError):
    """The store does not answer; it may answer later, or to another machine."""


def this_process() -> Owner:
    return Owner(_host_name(), os.getpid(), _start_of(os.getpid()) or "")


def is_alive(owner: Owner) -> bool:
    """Whether a process lives on this machine; False for a process on another machine."""
    if owner.host != _host_name() or owner.pid <= 0:
        return False
    if sys.platform == "win32":
        return _lives_on_windows(owner.pid)
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # of another user
    return _start_of(owner.pid) in (None, owner.started)


def _host_name() -> str:
    import socket

    return socket.gethostname()


def _start_of(pid: int) -> str | None:
    """When a process began: the boot id, and clock ticks since then. Empty if it ended, None if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        # The program's name, in parentheses, may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    is_gone = fields[0] in "ZX"  # a zombie: it ended, but its parent has not waited for it
    return "" if is_gone else f"{boot[:8]}:{fields[19]}"


def _lives_on_windows(pid: int) -> bool:
    import ctypes

    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not handle:
        return False
    code = ctypes.c_ulong()
    kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return code.value == 259  # STILL_ACTIVE


def refuse_taken(run: str, owner: Owner | None, *, take_over: bool, is_shared: bool = False) -> None:
    """Raises SessionError if the owner lives, or may live on another machine that shares the store."""
    if owner is None or take_over:
        return
    is_elsewhere = is_shared and owner.host != _host_name()
    if not is_elsewhere and not is_alive(owner):
        return
    place = f" on {owner.host}" if is_elsewhere else ""
    raise SessionError(
        f"Run {run} is in use by process {owner.pid}{place}.",
        hint=f"Wait until it ends, or take over the run: strands resume {run} --take-over",
    )


def next_fence(before: int) -> int:
    """A higher fencing number, also higher than those of a deleted run with the same id."""
    return max(before + 1, time.time_ns() // 1000)


def lost_run(run: str, fence: int | None) -> Lost:
    if fence is None:
        return Lost(f"Run {run} was deleted.", hint="Start the workflow again.")
    return Lost(f"Run {run} was taken over by another process.", hint=f"Look at it: strands runs show {run}")


def was_done_before(rows: Mapping[str, bytes], when: float) -> bool:
    try:
        status = msgspec.json.decode(rows.get("status", b""), type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False
    return status.status == "done" and status.updated < when


class _Status(msgspec.Struct):
    status: str = ""
    updated: float = float("inf")
