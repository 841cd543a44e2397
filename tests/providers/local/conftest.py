"""The real model, where its engine and its weights are; else a test skips and says what is missing."""

import importlib.util
import os
from pathlib import Path

import pytest

from strands_cli.errors import ProviderError
from strands_cli.providers.local.cpu import lacking_here
from strands_cli.providers.local.store import file_for


def _weights() -> tuple[Path | None, str]:
    if importlib.util.find_spec("xllamacpp") is None:
        return None, "the engine is not installed: pip install 'strands-cli[local]'"
    if lacking := lacking_here():
        return None, f"this processor lacks {', '.join(lacking)}"
    try:
        return file_for(None), ""
    except ProviderError as error:
        return None, f"{error.message} {error.hint}"


@pytest.fixture(scope="session")
def weights() -> Path:
    """The default model's file, or the small one's."""
    file, missing = _weights()
    if file is None and os.environ.get("STRANDS_TEST_REQUIRE") == "all":
        pytest.fail(missing)
    if file is None:
        pytest.skip(missing)
    return file
