"""What a plugin declares is what it gets: no link, pipe or swap in the workspace gives it another place."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.errors import ToolError
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.sandbox.executables import Finished, environment_for, executables_level, run_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.workspace import Workspace
from tests.plugins.conftest import bench as bench
from tests.plugins.makers import SH, Bench
from tests.swaps import swapping

CANARY = "canary-51c0ffee"
LEVELS = [True, False]
NEEDS_LANDLOCK = "a read-only mount lets pipes be written; Landlock does not"
RACE_SECONDS = float(os.environ.get("STRANDS_TEST_RACE_SECONDS", "5"))

LOOK = (
    SH
    + 'cat out/sub/secret.txt "$PWD"/../outside/secret.txt 2>&1; echo owned > out/sub/new 2>&1; echo done\n'
)
TWO_PLACES = {"write": ["out", "out/sub"]}


@pytest.fixture
def secret(bench: Bench) -> Path:
    file = bench.outside / "secret.txt"
    file.write_text(CANARY)
    (bench.project / "out").mkdir()
    return file


def refused(result: ToolResult, link: str) -> bool:
    error = error_of(result)
    assert error is not None, result
    assert CANARY not in str(result)
    return error["code"] == "forbidden" and link in error["message"] and "which is a link" in error["message"]


def untouched(bench: Bench) -> bool:
    return [file.name for file in bench.outside.iterdir()] == ["secret.txt"]


# --- Links --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["../../outside", "../plugins", "nowhere", "sub", "/"])
def test_a_link_that_a_first_call_makes_is_refused_in_the_second(
    bench: Bench, secret: Path, target: str
) -> None:
    make = bench.tool(
        SH + f'test -L out/sub || ln -s {target} out/sub; echo "made"\n', files={"write": ["out"]}
    )
    assert error_of(bench.call(make)) is None
    assert (bench.project / "out/sub").is_symlink()
    result = bench.run(LOOK, files=TWO_PLACES)
    assert refused(result, "out/sub")
    assert untouched(bench)


def test_one_manifest_with_both_paths_gets_neither_after_it_made_the_link(bench: Bench, secret: Path) -> None:
    tool = bench.tool(
        SH + "rm -rf out/sub; ln -s ../../outside out/sub; cat out/sub/*; echo '{}'\n", files=TWO_PLACES
    )
    first, second = bench.call(tool), bench.call(tool)
    assert CANARY not in str(first)
    assert refused(second, "out/sub")


@pytest.mark.parametrize("key", ["read", "write"])
def test_a_link_in_place_of_a_declared_file_is_refused(bench: Bench, secret: Path, key: str) -> None:
    (bench.project / "notes.txt").symlink_to(secret)
    result = bench.run(SH + "cat notes.txt; echo owned >> notes.txt; exit 0\n", files={key: ["notes.txt"]})
    assert refused(result, "notes.txt")
    assert secret.read_text() == CANARY


def test_a_link_on_the_way_to_a_declared_path_is_refused(bench: Bench, secret: Path) -> None:
    (bench.project / "a").symlink_to(bench.outside)
    (bench.outside / "b").mkdir()
    result = bench.run(SH + "echo owned > a/b/new; ls a/b\n", files={"write": ["a/b"]})
    assert refused(result, "/a, ")
    assert not any((bench.outside / "b").iterdir())


@pytest.mark.parametrize("path", ["../outside", "out/../../outside", "out/../../project/../outside"])
def test_a_relative_path_stays_in_the_workspace(bench: Bench, secret: Path, path: str) -> None:
    result = bench.run(SH + f"cat {path}/secret.txt\n", files={"write": [path]})
    error = error_of(result)
    assert error is not None
    assert error["code"] == "forbidden"
    assert "outside the workspace" in error["message"]
    assert untouched(bench)


def test_a_link_below_an_absolute_place_that_the_plugin_writes_is_refused(bench: Bench, secret: Path) -> None:
    data = bench.root / "data"
    data.mkdir()
    (data / "sub").symlink_to(bench.outside)
    result = bench.run(SH + f"cat {data}/sub/secret.txt\n", files={"write": [str(data), f"{data}/sub"]})
    assert refused(result, str(data / "sub"))


def test_a_link_that_another_tool_of_the_plugin_could_have_made_is_refused(
    bench: Bench, secret: Path
) -> None:
    data = bench.root / "data"
    data.mkdir()
    (data / "sub").symlink_to(bench.outside)
    reader = {"source": SH + f"cat {data}/sub/secret.txt\n", "files": {"read": [f"{data}/sub"]}}
    writer = {"source": SH + "echo 1\n", "name": "w", "files": {"write": [str(data)]}}
    bench.plugin(reader, writer)
    plugin = bench.loaded()
    result = bench.call(plugin_tool(plugin, plugin.manifest.cli_tools[0], bench.settings))
    assert refused(result, str(data / "sub"))


def test_a_link_of_the_users_own_outside_the_workspace_still_works(bench: Bench, secret: Path) -> None:
    (bench.root / "mine").symlink_to(bench.outside)
    result = bench.run(SH + f"cat {bench.outside}/secret.txt\n", files={"read": [f"{bench.root}/mine"]})
    assert CANARY in str(result)


def test_a_working_directory_that_became_a_link_is_refused(bench: Bench, secret: Path) -> None:
    tool = bench.tool(SH + "cat secret.txt; pwd\n")
    (bench.project / "sub").symlink_to(bench.outside)
    workspace = Workspace((bench.project,), bench.project / "sub")
    result = bench.call(tool, workspace=workspace)
    assert error_of(result) is not None
    assert CANARY not in str(result)


# --- Swapped between the check and the mount ----------------------------------------------------------------


def run_in(root: Path, source: str, *, room: bool = True, **changes: Any) -> Finished:
    """A shell script under confinement, in a workspace that it may read."""
    profile = msgspec.structs.replace(
        EXECUTABLE_PROFILE,
        **{"reads": (str(root),), "environment": environment_for(()), "seconds": 10.0, **changes},
    )
    return asyncio.run(run_confined(["/bin/sh", "-c", source], profile, cwd=root, room=room))


@pytest.mark.parametrize("room", LEVELS)
@pytest.mark.parametrize("link", ["out/sub", "out"])
def test_a_link_that_the_host_did_not_see_is_refused_by_what_mounts(
    tmp_path: Path, room: bool, link: str
) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    (outside / "sub").mkdir(parents=True)
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(outside)
    with pytest.raises(ToolError, match=f"{Path(link).name} is a link"):
        run_in(project, "echo owned > out/sub/new", room=room, writes=(str(project / "out/sub"),))
    assert not any((outside / "sub").iterdir())


@pytest.mark.long
@pytest.mark.timeout(60 + 4 * RACE_SECONDS)
@pytest.mark.parametrize("name", ["out", "sub"])
def test_no_call_reaches_outside_while_links_are_swapped(bench: Bench, secret: Path, name: str) -> None:
    (bench.project / "out/sub").mkdir()
    (bench.outside / "sub").mkdir()
    (bench.outside / "sub" / "secret.txt").write_text(CANARY)
    tool = bench.tool(LOOK, files=TWO_PLACES)
    place = bench.project if name == "out" else bench.project / "out"
    end, results = time.monotonic() + RACE_SECONDS, []

    async def calls() -> None:
        while time.monotonic() < end:
            results.append(await bench.ask(tool))

    up = Path(os.path.relpath(bench.outside, place))  # followed from any root
    with swapping(place, name, up):
        asyncio.run(calls())
    assert len(results) > 20 * min(1.0, RACE_SECONDS / 5)
    assert sum(CANARY in str(result) for result in results) == 0
    assert sorted(str(file.relative_to(bench.outside)) for file in bench.outside.rglob("*")) == [
        "secret.txt",
        "sub",
        "sub/secret.txt",
    ]


# --- What is not a file -------------------------------------------------------------------------------------


class PipeReader:
    """Holds a pipe open for reading, so that whoever may write it can, and remembers what came."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def received(self) -> bytes:
        try:
            return os.read(self._end, 4096)
        except BlockingIOError:
            return b""
        finally:
            os.close(self._end)


@pytest.mark.parametrize("room", LEVELS)
@pytest.mark.parametrize("place", ["", "deep/er"])
def test_a_pipe_in_a_workspace_is_not_written_without_write_access(
    tmp_path: Path, room: bool, place: str
) -> None:
    if "landlock" not in executables_level().layers:
        pytest.skip(NEEDS_LANDLOCK)
    project = tmp_path / "project"
    (project / place).mkdir(parents=True)
    pipe = PipeReader(project / place / "pipe")
    finished = run_in(project, f"echo owned > ./{place}/pipe; echo tried", room=room)
    assert finished.stdout == b"tried\n"
    assert pipe.received() == b""


@pytest.mark.parametrize("room", LEVELS)
def test_a_pipe_that_is_declared_for_reading_is_not_written(tmp_path: Path, room: bool) -> None:
    if "landlock" not in executables_level().layers:
        pytest.skip(NEEDS_LANDLOCK)
    (tmp_path / "project").mkdir()
    pipe = PipeReader(tmp_path / "pipe")
    reads = (str(tmp_path / "project"), str(tmp_path / "pipe"))
    run_in(tmp_path / "project", f"echo owned > {tmp_path}/pipe", room=room, reads=reads)
    assert pipe.received() == b""


@pytest.mark.parametrize("room", LEVELS)
def test_a_socket_of_the_machine_in_a_workspace_is_not_reached(tmp_path: Path, room: bool) -> None:
    project = tmp_path / "project"
    project.mkdir()
    server = (
        "import os, socket, sys\n"
        "os.chdir(sys.argv[1]); s = socket.socket(socket.AF_UNIX); s.bind('socket'); s.listen(); s.settimeout(30)\n"
        "print('ready', flush=True)\n"
        "try:\n    s.accept(); print('heard')\nexcept OSError: pass\n"
    )
    client = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('socket'); s.send(b'owned')"
    with subprocess.Popen(
        [sys.executable, "-c", server, project], stdout=subprocess.PIPE, text=True
    ) as listening:
        assert listening.stdout
        assert listening.stdout.readline() == "ready\n"
        finished = run_in(project, f'/usr/bin/python3 -c "{client}"; echo tried', room=room)
        listening.kill()
        assert finished.stdout == b"tried\n"
        assert listening.stdout.read() == ""


def test_a_workspace_below_the_temporary_directory_leaves_room_for_temporary_files(tmp_path: Path) -> None:
    script = 'f=$(mktemp) && echo x > "$f" && echo y > "$TMPDIR/y" && echo z > "$HOME/z" && echo m > /dev/shm/m && echo ok'
    finished = run_in(tmp_path, script)
    assert finished.stdout == b"ok\n", finished


@pytest.mark.parametrize("room", LEVELS)
@pytest.mark.parametrize("name", ["devel", "process", "devices/x"])
def test_a_workspace_whose_name_begins_like_a_system_directory_is_a_workspace(name: str, room: bool) -> None:
    if not os.access("/", os.W_OK):
        pytest.skip("only root makes directories in /")
    place = Path("/", f"{name}-{os.getpid()}")
    place.mkdir(parents=True)
    try:
        (place / "data.txt").write_text("data")
        finished = run_in(place, "cat data.txt; echo made > new", room=room, reads=(), writes=(str(place),))
        assert finished.stdout == b"data", finished
        assert (place / "new").read_text() == "made\n"
    finally:
        subprocess.run(["rm", "-rf", Path("/", place.parts[1])], check=True)


def test_a_device_in_a_workspace_is_no_device(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "device", stat.S_IFCHR | 0o666, os.makedev(1, 8))
    except PermissionError:
        pytest.skip("only root makes devices")
    finished = run_in(tmp_path, "head -c 4 device | wc -c")
    assert finished.stdout.strip() == b"0"
