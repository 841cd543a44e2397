"""Attacks on the kernel's less travelled calls, by which one leaves a filter or gets deeper into the machine."""

from tests.sandbox.attacks.records import LANDLOCK, REACHED, SECCOMP, UID, WRITE, Attack, Rows

EXECUTABLE_MEMORY: Rows = [
    Attack(
        "code: memory that is written and executed",
        REACHED,
        (SECCOMP,),
        "import mmap\nmmap.mmap(-1, 4096, prot=7)\nreached()",
    ),
    Attack(
        "code: memory that is executed",
        REACHED,
        (SECCOMP,),
        "import mmap\nmmap.mmap(-1, 4096, prot=5)\nreached()",
    ),
    Attack(
        "code: memory made executable later",
        REACHED,
        (SECCOMP,),
        """
import ctypes, mmap
block = mmap.mmap(-1, 4096)
place = ctypes.addressof(ctypes.c_char.from_buffer(block))
granted(libc().mprotect(ctypes.c_void_p(place), 4096, 5))
reached()
""",
    ),
    Attack(
        "code: machine code that runs",
        REACHED,
        (SECCOMP,),
        """
import ctypes, mmap
block = mmap.mmap(-1, 4096, prot=7)
block.write(bytes.fromhex("b82a000000c3"))
place = ctypes.addressof(ctypes.c_char.from_buffer(block))
if ctypes.CFUNCTYPE(ctypes.c_int)(place)() == 42:
    reached()
""",
    ),
    Attack(
        "code: a call under another instruction set's number",
        REACHED,
        (SECCOMP,),
        """
import ctypes, mmap
block = mmap.mmap(-1, 4096, prot=7)
block.write(bytes.fromhex("53b814000000cd805bc3"))
place = ctypes.addressof(ctypes.c_char.from_buffer(block))
if ctypes.CFUNCTYPE(ctypes.c_int)(place)() > 0:
    reached()
""",
    ),
    Attack(
        "code: a call under x32's number",
        REACHED,
        (SECCOMP, LANDLOCK),
        "granted(libc().syscall(0x40000000 | 2, f'{CANARY}/secret.txt'.encode(), 0))\nreached()",
    ),
    Attack(
        "code: a segment table of its own",
        REACHED,
        (SECCOMP,),
        "import ctypes\ngranted(libc().syscall(154, 0, ctypes.create_string_buffer(64), 64))\nreached()",
    ),
    Attack(
        "code: memory that does not move",
        REACHED,
        (SECCOMP,),
        "granted(libc().personality(0x0040000))\nreached()",
    ),
]

DEEP_CALLS: Rows = [
    Attack(
        "kernel: io_uring",
        REACHED,
        (SECCOMP,),
        "import ctypes\ngranted(libc().syscall(425, 4, ctypes.create_string_buffer(120)))\nreached()",
    ),
    Attack("kernel: userfaultfd", REACHED, (SECCOMP,), "granted(libc().syscall(323, 1))\nreached()"),
    Attack(
        "kernel: a key",
        REACHED,
        (SECCOMP,),
        "granted(libc().syscall(248, b'user', TOKEN.encode(), b'x', 1, -2))\nreached()",
    ),
    Attack(
        "kernel: the session's keys", REACHED, (SECCOMP,), "granted(libc().syscall(250, 0, -3, 1))\nreached()"
    ),
    Attack(
        "kernel: a BPF map",
        REACHED,
        (SECCOMP, UID),
        "import ctypes, struct\ngranted(libc().syscall(321, 0, ctypes.create_string_buffer(struct.pack('IIIII', 2, 4, 4, 1, 0) + bytes(100)), 72))\nreached()",
    ),
    Attack(
        "kernel: performance counters",
        REACHED,
        (SECCOMP, UID),
        "import ctypes, struct\nattributes = ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0) + bytes(100))\ngranted(libc().syscall(298, attributes, 0, -1, -1, 0))\nreached()",
    ),
    Attack("kernel: fanotify", REACHED, (SECCOMP, UID), "granted(libc().fanotify_init(0, 0))\nreached()"),
    Attack("kernel: its log", REACHED, (SECCOMP, UID), "granted(libc().klogctl(10, None, 0))\nreached()"),
    Attack("kernel: input and output ports", REACHED, (SECCOMP, UID), "granted(libc().iopl(3))\nreached()"),
    Attack(
        "kernel: a restart that is asked for wrongly",
        REACHED,
        (SECCOMP, UID),
        "import ctypes\nlibc().syscall(169, 1, 2, 3, 0)\nif ctypes.get_errno() == 22: reached()",
    ),
    Attack(
        "kernel: a module that does not exist, removed",
        REACHED,
        (SECCOMP, UID),
        "import ctypes\nlibc().syscall(176, b'no_such_module_here', 0)\nif ctypes.get_errno() == 2: reached()",
    ),
    Attack(
        "kernel: a filter of its own",
        REACHED,
        (SECCOMP,),
        "import struct, ctypes\nprogram = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7FFF0000))\ngranted(libc().syscall(317, 1, 0, struct.pack('HxxxxxxQ', 1, ctypes.addressof(program))))\nreached()",
    ),
    Attack(
        "kernel: all memory locked",
        REACHED,
        (SECCOMP,),
        "granted(libc().mlockall(1))\nlibc().munlockall()\nreached()",
    ),
    Attack(
        "kernel: semaphores of System V",
        REACHED,
        (SECCOMP,),
        "c = libc()\nid = granted(c.semget(0, 1, 0o1600))\nc.semctl(id, 0, 0)\nreached()",
    ),
    Attack(
        "kernel: a clock that is set to nonsense",
        REACHED,
        (SECCOMP, UID),
        "import ctypes\nlibc().syscall(159, ctypes.create_string_buffer((0x4000).to_bytes(4, 'little') + bytes(252)))\nif ctypes.get_errno() != 1: reached()",
    ),
]

NAMESPACES_OF_ITS_OWN: Rows = [
    Attack(
        "namespace: a user namespace", REACHED, (SECCOMP,), "granted(libc().unshare(0x10000000))\nreached()"
    ),
    Attack(
        "namespace: a mount namespace",
        REACHED,
        (SECCOMP, UID),
        "granted(libc().unshare(0x00020000))\nreached()",
    ),
    Attack(
        "namespace: the host's network",
        REACHED,
        (SECCOMP, LANDLOCK, UID),
        "import os\ngranted(libc().setns(os.open(f'/proc/{HOST}/ns/net', 0), 0))\nreached()",
    ),
    Attack(
        "namespace: the host's by pidfd",
        REACHED,
        (SECCOMP, UID),
        "import os\ngranted(libc().setns(os.pidfd_open(HOST), 0x40000000))\nreached()",
    ),
    Attack(
        "namespace: a mount",
        REACHED,
        (SECCOMP, LANDLOCK, UID),
        "c = libc()\ngranted(c.mount(b'none', DROP.encode(), b'tmpfs', 0, None))\nreached()\nc.umount2(DROP.encode(), 2)",
    ),
    Attack(
        "namespace: the new way to mount",
        REACHED,
        (SECCOMP, UID),
        "granted(libc().syscall(430, b'tmpfs', 0))\nreached()",
    ),
    Attack(
        "namespace: a bind mount over a file",
        WRITE,
        (SECCOMP, LANDLOCK, UID),
        "c = libc()\ngranted(c.mount(b'/dev/null', f'{DROP}/victim.txt'.encode(), None, 4096, None))",
    ),
    Attack("namespace: chroot", REACHED, (SECCOMP, UID), "import os\nos.chroot(DROP)\nreached()"),
    Attack(
        "namespace: another host name",
        REACHED,
        (SECCOMP, UID),
        "import socket\nsocket.sethostname(socket.gethostname())\nreached()",
    ),
    Attack(
        "namespace: capabilities raised",
        REACHED,
        (SECCOMP, UID),
        "granted(libc().prctl(24, 39, 0, 0, 0))\nreached()",
    ),
]

ATTACKS = {
    "executable memory": EXECUTABLE_MEMORY,
    "deep system calls": DEEP_CALLS,
    "mounts and namespaces": NAMESPACES_OF_ITS_OWN,
}
