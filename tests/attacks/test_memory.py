"""The memory of a whole call is bounded, also where no process has it mapped."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from strands_cli.sandbox.executables import environment_for, run_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, MEGABYTE
from tests.sandbox.hostile_programs import SYSTEM_PYTHON
from tests.sandbox.test_executables import need

LIMIT = 64 * MEGABYTE
"""Small, so that a test takes little; each program tries to hold three times as much."""

BEGIN = """
import ctypes, mmap, os, resource, signal, socket, sys, time
MB, GOAL = 1 << 20, 192 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.shmat.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.shmdt.argtypes = [ctypes.c_void_p]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def tried(result):
    if result in (-1, None, 2**64 - 1): raise OSError(ctypes.get_errno(), "refused")
    return result
def holding():
    time.sleep(1.0)
    os.write(1, b"holding")
def shared(size, descriptor=-1):
    return tried(libc.mmap(None, size, 3, 1 if descriptor >= 0 else 33, descriptor, 0))
def fill(sockets):
    for one in sockets:
        one.setblocking(False)
        try:
            while one.send(b"x" * 65536): pass
        except BlockingIOError: pass
"""

PROGRAMS = {
    "system v segments": """
for _ in range(12):
    number = tried(libc.shmget(0, 16 * MB, 0o1600))
    place = tried(libc.shmat(number, None, 0))
    ctypes.memset(place, 1, 16 * MB)
    tried(libc.shmdt(place))
holding()
""",
    "a segment without pages in any table": """
place = shared(GOAL)
for start in range(0, GOAL, 4 * MB):
    ctypes.memset(place + start, 1, 4 * MB)
    libc.madvise(place + start, 4 * MB, 4)
holding()
""",
    "a segment of /dev/zero": """
place = shared(GOAL, os.open("/dev/zero", os.O_RDWR))
for start in range(0, GOAL, 4 * MB):
    ctypes.memset(place + start, 1, 4 * MB)
    libc.madvise(place + start, 4 * MB, 4)
holding()
""",
    "a segment that a child inherits and never touches": """
place = shared(GOAL)
for start in range(0, GOAL, 2 * MB):
    if not os.fork():
        ctypes.memset(place + start, 1, 2 * MB)
        os._exit(0)
    os.wait()
holding()
""",
    "a segment of a process that nobody may look into": """
libc.prctl(4, 0, 0, 0, 0)
place = shared(GOAL)
for start in range(0, GOAL, 4 * MB):
    ctypes.memset(place + start, 1, 4 * MB)
    libc.madvise(place + start, 4 * MB, 4)
holding()
""",
    "many small segments": """
for _ in range(192):
    place = shared(MB)
    ctypes.memset(place, 1, MB)
    libc.madvise(place, MB, 4)
holding()
""",
    "memory files": """
kept = [os.memfd_create("x") for _ in range(12)]
for one in kept:
    os.write(one, bytes(16 * MB))
holding()
""",
    "deleted files in memory": """
kept = []
for number in range(12):
    name = f"/dev/shm/{number}"
    kept.append(os.open(name, os.O_CREAT | os.O_RDWR))
    os.unlink(name)
    if os.write(kept[-1], bytes(15 * MB)) < 15 * MB: sys.exit("refused")
holding()
""",
    "large socket buffers": """
kept = [one for _ in range(50) for one in socket.socketpair()]
for one in kept:
    for option in (7, 32):
        try: one.setsockopt(1, option, 4 * MB)
        except OSError: pass
if kept[0].getsockopt(1, 7) < MB: sys.exit("refused")
fill(kept)
holding()
""",
    "many socket buffers": """
for _ in range(11):
    ready, tell = os.pipe()
    if not os.fork():
        kept = [one for _ in range(55) for one in socket.socketpair()]
        fill(kept)
        os.write(tell, b"1")
        time.sleep(20)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
holding()
""",
    "sockets in sockets": """
held, parked = [], socket.socketpair()
parked[0].setblocking(False)
for _ in range(1000):
    pair = socket.socketpair()
    fill(pair)
    socket.send_fds(parked[0], [b"x"], [one.fileno() for one in pair])
holding()
""",
    "large pipes": """
for _ in range(4):
    for _ in range(55):
        reading, writing = os.pipe()
        fcntl = libc.fcntl(writing, 1031, MB)
        if fcntl < MB: sys.exit("refused")
        os.set_blocking(writing, False)
        os.write(writing, bytes(MB))
    if os.fork(): time.sleep(20)
holding()
""",
    "pages in a pipe": """
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
for _ in range(12):
    reading, writing = os.pipe()
    place = tried(libc.mmap(None, 34 * MB, 3, 34, -1, 0))
    place = (place + 2 * MB - 1) // (2 * MB) * 2 * MB
    libc.madvise(place, 32 * MB, 14)
    for number in range(16):
        ctypes.memset(place + number * 2 * MB, 1, 4096)
        tried(libc.vmsplice(writing, ctypes.byref(Vector(place + number * 2 * MB, 1)), 1, 0))
    libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(32 * MB))
holding()
""",
    "system v messages": """
for _ in range(200):
    queue = tried(libc.msgget(0, 0o1600))
    tried(libc.msgsnd(queue, ctypes.create_string_buffer(b"\\1" + bytes(8199)), 8192, 0o4000))
holding()
""",
    "posix queues": """
lib = ctypes.CDLL("librt.so.1", use_errno=True)
tried(lib.mq_open(b"/x", os.O_CREAT | os.O_RDWR, 0o600, None))
holding()
""",
    "plain memory in many processes": """
for _ in range(12):
    if not os.fork():
        kept = bytearray(16 * MB)
        time.sleep(20)
holding()
""",
}


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_call_does_not_hold_more_than_it_may(tmp_path: Path, what: str, room: bool) -> None:
    need(SYSTEM_PYTHON)
    profile = msgspec.structs.replace(
        EXECUTABLE_PROFILE, environment=environment_for(()), memory_bytes=LIMIT, seconds=20.0
    )
    program = [SYSTEM_PYTHON, "-c", BEGIN + PROGRAMS[what]]
    finished = asyncio.run(run_confined(program, profile, cwd=tmp_path, room=room))
    assert b"holding" not in finished.stdout
    ended_by_itself = finished.exit.why == "exited"
    assert not ended_by_itself or finished.exit.status, finished
    refusals = (
        b"refused",
        b"not permitted",
        b"denied",
        b"No space",
        b"not implemented",
        b"Too many",
        b"MemoryError",
    )
    assert not ended_by_itself or any(text in finished.stderr for text in refusals), finished
