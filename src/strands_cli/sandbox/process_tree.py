"""The descendants of a process: who they are, what memory they hold, and how all of them are ended.

For where there is no PID namespace that ends them by itself. A process that is a *subreaper* inherits what
its descendants leave behind, so that whoever leaves the process group or the session is still found below it.
Runs in small processes, so it imports nothing of ours.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Collection
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36
_MAX_ROUNDS = 50


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


def memory_in_use(processes: list[int], proc: int, limit: int) -> int:
    """The bytes that processes hold together. Exact only where the quick sum, which counts shared pages once
    for each process, is above the limit.
    """
    quick = sum(_resident_bytes(process, proc) for process in processes)
    return quick if quick <= limit else sum(_proportional_bytes(process, proc) for process in processes)


def _resident_bytes(process: int, proc: int) -> int:
    fields = read_proc_file(proc, f"{process}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


def _proportional_bytes(process: int, proc: int) -> int:
    for line in read_proc_file(proc, f"{process}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _resident_bytes(process, proc)


def read_proc_file(proc: int, name: str) -> bytes:
    """A file below /proc; empty where it, or the process, is gone or out of reach."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
