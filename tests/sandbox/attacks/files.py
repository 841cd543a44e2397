"""Attacks on files: reading, writing, looking around, links.

`os` and `open` show confined code a tree in memory; `posix` and `_io` are what lies below them.
"""

from tests.sandbox.attacks.records import LANDLOCK, LEAK, REACHED, SECCOMP, UID, WRITE, Attack, Rows

BOTH = (SECCOMP, LANDLOCK)

READING: Rows = [
    Attack("read: open", LEAK, BOTH, "print(open(CANARY + '/secret.txt').read())"),
    Attack(
        "read: os.open",
        LEAK,
        BOTH,
        "import posix as os\nprint(os.read(os.open(CANARY + '/secret.txt', os.O_RDONLY), 999))",
    ),
    Attack("read: FileIO", LEAK, BOTH, "import _io\nprint(_io.FileIO(CANARY + '/secret.txt').readall())"),
    Attack("read: open_code", LEAK, BOTH, "import io\nprint(io.open_code(CANARY + '/secret.txt').read())"),
    Attack(
        "read: pathlib",
        LEAK,
        BOTH,
        "from pathlib import Path\nprint((Path(CANARY) / 'secret.txt').read_text())",
    ),
    Attack("read: codecs", LEAK, BOTH, "import codecs\nprint(codecs.open(CANARY + '/secret.txt').read())"),
    Attack(
        "read: linecache", LEAK, BOTH, "import linecache\nprint(linecache.getlines(CANARY + '/secret.txt'))"
    ),
    Attack(
        "read: fileinput",
        LEAK,
        BOTH,
        "import fileinput\nprint(list(fileinput.input([CANARY + '/secret.txt'])))",
    ),
    Attack(
        "read: mmap",
        LEAK,
        BOTH,
        "import mmap, posix as os\nf = os.open(CANARY + '/secret.txt', 0)\nprint(mmap.mmap(f, 0, prot=mmap.PROT_READ)[:])",
    ),
    Attack(
        "read: sendfile into a pipe",
        LEAK,
        BOTH,
        "import posix as os\nr, w = os.pipe()\nos.sendfile(w, os.open(CANARY + '/secret.txt', 0), 0, 999)\nprint(os.read(r, 999))",
    ),
    Attack(
        "read: splice into a pipe",
        LEAK,
        BOTH,
        "import posix as os\nr, w = os.pipe()\nos.splice(os.open(CANARY + '/secret.txt', 0), w, 999)\nprint(os.read(r, 999))",
    ),
    Attack(
        "read: a directory opened first",
        LEAK,
        BOTH,
        "import posix as os\nd = os.open(CANARY, os.O_PATH)\nprint(os.read(os.open('secret.txt', 0, dir_fd=d), 999))",
    ),
    Attack(
        "read: openat2",
        LEAK,
        BOTH,
        """
import ctypes, struct
import posix as os
how = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, 0))
print(os.read(granted(libc().syscall(437, -100, f"{CANARY}/secret.txt".encode(), how, 24)), 999))
""",
    ),
    Attack(
        "read: open_by_handle_at",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        """
import ctypes, struct
import posix as os
c = libc()
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
mount = ctypes.c_int()
granted(c.name_to_handle_at(-100, f"{CANARY}/secret.txt".encode(), handle, ctypes.byref(mount), 0))
place = os.open(CANARY, os.O_RDONLY)
print(os.read(granted(c.open_by_handle_at(place, handle, 0)), 999))
""",
    ),
    Attack(
        "read: the home directory of the host",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        "import _io\nprint(_io.open(HOME + '/.secret').read())",
    ),
    Attack(
        "read: /etc/passwd",
        REACHED,
        BOTH,
        "from _io import open\nif 'root' in open('/etc/passwd').read(): reached()",
    ),
    Attack(
        "read: a device",
        REACHED,
        BOTH,
        "from _io import open\nif open('/dev/urandom', 'rb').read(8): reached()",
    ),
    Attack(
        "read: configparser",
        LEAK,
        BOTH,
        "import configparser\nc = configparser.ConfigParser()\nc.read(CANARY + '/secret.txt')",
    ),
]

LOOKING: Rows = [
    Attack(
        "look: names in a directory",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        "import posix as os\nprint(os.listdir(HOME))",
    ),
    Attack(
        "look: scandir",
        LEAK,
        (SECCOMP, LANDLOCK, UID),
        "import posix as os\nprint([entry.name for entry in os.scandir(HOME)])",
    ),
    Attack("look: glob", LEAK, (SECCOMP, LANDLOCK, UID), "import glob\nprint(glob.glob(HOME + '/*'))"),
    Attack(
        "look: where a link points",
        LEAK,
        (SECCOMP,),
        "import posix as os\nprint(os.readlink(CANARY + '/link'))",
    ),
    Attack(
        "look: realpath of a link", LEAK, (SECCOMP,), "import os\nprint(os.path.realpath(CANARY + '/link'))"
    ),
    Attack(
        "look: stat",
        REACHED,
        (SECCOMP,),
        "import posix as os\nif os.stat(CANARY + '/secret.txt').st_size: reached()",
    ),
    Attack(
        "look: access",
        REACHED,
        (SECCOMP,),
        "import posix as os\nif os.access(CANARY + '/secret.txt', os.R_OK): reached()",
    ),
    Attack(
        "look: statvfs", REACHED, (SECCOMP,), "import posix as os\nif os.statvfs(CANARY).f_blocks: reached()"
    ),
    Attack(
        "look: statx",
        REACHED,
        (SECCOMP,),
        """
import ctypes
granted(libc().statx(-100, f"{CANARY}/secret.txt".encode(), 0, 0xFFF, ctypes.create_string_buffer(512)))
reached()
""",
    ),
    Attack(
        "look: inotify on the home directory",
        REACHED,
        (SECCOMP, UID),
        """
c = libc()
watch = granted(c.inotify_init1(0))
granted(c.inotify_add_watch(watch, HOME.encode(), 0xFFF))
reached()
""",
    ),
    Attack(
        "look: the working directory", REACHED, (SECCOMP,), "import posix as os\nos.chdir(CANARY)\nreached()"
    ),
]

WRITING: Rows = [
    Attack("write: open", WRITE, BOTH, "open(DROP + '/made', 'w').write('x')"),
    Attack("write: append", WRITE, BOTH, "from _io import open\nopen(DROP + '/victim.txt', 'a').write('x')"),
    Attack(
        "write: os.open", WRITE, BOTH, "import posix as os\nos.open(DROP + '/made', os.O_CREAT | os.O_WRONLY)"
    ),
    Attack("write: truncate", WRITE, BOTH, "import posix as os\nos.truncate(DROP + '/victim.txt', 0)"),
    Attack("write: unlink", WRITE, BOTH, "import posix as os\nos.unlink(DROP + '/victim.txt')"),
    Attack(
        "write: rename", WRITE, BOTH, "import posix as os\nos.rename(DROP + '/victim.txt', DROP + '/moved')"
    ),
    Attack(
        "write: hard link", WRITE, BOTH, "import posix as os\nos.link(DROP + '/victim.txt', DROP + '/linked')"
    ),
    Attack("write: mkdir", WRITE, BOTH, "import posix as os\nos.mkdir(DROP + '/made')"),
    Attack(
        "write: chmod", WRITE, (SECCOMP, UID), "import posix as os\nos.chmod(DROP + '/victim.txt', 0o777)"
    ),
    Attack(
        "write: chown",
        WRITE,
        (SECCOMP, UID),
        "import posix as os\nos.chown(DROP + '/victim.txt', 1234, 1234)",
    ),
    Attack(
        "write: times", WRITE, (SECCOMP, UID), "import posix as os\nos.utime(DROP + '/victim.txt', (1, 1))"
    ),
    Attack(
        "write: attribute",
        WRITE,
        (SECCOMP,),
        "import posix as os\nos.setxattr(DROP + '/victim.txt', 'user.x', b'y')",
    ),
    Attack("write: fifo", WRITE, BOTH, "import posix as os\nos.mkfifo(DROP + '/made')"),
    Attack(
        "write: device node",
        WRITE,
        (*BOTH, UID),
        "import posix as os\nos.mknod(DROP + '/made', 0o20666, os.makedev(1, 3))",
    ),
    Attack(
        "write: a nameless file that gets a name",
        WRITE,
        BOTH,
        """
import posix as os
f = os.open(DROP, os.O_TMPFILE | os.O_WRONLY)
granted(libc().linkat(f, b"", -100, f"{DROP}/made".encode(), 0x1000))
""",
    ),
    Attack(
        "write: tempfile", REACHED, BOTH, "import tempfile\ntempfile.NamedTemporaryFile(dir=DROP)\nreached()"
    ),
    Attack(
        "write: a log",
        WRITE,
        BOTH,
        "import logging\nlogging.FileHandler(DROP + '/made').emit(logging.makeLogRecord({}))",
    ),
    Attack(
        "write: a database",
        WRITE,
        BOTH,
        "import sqlite3\nsqlite3.connect(DROP + '/made').execute('create table t (x)')",
    ),
    Attack("write: a shelf", WRITE, BOTH, "import dbm.dumb\ndbm.dumb.open(DROP + '/made')['x'] = 'y'"),
    Attack(
        "write: copy of a secret to a place of ours",
        WRITE,
        BOTH,
        "import shutil\nshutil.copyfile(CANARY + '/secret.txt', DROP + '/copied')",
    ),
    Attack(
        "write: a socket in the file system",
        WRITE,
        (*BOTH,),
        "import socket\nsocket.socket(socket.AF_UNIX).bind(DROP + '/made')",
    ),
]

LINKS: Rows = [
    Attack(
        "links: a symbolic link to a secret, then opened",
        LEAK,
        BOTH,
        "import posix as os\nfrom _io import open\nos.symlink(CANARY + '/secret.txt', DROP + '/l')\nprint(open(DROP + '/l').read())",
    ),
    Attack(
        "links: open of a path with dots",
        LEAK,
        BOTH,
        "from _io import open\nprint(open(DROP + '/../../secret.txt').read())",
    ),
    Attack(
        "links: a file given to the call, with dots",
        LEAK,
        BOTH,
        "print(open('given.txt').read())\nprint(open('given.txt/../../../../../..' + CANARY + '/secret.txt').read())",
        input={"files": {"given.txt": "given"}},
    ),
    Attack(
        "links: a file given to the call replaced by a link",
        LEAK,
        BOTH,
        "import posix as os\nos.remove('given.txt')\nos.symlink(CANARY + '/secret.txt', 'given.txt')\nprint(open('given.txt').read())",
        input={"files": {"given.txt": "given"}},
    ),
    Attack(
        "links: the files of the call written under a path outside",
        WRITE,
        BOTH,
        """
for name in (DROP + "/made", "../" * 12 + DROP + "/made", "a/../../" + DROP + "/made", "file://" + DROP + "/made"):
    try:
        with open(name, "w") as file:
            file.write("x")
    except (OSError, ValueError) as error:
        print(error)
""",
        input={"files": {"given.txt": "given"}},
    ),
    Attack(
        "links: the opener of the in-memory open",
        LEAK,
        BOTH,
        "import posix as os\nprint(open(CANARY + '/secret.txt', opener=lambda path, flags: os.open(path, flags)).read())",
    ),
]

ATTACKS = {"files: reading": READING, "files: looking": LOOKING, "files: writing": WRITING, "links": LINKS}
