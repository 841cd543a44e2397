"""The real model, where its engine and its weights are; else a test skips and says what is missing."""

import fcntl
import importlib.util
from pathlib import Path

import pytest

from strands_cli.errors import ProviderError
from strands_cli.providers.local.engine import missing_on_this_processor
from strands_cli.providers.local.weights import DEFAULT, model_named, pull_weights


def _weights() -> tuple[Path | None, str]:
    """Fetched where they are not here; the user's cache keeps them between runs."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None, "the engine is not installed: pip install 'strands-cli[local]'"
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
