"""A control group for a process tree, where this user may make one: hard limits on processes and on memory.

Root needs the first, since RLIMIT_NPROC does not count its processes. The second counts what belongs to no
process: shared segments, the buffers of sockets and pipes, files in memory.
"""

import os
from contextlib import suppress

_ROOT = "/sys/fs/cgroup"
_PREFIX = "strands-"
_LIMITS = {
    "pids.max": "processes",
    "memory.max": "memory",
    "memory.swap.max": "nothing",
    "memory.oom.group": "all",
    # The first version of control groups: the second file is there where swapping is counted.
    "memory.limit_in_bytes": "memory",
    "memory.memsw.limit_in_bytes": "memory",
}
_KILLS = ("memory.events", "memory.oom_control")
"""Where the kernel tells how many processes it has killed in a group for want of memory."""


class Group:
    """One group, or one for each controller; made by a process, entered by its child, from any root."""

    def __init__(self, paths: list[str]) -> None:
        self._limits: list[tuple[int, str]] = []
        self._entries: list[int] = []
        self._kills: list[int] = []
        for path in paths:
            os.mkdir(path)
            self._entries.append(os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            there = os.listdir(path)  # quicker than to try each
            for name in (name for name in _LIMITS if name in there):
                with suppress(OSError):  # not ours to write
                    opened = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                    self._limits.append((opened, _LIMITS[name]))
            for name in (name for name in _KILLS if name in there):
                self._kills.append(os.open(f"{path}/{name}", os.O_RDONLY | os.O_CLOEXEC))

    def enter(self) -> None:
        for entry in self._entries:
            os.write(entry, b"0")

    def limit(self, processes: int, memory: int) -> None:
        values = {"processes": processes, "memory": memory, "nothing": 0, "all": 1}
        for descriptor, kind in self._limits:
            os.write(descriptor, str(values[kind]).encode())

    def has_limit(self, kind: str) -> bool:
        return any(kind == limited for _, limited in self._limits)

    def close(self) -> None:
        for descriptor in (*self._entries, *self._kills, *(descriptor for descriptor, _ in self._limits)):
            os.close(descriptor)

    def ran_out_of_memory(self) -> bool:
        texts = list[bytes]()
        for descriptor in self._kills:
            with suppress(OSError):  # all that was in the group has ended, and somebody has removed it
                texts.append(os.pread(descriptor, 4096, 0))
        lines = [line.split() for text in texts for line in text.splitlines()]
        return any(name == b"oom_kill" and count != b"0" for name, count in lines)


def parent_groups(*controllers: str) -> dict[str, str]:
    """For each controller that can limit a new group here, the directory in which it can be made."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return {}
    found = {}
    for controller in controllers:
        places = []
        for _, names, path in lines:
            inside = path.rstrip("/")
            if controller in names.split(","):
                places.append(f"{_ROOT}/{controller}{inside}")
            elif not names:
                places += [f"{_ROOT}{inside}", f"{_ROOT}{inside.rpartition('/')[0]}"]
        place = next((place for place in places if _can_limit(place, controller)), "")
        if place:
            found[controller] = place
    return found


def group_paths(parents: dict[str, str], number: int) -> list[str]:
    return [f"{parent}/{_PREFIX}{os.getpid()}-{number}" for parent in dict.fromkeys(parents.values())]


def remove_groups(paths: list[str]) -> None:
    for path in paths:
        with suppress(OSError):  # not quite empty yet, or gone: `remove_abandoned_groups` comes by again
            os.rmdir(path)


def remove_abandoned_groups(parents: dict[str, str]) -> None:
    """Removes the empty groups of makers that are gone, one with our number among them."""
    for parent in dict.fromkeys(parents.values()):
        for name in os.listdir(parent):
            maker = name.removeprefix(_PREFIX).partition("-")[0]
            if maker != name and (maker == str(os.getpid()) or not os.path.exists(f"/proc/{maker}")):
                remove_groups([f"{parent}/{name}"])


def _can_limit(place: str, controller: str) -> bool:
    """Whether a group that is made here has such a limit and lets a child in: tried, nothing else tells."""
    probe = f"{place}/{_PREFIX}{os.getpid()}-probe-{controller}"
    try:
        group = Group([probe])
    except OSError:
        remove_groups([probe])
        return False
    kind = "processes" if controller == "pids" else controller
    child = os.fork() if group.has_limit(kind) else -1
    if not child:
        with suppress(OSError):
            group.enter()
            os._exit(0)
        os._exit(1)
    has_entered = child > 0 and os.waitpid(child, 0)[1] == 0
    group.close()
    remove_groups([probe])
    return has_entered
