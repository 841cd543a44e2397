"""Attacks on the host process: its environment, what /proc tells of it, its memory, its standing."""

from tests.sandbox.attacks.records import (
    CONTACT,
    HOST,
    LANDLOCK,
    LEAK,
    NAMESPACES,
    PROCESS,
    REACHED,
    SECCOMP,
    UID,
    Attack,
    Rows,
)

BOTH = (SECCOMP, LANDLOCK)

ENVIRONMENT: Rows = [
    Attack("environment: os.environ", LEAK, (PROCESS,), "import os\nprint(dict(os.environ), os.environb)"),
    Attack("environment: posix.environ", LEAK, (PROCESS,), "import posix\nprint(posix.environ)"),
    Attack(
        "environment: /proc/self/environ",
        LEAK,
        (PROCESS,),
        "from _io import open\nprint(open('/proc/self/environ').read())",
    ),
    Attack(
        "environment: of a child",
        LEAK,
        (PROCESS,),
        "import subprocess\nprint(subprocess.run(['/usr/bin/env'], capture_output=True).stdout)",
    ),
    Attack(
        "environment: the host's, by /proc",
        LEAK,
        (*BOTH, UID),
        "import posix as os\nprint(os.read(os.open(f'/proc/{HOST}/environ', 0), 99999))",
    ),
    Attack(
        "environment: arguments of the interpreter",
        LEAK,
        (PROCESS,),
        "import sys\nprint(sys.argv, sys.orig_argv)",
    ),
]

PROC: Rows = [
    Attack(
        "proc: the command line of the host",
        LEAK,
        BOTH,
        "import posix as os\nprint(os.read(os.open(f'/proc/{HOST}/cmdline', 0), 99999))",
    ),
    Attack(
        "proc: the command lines of everybody",
        LEAK,
        BOTH,
        """
import posix as os
for entry in os.listdir("/proc"):
    if entry.isdigit():
        print(os.read(os.open(f"/proc/{entry}/cmdline", 0), 9999))
""",
    ),
    Attack(
        "proc: the command lines of everybody, by guessing",
        LEAK,
        BOTH,
        """
import os
for number in range(1, 40000):
    try:
        print(os.read(os.open(f"/proc/{number}/cmdline", 0), 9999))
    except FileNotFoundError:
        pass
""",
    ),
    Attack(
        "proc: the memory of the host",
        LEAK,
        (*BOTH, UID),
        "import posix as os\nprint(os.pread(os.open(f'/proc/{HOST}/mem', 0), SECRET_SIZE, SECRET_AT))",
    ),
    Attack(
        "proc: the memory of the host, overwritten",
        HOST,
        (*BOTH, UID),
        "import os\nos.pwrite(os.open(f'/proc/{HOST}/mem', os.O_WRONLY), b'changed', SECRET_AT)",
        alone=True,
    ),
    Attack(
        "proc: the maps of the host",
        REACHED,
        (*BOTH, UID),
        "from _io import open\nif open(f'/proc/{HOST}/maps').read(): reached()",
    ),
    Attack(
        "proc: a descriptor of the host",
        LEAK,
        (*BOTH, UID),
        """
import os
for number in range(64):
    try:
        fd = os.open(f"/proc/{HOST}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
        print(os.pread(fd, 9999, 0))
    except OSError as error:
        print(error)
""",
    ),
    Attack(
        "proc: names of the host's descriptors",
        REACHED,
        (*BOTH, UID),
        "import posix as os\nif os.listdir(f'/proc/{HOST}/fd'): reached()",
    ),
    Attack(
        "proc: the root of the host",
        LEAK,
        (*BOTH, UID),
        "from _io import open\nprint(open(f'/proc/{HOST}/root{CANARY}/secret.txt').read())",
    ),
    Attack(
        "proc: the host's working directory",
        LEAK,
        (*BOTH, UID),
        "from _io import open\nprint(open(f'/proc/{HOST}/cwd/secret.txt').read())",
    ),
    Attack(
        "proc: our own root",
        LEAK,
        BOTH,
        "import posix as os\nprint(os.read(os.open(f'/proc/self/root{CANARY}/secret.txt', 0), 999))",
    ),
    Attack(
        "proc: our own memory, written",
        REACHED,
        BOTH,
        "import os\nfd = os.open('/proc/self/mem', os.O_RDWR)\nos.pwrite(fd, b'A', id(b'BCD') + 32)\nreached()",
    ),
    Attack(
        "proc: the host made the first to be killed",
        REACHED,
        (*BOTH, UID),
        "from _io import open\nopen(f'/proc/{HOST}/oom_score_adj', 'w').write('500')\nreached()",
    ),
    Attack(
        "proc: a parameter of the kernel",
        REACHED,
        (*BOTH, UID),
        "import os\nos.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)\nreached()",
    ),
    Attack(
        "proc: /sys, mounts and the kernel's version",
        REACHED,
        BOTH,
        "from _io import open\nif open('/proc/self/mountinfo').read() + open('/proc/version').read(): reached()",
    ),
]

MEMORY_OF_OTHERS: Rows = [
    Attack(
        "memory: process_vm_readv on the host",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        """
import ctypes, struct
buffer = ctypes.create_string_buffer(SECRET_SIZE)
there = struct.pack("QQ", SECRET_AT, SECRET_SIZE)
granted(libc().process_vm_readv(HOST, pointers(buffer), 1, there, 1, 0))
print(buffer.raw)
""",
    ),
    Attack(
        "memory: process_vm_writev on the host",
        HOST,
        (SECCOMP, LANDLOCK, UID),
        """
import ctypes, struct
buffer = ctypes.create_string_buffer(b"changed")
granted(libc().process_vm_writev(HOST, pointers(buffer), 1, struct.pack("QQ", SECRET_AT, 8), 1, 0))
""",
        alone=True,
    ),
    Attack(
        "memory: ptrace on the host",
        REACHED,
        (SECCOMP, LANDLOCK, UID),
        """
c = libc()
granted(c.ptrace(0x4206, HOST, None, None))
reached()
c.ptrace(17, HOST, None, None)
""",
        alone=True,
    ),
    Attack(
        "memory: process_vm_readv on the parent",
        REACHED,
        (SECCOMP,),
        """
import ctypes, os, struct
parent = os.getppid()
buffer = ctypes.create_string_buffer(64)
place = id(os)
granted(libc().process_vm_readv(parent, pointers(buffer), 1, struct.pack("QQ", place, 64), 1, 0))
reached()
""",
    ),
    Attack(
        "memory: ptrace on the parent",
        REACHED,
        (SECCOMP,),
        """
import os
c = libc()
granted(c.ptrace(0x4206, os.getppid(), None, None))
reached()
c.ptrace(17, os.getppid(), None, None)
""",
        alone=True,
    ),
    Attack(
        "memory: a descriptor stolen from the host by pidfd_getfd",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        """
import os
host = os.pidfd_open(HOST)
for number in range(64):
    fd = libc().syscall(438, host, number, 0)
    if fd >= 0:
        try:
            print(os.pread(fd, 9999, 0))
        except OSError as error:
            print(error)
""",
    ),
    Attack(
        "memory: shared memory of System V",
        LEAK,
        (SECCOMP, NAMESPACES),
        """
import ctypes
c = libc()
c.shmat.restype = ctypes.c_void_p
place = c.shmat(SHARED, None, 0o10000)
if place not in (None, 2**64 - 1):
    print(ctypes.string_at(place))
""",
    ),
    Attack(
        "memory: shared memory of POSIX",
        REACHED,
        BOTH,
        "from _posixshmem import shm_open, shm_unlink\nimport os\nshm_open('/' + TOKEN, os.O_CREAT | os.O_RDWR)\nreached()\nshm_unlink('/' + TOKEN)",
    ),
]

STANDING: Rows = [
    Attack(
        "standing: a signal to the host",
        CONTACT,
        (SECCOMP, LANDLOCK, UID),
        "import os\nos.kill(HOST, SIGNAL)",
        alone=True,
    ),
    Attack(
        "standing: a signal to the host by pidfd",
        CONTACT,
        (SECCOMP, LANDLOCK, UID),
        "import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(HOST), SIGNAL)",
        alone=True,
    ),
    Attack(
        "standing: a signal to the host by tgkill",
        CONTACT,
        (SECCOMP, LANDLOCK, UID),
        "granted(libc().syscall(234, HOST, HOST, SIGNAL))",
        alone=True,
    ),
    Attack(
        "standing: a signal to the host by sigqueue",
        CONTACT,
        (SECCOMP, LANDLOCK, UID),
        "granted(libc().sigqueue(HOST, SIGNAL, 0))",
        alone=True,
    ),
    Attack(
        "standing: the host's priority",
        HOST,
        (SECCOMP, UID),
        "import os\nos.setpriority(os.PRIO_PROCESS, HOST, 5)",
        alone=True,
    ),
    Attack(
        "standing: the host's processors",
        HOST,
        (SECCOMP, UID),
        "import os\nos.sched_setaffinity(HOST, {min(os.sched_getaffinity(HOST))})",
        alone=True,
    ),
    Attack(
        "standing: the host's limits",
        HOST,
        (SECCOMP, UID),
        "import resource\nresource.prlimit(HOST, resource.RLIMIT_CORE, (7, 1024))",
        alone=True,
    ),
    Attack(
        "standing: a better priority for us", REACHED, (SECCOMP, UID), "import os\nos.nice(-5)\nreached()"
    ),
    Attack(
        "standing: real-time scheduling",
        REACHED,
        (SECCOMP, UID),
        "import os\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\nos.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\nreached()",
    ),
    Attack(
        "standing: root again",
        REACHED,
        (SECCOMP, UID),
        "import os\nos.setresuid(0, 0, 0)\nreached()",
    ),
    Attack(
        "standing: a process group of the host's",
        REACHED,
        (SECCOMP,),
        "import os\nos.setpgid(0, 0)\nreached()",
    ),
]

ATTACKS = {
    "environment": ENVIRONMENT,
    "proc": PROC,
    "memory of others": MEMORY_OF_OTHERS,
    "signals and standing": STANDING,
}
