"""`strands resume`, as a user meets it: the real command, the scripted provider, a journal in the home."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strands_cli.cli.app import run_command_line
from strands_cli.cli.resume import chosen_answers
from strands_cli.errors import UsageError
from strands_cli.exec.history import Asked, question_names
from strands_cli.exec.stores import SqliteStore
from tests.projects import Outcome, Project

FLOW = """\
version: 0
name: news
runtime: {provider: scripted}
inputs: {optional: {topic: {type: string, default: owls}}}
agents:
  writer: {prompt: You write.}
pattern:
  type: chain
  config:
    steps:
      - {id: draft, agent: writer, input: "Write about {{ topic }}."}
      - {id: ok, human: {prompt: "Publish {{ last_response }}?"}}
      - {id: publish, agent: writer, input: "Publish it: {{ last_response }}"}
outputs: {artifacts: [{path: out.txt, from: "{{ last_response }}"}]}
"""
ANSWERS = """\
- {when: Write about, answers: ["A text."]}
- {when: Rewrite, answers: ["Another text."]}
- {when: "Publish it:", answers: ["Published, as you say: {{ prompt | replace('Publish it: ', '') }}"]}
"""


class News(Project):
    """Runs the command in this process: most of these tests are about what several of them leave."""

    capture: pytest.CaptureFixture[str]

    def strands(
        self, *arguments: str, input: str | None = None, cwd: Path | None = None, **env: str
    ) -> Outcome:
        if env or input:
            return super().strands(*arguments, input=input, cwd=cwd, **env)
        return self.here(self.capture, *arguments, cwd=cwd)


@pytest.fixture
def news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> News:
    return started_project(tmp_path / "news", capsys)


def started_project(root: Path, capture: pytest.CaptureFixture[str]) -> News:
    project = News(root)
    project.capture = capture
    project.write("flow.yaml", FLOW)
    project.write("answers.yaml", ANSWERS)
    return project


def paused_run(project: Project, *arguments: str) -> str:
    outcome = project.strands("run", "flow.yaml", "--json", *arguments)
    assert outcome.exit_code == 19, outcome
    return str(outcome.json["error"]["run_id"])


# --- Going on -----------------------------------------------------------------------------------------------


def test_a_paused_run_says_how_to_go_on_and_does_so_with_the_answer(news: News) -> None:
    paused = news.strands("run", "flow.yaml", "--var", "topic=tea", "--json")
    assert paused.exit_code == 19, paused
    error = paused.json["error"]
    run = error["run_id"]
    assert error["hint"].endswith(f"strands resume {run} --answer TEXT")
    assert [question["key"] for question in error["questions"]] == ["steps/1"]
    assert error["questions"][0]["text"] == "Publish A text.?"

    done = news.strands("resume", run[:5], "--answer", "yes=sure", "--json")
    assert done.exit_code == 0, done
    assert done.json["last_response"] == "Published, as you say: yes=sure"
    assert (done.json["run_id"], done.json["artifacts"]) == (run, ["out.txt"])
    assert "draft: started" not in done.err  # what is finished is not done again
    assert f"Resuming run {run} (news)." in done.err


def test_a_finished_run_shows_its_result_again_and_touches_no_file(news: News) -> None:
    run = paused_run(news)
    once = news.strands("resume", run, "--answer", "y", "--json")
    assert once.exit_code == 0, once
    news.write("out.txt", "edited since")
    documents = [json.loads(shown.out) for shown in (once, news.strands("resume", run, "--json"))]
    for document in documents:
        document["artifacts"] = [str(news.root / path) for path in document["artifacts"]]
    assert documents[0] == documents[1]
    again = news.strands("resume", run)
    assert (again.exit_code, again.out) == (0, "Published, as you say: y\n"), again
    assert f"Run {run} (news) is finished; this is its result." in again.err
    assert (news.root / "out.txt").read_text() == "edited since"
    assert news.strands("resume", run, "--answer", "n").exit_code == 2
    nothing = news.strands("resume")
    assert (nothing.exit_code, "no unfinished run in this project" in nothing.err) == (17, True), nothing


def test_the_latest_unfinished_run_of_this_project_goes_on_by_default(news: News, tmp_path: Path) -> None:
    run = paused_run(news, "--var", "topic=tea")
    completed = {"_STRANDS_COMPLETE": "bash_complete", "COMP_WORDS": "strands resume ", "COMP_CWORD": "2"}
    assert run in news.strands(**completed).out
    latest = paused_run(news, "--var", "topic=owls")
    (news.root / "below").mkdir()
    done = news.strands("resume", "--answer", "yes", cwd=news.root / "below")
    assert done.exit_code == 0, done
    assert f"Resuming run {latest} (news)." in done.err
    assert (news.root / "out.txt").exists()  # where the run began, not where it was resumed
    other = started_project(tmp_path / "other", news.capture)
    other.environment = news.environment
    elsewhere = other.strands("resume")
    assert (elsewhere.exit_code, f"(news, in {news.root})" in elsewhere.err) == (17, True), elsewhere
    unknown = news.strands("resume", "zzzz")
    assert (unknown.exit_code, "There is no run 'zzzz'." in unknown.err) == (17, True), unknown


def test_a_failed_step_is_tried_again_and_what_was_before_it_is_not(news: News) -> None:
    flow = FLOW.replace(
        '{id: ok, human: {prompt: "Publish {{ last_response }}?"}}',
        "{id: ok, agent: writer, input: Check it}",
    )
    news.write("flow.yaml", flow)
    news.write("answers.yaml", ANSWERS + "- {when: Check it, answers: [{error: refused, text: no credit}]}\n")
    failed = news.strands("run", "flow.yaml")
    assert failed.exit_code == 10, failed
    last = failed.err.strip().splitlines()[-1]
    run = last.rpartition(" ")[2]
    assert last.endswith(f"strands resume {run}")
    news.write("answers.yaml", ANSWERS + "- {when: Check it, answers: [Fine.]}\n")
    done = news.strands("run", "--resume", run)
    assert (done.exit_code, done.out) == (0, "Published, as you say: Fine.\n"), done
    assert "draft: started" not in done.err


def test_a_run_that_is_interrupted_goes_on(news: News) -> None:
    news.write("answers.yaml", ANSWERS.replace('["A text."]', '[{wait: 60, text: "A text."}]'))
    process = start(news, "run", "flow.yaml")
    wait_until_kept(news, process)
    other = news.strands("resume")
    assert (other.exit_code, f"in use by process {process.pid}" in other.err) == (17, True), other
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    run = err.strip().splitlines()[-1].rpartition(" ")[2]
    assert f"strands resume {run}" in err
    assert re.search(r"^draft: stopped, .+, not finished$", err, re.MULTILINE), err
    assert "failed" not in err
    news.write("answers.yaml", ANSWERS)
    assert news.strands("resume", run).exit_code == 19


@pytest.mark.long
def test_a_run_that_another_process_works_on_can_be_taken_over(news: News) -> None:
    news.write("answers.yaml", ANSWERS.replace('["A text."]', '[{wait: 60, text: "A text."}]'))
    process = start(news, "run", "flow.yaml")
    wait_until_kept(news, process)
    try:
        os.kill(process.pid, signal.SIGSTOP)
        news.write("answers.yaml", ANSWERS)
        taken = news.strands("resume", "--take-over")
        assert taken.exit_code == 19, taken
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_a_process_that_has_lost_its_run_does_not_say_how_to_resume_it(news: News) -> None:
    news.write("answers.yaml", ANSWERS.replace('["A text."]', '[{wait: 5, text: "A text."}]'))
    process = start(news, "run", "flow.yaml")
    wait_until_kept(news, process)
    process.send_signal(signal.SIGSTOP)
    news.write("answers.yaml", ANSWERS)
    taken = news.strands("resume", "--take-over")
    process.send_signal(signal.SIGCONT)
    assert taken.exit_code == 19, taken
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "was taken over by another process" in err) == (17, True), err
    assert "strands resume" not in err


def start(project: Project, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "strands_cli", *arguments],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_kept(project: Project, process: "subprocess.Popen[str]") -> None:
    """Until the first step is in the journal."""
    store = SqliteStore(Path(project.environment["XDG_DATA_HOME"]) / "strands-cli" / "runs.db")
    while not any("steps/0/user/1" in store.load(run) for run in store.runs()):
        assert process.poll() is None
        time.sleep(0.05)
    store.close()


def test_a_resumed_run_shows_with_debug_which_step_and_which_call_goes_on(news: News) -> None:
    news.tool("send", "def send():\n    return 'sent'", options="requires_consent=True")
    steps = "[{id: mail, tool: send}]"
    flow = f"version: 0\nname: mail\ntools: {{python: [send]}}\npattern: {{type: chain, config: {{steps: {steps}}}}}\n"
    news.write("flow.yaml", flow)
    done = news.strands("resume", paused_run(news), "--answer", "yes", "--debug", PYTHONUTF8="1")
    assert done.exit_code == 0, done
    assert "== mail (steps/0), continued\ncall send\n  | {}\nresult of send" in done.err


# --- What has changed -----------------------------------------------------------------------------------------


def test_a_changed_file_is_told_and_used_only_if_that_is_accepted(news: News) -> None:
    run = paused_run(news)
    news.write("flow.yaml", FLOW.replace("Write about {{ topic }}.", "Rewrite {{ topic }}."))
    told = news.strands("resume", run)
    assert told.exit_code == 19, told
    assert (
        "The workflow has changed since the run began: flow.yaml:11 pattern.config.steps.0.input." in told.err
    )
    assert "draft: started" not in told.err
    accepted = news.strands("resume", run, "--accept-changes", "--json")
    assert accepted.json["error"]["questions"][0]["text"] == "Publish Another text.?", accepted
    assert "draft: done" in accepted.err
    (news.root / "flow.yaml").unlink()
    gone = news.strands("resume", run, "--accept-changes")
    assert gone.exit_code == 17, gone
    assert "flow.yaml was not found, so there is no change to accept." in gone.err
    done = news.strands("resume", run, "--answer", "ok=yes")
    assert (done.exit_code, "changed" in done.err) == (0, False), done


def test_auto_resume_goes_on_with_the_same_file_and_inputs_alone(news: News) -> None:
    run = paused_run(news, "--var", "topic=tea")
    other = paused_run(news, "--var", "topic=cats", "--auto-resume")
    assert other != run
    again = news.strands("run", "flow.yaml", "--var", "topic=tea", "--auto-resume", "--answer", "yes")
    assert again.exit_code == 0, again
    assert f"Resuming run {run} (news)." in again.err
    unasked = news.strands("run", "flow.yaml", "--var", "topic=tea", "--auto-resume", "--answer", "no")
    assert unasked.exit_code == 2, unasked
    assert "There is no unfinished run of flow.yaml with these inputs" in unasked.err
    assert paused_run(news, "--var", "topic=tea", "--auto-resume", "--force") not in (run, other)


# --- Without a journal ----------------------------------------------------------------------------------------


def test_a_run_without_a_journal_cannot_be_resumed_and_needs_no_home(news: News, tmp_path: Path) -> None:
    home = tmp_path / "read-only"
    home.write_text("not a directory", "utf-8")
    refused = news.strands("run", "flow.yaml", XDG_DATA_HOME=str(home))
    assert (refused.exit_code, "--no-save-session" in refused.err) == (17, True), refused
    assert "draft: started" not in refused.err
    unsaved = news.strands("run", "flow.yaml", "--no-save-session", "--json", XDG_DATA_HOME=str(home))
    assert unsaved.exit_code == 2, unsaved
    assert "flow.yaml:12:26  /pattern/config/steps/1/human/prompt" in unsaved.json["error"]["message"]
    news.write("flow.yaml", FLOW.replace('?"}}', '?", default: "yes"}}'))
    assert news.strands("run", "flow.yaml", "--no-save-session", XDG_DATA_HOME=str(home)).exit_code == 0
    assert news.strands("resume").exit_code == 17


def test_an_unknown_run_cannot_be_resumed_shown_or_deleted(news: News) -> None:
    for command in (
        ("run", "--resume", "nowhere0"),
        ("resume", "nowhere0"),
        ("sessions", "show", "nowhere0"),
        ("sessions", "delete", "nowhere0", "-f"),
    ):
        outcome = news.strands(*command)
        assert (outcome.exit_code, "nowhere0" in outcome.err) == (17, True), outcome


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("flow.yaml", "-r", "abc"), "FILE cannot be combined with --resume."),
        (("flow.yaml", "--hitl-response", "x"), "--hitl-response needs --resume ID or --auto-resume."),
        (("flow.yaml", "--resume", "abc"), "FILE cannot be combined with --resume."),
        (("--resume", "abc", "--var", "a=b"), "--var cannot be combined with --resume."),
        (("--resume", "abc", "--auto-resume"), "--auto-resume cannot be combined with --resume."),
        (("flow.yaml", "--answer", "x"), "--answer needs --resume ID or --auto-resume."),
        (("flow.yaml", "--take-over"), "--take-over needs --resume ID or --auto-resume."),
        ((), "The FILE of the workflow is missing."),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert run_command_line(["run", *arguments]) == 2
    assert reason in capsys.readouterr().err


# --- Answers ----------------------------------------------------------------------------------------------------

ONE = [Asked(key="steps/1", title="ok", question="Publish?")]
TWO = [*ONE, Asked(key="steps/2/consent/1", title="send", kind="consent", question="Allow it?")]
BRANCHES = [
    Asked(key="branches/0/steps/1", title="news: approve", question="Good?"),
    Asked(key="branches/0/steps/2", title="news: check, time 2", question="Right?"),
    Asked(key="branches/1/steps/1", title="sports: approve", question="Good?"),
]


@pytest.mark.parametrize(
    ("given", "waiting", "answers"),
    [
        (["yes"], ONE, {"steps/1": "yes"}),
        (["a=b"], ONE, {"steps/1": "a=b"}),
        (["ok=a=b"], ONE, {"steps/1": "a=b"}),
        (["send=Y", "steps/1=later"], TWO, {"steps/2/consent/1": "yes", "steps/1": "later"}),
        (["check=no"], BRANCHES, {"branches/0/steps/2": "no"}),
        (["sports: approve=no"], BRANCHES, {"branches/1/steps/1": "no"}),
        (["approve=no"], BRANCHES[2:], {"branches/1/steps/1": "no"}),
    ],
)
def test_an_answer_names_its_question_where_several_wait(
    given: list[str], waiting: list[Asked], answers: dict[str, str]
) -> None:
    assert chosen_answers(given, waiting) == answers


def test_a_question_is_called_by_the_id_of_its_step_or_by_its_key() -> None:
    assert question_names(BRANCHES) == {
        "branches/0/steps/1": "branches/0/steps/1",
        "branches/0/steps/2": "check",
        "branches/1/steps/1": "branches/1/steps/1",
    }
    assert question_names([Asked(key="steps/1", title="step 2")]) == {"steps/1": "steps/1"}


@pytest.mark.parametrize(
    ("given", "waiting", "reason"),
    [
        (["yes"], TWO, "send (Allow it?)"),
        (["nobody=yes"], TWO, "ok (Publish?)"),
        (["send=perhaps"], TWO, "Answer yes or no."),
        (["ok=a", "steps/1=b"], TWO, "Keep only one of them."),
        (["approve=no"], BRANCHES, "branches/0/steps/1 (Good?)"),
        (["aprove=yes"], BRANCHES[:1], "Did you mean 'approve'?"),
        (["yes"], [], "Leave out --answer."),
        (["red"], [Asked(key="q", question="?", choices=["blue", "green"])], "Answer one of blue, green."),
    ],
)
def test_an_answer_to_no_question_is_refused_with_the_questions(
    given: list[str], waiting: list[Asked], reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        chosen_answers(given, waiting)
    assert reason in caught.value.hint


# --- Another machine --------------------------------------------------------------------------------------------


def test_a_paused_run_goes_on_in_another_clone_and_another_home(news: News, tmp_path: Path) -> None:
    run = paused_run(news, "--out", "results")
    exported = news.strands("runs", "export", run)
    file = news.root / f"run-{run}.jsonl"
    assert (exported.exit_code, file.stat().st_mode & 0o777) == (0, 0o600), exported
    again = news.strands("runs", "export", run)
    assert (again.exit_code, "already exists" in again.err) == (12, True), again
    assert news.strands("runs", "export", run, "-").out.splitlines()[1:] == file.read_text().splitlines()[1:]

    clone = started_project(tmp_path / "elsewhere" / "clone", news.capture)
    clone.environment["XDG_DATA_HOME"] = str(tmp_path / "elsewhere" / "data")
    (clone.root / "flow.yaml").unlink()  # the run has its own
    taken = clone.strands("runs", "import", str(file))
    assert (taken.exit_code, f"strands resume {run}" in taken.err) == (0, True), taken
    twice = clone.strands("runs", "import", str(file))
    assert (twice.exit_code, "--new-id" in twice.err) == (17, True), twice
    copy = clone.strands("runs", "import", str(file), "--new-id", "--json").json
    assert (copy["status"], copy["run_id"] != run, copy["left_behind"]) == ("paused", True, [])
    assert clone.strands("runs", "import", str(file), "--force").exit_code == 0
    done = clone.strands("resume", run, "--answer", "yes")
    assert (done.exit_code, done.out) == (0, "Published, as you say: yes\n"), done
    assert (clone.root / "results" / "out.txt").read_text() == "Published, as you say: yes"
    assert not (news.root / "results").exists()
    missing = clone.strands("runs", "import", "no.jsonl")
    assert (missing.exit_code, "error: no.jsonl was not found.\n" in missing.err) == (17, True), missing
    broken = clone.strands("runs", "import", "answers.yaml")
    assert (broken.exit_code, "is not an exported run" in broken.err) == (17, True), broken


@pytest.mark.long
def test_an_imported_run_asks_for_trust_as_any_file_does(news: News, tmp_path: Path) -> None:
    news.write("flow.yaml", FLOW + "security: {workspace: [/etc]}\n")
    run = paused_run(news, "--trust")
    news.strands("runs", "export", run, "run.jsonl")
    clone = Project(tmp_path / "elsewhere" / "clone")
    clone.environment["XDG_DATA_HOME"] = str(tmp_path / "elsewhere" / "data")
    clone.write("answers.yaml", ANSWERS)
    assert clone.strands("runs", "import", str(news.root / "run.jsonl")).exit_code == 0
    refused = clone.strands("resume", run, "--answer", "yes")
    assert (refused.exit_code, f"strands resume {run} --trust" in refused.err) == (21, True), refused
    assert clone.strands("resume", run, "--answer", "yes", "--trust").exit_code == 0


def test_consent_of_another_person_does_not_count(news: News) -> None:
    body = "def send():\n    with open('sent.txt', 'a') as file:\n        return file.write('x')"
    news.tool("send", body, options="requires_consent=True")
    flow = FLOW.replace("agents:", "tools: {python: [send]}\nagents:")
    news.write("flow.yaml", flow)
    news.write("answers.yaml", "- {when: Write about, answers: [{call: send}, 'Sent.']}\n" + ANSWERS)
    run = paused_run(news)
    asked = news.strands("resume", run, "--answer", "perhaps")
    assert (asked.exit_code, "neither yes nor no" in asked.err) == (2, True), asked
    lines = news.strands("runs", "export", run, "-").out.splitlines(keepends=True)
    granted = '{"key":"steps/0/consent/1/answer","value":{"at":1,"text":"yes","by":"person"}}\n'
    forged = news.write("forged.jsonl", "".join(lines) + granted)
    forged.write_text(forged.read_text().replace(f'"rows":{len(lines) - 1}', f'"rows":{len(lines)}'))
    taken = news.strands("runs", "import", "forged.jsonl", "--new-id")
    assert "Not imported: consent to calls that were not made yet." in taken.err, taken
    again = news.strands("resume", taken.err.split()[-1])
    assert (again.exit_code, (news.root / "sent.txt").exists()) == (19, False), again
    assert news.strands("resume", run, "--answer", "yes").exit_code == 19  # at the next question
    assert (news.root / "sent.txt").read_text() == "x"
