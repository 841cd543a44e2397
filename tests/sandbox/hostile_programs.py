"""Programs that do what a tool must not be able to do, each with what its call has to come to.

In the sources, `@outside@`, `@workspace@`, `@writable@`, `@plugin@`, `@home@`, `@port@`, `@socket@`, `@victim@` and
`@host@` stand for what the test has prepared. A program that got what it wanted prints ESCAPED.
"""

from dataclasses import dataclass, field

SYSTEM_PYTHON = "/usr/bin/python3"

SHEBANGS = {"sh": "#!/bin/bash\n", "python": f"#!{SYSTEM_PYTHON}\n", "node": "#!/usr/bin/env node\n", "c": ""}

TRY = """
import ctypes, errno, os, resource, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act, *given):
    try:
        result = act(*given)
    except (OSError, ValueError) as error:
        print(name, "refused", error)
        return None
    if isinstance(result, int) and result == -1:
        print(name, "refused", errno.errorcode.get(ctypes.get_errno()))
        return None
    print("ESCAPED", name, result)
    return result
"""


@dataclass
class Hostile:
    name: str
    language: str
    source: str
    why: tuple[str, ...] = ("exited",)
    """What the call may come to."""
    seconds: float = 10.0
    limits: dict[str, int] = field(default_factory=dict)
    """Fields of the profile that differ."""
    input: bytes = b""
    says: str = ""
    """What has to be on standard output."""
    hint: str | None = None
    only_in_room: bool = False


def python(name: str, source: str, **options: object) -> Hostile:
    return Hostile(name, "python", TRY + source, **options)  # type: ignore[arg-type]


def sh(name: str, source: str, **options: object) -> Hostile:
    return Hostile(name, "sh", source, **options)  # type: ignore[arg-type]


def c(name: str, source: str, **options: object) -> Hostile:
    headers = "stdio stdlib unistd fcntl signal string sched errno sys/wait sys/mman sys/ptrace sys/stat sys/syscall"
    includes = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}.h>\n" for name in headers.split())
    return Hostile(name, "c", includes + source, **options)  # type: ignore[arg-type]


MEGABYTE = 1024 * 1024

READERS = [
    sh("prints its environment", "env; cat /proc/self/environ | tr '\\0' '\\n'"),
    python(
        "reads the environments of all processes",
        """
for pid in os.listdir("/proc"):
    for name in ("environ", "maps", "root/etc/shadow", "cwd/secret.txt", "fd/0"):
        try:
            print(open(f"/proc/{pid}/{name}", "rb").read(100000) if pid.isdigit() else "")
        except OSError:
            pass
""",
    ),
    sh(
        "reads the home directory",
        "ls -laR @home@; cat @home@/.ssh/id_rsa @home@/.netrc ~/.netrc; exit 1",
        hint="files.read",
    ),
    sh(
        "reads a file outside",
        "cat @outside@/secret.txt; cat '@outside@/../outside/secret.txt'; ls @outside@",
    ),
    sh(
        "follows a link out of scratch",
        'ln -s @outside@/secret.txt "$TMPDIR/l"; cat "$TMPDIR/l"; echo gone > "$TMPDIR/l"',
    ),
    sh("makes a hard link to a secret", 'ln @outside@/secret.txt "$TMPDIR/l" && cat "$TMPDIR/l"'),
    sh(
        "reads the system's passwords and keys",
        "cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_* && echo ESCAPED",
    ),
    python(
        "looks for descriptors that it inherited",
        """
for n in range(3, 256):
    try: target = os.readlink(f"/proc/self/fd/{n}")
    except OSError: continue
    if not target.endswith("/program"): print("ESCAPED", n, target)
""",
    ),
    python(
        "opens devices",
        "for d in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/tty', '/dev/ptmx'):\n    attempt(d, os.open, d, os.O_RDWR)\n",
    ),
]

WRITERS = [
    sh(
        "writes outside",
        "echo x >> @outside@/secret.txt; rm -f @outside@/secret.txt; echo x > @outside@/made; exit 1",
        hint="files.write",
    ),
    sh(
        "writes to the workspace",
        "touch @workspace@/made; mv @workspace@/data.txt @workspace@/moved; exit 1",
        hint="files.write",
    ),
    sh("changes its own plugin", "echo 'echo changed' >> @plugin@/program; echo x > @plugin@/made"),
    sh(
        "makes a set-user-id program",
        "cp /bin/true @writable@/su; chmod 4755 @writable@/su; chmod u+s,g+s @writable@/su; chmod 755 @writable@/su",
    ),
    python(
        "creates a set-user-id file",
        """
attempt("open", os.open, "@writable@/a", os.O_CREAT | os.O_WRONLY, 0o4755)
attempt("mknod", os.mknod, "@writable@/b", 0o104755)
attempt("chmod", lambda: (open("@writable@/c", "w").close(), os.chmod("@writable@/c", 0o6755)))
libc.syscall(2, b"@writable@/d", os.O_CREAT | os.O_WRONLY, 0o4755)
""",
    ),
    sh(
        "changes the kernel's settings",
        "echo '|/bin/true' > /proc/sys/kernel/core_pattern && echo ESCAPED; echo h > /proc/sysrq-trigger && echo ESCAPED",
    ),
    sh(
        "leaves its control group",
        "for f in $(ls -d /sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs 2>/dev/null); do echo $$ > $f && echo ESCAPED; done",
    ),
    sh(
        "writes a file that is too large",
        'head -c 3000000 /dev/zero > "$TMPDIR/big"; test $(stat -c %s "$TMPDIR/big") -gt 1048576 && echo ESCAPED',
        limits={"file_bytes": MEGABYTE},
    ),
]

TALKERS = [
    python(
        "connects over TCP",
        "s = socket.create_connection(('127.0.0.1', @port@), 2); s.send(b'hello')",
        hint="network",
    ),
    python(
        "sends over UDP",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', @port@))",
        hint="network",
    ),
    python("connects to a UNIX socket", "socket.socket(socket.AF_UNIX).connect('@socket@')", hint="network"),
    python(
        "opens sockets of every family",
        "for family in range(1, 46):\n  for kind in (1, 2, 3, 5):\n    r = libc.socket(family, kind, 0)\n    if r >= 0: print('ESCAPED', family, kind)\n",
    ),
    python(
        "sends from a pair of datagram sockets",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\nattempt('sendto', a.sendto, b'x', '@socket@')",
    ),
    sh("connects by the shell", "exec 5<>/dev/tcp/127.0.0.1/@port@ && echo ESCAPED; exit 1"),
    sh("resolves a name", "getent hosts example.com && echo ESCAPED"),
]

SURVIVORS = [
    python(
        "daemonises twice",
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for n in range(3): os.close(n)
        time.sleep(60)
    os._exit(0)
print("parent done")
""",
        says="parent done",
    ),
    sh(
        "leaves a session behind",
        "setsid sleep 60 & setsid -f sleep 60; nohup sleep 60 & echo done",
        says="done",
    ),
    sh("holds the pipe in a grandchild", "(sleep 60 &) ; echo '{\"a\": 1}'", says='{"a": 1}', seconds=20),
    sh("ignores SIGTERM", "trap '' TERM INT HUP; while :; do sleep 0.1; done", why=("timeout",), seconds=0.6),
    sh("stops itself", "kill -STOP $$; sleep 30", why=("timeout",), seconds=0.6),
    python(
        "closes its streams and stays",
        "for n in range(3): os.close(n)\ntime.sleep(30)",
        why=("timeout",),
        seconds=0.6,
    ),
    python(
        "leaves zombies without end",
        "for _ in range(150):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: time.sleep(0.01)\n",
        why=("exited", "processes"),
    ),
    c(
        "forks in SIGTERM",
        "void h(int s){ for(int i=0;i<7;i++) fork(); for(;;) pause(); } int main(){ signal(SIGTERM,h); for(;;) pause(); }",
        why=("timeout",),
        seconds=0.6,
    ),
    sh("never ends", "while :; do :; done", why=("timeout",), seconds=0.6),
    sh("uses up its processor time", "while :; do :; done", limits={"cpu_seconds": 1}, seconds=20),
]

GLUTTONS = [
    sh(
        "forks without end",
        "f() { f | f & }; f; sleep 0.7",
        why=("exited", "timeout", "processes"),
        seconds=3,
    ),
    python(
        "counts how many processes it gets",
        """
made = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
except OSError as error: print(error)
time.sleep(0.2)
if made > 64: print("ESCAPED", made)
""",
        why=("exited", "processes"),
    ),
    c(
        "takes memory",
        'int main(){ for(int i=0;i<900;i++){ char*p=malloc(1<<20); memset(p,1,1<<20); usleep(1000);} puts("ESCAPED"); }',
        why=("memory",),
        limits={"memory_bytes": 64 * MEGABYTE},
    ),
    c(
        "takes memory in many children",
        'int main(){ for(int c=0;c<8;c++) if(!fork()){ char*p=malloc(24<<20); memset(p,1,24<<20); sleep(5); _exit(0);} while(wait(0)>0); puts("ESCAPED"); }',
        why=("memory",),
        limits={"memory_bytes": 96 * MEGABYTE},
    ),
    c(
        "takes shared memory",
        'int main(){ size_t n=300u<<20; char*p=mmap(0,n,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); for(size_t i=0;i<n;i+=4096){p[i]=1; if(i%(1<<20)==0) usleep(1000);} puts("ESCAPED"); }',
        why=("memory",),
        limits={"memory_bytes": 64 * MEGABYTE},
    ),
    python("hides memory in files without a name", "attempt('memfd', os.memfd_create, 'x')"),
    sh(
        "fills its scratch directory",
        'for i in $(seq 40); do head -c 8000000 /dev/zero > "$TMPDIR/$i" || exit 1; done; echo ESCAPED',
        why=("exited", "memory"),
        limits={"memory_bytes": 64 * MEGABYTE},
        only_in_room=True,
    ),
    python(
        "makes directories deeper than anybody can follow",
        """
import time
os.chdir(os.environ["TMPDIR"])
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("hidden", "wb").write(bytes(100_000))
time.sleep(60)
""",
        why=("timeout", "scratch"),
        seconds=4,
    ),
    sh("floods standard output", "yes '{}'", why=("output",)),
    sh(
        "floods standard error",
        "yes complaint >&2",
        why=("output", "timeout"),
        seconds=4,
        limits={"output_bytes": 100_000},
    ),
    sh("says half and fails", "printf '{\"a\": '; exit 3", says='{"a": '),
    sh("says nothing", "exit 0"),
    sh("never reads its input", "sleep 0.2; echo done", input=b"x" * 5_000_000, says="done"),
    sh("closes its input", "exec 0<&-; sleep 0.1; echo done", input=b"x" * 5_000_000, says="done"),
]

CLIMBERS = [
    python(
        "leaves its namespaces",
        """
for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000), ("uts", 0x4000000)):
    attempt("unshare " + name, libc.unshare, flag)
attempt("clone", libc.syscall, 56, 0x10000011, 0, 0, 0, 0)
attempt("setns", lambda: libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
""",
    ),
    python(
        "mounts",
        """
attempt("mount", libc.mount, b"none", b"/tmp", b"tmpfs", 0, None)
attempt("remount", libc.mount, b"none", b"/usr", None, 32 | 4096, None)
attempt("umount", libc.umount2, b"/proc", 2)
attempt("chroot", os.chroot, "/")
attempt("pivot_root", libc.pivot_root, b"/", b"/")
""",
    ),
    python(
        "traces others",
        """
attempt("attach to parent", libc.ptrace, 16, os.getppid(), 0, 0)
attempt("attach to host", libc.ptrace, 16, @host@, 0, 0)
child = os.fork()
if child == 0: time.sleep(5); os._exit(0)
attempt("attach to child", libc.ptrace, 16, child, 0, 0)
attempt("memory of the parent", os.open, f"/proc/{os.getppid()}/mem", os.O_RDWR)
attempt("process_vm_readv", libc.process_vm_readv, os.getppid(), None, 0, None, 0, 0)
""",
    ),
    sh(
        "kills by number",
        "kill -9 @victim@; kill -9 @host@; kill -STOP @host@; kill -9 -1; echo done",
        why=("exited", "lost"),
    ),
    sh("kills its keeper", "kill -9 $PPID; kill -9 1; kill -TERM $PPID; sleep 0.3", why=("exited", "lost")),
    python(
        "raises its limits",
        """
for name in ("NOFILE", "FSIZE", "AS", "CPU"):
    which = getattr(resource, "RLIMIT_" + name)
    attempt(name, resource.setrlimit, which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
attempt("limits of the parent", resource.prlimit, os.getppid(), resource.RLIMIT_NOFILE, (3, 3))
""",
    ),
    python(
        "takes on another identity",
        """
if os.getuid() != 0: attempt("setuid", os.setuid, 0)
attempt("setuid", os.setuid, 12345)
attempt("setgroups", os.setgroups, [0])
attempt("capset", libc.capset, (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(1, 1, 1))
status = open("/proc/self/status").read()
if "CapEff:\\t0000000000000000" not in status or "CapBnd:\\t0000000000000000" not in status: print("ESCAPED", status)
if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status: print("ESCAPED", status)
""",
    ),
    python(
        "asks the kernel for strange things",
        """
attempt("personality", libc.personality, 0x0040000)
attempt("io_uring", libc.syscall, 425, 8, ctypes.create_string_buffer(200))
attempt("bpf", libc.syscall, 321, 0, 0, 0)
attempt("keyctl", libc.syscall, 250, 0, -3, 0)
attempt("userfaultfd", libc.syscall, 323, 1)
attempt("perf", libc.syscall, 298, ctypes.create_string_buffer(200), 0, -1, -1, 0)
attempt("open_by_handle_at", libc.syscall, 304, 0, 0, 0)
attempt("hostname", socket.sethostname, "taken")
attempt("time", time.clock_settime, time.CLOCK_REALTIME, 1.0)
attempt("reboot", libc.reboot, 0)
""",
    ),
    sh(
        "uses a set-user-id program",
        "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount /usr/bin/newgrp; do test -u $p && echo x | timeout 2 $p </dev/null; done; id -u",
    ),
]

HOSTILE = [*READERS, *WRITERS, *TALKERS, *SURVIVORS, *GLUTTONS, *CLIMBERS]
