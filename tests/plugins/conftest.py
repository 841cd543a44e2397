"""Fixtures of the plugins' tests."""

from pathlib import Path

import pytest

from tests.plugins.makers import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("STRANDS_TEST_MARK", "")
    return Bench(tmp_path)
