"""A control group of its own for a process tree, where this user may make one: a hard limit on processes.

Needed for root, whose processes RLIMIT_NPROC does not count.
"""

import os
from contextlib import suppress

_ROOT = "/sys/fs/cgroup"
_PREFIX = "strands-"


class Group:
    """A control group that this process has entered; `limit` works from any root."""

    def __init__(self, path: str) -> None:
        os.mkdir(path)
        self._most = os.open(f"{path}/pids.max", os.O_WRONLY | os.O_CLOEXEC)
        entered = os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        os.write(entered, b"0")
        os.close(entered)

    def limit(self, processes: int) -> None:
        os.write(self._most, str(processes).encode())


def parent_group() -> str:
    """The directory in which groups that limit processes can be made, or an empty path."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    places = []
    for _, controllers, path in lines:
        inside = path.rstrip("/")
        if "pids" in controllers.split(","):
            places.append(f"{_ROOT}/pids{inside}")
        elif not controllers:
            places += [f"{_ROOT}{inside}", f"{_ROOT}{inside.rpartition('/')[0]}"]
    return next((place for place in places if _can_limit_processes(place)), "")


def group_path(parent: str, number: int) -> str:
    return f"{parent}/{_PREFIX}{os.getpid()}-{number}"


def remove_group(path: str) -> None:
    with suppress(OSError):  # not quite empty yet, or gone: `remove_abandoned_groups` comes by again
        os.rmdir(path)


def remove_abandoned_groups(parent: str) -> None:
    """Removes the empty groups of makers that are gone."""
    for name in os.listdir(parent):
        if name.startswith(_PREFIX) and not os.path.exists(f"/proc/{name.split('-')[1]}"):
            remove_group(f"{parent}/{name}")


def _can_limit_processes(place: str) -> bool:
    """Whether a group that is made here has a limit on processes: tried, since nothing else tells."""
    probe = f"{place}/{_PREFIX}{os.getpid()}-probe"
    try:
        os.mkdir(probe)
    except OSError:
        return False
    has_limit = os.access(f"{probe}/pids.max", os.W_OK)
    remove_group(probe)
    return has_limit
