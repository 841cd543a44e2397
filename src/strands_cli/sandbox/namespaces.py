"""Namespaces, identity, capabilities and limits of a confined process.

Runs in the process that confines itself, so it imports nothing of ours.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Mapping

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
_NOBODY = 65534

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 1, 4, 24, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_MAX_CAPABILITIES = 64


def check_result(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def unshare(flags: int) -> None:
    """Leaves the named namespaces for new ones.

    With NEWPID it is the next child that is the first process of the new namespace: all others in it die with
    it. An ordinary user enters a user namespace too, keeps the own ids there, and has every capability in it
    until `drop_capabilities`.
    """
    user, group = os.geteuid(), os.getegid()
    check_result(LIBC.unshare(flags | NEWUSER if user else flags), "unshare")
    if user:
        keep_ids(user, group)


def keep_ids(user: int, group: int) -> None:
    """In a new user namespace: the ids stay what they were."""
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def drop_user() -> None:
    """Root becomes nobody, for good. Clears PDEATHSIG: call `die_with_parent` afterwards."""
    if os.geteuid() != 0:
        raise OSError("only root can become somebody else")
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def drop_capabilities() -> None:
    """Leaves no capability in any set, for this process and for all that it executes."""
    prctl = LIBC.prctl
    for capability in range(_MAX_CAPABILITIES):
        if prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # beyond the last one that the kernel knows, or not allowed to: then nothing is held either
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    clear_capabilities()


def clear_capabilities() -> None:
    """Gives up the capabilities that this process holds; enough where it never executes another program."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check_result(LIBC.capset(header, nothing), "capset")


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when the thread that started it ends; `parent` is its process, or 0.

    0 stands for a parent in another PID namespace. A parent that is gone already is noticed here.
    """
    check_result(LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """No other process of the same user may read this one's memory, /proc entries or descriptors."""
    check_result(LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE")


def apply_limits(limits: Mapping[str, int]) -> None:
    """Sets soft and hard limits by name (`AS`, `CPU`, …); a hard limit that is lower already stays."""
    for name, limit in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(which)
        soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        # At the soft limit of processor time comes a signal that names the reason, at the hard one SIGKILL.
        last = soft + 1 if name == "CPU" and soft == limit else soft
        resource.setrlimit(which, (soft, last))


def address_space_in_use() -> int:
    """How many bytes of address space this process has mapped."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib is too heavy for a cold start
        return int(file.read().split()[0]) * resource.getpagesize()
