from pathlib import Path

import pytest

from tests.distributions.environments import REPOSITORY, build


@pytest.fixture(scope="session")
def own_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"))
