"""File tools over what a stranger's project may hold: huge, endless, deep and odd files, and links."""

import asyncio
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import ArtifactError
from strands_cli.exec.run import run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.testing import ScriptedModel
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import error_of
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools.data_tools.parse_json import parse_json
from strands_cli.tools.file_operations.file_lines import grep, head, tail
from strands_cli.tools.file_operations.file_list import file_list
from strands_cli.tools.file_operations.file_read import file_read
from strands_cli.tools.file_operations.file_search import file_search
from strands_cli.tools.file_operations.file_write import file_write
from tests.exec.flows import Flow, steps

HUGE = 2 * 1024**4
CALLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "file_read": (file_read, {}),
    "file_write": (file_write, {"content": "evil", "mode": "overwrite"}),
    "append": (file_write, {"content": "evil", "mode": "append"}),
    "file_list": (file_list, {}),
    "file_search": (file_search, {"pattern": "."}),
    "grep": (grep, {"pattern": "."}),
    "head": (head, {}),
    "tail": (tail, {}),
    "parse_json": (parse_json, {}),
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


async def permit_all(_tool: Tool, _arguments: dict[str, Any]) -> None:
    """Consent, as a user would give it."""


def call_in(root: Path, used: Tool, /, timeout: float | None = None, **given: Any) -> tuple[Any, str]:
    """The value and the code of the error, one of them."""
    context = CallContext(workspace=Workspace((root,), root), permit=permit_all, timeout=timeout)
    result = asyncio.run(call_tool(used, {"toolUseId": "x", "input": given}, context))
    error = error_of(result)
    if error:
        return error["message"], error["code"]
    (content,) = result["content"]
    return content.get("json", content.get("text")), ""


def sparse(file: Path, head: bytes = b"", size: int = HUGE) -> Path:
    """A file with a hole as large as this file system takes."""
    file.write_bytes(head)
    while True:
        try:
            os.truncate(file, size)
            return file
        except OSError:
            size //= 2
            assert size > 10**9, "a file system without large files"


def idle_within(seconds: float) -> bool:
    """Whether this process stops computing in that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = time.process_time()
        time.sleep(0.3)
        if time.process_time() - before < 0.1:
            return True
    return False


# --- Huge ones --------------------------------------------------------------------------------------------


def test_appending_to_a_huge_file_copies_nothing(root: Path) -> None:
    file = sparse(root / "huge.log")
    size, used = file.stat().st_size, time.process_time()
    value, code = call_in(root, file_write, path="huge.log", content="x\n", mode="append")
    assert not code, value
    assert file.stat().st_size == size + 2
    assert file.stat().st_blocks * 512 < 1_000_000
    assert time.process_time() - used < 5
    with file.open("rb") as stream:
        stream.seek(size)
        assert stream.read() == b"x\n"
    assert [*root.iterdir()] == [file]


def test_a_huge_file_with_another_name_is_not_appended_to(root: Path) -> None:
    """It cannot be replaced under one name, and the other may be one that must not be written."""
    file = sparse(root / "huge.log")
    (root / "other").hardlink_to(file)
    size = file.stat().st_size
    value, code = call_in(root, file_write, path="other", content="x", mode="append")
    assert code == "conflict", value
    assert file.stat().st_size == size


APPEND = """
import json, resource, signal, sys
from strands_cli.tools.file_operations.file_write import file_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_010, 20_000_010))
use = {"toolUseId": "x", "input": {"path": "a.txt", "content": "n" * 100, "mode": "append"}}
print(json.dumps(file_write(use)))
"""


def test_an_append_that_fails_midway_is_taken_back(root: Path) -> None:
    file = sparse(root / "a.txt", size=20_000_000)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", APPEND], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert "nothing was changed" in done.stdout
    assert file.stat().st_size == 20_000_000


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le"])
def test_reading_lines_of_a_huge_file_ends_with_its_deadline(root: Path, encoding: str) -> None:
    sparse(root / "huge.txt", "a\n".encode(encoding) * 5000)
    given = {"path": "huge.txt", "start_line": 9999, "encoding": encoding}
    value, code = call_in(root, file_read, timeout=1, **given)
    assert code == "timeout", value
    assert idle_within(30)


def test_huge_files_are_neither_read_nor_searched_nor_parsed(root: Path) -> None:
    for number in range(20):
        sparse(root / f"{number}.json", b'{"secret": 1}\n' * 1000)
    value, code = call_in(root, file_read, path="1.json")
    assert code == "failed", value
    value, code = call_in(root, parse_json, path="1.json")
    assert code == "failed", value
    value, code = call_in(root, file_search, pattern="secret")
    assert (value["matches"], value["files_skipped"]) == ([], 20), code


def test_parsing_stops_when_nobody_waits_for_it(root: Path) -> None:
    (root / "long.json").write_text("[" + "1.5," * 12_000_000 + "1]")
    value, code = call_in(root, parse_json, timeout=0.5, path="long.json")
    assert code == "timeout", value
    assert idle_within(30)


# --- Files without an end, or that nobody else has opened --------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a pipe", "link to a device", "link to itself"])
def test_what_is_not_a_file_holds_no_tool(root: Path, name: str, kind: str) -> None:
    odd = root / "odd"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(odd)
        elif kind == "socket":
            listening.bind("odd")
        elif kind == "link to a pipe":
            os.mkfifo(root / "pipe")
            odd.symlink_to("pipe")
        else:
            odd.symlink_to("/dev/zero" if "device" in kind else "odd")
        used, given = CALLS[name]
        value, code = call_in(root, used, timeout=30, path="odd", **given)
    assert code not in ("", "timeout", "crashed"), value


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "path",
    [
        "proc/environ",
        "proc/root/etc/passwd",
        "proc/cwd/../outside.txt",
        "/proc/self/root/etc/passwd",
        "/dev/fd/0",
        "up/outside.txt",
        "up/root/../outside.txt",
        "a/../../outside.txt",
        "./up/../outside.txt",
    ],
)
def test_no_spelling_leads_out(root: Path, name: str, path: str) -> None:
    (root / "a").mkdir()
    (root.parent / "outside.txt").write_text("[1]")
    (root / "proc").symlink_to("/proc/self")
    (root / "up").symlink_to("..")
    used, given = CALLS[name]
    value, code = call_in(root, used, timeout=30, path=path, **given)
    assert code == "forbidden", value
    assert (root.parent / "outside.txt").read_text() == "[1]"


# --- Deep ones --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deep() -> Iterator[Path]:
    """A directory deeper than Python recurses, which no path can name.

    It is not one of pytest's, which cannot remove it after a test run that was killed.
    """
    root = Path(tempfile.mkdtemp(prefix="strands-deep-")).resolve()
    for level in range(1500):  # from the bottom up
        (root / "new").mkdir()
        if level:
            (root / "d").rename(root / "new/d")
        (root / "new").rename(root / "d")
    yield root
    while (root / "d/d").exists():  # shutil is not up to it
        (root / "d/d").rename(root / "rest")
        (root / "d/x").unlink(missing_ok=True)
        (root / "d").rmdir()
        (root / "rest").rename(root / "d")
    shutil.rmtree(root)


@pytest.mark.parametrize("pattern", ["", "*.txt", "**/" * 300 + "*.txt", "d/**/" * 150 + "*"])
def test_a_deep_directory_is_listed_and_searched_as_far_as_it_goes(deep: Path, pattern: str) -> None:
    value, code = call_in(deep, file_list, recursive=True, pattern=pattern)
    assert not code, value
    assert value["truncated"]
    value, code = call_in(deep, file_search, pattern=".", glob=pattern)
    assert not code, value
    assert value["truncated"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("levels", [250, 2000, 100_000])
def test_a_deep_path_is_a_name_that_is_too_long(deep: Path, name: str, levels: int) -> None:
    used, given = CALLS[name]
    for path in ("d/" * levels + "x", "new/" * levels + "x", "d/../" * levels + "x"):
        value, code = call_in(deep, used, path=path, **given)
        assert code in ("failed", "not_found", ""), value
    (deep / "x").unlink(missing_ok=True)


def test_a_deep_document_is_refused(root: Path) -> None:
    for text in ("[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000):
        (root / "deep.json").write_text(text)
        value, code = call_in(root, parse_json, path="deep.json")
        assert (code, "200 levels" in value) == ("failed", True)


# --- Artifacts, notes and records -------------------------------------------------------------------------


def run_flow(root: Path, path: str, *, force: bool = False, **more: Any) -> None:
    outputs = {"artifacts": [{"path": path, "from": "{{ last_response }}"}]}
    spec = Flow(root).spec("chain", {"steps": steps("go")}, outputs=outputs, **more)
    model = ScriptedModel().enqueue("answer")
    run_sync(spec, options=RunOptions(directory=root / "out", force=force, model=model))


@pytest.mark.parametrize("path", ["pipe", "link", "up/x", "a/" * 3000 + "x", "x" * 5000, "loop/x", "a\0b"])
def test_an_artifact_is_written_to_nothing_odd(root: Path, path: str) -> None:
    (root / "out").mkdir()
    os.mkfifo(root / "out/pipe")
    (root / "out/link").symlink_to(root / "outside.txt")
    (root / "out/up").symlink_to("..")
    (root / "out/loop").symlink_to("loop")
    with pytest.raises(ArtifactError):
        run_flow(root, path, force=True)
    assert not (root / "outside.txt").exists()
    assert not (root / "x").exists()
    assert sorted(entry.name for entry in (root / "out").iterdir()) == ["link", "loop", "pipe", "up"]


def test_a_huge_file_in_the_place_of_an_artifact_is_not_read(root: Path) -> None:
    (root / "out").mkdir()
    file = sparse(root / "out/a.txt")
    used = time.process_time()
    with pytest.raises(ArtifactError, match="the file exists"):
        run_flow(root, "a.txt")
    assert time.process_time() - used < 10
    run_flow(root, "a.txt", force=True)
    assert file.read_text() == "answer"


@pytest.mark.parametrize("kind", ["pipe", "huge"])
def test_odd_notes_hold_no_run(root: Path, kind: str) -> None:
    (root / "out").mkdir()
    if kind == "pipe":
        os.mkfifo(root / "out/notes.md")
        with pytest.raises(ArtifactError, match="notes"):
            run_flow(root, "a.txt", context_policy={"notes": {"file": "notes.md"}})
    else:
        sparse(root / "out/notes.md")
        run_flow(root, "a.txt", context_policy={"notes": {"file": "notes.md"}})
        assert (root / "out/a.txt").read_text() == "answer"


def test_reading_takes_no_more_memory_than_is_returned(root: Path) -> None:
    """One line of 1 GB, which is not kept."""
    sparse(root / "line.txt", b"a\n" * 5000, size=10**9)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value, code = call_in(root, file_read, path="line.txt", end_line=1)
    assert value == "a\n", code
    value, code = call_in(root, file_read, path="line.txt", start_line=5001)
    assert code == "failed", value
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
