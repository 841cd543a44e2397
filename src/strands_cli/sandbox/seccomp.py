"""Filters of system calls. Built in the host through libseccomp, loaded in the confined process.

`python_filter` allows what a Python program needs that touches nothing but its own memory and one channel;
`executable_filter` refuses what no tool needs, and sockets unless they are asked for; `further_filter`
refuses more to executables: a second filter, since filters add up. All are BPF programs: bytes that
`load_filter` gives to the kernel without libseccomp, which a confined process does not have.
"""

import ctypes
import errno
import mmap
import os
from functools import cache, partial
from importlib import import_module
from typing import Any

PYTHON_CALLS = (
    # Its channel and the streams that lead nowhere; a descriptor cannot be opened, duplicated or received.
    "read write close poll ppoll select pselect6 fstat lseek "
    # Memory.
    "brk munmap mremap madvise "
    # Threads, their locks and their ends.
    "futex futex_waitv set_robust_list rseq sched_yield sched_getaffinity exit exit_group "
    # Signals from the kernel and timers; no call that sends a signal to anybody.
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait sigaltstack restart_syscall "
    "setitimer getitimer alarm pause nanosleep clock_nanosleep "
    # What time it is, who am I, chance.
    "clock_gettime clock_getres gettimeofday time times getrusage getrandom "
    "getpid getppid gettid getuid geteuid getgid getegid getpgrp"
)

REFUSED_TO_EXECUTABLES = (
    # Other processes' memory and descriptors.
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    # The machine: mounts, modules, time, swap, names, quotas, reboot.
    "mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr "
    "init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff "
    "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname quotactl quotactl_fd "
    "acct syslog iopl ioperm nfsservctl vhangup lookup_dcookie "
    "open_by_handle_at name_to_handle_at fanotify_init "
    # Ways around this filter or deep into the kernel.
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register "
    "add_key request_key keyctl unshare setns seccomp modify_ldt uselib vm86 vm86old "
    "personality migrate_pages move_pages mbind set_mempolicy"
)

_CLONE_THREAD = 0x00010000
_CLONE_NEW_NAMESPACES = 0x7E020080
_CLONE_VFORK_OR_PTRACE = 0x00004000 | 0x00002000 | 0x00800000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2
_SET_USER_ID, _SET_GROUP_ID = 0o4000, 0o2000
_MODE_OF = {
    **{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2},
    **{"mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1},
}
"""Which argument is the mode."""
_F_SETPIPE_SZ = 1031
_SOL_SOCKET = 1
_BUFFER_SIZES = (7, 8, 32, 33)
"""SO_SNDBUF and SO_RCVBUF, and both with FORCE."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_BPF_INSTRUCTION_BYTES = 8

ARCHITECTURES = ("x86_64", "aarch64")
"""Those whose filters are checked by tests; libseccomp knows more."""


class SeccompMissing(Exception):
    """Filters cannot be made here; the message says what is missing."""


def libseccomp() -> Any:
    """libseccomp's bindings; SeccompMissing where they, or the library itself, are not installed."""
    try:
        return import_module("pyseccomp")
    except ImportError:
        raise SeccompMissing("the Python package pyseccomp is not installed") from None
    except (RuntimeError, OSError):
        raise SeccompMissing(
            "libseccomp is not installed (Debian: libseccomp2, Fedora: libseccomp)"
        ) from None


@cache
def python_filter(architecture: str = "") -> bytes:
    """The allowlist for Python code: everything else fails with EPERM."""
    return _exported_filter(_python_rules(architecture), text=False)


@cache
def executable_filter(*, network: bool = False, architecture: str = "") -> bytes:
    """The denylist for executables: what is refused fails with EPERM, everything else is allowed."""
    return _exported_filter(_executable_rules(network, architecture), text=False)


@cache
def further_filter(*, network: bool, shares_processes: bool) -> bytes:
    """`shares_processes`: the executable can reach the host's processes, and Landlock does not prevent it."""
    lib = libseccomp()
    rules = lib.SyscallFilter(lib.ALLOW)
    refuse = partial(_add_rules, lib, rules, lib.ERRNO(errno.EPERM))
    # A file that gives its user the owner's rights must not be left behind where others find it.
    for bit in (_SET_USER_ID, _SET_GROUP_ID):
        for name, place in _MODE_OF.items():
            if not (bit == _SET_GROUP_ID and name.startswith("mkdir")):
                refuse(name, lib.Arg(place, lib.MASKED_EQ, bit, bit))
        for name, flags in (("open", 1), ("openat", 2)):
            creates = lib.Arg(flags, lib.MASKED_EQ, os.O_CREAT, os.O_CREAT)
            refuse(name, creates, lib.Arg(flags + 1, lib.MASKED_EQ, bit, bit))
    _add_rules(lib, rules, lib.ERRNO(errno.ENOSYS), "openat2")  # its mode is out of a filter's sight
    # A pair of datagram sockets can send to any address; services of the machine listen at UNIX ones.
    refuse("socketpair", lib.Arg(1, lib.MASKED_EQ, _SOCK_TYPE, _SOCK_DGRAM))
    if network:
        for family in sorted({*range(64)} - {_AF_INET, _AF_INET6, _AF_NETLINK}):
            refuse("socket", lib.Arg(0, lib.MASKED_EQ, 0xFFFFFFFF, family))
    # Memory that no process has mapped would be counted nowhere, and what outlives a call is nobody's:
    # segments, queues, pages in a pipe. Programs fall back to a file.
    refuse("memfd_create memfd_secret shmget shmat shmctl msgget msgsnd msgrcv msgctl vmsplice")
    refuse("semget semop semtimedop semctl mq_open mq_unlink")
    refuse("fcntl", lib.Arg(1, lib.MASKED_EQ, 0xFFFFFFFF, _F_SETPIPE_SZ))
    # Who asks for larger buffers keeps those it has, and is not told, just as at the system's own limit.
    for option in _BUFFER_SIZES:
        level = lib.Arg(1, lib.MASKED_EQ, 0xFFFFFFFF, _SOL_SOCKET)
        _add_rules(
            lib, rules, lib.ERRNO(0), "setsockopt", level, lib.Arg(2, lib.MASKED_EQ, 0xFFFFFFFF, option)
        )
    refuse("prlimit64", lib.Arg(0, lib.NE, 0), lib.Arg(2, lib.NE, 0))
    if shares_processes:
        # Only the own process group is left: another's number cannot be told from a child's.
        refuse("kill", lib.Arg(0, lib.NE, 0))
        refuse("tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal")
    return _exported_filter(rules, text=False)


def filter_text(kind: str, architecture: str = "", *, network: bool = False) -> str:
    """A filter as libseccomp's readable pseudo code, for people and tests; kind: `python`, `executable`."""
    rules = _python_rules(architecture) if kind == "python" else _executable_rules(network, architecture)
    return _exported_filter(rules, text=True).decode()


def load_filter(program: bytes) -> None:
    """Puts this thread, and all that it starts, under the filter, for good. Needs no_new_privs."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    # Opened here, since this module is imported on systems that have neither this library nor `namespaces`.
    libc = ctypes.CDLL(None, use_errno=True)
    loaded = ctypes.byref(Program(len(program) // _BPF_INSTRUCTION_BYTES, program))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, loaded, 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def _python_rules(architecture: str) -> Any:
    lib = libseccomp()
    rules = _new_rules(lib, lib.ERRNO(errno.EPERM), architecture)
    allow = partial(_add_rules, lib, rules, lib.ALLOW)
    allow(PYTHON_CALLS)
    # Memory that is never executable, so that no machine code can be brought in.
    allow("mmap mprotect", lib.Arg(2, lib.MASKED_EQ, mmap.PROT_EXEC, 0))
    # A thread of this process, and nothing else that clone can make. glibc tries clone3 first, whose flags
    # are out of a filter's sight, and takes clone when the kernel seems not to have it.
    forbidden = _CLONE_NEW_NAMESPACES | _CLONE_VFORK_OR_PTRACE
    allow("clone", lib.Arg(0, lib.MASKED_EQ, _CLONE_THREAD | forbidden, _CLONE_THREAD))
    _add_rules(lib, rules, lib.ERRNO(errno.ENOSYS), "clone3")
    # Its own limits may be read, not changed.
    allow("prlimit64", lib.Arg(0, lib.EQ, 0), lib.Arg(2, lib.EQ, 0))
    return rules


def _executable_rules(network: bool, architecture: str) -> Any:
    lib = libseccomp()
    rules = _new_rules(lib, lib.ALLOW, architecture)
    refuse = partial(_add_rules, lib, rules, lib.ERRNO(errno.EPERM))
    refuse(REFUSED_TO_EXECUTABLES)
    for flag in (1 << bit for bit in range(32) if _CLONE_NEW_NAMESPACES >> bit & 1):
        refuse("clone", lib.Arg(0, lib.MASKED_EQ, flag, flag))
    _add_rules(lib, rules, lib.ERRNO(errno.ENOSYS), "clone3")
    # Characters that are pushed into a terminal would be typed into the user's shell.
    for request in (_TIOCSTI, _TIOCLINUX):
        refuse("ioctl", lib.Arg(1, lib.MASKED_EQ, 0xFFFFFFFF, request))
    if not network:
        # Pairs of UNIX sockets are pipes, which many runtimes are built on; they lead nowhere.
        refuse("socketpair", lib.Arg(0, lib.NE, _AF_UNIX))
        refuse("socket connect bind listen accept accept4")
    return rules


def _new_rules(lib: Any, default: int, architecture: str) -> Any:
    rules = lib.SyscallFilter(default)
    target = getattr(lib.Arch, architecture.upper()) if architecture else lib.system_arch()
    if target != lib.system_arch():
        rules.add_arch(target)
        rules.remove_arch(lib.system_arch())
    # A program that switches to another instruction set would make calls under other numbers.
    rules.set_attr(lib.Attr.ACT_BADARCH, lib.KILL_PROCESS)
    return rules


def _add_rules(lib: Any, rules: Any, action: int, names: str, *conditions: Any) -> None:
    """The same rule for each of the calls in a list that a reader can compare with a manual's."""
    for name in names.split():
        number = lib.resolve_syscall(lib.Arch.NATIVE, name)
        if number != -1:  # a call that this libseccomp has not heard of
            rules.add_rule(action, number, *conditions)


def _exported_filter(rules: Any, *, text: bool) -> bytes:
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        (rules.export_pfc if text else rules.export_bpf)(file)
        file.seek(0)
        return file.read()
