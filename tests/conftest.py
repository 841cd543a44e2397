"""Fixtures that every room's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_cli.tools import get_registry
from tests.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    return Project(root)


@pytest.fixture
def inside(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The project as the current directory of this process, seen by a registry that knows it."""
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.root.parent / "cache"))
    get_registry().refresh()
    yield project
    monkeypatch.undo()
    get_registry().refresh()
