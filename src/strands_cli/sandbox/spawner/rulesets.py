"""Landlock in two steps: what is the same for every call is allowed before there is one.

`landlock.restrict` does all at once, which a process that is started for each call would pay for each time.
"""

import ctypes
import os
import struct

from strands_cli.sandbox import landlock

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_FOR_FILES = (
    landlock.EXECUTE | landlock.WRITE_FILE | landlock.READ_FILE | landlock.TRUNCATE | landlock.IOCTL_DEV
)
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}

READ = landlock.READ_FILE | landlock.READ_DIR
EXECUTE = landlock.READ_EXECUTE
WRITE = landlock.READ_WRITE | landlock.MAKE_FIFO | landlock.MAKE_SOCK

_LIBC = ctypes.CDLL(None, use_errno=True)


class Ruleset:
    """The files that a process will be left with once it enters."""

    def __init__(self, abi: int, *, network: bool) -> None:
        self._handled = (1 << _RIGHTS_OF_ABI.get(abi, 16)) - 1
        tcp = 0 if network or abi < 4 else _BIND_AND_CONNECT_TCP
        scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0
        attributes = (ctypes.c_uint64 * 3)(self._handled, tcp, scoped)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self._descriptor = _syscall(
            _CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)
        )

    def allow(self, rights: int, *paths: str) -> None:
        """Paths that do not exist are left out."""
        for path in paths:
            try:
                parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            self._add(parent, rights)
            os.close(parent)

    def _add(self, parent: int, rights: int) -> None:
        if os.fstat(parent).st_mode & 0o170000 != 0o040000:
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights & self._handled, parent)
        _syscall(
            _ADD_RULE, ctypes.c_int(self._descriptor), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)
        )

    def enter(self) -> None:
        """From here on there is nothing else for this process and all that it starts. Needs no_new_privs."""
        _syscall(_RESTRICT_SELF, ctypes.c_int(self._descriptor), ctypes.c_uint32(0))


def _syscall(number: int, *arguments: object) -> int:
    result = int(_LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
