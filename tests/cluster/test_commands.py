"""Runs are submitted, watched, answered, cancelled and scheduled from the command line, and workers do them."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strands_cli.errors import SessionError
from tests.cluster.clusters import LIMIT, Cluster, until
from tests.cluster.servers import Temporal, free_port

QUESTION = {"id": "ok", "human": {"prompt": "Publish {{ last_response }}?"}}


class Watcher:
    """`strands` in a process of its own, which somebody may interrupt."""

    def __init__(self, cluster: Cluster, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "strands_cli", *arguments],
            cwd=cluster.project.root,
            env=cluster.project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = ""

    def says(self, text: str) -> None:
        assert self._process.stderr is not None
        while text not in self._said:
            line = self._process.stderr.readline()
            assert line, self._said
            self._said += line

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it has said."""
        self.out, err = self._process.communicate(timeout=LIMIT)
        return self._process.returncode, self._said + err

    def result(self) -> str:
        code, err = self.ended()
        assert code == 0, err
        return self.out


def copied(cluster: Cluster) -> Path:
    """The same project at another place, as another machine has it."""
    place = cluster.project.root.parent / "elsewhere" / cluster.project.root.name
    shutil.copytree(cluster.project.root, place)
    return place


# --- submitting -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_same_id_starts_the_same_run_once(cluster: Cluster) -> None:
    cluster.marking_flow(1, wait=0)
    first = cluster.strands("submit", "flow.yaml", "--id", "daily", "--json")
    assert first.json == {"run_id": "daily"}
    assert (
        f"No worker takes the runs of the queue {cluster.queue} yet. Start one: strands worker" in first.err
    )
    assert cluster.statuses() == {"daily": "queued"}
    assert cluster.submit("--id", "daily") == "daily"
    cluster.worker().ready()
    cluster.reach("daily", "done")
    assert cluster.submit("--id", "daily") == "daily"
    other = cluster.strands("submit", "flow.yaml", "--id", "daily", "--var", "who=else")
    assert other.exit_code == 17
    assert "Run daily exists, with another workflow or other inputs." in other.err
    assert cluster.marks() == {"it+0": 1}


@pytest.mark.long
def test_the_queues_of_one_server_do_not_share_ids(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    cluster.submit("--id", "daily", "--queue", f"{cluster.queue}.2")
    cluster.delete("daily")  # as with a store of its own
    cluster.submit("--id", "daily")
    cluster.worker().ready()
    cluster.reach("daily", "done")


def test_a_run_goes_on_in_another_copy_of_the_project_and_is_watched_from_this_one(cluster: Cluster) -> None:
    artifact = {"path": "answer.txt", "from": "{{ last_response }}"}
    cluster.flow("{{ who }}", "{{ last_response }}!", outputs={"artifacts": [artifact]})
    elsewhere = copied(cluster)
    (elsewhere / "flow.yaml").unlink()  # the file goes with the run
    cluster.worker(root=elsewhere).ready()
    outcome = cluster.strands("submit", "flow.yaml", "--watch", "--json", "--var", "who=you", "--out", "made")
    assert outcome.exit_code == 0, outcome
    assert outcome.json["last_response"] == "you!"
    assert outcome.json["usage"]["input_tokens"] == 10
    assert [line for line in outcome.err.splitlines() if "started" in line] == [
        "step 1: started, worker, scripted answers.yaml",
        "step 2: started, worker, scripted answers.yaml",
    ]
    assert (elsewhere / "made" / "answer.txt").read_text() == "you!"
    assert not (cluster.project.root / "made").exists()
    again = cluster.strands("runs", "watch", outcome.json["run_id"])
    assert again.out == "you!\n"


@pytest.mark.long
def test_run_submits_where_the_settings_say_so(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    cluster.settle(use="temporal")
    cluster.worker().ready()
    outcome = cluster.strands("run", "flow.yaml")
    assert (outcome.exit_code, outcome.out) == (0, "it\n"), outcome
    [run] = cluster.statuses()
    assert cluster.row(run, "head")["engine"] == "temporal"
    assert cluster.strands("run", "flow.yaml", "--engine", "local").out == "it\n"
    assert cluster.strands("run", "flow.yaml", STRANDS_ENGINE="local").out == "it\n"
    assert sum(cluster.row(one, "head").get("engine") == "temporal" for one in cluster.statuses()) == 1
    refused = cluster.strands("run", "flow.yaml", "--record", "x.jsonl")
    assert refused.exit_code == 2
    assert "--record is for runs in this process." in refused.err


@pytest.mark.long
def test_answers_that_are_too_large_for_a_message_stay_in_the_store(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", *["{{ last_response }}{{ last_response }}"] * 12)
    cluster.worker().ready()
    outcome = cluster.strands("submit", "flow.yaml", "--watch", "--var", f"who={'x' * 1000}")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out == "x" * 4_096_000 + "\n"


@pytest.mark.long
def test_a_failure_is_not_tried_again_by_the_engine_but_can_be_resumed(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", script=[{"when": "it", "answers": [{"error": "refused", "text": "no credit"}]}])
    worker = cluster.worker().ready()
    outcome = cluster.strands("submit", "flow.yaml", "--watch", "--id", "poor")
    assert outcome.exit_code == 10
    assert "no credit" in outcome.err
    assert "strands resume poor" in outcome.err
    assert worker.text.count("poor: flow") == 1
    cluster.flow("{{ who }}")
    resumed = cluster.strands("resume", "poor")
    assert (resumed.exit_code, resumed.out) == (0, "it\n"), resumed


@pytest.mark.long
def test_a_run_is_submitted_from_a_directory_of_the_project(cluster: Cluster) -> None:
    artifact = {"path": "answer.txt", "from": "{{ last_response }}"}
    cluster.flow("{{ who }}", outputs={"artifacts": [artifact]})
    inner = cluster.project.root / "inner"
    inner.mkdir()
    cluster.worker().ready()
    for out in (".", "../..", "../other"):
        outcome = cluster.project.strands("submit", "../flow.yaml", "--watch", "--out", out, cwd=inner)
        assert outcome.exit_code == 0, outcome
        assert (inner / out / "answer.txt").read_text() == "it"


@pytest.mark.long
def test_changes_are_still_accepted_after_another_worker_has_taken_over(cluster: Cluster) -> None:
    cluster.flow("one {{ who }}", "two after {{ last_response }}", "three after {{ last_response }}", wait=2)
    first = cluster.worker("--drain", "0").ready()
    run = cluster.submit("--id", "news")
    until(lambda: "steps/1/result" in cluster.rows(run))
    assert cluster.strands("runs", "cancel", run).exit_code == 0
    cluster.flow("ONE {{ who }}", "TWO after {{ last_response }}", "three after {{ last_response }}", wait=2)
    watcher = Watcher(cluster, "resume", run, "--accept-changes")
    first.says("news: flow", 2)
    until(lambda: cluster.row(run, "steps/0/begun").get("input") == "ONE it")
    assert first.drained() == 0
    cluster.worker().ready()
    assert watcher.result() == "three after TWO after ONE it\n"


# --- questions ------------------------------------------------------------------------------------------------


def test_a_question_frees_the_worker_and_another_one_goes_on_with_its_answer(cluster: Cluster) -> None:
    cluster.marking_flow(1, wait=0)
    document = cluster.project.root / "flow.yaml"
    document.write_text(document.read_text().rstrip() + f"\n    - {json.dumps(QUESTION)}\n")
    worker = cluster.worker().ready()
    paused = cluster.strands("submit", "flow.yaml", "--watch", "--json", "--id", "news")
    assert paused.exit_code == 19, paused
    assert [asked["key"] for asked in paused.json["error"]["questions"]] == ["steps/1"]
    worker.says("news: waits for an answer")
    assert worker.drained() == 0
    cluster.worker().ready()
    done = cluster.strands("resume", "news", "--answer", "yes")
    assert (done.exit_code, done.out) == (0, "yes\n"), done
    assert cluster.marks() == {"it+0": 1}
    late = cluster.strands("resume", "news", "--answer", "no")
    assert late.exit_code == 2
    assert "Run news is finished." in late.err


@pytest.mark.long
def test_a_question_that_has_waited_long_enough_is_answered_with_its_default(cluster: Cluster) -> None:
    human = {"prompt": "Publish?", "default": "no", "timeout_s": 1}
    cluster.flow("{{ who }}", {"human": human})
    worker = cluster.worker().ready()
    run = cluster.submit()
    cluster.reach(run, "done")
    assert cluster.answer(run) == "no"
    assert f"{run}: waits for an answer" in worker.text


@pytest.mark.long
def test_consent_to_a_call_is_asked_and_given_through_the_store(cluster: Cluster) -> None:
    cluster.marking_flow(1, wait=0)
    tool = cluster.project.root / "tools" / "mark.py"
    tool.write_text(tool.read_text().replace("@tool(", "@tool(requires_consent=True, "))
    cluster.worker().ready()
    run = cluster.submit()
    cluster.reach(run, "paused")
    assert not cluster.marks()
    done = cluster.strands("resume", run, "--answer", "yes")
    assert done.exit_code == 0, done
    assert cluster.marks() == {"it+0": 1}
    assert cluster.strands("submit", "flow.yaml", "--watch", "--yes", "--var", "who=me").exit_code == 0
    assert cluster.marks()["me+0"] == 1


@pytest.mark.long
def test_an_answer_to_a_run_that_is_queued_again_is_not_lost(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", QUESTION)
    worker = cluster.worker().ready()
    run = cluster.submit("--id", "news")
    cluster.reach(run, "paused")
    assert worker.drained() == 0
    cluster.on_engine(lambda engine: engine.resume(run))
    assert cluster.statuses() == {run: "queued"}
    cluster.on_engine(lambda engine: engine.answer(run, {"steps/1": "yes"}))
    cluster.worker().ready()
    cluster.reach(run, "done")
    assert cluster.answer(run) == "yes"


@pytest.mark.long
def test_whoever_gives_another_answer_to_the_same_question_is_told(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", QUESTION, QUESTION | {"id": "again"})
    worker = cluster.worker().ready()
    run = cluster.submit("--id", "news")
    cluster.reach(run, "paused")
    assert worker.drained() == 0
    cluster.on_engine(lambda engine: engine.answer(run, {"steps/1": "yes"}))
    cluster.on_engine(lambda engine: engine.answer(run, {"steps/1": "no"}))
    cluster.worker().ready()
    cluster.on_engine(lambda engine: engine.stored_answers(run, {"steps/1": "no"}))  # the last one counts
    with pytest.raises(SessionError, match="steps/1 of run news was answered already: 'no'"):
        cluster.on_engine(lambda engine: engine.stored_answers(run, {"steps/1": "yes"}))
    until(lambda: "steps/2/question" in str(cluster.rows(run)) or cluster.statuses()[run] == "paused")
    cluster.on_engine(lambda engine: engine.answer(run, {"steps/1": "late"}))
    assert cluster.row(run, "steps/1/answer")["text"] == "no"


# --- cancelling -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_running_run_is_cancelled_and_resumed(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", "{{ last_response }}!", wait=30)
    worker = cluster.worker().ready()
    run = cluster.submit()
    until(lambda: "steps/0/begun" in cluster.rows(run))
    outcome = cluster.strands("runs", "cancel", run)
    assert (outcome.exit_code, outcome.err) == (0, f"Run {run} is interrupted.\n")
    worker.says(f"{run}: cancelled")
    watched = cluster.strands("runs", "watch", run)
    assert watched.exit_code == 130
    cluster.flow("{{ who }}")  # answers at once; the run keeps its own workflow
    resumed = cluster.strands("resume", run)
    assert resumed.out == "it!\n"
    again = cluster.strands("runs", "cancel", run)
    assert again.exit_code == 17
    assert f"Run {run} is done." in again.err


@pytest.mark.long
def test_runs_that_wait_for_a_person_or_for_a_worker_are_cancelled_before_they_can_be_deleted(
    cluster: Cluster,
) -> None:
    cluster.flow("{{ who }}", QUESTION)
    cluster.worker("--concurrency", "1").ready()
    asking = cluster.submit()
    cluster.reach(asking, "paused")
    cluster.flow("{{ who }}", wait=30)
    busy = cluster.submit("--id", "busy")
    cluster.reach(busy, "running")
    waiting = cluster.submit("--id", "waiting")
    for run in (asking, busy, waiting):
        refused = cluster.strands("runs", "delete", run, "--yes")
        assert refused.exit_code == 17
        assert f"strands runs cancel {run}" in refused.err
    cleaned = cluster.strands("runs", "clean", "--all", "--older-than", "0", "--yes", "--json")
    assert cleaned.json == {"deleted": []}
    for run in (busy, waiting, asking):
        assert cluster.strands("runs", "cancel", run).err == f"Run {run} is interrupted.\n"
    assert cluster.strands("runs", "delete", asking, busy, waiting, "--yes").exit_code == 0
    assert cluster.statuses() == {}


@pytest.mark.long
def test_a_run_that_was_ended_on_the_engine_is_recognised(cluster: Cluster, temporal: Temporal) -> None:
    cluster.flow("{{ who }}")
    run = cluster.submit()
    command = [Temporal.program(), "workflow", "terminate", "--workflow-id", f"strands/{cluster.queue}/{run}"]
    subprocess.run([*command, "--address", temporal.address], check=True, capture_output=True)
    watched = cluster.strands("runs", "watch", run)
    assert watched.exit_code == 17
    assert f"Run {run} is terminated in Temporal, and no worker continues it." in watched.err
    assert cluster.strands("runs", "cancel", run).err == f"Run {run} is interrupted.\n"
    cluster.worker().ready()
    assert cluster.strands("resume", run).out == "it\n"


# --- workspaces -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_that_may_have_left_files_goes_on_where_they_are(cluster: Cluster) -> None:
    cluster.marking_flow(2, wait=3, read_only=False)
    near, far = cluster.worker("--workspace", "near").ready(), copied(cluster)
    runs = cluster.submit_all(1)
    until(cluster.marks)
    other = cluster.worker("--workspace", "far", root=far).ready()
    near.kill()
    other.says("r0: belongs to the workspace near")
    cluster.worker("--workspace", "near").ready()
    cluster.reach(*runs, "done")
    assert "r0: done" not in other.text


@pytest.mark.long
def test_a_run_without_a_worker_of_its_workspace_says_so(cluster: Cluster) -> None:
    cluster.settle(workspace_wait=1)
    cluster.marking_flow(2, wait=3, read_only=False)
    near = cluster.worker("--workspace", "near").ready()
    runs = cluster.submit_all(1)
    until(cluster.marks)
    near.kill()
    cluster.worker("--workspace", "far").ready()
    cluster.reach(*runs, "failed")
    shown = cluster.strands("runs", "watch", *runs)
    assert shown.exit_code == 10
    assert "No worker of the workspace 'near', which has the files of the run, has taken it." in shown.err
    assert "strands resume r0" in shown.err


@pytest.mark.long
def test_a_run_whose_tools_only_read_goes_on_anywhere(cluster: Cluster) -> None:
    cluster.marking_flow(2, wait=3)
    near, far = cluster.worker("--workspace", "near").ready(), copied(cluster)
    runs = cluster.submit_all(1)
    until(cluster.marks)
    cluster.worker("--workspace", "far", root=far).ready()
    near.kill()
    cluster.reach(*runs, "done")


@pytest.mark.long
def test_a_worker_does_no_more_runs_at_a_time_than_it_was_told(cluster: Cluster) -> None:
    cluster.marking_flow(3, wait=1, read_only=False)
    near = cluster.worker("--workspace", "near").ready()
    cluster.submit_all(1)
    until(cluster.marks)
    near.kill()
    far = cluster.worker("--workspace", "far", root=copied(cluster)).ready()
    far.says("r0: belongs to the workspace near")
    far.kill()
    cluster.submit("--id", "other", "--var", "who=other")
    again = cluster.worker("--workspace", "near", "--concurrency", "1").ready()
    for run in ("r0", "other"):
        cluster.reach(run, "done")
    again.says(": done", 2)
    begun_and_ended = [line.partition(":")[0] for line in again.text.splitlines()[1:]]
    assert begun_and_ended in (["r0", "r0", "other", "other"], ["other", "other", "r0", "r0"]), again.text


# --- schedules ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_schedule_starts_runs_with_the_file_as_the_worker_has_it(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    worker = cluster.worker().ready()
    added = cluster.strands("schedule", "add", "often", "flow.yaml", "--every", "1s", "--var", "who=you")
    assert added.exit_code == 0, added
    until(lambda: "done" in cluster.statuses().values(), lambda: worker.text)
    cluster.flow("{{ who }} again")
    until(
        lambda: any(
            cluster.answer(run) == "you again" for run, s in cluster.statuses().items() if s == "done"
        )
    )
    [listed] = cluster.strands("schedule", "list", "--json").json["schedules"]
    assert (listed["name"], listed["file"], listed["when"]) == ("often", "flow.yaml", "every 1s")
    assert listed["variables"] == {"who": "you"}
    assert "often  flow.yaml  every 1s" in cluster.strands("schedule", "list").out
    twice = cluster.strands("schedule", "add", "often", "flow.yaml", "--every", "1s")
    assert twice.exit_code == 17
    assert "strands schedule remove often" in twice.err
    assert cluster.strands("schedule", "list", "--queue", "another").err == "There are no schedules.\n"
    assert cluster.strands("schedule", "remove", "often").exit_code == 0
    gone = cluster.strands("schedule", "remove", "often")
    assert gone.exit_code == 17
    assert "There is no schedule 'often'." in gone.err
    run = next(iter(cluster.statuses()))
    assert run.startswith("often-")
    assert cluster.strands("runs", "show", run).exit_code == 0


@pytest.mark.long
def test_a_scheduled_run_that_cannot_begin_is_listed_with_the_reason(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    assert cluster.strands("schedule", "add", "often", "flow.yaml", "--every", "1s").exit_code == 0
    (cluster.project.root / "flow.yaml").unlink()
    cluster.worker().ready()
    run = until(lambda: next(iter(cluster.statuses()), None))
    assert cluster.strands("schedule", "remove", "often").exit_code == 0
    cluster.reach(run, "failed")
    assert "flow.yaml" in cluster.row(run, "status")["error"]
    assert cluster.strands("runs", "watch", run).exit_code == 3
    assert "ended before its first step" in cluster.strands("resume", run).err
    assert cluster.strands("runs", "show", run).exit_code == 0


NO_TIME = {
    (): "Say when it starts.",
    ("--every", "1h", "--cron", "0 9 * * *"): "Say when it starts.",
    ("--every", "soon"): "--every soon: this is not a time.",
    ("--every", "1h", "--time-zone", "Europe/Berlin"): "--time-zone needs --cron.",
    ("--cron", "every day"): "CronString does not have 5-7 fields",
    ("--cron", "0 9 * * *", "--time-zone", "Mars/Base"): "Mars/Base",
}


@pytest.mark.long
def test_a_schedule_without_a_sensible_time_is_refused(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    for arguments, reason in NO_TIME.items():
        outcome = cluster.strands("schedule", "add", "never", "flow.yaml", *arguments)
        assert outcome.exit_code == 2, outcome
        assert reason in outcome.err
    assert cluster.strands("schedule", "list").err == "There are no schedules.\n"


# --- what cannot work -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_without_a_store_or_a_server_every_command_says_what_is_missing(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    nowhere = f"127.0.0.1:{free_port()}"
    for command in (["worker"], ["submit", "flow.yaml"], ["schedule", "list"]):
        no_store = cluster.strands(*command, STRANDS_STORE="")
        assert no_store.exit_code == 2, no_store
        assert "STRANDS_STORE" in no_store.err
        no_server = cluster.strands(*command, TEMPORAL_ADDRESS=nowhere)
        assert no_server.exit_code == 17, no_server
        assert f"Temporal at {nowhere} cannot be reached" in no_server.err
        no_database = cluster.strands(*command, STRANDS_STORE=f"postgresql://strands:top-secret@{nowhere}/x")
        assert no_database.exit_code == (0 if command[0] == "schedule" else 17), no_database
        assert "top-secret" not in no_database.err
    assert cluster.strands("worker", TEMPORAL_NAMESPACE="nowhere").exit_code == 17


@pytest.mark.long
def test_doctor_says_whether_store_and_engine_answer(cluster: Cluster) -> None:
    cluster.settle(use="temporal")
    fine = {one["topic"]: one for one in cluster.strands("doctor", "--json").json["findings"]}
    assert (fine["store"]["state"], fine["temporal"]["state"]) == ("ok", "ok")
    broken = cluster.strands("doctor", TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}")
    assert broken.exit_code == 3
    assert "!!  temporal" in broken.out


@pytest.mark.long
def test_a_file_outside_the_project_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.flow("{{ who }}")
    outside = tmp_path / "outside.yaml"
    shutil.copy(cluster.project.root / "flow.yaml", outside)
    outcome = cluster.strands("submit", str(outside))
    assert outcome.exit_code == 2
    assert "is outside the project" in outcome.err


@pytest.mark.long
def test_a_worker_of_another_project_fails_the_run_and_says_why(cluster: Cluster, tmp_path: Path) -> None:
    cluster.marking_flow(1, wait=0)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "strands.toml").touch()
    shutil.copy(cluster.project.root / "answers.yaml", empty)
    cluster.worker(root=empty).ready()
    outcome = cluster.strands("submit", "flow.yaml", "--watch")
    assert outcome.exit_code in (3, 18), outcome
    assert "mark" in outcome.err


@pytest.mark.long
def test_a_run_that_its_worker_does_not_find_fails_and_says_why(cluster: Cluster) -> None:
    cluster.flow("{{ who }}")
    run = cluster.submit()
    rows = cluster.rows(run)
    cluster.delete(run)
    worker = cluster.worker().ready()
    worker.says(f"{run}: Run {run} is not in the store of this worker.")
    cluster.create(run, rows)
    watched = cluster.strands("runs", "watch", run)
    assert watched.exit_code == 17
    assert "is failed in Temporal" in watched.err


@pytest.mark.long
def test_who_stops_watching_is_told_that_the_run_goes_on(cluster: Cluster) -> None:
    cluster.flow("{{ who }}", wait=2)
    cluster.worker().ready()
    run = cluster.submit()
    watcher = Watcher(cluster, "runs", "watch", run)
    watcher.says("flow (chain)")
    watcher.interrupt()
    code, err = watcher.ended()
    assert code == 130
    assert f"Run {run} goes on. Watch it: strands runs watch {run}" in err
    cluster.reach(run, "done")


@pytest.mark.long
def test_watching_goes_on_while_the_server_is_down(cluster: Cluster, temporal: Temporal) -> None:
    cluster.flow("{{ who }}", wait=12)  # whoever watches asks the server when nothing has changed for a while
    cluster.worker().ready()
    run = cluster.submit()
    watcher = Watcher(cluster, "runs", "watch", run)
    watcher.says("step 1: started")
    temporal.stop()
    cluster.reach(run, "done")
    assert watcher.result() == "it\n"
