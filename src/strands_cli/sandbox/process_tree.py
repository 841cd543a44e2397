"""The descendants of a process: who they are, what memory they hold, and how all of them are ended.

For where there is no PID namespace that ends them by itself. A process that is a *subreaper* inherits what
its descendants leave behind, so that whoever leaves the process group or the session is still found below it.
Runs in small processes, so it imports nothing of ours.
"""

import ctypes
import os
import select
import signal
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_MAX_ROUNDS = 50
_SHARED_MEMORY = b"/dev/zero (deleted)"
"""What /proc calls memory that processes share; System V's and named segments are refused to them."""
_SOCKET_BYTES = 212_992
_DEEPEST = 200
"""Each level of directories holds a descriptor while they are counted."""
_PIECE, _MAX_FILE = 1 << 20, 1 << 24


def become_subreaper() -> None:
    """Orphans among this process's descendants become its children."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wake_on_child() -> int:
    """A descriptor that can be read when a child of this process has ended."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def open_proc() -> int:
    """A descriptor of /proc that stays good when the process moves to another root."""
    return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def running_processes(proc: int) -> dict[int, int]:
    """Every process that has not ended, with its parent."""
    found = {}
    for name in os.listdir(proc):
        if name.isdigit() and (stat := read_proc_file(proc, f"{name}/stat")):
            state, parent = stat.rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                found[int(name)] = int(parent)
    return found


def descendants(of: int, proc: int, spared: Collection[int] = ()) -> list[int]:
    """The processes below one, nearest first, without some of its children and all that is below those."""
    children: dict[int, list[int]] = {}
    for process, parent in running_processes(proc).items():
        children.setdefault(parent, []).append(process)
    found = [process for process in children.get(of, ()) if process not in spared]
    for process in found:
        found.extend(children.get(process, ()))
    return found


def likely_descendants(of: int, proc: int) -> list[int]:
    """The same, at a cost that does not grow with the machine; one that ends meanwhile may hide others."""
    found = _child_processes(of, proc)
    for process in found:
        found.extend(_child_processes(process, proc))
    return found


def _child_processes(process: int, proc: int) -> list[int]:
    try:
        tasks = os.open(f"{process}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return []
    try:
        return [
            int(child)
            for task in os.listdir(tasks)
            for child in read_proc_file(tasks, f"{task}/children").split()
        ]
    except OSError:
        return []
    finally:
        os.close(tasks)


def signal_name(number: int) -> str:
    """`SIGTERM`; the number of a signal without a name, as most real-time signals are."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def tasks_of_user(proc: int) -> int:
    """How many processes and threads this user has, as RLIMIT_NPROC counts them."""
    own, total = f"\nUid:\t{os.getuid()}\t".encode(), 0
    for name in os.listdir(proc):
        if name.isdigit() and own in (status := read_proc_file(proc, f"{name}/status")):
            total += int(status.partition(b"\nThreads:\t")[2].partition(b"\n")[0] or 0)
    return total


def end_descendants(of: int, proc: int, spared: Collection[int] = ()) -> None:
    """Kills everything below a process that is not spared. All of it is stopped first, so that nothing forks
    meanwhile.

    What was below one that ended during the look may be left: look again when such a one has been reaped.
    """
    for _ in range(_MAX_ROUNDS):
        found = descendants(of, proc, spared)
        if not found:
            return
        send_signal(signal.SIGSTOP, found)
        found = descendants(of, proc, spared)
        send_signal(signal.SIGKILL, found)
        send_signal(signal.SIGCONT, found)


def marked_processes(mark: str, proc: int) -> list[int]:
    """The processes of this user whose environment holds a `NAME=value` that only one call gave."""
    here = str(os.getpid())
    found = [int(name) for name in os.listdir(proc) if name.isdigit() and name != here]
    return [process for process in found if is_marked(process, mark, proc)]


def is_marked(process: int, mark: str, proc: int) -> bool:
    return mark.encode() in read_proc_file(proc, f"{process}/environ").split(b"\0")


def end_marked_tree(process: int, mark: str) -> None:
    """Kills a process that leads a group, all below it, and all that bears its mark, in case it ended first.

    Where there is no /proc, its group alone.
    """
    try:
        proc = open_proc()
    except OSError:
        _kill_process_group(process)
        return
    marked = is_marked(process, mark, proc)
    if marked:  # otherwise it has ended, and its number may be another's
        send_signal(signal.SIGSTOP, [process])
        end_descendants(process, proc)
        _kill_process_group(process)
    for _ in range(_MAX_ROUNDS):
        if not (left := marked_processes(mark, proc)):
            break
        send_signal(signal.SIGKILL, left)
    os.close(proc)


def _kill_process_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the whole group is gone already
        os.killpg(leader, signal.SIGKILL)


def end_with_host(host: int, mark: str) -> None:
    """Makes this process and its tree end when the host does: a guard that is nobody's child watches both.

    It stays until one of the two has ended, whatever this process does with its signals and its lock.
    """
    if sys.platform != "linux":
        return
    me = os.getpid()
    watched = [os.pidfd_open(me), os.pidfd_open(host)]
    if os.getppid() != host:
        os._exit(1)
    starter = os.fork()
    if not starter:
        if not os.fork():
            _guard_process_tree(me, watched, mark)
        os._exit(0)
    os.waitpid(starter, 0)
    for descriptor in watched:
        os.close(descriptor)
    become_subreaper()


def _guard_process_tree(process: int, watched: list[int], mark: str) -> None:
    os.setsid()
    first, second = watched
    os.closerange(0, first)  # the pipes above all: their readers wait for the end of all writers
    os.closerange(first + 1, second)
    os.closerange(second + 1, os.sysconf("SC_OPEN_MAX"))
    poll = select.poll()
    for descriptor in watched:
        poll.register(descriptor, select.POLLIN)
    poll.poll()
    end_marked_tree(process, mark)
    os._exit(0)


def send_signal(number: int, processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended, and its number may be somebody else's by now


class Aside(NamedTuple):
    """Bytes that processes may hold without having them mapped."""

    segments: int = 0
    buffers: int = 0


def memory_in_use(processes: list[int], proc: int, limit: int, aside: Aside = Aside()) -> int:  # noqa: B008
    """The bytes that processes hold together. Exact only where the quick sum, which counts shared pages once
    for each process, is above the limit.
    """
    quick = sum(aside) + sum(_pages_of(process, proc, 1) for process in processes)
    if quick <= limit:
        return quick
    own = shared = 0
    for process in processes:
        whole, in_segments = _proportional_bytes(process, proc)
        own += whole - in_segments
        shared += in_segments
    return own + max(shared, aside.segments) + aside.buffers


def _pages_of(process: int, proc: int, field: int) -> int:
    """The bytes of one field of its `statm`: 0 is what it has mapped, 1 what is in memory of that."""
    fields = read_proc_file(proc, f"{process}/statm").split()
    return int(fields[field]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _proportional_bytes(process: int, proc: int) -> tuple[int, int]:
    """A process's share of all that it has mapped, and how much of that is memory shared with others."""
    lines = map(bytes.split, read_proc_file(proc, f"{process}/smaps_rollup").splitlines())
    found = {line[0]: 1024 * int(line[1]) for line in lines if line[0].startswith(b"Pss")}
    if b"Pss:" not in found:
        return _pages_of(process, proc, 1), 0
    return found[b"Pss:"], found.get(b"Pss_Shmem:", 0)


def memory_aside(processes: list[int], proc: int) -> Aside:
    """At most, since nothing tells exactly. Shared memory keeps its pages when a process lets go of them, so
    a segment counts whole, and so does a process that lets nobody look; a socket can hold a buffer full.
    """
    segments: dict[bytes, int] = {}
    opened: set[str] = set()
    for process in processes:
        for segment, size in _shared_segments(process, proc):
            segments[segment] = max(size, segments.get(segment, 0))
        for name in _descriptors(process, proc):
            with suppress(OSError):
                opened.add(os.readlink(f"{process}/fd/{name}", dir_fd=proc))
    count = sum(target.startswith("socket:") for target in opened)
    each = int(read_proc_file(proc, "sys/net/core/wmem_default") or _SOCKET_BYTES)
    return Aside(sum(segments.values()), count * each)


def _shared_segments(process: int, proc: int) -> Iterator[tuple[bytes, int]]:
    """Those that a process has mapped: what tells each from others, and how large it is at least."""
    maps = read_proc_file(proc, f"{process}/maps")
    if not maps:
        yield b"%d" % process, _pages_of(process, proc, 0)
    for line in maps.splitlines() if _SHARED_MEMORY in maps else ():
        if line.endswith(_SHARED_MEMORY):
            addresses, _, offset, _, inode = line.split()[:5]
            first, last = (int(address, 16) for address in addresses.split(b"-"))
            yield inode, int(offset, 16) + last - first


def _descriptors(process: int, proc: int) -> list[str]:
    try:
        opened = os.open(f"{process}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return []
    try:
        return os.listdir(opened)
    except OSError:
        return []
    finally:
        os.close(opened)


def bytes_below(name: str, directory: int, depth: int = 0) -> int:
    """The bytes of all that is below a name in a directory. What is too deep to count exceeds any limit."""
    if depth > _DEEPEST:
        return sys.maxsize
    try:
        here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:  # it is gone, or closed to us
        return 0
    try:
        return sum(_bytes_of(inner, here, depth) for inner in os.listdir(here))
    except OSError:
        return 0
    finally:
        os.close(here)


def _bytes_of(name: str, directory: int, depth: int) -> int:
    try:
        state = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return 0
    below = bytes_below(name, directory, depth + 1) if stat.S_ISDIR(state.st_mode) else 0
    return 512 * state.st_blocks + below


def deleted_bytes(processes: list[int], proc: int) -> int:
    """The bytes of files that have no name any more but are open in one of the processes."""
    found = {}
    for place in (f"{process}/fd/{name}" for process in processes for name in _descriptors(process, proc)):
        with suppress(OSError):
            state = os.stat(place, dir_fd=proc)
            found[state.st_dev, state.st_ino] = 0 if state.st_nlink else 512 * state.st_blocks
    return sum(found.values())


def read_proc_file(proc: int, name: str) -> bytes:
    """A file below /proc; empty where it, or the process, is gone or out of reach."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return b""
    content = b""
    try:
        while piece := os.read(descriptor, _PIECE):  # some files give a page at a time
            content += piece
            if len(content) > _MAX_FILE:
                break
    except OSError:
        pass  # it has ended meanwhile
    finally:
        os.close(descriptor)
    return content
