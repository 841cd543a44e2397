"""A cluster for each test: a queue and a database of its own, on the servers that the tests share."""

import secrets
from collections.abc import Iterator

import pytest

from tests.cluster.clusters import Cluster
from tests.cluster.servers import Temporal
from tests.projects import Project


@pytest.fixture
def cluster(project: Project, database: str, temporal: Temporal) -> Iterator[Cluster]:
    found = Cluster(project, database, temporal.address, f"test-{secrets.token_hex(4)}")
    yield found
    found.end_workers()
