"""Fixtures that every room's tests share, and what makes every run of them alike."""

import fcntl
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.exploring import prepare_property_tests
from tests.fakes import Call, ObligingModel, ScriptedModel, installed
from tests.projects import Project, end_command_server

pytest_plugins = ["strands_cli.testing", "tests.cluster.fixtures"]

_USERS = count()

prepare_property_tests()  # before the modules with such tests are imported


def pytest_configure() -> None:
    # Children would inherit both: Ctrl-C ignored, as nohup does, and streams that hide what is not flushed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONUNBUFFERED", None)


def pytest_sessionfinish() -> None:
    end_command_server()


@pytest.fixture(autouse=True)
def left_as_found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports from its own files, where it goes and what it sets is forgotten when it ends."""
    environment = dict(os.environ)
    before, places, directory = {*sys.modules}, [*sys.path], os.getcwd()  # noqa: PTH109 - as chdir takes it
    yield
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = places
    os.chdir(directory)  # a resumed run goes to its own
    own = str(tmp_path_factory.getbasetemp())
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(own):
            del sys.modules[name]
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] == "strands_cli":  # a command with --debug tells them what to log
            logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def own_directories(
    left_as_found: None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads what the user of this machine configured or decided, nor what another test did."""
    base = tmp_path_factory.getbasetemp() / f"user-{next(_USERS)}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(base / "data"))


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """Commands that are started by somebody who does not ignore SIGHUP, even if these tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user trusts what the test's own files ask for."""
    monkeypatch.setenv("STRANDS_TRUST", "1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    root.mkdir()
    return Project(root)


@pytest.fixture
def inside(project: Project) -> Iterator[Project]:
    """The project as the current directory of this process, seen by a registry that knows it."""
    with project.current():
        yield project


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
