"""Runs go on when the database or the engine of the cluster is restarted, or is gone for a while."""

import signal
import time
from typing import Any

import pytest

from tests.cluster.clusters import Cluster, Oracle, until
from tests.cluster.servers import Postgres, Temporal

RUNS, STEPS = 6, 8
USAGE = {"input_tokens": 10 * STEPS, "output_tokens": 10 * STEPS, "cost": None}
"""Each step asks the model twice, for 5 and 5 tokens."""
DOWN_SECONDS = 4.0
"""Longer than a worker may be without a sign of life."""


def expected(run: str, steps: int = STEPS) -> str:
    return run + "".join(f"+{number}" for number in range(steps))


def begin(cluster: Cluster) -> tuple[list[str], Oracle]:
    """Runs on two workers, each in the middle of some."""
    cluster.marking_flow(STEPS, wait=0.6)
    workers = cluster.workers(2, "--concurrency", "5")
    runs = cluster.submit_all(RUNS)
    oracle = Oracle(cluster, runs)

    def is_in_the_middle() -> bool:
        lines = cluster.lines()
        begun = {label.partition("+")[0] for label, _ in lines}
        return begun == {*runs} and {pid for _, pid in lines} == {worker.pid for worker in workers}

    until(is_in_the_middle, cluster.said)
    until(oracle.look, cluster.said)
    assert "running" in cluster.statuses().values()
    return runs, oracle


def finish(cluster: Cluster, runs: list[str], oracle: Oracle) -> None:
    """All runs end as if nothing had happened."""
    oracle.look()
    oracle.done(limit=100)
    assert not oracle.repeated()
    assert {run: cluster.answer(run) for run in runs} == {run: expected(run) for run in runs}
    assert {run: cluster.row(run, "status")["usage"] for run in runs} == dict.fromkeys(runs, USAGE), (
        cluster.said()
    )
    labels = {expected(run, steps) for run in runs for steps in range(1, STEPS + 1)}
    assert {*cluster.marks()} == labels
    attempts = cluster.said().count(": flow")
    # Each attempt that was lost had done at most one thing that was not yet recorded.
    assert sum(cluster.marks().values()) <= RUNS * STEPS + attempts - RUNS, cluster.said()


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_runs_go_on_when_postgres_restarts(mode: Any, cluster: Cluster, postgres_server: Postgres) -> None:
    runs, oracle = begin(cluster)
    postgres_server.restart(mode)
    finish(cluster, runs, oracle)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_runs_wait_for_a_postgres_that_is_down_for_a_while(
    mode: Any, cluster: Cluster, postgres_server: Postgres
) -> None:
    runs, oracle = begin(cluster)
    postgres_server.stop(mode)
    time.sleep(DOWN_SECONDS)
    postgres_server.restart()
    finish(cluster, runs, oracle)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_runs_go_on_when_temporal_is_killed_and_restarts(cluster: Cluster, temporal_server: Temporal) -> None:
    runs, oracle = begin(cluster)
    temporal_server.restart(signal.SIGKILL)
    finish(cluster, runs, oracle)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_runs_go_on_when_temporal_is_killed_and_down_for_a_while(
    cluster: Cluster, temporal_server: Temporal
) -> None:
    runs, oracle = begin(cluster)
    temporal_server.stop(signal.SIGKILL)
    time.sleep(DOWN_SECONDS)
    oracle.look()
    temporal_server.restart()
    finish(cluster, runs, oracle)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_runs_go_on_when_postgres_and_temporal_crash_at_once(
    cluster: Cluster, postgres_server: Postgres, temporal_server: Temporal
) -> None:
    runs, oracle = begin(cluster)
    temporal_server.stop(signal.SIGKILL)
    postgres_server.stop("immediate")
    time.sleep(DOWN_SECONDS)
    postgres_server.restart()
    temporal_server.restart()
    finish(cluster, runs, oracle)
