"""One bad file in a project is a problem in a listing, and ends no other command: no bug, no wait, no memory."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from strands_cli.settings import settings_to_look_at
from tests.projects import Outcome, Project

pytestmark = pytest.mark.long

MEMORY = 1 << 30
"""Of a command's address space: whoever reads a sparse file of 2 TB as a whole needs more."""
SECONDS = 40
"""Generous, for a busy machine: whoever waits for a pipe waits for ever."""
CALL = ("tool", "call", "echo", "message=hi")
WORKFLOW = """\
version: 0
name: probe
runtime: {provider: ollama}
agents: {a: {prompt: x}}
pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}
"""


def strands(project: Project, *arguments: str) -> Outcome:
    """The command with little memory, and no longer than a while."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    done = subprocess.run(
        [sys.executable, "-m", "strands_cli", *arguments],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=SECONDS,
        check=False,
        preexec_fn=limit,
    )
    return Outcome(done, 0)


def listed(project: Project) -> list[str]:
    """The problems of the listing, which has the native tools in any case."""
    outcome = strands(project, "list-tools", "--json")
    assert outcome.exit_code == 0, outcome
    assert "echo" in [tool["id"] for tool in outcome.json["tools"]]
    for problem in outcome.json["problems"]:
        assert "" not in (problem["reason"], problem["remediation"]), problem
    return [problem["file"] for problem in outcome.json["problems"]]


# --- What may stand where a file is expected --------------------------------------------------------------

Maker = Callable[[Path], object]


def sparse(file: Path) -> None:
    file.touch()
    try:
        os.truncate(file, 2 << 40)
    except OSError:  # this file system has no files of 2 TB
        os.truncate(file, 10 << 30)


def bound_socket(file: Path) -> None:
    here = Path.cwd()
    os.chdir(file.parent)  # the name of a socket may not be long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(file.name)
    finally:
        os.chdir(here)


def unreadable(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")  # which root cannot read either
    file.chmod(0)


NOT_FILES: dict[str, Maker] = {
    "a pipe": os.mkfifo,
    "a socket": bound_socket,
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "a full device": lambda file: file.symlink_to("/dev/full"),
    "a link to itself": lambda file: file.symlink_to(file.name),
    "a link to nowhere": lambda file: file.symlink_to("nowhere"),
    "a directory": Path.mkdir,
    "2 TB of nothing": sparse,
    "a file without permission": unreadable,
}
NOT_TEXT: dict[str, bytes] = {
    "null bytes": b"\0" * 3000,
    "UTF-16": "threads = 4\n".encode("utf-16"),
    "half of a surrogate pair": b"\xed\xa0\x80 = 1",
    "an integer of 5,000 digits": b"threads = " + b"9" * 5000,
    "open brackets": b"x = " + b"[" * 100_000,
    "tables in tables": b"x = " + b"{a = " * 30_000,
    "a key of many parts": b"a." * 200_000 + b"b = 1",
    "a long name without an end": b"[" + b"a" * 900_000,
    "two megabytes": b"# " + b"x" * 2_000_000,
}


def write(data: bytes) -> Maker:
    return lambda file: file.write_bytes(data)


ODD_FILES = NOT_FILES | {name: write(data) for name, data in NOT_TEXT.items()}


def kinds(*quick: str, all_of: Iterable[str] = NOT_FILES) -> pytest.MarkDecorator:
    """All of them in the long run, some of them in the quick one: each is a few starts of the command."""
    rest = [pytest.param(kind, marks=pytest.mark.long) for kind in all_of if kind not in quick]
    return pytest.mark.parametrize("kind", [*quick, *rest])


def make(file: Path, maker: Maker) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    maker(file)
    return file


def test_all_of_them_at_once_are_problems_of_the_listing_and_of_nothing_else(project: Project) -> None:
    """Tool files, families, manifests, skills of names: whatever a stranger's project may hold."""
    places = []
    for number, maker in enumerate(ODD_FILES.values()):
        places += [
            make(project.root / f"tools/odd{number}.py", maker),
            make(project.root / f"plugins/odd{number}/plugin.json", maker),
        ]
        (project.root / f"tools/family{number}").mkdir()
        make(project.root / f"tools/family{number}/__init__.py", maker)
    make(project.root / "tools/round", NOT_FILES["a link to itself"])
    make(project.root / "plugins/round", NOT_FILES["a link to itself"])
    names = [
        b"tools/bad\xff.py",
        b"tools/new\nline.py",
        b"plugins/bad\xff/plugin.json",
        b"plugins/a\x1b[2Jb/plugin.json",
    ]
    places += [make(project.root / os.fsdecode(name), write(b"{")) for name in names]  # fmt: skip
    project.tool("hello", 'def hello(tool): return "hello"')
    told = listed(project)
    # How a name that is not UTF-8 is shown depends on the terminal.
    begins = [str(place).partition("\udcff")[0] for place in places]
    assert [begin for begin in begins if not any(file.startswith(begin) for file in told)] == []
    assert strands(project, *CALL).exit_code == 0
    assert strands(project, "tool", "call", "hello").exit_code == 0
    assert strands(project, "tool", "check").exit_code == 3
    assert strands(project, "doctor").exit_code == 3
    assert strands(project, "plugin", "list").exit_code in (0, 3)
    project.write("flow.yaml", WORKFLOW)
    assert strands(project, "validate", "flow.yaml").exit_code == 0


@pytest.mark.parametrize("name", ["tools", "plugins", "strands-plugins.lock", ".git"])
@kinds("a link to itself")
def test_what_stands_for_a_directory_or_a_lock_ends_nothing(kind: str, name: str, project: Project) -> None:
    make(project.root / name, NOT_FILES[kind])
    if name == "strands-plugins.lock":
        project.write("plugins/one/plugin.json", '{"name": "one", "version": "1.0.0", "cli_tools": []}')
    listed(project)
    assert strands(project, *CALL).exit_code == 0


# --- Settings ---------------------------------------------------------------------------------------------


@kinds("a pipe", "2 TB of nothing", "an integer of 5,000 digits", "open brackets", all_of=ODD_FILES)
def test_settings_that_cannot_be_read_stop_what_runs_and_not_who_looks(kind: str, project: Project) -> None:
    """They may have narrowed something, so that nothing runs without them."""
    file = project.root / "strands.toml"
    file.unlink()
    make(file, ODD_FILES[kind])
    assert str(file) in listed(project)
    refused = strands(project, *CALL)
    assert refused.exit_code == 3, refused
    assert "strands.toml" in refused.err


def test_who_looks_is_told_of_settings_that_cannot_be_read(project: Project) -> None:
    project.write("strands.toml", "threads = " + "9" * 5000)
    project.tool("hello", 'def hello(tool): return "hello"')
    project.write("flow.yaml", WORKFLOW)
    report = strands(project, "doctor", "--json")
    assert report.exit_code == 3
    findings = {finding["topic"]: finding for finding in report.json["findings"]}
    assert findings["settings"]["state"] == "problem"
    assert "strands.toml" in findings["settings"]["text"]
    assert "tools" in findings
    assert strands(project, "tool", "show", "hello").exit_code == 0
    plugins = strands(project, "plugin", "list")
    assert plugins.exit_code == 0
    assert "strands.toml" in plugins.err
    assert strands(project, "tool", "check").exit_code == 3
    checked = strands(project, "validate", "flow.yaml", "--json")
    assert [Path(issue["file"]).name for issue in checked.json["files"][0]["issues"]] == ["strands.toml"]
    # What runs a tool's code, and what runs a workflow, does not.
    for command in (("tool", "show", "hello", "--load"), ("tool", "check", "--load"), ("run", "flow.yaml")):
        refused = strands(project, *command)
        assert refused.exit_code == 3, refused
        assert "digits" in refused.err + refused.out


@kinds("a pipe")
def test_a_pyproject_above_the_project_that_is_no_file_changes_nothing(kind: str, project: Project) -> None:
    """Another user may have put it there, as in the system's temporary directory."""
    make(project.root.parent / "pyproject.toml", NOT_FILES[kind])
    assert listed(project) == []
    (project.root / "strands.toml").unlink()
    assert listed(project) == []
    assert strands(project, *CALL).exit_code == 0


@pytest.mark.parametrize("kind", ["a pipe", "a link to itself"])
def test_a_pyproject_that_cannot_be_read_is_ignored_with_a_warning_where_nothing_else_marks_a_project(
    kind: str, project: Project
) -> None:
    (project.root / "strands.toml").unlink()
    make(project.root / "pyproject.toml", NOT_FILES[kind])
    outcome = strands(project, *CALL)
    assert outcome.exit_code == 0
    assert re.search(r"pyproject.toml cannot be used \(T.*\), so it is ignored: strands trust", outcome.err)
    assert strands(project, "trust", "--yes").exit_code == 0  # the user has seen it
    assert "cannot be used" not in strands(project, *CALL).err
    (project.root / "strands.toml").touch()
    assert strands(project, *CALL).err == ""


def test_a_pyproject_that_cannot_be_read_may_hold_the_settings(project: Project) -> None:
    (project.root / "strands.toml").unlink()
    (project.root / ".git").mkdir()  # without a mark, a pipe may be anybody's
    project.write("pyproject.toml", "[tool.strands]\nthreads = " + "9" * 5000)
    assert len(listed(project)) == 1
    assert strands(project, *CALL).exit_code == 3
    (project.root / "pyproject.toml").unlink()
    os.mkfifo(project.root / "pyproject.toml")
    assert strands(project, *CALL).exit_code == 3
    (project.root / "pyproject.toml").unlink()
    (project.root / "pyproject.toml").symlink_to("nowhere")
    assert strands(project, *CALL).exit_code == 0


@pytest.mark.parametrize("levels", [51, 150, 250, 400, 100_000])
@pytest.mark.parametrize(
    "text", ["x = {}{}", "x = {}", "x = {}1, #]]]\n"], ids=["valid", "cut off", "invalid"]
)
def test_deep_settings_get_the_same_answer_however_deep_the_caller_is(
    project: Project, levels: int, text: str
) -> None:
    project.write("strands.toml", text.format("[" * levels, "]" * levels))

    def reason(frames: int) -> str:
        if frames:
            return reason(frames - 1)
        (issue,) = settings_to_look_at(project.root).issues
        return issue.reason

    assert reason(0) == reason(400) == "It is nested more than 50 levels deep."


def test_brackets_in_texts_and_comments_of_settings_do_not_nest(project: Project) -> None:
    texts = "".join(f"{quote}{'[' * 40}{quote}, " for quote in ('"', "'", '"""', "'''"))
    project.write("strands.toml", f"workspace = [{texts}]  # {'{' * 90}\nthreads = 3\n")
    assert settings_to_look_at(project.root).threads == 3


# --- The user's own files ---------------------------------------------------------------------------------


@kinds("a pipe", "2 TB of nothing")
def test_a_cache_file_that_is_no_file_is_ignored_and_replaced(kind: str, project: Project) -> None:
    project.tool("hello", 'def hello(tool): return "hello"')
    listed(project)
    kept = [file for file in (project.root.parent / "cache").rglob("*") if file.is_file()]
    assert kept
    for file in kept:
        file.unlink()
        make(file, NOT_FILES[kind])
    listed(project)
    assert strands(project, *CALL).exit_code == 0
    if kind != "a directory":
        assert all(file.is_file() and file.stat().st_size < 10_000_000 for file in kept)


@pytest.mark.parametrize("name", ["plugins.json", "strands-plugins.lock"])
@kinds("a pipe")
def test_a_users_file_of_decisions_that_cannot_be_read_stops_plugins_only(
    kind: str, name: str, project: Project
) -> None:
    project.write("plugins/one/plugin.json", '{"name": "one", "version": "1.0.0", "cli_tools": []}')
    make(Path(project.environment["XDG_CONFIG_HOME"]) / "strands-cli" / name, NOT_FILES[kind])
    listed(project)
    assert strands(project, *CALL).exit_code == 0


# --- Manifests --------------------------------------------------------------------------------------------


def manifest(**changes: object) -> str:
    tool = {"name": "t", "path": "t.sh", **changes}
    return json.dumps({"name": "p", "version": "1.0.0", "description": "d", "cli_tools": [tool]})


MANIFESTS = {
    "a lone surrogate in a name": manifest(name="\ud800"),
    "a lone surrogate in a text": manifest(description="\udfff"),
    "a lone surrogate as a key": manifest(**{"\udc80": 1}),
    "a very long path": manifest(path="a/" * 50_000),
    "a very long name in a path": manifest(path="a" * 50_000),
    "a path with a null byte": manifest(path="a\0b"),
    "an integer of 5,000 digits": manifest(timeout=0).replace(": 0", ": " + "9" * 5000),
    "no number": manifest(timeout=float("nan")),
    "a number without end": manifest(timeout=0).replace(": 0", ": 1e999"),
    "deep arrays": manifest(parameters=0).replace(": 0", ": " + "[" * 100_000),
    "a deep schema": manifest(parameters=0).replace(": 0", ": " + '{"items": ' * 40 + "{}" + "}" * 40),
    "a schema that refers to itself": manifest(parameters={"type": "object", "$ref": "#"}),
    "a schema of a file": manifest(parameters={"$ref": "file:///etc/passwd"}),
    "a regular expression that never ends": manifest(
        parameters={"type": "object", "properties": {"a": {"pattern": "(" * 5000}}}
    ),
    "properties that are a number": manifest(
        parameters={"type": "object", "properties": 5}, effects={"reads": ["file:{a}"]}
    ),
    "a value that may have one of two types": manifest(memory=[]),
    "a tool that is a pipe": manifest(path="pipe"),
    "a tool that is a device": manifest(path="zero"),
}


def test_no_manifest_ends_a_command(project: Project) -> None:
    for number, text in enumerate(MANIFESTS.values()):
        directory = project.write(f"plugins/odd{number}/plugin.json", text).parent
        os.mkfifo(directory / "pipe", 0o755)
        (directory / "zero").symlink_to("/dev/zero")
    found = listed(project)
    assert {Path(file).parent.name for file in found} == {f"odd{number}" for number in range(len(MANIFESTS))}
    assert strands(project, *CALL).exit_code == 0
    assert strands(project, "plugin", "list").exit_code in (0, 3)
    assert strands(project, "plugin", "validate", "plugins/odd0").exit_code == 3


# --- Tool files -------------------------------------------------------------------------------------------

SOURCES = {
    "deep brackets": "x = " + "(" * 100_000,
    "deep signs": "x = " + "-" * 100_000 + "1",
    "a deep sum": "x = 1" + "+1" * 100_000,
    "deep attributes": "x = a" + ".b" * 100_000,
    "deep calls": "x = a" + "()" * 100_000,
    "deep conditions": "if a: b\n" + "elif a: b\n" * 20_000,
    "deep blocks": "".join(" " * depth + "if a:\n" for depth in range(110)),
    "an integer of 100,000 digits": "x = " + "9" * 100_000,
    "an integer of 100,000 hexadecimal digits": "TOOL_SPEC = {'name': 0x" + "f" * 100_000 + "}",
    "a text that doubles": "a = 'x' * 10**12\nTOOL_SPEC = {'name': a + a + a}\n",
    "names that double each other": "a0 = [1]\n"
    + "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(200))
    + "TOOL_SPEC = {'name': 'x', 'description': a200}\n",
    "an unknown encoding": "# -*- coding: nonsense -*-\n",
    "an encoding that decodes": "# -*- coding: unicode_escape -*-\nx = '\\ud800'\n",
    "lone surrogates": "from strands_cli import tool\n@tool(name='\\ud800')\ndef x(a: str = '\\ud800'):\n '\\ud800'\n",
}


def test_no_tool_file_ends_a_command(project: Project) -> None:
    for number, text in enumerate(SOURCES.values()):
        project.write(f"tools/odd{number}.py", text)
    found = listed(project)
    assert {Path(file).stem for file in found} == {f"odd{number}" for number in range(len(SOURCES))}
    assert strands(project, *CALL).exit_code == 0
    assert strands(project, "tool", "check").exit_code == 3


def fill(directory: Path, names: Iterable[str]) -> None:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()


@pytest.mark.long
def test_a_directory_of_very_many_tools_is_read_in_part_and_told(project: Project) -> None:
    fill(project.root / "tools", (f"t{number}.py" for number in range(3000)))
    fill(project.root / "tools/family", ["__init__.py", *(f"t{number}.py" for number in range(3000))])
    found = listed(project)
    assert len(found) < 4500
    assert str(project.root / "tools") in found
    assert str(project.root / "tools/family") in found


# --- Workflows and what they refer to ---------------------------------------------------------------------


def referring(reference: str) -> str:
    return WORKFLOW.replace("{a: {prompt: x}}", f"{{a: {{$ref: {json.dumps(reference)}}}}}")


@pytest.fixture
def secret(project: Project) -> Path:
    """A file beside the project, as /etc/shadow is: YAML that is no agent, each line with a secret."""
    file = project.root.parent / "secret.yaml"
    file.write_text("hunter2: hunter3\nprovider: [hunter4]\nprompt: {hunter5: hunter6}\n*hunter7\n", "utf-8")
    return file


def test_a_reference_tells_nothing_of_a_file_outside_the_project(project: Project, secret: Path) -> None:
    (project.root / "agents").mkdir()
    (project.root / "agents/link.yaml").symlink_to(secret)
    (project.root / "agents/up").symlink_to("../..")
    references = [
        str(secret), "../secret.yaml", "agents/../../secret.yaml", "agents/link.yaml", "agents/up/secret.yaml",
        "/etc/shadow", f"/proc/self/root{secret}", "/proc/self/environ", "agents/up/../secret.yaml",
    ]  # fmt: skip
    for number, reference in enumerate(references):
        project.write(
            f"flows/f{number}.yaml", referring(f"../{reference}" if reference[0] != "/" else reference)
        )
    checked = strands(project, "validate", "flows", "--json")
    assert checked.exit_code == 3
    assert "hunter" not in checked.out + checked.err
    assert "root:" not in checked.out + checked.err
    assert len(checked.json["files"]) == len(references)
    for file in checked.json["files"]:
        assert "outside the project" in file["issues"][0]["reason"], file
    shown = strands(project, "explain", "flows/f1.yaml")
    assert "hunter" not in shown.out + shown.err


def test_whether_a_file_outside_is_there_cannot_be_told(project: Project, secret: Path) -> None:
    answers = []
    for reference in (secret, secret.with_name("nowhere.yaml"), secret / "below"):
        project.write("flow.yaml", referring(str(reference)))
        outcome = strands(project, "validate", "flow.yaml", "--json")
        answers.append(outcome.out.replace(str(reference), "FILE"))
    assert len({*answers}) == 1


def test_a_reference_may_leave_the_directory_of_the_workflow_but_not_the_project(project: Project) -> None:
    project.write("agents/a.yaml", "prompt: x\n")
    project.write("flows/deep/flow.yaml", referring("../../agents/a.yaml"))
    assert strands(project, "validate", "flows/deep/flow.yaml").exit_code == 0


def test_a_link_to_a_file_outside_is_no_workflow_of_the_directory(project: Project, secret: Path) -> None:
    secret.write_text(
        "version: 0\nname: hunter2\nagents: {}\nruntime: {provider: hunter3}\npattern: hunter4\n"
    )
    (project.root / "flows").mkdir()
    (project.root / "flows/link.yaml").symlink_to(secret)
    project.write("flows/flow.yaml", WORKFLOW)
    checked = strands(project, "validate", "flows")
    assert checked.exit_code == 0
    assert "hunter" not in checked.out + checked.err


@kinds("a pipe")
def test_a_workflow_that_is_no_file_is_told_and_the_others_are_checked(kind: str, project: Project) -> None:
    make(project.root / "odd.yaml", NOT_FILES[kind])
    project.write("good.yaml", WORKFLOW)
    assert strands(project, "validate", ".").exit_code == 0
    assert strands(project, "validate", "good.yaml").exit_code == 0
    for command in (("validate", "odd.yaml"), ("run", "odd.yaml"), ("explain", "odd.yaml")):
        assert strands(project, *command).exit_code in (2, 3)


def test_many_references_to_large_files_do_not_take_for_ever(project: Project) -> None:
    project.write("large.yaml", "#\n" * 900_000 + "prompt: x\n")
    project.write("values.yaml", "prompt: x\n" + "".join(f"k{n}: 1\n" for n in range(9000)))
    agents = ", ".join(f"a{n}: {{$ref: large.yaml}}, b{n}: {{$ref: values.yaml}}" for n in range(1500))
    project.write("flow.yaml", WORKFLOW.replace("{a: {prompt: x}}", f"{{{agents}}}"))
    checked = strands(project, "validate", "flow.yaml")
    assert checked.exit_code == 3
    assert "refers to more than" in checked.out


@pytest.mark.parametrize("text", ["allow = [{}]", "workspace = [{}]", "[http]\nallow = [{}]"])
def test_a_list_of_thousands_of_entries_is_refused(project: Project, text: str) -> None:
    project.write("strands.toml", text.format(", ".join(f'"a{number}"' for number in range(6000))))
    called = project.strands("tool", "call", "echo", "message=hi")
    assert called.exit_code == 3
    assert "has 6000 entries; the maximum is 500" in called.err
