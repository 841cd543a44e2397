"""What the filter for executables refuses besides: a second filter, since filters add up.

Built in the host through libseccomp, like `seccomp.executable_filter`.
"""

import errno
import os
from functools import cache
from typing import Any

from strands_cli.sandbox import seccomp

_AF_UNIX, _AF_INET, _AF_NETLINK, _AF_INET6 = 1, 2, 16, 10
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2
_SET_USER_ID, _SET_GROUP_ID = 0o4000, 0o2000
_MODE_OF = {
    **{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2},
    **{"mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1},
}
"""Which argument is the mode."""


@cache
def further_filter(*, network: bool, shares_processes: bool) -> bytes:
    """`shares_processes`: the executable can reach the host's processes, and Landlock does not prevent it."""
    lib = seccomp.library()
    rules = lib.SyscallFilter(lib.ALLOW)
    refuse = lib.ERRNO(errno.EPERM)
    _refuse_set_id_files(lib, rules, refuse)
    _refuse_addressable_sockets(lib, rules, refuse, network)
    # Memory that no process has mapped would be counted nowhere; programs fall back to a file.
    _add(lib, rules, refuse, "memfd_create")
    _add(lib, rules, refuse, "memfd_secret")
    _add(lib, rules, refuse, "prlimit64", lib.Arg(0, lib.NE, 0), lib.Arg(2, lib.NE, 0))
    if shares_processes:
        _refuse_signals_to_others(lib, rules, refuse)
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _refuse_set_id_files(lib: Any, rules: Any, refuse: int) -> None:
    """A file that gives its user the owner's rights must not be left behind where others find it."""
    for bit in (_SET_USER_ID, _SET_GROUP_ID):
        for name, place in _MODE_OF.items():
            if not (bit == _SET_GROUP_ID and name.startswith("mkdir")):
                _add(lib, rules, refuse, name, lib.Arg(place, lib.MASKED_EQ, bit, bit))
        for name, flags in (("open", 1), ("openat", 2)):
            creates = lib.Arg(flags, lib.MASKED_EQ, os.O_CREAT, os.O_CREAT)
            _add(lib, rules, refuse, name, creates, lib.Arg(flags + 1, lib.MASKED_EQ, bit, bit))
    _add(lib, rules, lib.ERRNO(errno.ENOSYS), "openat2")  # its mode is out of a filter's sight


def _refuse_addressable_sockets(lib: Any, rules: Any, refuse: int, network: bool) -> None:
    """A pair of datagram sockets can send to any address; services of the machine listen at UNIX ones."""
    datagram = lib.Arg(1, lib.MASKED_EQ, _SOCK_TYPE, _SOCK_DGRAM)
    _add(lib, rules, refuse, "socketpair", datagram)
    if not network:
        return
    others = [family for family in range(64) if family not in (_AF_INET, _AF_INET6, _AF_NETLINK)]
    for family in others:
        _add(lib, rules, refuse, "socket", lib.Arg(0, lib.MASKED_EQ, 0xFFFFFFFF, family))


def _refuse_signals_to_others(lib: Any, rules: Any, refuse: int) -> None:
    """Only the own process group is left: another's number cannot be told from a child's."""
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
        conditions = (lib.Arg(0, lib.NE, 0),) if name == "kill" else ()
        _add(lib, rules, refuse, name, *conditions)


def _add(lib: Any, rules: Any, action: int, name: str, *conditions: Any) -> None:
    number = lib.resolve_syscall(lib.Arch.NATIVE, name)
    if number != -1:  # a call that this libseccomp has not heard of
        rules.add_rule(action, number, *conditions)
