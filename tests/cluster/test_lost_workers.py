"""Runs go on when workers are killed, frozen or shut down."""

import signal

import pytest

from tests.cluster.clusters import Cluster, Oracle, WorkerProcess, until

RUNS, STEPS = 12, 4
USAGE = {"input_tokens": 10 * STEPS, "output_tokens": 10 * STEPS, "cost": None}
"""Each step asks the model twice, for 5 and 5 tokens."""


def expected(run: str, steps: int = STEPS) -> str:
    return run + "".join(f"+{number}" for number in range(steps))


def at_work(cluster: Cluster, worker: WorkerProcess, marks: int) -> None:
    """Waits until a worker is in the middle of its runs."""

    def has_begun() -> bool:
        return sum(pid == worker.pid for _, pid in cluster.lines()) >= marks

    until(has_begun, cluster.said)


def assert_all_is_right(cluster: Cluster, runs: list[str]) -> None:
    assert {run: cluster.answer(run) for run in runs} == {run: expected(run) for run in runs}
    assert {run: cluster.row(run, "status")["usage"] for run in runs} == dict.fromkeys(runs, USAGE)
    labels = {expected(run, steps) for run in runs for steps in range(1, STEPS + 1)}
    assert {*cluster.marks()} == labels


@pytest.mark.long
def test_the_runs_of_a_killed_worker_go_on_where_they_were_and_nothing_recorded_is_done_again(
    cluster: Cluster,
) -> None:
    cluster.marking_flow(STEPS, wait=0.6)
    victim, other = cluster.workers(2, "--concurrency", "6")
    runs = cluster.submit_all(RUNS)
    oracle = Oracle(cluster, runs)
    at_work(cluster, victim, 8)
    victim.kill()
    assert oracle.look()
    oracle.done()
    assert not oracle.repeated()
    assert_all_is_right(cluster, runs)
    assert other.text.count(", attempt ") == 6
    assert sum(cluster.marks().values()) <= RUNS * STEPS + 6  # what was done, but not yet recorded


@pytest.mark.long
def test_a_worker_that_was_frozen_while_others_took_its_runs_writes_nothing_more(cluster: Cluster) -> None:
    cluster.marking_flow(STEPS, wait=0.6)
    victim, other = cluster.workers(2, "--concurrency", "6")
    runs = cluster.submit_all(RUNS)
    oracle = Oracle(cluster, runs)
    at_work(cluster, victim, 8)
    victim.send(signal.SIGSTOP)
    oracle.done()
    assert not oracle.repeated()
    before, marks = {run: cluster.rows(run) for run in runs}, sum(cluster.marks().values())
    victim.send(signal.SIGCONT)
    assert victim.drained() == 0, victim.text
    changed = {
        (run, key): value
        for run in runs
        for key, value in cluster.rows(run).items()
        if before[run].get(key) != value
    }
    assert not changed, victim.text
    assert_all_is_right(cluster, runs)
    assert other.text.count(", attempt ") == 6
    assert sum(cluster.marks().values()) <= marks + 6  # what it was about to do when it was frozen


@pytest.mark.long
def test_a_worker_that_wakes_up_while_another_does_its_run_leaves_it_alone(cluster: Cluster) -> None:
    cluster.flow("{{ who }} one", "{{ last_response }} two", wait=6)
    victim = cluster.worker().ready()
    run = cluster.submit("--var", "who=x")
    victim.says(f"{run}: flow")
    until(lambda: "steps/0/begun" in cluster.rows(run))
    victim.send(signal.SIGSTOP)
    begun = cluster.row(run, "workspace")
    other = cluster.worker().ready()
    other.says(f"{run}: flow, attempt")  # the 3rd if the 2nd was given to the frozen worker too
    until(lambda: cluster.row(run, "workspace") != begun)
    victim.send(signal.SIGCONT)
    victim.says(f"{run}: ", 2)
    assert cluster.statuses() == {run: "running"}
    cluster.reach(run, "done")
    assert cluster.answer(run) == "x one two"
    assert other.text.count(f"{run}: flow") == 1


@pytest.mark.long
def test_a_tool_that_blocks_its_run_does_not_lose_it_to_another_worker(cluster: Cluster) -> None:
    cluster.marking_flow(1, wait=0)
    tool = cluster.project.root / "tools" / "mark.py"
    blocking = (
        tool.read_text().replace("def mark", "async def mark").replace("return", "time.sleep(6)\n    return")
    )
    tool.write_text(blocking)
    workers = cluster.workers(2)
    runs = cluster.submit_all(2)
    for run in runs:
        cluster.reach(run, "done")
    assert sum(cluster.marks().values()) == 2
    assert not any("attempt" in worker.text for worker in workers)


@pytest.mark.long
def test_a_run_whose_tool_has_held_the_interpreter_for_too_long_is_not_begun_again_when_it_is_done(
    cluster: Cluster,
) -> None:
    cluster.marking_flow(1, wait=0)
    tool = cluster.project.root / "tools" / "mark.py"
    tool.write_text(
        tool.read_text().replace("return", "import ctypes\n    ctypes.PyDLL(None).sleep(5)\n    return")
    )
    worker = cluster.worker().ready()
    [run] = cluster.submit_all(1)
    cluster.reach(run, "done")
    assert worker.drained() == 0
    assert cluster.answer(run) == expected(run, 1)
    assert ": flow" not in worker.text.partition(": done")[2], worker.text
    assert "handed over" not in worker.text


@pytest.mark.long
def test_a_worker_that_shuts_down_hands_its_runs_over_and_another_one_goes_on_at_once(
    cluster: Cluster,
) -> None:
    cluster.settle(lost_after=60)
    cluster.marking_flow(STEPS, wait=0.4)
    first = cluster.worker("--drain", "0").ready()
    runs = cluster.submit_all(3)
    oracle = Oracle(cluster, runs)
    until(lambda: len({label.partition("+")[0] for label in cluster.marks()}) == 3, cluster.said)
    assert first.drained() == 0, first.text
    assert first.text.count("handed over: this worker shuts down") == 3
    assert first.text.endswith("Stopped.\n")
    oracle.look()
    assert cluster.statuses() == dict.fromkeys(runs, "queued")
    cluster.worker().ready()
    oracle.done()
    assert not oracle.repeated()
    assert_all_is_right(cluster, runs)


@pytest.mark.long
def test_a_worker_that_shuts_down_finishes_what_it_can_in_time_and_takes_nothing_new(
    cluster: Cluster,
) -> None:
    cluster.flow("{{ who }}", wait=1.5)
    worker = cluster.worker("--drain", "30", "--concurrency", "1").ready()
    cluster.submit_all(2)
    worker.says(": flow")
    assert worker.drained() == 0, worker.text
    assert sorted(cluster.statuses().values()) == ["done", "queued"]
    assert worker.text.count(": flow") == 1


@pytest.mark.long
def test_a_second_signal_ends_a_worker_at_once(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", wait=30)
    worker = cluster.worker("--drain", "60").ready()
    run = cluster.submit()
    cluster.reach(run, "running")

    def ends() -> bool:
        worker.send(signal.SIGTERM)
        return worker.process.poll() is not None

    until(ends)
    assert worker.process.returncode == 128 + signal.SIGTERM
