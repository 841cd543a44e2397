"""What a user approved is what runs: under its name, with its permissions, from a copy that nobody else changes."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import StrandsError, ToolError
from strands_cli.plugins.permissions import approve_plugin, plugins_to_approve, runnable_plugin
from strands_cli.plugins.plugin import read_plugin
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.toolkit.results import ToolResult, error_of
from tests.plugins.makers import PYTHON, SH, Bench, text_of
from tests.projects import Outcome, Project

GOOD, EVIL = SH + "cat >/dev/null\necho good\n", SH + "cat >/dev/null\necho evil\n"
RACE_SECONDS = float(os.environ.get("STRANDS_TEST_RACE_SECONDS", "5"))


def mostly_long(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Each case is a few commands: all but some of them run in `make test-all` only."""
    return [pytest.param(case, marks=() if case in quick else pytest.mark.long) for case in cases]


@pytest.fixture
def user(project: Project) -> Project:
    project.environment |= {
        "XDG_CONFIG_HOME": str(project.root.parent / "config"),
        "XDG_DATA_HOME": str(project.root.parent / "data"),
        "TMPDIR": str(project.root.parent / "tmp"),
    }
    (project.root.parent / "tmp").mkdir()
    return project


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return Bench(tmp_path)


def write_plugin(place: Path, source: str = GOOD, *, name: str = "greeter", **keys: Any) -> Path:
    (place / "cli-tools").mkdir(parents=True, exist_ok=True)
    (place / "cli-tools" / "say").write_text(source)
    (place / "cli-tools" / "say").chmod(0o755)
    config = keys.pop("plugin_config", {})
    tool = {"name": "say", "path": "cli-tools/say", "description": "Says something", **keys}
    document = {"name": name, "config": config, "cli_tools": [tool]}
    (place / "plugin.json").write_text(json.dumps(document, indent=2))
    return place


def approved(user: Project, source: str = GOOD, **keys: Any) -> Path:
    """A plugin that the user has approved, in the project."""
    place = write_plugin(user.root / "plugins" / "greeter", source, **keys)
    done = user.strands("plugin", "update", "greeter", "--yes")
    assert done.exit_code == 0, done
    return place


def say(user: Project, plugin: str = "greeter") -> Outcome:
    return user.strands("tool", "call", f"{plugin}__say", "{}")


def copies(user: Project) -> list[Path]:
    return [*(user.root.parent / "data" / "strands-cli" / "plugins").iterdir()]


def unsealed(copy: Path) -> Path:
    for directory, _, names in os.walk(copy):
        Path(directory).chmod(0o755)
        for name in names:
            Path(directory, name).chmod(0o755)
    return copy


def good(outcome: Outcome) -> bool:
    return outcome.exit_code == 0 and outcome.out == "good\n"


def refused(outcome: Outcome, *parts: str) -> None:
    assert outcome.exit_code == 10, outcome
    assert "evil" not in outcome.out, outcome
    for part in parts:
        assert part in outcome.err, outcome


# --- What runs is what was approved -----------------------------------------------------------------------


def test_an_approved_plugin_runs_from_the_users_copy(user: Project) -> None:
    approved(user, SH + 'cat >/dev/null\necho "$0"\n')
    (copy,) = copies(user)
    assert say(user).out.startswith(str(copy))
    assert copy.stat().st_mode & 0o222 == 0
    assert (copy / "plugin.json").stat().st_mode & 0o222 == 0


def test_what_trust_approved_it_lists_and_takes_back(user: Project) -> None:
    write_plugin(user.root / "plugins" / "greeter", network=True)
    write_plugin(user.root / "vendor" / "plugins" / "other", name="other", network=True)
    assert user.strands("plugin", "update", "vendor/plugins/other", "--yes").exit_code == 0
    assert user.strands("trust", "--yes").exit_code == 0
    assert good(say(user))
    listed = user.strands("trust", "--list")
    assert f"greeter ({user.root}/plugins/greeter)\n  greeter__say  network: opens" in listed.out, listed
    assert user.strands("trust", "--revoke").exit_code == 0
    refused(say(user), "needs your approval")
    assert "greeter" not in (left := user.strands("trust", "--list").out)
    assert "other (" in left
    assert user.strands("trust", "--revoke").exit_code == 2


def test_bytecode_that_was_planted_beside_an_approved_plugin_does_not_run(user: Project) -> None:
    source = (
        PYTHON
        + "import sys\nsys.path.insert(0, __file__.rpartition('/')[0])\nimport words\nprint(words.WORD)\n"
    )
    place = user.root / "plugins" / "greeter"
    (place / "cli-tools").mkdir(parents=True)
    words = place / "cli-tools" / "words.py"
    words.write_text("WORD = 'good'\n")
    approved(user, source)
    version = subprocess.run(
        ["python3", "-c", "import sys, importlib.util as u; print(sys.implementation.cache_tag, u.MAGIC_NUMBER.hex())"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    if version[1] != MAGIC_NUMBER.hex():
        pytest.skip("the python3 of the PATH has other bytecode")
    (words.parent / "__pycache__").mkdir()
    status = words.stat()
    head = (
        MAGIC_NUMBER
        + bytes(4)
        + int(status.st_mtime).to_bytes(4, "little")
        + status.st_size.to_bytes(4, "little")
    )
    code = head + dumps(compile("WORD = 'evil'\n", "words.py", "exec"))
    (words.parent / "__pycache__" / f"words.{version[0]}.pyc").write_bytes(code)
    assert good(say(user)), say(user)


@pytest.mark.parametrize("hidden", [".git", "__pycache__"])
def test_an_executable_where_nothing_is_hashed_is_not_a_tool(user: Project, hidden: str) -> None:
    place = write_plugin(user.root / "plugins" / "greeter", path=f"{hidden}/say")
    (place / hidden).mkdir()
    shutil.copy(place / "cli-tools" / "say", place / hidden / "say")
    outcome = say(user)
    assert outcome.exit_code == 18, outcome
    assert "outside the plugin" in outcome.err


@pytest.mark.long
def test_another_directory_in_the_place_of_an_approved_plugin_does_not_run(user: Project) -> None:
    place = approved(user)
    place.rename(user.root.parent / "moved")
    write_plugin(place, EVIL, network=True)
    refused(say(user), "has changed since it was approved", "strands plugin update greeter")
    shutil.rmtree(place)
    place.symlink_to(write_plugin(user.root.parent / "elsewhere", EVIL))
    refused(say(user), "has changed since it was approved")


def test_permissions_that_a_manifest_gains_later_are_not_given(user: Project) -> None:
    place = approved(user, SH + "cat >/dev/null\necho ${TOKEN:-good}\n")
    write_plugin(place, SH + "cat >/dev/null\necho ${TOKEN:-good}\n", env=["TOKEN"])
    refused(user.strands("tool", "call", "greeter__say", "{}", TOKEN="evil"), "changed: plugin.json")


def test_a_copy_that_was_changed_is_made_again_or_refused_but_does_not_run(user: Project) -> None:
    place = approved(user)
    (copy,) = copies(user)
    (unsealed(copy) / "cli-tools" / "say").write_text(EVIL)
    assert good(say(user))
    assert (copy / "cli-tools" / "say").read_text() == GOOD
    (unsealed(copy) / "cli-tools" / "say").write_text(EVIL)
    (place / "cli-tools" / "say").write_text(EVIL)  # both to the same
    refused(say(user), "has changed since it was approved")


def test_a_link_in_the_place_of_a_copy_is_not_followed(user: Project) -> None:
    approved(user)
    (copy,) = copies(user)
    evil = write_plugin(user.root.parent / "elsewhere", EVIL)
    unsealed(copy).rename(user.root.parent / "gone")
    copy.symlink_to(evil)
    assert good(say(user))
    assert not copy.is_symlink()


def test_a_copy_that_others_may_write_is_made_again(user: Project) -> None:
    approved(user)
    (copy,) = copies(user)
    (copy / "cli-tools" / "say").chmod(0o757)
    assert good(say(user))
    assert (copy / "cli-tools" / "say").stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("what", ["approvals.json", "copy"])
def test_what_another_user_owns_is_not_used(user: Project, what: str) -> None:
    approved(user, network=True)
    (copy,) = copies(user)
    mine = copy if what == "copy" else copy.parent.parent / what
    os.chown(mine, 65534, 65534)
    outcome = say(user)
    if what == "copy":
        assert good(outcome), outcome
        assert copy.stat().st_uid == 0
    else:
        refused(outcome, "another user")


@pytest.mark.long
def test_approvals_that_others_may_write_are_not_used(user: Project) -> None:
    approved(user, network=True)
    (user.root.parent / "data" / "strands-cli" / "approvals.json").chmod(0o666)
    refused(say(user), "can be written by another user")


@pytest.mark.long
def test_a_generous_umask_makes_nothing_of_the_user_writable_for_others(user: Project) -> None:
    before = os.umask(0)
    try:
        approved(user, network=True)
        assert good(say(user))
    finally:
        os.umask(before)
    data = user.root.parent / "data" / "strands-cli"
    assert [file for file in (data, *data.rglob("*")) if file.stat().st_mode & 0o022] == []


# --- The race ---------------------------------------------------------------------------------------------

_SWAPPER = """
import os, sys, time
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    os.rename("greeter", "kept"); os.rename("evil", "greeter")
    os.rename("greeter", "evil"); os.rename("kept", "greeter")
"""


@contextmanager
def swapped(plugins: Path) -> Iterator[None]:
    """Meanwhile the approved plugin is now there, now another one has its place, now there is none."""
    with subprocess.Popen([sys.executable, "-c", _SWAPPER, str(plugins)], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout
            assert swapper.stdout.readline() == b"ready\n"
            yield
        finally:
            swapper.kill()


@pytest.mark.long
@pytest.mark.timeout(60 + 4 * RACE_SECONDS)
def test_a_swap_between_the_check_and_the_start_wins_nothing(bench: Bench) -> None:
    place = write_plugin(bench.project / "plugins" / "greeter", mode="fresh", network=True)
    (pending,) = plugins_to_approve(bench.settings)
    approve_plugin(pending.plugin, pending.files, bench.settings)
    shutil.copytree(place, place.parent / "evil")
    write_plugin(place.parent / "evil", EVIL, mode="fresh", network=True, env=["HOME"])
    outcomes = {"good": 0, "denied": 0}

    async def call() -> ToolResult:
        plugin = read_plugin(place).plugin
        assert plugin is not None
        runnable = runnable_plugin(plugin, bench.settings)
        tool = plugin_tool(runnable, runnable.manifest.cli_tools[0], bench.settings)
        return await bench.ask(tool)

    async def calls() -> None:
        end = time.monotonic() + RACE_SECONDS
        while time.monotonic() < end:
            try:
                result = await call()
            except (AssertionError, ToolError):  # there was none, or another one
                outcomes["denied"] += 1
                continue
            error = error_of(result)
            assert error is None or error["code"] == "denied", result
            outcomes["denied" if error else text_of(result)] += 1

    with swapped(place.parent):
        asyncio.run(calls())
    print(outcomes)
    assert outcomes.keys() == {"good", "denied"}, outcomes
    assert outcomes["good"]


# --- A name belongs to one approved source ----------------------------------------------------------------


def test_a_second_plugin_of_an_approved_name_does_not_run_and_is_reported(user: Project) -> None:
    place = approved(user)
    second = write_plugin(user.root / "plugins" / "a-first", EVIL)
    assert good(say(user)), say(user)
    listed = user.strands("list-tools", "--verbose")
    assert listed.exit_code == 0
    for part in (str(place), str(second), f"strands plugin update {second}"):
        assert part in listed.err, listed
    states = {
        one["place"]: one["approval"] for one in user.strands("plugin", "list", "--json").json["plugins"]
    }
    assert states == {str(place): "approved", str(second): "duplicate"}


@pytest.mark.long
def test_a_plugin_in_the_place_of_a_link_to_an_approved_one_is_the_one_that_is_listed_and_runs(
    user: Project,
) -> None:
    place = approved(user, network=True)
    old = time.time() - 60  # what is older than a moment is remembered
    for path in (*place.rglob("*"), *(user.root.parent / "data").rglob("*")):
        os.utime(path, (old, old))
    clone = user.root.parent / "clone"
    clone.mkdir()
    (clone / "strands.toml").touch()
    (clone / "plugins").symlink_to(place.parent)
    time.sleep(1)
    for _ in range(2):
        assert good(user.strands("tool", "call", "greeter__say", "{}", cwd=clone))
    (clone / "plugins").unlink()
    write_plugin(clone / "plugins" / "greeter", EVIL)  # its own, with no more than every plugin gets
    assert user.strands("tool", "call", "greeter__say", "{}", cwd=clone).out == "evil\n"


def test_a_name_that_is_asked_for_means_the_approved_plugin_in_every_command(user: Project) -> None:
    place = approved(user)
    write_plugin(user.root / "plugins" / "a-first", EVIL, network=True)
    outcome = user.strands("plugin", "update", "greeter")
    assert "is unchanged since it was approved" in outcome.out, outcome
    assert user.strands("plugin", "remove", "greeter", "--yes").exit_code == 0
    assert not place.exists()


def test_a_workflow_cannot_bring_a_plugin_of_an_approved_name(user: Project) -> None:
    approved(user)
    other = write_plugin(user.root / "flows" / "mine", EVIL)
    flow = {
        "version": 0, "name": "flow", "runtime": {"provider": "ollama"}, "tools": {"plugins": ["flows/mine"]},
        "agents": {"a": {"prompt": "hi"}},
        "pattern": {"type": "chain", "config": {"steps": [{"agent": "a", "input": "go"}]}},
    }  # fmt: skip
    user.write("flow.yaml", json.dumps(flow))
    outcome = user.strands("validate", "flow.yaml")
    assert outcome.exit_code != 0
    assert f"{other} does not run" in outcome.out + outcome.err, outcome


@pytest.mark.long
def test_a_project_cannot_take_the_name_of_a_plugin_that_the_user_has_everywhere(user: Project) -> None:
    source = write_plugin(user.root.parent / "source")
    assert user.strands("plugin", "add", str(source), "--user", "--yes").exit_code == 0
    cloned = write_plugin(user.root / "plugins" / "greeter", EVIL)
    outcome = say(user)
    assert "evil" not in outcome.out, outcome
    assert user.strands("plugin", "list", "--json").json["plugins"][0]["approval"] == "duplicate"
    assert user.strands("plugin", "update", str(cloned), "--yes").exit_code == 0
    assert say(user).out == "evil\n"  # the user decided so


@pytest.mark.long
def test_a_name_moves_to_another_plugin_by_the_users_decision_only(user: Project) -> None:
    place = approved(user)
    second = write_plugin(user.root / "plugins" / "second", SH + "cat >/dev/null\necho second\n")
    outcome = user.strands("plugin", "update", str(second))
    assert outcome.exit_code == 19, outcome
    assert str(place) in outcome.err
    assert good(say(user))
    assert user.strands("plugin", "update", str(second), "--yes").exit_code == 0
    states = {
        one["place"]: one["approval"] for one in user.strands("plugin", "list", "--json").json["plugins"]
    }
    assert states == {str(place): "duplicate", str(second): "approved"}
    assert say(user).out == "second\n"


@pytest.mark.long
def test_a_name_whose_plugin_is_gone_still_belongs_to_it_until_the_user_lets_go(user: Project) -> None:
    shutil.rmtree(approved(user))
    write_plugin(user.root / "plugins" / "another", EVIL)
    refused(say(user), "belongs to the plugin in")
    shutil.rmtree(user.root / "plugins" / "another")
    assert user.strands("plugin", "remove", "greeter").exit_code == 0
    write_plugin(user.root / "plugins" / "another")
    assert good(say(user))


# --- Who asks for more is asked about ---------------------------------------------------------------------

BEYOND = {
    "the network": ({"network": True}, "say opens network connections"),
    "a variable": ({"env": ["AWS_SECRET_ACCESS_KEY"]}, "say gets the environment variable AWS_SECRET_ACCESS_KEY"),
    "a secret": ({"config": {"key": {"sensitive": True}}}, "say gets the secret key (GREETER_KEY)"),
    "a variable as a setting": (
        {"config": {"x": {"env": "OPENAI_API_KEY", "required": False}}},
        "say gets the environment variable OPENAI_API_KEY",
    ),
    "a variable for all tools": ({"plugin_config": {"token": {}}}, "get the environment variable GREETER_TOKEN"),
    "the home directory": ({"files": {"read": ["~/.ssh"]}}, "say reads ~/.ssh, which is outside the workspace"),
    "an absolute path": ({"files": {"write": ["/var/tmp"]}}, "say writes /var/tmp, which is outside"),
    "a way up": ({"files": {"read": ["docs/../../x"]}}, "say reads docs/../../x, which is outside"),
    "hooks": ({"files": {"write": [".git/hooks"]}}, "say writes .git/hooks, which is protected"),
    "plugins": ({"files": {"write": ["./plugins"]}}, "say writes ./plugins, which is protected"),
}  # fmt: skip


@pytest.mark.parametrize("asked", mostly_long(BEYOND, "the network", "a variable as a setting"))
def test_a_cloned_plugin_that_asks_for_more_is_refused_until_it_is_approved(
    user: Project, asked: str
) -> None:
    keys, sentence = BEYOND[asked]
    place = write_plugin(user.root / "plugins" / "greeter", **keys)
    lines = (place / "plugin.json").read_text().splitlines()
    for command in (["tool", "call", "greeter__say", "{}"], ["plugin", "test", "greeter"]):
        outcome = user.strands(*command, GREETER_KEY="k", GREETER_TOKEN="t")
        refused(outcome, sentence, "strands plugin update greeter")
        number = int(outcome.err.partition("(line ")[2].partition(")")[0])
        word = {
            "plugin_config": "token",
            "config": next(iter(keys.get("config", "-"))),
            "files": "/",
            "env": "AWS",
        }
        assert word.get(next(iter(keys)), "network") in lines[number - 1]
    assert user.strands("plugin", "update", "greeter", "--yes").exit_code == 0
    outcome = user.strands("tool", "call", "greeter__say", "{}", GREETER_KEY="k", GREETER_TOKEN="t")
    assert good(outcome) or asked == "a way up", outcome  # which the sandbox refuses all the same


def test_a_plugin_that_asks_for_no_more_than_every_plugin_needs_no_approval(user: Project) -> None:
    config = {"n": {"type": "integer", "default": 1}, "unit": {"enum": ["a", "b"], "default": "a"}}
    keys: dict[str, Any] = {"files": {"read": ["/usr/share", "docs"], "write": [".", "out"]}, "env": ["LANG"]}
    write_plugin(user.root / "plugins" / "greeter", config=config, **keys)
    (user.root / "out").mkdir()
    (user.root / "docs").mkdir()
    assert good(say(user)), say(user)


def test_a_lock_that_comes_with_a_project_approves_nothing(user: Project) -> None:
    write_plugin(user.root / "plugins" / "greeter", EVIL, network=True)
    author = {"XDG_DATA_HOME": str(user.root.parent / "author")}
    assert user.strands("plugin", "update", "greeter", "--yes", **author).exit_code == 0
    assert (user.root / "strands-plugins.lock").exists()
    refused(say(user), "needs your approval", "say opens network connections")
    assert user.strands("list-tools").exit_code == 0
    assert not (user.root.parent / "data").exists()


@pytest.mark.long
def test_approvals_inside_the_project_approve_nothing(user: Project) -> None:
    approved(user, EVIL, network=True)
    data = user.root.parent / "data"
    shutil.copytree(data, user.root / ".local" / "share")
    shutil.copytree(data / "strands-cli", user.root / "data")
    unsealed(data)
    shutil.rmtree(data)
    refused(say(user), "needs your approval")


def test_all_that_is_allowed_is_shown_before_it_is_approved(user: Project) -> None:
    write_plugin(
        user.root / "plugins" / "greeter", network=True, env=["A"], files={"read": ["~/x"], "write": ["out"]},
        config={"key": {"sensitive": True}}, memory="2GB", timeout=90, idle_timeout=9, retries=2,
        annotations={"idempotentHint": True}, max_output=5_000_000, mode="worker", requires_consent=True,
    )  # fmt: skip
    shown = user.strands("plugin", "update", "greeter")
    assert shown.exit_code == 19
    for part in (
        "network: opens connections", "files: reads ~/x", "files: writes out", "env: gets A",
        "config: gets key from GREETER_KEY, secret", "90 s", "silent for 9 s", "2048 MB", "2 retries",
        "5,000,000 bytes", "worker", "asks before each call",
    ):  # fmt: skip
        assert part in shown.err, (part, shown)


def test_a_plugin_that_changes_while_it_is_shown_is_not_approved(bench: Bench) -> None:
    place = write_plugin(bench.project / "plugins" / "greeter", network=True)
    (pending,) = plugins_to_approve(bench.settings)
    assert [ask.reason for ask in pending.asks] == ["say opens network connections"]
    assert pending.asks[0].file == str(place / "plugin.json")
    (place / "cli-tools" / "say").write_text(EVIL)
    with pytest.raises(StrandsError, match="changed after it was shown"):
        approve_plugin(pending.plugin, pending.files, bench.settings)
    assert plugins_to_approve(bench.settings)
    (pending,) = plugins_to_approve(bench.settings)
    approve_plugin(pending.plugin, pending.files, bench.settings)
    assert plugins_to_approve(bench.settings) == []


# --- What cannot be approved ------------------------------------------------------------------------------


def make_socket(place: Path) -> None:
    here = Path.cwd()
    os.chdir(place.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.name)
    finally:
        os.chdir(here)


def make_deep(place: Path) -> None:
    place.joinpath(*["d"] * 40).mkdir(parents=True)


def make_many(place: Path) -> None:
    place.mkdir()
    for number in range(20_001):
        os.link(place.parent / "plugin.json", place / str(number)) if number else None
        if number == 0:
            (place / "0").touch()


UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "neither a file nor a link"),
    "a socket": (make_socket, "neither a file nor a link"),
    "a link to a secret": (lambda place: place.symlink_to("/etc/passwd"), "leads out of the plugin"),
    "a link up": (lambda place: place.symlink_to("../../strands.toml"), "leads out of the plugin"),
    "a name that clears the screen": (lambda place: (place.parent / "\x1b[2J").touch(), "cannot be shown"),
    "a file of 2 TB": (
        lambda place: os.truncate(os.open(place, os.O_CREAT | os.O_WRONLY), 2 << 40),
        "too large",
    ),
    "40 levels": (make_deep, "too deep"),
}


@pytest.mark.parametrize("what", mostly_long(UNFIT, "a pipe", "a file of 2 TB"))
def test_what_is_no_plain_file_or_too_much_is_refused_at_once(user: Project, what: str) -> None:
    make, reason = UNFIT[what]
    place = write_plugin(user.root / "plugins" / "greeter", network=True)
    make(place / "extra")
    for command in (
        ["plugin", "update", "greeter", "--yes"],
        ["plugin", "add", str(place), "--user", "--yes"],
    ):
        outcome = user.strands(*command)
        assert outcome.exit_code not in (0, 70), outcome
        assert reason in outcome.err, outcome
        assert "\x1b" not in outcome.err
        assert outcome.seconds < 20
    assert not [*(user.root.parent / "tmp").iterdir()]
    assert user.strands("list-tools").exit_code == 0


@pytest.mark.long
def test_more_files_than_a_plugin_may_have_are_refused(user: Project) -> None:
    place = write_plugin(user.root / "plugins" / "greeter", network=True)
    make_many(place / "extra")
    outcome = user.strands("plugin", "update", "greeter", "--yes")
    assert outcome.exit_code not in (0, 70), outcome
    assert "too large" in outcome.err


# --- Decisions at the same time, and the end of copies ----------------------------------------------------


def start(user: Project, *arguments: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "strands_cli", *arguments],
        cwd=user.root, env=user.environment | env, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.long
def test_plugins_that_are_disabled_at_the_same_time_are_all_disabled(user: Project) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        write_plugin(user.root / "plugins" / name, name=name)
    running = [start(user, "plugin", "disable", name) for name in names]
    assert [process.communicate()[1] for process in running] == [""] * 20
    listed = user.strands("plugin", "list", "--json").json["plugins"]
    assert [one["name"] for one in listed if one["enabled"]] == []


@pytest.mark.long
def test_plugins_that_are_approved_at_the_same_time_are_all_approved(user: Project) -> None:
    names = [f"p{number}" for number in range(6)]
    for name in names:
        write_plugin(user.root / "plugins" / name, name=name, network=True)
    running = [start(user, "plugin", "update", name, "--yes") for name in names]
    assert [(process.communicate()[1], process.returncode)[1] for process in running] == [0] * 6
    listed = user.strands("plugin", "list", "--json").json["plugins"]
    assert {one["name"]: one["approval"] for one in listed} == dict.fromkeys(names, "approved")


@pytest.mark.long
def test_copies_that_no_approval_names_are_deleted(user: Project) -> None:
    place = approved(user)
    (first,) = copies(user)
    (place / "cli-tools" / "say").write_text(GOOD + "# more\n")
    assert user.strands("plugin", "update", "greeter", "--yes").exit_code == 0
    (second,) = copies(user)
    assert second != first
    assert user.strands("plugin", "remove", "greeter", "--yes").exit_code == 0
    assert copies(user) == []


def test_a_copy_is_not_deleted_while_it_is_in_use(bench: Bench) -> None:
    place = write_plugin(bench.project / "plugins" / "greeter", network=True)
    (pending,) = plugins_to_approve(bench.settings)
    approve_plugin(pending.plugin, pending.files, bench.settings)
    runnable = runnable_plugin(pending.plugin, bench.settings)
    command = [sys.executable, "-m", "strands_cli", "plugin", "remove", "greeter", "--yes"]
    subprocess.run(command, cwd=bench.project, check=True, capture_output=True)
    assert not place.exists()
    assert (runnable.directory / "cli-tools" / "say").read_text() == GOOD


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("ending", mostly_long([signal.SIGTERM, signal.SIGHUP], signal.SIGTERM))
@pytest.mark.parametrize("command", mostly_long(["add", "update"], "add"))
def test_a_signal_leaves_no_temporary_directory(user: Project, command: str, ending: signal.Signals) -> None:
    """At a moment when the plugin is being fetched: Git waits for a server that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/greeter.git"
        arguments = ["add", url]
        if command == "update":
            place = write_plugin(user.root / "plugins" / "greeter")
            assert user.strands("plugin", "update", "greeter", "--yes").exit_code == 0
            lock = user.root / "strands-plugins.lock"
            entries = json.loads(lock.read_text())
            entries["plugins"]["plugins/greeter"]["source"] = url
            lock.write_text(json.dumps(entries))
            arguments = ["update", "greeter"]
        before = sorted(user.root.rglob("*"))
        with start(user, "plugin", *arguments, "--yes") as process:
            server.settimeout(30)
            client, _ = server.accept()
            assert [*(user.root.parent / "tmp").iterdir()]
            process.send_signal(ending)
            assert process.wait(timeout=30) == 128 + ending
            client.close()
    assert [*(user.root.parent / "tmp").iterdir()] == []
    assert sorted(user.root.rglob("*")) == before
    if command == "update":
        assert place.exists()
        assert good(say(user))


_SIGNALLED_ELSEWHERE = """
import signal, socket, sys, threading, time
from strands_cli.cli.app import run_command_line

def interrupt():
    client, _ = server.accept()
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    client.recv(10_000), time.sleep(60)

with socket.create_server(("127.0.0.1", 0)) as server:
    threading.Thread(target=interrupt, daemon=True).start()
    url = f"git://127.0.0.1:{server.getsockname()[1]}/greeter.git"
    sys.exit(run_command_line(["plugin", "add", url, "--yes"]))
"""


def test_a_signal_that_wakes_nobody_ends_a_fetch_too(user: Project) -> None:
    """The kernel may hand a signal to another thread, or just before the wait begins."""
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED_ELSEWHERE],
        cwd=user.root, env=user.environment, capture_output=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGTERM, done


_COMING_AND_GOING = """
import os, shutil, sys, time
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    os.rename("gone", "../away"); time.sleep(0.0005)
    os.rename("../away", "gone"); time.sleep(0.0005)
"""


def test_a_plugin_that_goes_away_while_others_are_listed_ends_nothing(user: Project) -> None:
    for name in ("gone", "kept"):
        write_plugin(user.root / "plugins" / name, name=name)
        assert user.strands("plugin", "update", name, "--yes").exit_code == 0
    program = [sys.executable, "-c", _COMING_AND_GOING, str(user.root / "plugins")]
    code = (
        "import sys\nfrom strands_cli.cli.app import run_command_line\n"
        "for _ in range(15):\n"
        "    for command in (['plugin', 'list'], ['list-tools', '--json']):\n"
        "        status = run_command_line(command)\n"
        "        assert status == 0, (command, status)\n"
    )
    with subprocess.Popen(program, stdout=subprocess.PIPE) as mover:
        try:
            assert mover.stdout
            mover.stdout.readline()
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=user.root, env=user.environment, check=False,
                capture_output=True, text=True, timeout=50,
            )  # fmt: skip
        finally:
            mover.kill()
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("kept  ") == 15


def test_a_data_directory_that_cannot_be_made_is_told_as_what_it_is(user: Project) -> None:
    write_plugin(user.root / "plugins" / "greeter", network=True)
    nowhere = str(user.write("file", "") / "data")
    outcome = user.strands("plugin", "update", "greeter", "--yes", XDG_DATA_HOME="/proc/nothing")
    assert "Your approvals cannot be written: " in outcome.err
    assert "set XDG_DATA_HOME" in outcome.err
    for command in ("list-tools", "plugin list", "doctor"):
        assert "This is a bug" not in user.strands(*command.split(), XDG_DATA_HOME=nowhere).err
    outcome = user.strands("plugin", "remove", "greeter", "--yes", XDG_DATA_HOME="/proc/nothing")
    assert outcome.exit_code == 0, outcome  # nothing was approved that would have to be forgotten
