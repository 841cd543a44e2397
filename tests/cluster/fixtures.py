"""Servers for tests of runs on several machines: each starts when the first test asks for it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.servers import Postgres, Temporal
from tests.plugins.makers import need


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    need(Postgres.program("initdb"), Postgres.program("postgres"), "setpriv")
    # Not below pytest's own directory, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="strands-postgres-", dir="/tmp") as directory:
        server = Postgres.start(Path(directory))
        yield server
        server.stop()


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Temporal]:
    need(Temporal.program(), "setpriv")
    server = Temporal.start(tmp_path_factory.mktemp("temporal"))
    yield server
    server.stop()


@pytest.fixture
def database(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty database. Starts the server again if another test has left it stopped."""
    if not postgres_server.running:
        postgres_server.restart()
    url = postgres_server.new_database()
    yield url
    if postgres_server.running:
        postgres_server.drop_database(url)


@pytest.fixture
def temporal(temporal_server: Temporal) -> Temporal:
    """The server, which other tests use too. Starts it again if another test has left it stopped."""
    if not temporal_server.running:
        temporal_server.restart()
    return temporal_server
