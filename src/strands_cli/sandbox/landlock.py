"""Landlock: the kernel refuses file access outside the named paths, and connections.

Runs in the confined process before it does anything else.
"""

import ctypes
import os
import struct

from strands_cli.sandbox.namespaces import LIBC, check_result

# The numbers are the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
READ_EXECUTE = READ | EXECUTE
_MAKE = MAKE_DIR | MAKE_REG | MAKE_SYM | MAKE_FIFO | MAKE_SOCK
READ_WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER | _MAKE
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule on a file, rather than on a directory, may speak of."""

_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many rights on files each version of Landlock knows; later ones know 16."""
_TCP_ABI, _SCOPE_ABI = 4, 6
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def abi_version() -> int:
    """The kernel's version of Landlock, 0 without Landlock. Asked by syscall: /sys may lie."""
    try:
        return _landlock_syscall(
            _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
        )
    except OSError:
        return 0


class Ruleset:
    """The files that a process will be left with once it enters.

    In steps: what is the same for every call is allowed before there is one. Without `network` there is no
    TCP either, where the kernel is new enough to refuse it.
    """

    def __init__(self, abi: int, *, network: bool) -> None:
        if not abi:
            raise OSError("this kernel has no Landlock")
        self._handled = (1 << _RIGHTS_OF_ABI.get(abi, 16)) - 1
        tcp = _BIND_AND_CONNECT_TCP if abi >= _TCP_ABI and not network else 0
        scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= _SCOPE_ABI else 0
        attributes = (ctypes.c_uint64 * 3)(self._handled, tcp, scoped)
        size = 24 if abi >= _SCOPE_ABI else 16 if abi >= _TCP_ABI else 8
        self._descriptor = _landlock_syscall(
            _CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)
        )

    def allow(self, rights: int, *paths: str) -> None:
        """Paths that do not exist are left out."""
        for path in paths:
            try:
                opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            self.allow_opened(rights, opened)
            os.close(opened)

    def allow_opened(self, rights: int, *descriptors: int) -> None:
        """What has been opened already, whatever is found under its name by now."""
        for descriptor in descriptors:
            is_directory = os.fstat(descriptor).st_mode & 0o170000 == 0o040000
            granted = rights & self._handled & (-1 if is_directory else _FOR_FILES)
            rule = struct.pack("=Qi", granted, descriptor)
            ruleset, kind = ctypes.c_int(self._descriptor), ctypes.c_int(_RULE_PATH_BENEATH)
            _landlock_syscall(_ADD_RULE, ruleset, kind, rule, ctypes.c_uint32(0))

    def enter(self) -> None:
        """From here on there is nothing else for this process and all that it starts. Needs no_new_privs."""
        _landlock_syscall(_RESTRICT_SELF, ctypes.c_int(self._descriptor), ctypes.c_uint32(0))
        os.close(self._descriptor)


def no_new_privileges() -> None:
    """From here on, executing a set-user-id program gives nobody more rights."""
    check_result(LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _landlock_syscall(number: int, *arguments: object) -> int:
    result = int(LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
