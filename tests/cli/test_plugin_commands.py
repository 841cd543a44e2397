"""`strands plugin …` as a person or a program uses it: real plugins, real repositories, real processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from strands_cli.cli.plugin.conformance import example_input
from strands_cli.schema.validator import Validator
from tests.cli.test_commands import on_terminal
from tests.plugins.makers import BASH, PYTHON, SH, need
from tests.projects import Outcome, Project

IDENTITY = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": "test@example.com"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
HELLO = SH + 'read -r input\necho \'{"message": "hello"}\'\n'
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
LOCK = "strands-plugins.lock"


@pytest.fixture
def home(project: Project) -> Project:
    """The project of a user whose configuration is empty."""
    project.environment["XDG_CONFIG_HOME"] = str(project.root.parent / "config")
    project.environment |= IDENTITY
    return project


def write_plugin(
    place: Path, source: str = HELLO, *, name: str = "hello", version: str = "1.0.0", **keys: Any
) -> Path:
    """A plugin with one tool `say` in a directory."""
    (place / "cli-tools").mkdir(parents=True, exist_ok=True)
    file = place / "cli-tools" / "say"
    file.write_text(source)
    file.chmod(0o755)
    tool = {"name": "say", "path": "cli-tools/say", "description": "Says hello", **keys}
    manifest = {"name": name, "version": version, "cli_tools": [tool]}
    (place / "plugin.json").write_text(json.dumps(manifest, indent=2))
    return place


def origin(project: Project, **keys: Any) -> Path:
    """A plugin outside the project."""
    return write_plugin(project.root.parent / "origin", **keys)


def plugins_of(project: Project) -> dict[str, dict[str, Any]]:
    return {plugin["name"]: plugin for plugin in project.strands("plugin", "list", "--json").json["plugins"]}


def lock_of(project: Project) -> dict[str, Any]:
    return json.loads((project.root / LOCK).read_text())["plugins"]  # type: ignore[no-any-return]


def say(project: Project, plugin: str = "hello") -> Outcome:
    return project.strands("tool", "call", f"{plugin}__say", "{}", "--json")


def refused(outcome: Outcome, exit_code: int, *parts: str) -> None:
    assert outcome.exit_code == exit_code, outcome
    for part in parts:
        assert part in outcome.err, outcome


def nothing_was_left(project: Project) -> bool:
    return not (project.root / "plugins").exists() and not (project.root / LOCK).exists()


# --- new --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "programs"),
    [("python", ["python3"]), ("bash", ["bash", "jq"]), ("node", ["node"]), ("c", ["cc"])],
)
def test_a_new_plugin_is_in_order_passes_its_test_and_works(
    home: Project, language: str, programs: list[str]
) -> None:
    need(*programs)
    made = home.strands("plugin", "new", "hi-there", "--language", language)
    assert made.exit_code == 0, made
    assert {"plugins/hi-there/plugin.json", "plugins/hi-there/README.md"} <= {*made.out.splitlines()}
    assert home.strands("plugin", "validate", "plugins/hi-there").exit_code == 0
    tested = home.strands("plugin", "test", "plugins/hi-there", "--json")
    assert tested.exit_code == 0, tested
    (tool,) = tested.json["tools"]
    left = {check["check"] for check in tool["checks"] if check["outcome"] != "passed"}
    assert left <= {"timeout"}, tested  # some answer too fast to be timed
    given = json.dumps({"text": 'ü "a"\n\n\t😀\n'}, ensure_ascii=language == "c")
    answer = home.strands("tool", "call", "hi-there__stats", given)
    assert json.loads(answer.out) == {"lines": 3, "words": 3, "characters": 10}, answer


def test_the_test_of_a_new_plugin_is_one_of_the_projects_and_passes(home: Project) -> None:
    made = home.strands("plugin", "new", "hi-there")
    assert "tests/test_hi-there__stats.py" in made.out
    tests = home.strands("tool", "test", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert (tests.exit_code, "3 passed" in tests.out) == (0, True), tests


def test_new_refuses_a_bad_name_and_a_place_that_is_taken(home: Project) -> None:
    for name in ("../escape", "-x", "a" * 58, "", "a b"):
        refused(home.strands("plugin", "new", "--", name), 2, "cannot be the name of a plugin")
    home.write("plugins/taken/notes.txt", "mine")
    home.write("tests/test_tested__stats.py", "")
    for name in ("taken", "tested"):
        refused(home.strands("plugin", "new", name), 2, "nothing was written")
    assert [file.name for file in (home.root / "plugins").rglob("*")] == ["taken", "notes.txt"]


def test_new_in_c_without_a_compiler_writes_nothing(home: Project) -> None:
    refused(home.strands("plugin", "new", "x", "--language", "c", PATH="/nowhere"), 18, "nothing was written")
    assert nothing_was_left(home)


# --- list and validate ------------------------------------------------------------------------------------


def test_list_shows_every_plugin_its_state_and_its_problems_and_runs_nothing(home: Project) -> None:
    trace = home.root / "ran"
    write_plugin(home.root / "plugins" / "good", f"{SH}touch {trace}\n", name="good")
    write_plugin(home.root / "plugins" / "bad", name="bad", timeout="soon")
    listed = home.strands("plugin", "list")
    assert listed.exit_code == 0
    assert "good  1.0.0  project  enabled  unlocked  1 tool: say" in listed.out
    assert "bad   -      project  enabled  unlocked  1 problem" in listed.out
    assert "plugins/bad/plugin.json:9:7  /cli_tools/0/timeout" in listed.err
    assert not trace.exists()


def test_list_tells_in_detail_what_tools_may_touch(home: Project) -> None:
    place = write_plugin(
        home.root / "plugins" / "p",
        name="p",
        network=True,
        files={"read": ["~/.cache"], "write": ["out"]},
        env=["EDITOR"],
        config={"api_key": {"sensitive": True, "env": "P_KEY"}},
        requires={"binaries": ["no-such-program"]},
    )
    shutil.copy(place / "cli-tools" / "say", place / "cli-tools" / "forgotten")
    shown = home.strands("plugin", "list", "--verbose").out
    for part in (
        "p__say  cli-tools/say  30 s, 512 MB  [unavailable: ",
        "network: opens connections",
        "files: reads ~/.cache",
        "files: writes out",
        "env: gets EDITOR",
        "config: gets api_key from P_KEY, secret",
        "undeclared executable, not a tool: cli-tools/forgotten",
    ):
        assert part in shown, shown
    plugin = plugins_of(home)["p"]
    assert plugin["undeclared"] == ["cli-tools/forgotten"]
    assert plugin["tools"][0]["access"] == {
        "network": True,
        "files": {"read": ["~/.cache"], "write": ["out"]},
        "env": ["EDITOR"],
        "config": {"api_key": {"env": "P_KEY", "sensitive": True, "required": True}},
    }


def test_list_without_plugins_says_where_they_would_lie(home: Project) -> None:
    listed = home.strands("plugin", "list")
    assert (listed.exit_code, listed.out) == (0, "")
    assert str(home.root / "plugins") in listed.err


def test_validate_finds_every_problem_with_its_place(home: Project) -> None:
    place = write_plugin(home.root / "p", timeout=-1, retrys=2)
    for path in (place, place / "plugin.json"):
        found = home.strands("plugin", "validate", str(path), "--json")
        assert found.exit_code == 3
        issues = found.json["issues"]
        assert {issue["pointer"] for issue in issues} == {"/cli_tools/0/timeout", "/cli_tools/0/retrys"}
        assert all(issue["file"] == str(place / "plugin.json") and issue["line"] for issue in issues)
    told = home.strands("plugin", "validate", str(place))
    assert "plugin.json:9:7  /cli_tools/0/timeout  error" in told.out
    refused(home.strands("plugin", "validate", "nowhere"), 2, "Plugin 'nowhere' not found")
    refused(home.strands("plugin", "validate", "no/where"), 2, "no/where does not exist")
    (place / "plugin.json").unlink()
    assert "plugin.json not found" in home.strands("plugin", "validate", str(place)).out


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [("validate",), ("test",), ("disable",), ("enable",), ("update", "--yes"), ("remove", "--yes")],
)
def test_every_command_takes_the_name_of_a_plugin_and_its_path(
    home: Project, arguments: tuple[str, ...]
) -> None:
    verb, *options = arguments
    for reference in (
        "hello",
        "plugins/hello",
        "./plugins/hello/plugin.json",
        str(home.root / "plugins/hello"),
    ):
        write_plugin(home.root / "plugins" / "hello")
        done = home.strands("plugin", verb, reference, *options)
        assert done.exit_code == 0, done
        assert "hello" in done.out + done.err
    refused(home.strands("plugin", verb, "helo", *options), 2, "Plugin 'helo' not found")


def test_a_name_is_looked_up_before_a_directory_beside_it(home: Project) -> None:
    write_plugin(home.root / "plugins" / "hello")
    write_plugin(home.root / "hello", timeout=-1)
    assert home.strands("plugin", "validate", "hello").exit_code == 0
    assert home.strands("plugin", "validate", "./hello").exit_code == 3


def test_validate_warns_of_what_could_not_be_shared(home: Project) -> None:
    place = write_plugin(home.root / "p")
    (place / "data").symlink_to("/etc/hostname")
    found = home.strands("plugin", "validate", str(place), "--json")
    assert found.exit_code == 0
    assert [(issue["severity"], issue["reason"]) for issue in found.json["issues"]] == [
        ("warning", "This link leads out of the plugin, to /etc/hostname.")
    ]


# --- test -------------------------------------------------------------------------------------------------


def checks_of(project: Project, source: str, **keys: Any) -> tuple[Outcome, dict[str, tuple[str, str]]]:
    place = write_plugin(project.root / "tried", source, **keys)
    tested = project.strands("plugin", "test", str(place), "--json")
    (tool,) = tested.json["tools"]
    return tested, {check["check"]: (check["outcome"], check["reason"]) for check in tool["checks"]}


EXAMPLE = {
    "type": "object",
    "properties": {"text": {"type": "string", "examples": ["hi"]}},
    "required": ["text"],
}
FAULTY: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "noise before its answer": (SH + "cat >/dev/null\necho starting\necho '{}'\n", {}, "noise on stdout", "starting"),
    "noise around its answer": (SH + "cat >/dev/null\necho loading\necho '{}'\necho bye\n", {}, "noise on stdout", "lines around it"),
    "broken JSON": (SH + "cat >/dev/null\necho '{\"a\": }'\n", {}, "noise on stdout", "looks like JSON"),
    "a failure": (SH + "echo broken >&2\nexit 1\n", {}, "good input", "broken"),
    "no answer": (SH + "cat >/dev/null\n", {}, "good input", "exited without an answer"),
    "a missing setting": (HELLO, {"config": {"key": {"type": "integer"}}}, "good input", "'key' has no value"),
    "a wrong answer": (HELLO, {"output_schema": {"type": "array"}}, "good input", "output_invalid"),
    "an endless run": (SH + "sleep 60\n", {"timeout": 0.3}, "good input", "timeout"),
    "a write that is refused": (SH + "cat > new.txt\necho '{}'\n", {}, "good input", "It tried to write"),
    "input as an argument": (BASH + 'input=$(cat)\n/bin/echo "$input"\n', {}, "huge input", "Argument list too long"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTY)
def test_a_plugin_with_a_fault_fails_its_test(home: Project, fault: str) -> None:
    source, keys, check, reason = FAULTY[fault]
    tested, checks = checks_of(home, source, **{"parameters": EXAMPLE, **keys})
    assert tested.exit_code == 10, tested
    assert checks[check][0] == "failed", checks
    assert reason in checks[check][1], checks
    assert tested.json["failed"] == [outcome for outcome, _ in checks.values()].count("failed")


def test_bad_arguments_are_refused_before_the_tool_runs(home: Project) -> None:
    trace = home.root / "trace"
    trace.mkdir()
    source = SH + f'cat >> {trace}/inputs\necho "{{}}"\n'
    _, checks = checks_of(home, source, parameters=EXAMPLE, files={"write": [str(trace)]})
    assert checks["missing arguments"] == ("passed", "refused before it ran: text")
    assert checks["wrong arguments"] == ("passed", "refused before it ran: text that is not JSON, text")
    seen = [json.loads(line)["text"][:2] for line in (trace / "inputs").read_text().splitlines()]
    assert {*seen} == {"hi", "xx"}


def test_made_up_input_that_a_tool_refuses_is_no_fault(home: Project) -> None:
    source = SH + 'cat >/dev/null\necho \'{"error": {"code": "not_found", "message": "no such file"}}\'\n'
    tested, checks = checks_of(home, source, parameters=TEXT)
    assert tested.exit_code == 0, tested
    assert checks["good input"][0] == "skipped"
    assert "give 'examples'" in checks["good input"][1]
    assert checks_of(home, source, parameters=EXAMPLE)[1]["good input"][0] == "failed"


def test_errors_that_are_expected_are_told_in_a_few_words(home: Project) -> None:
    source = SH + "cat >&2\nexit 1\n"
    _, checks = checks_of(home, source, parameters=TEXT)
    assert checks["second call"] == ("passed", "the same error as before (failed)")
    assert checks["huge input"] == ("passed", "500,000 characters in text: the tool refused it (failed)")


@pytest.mark.long
def test_a_tool_is_timed_or_the_check_is_skipped(home: Project) -> None:
    _, checks = checks_of(home, SH + "cat >/dev/null\nsleep 0.3\necho '{}'\n", parameters=EXAMPLE)
    assert checks["timeout"][0] == "passed"
    _, checks = checks_of(home, HELLO, parameters=EXAMPLE)
    outcome, reason = checks["timeout"]
    assert outcome == "passed" or (outcome, reason) == ("skipped", "it answers too fast to be timed")


def test_a_tool_that_cannot_run_here_is_skipped_with_the_reason(home: Project) -> None:
    tested, checks = checks_of(home, HELLO, requires={"binaries": ["no-such-program"]})
    assert tested.exit_code == 0
    assert {outcome for outcome, _ in checks.values()} == {"skipped"}
    assert all("no-such-program" in reason for _, reason in checks.values())


def test_what_a_tool_leaves_running_is_gone_after_its_test(home: Project) -> None:
    seconds = str(100_000 + os.getpid())
    source = (
        SH + f"cat >/dev/null\nsleep {seconds} &\n(setsid sleep {seconds} >/dev/null 2>&1 &)\necho '{{}}'\n"
    )
    tested, checks = checks_of(home, source, parameters=EXAMPLE)
    assert tested.exit_code == 0, checks
    assert checks["survivors"] == ("passed", "nothing is left")
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"sleep {seconds}" not in running


def test_a_worker_and_a_tool_that_wants_consent_are_tested_too(home: Project) -> None:
    source = PYTHON + (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    if 'input' in message:\n"
        "        print(json.dumps({'id': message['id'], 'result': message['input']}), flush=True)\n"
    )
    tested, checks = checks_of(home, source, parameters=EXAMPLE, mode="worker", requires_consent=True)
    assert tested.exit_code == 0, tested
    left = {name: check for name, check in checks.items() if check[0] != "passed"}
    assert left in ({}, {"timeout": ("skipped", "it answers too fast to be timed")}), checks


def test_fixtures_are_the_workspace_of_a_test_and_stay_as_they_are(home: Project) -> None:
    source = (
        f"{SH}cat >/dev/null\ncat words/list.txt || exit 66\necho changed > words/list.txt\ntouch words/new\n"
    )
    place = write_plugin(home.root / "p", source, files={"write": ["words"]}, parameters=EXAMPLE)
    (place / "fixtures" / "words").mkdir(parents=True)
    (place / "fixtures" / "words" / "list.txt").write_text("owl")
    tested = home.strands("plugin", "test", str(place))
    assert tested.exit_code == 0, tested
    assert ["passed", "good", "input"] in [line.split()[:3] for line in tested.out.splitlines()]
    assert [file.name for file in (place / "fixtures" / "words").iterdir()] == ["list.txt"]
    assert (place / "fixtures" / "words" / "list.txt").read_text() == "owl"


def test_a_plugin_that_is_not_in_order_is_not_tested(home: Project) -> None:
    place = write_plugin(home.root / "p", timeout=-1)
    refused(home.strands("plugin", "test", str(place)), 3, "/cli_tools/0/timeout")


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {"examples": [{"a": 1}], "type": "object", "required": ["a"]},
    {
        "type": "object",
        "required": ["a", "b", "c", "d", "e", "f", "g", "h"],
        "properties": {
            "a": {"type": "integer", "minimum": 5, "maximum": 9},
            "b": {"type": "number", "exclusiveMinimum": 0},
            "c": {"type": "array", "items": {"$ref": "#/$defs/word"}, "minItems": 2},
            "d": {"enum": ["x", "y"]},
            "e": {"type": "string", "minLength": 10, "maxLength": 12},
            "f": {"oneOf": [{"type": "object", "required": ["k"], "properties": {"k": {"const": 3}}}]},
            "g": {"allOf": [{"type": "integer"}, {"maximum": -3}]},
            "h": {"type": ["null", "string"]},
        },
        "$defs": {"word": {"type": "string", "format": "date"}},
    },
    {"type": "object", "properties": {"x": {"$ref": "#"}}},
    {
        "type": "object",
        "required": ["a", "b", "c"],
        "properties": {
            "a": {"type": "integer", "minimum": 1, "allOf": [{"minimum": 10}]},
            "b": {"type": ["string", "integer"], "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {
                "type": "object",
                "properties": {"d": {"type": ["integer", "string"]}},
                "$ref": "#/$defs/c",
            },
        },
        "$defs": {"c": {"properties": {"d": {"type": "string", "maxLength": 2}}, "required": ["d"]}},
    },
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_good_input_fits_its_schema(schema: dict[str, Any]) -> None:
    assert Validator(schema).accepts(example_input(schema).value)


# --- add: from a directory --------------------------------------------------------------------------------


def test_a_plugin_is_added_from_a_directory_once_it_is_approved(home: Project) -> None:
    source = origin(home, network=True, config={"token": {"sensitive": True, "required": False}})
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").touch()
    asked = home.strands("plugin", "add", str(source))
    refused(
        asked, 19, "hello 1.0.0 from", "hello__say  cli-tools/say: Says hello", "network: opens connections"
    )
    assert "config: gets token from HELLO_TOKEN, secret, optional" in asked.err
    assert "approve it with --yes" in asked.err
    assert nothing_was_left(home)
    added = home.strands("plugin", "add", str(source), "--yes")
    assert added.exit_code == 0, added
    assert "Added hello 1.0.0" in added.out
    files = {
        str(file.relative_to(home.root)) for file in (home.root / "plugins").rglob("*") if file.is_file()
    }
    assert files == {"plugins/hello/plugin.json", "plugins/hello/cli-tools/say"}
    entry = lock_of(home)["plugins/hello"]
    assert entry["source"] == "../origin"
    assert {*entry["files"]} == {"plugin.json", "cli-tools/say"}
    assert all(digest.startswith("sha256:") for digest in entry["files"].values())
    assert plugins_of(home)["hello"]["approval"] == "approved"
    assert say(home).exit_code == 0


def test_a_plugin_that_is_there_already_is_not_added_again(home: Project) -> None:
    source = str(origin(home))
    assert home.strands("plugin", "add", source, "--yes").exit_code == 0
    refused(home.strands("plugin", "add", source, "--yes"), 2, "already", "strands plugin update hello")
    home.write("plugins/other/notes.txt", "mine")
    refused(home.strands("plugin", "add", str(origin(home, name="other")), "--yes"), 2, "is not a plugin")


@pytest.mark.parametrize(("answer", "exit_code"), [(b"y\n", 0), (b"n\n", 10), (b"\x04", 10), (b"\x03", 130)])
def test_approval_is_asked_for_on_terminal(home: Project, answer: bytes, exit_code: int) -> None:
    arguments = ["plugin", "add", str(origin(home, network=True))]
    shown, status = on_terminal(home, arguments, answer, waits_for=b"with this access?")
    assert status == exit_code, shown
    assert "network: opens connections" in shown
    assert nothing_was_left(home) == (exit_code != 0)


def test_a_plugin_that_is_not_in_order_is_refused_with_its_problems(home: Project) -> None:
    source = origin(home, timeout=-1)
    outcome = home.strands("plugin", "add", str(source), "--yes")
    refused(outcome, 3, f"{source}/plugin.json:9:7  /cli_tools/0/timeout")
    refused(home.strands("plugin", "add", "nowhere", "--yes"), 2, "does not exist")
    assert nothing_was_left(home)


@pytest.mark.parametrize("target", ["/etc/hostname", "../../secret", "loop"])
def test_a_plugin_with_links_that_lead_out_of_it_is_refused(home: Project, target: str) -> None:
    (origin(home) / "loop").symlink_to(target)
    refused(home.strands("plugin", "add", "../origin", "--yes"), 3, "leads out of the plugin", "origin/loop")
    assert nothing_was_left(home)


def test_a_plugin_with_a_pipe_is_refused_and_one_with_a_link_inside_is_not(home: Project) -> None:
    source = origin(home)
    (source / "also").symlink_to("cli-tools/say")
    os.mkfifo(source / "pipe")
    refused(home.strands("plugin", "add", "../origin", "--yes"), 3, "neither a file nor a link")
    (source / "pipe").unlink()
    assert home.strands("plugin", "add", "../origin", "--yes").exit_code == 0
    assert (home.root / "plugins/hello/also").readlink() == Path("cli-tools/say")


def test_a_users_plugin_is_there_in_every_project(home: Project) -> None:
    assert home.strands("plugin", "add", str(origin(home)), "--user", "--yes").exit_code == 0
    assert nothing_was_left(home)
    elsewhere = home.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "strands.toml").touch()
    listed = home.strands("plugin", "list", "--json", cwd=elsewhere).json["plugins"]
    assert [(plugin["owner"], plugin["approval"]) for plugin in listed] == [("user", "approved")]
    (home.root.parent / "config/strands-cli/plugins/hello/cli-tools/say").write_text(SH)
    assert say(home).json["error"]["code"] == "denied"
    added = home.strands("plugin", "add", "../origin", "--yes")
    assert added.exit_code == 0
    assert "There is a plugin hello of the user too" in added.err


def test_what_a_plugin_says_of_itself_does_nothing_to_the_terminal(home: Project) -> None:
    shown = home.strands("plugin", "add", str(origin(home, description="a\x1b[2Jb\u202ec")))
    assert "hello__say  cli-tools/say: abc" in shown.err


# --- add: from Git ----------------------------------------------------------------------------------------


class Repository:
    def __init__(self, project: Project) -> None:
        need("git")
        self.place = project.root.parent / "repository"
        self.place.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"file://{self.place}"

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.place), *arguments]
        return subprocess.run(
            argv, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=True
        ).stdout

    def commit(self, **keys: Any) -> str:
        """A commit with the plugin as it should be at the root, or in a directory `at`."""
        write_plugin(self.place / keys.pop("at", "."), **keys)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD").strip()


@pytest.fixture
def repository(home: Project) -> Repository:
    return Repository(home)


def test_a_plugin_is_added_from_a_repository_without_its_history(
    home: Project, repository: Repository
) -> None:
    commit = repository.commit()
    added = home.strands("plugin", "add", repository.url, "--yes")
    assert added.exit_code == 0, added
    assert not (home.root / "plugins/hello/.git").exists()
    entry = lock_of(home)["plugins/hello"]
    assert (entry["source"], entry["commit"], "ref" in entry) == (repository.url, commit, False)
    assert say(home).exit_code == 0


def test_a_ref_may_be_a_tag_a_branch_or_a_commit(home: Project, repository: Repository) -> None:
    commits = [repository.commit(version=f"{number}.0.0") for number in (1, 2, 3)]
    repository.git("tag", "--annotate", "--message=first", "v1", commits[0])
    repository.git("branch", "feature/two", commits[1])
    for ref, version, commit in (
        ("v1", "1.0.0", commits[0]),
        ("feature/two", "2.0.0", commits[1]),
        (commits[1], "2.0.0", commits[1]),
    ):
        assert home.strands("plugin", "add", f"{repository.url}@{ref}", "--yes").exit_code == 0
        plugin = plugins_of(home)["hello"]
        assert (plugin["version"], plugin["ref"], plugin["commit"]) == (version, ref, commit)
        assert home.strands("plugin", "remove", "hello", "--yes").exit_code == 0
    refused(
        home.strands("plugin", "add", f"{repository.url}@nope", "--yes"),
        10,
        "no branch, tag or whole commit 'nope'",
    )


def test_a_plugin_may_lie_in_a_directory_of_its_repository(home: Project, repository: Repository) -> None:
    repository.commit(at="plugins/hello")
    refused(
        home.strands("plugin", "add", repository.url), 3, "has no plugin.json in its root", "#plugins/hello"
    )
    for directory in ("..", "/etc", "plugins/../..", ".git"):
        refused(home.strands("plugin", "add", f"{repository.url}#{directory}"), 2, "inside the repository")
    (repository.place / "link").symlink_to(origin(home))
    repository.commit(at="plugins/hello")
    refused(home.strands("plugin", "add", f"{repository.url}#link"), 3, "has no plugin.json in link")
    added = home.strands("plugin", "add", f"{repository.url}@main#plugins/hello", "--yes")
    assert added.exit_code == 0, added
    assert lock_of(home)["plugins/hello"]["source"] == f"{repository.url}#plugins/hello"
    assert "up to date" in home.strands("plugin", "update", "hello").out


def test_nothing_of_a_repository_is_executed_and_its_submodules_are_left_alone(
    home: Project, repository: Repository
) -> None:
    trace = home.root / "ran"
    template = home.root.parent / "template" / "hooks"
    template.mkdir(parents=True)
    (template / "post-checkout").write_text(f"{SH}touch {trace}\n")
    (template / "post-checkout").chmod(0o755)
    commit = repository.commit()
    (repository.place / ".gitmodules").write_text(f'[submodule "s"]\npath = s\nurl = {repository.url}\n')
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},s")
    repository.commit()
    config = home.write(
        "gitconfig", f"[init]\ntemplateDir = {template.parent}\n[submodule]\nrecurse = true\n"
    )
    added = home.strands("plugin", "add", repository.url, "--yes", GIT_CONFIG_GLOBAL=str(config))
    assert added.exit_code == 0, added
    assert not trace.exists()
    assert not (home.root / "plugins/hello/s").exists()


def test_a_broken_plugin_of_a_repository_is_told_by_its_place_there(
    home: Project, repository: Repository
) -> None:
    repository.commit(at="deep", timeout=-1)
    outcome = home.strands("plugin", "add", f"{repository.url}#deep", "--yes")
    refused(outcome, 3, "deep/plugin.json:9:7  /cli_tools/0/timeout")
    assert nothing_was_left(home)


def test_the_environment_of_another_repository_does_not_lead_astray(
    home: Project, repository: Repository
) -> None:
    repository.commit()
    other = home.root.parent / "other"
    added = home.strands(
        "plugin", "add", repository.url, "--yes", GIT_DIR=str(other), GIT_WORK_TREE=str(other)
    )
    assert added.exit_code == 0, added
    assert not other.exists()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/x.git", "cannot be fetched by http"),
        ("ext::sh -c x://", "does not exist"),
        ("https://user:word@example.com/x.git", "contains a credential"),
        ("https://token@example.com/x.git@v1", "contains a credential"),
        ("https://example.com/x.git@", "No ref after"),
        ("https://example.com/x.git@--upload-pack=x", "is not a branch"),
        ("https://example.com/x.git@a:b", "is not a branch"),
        ("git@example.com:x/y.git@-b", "is not a branch"),
        ("https://example.com/x.git#../..", "inside the repository"),
    ],
)
def test_a_source_that_is_no_good_is_refused_before_anything_is_fetched(
    home: Project, url: str, reason: str
) -> None:
    refused(home.strands("plugin", "add", "--yes", "--", url), 2, reason)
    assert nothing_was_left(home)


def test_a_repository_that_cannot_be_reached_and_a_missing_git_are_told(home: Project) -> None:
    outcome = home.strands("plugin", "add", "file:///no/such/repository", "--yes")
    refused(outcome, 10, "cannot be fetched", "ls-remote")
    refused(
        home.strands("plugin", "add", "file:///x", "--yes", PATH="/nowhere"), 18, "'git' is not on the PATH"
    )


def test_an_interrupt_ends_git_and_what_git_has_started(home: Project) -> None:
    need("git")
    started = home.root / "started"
    home.write("ssh", f"#!/bin/sh\necho $$ > {started}\nexec sleep 60\n").chmod(0o755)
    words = [sys.executable, "-m", "strands_cli", "plugin", "add", "ssh://git@example.com/x.git", "--yes"]
    environment = {**home.environment, "GIT_SSH_COMMAND": str(home.root / "ssh")}
    with subprocess.Popen(words, cwd=home.root, env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (started.is_file() and started.read_text().strip()):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    helper = Path(f"/proc/{started.read_text().strip()}/stat")
    end = time.monotonic() + 5  # it is killed, but not waited for
    while is_running(helper) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(helper)


def is_running(stat: Path) -> bool:
    try:
        return ") Z " not in stat.read_text()  # some containers have nobody who buries orphans
    except OSError:
        return False


# --- update -----------------------------------------------------------------------------------------------


def test_a_changed_executable_does_not_run_until_it_is_approved(home: Project) -> None:
    home.strands("plugin", "add", str(origin(home)), "--yes")
    file = home.root / "plugins/hello/cli-tools/say"
    file.write_text(file.read_text() + "# changed\n")
    denied = say(home)
    assert denied.json["error"]["code"] == "denied"
    assert "strands plugin update hello" in denied.json["error"]["hint"]
    assert plugins_of(home)["hello"]["changes"]["changed"] == ["cli-tools/say"]
    shown = home.strands("plugin", "update", "hello")
    refused(shown, 19, "changed  cli-tools/say", "hello__say", "read the workspace, nothing else")
    assert say(home).json["error"]["code"] == "denied"
    assert "Approved hello" in home.strands("plugin", "update", "hello", "--yes").out
    assert say(home).exit_code == 0
    assert lock_of(home)["plugins/hello"]["source"] == "../origin"


def test_changes_that_were_made_here_can_be_given_up(home: Project, repository: Repository) -> None:
    commit = repository.commit()
    home.strands("plugin", "add", repository.url, "--yes")
    file = home.root / "plugins/hello/cli-tools/say"
    file.write_text("tampered")
    restored = home.strands("plugin", "update", "hello", "--restore", "--yes")
    assert restored.exit_code == 0, restored
    assert "-tampered" in restored.err
    assert file.read_text() == HELLO
    assert lock_of(home)["plugins/hello"]["commit"] == commit
    assert say(home).exit_code == 0


def test_update_shows_the_lines_that_were_changed_here(home: Project) -> None:
    source = origin(home)
    assert home.strands("plugin", "add", str(source), "--yes").exit_code == 0
    script = home.root / "plugins/hello/cli-tools/say"
    script.write_text(script.read_text() + "# changed here\n")
    for arguments in (["hello"], []):
        shown = home.strands("plugin", "update", *arguments)
        assert shown.exit_code == 19, shown
        assert "--- approved/" in shown.err
        assert "+# changed here" in shown.err
    shutil.rmtree(source)
    assert "+# changed here" in home.strands("plugin", "update", "hello", "--yes").err
    assert say(home).exit_code == 0


def test_update_shows_the_difference_first_and_then_replaces(home: Project, repository: Repository) -> None:
    first = repository.commit()
    (repository.place / "old.txt").write_text("old")
    repository.commit()
    home.strands("plugin", "add", repository.url, "--yes")
    assert "hello is up to date." in home.strands("plugin", "update").out
    (repository.place / "old.txt").unlink()
    (repository.place / "new.txt").write_text("new")
    second = repository.commit(source=HELLO.replace("hello", "hello again"), version="1.1.0", network=True)
    before = (home.root / LOCK).read_bytes()
    shown = home.strands("plugin", "update", "hello")
    refused(shown, 19, "hello 1.0.0 → 1.1.0", f"→ {second[:12]}", "approve it with --yes")
    for part in (
        "new      new.txt",
        "changed  cli-tools/say",
        "gone     old.txt",
        "+ hello__say network: opens connections",
        "- hello__say read the workspace, nothing else",
        "--- now/plugin.json\n+++ new/plugin.json\n",
        '-  "version": "1.0.0"',
        '+  "version": "1.1.0"',
    ):
        assert part in shown.err, shown
    assert (home.root / LOCK).read_bytes() == before
    assert say(home).json["content"][0]["json"] == {"message": "hello"}
    assert "Updated hello to 1.1.0." in home.strands("plugin", "update", "--yes").out
    assert say(home).json["content"][0]["json"] == {"message": "hello again"}
    assert lock_of(home)["plugins/hello"]["commit"] == second != first
    assert sorted(file.name for file in (home.root / "plugins").iterdir()) == ["hello"]


def test_update_goes_on_after_a_plugin_that_cannot_be_updated(home: Project, repository: Repository) -> None:
    repository.commit(name="a-gone")
    source = origin(home, name="b-there")
    for added in (repository.url, str(source)):
        assert home.strands("plugin", "add", added, "--yes").exit_code == 0
    shutil.rmtree(repository.place)
    write_plugin(source, name="b-there", version="2.0.0")
    outcome = home.strands("plugin", "update", "--yes")
    refused(outcome, 10, "cannot be fetched")
    assert "Updated b-there to 2.0.0." in outcome.out
    assert plugins_of(home)["a-gone"]["approval"] == "approved"


def test_a_source_that_has_become_another_plugin_or_none_is_refused(home: Project) -> None:
    source = origin(home)
    home.strands("plugin", "add", str(source), "--yes")
    write_plugin(source, name="other")
    refused(home.strands("plugin", "update", "hello", "--yes"), 2, "is now called other")
    write_plugin(source, timeout=-1)
    refused(home.strands("plugin", "update", "hello", "--yes"), 3, "/cli_tools/0/timeout")
    assert say(home).exit_code == 0


def test_a_plugin_that_nobody_locked_can_be_approved_as_it_is(home: Project) -> None:
    place = write_plugin(home.root / "plugins" / "hello")
    assert "No plugin is locked" in home.strands("plugin", "update").err
    assert not (home.root / LOCK).exists()
    assert home.strands("plugin", "update", "hello", "--yes").exit_code == 0
    assert {*lock_of(home)["plugins/hello"]["files"]} == {"plugin.json", "cli-tools/say"}
    assert "unchanged since it was approved" in home.strands("plugin", "update", "hello").out
    (place / "plugin.json").write_text("{")
    refused(home.strands("plugin", "update", "hello", "--yes"), 3, "plugin.json:1")
    refused(home.strands("plugin", "update", "hello", "--restore"), 2, "The source of hello is unknown")


# --- remove, enable, disable ------------------------------------------------------------------------------


def test_remove_takes_the_directory_and_the_entry_of_the_lock(home: Project) -> None:
    home.strands("plugin", "add", str(origin(home)), "--yes")
    write_plugin(home.root / "plugins" / "mine", name="mine")
    home.strands("plugin", "disable", "hello")
    refused(home.strands("plugin", "remove", "hello"), 19, str(home.root / "plugins" / "hello"))
    assert home.strands("plugin", "remove", "hello", "--yes").exit_code == 0
    assert [file.name for file in (home.root / "plugins").iterdir()] == ["mine"]
    assert lock_of(home) == {}
    refused(home.strands("plugin", "remove", "mina", "--yes"), 2, "Did you mean 'mine'?")
    home.strands("plugin", "add", str(origin(home)), "--yes")
    assert plugins_of(home)["hello"]["enabled"] is True


def test_of_a_link_only_the_link_is_removed(home: Project) -> None:
    source = origin(home)
    (home.root / "plugins").mkdir()
    (home.root / "plugins" / "hello").symlink_to(source)
    assert home.strands("plugin", "remove", "hello", "--yes").exit_code == 0
    assert [*(home.root / "plugins").iterdir()] == []
    assert (source / "plugin.json").exists()


def test_a_disabled_plugin_keeps_its_files_and_has_no_tools(home: Project) -> None:
    write_plugin(home.root / "plugins" / "hello")
    assert "is disabled" in home.strands("plugin", "disable", "hello").out
    assert "already disabled" in home.strands("plugin", "disable", "hello").out
    refused = say(home).json["error"]
    assert refused["code"] == "unavailable"
    assert "strands plugin enable hello" in refused["hint"]
    assert "disabled" in home.strands("plugin", "list").out
    assert "is enabled" in home.strands("plugin", "enable", "hello").out
    assert "already enabled" in home.strands("plugin", "enable", "hello").out
    assert say(home).exit_code == 0


# --- When something goes wrong in the middle --------------------------------------------------------------


def limited(project: Project, *arguments: str, blocks: int) -> subprocess.CompletedProcess[str]:
    """The command where no file may be longer than so many blocks, as on a disk that is full."""
    words = [sys.executable, "-m", "strands_cli", *arguments]
    script = f'ulimit -f {blocks} && exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "bash", *words],
        cwd=project.root, env=project.environment | {"TMPDIR": str(project.root.parent)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_copy_that_fails_leaves_nothing(home: Project) -> None:
    (origin(home) / "big").write_bytes(bytes(200_000))
    failed = limited(home, "plugin", "add", "../origin", "--yes", blocks=50)
    assert failed.returncode == 12, failed
    assert "File too large" in failed.stderr
    assert nothing_was_left(home)


def test_an_update_that_fails_leaves_what_was_there(home: Project) -> None:
    source = origin(home)
    home.strands("plugin", "add", str(source), "--yes")
    before = (home.root / LOCK).read_bytes()
    (source / "big").write_bytes(bytes(200_000))
    assert limited(home, "plugin", "update", "--yes", blocks=50).returncode == 12
    assert (home.root / LOCK).read_bytes() == before
    assert [file.name for file in (home.root / "plugins").iterdir()] == ["hello"]
    assert say(home).exit_code == 0


def test_a_place_that_cannot_be_written_and_a_link_for_a_root_leave_nothing(home: Project) -> None:
    origin(home)
    home.write("plugins", "a file")
    refused(home.strands("plugin", "add", "../origin", "--yes"), 12, str(home.root / "plugins"))
    assert not (home.root / LOCK).exists()
    (home.root / "plugins").unlink()
    elsewhere = home.root.parent / "elsewhere"
    elsewhere.mkdir()
    (home.root / "plugins").symlink_to(elsewhere)
    refused(home.strands("plugin", "add", "../origin", "--yes"), 2, "cannot name it")
    assert [*elsewhere.iterdir()] == []


def test_a_damaged_lock_is_told_and_not_overwritten(home: Project) -> None:
    home.write(LOCK, "{")
    refused(home.strands("plugin", "add", str(origin(home)), "--yes"), 3, LOCK)
    assert (home.root / LOCK).read_text() == "{"
    assert not (home.root / "plugins").exists()


def test_a_command_that_is_killed_leaves_the_plugin_whole_or_not_at_all(home: Project) -> None:
    source = origin(home)
    for number in range(6):
        (source / f"big{number}").write_bytes(os.urandom(4_000_000))
    words = [sys.executable, "-m", "strands_cli", "plugin", "add", "../origin", "--yes"]
    home.environment["TMPDIR"] = str(home.root.parent)
    process = subprocess.Popen(words, cwd=home.root, env=home.environment, stdout=subprocess.DEVNULL)
    while process.poll() is None and not [*home.root.glob("plugins/.staging-*/hello/*")]:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    plugins = plugins_of(home)
    assert plugins == {} or plugins["hello"]["approval"] == "approved"
    if not plugins:
        (stage,) = home.root.glob("plugins/.staging-*")
        os.utime(stage, (0, 0))
        assert home.strands("plugin", "add", "../origin", "--yes").exit_code == 0
    assert [file.name for file in (home.root / "plugins").iterdir()] == ["hello"]
    assert say(home).exit_code == 0


def test_plugins_that_are_added_at_the_same_time_are_all_locked(home: Project) -> None:
    names = [f"p{number}" for number in range(4)]
    running = []
    for name in names:
        place = write_plugin(home.root.parent / name, name=name)
        words = [sys.executable, "-m", "strands_cli", "plugin", "add", str(place), "--yes"]
        running.append(subprocess.Popen(words, cwd=home.root, env=home.environment, stdin=subprocess.DEVNULL))
    assert [process.wait(60) for process in running] == [0] * 4
    assert sorted(lock_of(home)) == [f"plugins/{name}" for name in names]


# --- Around the commands ----------------------------------------------------------------------------------


def test_the_shell_completes_names_of_plugins(home: Project) -> None:
    write_plugin(home.root / "plugins" / "hello")
    offered = home.strands(
        _STRANDS_COMPLETE="bash_complete", COMP_WORDS="strands plugin disable he", COMP_CWORD="3"
    )
    assert "hello" in offered.out


def test_loading_and_calls_are_shown_on_demand(home: Project) -> None:
    place = write_plugin(home.root / "plugins" / "hello")
    for outcome in (
        home.strands("--debug", "tool", "call", "hello__say", "{}"),
        home.strands("tool", "call", "hello__say", "{}", STRANDS_LOG="plugins=debug"),
    ):
        assert f"{place}: 1 tools, 0 problems" in outcome.err
        assert f"hello__say runs ('{place}/cli-tools/say',)" in outcome.err
    listed = home.strands("plugin", "list", STRANDS_LOG="plugins=debug")
    assert f"{place}: 1 tools, 0 problems" in listed.err
    fetched = home.strands("plugin", "add", "file:///x", STRANDS_LOG="plugins=debug")
    assert "'fetch'" in fetched.err


def test_help_names_every_command_of_the_group(home: Project) -> None:
    shown = home.strands("plugin", "--help").out
    for name in ("list", "new", "validate", "test", "add", "update", "remove", "enable", "disable"):
        assert f"  {name} " in shown
