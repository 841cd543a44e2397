"""Fixtures that every room's tests share, and what makes every run of them alike."""

import fcntl
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_cli.tools import get_registry
from tests.exploring import prepare_property_tests
from tests.fakes import Call, ObligingModel, ScriptedModel, installed
from tests.projects import Project

prepare_property_tests()  # before the modules with such tests are imported


def pytest_configure() -> None:
    # Children would inherit both: Ctrl-C ignored, as nohup does, and streams that hide what is not flushed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.fixture(autouse=True)
def forgotten_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports from its own files is not imported any more when the next one begins."""
    before = {*sys.modules}
    yield
    own = str(tmp_path_factory.getbasetemp())
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(own):
            del sys.modules[name]


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
    get_registry().unregister()
    get_registry().refresh()


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """The scripted model in the place of every provider's."""
    with installed(ScriptedModel()) as scripted:
        yield scripted


@pytest.fixture
def obliging_model() -> Iterator[ScriptedModel]:
    """One that answers whatever it is asked."""
    with installed(ObligingModel()) as scripted:
        yield scripted


@pytest.fixture
def mock_create_model(model: ScriptedModel) -> None:
    """The guide's name for it: a model that echoes with the tool, and then answers."""
    model.default_answer = "Test message"
    model.enqueue(Call("echo", {"message": "Test message"}))


def _weights() -> tuple[Path | None, str]:
    """Fetched where they are not here; the user's cache keeps them between runs."""
    from strands_cli.errors import ProviderError
    from strands_cli.providers.local.engine import missing_on_this_processor
    from strands_cli.providers.local.weights import DEFAULT, model_named, pull_weights

    if importlib.util.find_spec("xllamacpp") is None:
        return None, "the engine is not installed: make setup"
    if lacking := missing_on_this_processor():
        return None, f"this processor lacks {', '.join(lacking)}"
    try:
        return pull_weights(model_named(DEFAULT)), ""
    except ProviderError as error:
        return None, f"{error.message} {error.hint}"


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model's file. Without a network to fetch it from there is none, and that is nobody's fault."""
    common = tmp_path_factory.getbasetemp().parent  # of all workers: one of them fetches
    with (common / "weights.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file, missing = _weights()
    if file is None:
        pytest.skip(missing)
    return file
