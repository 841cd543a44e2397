"""The kernel's limits on a process. Run in the confined process itself, so it imports nothing of ours."""

import resource
from collections.abc import Mapping


def apply(limits: Mapping[str, int]) -> None:
    """Sets soft and hard limits by name (`AS`, `CPU`, …); a hard limit that is lower already stays."""
    for name, wanted in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # At the soft limit of processor time comes a signal that names the reason, at the hard one SIGKILL.
        last = most + 1 if name == "CPU" and most == wanted else most
        resource.setrlimit(which, (most, last))


def address_space_in_use() -> int:
    """How many bytes of address space this process has mapped."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - pathlib is too heavy for a cold start
        return int(file.read().split()[0]) * resource.getpagesize()
