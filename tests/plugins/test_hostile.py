"""Hostile plugins: each call gives its coded error near its limit, nothing leaks, nothing is left."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.plugins.hostile import HOSTILE
from tests.plugins.hostile.records import ANSWER, Hostile, python, sh
from tests.plugins.hostile.surroundings import (
    CANARY,
    MAX_CHARACTERS,
    SETTING,
    SLACK_SECONDS,
    Surroundings,
    code_of,
    hint_of,
    is_in_a_room,
    shown,
)
from tests.plugins.makers import Bench, need
from tests.sandbox.ordinary_user import as_nobody, ordinary_user

LEAST = 30
PLUGIN_TESTS = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="executables are confined on Linux only")


@pytest.fixture
def surroundings(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Surroundings]:
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    monkeypatch.setenv("KEY", SETTING)
    made = Surroundings(bench)
    monkeypatch.setenv("HOME", str(made.home))
    yield made
    made.close()


def test_the_table_is_long_and_its_names_differ() -> None:
    assert len(HOSTILE) >= LEAST
    assert len({hostile.name for hostile in HOSTILE}) == len(HOSTILE)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_a_hostile_plugin_gets_nothing_and_leaves_nothing(
    hostile: Hostile, surroundings: Surroundings
) -> None:
    need(*hostile.needs)
    if hostile.only_in_room and not is_in_a_room():
        pytest.skip("without a mount namespace, scratch is a directory on the disk")
    tool = surroundings.tool(hostile)
    before = surroundings.contents()
    for result, seconds in asyncio.run(surroundings.calls(tool, hostile)):
        told = shown(result, surroundings)
        assert code_of(result) in hostile.codes, told[:3000]
        assert seconds < hostile.seconds + SLACK_SECONDS
        assert CANARY not in told
        assert SETTING not in told
        assert "ESCAPED" not in told
        assert hostile.says in told
        assert hostile.hint in hint_of(result)
        assert len(str(result["content"])) <= MAX_CHARACTERS
    assert surroundings.nothing_survives()
    assert surroundings.contents() == before, "something was changed"
    assert not surroundings.set_user_id_files()
    assert not surroundings.was_contacted()
    assert surroundings.victim.poll() is None, "it ended a process that is not its own"
    assert surroundings.still_serves()


@pytest.mark.parametrize("kind", ["file", "change", "contact"])
def test_what_a_manifest_allows_is_seen(kind: str, surroundings: Surroundings) -> None:
    """What the test above looks at does show what is done: each of these is allowed to do it."""
    outside = str(surroundings.bench.outside)
    allowed = {
        "file": sh("reads", "cat @outside@/secret.txt", files={"read": [outside]}),
        "change": sh("writes", "echo x > @outside@/made; echo done", files={"write": [outside]}),
        "contact": python(
            "connects", "socket.create_connection(('127.0.0.1', @port@), 2); print(1)", network=True
        ),
    }[kind]
    need(*allowed.needs)
    tool = surroundings.tool(allowed)
    before = surroundings.contents()
    ((result, _),) = asyncio.run(surroundings.calls(tool, allowed))
    assert code_of(result) == ANSWER, result
    assert (CANARY in shown(result, surroundings)) == (kind == "file")
    assert (surroundings.contents() != before) == (kind == "change")
    assert surroundings.was_contacted() == (kind == "contact")


# --- As an ordinary user ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(500)
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    place = Path(tempfile.mkdtemp(prefix="hostile-", dir="/tmp"))
    try:
        interpreter = ordinary_user(place)
        _copy_tests(place)
        temporary = place / "temporary"
        temporary.mkdir()
        temporary.chmod(0o777)
        settings = [
            f"PYTHONPATH={place}",
            "PATH=/usr/bin:/bin",
            f"TMPDIR={temporary}",
            f"HOME={temporary}",
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
        test = str(place / "tests" / "plugins" / Path(__file__).name)
        command = as_nobody(*settings, interpreter.executable, "-m", "pytest", *options, test)
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    finally:
        shutil.rmtree(place)


def _copy_tests(place: Path) -> None:
    target = place / "tests" / "plugins"
    shutil.copytree(
        PLUGIN_TESTS / "hostile", target / "hostile", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("__init__.py", "conftest.py", "makers.py", Path(__file__).name):
        shutil.copyfile(PLUGIN_TESTS / name, target / name)
    for name in ("pytest", "pluggy", "iniconfig", "pygments", "pytest-timeout"):
        for file in distribution(name).files or ():
            if ".." not in file.parts:
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), place / file)
