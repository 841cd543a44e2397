"""Whatever a project's files hold, the answer is a documented one, and it comes soon."""

import json
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from strands_cli.cli.app import run_command_line
from strands_cli.errors import Issue, SpecError
from strands_cli.settings import config_directory, data_directory, load_settings, settings_to_look_at
from strands_cli.tools.sources.plugins import scan_plugins
from tests import mutations
from tests.fuzzing import SECONDS, Answer, fresh_seeds, wrongs
from tests.loader.test_fuzz import answer as workflow_problem
from tests.projects import Project

QUICK = 60
LOOKED = {0, 3, 18}
"""How a command that only looks ends: well, with a file that is not valid, with one that cannot run here."""


def unfit(issue: Issue) -> str:
    msgspec.json.encode(issue.reason)
    return "" if issue.reason and issue.remediation else f"an issue without a reason or a remedy: {issue}"


@pytest.fixture
def command(inside: Project, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in this process: what is wrong with how it ended, else nothing."""

    def run(*arguments: str, expected: frozenset[int] | set[int] = LOOKED) -> str:
        exit_code = run_command_line(arguments)
        said = capsys.readouterr()
        if exit_code not in expected:
            return f"{' '.join(arguments)}: exit {exit_code}\n{said.err[-2000:]}"
        if "--json" in arguments:
            json.loads(said.out)
        return ""

    return run


Command = Callable[..., str]
VIEWS = (
    ("plan",), ("explain",), ("graph", "--format", "mermaid"), ("graph", "--format", "dot"), ("graph", "--format", "svg"),
    ("validate", "--json"), ("plan", "--json"),
)  # fmt: skip


def of_workflows(command: Command, root: Path) -> Answer:
    shutil.copytree(mutations.EXAMPLES, root, dirs_exist_ok=True)
    file = root / "mutated.yaml"

    def answer(data: bytes, seed: int) -> str:
        file.write_bytes(data)
        name, *options = VIEWS[seed % len(VIEWS)]
        return workflow_problem(file) or command(name, "mutated.yaml", *options)

    return answer


def of_manifests(command: Command, root: Path) -> Answer:
    place = root / "plugins/mutated"
    for example in sorted((mutations.EXAMPLES / "plugins").iterdir()):
        if example.is_dir():
            shutil.copytree(example, place, dirs_exist_ok=True)
    project = load_settings()

    def answer(data: bytes, seed: int) -> str:
        (place / "plugin.json").write_bytes(data)
        found = scan_plugins(project)
        if not found.infos and not found.issues and b"cli_tools" in data and seed == 0:
            return "neither a tool nor an issue"
        wrong = next((problem for problem in map(unfit, found.issues) if problem), "")
        more = [
            ("plugin", "validate", "plugins/mutated"),
            ("plugin", "list", "-v"),
            ("plugin", "list", "--json"),
        ]
        return wrong or command(*more[seed % len(more)])

    return answer


def of_settings(command: Command, root: Path) -> Answer:
    files = [directory / "strands.toml" for directory in (root, config_directory())] + [
        root / "pyproject.toml"
    ]
    config_directory().mkdir(parents=True, exist_ok=True)

    def answer(data: bytes, seed: int) -> str:
        file = files[seed % len(files)]
        file.write_bytes(data)
        try:
            return problem(seed)
        finally:
            file.unlink()

    def problem(seed: int) -> str:
        looked_at = settings_to_look_at()
        if wrong := next((problem for problem in map(unfit, looked_at.issues) if problem), ""):
            return wrong
        try:
            if load_settings() != looked_at:
                return "settings that are different for who looks"
        except SpecError as error:
            if error.issues != looked_at.issues:
                return "issues that are different for who looks"
        return command("list-tools", "--json", expected={0}) if seed % 50 == 0 else ""

    return answer


def of_decisions(command: Command, root: Path) -> Answer:
    shutil.copytree(mutations.EXAMPLES / "plugins", root / "plugins")
    config, data_place = config_directory(), data_directory()
    files = [
        root / "strands-plugins.lock",
        config / "strands-plugins.lock",
        config / "plugins.json",
        data_place / "approvals.json",
        data_place / "trust.json",
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
    more = [("plugin", "list", "--json"), ("list-tools", "--json"), ("plan", "flow.yaml")]
    (root / "flow.yaml").write_text(mutations.workflows().texts[0], "utf-8")
    project = load_settings()

    def answer(data: bytes, seed: int) -> str:
        file = files[seed % len(files)]
        file.write_bytes(data.replace(b"@ROOT@", str(root).encode()))
        file.chmod(0o600)
        try:
            found = scan_plugins(project)
            wrong = next((problem for problem in map(unfit, found.issues) if problem), "")
            return wrong or (command(*more[seed % 7], expected={0, 3}) if seed % 7 < len(more) else "")
        finally:
            file.unlink()

    return answer


TARGETS = {
    "workflows": (mutations.workflows, of_workflows),
    "manifests": (mutations.manifests, of_manifests),
    "settings": (mutations.settings, of_settings),
    "decisions": (mutations.decisions, of_decisions),
}


@pytest.mark.parametrize("target", TARGETS)
def test_some_mutated_files_get_an_answer(target: str, command: Command, inside: Project) -> None:
    corpus, answer = TARGETS[target]
    assert [*wrongs(corpus(), answer(command, inside.root), iter(range(QUICK)))][:3] == []


@pytest.mark.long
@pytest.mark.timeout(SECONDS * 4 + 300)
@pytest.mark.parametrize("target", TARGETS)
def test_mutated_files_get_an_answer_for_as_long_as_there_is_time(
    target: str, command: Command, inside: Project
) -> None:
    corpus, answer = TARGETS[target]
    assert [*islice(wrongs(corpus(), answer(command, inside.root), fresh_seeds()), 3)] == []
