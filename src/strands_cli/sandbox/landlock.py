"""Landlock: the kernel refuses file access outside the named paths, and connections.

Runs in the confined process before it does anything else, so it imports nothing of ours.
"""

import ctypes
import os
from collections.abc import Iterable
from functools import cache

# The numbers are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ_EXECUTE = EXECUTE | READ_FILE | READ_DIR
READ_WRITE = (
    READ_FILE
    | READ_DIR
    | WRITE_FILE
    | TRUNCATE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SYM
    | REFER
)
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule on a file, rather than on a directory, may speak of."""

_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights on files each version of Landlock knows."""
_TCP_ABI, _SCOPE_ABI = 4, 6
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that the kernel has; 0 where there is none. Asked by syscall: /sys may lie."""
    try:
        return _syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict(
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    *,
    network: bool = False,
    executes: Iterable[str] = (),
) -> None:
    """Leaves this process, and all that it starts, no files but these; OSError where that cannot be had.

    `reads` may be read, `executes` read and executed, `writes` read and written. Paths that do not exist are
    left out. Without `network` there is no TCP either, where the kernel is new enough to refuse it.
    """
    version = abi()
    if not version:
        raise OSError("this kernel has no Landlock")
    handled = (1 << _RIGHTS_OF_ABI[min(version, 5)]) - 1
    ruleset = _create(version, handled, network)
    try:
        for paths, rights in ((reads, READ_FILE | READ_DIR), (executes, READ_EXECUTE), (writes, READ_WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        no_new_privileges()
        _syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def no_new_privileges() -> None:
    """From here on, executing a set-user-id program gives nobody more rights."""
    if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _create(version: int, handled: int, network: bool) -> int:
    tcp = _BIND_AND_CONNECT_TCP if version >= _TCP_ABI and not network else 0
    scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if version >= _SCOPE_ABI else 0
    attributes = _Ruleset(handled, tcp, scoped)
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _TCP_ABI else 8
    return _syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_directory = os.fstat(parent).st_mode & 0o170000 == 0o040000
        rule = _PathBeneath(rights if is_directory else rights & _FOR_FILES, parent)
        _syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)


def _syscall(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = _libc().syscall(ctypes.c_long(number), *given)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
