"""Executables under confinement: hostile ones get nothing and leave nothing, good ones run as anywhere else."""

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.errors import ToolError
from strands_cli.sandbox import process_tree
from strands_cli.sandbox.executables import (
    ExecutableLevel,
    Finished,
    complete_confined,
    environment_for,
    executables_level,
    level_from_abilities,
    require_confinement,
    run_confined,
    start_confined,
)
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, Profile
from strands_cli.sandbox.seccomp import further_filter
from strands_cli.sandbox.spawner import cgroups
from strands_cli.sandbox.spawner.slot import remove_scratch
from strands_cli.sandbox.spawner_handle import Abilities, shared_spawner
from tests.sandbox.hostile_programs import HOSTILE, SHEBANGS, SYSTEM_PYTHON, Hostile
from tests.sandbox.ordinary_user import as_nobody, ordinary_user

CANARY = "canary-7f3a9c51"
NEEDS = {"c": "gcc", "node": "node", "python": SYSTEM_PYTHON, "sh": "bash"}
LEVELS = [True, False]


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
                pytest.fail(f"{program} is missing")
            pytest.skip(f"{program} is missing")


@dataclass
class Place:
    """What a test prepares: a plugin, a workspace, a place to write, and an outside with secrets."""

    root: Path
    mark: str

    def __getattr__(self, name: str) -> Path:
        return self.root / name

    def profile(self, **changes: Any) -> Profile:
        environment = environment_for(()) | {"STRANDS_TEST_MARK": self.mark}
        values = {"reads": (str(self.plugin),), "writes": (str(self.writable),), "environment": environment}
        return msgspec.structs.replace(EXECUTABLE_PROFILE, **(values | changes))

    def program(self, language: str, source: str, name: str = "program") -> str:
        need(NEEDS[language])
        file = self.plugin / name
        if language == "c":
            (self.root / "program.c").write_text(source)
            subprocess.run(["gcc", "-w", "-O0", "-o", file, self.root / "program.c"], check=True)
        else:
            file.write_text(SHEBANGS[language] + source)
            file.chmod(0o755)
        return str(file)

    def run(
        self, argv: list[str], *, room: bool = True, profile: Profile | None = None, **options: Any
    ) -> Finished:
        call = run_confined(argv, profile or self.profile(), cwd=self.workspace, room=room, **options)
        return asyncio.run(call)

    def survivors(self) -> list[int]:
        proc = process_tree.open_proc()
        try:
            return process_tree.marked_processes(f"STRANDS_TEST_MARK={self.mark}", proc)
        finally:
            os.close(proc)

    def nothing_survives(self) -> bool:
        deadline = time.monotonic() + 20
        while self.survivors() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.survivors()

    async def populated(self, count: int) -> None:
        while len(self.survivors()) < count:  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.02)

    def contents(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for file in sorted(self.root.rglob("*")):
            if file.is_file() and not file.is_relative_to(self.writable):
                found[str(file)] = (file.stat().st_mode, file.read_bytes())
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path, f"{os.getpid()}-{time.monotonic_ns()}")
    for name in ("plugin", "workspace", "writable", "outside", "home/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("outside/secret.txt", "home/.ssh/id_rsa", "home/.netrc"):
        (tmp_path / name).write_text(CANARY)
    (made.workspace / "data.txt").write_text("data\n")
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    return made


class Listener:
    """Hears whoever connects, by TCP, UDP or a UNIX socket."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "socket")
        self.sockets = [socket.socket(family) for family in (socket.AF_INET, socket.AF_UNIX)]
        self.sockets[0].bind(("127.0.0.1", 0))
        self.port = self.sockets[0].getsockname()[1]
        here = os.open(directory, os.O_RDONLY)
        self.sockets[1].bind(f"/proc/self/fd/{here}/socket")  # the path itself may be too long for an address
        os.close(here)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.port))
        for server in self.sockets:
            server.listen()

    def heard(self) -> bool:
        poll = select.poll()
        for server in (*self.sockets, self.datagrams):
            poll.register(server, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        for server in (*self.sockets, self.datagrams):
            server.close()


@pytest.fixture
def listener(place: Place) -> Iterator[Listener]:
    made = Listener(place.workspace)
    yield made
    made.close()


@pytest.fixture
def victim() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    assert process.poll() is None, "an executable ended a process that is not its own"
    process.kill()
    process.wait()


@pytest.mark.parametrize("room", LEVELS, ids=["room", "plain"])
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda item: item.name)
def test_a_hostile_program_gets_nothing_and_leaves_nothing(
    hostile: Hostile, room: bool, place: Place, listener: Listener, victim: int
) -> None:
    if hostile.only_in_room and not room:
        pytest.skip("without a room, scratch is a directory on the disk")
    source = hostile.source
    values = {"port": listener.port, "socket": listener.path, "victim": victim, "host": os.getpid()}
    for name in ("outside", "workspace", "writable", "plugin", "home"):
        values[name] = str(place.root / name)
    for name, value in values.items():
        source = source.replace(f"@{name}@", str(value))
    argv = [place.program(hostile.language, source)]
    before = place.contents()
    profile = place.profile(**hostile.limits)
    done = place.run(argv, room=room, profile=profile, seconds=hostile.seconds, input=hostile.input)
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.exit.why in hostile.why, (done.exit, said[-2000:])
    assert done.seconds < hostile.seconds + 2
    assert CANARY not in said
    assert "ESCAPED" not in said
    assert hostile.says in said
    assert len(done.stdout) <= profile.output_bytes
    assert len(done.stderr) <= profile.output_bytes
    assert place.contents() == before, "something was changed"
    assert not [file for file in place.writable.iterdir() if file.stat().st_mode & 0o6000]
    assert not listener.heard()
    assert place.nothing_survives()
    if hostile.hint is not None:
        assert done.hint is not None, said
        assert done.hint.key == hostile.hint
    if "@outside@" in hostile.source and room:
        assert done.hint is None or str(place.outside) in done.hint.text


# --- Good programs ----------------------------------------------------------------------------------------

GOOD = {
    "jq": ("sh", "jq -c '{sum: (.a + .b)}'", b'{"a": 1, "b": 2}', b'{"sum":3}\n'),
    "node": (
        "node",
        "let t = ''; process.stdin.on('data', d => t += d).on('end', () => {\n"
        "  const r = require('child_process').execFileSync('echo', ['child']).toString().trim();\n"
        "  console.log(JSON.parse(t).a, r); });",
        b'{"a": 5}',
        b"5 child\n",
    ),
    "python3": (
        "python",
        "import json, sys, subprocess, tempfile, threading, sqlite3, multiprocessing\n"
        "with tempfile.NamedTemporaryFile('w+') as f: f.write('x'); f.flush()\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(json.load(sys.stdin)['a'], subprocess.check_output(['echo', 'child'], text=True).strip(), flush=True)\n",
        b'{"a": 5}',
        b"thread\n5 child\n",
    ),
    "gcc": (
        "c",
        '#include <stdio.h>\nint main(){ char b[99]; fgets(b, 99, stdin); printf("got %s", b); return 0; }',
        b"words\n",
        b"got words\n",
    ),
    "bash": (
        "sh",
        "sort <(printf 'b\\na\\n') | tr a-z A-Z | while read l; do echo \"$l\"; done; "
        "yes | head -n 1; cat <<< here; echo $(pwd | wc -l) > $TMPDIR/x; cat $TMPDIR/x; cat > /dev/null",
        b"ignored",
        b"A\nB\ny\nhere\n1\n",
    ),
    "git": (
        "sh",
        "cd @writable@ && git init -q . && echo x > f && git add f && "
        "git -c user.name=a -c user.email=a@b commit -q -m first && git log --format=%s",
        b"",
        b"first\n",
    ),
}


@pytest.mark.parametrize("room", LEVELS, ids=["room", "plain"])
@pytest.mark.parametrize("name", GOOD)
def test_a_good_program_runs_as_anywhere_else(name: str, room: bool, place: Place) -> None:
    need(name)
    language, source, given, expected = GOOD[name]
    argv = [place.program(language, source.replace("@writable@", str(place.writable)))]
    done = place.run(argv, room=room, input=given, seconds=20)
    assert (done.exit.why, done.exit.status) == ("exited", 0), (done.exit, done.stderr[-2000:], done.hint)
    assert done.stdout == expected
    assert not done.exit.left_others
    assert place.nothing_survives()


def test_a_large_sort_writes_where_it_may(place: Place) -> None:
    lines = b"".join(
        b"%08d some text that makes a line longer\n" % (n * 7919 % 1_000_000) for n in range(1_100_000)
    )
    (place.workspace / "lines").write_bytes(lines)
    argv = ["sort", "-S", "20M", "-o", str(place.writable / "sorted"), "lines"]
    done = place.run(argv, profile=place.profile(file_bytes=200_000_000), seconds=40)
    assert done.exit.status == 0, (done.exit, done.stderr)
    assert (place.writable / "sorted").stat().st_size == len(lines)
    assert done.exit.peak_bytes < 400_000_000


def test_arguments_are_passed_as_they_are_and_never_to_a_shell(place: Place) -> None:
    words = ["$(touch x)", "; echo y", "a b", "", "ü"]
    done = place.run(["printf", "%s|", *words])
    assert done.stdout.decode() == "|".join(words) + "|"


def test_declared_files_variables_and_network_are_granted(place: Place, listener: Listener) -> None:
    profile = place.profile(
        reads=(str(place.plugin), str(place.outside)),
        network=True,
        environment=environment_for(["SECRET_TOKEN"]),
    )
    source = (
        "import os, socket\nprint(open(os.environ['AT']).read() if 'AT' in os.environ else os.environ['SECRET_TOKEN'])\n"
        f"print(open('{place.outside}/secret.txt').read())\n"
        f"socket.create_connection(('127.0.0.1', {listener.port}), 5)\n"
    )
    done = place.run([place.program("python", source)], profile=profile)
    assert done.stdout.decode().split() == [CANARY, CANARY], done.stderr
    assert listener.heard()


def test_with_the_network_there_are_still_no_unix_sockets(place: Place, listener: Listener) -> None:
    source = f"import socket\nsocket.socket(socket.AF_UNIX).connect({listener.path!r})\nprint('ESCAPED')\n"
    for room in LEVELS:
        done = place.run([place.program("python", source)], profile=place.profile(network=True), room=room)
        assert done.exit.status == 1
        assert not listener.heard()


# --- Limits, ends and failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("room", LEVELS, ids=["room", "plain"])
def test_a_cancelled_call_ends_the_whole_tree(room: bool, place: Place) -> None:
    argv = [place.program("sh", "trap '' TERM; setsid sleep 60 & (sleep 60 &); sleep 60")]

    async def main() -> float:
        call = asyncio.create_task(run_confined(argv, place.profile(), cwd=place.workspace, room=room))
        await place.populated(4)
        started = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return time.monotonic() - started

    assert asyncio.run(main()) < 1
    assert place.nothing_survives()


HOST = """
import asyncio, sys
from pathlib import Path
from strands_cli.sandbox.executables import environment_for, run_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE
import msgspec
program, place, mark, room = sys.argv[1:]
profile = msgspec.structs.replace(
    EXECUTABLE_PROFILE, reads=(str(Path(program).parent),), environment=environment_for(()) | {"STRANDS_TEST_MARK": mark})
asyncio.run(run_confined([program], profile, cwd=Path(place), seconds=60, room=room == "room"))
"""


def test_descriptors_that_a_host_lets_its_children_inherit_stay_outside(place: Place) -> None:
    argv = [
        place.program("sh", "ls -l /proc/$$/fd > /dev/null; readlink /proc/$$/fd/* >&2; exit 1"),
        str(place.workspace),
    ]
    leaky = "import os\nfor _ in range(9): os.set_inheritable(os.open('/etc/passwd', os.O_RDONLY), True)\n"
    text = leaky + HOST.replace("asyncio.run(", "done = asyncio.run(") + "print(done.stderr.decode())\n"
    done = subprocess.run(
        [sys.executable, "-c", text, *argv, place.mark, "room"], capture_output=True, text=True, check=True
    )
    assert "pipe:" in done.stdout
    assert "passwd" not in done.stdout
    assert "socket:" not in done.stdout


@pytest.mark.parametrize("room", ["room", "plain"])
def test_nothing_outlives_a_host_that_is_killed(room: str, place: Place) -> None:
    argv = [
        place.program("sh", "trap '' TERM; setsid sleep 60 & (sleep 60 &); sleep 60"),
        str(place.workspace),
    ]
    host = subprocess.Popen([sys.executable, "-c", HOST, *argv, place.mark, room])
    deadline = time.monotonic() + 20
    while len(place.survivors()) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    proc = process_tree.open_proc()
    all_of_it = process_tree.descendants(host.pid, proc)
    os.close(proc)
    assert len(all_of_it) > 5
    host.kill()
    host.wait()
    assert place.nothing_survives()
    deadline = time.monotonic() + 5
    while [process for process in all_of_it if is_ours(process)] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [process for process in all_of_it if is_ours(process)]


def is_ours(process: int) -> bool:
    try:
        return b"sandbox.spawner" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize("room", LEVELS, ids=["room", "plain"])
def test_a_killed_spawner_is_replaced_and_loses_no_call(room: bool, place: Place) -> None:
    argv = [place.program("sh", "sleep 0.7; echo done")]

    async def main() -> list[Finished]:
        profile = place.profile()
        calls = [run_confined(argv, profile, cwd=place.workspace, room=room) for _ in range(3)]
        tasks = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0.3)
        os.kill(shared_spawner(network=False, room=room).process(), signal.SIGKILL)
        await asyncio.sleep(0.05)
        later = [run_confined(argv, profile, cwd=place.workspace, room=room) for _ in range(3)]
        return await asyncio.gather(*tasks, *later)

    before = shared_spawner(network=False, room=room).process()
    assert [done.stdout for done in asyncio.run(main())] == [b"done\n"] * 6
    assert shared_spawner(network=False, room=room).process() != before
    assert place.nothing_survives()


@pytest.mark.parametrize("room", LEVELS, ids=["room", "plain"])
def test_a_call_whose_keeper_is_killed_answers_with_an_error(room: bool, place: Place) -> None:
    argv = [place.program("sh", "setsid sleep 60 & sleep 60")]

    async def main() -> Finished:
        task = asyncio.create_task(run_confined(argv, place.profile(), cwd=place.workspace, room=room))
        await place.populated(3)
        proc = process_tree.open_proc()
        parents = process_tree.running_processes(proc)
        os.close(proc)
        found = set(place.survivors())
        (keeper,) = {
            parents[process]
            for process in found
            if parents[process] not in found and is_ours(parents[process])
        }
        os.kill(keeper, signal.SIGKILL)
        return await task

    done = asyncio.run(main())
    assert done.exit.why == "lost"
    assert done.seconds < 5
    assert place.nothing_survives()


def test_the_directory_of_scratch_directories_is_not_given_away(place: Place) -> None:
    argv = [place.program("sh", "ls", "list")]
    if executables_level().name != "full":
        pytest.skip("without a mount namespace the scratch directory is elsewhere")
    with pytest.raises(ToolError, match="has its scratch directory there") as refused:
        asyncio.run(run_confined(argv, place.profile(), cwd=Path("/tmp")))
    assert refused.value.code == "unavailable"


def test_a_killed_keeper_takes_no_other_call_with_it_where_there_is_no_room(place: Place) -> None:
    keeper, go = place.writable / "keeper", place.writable / "go"
    doomed = [place.program("sh", f"setsid sleep 60 & echo $PPID > {keeper}; sleep 60", "doomed")]
    other = [place.program("sh", f"(until test -e {go}; do sleep 0.05; done; echo done) & wait", "other")]

    async def main() -> list[Finished]:
        calls = [
            run_confined(argv, place.profile(), cwd=place.workspace, room=False, seconds=20)
            for argv in (doomed, other, other)
        ]
        lost, *others = [asyncio.create_task(call) for call in calls]
        await place.populated(9)
        os.kill(int(keeper.read_text()), signal.SIGKILL)
        first = await lost
        await asyncio.sleep(0.2)
        go.touch()
        return [first, *await asyncio.gather(*others)]

    ended = asyncio.run(main())
    assert [done.exit.why for done in ended] == ["lost", "exited", "exited"]
    assert [done.stdout for done in ended] == [b"", b"done\n", b"done\n"]
    assert place.nothing_survives()


def test_a_call_whose_keeper_is_killed_at_once_is_not_made_again(place: Place) -> None:
    ran = place.writable / "ran"
    argv = [place.program("sh", f"echo $PPID >> {ran}; sleep 60")]
    calls = 12  # more than there are runners ready, so that some are taken while their keepers get ready

    async def main() -> list[str]:
        started = [
            asyncio.create_task(
                run_confined(argv, place.profile(), cwd=place.workspace, room=False, seconds=10)
            )
            for _ in range(calls)
        ]
        killed: set[str] = set()
        while len(killed) < calls:
            for keeper in set(ran.read_text().split("\n")[:-1] if ran.exists() else []) - killed:
                os.kill(int(keeper), signal.SIGKILL)
                killed.add(keeper)
            await asyncio.sleep(0)
        return [done.exit.why for done in await asyncio.gather(*started)]

    assert asyncio.run(main()) == ["lost"] * calls
    assert len(ran.read_text().split()) == calls


def test_a_process_can_be_started_ahead_and_is_given_its_input_later(place: Place) -> None:
    argv = [place.program("sh", f'read -r line || touch {place.writable}/end-of-input; echo "got $line"')]

    async def main() -> Finished:
        used = await start_confined(argv, place.profile(), cwd=place.workspace)
        unused = await start_confined(argv, place.profile(), cwd=place.workspace)
        await asyncio.sleep(0.3)
        done = await complete_confined(used, input=b"it\n", seconds=5)
        assert len(place.survivors()) == 1
        unused.kill()
        unused.close()
        return done

    done = asyncio.run(main())
    assert done.stdout == b"got it\n"
    assert done.seconds < 1
    assert place.nothing_survives()
    assert list(place.writable.iterdir()) == [], "the unused one never saw the end of its input"


def test_a_process_that_is_not_needed_any_more_sees_no_end_of_its_input(place: Place) -> None:
    argv = [place.program("sh", f"read -r line || touch {place.writable}/end-of-input-$$")]

    async def main() -> None:
        for _ in range(5):
            parked = [await start_confined(argv, place.profile(), cwd=place.workspace) for _ in range(8)]
            await asyncio.sleep(0.2)
            for process in parked:
                process.close()

    asyncio.run(main())
    assert place.nothing_survives()
    assert list(place.writable.iterdir()) == []


def test_a_call_that_is_cancelled_as_it_begins_does_not_seem_to_have_no_input(place: Place) -> None:
    argv = [place.program("sh", f"read -r line || touch {place.writable}/end-of-input-$$")]

    async def main() -> None:
        parked = [await start_confined(argv, place.profile(), cwd=place.workspace) for _ in range(8)]
        await asyncio.sleep(0.3)
        calls = [asyncio.create_task(complete_confined(process, input=b"it\n")) for process in parked]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)

    asyncio.run(main())
    assert place.nothing_survives()
    assert list(place.writable.iterdir()) == []


QUICK_RUNNER = """
import os, select, socket, sys, time
from strands_cli.sandbox import messages, process_tree
from strands_cli.sandbox.spawner.slot import Holdings, Keeper

process_tree.become_subreaper()
runner = os.fork()
if not runner:
    if not os.fork():
        time.sleep(60)
    os._exit(0)
os.waitid(os.P_PID, runner, os.WEXITED | os.WNOWAIT)  # it has ended before its keeper is ready
pair, runners_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
holdings = Holdings(process_tree.open_proc(), os.open(sys.argv[1], os.O_RDONLY), None, in_room=False)
keeper = Keeper(runner, pair, os.pidfd_open(os.getppid()), holdings)
limits = {"memory": 1 << 30, "processes": 64, "scratch": 1 << 60, "grace": 300}
messages.send_value(runners_end, limits, theirs.fileno())
theirs.close()
if not os.fork():
    said = []
    while "exited" not in said and select.select([ours], [], [], 5)[0]:
        said.append(messages.receive_value(ours)[0][0])
    print(said, flush=True)
    messages.send_value(ours, "kill")
    os._exit(0)
keeper.keep()
"""


def test_what_ends_before_its_keeper_is_ready_is_told_all_the_same(tmp_path: Path) -> None:
    program = [sys.executable, "-c", QUICK_RUNNER, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "['exited']\n", done


def test_a_scratch_directory_is_removed_however_deep_it_is(tmp_path: Path) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    for place in (scratch, outside, scratch / "locked"):
        place.mkdir()
    (outside / "kept").touch()
    (scratch / "link").symlink_to(outside)
    (scratch / "locked/file").touch()
    (scratch / "locked").chmod(0)
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\nopen('f', 'w')",
        ],
        cwd=scratch,
        check=True,
    )
    remove_scratch(str(scratch))
    assert [*tmp_path.iterdir()] == [outside]
    assert [*outside.iterdir()] == [outside / "kept"]


CROWDED_SLOT = """
import os, socket, subprocess, sys, time
from strands_cli.sandbox import messages, process_tree
from strands_cli.sandbox.spawner.slot import Slot

if os.geteuid() == 0:  # for whom there is no limit
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
slot = Slot(0, sys.argv[1], network=True, in_room=False)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
host = os.pidfd_open(os.getpid())
keeper = os.fork()
if not keeper:
    ours.close()
    os._exit(slot.live(theirs, host, 1, []))
theirs.close()
proc = process_tree.open_proc()
while not process_tree.descendants(keeper, proc):  # the runner, which waits for a call
    time.sleep(0.01)
crowd = [subprocess.Popen(["/bin/sleep", "60"], cwd="/") for _ in range(60)]
control, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
reading, writing = os.pipe()
nothing = os.open("/dev/null", os.O_RDWR)
request = {
    "watch": {"memory": 1 << 30, "processes": 64, "grace": 300, "scratch": 0}, "paths": {},
    "directory": "/", "limits": {"NPROC": 8}, "filters": [], "environment": {"PATH": "/usr/bin:/bin"},
    "argv": ["/bin/sh", "-c", "(/bin/sleep 0); echo forked"],
}
messages.send_value(ours, request, keepers.fileno(), nothing, writing, 2)
os.close(writing)
print(os.read(reading, 100), flush=True)
control.close()
for process in crowd:
    process.kill()
"""


def test_processes_that_a_user_starts_after_a_slot_was_made_are_not_the_calls() -> None:
    with tempfile.TemporaryDirectory() as scratch:  # below a directory that everybody may enter
        Path(scratch).chmod(0o777)
        program = [sys.executable, "-c", CROWDED_SLOT, scratch]
        done = subprocess.run(program, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout == "b'forked\\n'\n", done


def test_silence_and_progress(place: Place) -> None:
    argv = [place.program("sh", "for i in 1 2 3 4 5; do echo step $i >&2; sleep 0.2; done; sleep 30")]
    lines: list[str] = []
    done = place.run(argv, idle_seconds=0.6, seconds=20, on_stderr_line=lines.append)
    assert done.exit.why == "idle"
    assert 1.2 < done.seconds < 4
    assert lines == [f"step {number}" for number in range(1, 6)]


@pytest.mark.parametrize(
    ("text", "mode", "words", "hint"),
    [
        (None, 0, "No such file", "interpreter"),
        ("#!/no/such/interpreter\n", 0o755, "No such file", "interpreter"),
        ("#!/bin/sh\n", 0o644, "Permission denied", "chmod"),
        ("echo x\n", 0o755, "Exec format error", "#!/bin/sh"),
    ],
)
def test_what_cannot_be_executed_is_said_with_the_remedy(
    text: str | None, mode: int, words: str, hint: str, place: Place
) -> None:
    if text is not None:
        (place.plugin / "program").write_text(text)
        (place.plugin / "program").chmod(mode)
    with pytest.raises(ToolError, match=words) as caught:
        place.run([str(place.plugin / "program")])
    assert hint in caught.value.hint
    assert caught.value.code == "unavailable"


def test_a_spawner_that_is_about_to_end_is_replaced(place: Place) -> None:
    handle = shared_spawner(network=False, room=False)
    process = handle.process()
    os.kill(process, signal.SIGSTOP)
    assert handle._calls is not None
    handle._calls.shutdown(socket.SHUT_RDWR)  # as when it has closed its end and waits for its keepers
    assert place.run([place.program("sh", "echo done")], room=False).stdout == b"done\n"
    assert handle.process() != process


def test_a_call_that_finds_too_many_waiting_is_told_so_at_once() -> None:
    handle = shared_spawner(network=False, room=False)
    process = handle.process()
    os.kill(process, signal.SIGSTOP)  # its runners take a few, and nobody makes new ones
    try:
        assert not all(handle.hand_over({"filler": bytes(50_000)}, []) for _ in range(100))
    finally:
        os.kill(process, signal.SIGKILL)
        os.kill(process, signal.SIGCONT)


def test_many_calls_at_once_from_several_loops(place: Place) -> None:
    argv = [place.program("sh", "read -r x; echo $x")]
    answers: dict[int, list[bytes]] = {}

    async def many(number: int) -> None:
        calls = [
            run_confined(
                argv, place.profile(), cwd=place.workspace, input=b"%d-%d\n" % (number, n), seconds=30
            )
            for n in range(10)
        ]
        answers[number] = [done.stdout for done in await asyncio.gather(*calls)]

    threads = [threading.Thread(target=lambda n=n: asyncio.run(many(n))) for n in range(3)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: [b"%d-%d\n" % (n, k) for k in range(10)] for n in range(3)}


def test_calls_leave_no_descriptor_and_no_process_behind(place: Place) -> None:
    argv = [place.program("sh", "read -r x; (sleep 30 &); echo $x")]

    async def many(count: int) -> None:
        for _ in range(count):
            await run_confined(argv, place.profile(), cwd=place.workspace, input=b"x\n")

    asyncio.run(many(3))
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(many(20))
    assert len(os.listdir("/proc/self/fd")) == before
    assert place.nothing_survives()


# --- Levels -----------------------------------------------------------------------------------------------


def test_the_level_says_what_holds_and_what_is_missing() -> None:
    full, plain = executables_level(), executables_level(room=False)
    assert full.name == "full", full.reason
    assert plain.name == "landlock"
    assert "namespaces" in plain.missing
    assert full.processes == ("cgroup" if os.geteuid() == 0 else "rlimit")


@pytest.mark.parametrize(
    ("landlock", "room", "name"),
    [(7, True, "full"), (7, False, "landlock"), (0, True, "namespaces"), (0, False, "seccomp")],
)
def test_the_level_follows_from_what_the_spawner_found(landlock: int, room: bool, name: str) -> None:
    found = Abilities(
        landlock=landlock,
        room=room,
        why_no_room="" if room else "refused",
        why_not_alone="",
        processes="watched",
        memory="watched",
    )
    level = level_from_abilities(found)
    assert level.name == name
    assert ("landlock" in level.missing, "namespaces" in level.missing) == (not landlock, not room)
    assert room or level.missing["namespaces"].startswith("refused; needs root with CAP_SYS_ADMIN, or ")


def test_where_processes_are_shared_only_the_own_group_can_be_signalled(place: Place) -> None:
    shared = further_filter(network=False, shares_processes=True)
    text = (
        "import os, sys\nfrom strands_cli.sandbox import landlock, seccomp\n"
        "landlock.no_new_privileges()\nseccomp.load_filter(bytes.fromhex(sys.argv[1]))\n"
        "for act in (lambda: os.kill(os.getppid(), 0), lambda: os.kill(-1, 0), lambda: os.kill(0, 0)):\n"
        "    try: act(); print('sent')\n"
        "    except PermissionError: print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, shared.hex()], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "refused", "sent"]


def test_less_than_that_is_refused_unless_it_is_accepted_by_name() -> None:
    weak = ExecutableLevel(
        name="seccomp", layers=("rlimits", "seccomp"), missing={"landlock": "none", "namespaces": "none"}
    )
    with pytest.raises(ToolError, match="landlock: none") as caught:
        require_confinement(weak)
    assert "accept" in caught.value.hint
    require_confinement(weak, accept="seccomp")
    nothing = ExecutableLevel(name="unavailable", layers=(), missing={"seccomp": "no libseccomp"})
    with pytest.raises(ToolError, match="no libseccomp"):
        require_confinement(nothing, accept="seccomp")


def test_the_whole_file_system_is_never_granted(place: Place) -> None:
    with pytest.raises(ToolError, match="whole file system"):
        place.run(["true"], profile=place.profile(reads=("/",)))


# --- As an ordinary user ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(400)
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    place = Path(tempfile.mkdtemp(prefix="executables-", dir="/tmp"))
    try:
        interpreter = ordinary_user(place)
        for name in ("pytest", "pluggy", "iniconfig", "pygments", "pytest-timeout"):
            for file in distribution(name).files or ():
                if ".." not in file.parts:
                    (place / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(str(file.locate()), place / file)
        (place / "temporary").mkdir()
        (place / "temporary").chmod(0o777)
        settings = [
            f"PYTHONPATH={place}",
            "PATH=/usr/bin:/bin",
            f"TMPDIR={place}/temporary",
            f"HOME={place}/temporary",
        ]
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            "--rootdir",
            str(place),
            "-m",
            "not long",
        ]
        test = str(place / "tests" / "sandbox" / "test_executables.py")
        command = as_nobody(*settings, interpreter.executable, "-m", "pytest", *options, test)
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    finally:
        shutil.rmtree(place)


@pytest.mark.skipif(not cgroups.parent_groups("memory"), reason="no control groups can be made here")
def test_the_groups_of_an_earlier_process_with_the_same_number_are_not_in_the_way() -> None:
    parents = cgroups.parent_groups("memory")
    paths = cgroups.group_paths(parents, 1)
    group = cgroups.Group(paths)
    cgroups.remove_abandoned_groups(parents)
    again = cgroups.Group(paths)
    cgroups.remove_groups(paths)
    assert not group.ran_out_of_memory(), "its group has been removed"
    group.close()
    again.close()
