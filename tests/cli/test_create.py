"""`strands init`, `workflow new` and `tool new`: what they write works at once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strands_cli.patterns import PATTERNS
from tests.fakes import ObligingModel, ScriptedModel
from tests.projects import Project

Capture = pytest.CaptureFixture[str]
FIRST_RUN = ["strands tool test", "strands run workflows/keywords.yaml"]
PROJECT_FILES = [
    "strands.toml",
    ".gitignore",
    "AGENTS.md",
    "tools/keywords.py",
    "tests/test_keywords.py",
    "workflows/keywords.yaml",
    "workflows/strands-workflow.schema.json",
]


@pytest.fixture(autouse=True)
def plain_pytest(project: Project) -> None:
    """The children of these tests run pytest without its plugins, which take a second to import."""
    project.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


@pytest.fixture
def empty(project: Project) -> Project:
    """A directory without any file; it is not a project yet."""
    (project.root / "strands.toml").unlink()
    return project


def files_below(place: Path) -> dict[str, bytes]:
    found = (file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(place).as_posix(): file.read_bytes() for file in found}


# --- A project --------------------------------------------------------------------------------------------


def test_a_tested_tool_in_a_running_workflow_takes_four_commands(empty: Project) -> None:
    assert "init " in empty.strands("--help").out
    made = empty.strands("init", "demo")
    assert made.out.splitlines() == [f"demo/{name}" for name in PROJECT_FILES]
    first, *commands = [line.strip() for line in made.err.splitlines()]
    assert [first, *commands] == ["Next:", "cd demo", *FIRST_RUN]
    directory = empty.root / "demo"
    tested, ran = (empty.strands(*line.split()[1:], cwd=directory) for line in commands[1:])
    assert (tested.exit_code, ran.exit_code) == (0, 0), (tested, ran)
    assert "3 passed" in tested.out
    assert '"strands"' in ran.out  # the file is about little else


def test_a_new_project_has_no_issues(empty: Project) -> None:
    made = empty.strands("init", "--plugin", "cafe")
    assert made.err.splitlines()[-1].strip() == "strands plugin test cafe"
    for command in (
        ["validate", "--strict", "."],
        ["tool", "check", "--load"],
        ["plugin", "validate", "plugins/cafe"],
    ):
        outcome = empty.strands(*command)
        assert outcome.exit_code == 0, outcome
    assert "cafe__stats" in empty.strands("list-tools").out
    assert (empty.root / "plugins/cafe/cli-tools/stats.py").stat().st_mode & 0o100


def test_the_workflow_of_a_new_project_can_have_a_model(empty: Project, capsys: Capture) -> None:
    empty.here(capsys, "init")
    file = empty.root / "workflows/keywords.yaml"
    assert "provider" not in re.sub("#.*", "", file.read_text("utf-8"))
    file.write_text(
        re.sub(r"^#(?=\w| {2}\w| {6}-| {8}\w)", "", file.read_text("utf-8"), flags=re.MULTILINE), "utf-8"
    )
    assert "0 errors, 0 warnings" in empty.here(capsys, "validate", str(file)).err
    model = ScriptedModel().enqueue("About owls.")
    assert empty.run("workflows/keywords.yaml", model=model).last_response == "About owls."
    assert "strands" in model.requests[0].prompt


def test_what_the_files_of_a_new_project_tell_to_run_works(empty: Project, capsys: Capture) -> None:
    empty.here(capsys, "init")
    shown = re.search(r"strands tool show NAME(.*?)`", (empty.root / "AGENTS.md").read_text("utf-8"))
    example = re.search("strands (run .*)", (empty.root / "workflows/keywords.yaml").read_text("utf-8"))
    assert shown is not None
    assert example is not None
    with empty.current():
        assert "limit" in empty.here(capsys, "tool", "show", "keywords", *shown[1].split()).out
        assert empty.here(capsys, *example[1].split()).exit_code == 0


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("tools/keywords.py", "tools/keywords.py"),
        ("tests", "tests"),
        ("plugins/cafe/README.md", "plugins/cafe/README.md"),
    ],
)
def test_nothing_is_written_where_a_file_stands_in_the_way(
    path: str, named: str, empty: Project, capsys: Capture
) -> None:
    empty.write(path, "mine")
    empty.write("README.md", "mine too")
    outcome = empty.here(capsys, "init", "--plugin", "cafe")
    assert outcome.exit_code == 2
    assert f"{named} already exists; nothing was written." in outcome.err
    assert files_below(empty.root) == {path: b"mine", "README.md": b"mine too"}


def test_files_that_a_repository_has_already_are_kept(empty: Project, capsys: Capture) -> None:
    own = {
        ".gitignore": b"*.log\n",
        "AGENTS.md": b"Be kind.\n",
        "pyproject.toml": b"[tool.strands]\ntimeout = 5\n",
    }
    for path, text in own.items():
        empty.write(path, text)
    outcome = empty.here(capsys, "init")
    assert outcome.exit_code == 0, outcome
    written = files_below(empty.root)
    assert {path: written[path] for path in own} == own
    assert "strands.toml" not in written  # it would hide [tool.strands]
    again = empty.here(capsys, "init")
    assert again.out == ""
    assert again.err.startswith("Nothing to write: all files exist.\nNext:")
    assert files_below(empty.root) == written


@pytest.mark.parametrize("around", [{}, {"strands.toml": "timeout = 5\n"}], ids=["alone", "in a project"])
def test_a_pyproject_without_our_settings_gets_a_strands_toml(
    around: dict[str, str], empty: Project, capsys: Capture
) -> None:
    for path, text in around.items():
        empty.write(path, text)
    empty.write("inner/pyproject.toml", "[project]\nname = 'inner'\n")
    assert "inner/strands.toml" in empty.here(capsys, "init", "inner").out.split()


def test_a_project_cannot_be_made_in_a_file(empty: Project, capsys: Capture) -> None:
    empty.write("demo", "mine")
    outcome = empty.here(capsys, "init", "demo")
    assert (outcome.exit_code, files_below(empty.root)) == (2, {"demo": b"mine"}), outcome
    assert "demo already exists; nothing was written." in outcome.err


# --- Workflows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [*PATTERNS])
def test_a_new_workflow_of_each_pattern_validates_and_runs(
    pattern: str, project: Project, capsys: Capture
) -> None:
    made = project.here(capsys, "workflow", "new", "first", "--pattern", pattern, "--provider", "ollama")
    assert made.out.split() == ["workflows/first.yaml", "workflows/strands-workflow.schema.json"], made
    file = project.root / "workflows/first.yaml"
    schema = re.match(r"# yaml-language-server: \$schema=(.*)\n", file.read_text("utf-8"))
    assert schema is not None
    assert (file.parent / schema[1]).is_file()
    checked = project.here(capsys, "validate", "--strict", str(file))
    assert checked.exit_code == 0, checked
    result = project.run("workflows/first.yaml", model=ObligingModel())
    assert result.last_response
    again = project.here(capsys, "workflow", "new", "first", "--pattern", pattern)
    assert again.exit_code == 2
    assert "workflows/first.yaml already exists; nothing was written." in again.err


BARE = """\
import sys
from importlib.machinery import PathFinder

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, *arguments):
        return None if name in MISSING else super().find_spec(name, *arguments)

sys.meta_path[:] = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
from strands_cli.cli.app import run_command_line
sys.exit(run_command_line(["workflow", "new", "first"]) or run_command_line(["validate", "--strict", "workflows"]))
"""


@pytest.mark.parametrize(
    ("missing", "key", "provider"),
    [
        ((), "", "local"),
        (("xllamacpp",), "k", "openai"),
        (("xllamacpp", "ollama", "openai"), "k", "bedrock"),
    ],
)
def test_a_new_workflow_uses_a_provider_that_is_set_up_and_validates_without_a_warning(
    missing: tuple[str, ...], key: str, provider: str, project: Project
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BARE.replace("MISSING", repr(missing))],
        cwd=project.root,
        env={**project.environment, "OPENAI_API_KEY": key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert f"It uses the provider {provider}; --provider chooses another." in done.stderr
    assert ("The provider local needs no account. Install it: " in done.stderr) == (provider == "bedrock")
    assert f"provider: {provider}\n" in (project.root / "workflows/first.yaml").read_text("utf-8")


def test_a_new_scripted_workflow_says_where_its_answers_belong(project: Project, capsys: Capture) -> None:
    made = project.here(capsys, "workflow", "new", "first", "--provider", "scripted")
    assert "workflows/answers.yaml" in made.err
    project.write("workflows/answers.yaml", "- {answers: [Owls fly.]}\n")
    assert project.run("workflows/first.yaml").last_response == "Owls fly."


@pytest.mark.parametrize("name", ["two words", "../up", ".hidden", "-x", "a/b", "x" * 65, ""])
def test_a_name_that_no_workflow_can_have_writes_nothing(
    name: str, project: Project, capsys: Capture
) -> None:
    outcome = project.here(capsys, "workflow", "new", "--", name)
    assert outcome.exit_code == 2, outcome
    assert not (project.root / "workflows").exists()


# --- Tools ------------------------------------------------------------------------------------------------

STARTED = {
    "count_words": ("text", "Count the words in a text"),
    "count_open_errors": ("text", "Count the open errors in a text"),
    "count_lines": ("text", "Count the lines in a text"),
    "count": ("text", "Count the words in a text"),
    "count_vowels": ("text", "Count the vowels in a text"),
    "delete_customer": ("path", "Delete the customer"),
    "fetch_page": ("url", "Fetch the page at a URL"),
    "find_todos": ("text word", "Find the todos in a text"),
    "parse_headers": ("text", "Parse the headers"),
    "csv": ("text delimiter", "Parse CSV text into rows"),
    "parse_csv": ("text delimiter", "Parse CSV text into rows"),
    "readNotes": ("path", "Read the notes from a text file"),
    "send_mail": ("to text", "Send the mail"),
    "tidy": ("text", "Return a text without the space around it"),
}


@pytest.mark.long
def test_new_tools_fit_their_names_and_their_tests_pass(project: Project, capsys: Capture) -> None:
    for name in STARTED:
        with project.current():
            made = project.here(capsys, "tool", "new", name)
        assert made.out.split() == [f"tools/{name}.py", f"tests/test_{name}.py"], made
    project.strands("tool", "new", "farewell", "--family", "politeness")
    tools = {tool["id"]: tool for tool in project.strands("list-tools", "--json").json["tools"]}
    for name, (arguments, description) in STARTED.items():
        assert [*tools[name]["input_schema"]["properties"]] == arguments.split()
        assert tools[name]["description"].startswith(description)
        assert tools[name]["requires_consent"] == (name.split("_")[0] in ("delete", "send"))
    assert project.strands("tool", "check", "--load").exit_code == 0
    tested = project.strands("tool", "test")
    assert f"{3 * len(STARTED) + 3 - 1} passed" in tested.out, tested
    for command in (["check", "--select=E,F,I,B,UP,SIM,PT,RET,ANN"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length=110", "."]
        linted = subprocess.run(ruff, cwd=project.root, capture_output=True, text=True, check=False)
        assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my-tool"], "'my-tool' cannot be the name of a tool.\n  Did you mean 'my_tool'? Use a Python name"),
        (["count.words"], "'count.words' cannot be the name of a tool.\n  Did you mean 'count_words'?"),
        (["class"], "'class' cannot be the name of a tool.\n  Use a Python name"),
        (["tidy", "--family", ""], "'' cannot be the name of a family.\n  Use a Python name"),
        (["tidy", "--family", "my-family"], "'my-family' cannot be the name of a family.\n  Did you mean"),
    ],
)
def test_a_name_that_no_tool_or_family_can_have_is_refused_with_one_that_fits(
    arguments: list[str], message: str, project: Project, capsys: Capture
) -> None:
    outcome = project.here(capsys, "tool", "new", *arguments)
    assert outcome.exit_code == 2
    assert outcome.err.startswith(f"error: {message}")
    assert not (project.root / "tools").exists()


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        (["stock"], ["level", "--family", "stock"], "tools/stock.py"),
        (["level", "--family", "stock"], ["stock"], "tools/stock/__init__.py"),
    ],
)
def test_a_tool_and_a_family_of_one_name_are_refused_since_the_tool_could_never_be_loaded(
    first: list[str], second: list[str], taken: str, project: Project, capsys: Capture
) -> None:
    with project.current():
        project.here(capsys, "tool", "new", *first)
    before = files_below(project.root)
    with project.current():
        outcome = project.here(capsys, "tool", "new", *second)
    assert outcome.exit_code == 2, outcome
    assert outcome.err.startswith(
        f"error: {taken} already exists; nothing was written.\n  Python never loads"
    )
    assert files_below(project.root) == before
