"""Pytest fixtures, loaded with `pytest_plugins = ["strands_cli.testing"]`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strands_cli.testing.projects import CallTool, StrandsProject
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools import get_registry
from strands_cli.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from strands_cli.providers.scripted_model import ScriptedModel


@pytest.fixture
def strands_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrandsProject]:
    """An empty project in the current directory. Your own settings, trust and approvals are not used."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with StrandsProject(tmp_path / "project").current() as project:
        yield project


@pytest.fixture
def strands_registry() -> Iterator[ToolRegistry]:
    """The registry with the tools of the current project. Tools registered by a test are removed after it."""
    registry = get_registry()
    registry.refresh()
    yield registry
    registry.unregister()
    registry.refresh()


@pytest.fixture
def strands_workspace(tmp_path: Path) -> Workspace:
    """A workspace with one empty directory, `strands_workspace.base`."""
    root = (tmp_path / "workspace").resolve()
    root.mkdir()
    return Workspace((root,), root)


@pytest.fixture
def call_tool(strands_workspace: Workspace) -> CallTool:
    """Calls a tool in `strands_workspace`, as in `call_tool("greet", name="Ada").text`."""
    return CallTool(strands_workspace)


@pytest.fixture
def scripted_model() -> "ScriptedModel":
    """A model with scripted answers: `scripted_model.enqueue("Hello.")`."""
    from strands_cli.providers.scripted_model import ScriptedModel

    return ScriptedModel()
