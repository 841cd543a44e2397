"""What starts on Windows, tried in an interpreter from which everything is hidden that Windows does not have."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import Project

ROOT = Path(__file__).parents[1]
GREETER = {"name": "greeter", "cli_tools": [{"name": "greet", "path": "greet.sh", "description": "Greets."}]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def run_without_posix(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.without_posix", *arguments]
    config = str(project.root.parent / "config")
    environment = project.environment | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": config}
    return subprocess.run(
        command, cwd=project.root, env=environment, input="", capture_output=True, text=True, check=False
    )


def test_every_module_can_be_imported_without_posix(project: Project) -> None:
    done = run_without_posix(project, "import")
    assert done.returncode == 0, done.stderr


def test_a_plugin_can_be_added_listed_and_removed_without_posix(project: Project) -> None:
    project.write("source/plugin.json", json.dumps(GREETER))
    project.write("source/greet.sh", "#!/bin/sh\necho '{}'\n").chmod(0o755)
    for arguments in (
        ("plugin", "add", "source", "--yes"),
        ("plugin", "validate", "plugins/greeter"),
        ("plugin", "update", "--yes"),
        ("plugin", "disable", "greeter"),
        ("plugin", "enable", "greeter"),
        ("plugin", "list"),
        ("list-tools",),
    ):
        done = run_without_posix(project, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert "greeter__greet" in done.stdout
    assert (project.root / "strands-plugins.lock").exists()
    assert run_without_posix(project, "plugin", "remove", "greeter", "--yes").returncode == 0
    assert not (project.root / "plugins/greeter").exists()


def test_a_plugin_called_without_posix_says_that_nothing_confines_it(project: Project) -> None:
    project.write("plugins/greeter/plugin.json", json.dumps(GREETER))
    project.write("plugins/greeter/greet.sh", "#!/bin/sh\necho '{}'\n").chmod(0o755)
    done = run_without_posix(project, "tool", "call", "greeter__greet", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "unavailable", done
    assert "win32 has no confinement" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tool", "call", "echo", "message=hi"),
        ("tool", "call", "file_write", "path=a.txt", "content=hi", "--yes"),
        ("doctor",),
        ("chat", "--provider", "ollama"),
        ("plugin", "new", "starter"),
        ("plugin", "test", "--help"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_command_runs_without_posix(project: Project, arguments: tuple[str, ...]) -> None:
    done = run_without_posix(project, *arguments)
    assert done.returncode == 0, done.stderr
