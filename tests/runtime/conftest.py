"""Whose agents the tests of a module use."""

from collections.abc import Iterator

import pytest

from tests.runtime.agents import Setting


@pytest.fixture(params=[False, True], ids=["an agent of a program", "an agent of a run"])
def is_own(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Calls of a run's own agents start before the SDK asks for them; all else is the same."""
    Setting.is_own = request.param
    yield Setting.is_own
    Setting.is_own = False
