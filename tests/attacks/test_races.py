"""Every file tool and the writing of artifacts, while another process swaps what is on the way.

Each attack runs for STRANDS_TEST_RACE_SECONDS, by default 5, and nothing may get through in that time.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strands_cli.artifacts import write_artifacts
from strands_cli.errors import ArtifactError
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools.data_tools.parse_json import parse_json
from strands_cli.tools.file_operations.file_list import file_list
from strands_cli.tools.file_operations.file_read import file_read
from strands_cli.tools.file_operations.file_search import file_search
from strands_cli.tools.file_operations.file_write import file_write
from tests.exec.flows import Flow, steps

SECONDS = float(os.environ.get("STRANDS_TEST_RACE_SECONDS", "5"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(60 + 4 * SECONDS)]

# Now a directory or a file, now a link to one outside, to a protected one or to a pipe, now nothing.
SWAPPER = """
import itertools, os, shutil, sys

def put(this, there):
    while True:
        try:
            return os.rename(this, there)
        except OSError:  # the tool has made a directory there meanwhile
            shutil.rmtree(there, ignore_errors=True)

os.chdir(sys.argv[1])
for number, target in enumerate(sys.argv[3:]):
    os.symlink(target, f"link-{number}")
print("ready", flush=True)
name, parent = sys.argv[2], os.getppid()
for number in itertools.cycle(range(len(sys.argv) - 3)):
    if os.getppid() != parent:
        break
    put(name, "kept"); put(f"link-{number}", name)
    put(name, f"link-{number}"); put("kept", name)
"""
READERS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "file_read": (file_read, {}),
    "file_list": (file_list, {"recursive": True}),
    "file_search": (file_search, {"pattern": "secret"}),
    "parse_json": (parse_json, {}),
}
MODES = ["create", "overwrite", "append"]


@contextmanager
def swapping(root: Path, name: str, *targets: str | Path) -> Iterator[None]:
    program = [sys.executable, "-c", SWAPPER, str(root), name, *map(str, targets)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as swapper:
        try:
            assert swapper.stdout
            assert swapper.stdout.readline() == "ready\n"
            yield
            assert swapper.poll() is None, "the swapper has ended before the attack"
        finally:
            swapper.kill()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a directory, a file and a pipe, beside a directory with a secret."""
    base = tmp_path.resolve()
    root, outside = base / "root", base / "outside"
    for directory in (root / "dir", outside, root / ".git"):
        directory.mkdir(parents=True)
    for file, text in ((root / "dir/a.txt", '["inside"]'), (outside / "a.txt", '["secret"]')):
        file.write_text(text)
    (outside / "secret-name").touch()
    (root / "a.txt").write_text('["inside"]')
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    return root


async def permit_all(_tool: Tool, _arguments: dict[str, Any]) -> None:
    """Consent in general."""


async def attack(
    root: Path, used: Tool, given: dict[str, Any], check: Callable[[Any], bool]
) -> tuple[int, int]:
    """How many calls were made, and how many of them did what they were asked for inside the workspace."""
    context = CallContext(workspace=Workspace((root,), root), permit=permit_all, timeout=30)
    end, attempts, successes = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end:
        own = {name: value.format(attempts) if name == "path" else value for name, value in given.items()}
        result = await call_tool(used, {"toolUseId": "x", "input": own}, context)
        assert check(result), result
        attempts += 1
        successes += result["status"] == "success"
    return attempts, successes


def report(name: str, attempts: int, successes: int) -> None:
    """For whoever runs it with -s: nothing got through, or the test would have failed."""
    print(f"{name}: {attempts} attempts, {successes} inside, 0 through")
    assert attempts


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("swapped", ["dir", "a.txt"])
def test_nothing_outside_is_read_while_links_are_swapped(root: Path, name: str, swapped: str) -> None:
    used, given = READERS[name]
    outside = root.parent / "outside"
    is_file = swapped == "a.txt"
    path = "a.txt" if is_file else ("dir" if name in ("file_list", "file_search") else "dir/a.txt")

    def tells_nothing(result: Any) -> bool:
        shown = str(result["content"]).replace("outside the", "")
        return '["secret"]' not in shown and "secret-name" not in shown and "timeout" not in shown

    targets = [outside / "a.txt", "pipe", "/dev/zero"] if is_file else [outside, "..", "/"]
    with swapping(root, swapped, *targets):
        made = asyncio.run(attack(root, used, {**given, "path": path}, tells_nothing))
    report(f"{name} of a swapped {'file' if is_file else 'directory'}", *made)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swapped", ["dir", "a.txt"])
def test_nothing_outside_or_protected_is_written_while_links_are_swapped(
    root: Path, mode: str, swapped: str
) -> None:
    outside = root.parent / "outside"
    (root / ".git/a.txt").write_text("a hook")
    is_file = swapped == "a.txt"
    targets = [outside / "a.txt", ".git/a.txt", "pipe"] if is_file else [outside, ".git", "/tmp"]
    path = "a.txt" if is_file else "dir/a{}.txt" if mode == "create" else "dir/a.txt"

    def unharmed(result: Any) -> bool:
        untouched = (outside / "a.txt").read_text() == '["secret"]' and (
            root / ".git/a.txt"
        ).read_text() == "a hook"
        return untouched and len(os.listdir(outside)) == 2 and "timeout" not in str(result)

    with swapping(root, swapped, *targets):
        made = asyncio.run(attack(root, file_write, {"path": path, "content": "x", "mode": mode}, unharmed))
    report(f"file_write ({mode}) of a swapped {'file' if is_file else 'directory'}", *made)


def test_an_append_in_place_follows_no_swapped_link(root: Path) -> None:
    """A file that is too large to be copied is opened for writing."""
    outside = root.parent / "outside/a.txt"
    for file in (root / "a.txt", outside, root / ".git/a.txt"):
        os.truncate(file, 20_000_000) if file.exists() else file.write_bytes(b"\0" * 20_000_000)

    def unharmed(_result: Any) -> bool:
        return outside.stat().st_size == (root / ".git/a.txt").stat().st_size == 20_000_000

    with swapping(root, "a.txt", outside, ".git/a.txt"):
        given = {"path": "a.txt", "content": "x", "mode": "append"}
        made = asyncio.run(attack(root, file_write, given, unharmed))
    report("file_write (append in place)", *made)


@pytest.mark.parametrize("swapped", ["dir", "a.txt"])
def test_no_artifact_is_written_outside_while_links_are_swapped(root: Path, swapped: str) -> None:
    outside = root.parent / "outside"
    path = "a.txt" if swapped == "a.txt" else "dir/deep/a.txt"
    outputs = {"artifacts": [{"path": path, "from": "evil"}, {"path": "dir/b.txt", "from": "evil"}]}
    spec = Flow(root).spec("chain", {"steps": steps("go")}, outputs=outputs)
    targets = [outside / "a.txt", ".git/a.txt"] if swapped == "a.txt" else [outside, ".git"]
    end, attempts, successes = time.monotonic() + SECONDS, 0, 0
    with swapping(root, swapped, *targets):
        while time.monotonic() < end:
            attempts += 1
            try:
                write_artifacts(spec, {}, root, force=True)
                successes += 1
            except ArtifactError:
                pass
            assert (outside / "a.txt").read_text() == '["secret"]'
            assert sorted(os.listdir(outside)) == ["a.txt", "secret-name"]
            assert os.listdir(root / ".git") == []
    report(f"artifacts with a swapped {'file' if swapped == 'a.txt' else 'directory'}", attempts, successes)
