"""Without namespaces, what a call leaves behind or learns is bounded, and what is not is told."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.sandbox.executables import (
    Finished,
    environment_for,
    executables_level,
    level_from_abilities,
    run_confined,
)
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, MEGABYTE
from strands_cli.sandbox.spawner_handle import Abilities
from tests.sandbox.hostile_programs import SYSTEM_PYTHON
from tests.sandbox.test_executables import need

LEVELS = [True, False]
SANDBOX_PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "sandbox.md"


def run(place: Path, source: str, *, room: bool, **changes: Any) -> Finished:
    need(SYSTEM_PYTHON)
    begin = (
        "import ctypes, os, socket, sys, time\nMB = 1 << 20\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def tried(result):\n    if result in (-1, 2**64 - 1): raise OSError(ctypes.get_errno(), 'refused')\n    return result\n"
    )
    profile = msgspec.structs.replace(
        EXECUTABLE_PROFILE, **{"environment": environment_for(()), "seconds": 20.0, **changes}
    )
    program = [SYSTEM_PYTHON, "-c", begin + source]
    return asyncio.run(run_confined(program, profile, cwd=place, room=room))


def is_left() -> bool:
    """Whether there is an object of System V with the key of these attacks."""
    lines = [
        line
        for kind in ("shm", "msg", "sem")
        for line in Path("/proc/sysvipc", kind).read_text().splitlines()
    ]
    return any(line.split()[0] == str(0x5EED) for line in lines)


LEFT_BEHIND = {
    "a segment": "tried(libc.shmget(0x5eed, 4096, 0o1666))",
    "a queue": "tried(libc.msgget(0x5eed, 0o1666))",
    "a semaphore": "tried(libc.semget(0x5eed, 1, 0o1666))",
    "a posix queue": "tried(ctypes.CDLL('librt.so.1', use_errno=True).mq_open(b'/seed', os.O_CREAT | os.O_RDWR, 0o600, None))",
    "a named segment": "tried(libc.shm_open(b'/seed', os.O_CREAT | os.O_RDWR, 0o600))",
    "a file in /dev/shm": "open('/dev/shm/seed', 'w').write('x')",
    "a file in the temporary directory": "open('/var/tmp/seed', 'w').write('x')",
}


@pytest.mark.parametrize("room", LEVELS)
@pytest.mark.parametrize("what", LEFT_BEHIND)
def test_nothing_of_a_call_outlives_it(tmp_path: Path, what: str, room: bool) -> None:
    finished = run(tmp_path, f"{LEFT_BEHIND[what]}\nprint('made')", room=room)
    try:
        assert not is_left()
    finally:  # or one failure makes all later runs on this machine fail
        subprocess.run(
            ["ipcrm", *("-M", "0x5eed"), *("-Q", "0x5eed"), *("-S", "0x5eed")],
            capture_output=True,
            check=False,
        )
    assert not any(os.path.lexists(path) for path in ("/dev/shm/seed", "/dev/mqueue/seed", "/var/tmp/seed"))
    is_own = room and what in ("a named segment", "a file in /dev/shm")  # a room has its own, in its scratch
    assert is_own or finished.exit.status, finished


@pytest.mark.parametrize("room", LEVELS)
def test_a_segment_of_another_process_is_not_attached(tmp_path: Path, room: bool) -> None:
    owner = (
        "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "number = libc.shmget(0, 4096, 0o1600)\nplace = libc.shmat(number, None, 0)\n"
        "ctypes.memmove(ctypes.c_void_p(place), b'canary-77', 9)\nprint(number, flush=True)\nsys.stdin.read()\n"
        "libc.shmctl(number, 0, None)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", owner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        number = int(process.stdout.readline())
        source = f"libc.shmat.restype = ctypes.c_void_p\nprint(ctypes.string_at(tried(libc.shmat({number}, None, 0)), 9))"
        finished = run(tmp_path, source, room=room)
        process.communicate("")
    assert b"canary" not in finished.stdout
    assert b"refused" in finished.stderr


FILLERS = {
    "files": "for n in range(40): open(f'{os.environ[\"TMPDIR\"]}/{n}', 'wb').write(bytes(8 * MB))",
    "deep files": (
        "place = os.environ['TMPDIR']\n"
        "for n in range(40):\n    place += '/d'; os.mkdir(place); open(f'{place}/x', 'wb').write(bytes(8 * MB))"
    ),
    "deleted files": (
        "kept = []\n"
        "for n in range(40):\n"
        "    kept.append(os.open(f'{os.environ[\"HOME\"]}/x', os.O_CREAT | os.O_RDWR)); os.unlink(f'{os.environ[\"HOME\"]}/x')\n"
        "    os.write(kept[-1], bytes(8 * MB))"
    ),
    "files of a child": (
        "for n in range(40):\n    if not os.fork():\n"
        "        open(f'{os.environ[\"HOME\"]}/{n}', 'wb').write(bytes(8 * MB)); os._exit(0)\n    if os.wait()[1]: sys.exit('No space')"
    ),
    "hidden files": "for n in range(40): open(f'{os.environ[\"HOME\"]}/.{n}', 'wb').write(bytes(8 * MB))",
}


@pytest.mark.parametrize("room", LEVELS)
@pytest.mark.parametrize("what", FILLERS)
def test_the_scratch_directory_is_bounded_as_a_whole(tmp_path: Path, what: str, room: bool) -> None:
    finished = run(
        tmp_path, f"{FILLERS[what]}\ntime.sleep(15)\nprint('filled')", room=room, memory_bytes=128 * MEGABYTE
    )
    assert b"filled" not in finished.stdout
    assert finished.exit.why in ("scratch", "memory") or b"No space" in finished.stderr, finished
    assert finished.seconds < 14


def test_a_full_scratch_directory_is_named_as_the_reason(tmp_path: Path) -> None:
    finished = run(tmp_path, f"{FILLERS['files']}\ntime.sleep(15)", room=False, memory_bytes=128 * MEGABYTE)
    assert "scratch directory" in finished.exit.text


def weaknesses(*, landlock: int, room: bool, memory: str) -> str:
    found = Abilities(
        landlock=landlock, room=room, why_no_room="", why_not_alone="", processes="rlimit", memory=memory
    )
    return " ".join(level_from_abilities(found).weaknesses)


def test_each_level_tells_what_it_leaves_open() -> None:
    assert weaknesses(landlock=6, room=True, memory="cgroup") == ""
    assert "memory" in weaknesses(landlock=6, room=True, memory="watched")
    plain = weaknesses(landlock=6, room=False, memory="cgroup")
    assert "arguments of the other processes" in plain
    assert "whether any file exists" in plain
    assert "every file" not in plain
    assert "pipes" in weaknesses(landlock=0, room=True, memory="cgroup")
    assert "every file" in weaknesses(landlock=0, room=False, memory="cgroup")


def test_the_page_of_the_sandbox_tells_the_same() -> None:
    page = " ".join(SANDBOX_PAGE.read_text("utf-8").split())
    for landlock in (0, 6):
        for room in LEVELS:
            for memory in ("cgroup", "watched"):
                found = Abilities(
                    landlock=landlock,
                    room=room,
                    why_no_room="",
                    why_not_alone="",
                    processes="",
                    memory=memory,
                )
                missing = [text for text in level_from_abilities(found).weaknesses if text not in page]
                assert not missing


@pytest.mark.parametrize("room", LEVELS)
def test_what_is_told_is_true(tmp_path: Path, room: bool) -> None:
    """With namespaces neither works; without them both do, so that the words in `doctor` are needed."""
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text("12345")
    (tmp_path / "work").mkdir()
    with subprocess.Popen(["/bin/sleep", "60.77"]) as other:
        look = f"print(os.path.exists('{secret}'), [1 for p in os.listdir('/proc') if p == '{other.pid}'])"
        finished = run(tmp_path / "work", look, room=room)
        other.kill()
    assert finished.stdout.strip() == (b"False []" if room else b"True [1]")


def test_doctor_shows_the_level_of_plugins() -> None:
    command = [sys.executable, "-m", "strands_cli", "doctor"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    level = executables_level()
    assert f"plugins       {level.name}: " in shown
    for text in level.weaknesses:
        assert text in shown
