"""`strands tool test`."""

import re
import subprocess
import sys

import pytest

from tests.projects import Project


@pytest.fixture(autouse=True)
def plain_pytest(project: Project) -> None:
    """The children of these tests run pytest without its plugins, which take a second to import."""
    project.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


PASSING = "def test_{}() -> None:\n    pass\n"


def test_the_tests_of_tools_are_found_below_tests_and_beside_the_tools(project: Project) -> None:
    tool = 'from strands_cli import tool\n\n@tool\ndef {}() -> str:\n    """Do it."""\n    return "done"\n'
    for path, name in {"tools/one": "one", "tools/several": "two", "tools/kin/three": "three"}.items():
        project.write(f"{path}.py", tool.format(name))
    project.write("tools/kin/__init__.py", "")
    for path, name in {
        "tests/test_one": "a",
        "tests/deep/test_several": "b",
        "tools/kin/tests": "c",
        "tools/test_two": "d",
        "tests/test_other_things": "e",
    }.items():
        project.write(f"{path}.py", PASSING.format(name))
    for arguments, expected in {
        (): "abcd",
        ("two",): "bd",
        ("three", "one", "-k", "not test_a"): "c",
    }.items():
        outcome = project.strands("tool", "test", *arguments, PYTEST_ADDOPTS="-v")
        assert outcome.exit_code == 0, outcome
        assert "".join(sorted(re.findall(r"::test_(\w) PASSED", outcome.out))) == expected


def test_a_failing_test_and_a_broken_tool_are_reported_with_exit_code_1(project: Project) -> None:
    project.write("tools/broken.py", "def broken(:\n")
    project.write(
        "tests/test_broken.py",
        "from strands_cli.testing import call\n\ndef test_it() -> None:\n    call('broken').expect(None)\n",
    )
    outcome = project.strands("tool", "test")
    assert outcome.exit_code == 1
    assert "Expected success, got" in outcome.out
    assert "broken.py" in outcome.out


@pytest.mark.parametrize(
    "settings",
    ["", pytest.param("[pytest]\nasyncio_default_fixture_loop_scope = session\n", marks=pytest.mark.long)],
)
def test_an_option_that_pytest_asyncio_asks_for_is_given_unless_the_author_has_set_it(
    project: Project, settings: str
) -> None:
    project.write("tools/one.py", "")
    project.write("tests/test_one.py", PASSING.format("a"))
    project.write("pytest.ini", settings)
    options = "-p pytest_asyncio -W error"
    done = project.strands("tool", "test", PYTEST_DISABLE_PLUGIN_AUTOLOAD="", PYTEST_ADDOPTS=options)
    assert (done.exit_code, done.err) == (0, "")
    assert f"fixture_loop_scope={'session' if settings else 'function'}" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "The tools of this project have no tests."),
        (["untested"], "untested has no tests.\n  Write tests/test_untested.py"),
        (["untestd"], "Unknown tool: untestd"),
        (["echo"], "echo is not in the tools/ directory of this project."),
    ],
)
def test_it_is_said_which_tests_are_missing(arguments: list[str], message: str, project: Project) -> None:
    project.tool("untested", "def untested(tool, **kwargs): return 1")
    outcome = project.strands("tool", "test", *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.err


def test_a_missing_pytest_is_reported_with_its_remedy(project: Project) -> None:
    project.write("tools/test_one.py", PASSING.format("a"))
    program = """\
import sys
from importlib.machinery import PathFinder

class WithoutPytest(PathFinder):
    @classmethod
    def find_spec(cls, name, *arguments):
        return None if name == "pytest" else super().find_spec(name, *arguments)

sys.meta_path[:] = [WithoutPytest if finder is PathFinder else finder for finder in sys.meta_path]
from strands_cli.cli.app import run_command_line
sys.exit(run_command_line(["tool", "test"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 18, done
    assert done.stderr == "error: The tests need pytest.\n  Install it: pip install pytest\n"
