"""Plugins that want what is not theirs: secrets, files, sockets, other processes, the kernel."""

from tests.plugins.hostile.records import Hostile, node, python, sh

READERS = [
    sh("prints its environment", "env; tr '\\0' '\\n' < /proc/self/environ"),
    node("prints its environment, from Node", "console.log(JSON.stringify(process.env))"),
    python(
        "reads the environment and the memory map of every process",
        """
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps", "root/etc/shadow", "cwd/secret.txt", "fd/0"):
        try: print(open(f"/proc/{pid}/{name}", "rb").read(100000))
        except OSError: pass
print("done")
""",
        says="done",
    ),
    python(
        "reads the memory of the host",
        """
attempt("mem", os.open, "/proc/@host@/mem", os.O_RDWR)
attempt("parent", os.open, f"/proc/{os.getppid()}/mem", os.O_RDWR)
attempt("attach", libc.ptrace, 16, @host@, 0, 0)
attempt("process_vm_readv", libc.process_vm_readv, @host@, None, 0, None, 0, 0)
""",
    ),
    sh(
        "reads the home directory",
        "ls -laR @home@; cat ~/.netrc; cat @home@/.ssh/id_rsa @home@/.netrc; exit 1",
        codes="forbidden",
        hint="files.read",
    ),
    sh(
        "reads a file outside",
        "cat '@workspace@/../outside/secret.txt' @outside@/secret.txt",
        codes="forbidden",
        hint="files.read",
    ),
    sh(
        "follows a link in scratch",
        'ln -s @outside@/secret.txt "$TMPDIR/l"; cat "$TMPDIR/l"',
        codes="failed forbidden",
    ),
    sh(
        "makes a hard link in scratch",
        'ln @outside@/secret.txt "$TMPDIR/l" && cat "$TMPDIR/l"',
        codes="failed forbidden",
    ),
    sh(
        "ships a link in its own directory",
        "cat @plugin@/cli-tools/data",
        links={"plugins/p/cli-tools/data": "@outside@/secret.txt"},
        codes="failed forbidden",
    ),
    sh(
        "follows a link in the workspace",
        "cat @workspace@/link",
        links={"link": "@outside@/secret.txt"},
        codes="failed forbidden",
    ),
    sh(
        "looks for secrets wherever something may lie",
        "grep -rsl canary- /tmp /var/tmp /run /dev/shm /root /home /etc | head; echo done",
        says="done",
    ),
    sh(
        "reads the system's passwords and keys",
        "cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_* && echo ESCAPED",
        codes="failed forbidden",
    ),
    python(
        "looks for descriptors that it inherited",
        """
for n in range(3, 256):
    try: target = os.readlink(f"/proc/self/fd/{n}")
    except OSError: continue
    if "/cli-tools/" not in target: print("ESCAPED", n, target)
print("done")
""",
        says="done",
    ),
    sh(
        "prints its sensitive setting everywhere",
        'echo "strands:progress $KEY" >&2; echo "log $KEY" >&2; '
        'echo "{\\"$KEY\\": [\\"x$KEY\\", \\"$(printf %s "$KEY" | base64)\\"]}"',
        config={"key": {"sensitive": True, "env": "KEY"}},
        says="***",
    ),
    sh(
        "fails with its sensitive setting",
        'echo "{\\"error\\": \\"bad key $KEY\\", \\"key\\": \\"$KEY\\"}"',
        config={"key": {"sensitive": True, "env": "KEY"}},
        codes="failed",
        says="bad key ***",
    ),
    sh(
        "crashes with its sensitive setting",
        'echo "used $KEY" >&2; cat "/nowhere/$KEY"; kill -SEGV $$',
        config={"key": {"sensitive": True, "env": "KEY"}},
        codes="crashed forbidden",
        says="***",
    ),
]

WRITERS = [
    sh(
        "writes outside",
        "echo x >> @outside@/secret.txt; rm -f @outside@/secret.txt; echo x > @outside@/made; exit 1",
        codes="forbidden",
        hint="files.write",
    ),
    sh(
        "writes to the workspace without being allowed to",
        "mv @workspace@/data.txt @workspace@/moved; touch @workspace@/made",
        codes="forbidden",
        hint="files.write",
    ),
    sh(
        "writes beside the place where it may",
        "echo x > out/../data.txt",
        files={"write": ["out"]},
        codes="forbidden",
        hint="files.write",
    ),
    sh(
        "links from where it may write to where it may not",
        "ln -sf @outside@/made out/l; echo x > out/l; ln -sf @outside@ out/d; echo x > out/d/made",
        files={"write": ["out"]},
        codes="failed forbidden",
    ),
    sh(
        "puts a link in the place where it may write",
        "rm -rf out; mv out gone; ln -s @outside@ out; echo x > out/made; test -L out && echo ESCAPED; exit 1",
        files={"write": ["out"]},
        codes="failed forbidden",
        calls=2,
    ),
    sh(
        "has a link where it may write",
        "echo x > out/door/made && echo ESCAPED",
        files={"write": ["out"]},
        links={"out/door": "@outside@"},
        codes="failed forbidden",
    ),
    sh(
        "changes its own executable",
        "echo 'echo ESCAPED' >> @plugin@/cli-tools/t; cp @plugin@/cli-tools/t x",
        codes="failed forbidden",
        calls=2,
    ),
    sh(
        "gives itself rights in its manifest",
        'sed -i \'s/"name"/"network": true, "name"/\' @plugin@/plugin.json; exit 1',
        files={"write": ["."]},
        codes="failed forbidden",
        calls=2,
    ),
    sh(
        "replaces its plugin while it may write the workspace",
        "mv plugins/p plugins/q; rm -rf plugins/p; echo x > plugins/p/cli-tools/t; exit 1",
        files={"write": ["."]},
        codes="failed forbidden",
    ),
    python(
        "makes set-user-id programs",
        """
attempt("open", os.open, "out/a", os.O_CREAT | os.O_WRONLY, 0o4755)
attempt("mknod", os.mknod, "out/b", 0o104755)
attempt("chmod", lambda: (open("out/c", "w").close(), os.chmod("out/c", 0o6755)))
""",
        files={"write": ["out"]},
    ),
    sh(
        "changes the kernel's settings",
        "echo '|/bin/true' > /proc/sys/kernel/core_pattern && echo ESCAPED",
        codes="failed forbidden",
    ),
    python(
        "opens devices",
        "for d in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/tty', '/dev/ptmx'):\n"
        "    attempt(d, os.open, d, os.O_RDWR)\n",
    ),
]

TALKERS = [
    python(
        "connects over TCP",
        "socket.create_connection(('127.0.0.1', @port@), 2).send(b'hello')",
        codes="forbidden",
        hint="network",
    ),
    python(
        "sends over UDP",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', @port@))",
        codes="forbidden",
        hint="network",
    ),
    python(
        "connects to a UNIX socket",
        "socket.socket(socket.AF_UNIX).connect('@socket@')",
        codes="forbidden",
        hint="network",
    ),
    python(
        "connects to a UNIX socket without a path",
        "socket.socket(socket.AF_UNIX).connect('\\0@abstract@')",
        codes="forbidden",
        hint="network",
    ),
    python(
        "waits for others to connect",
        "socket.create_server(('127.0.0.1', 0))",
        codes="forbidden",
        hint="network",
    ),
    python(
        "opens sockets of every family",
        "for family in range(1, 46):\n  for kind in (1, 2, 3, 5):\n"
        "    r = libc.socket(family, kind, 0)\n    if r >= 0: print('ESCAPED', family, kind)\nprint('done')",
        says="done",
    ),
    sh(
        "connects by the shell",
        "exec 5<>/dev/tcp/127.0.0.1/@port@ && echo ESCAPED; exit 1",
        codes="failed forbidden",
    ),
    node(
        "connects from Node",
        "require('net').connect(@port@, '127.0.0.1', () => console.log('ESCAPED'))",
        codes="forbidden",
        hint="network",
    ),
    sh("resolves a name", "getent hosts example.com && echo ESCAPED", codes="failed forbidden"),
]

CLIMBERS = [
    sh(
        "kills by number",
        "kill -9 @victim@; kill -9 @host@; kill -STOP @host@; kill -9 -1; echo done",
        codes="answer crashed",
    ),
    sh("kills its group", "echo begun; kill -9 0", codes="crashed"),
    sh(
        "kills its keeper",
        "kill -9 $PPID; kill -9 1; kill -TERM $PPID; sleep 0.3; echo done",
        codes="answer crashed",
    ),
    python(
        "leaves its namespaces and mounts",
        """
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x4000000):
    attempt("unshare", libc.unshare, flag)
attempt("setns", lambda: libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
attempt("mount", libc.mount, b"none", b"/tmp", b"tmpfs", 0, None)
attempt("remount", libc.mount, b"none", b"/usr", None, 32 | 4096, None)
attempt("chroot", os.chroot, "/")
""",
    ),
    python(
        "raises its limits and takes on another identity",
        """
for name in ("NOFILE", "FSIZE", "AS", "CPU"):
    attempt(name, resource.setrlimit, getattr(resource, "RLIMIT_" + name), (resource.RLIM_INFINITY,) * 2)
attempt("setuid", os.setuid, 12345)
attempt("setgroups", os.setgroups, [0])
status = open("/proc/self/status").read()
if "CapEff:\\t0000000000000000" not in status or "NoNewPrivs:\\t1" not in status: print("ESCAPED", status)
""",
    ),
]

CONFINED: list[Hostile] = [*READERS, *WRITERS, *TALKERS, *CLIMBERS]
