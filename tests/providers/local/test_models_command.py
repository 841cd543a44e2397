"""`strands models`, as it is typed."""

import os
from pathlib import Path

import pytest

from strands_cli.providers.local.weights import CATALOGUE, DEFAULT, SMALLEST
from tests.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def test_the_models_are_listed_with_size_and_licence(project: Project) -> None:
    outcome = project.strands("models", "list")
    assert outcome.exit_code == 0
    assert DEFAULT in outcome.out
    assert "491 MB" in outcome.out
    assert "Apache-2.0" in outcome.out


def test_the_listing_is_one_json_document_for_machines(project: Project) -> None:
    listed = project.strands("models", "list", "--json").json
    assert listed["default"] == DEFAULT
    assert {model["name"]: model["sha256"] for model in listed["models"]} == {
        name: model.sha256 for name, model in CATALOGUE.items()
    }
    assert all(model["path"] is None for model in listed["models"])


def test_a_model_that_is_not_here_has_no_path_but_a_command_that_fetches_it(project: Project) -> None:
    outcome = project.strands("models", "path", SMALLEST)
    assert (outcome.exit_code, outcome.out) == (10, "")
    assert f"strands models pull {SMALLEST}" in outcome.err


def test_a_file_that_is_not_the_model_is_refused_and_nothing_is_kept(project: Project) -> None:
    other = project.write("other.gguf", b"GGUF" + os.urandom(100))
    outcome = project.strands("models", "pull", DEFAULT, "--from", str(other))
    assert (outcome.exit_code, outcome.out) == (10, "")
    assert "its SHA-256 differs" in outcome.err
    assert all(model["path"] is None for model in project.strands("models", "list", "--json").json["models"])


def test_an_unknown_model_is_corrected(project: Project) -> None:
    outcome = project.strands("models", "pull", "smollm-135m")
    assert outcome.exit_code == 10
    assert f"Did you mean '{SMALLEST}'?" in outcome.err


def test_a_damaged_file_is_told_with_the_commands_that_help(project: Project) -> None:
    damaged = (
        Path(project.environment["XDG_CACHE_HOME"]) / "strands-cli" / "models" / CATALOGUE[SMALLEST].file
    )
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"GGUF and then nothing")
    outcome = project.strands("models", "path", SMALLEST)
    assert outcome.exit_code == 10
    assert f"strands models remove {SMALLEST} && strands models pull {SMALLEST}" in outcome.err
    assert project.strands("models", "remove", SMALLEST).out == f"Removed {SMALLEST}.\n"
    assert not damaged.exists()
