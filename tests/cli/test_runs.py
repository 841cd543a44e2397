"""`strands runs`: what the journal has, listed, drawn, printed, written as a page, and deleted."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.cli.run_page import page_text
from strands_cli.cli.timeline import timeline_lines
from strands_cli.cli.transcript import LiveTranscript, transcript_lines
from strands_cli.errors import SessionError
from strands_cli.exec.history import list_runs, read_run
from strands_cli.exec.journal import encode_row
from strands_cli.exec.ownership import this_process
from tests.attacks.test_terminal import harmless
from tests.cli.recorded_runs import BEGAN, RecordedRun, record, store_of, three_branches
from tests.cli.test_commands import shown_on_terminal
from tests.projects import Project

FIELDS = (
    "text",
    "toolUse",
    "toolResult",
    "content",
    "name",
    "input",
    "image",
    "source",
    "bytes",
    "json",
    "x",
)
KEYS = [
    *("head", "status", "spec", "artifacts", "notices/1", "a/begun", "a/result", "a/failed", "a/user/1"),
    *("a/model/1", "a/tool/1/0", "a/compaction/1", "a/summary/1", "a/retry/1", "a/question", "a/answer"),
    *(
        "a/ask/1/question",
        "a/consent/1/answer",
        "a/tried/1/begun",
        "a/tried/1/model/1",
        "b/tried/1/question",
        "a/b#2/begun",
        "a/b/model/1",
        "0/9/result",
        "/x",
        "",
        "a",
    ),
]
HOSTILE = "<script>alert(1)</script></style></pre></details>\x1b[31m\x00\u202eback \ud800 שלום"


def paused(id: str = "pau5ed00") -> RecordedRun:
    run = RecordedRun(id, "approve", began=BEGAN + 100).step("steps/0", 0, 4, "A draft.", title="draft")
    run.rows["steps/1/begun"] = {"at": BEGAN + 104, "kind": "human", "title": "approve"}
    run.question("steps/1", 4, "Publish this?", title="approve")
    return run.ended("paused", 4.5, error="The run has a question: Publish this?")


def failed(id: str = "fa1led00") -> RecordedRun:
    run = RecordedRun(id, "broken", began=BEGAN + 200).step("steps/0", 0, 2, title="one")
    run.step("steps/1", 2, None, title="two")
    run.rows["steps/1/retry/1"] = {"at": run.began + 3, "attempt": 1, "wait_seconds": 2.0, "reason": "503"}
    run.rows["steps/1/failed"] = {"at": run.began + 6, "error": "It cannot be reached.", "code": "provider"}
    return run.ended("failed", 6, error="two: It cannot be reached.", code="provider")


def hostile(id: str = "h0st1le0") -> RecordedRun:
    run = RecordedRun(id, "odd", variables={HOSTILE: HOSTILE}, began=BEGAN + 300)
    run.step("steps/0", 0, 3, HOSTILE, title=HOSTILE, agent=HOSTILE, prompt=HOSTILE, tools=[HOSTILE])
    image = {"image": {"format": '"><script>', "source": {"bytes": b"x"}}}
    use = {"toolUse": {"toolUseId": "t", "name": HOSTILE, "input": {HOSTILE: HOSTILE}}}
    run.model("steps/0", 2, 3, 1, use, image, {"reasoningContent": {"reasoningText": {"text": HOSTILE}}})
    run.call("steps/0", "1/0", 4, 1, HOSTILE, {"json": {"a": [HOSTILE]}}, code=HOSTILE)
    run.question("steps/0/consent/2", 5, HOSTILE, kind="consent", title=HOSTILE)
    run.rows["notices/1"] = {"at": BEGAN, "text": HOSTILE, "step": ""}
    run.rows["spec"] = {"files": {HOSTILE: HOSTILE}}
    run.rows["artifacts"] = {HOSTILE: "abc"}
    return run.ended("failed", 6, error=HOSTILE)


# --- list ---------------------------------------------------------------------------------------------------


def test_a_list_shows_the_newest_first_and_what_became_of_each(project: Project) -> None:
    record(project, three_branches(), paused(), failed())
    lines = project.strands("runs", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["fa1led00", "pau5ed00", "k3f9a2x1"]
    assert re.match(
        r"k3f9a2x1  research  done +4 steps  1,200 tokens  11\.0 s  2026-09-\d\d \d\d:\d\d$", lines[2]
    )
    assert lines[1].endswith("The run has a question: Publish this?")
    assert lines[0].endswith("two: It cannot be reached.")


def test_a_list_can_be_narrowed_and_read_by_programs(project: Project) -> None:
    record(project, three_branches(), paused(), failed())
    assert [run["id"] for run in project.strands("sessions", "list", "--json", "-n", "2").json["runs"]] == [
        "fa1led00",
        "pau5ed00",
    ]
    [run] = project.strands("runs", "list", "--status", "done", "--json").json["runs"]
    assert run["usage"]["input_tokens"] == 1000
    assert project.strands("sessions", "list", "--status", "completed", "--json").json["runs"] == [run]
    assert project.strands("sessions", "list", "--status", "lost").exit_code == 2
    assert "/p/flow.yaml" not in project.strands("runs", "list").out
    assert project.strands("runs", "list", "-v").out.count("/p/flow.yaml") == 3
    shorter = project.strands("runs", "list", "-n", "1")
    assert "2 older runs are not shown; -n 0 lists all." in shorter.err


def test_the_runs_of_other_projects_are_listed_when_they_are_asked_for(project: Project) -> None:
    other = RecordedRun("0ther000", began=BEGAN + 1, project="/elsewhere").step("steps/0", 0, 1)
    record(project, other.ended("done", 1))
    empty = project.strands("runs", "list")
    assert empty.out == ""
    assert empty.err == (
        "There are no runs yet.\n'strands runs list --all' lists the runs of other projects.\n"
    )
    refused = project.strands("runs", "show")
    assert refused.exit_code == SessionError.exit_code
    assert "--all" in refused.err
    own = RecordedRun("0wn00000", project=str(project.root)).step("steps/0", 0, 1).ended("done", 1)
    record(project, own)
    inner = project.root / "inner"
    inner.mkdir()
    assert [line.split()[0] for line in project.strands("runs", "list", cwd=inner).out.splitlines()] == [
        "0wn00000"
    ]
    assert "0wn00000" in project.strands("runs", "show").out
    everywhere = project.strands("runs", "list", "--all").out.splitlines()
    assert [line.split()[0] for line in everywhere] == ["0ther000", "0wn00000"]
    assert everywhere[0].endswith("/elsewhere")
    listed = project.strands("runs", "list", "--all", "--json").json["runs"]
    assert [run["project"] for run in listed] == ["/elsewhere", str(project.root)]


def test_a_list_without_runs_is_empty(project: Project) -> None:
    outcome = project.strands("runs", "list")
    assert (outcome.exit_code, outcome.out, outcome.err) == (0, "", "There are no runs yet.\n")
    assert project.strands("runs", "list", "--json").json == {"runs": []}
    assert project.strands("runs", "show").exit_code == SessionError.exit_code


def test_a_run_whose_process_is_gone_is_not_shown_as_running(project: Project) -> None:
    here = this_process()
    gone = {"host": here.host, "pid": 2**22 + 1, "started": "x"}
    alive = {"host": here.host, "pid": here.pid, "started": here.started}
    record(
        project,
        RecordedRun("dead0000").step("steps/0", 0, None).ended("running", 1, owner=gone),
        RecordedRun("a1ive000").step("steps/0", 0, None).ended("running", 1, owner=alive),
        RecordedRun("e1sewher").step("steps/0", 0, None).ended("running", 1, owner={**gone, "host": "other"}),
    )
    found = project.strands("runs", "list", "--json").json["runs"]
    assert {run["id"]: run["status"] for run in found} == {
        "dead0000": "interrupted",
        "a1ive000": "running",
        "e1sewher": "running",
    }
    assert "interrupted" in project.strands("runs", "show", "dead").out


def test_a_run_whose_rows_are_damaged_hides_no_other(project: Project) -> None:
    broken = RecordedRun("broken00")
    broken.rows["status"] = {"status": "done", "usage": "none"}
    record(project, broken, three_branches())
    listed = project.strands("runs", "list")
    assert "broken00" in listed.out
    assert "damaged" in listed.out
    assert "k3f9a2x1" in listed.out
    shown = project.strands("runs", "show", "broken00")
    assert shown.exit_code == SessionError.exit_code
    assert "The row 'status' of the run is damaged" in shown.err


# --- show ---------------------------------------------------------------------------------------------------


def test_a_timeline_shows_steps_that_ran_at_once_below_each_other(project: Project) -> None:
    record(project, three_branches())
    shown = project.strands("runs", "show", "k3").out
    assert shown.startswith("research k3f9a2x1  done\n")
    assert "  topic = tea\n" in shown
    bars = {}
    for line in shown.splitlines():
        if found := re.match(r"✓ (\w+) +writer  (.{60,}?)  (\d.*)", line):
            bars[found[1]] = (found[2], found[3])
    assert [*bars] == ["history", "trade", "health", "reduce"]
    starts = {name: bar.index("█") for name, (bar, _) in bars.items()}
    ends = {name: bar.rindex("█") for name, (bar, _) in bars.items()}
    assert max(starts["history"], starts["trade"], starts["health"]) <= 2
    assert ends["trade"] < ends["history"] < ends["health"] <= starts["reduce"]
    assert "█▒" in bars["history"][0]
    assert bars["trade"][1] == "4.5 s, 120 tokens, 1 call, 1 failed"
    assert "█ model   ▒ tool" in shown


def test_a_run_that_waits_is_shown_with_the_command_that_answers(project: Project) -> None:
    two = paused("tw0waits").question("steps/0/consent/1", 2, "Call echo?", kind="consent", title="draft")
    del two.rows["steps/0/result"]
    record(project, paused(), two)
    shown = project.strands("runs", "show", "pau").out
    assert "? approve  human" in shown
    assert "? approve (human)\n  | Publish this?\n  strands resume pau5ed00 --answer TEXT\n" in shown
    both = project.strands("runs", "show", "tw0").out
    assert "  strands resume tw0waits --answer approve=TEXT\n" in both
    assert "  strands resume tw0waits --answer draft=yes\n" in both


def test_a_run_that_failed_is_shown_with_its_error_and_how_to_go_on(project: Project) -> None:
    record(project, failed())
    shown = project.strands("runs", "show").out
    assert re.search(r"✗ two +writer .*4\.0 s, 1 retried\n    It cannot be reached\.\n", shown)
    assert shown.endswith("\n  strands resume fa1led00\n")


def test_the_time_for_which_a_run_was_paused_is_cut_out_of_the_axis(project: Project) -> None:
    late = paused("res0med1").answer("steps/1", 7204, "yes").result("steps/1", 7204, 0.0, "yes")
    record(project, late.step("steps/2", 7204, 4, title="publish").ended("done", 8))
    shown = project.strands("runs", "show", "res").out
    assert "~ nothing was done for 2 h 00 m" in shown
    assert re.search("publish  writer .*█{20,}", shown)


def test_of_many_steps_those_that_are_not_done_are_shown(project: Project) -> None:
    run = RecordedRun("many0000")
    for number in range(300):
        run.step(f"tasks/t{number}", number, 1 if number != 7 else None, title=f"task {number}")
    record(project, run.ended("interrupted", 300))
    shown = project.strands("runs", "show", "many", "-n", "5").out
    assert [line.split()[2] for line in shown.splitlines() if " task " in line] == [
        "7",
        "296",
        "297",
        "298",
        "299",
    ]
    assert "… and 295 more steps; -n 0 shows all." in shown
    assert project.strands("runs", "show", "many", "-n", "0").out.count(" task ") == 300


def test_steps_come_in_the_order_of_the_file_and_below_the_steps_that_they_are_part_of() -> None:
    run = RecordedRun("order000")
    run.step("branches/1/steps/0", 0, 1).step("branches/0/steps/0", 1, 1).step("branches/0/steps/10", 3, 1)
    run.step("branches/0/steps/9", 2, 1).step("reduce", 9, 1)
    run.step("steps/0", 10, 9, kind="workflow").step("steps/0/workflow/steps/0", 11, 1, turn=0)
    run.step("steps/1", 20, 1).step("steps/0/workflow/steps/1", 12, 1)
    rows = {key: encode_row(value) for key, value in run.rows.items()}
    steps = read_run(run.id, rows, BEGAN).steps
    assert [(step.key, step.depth) for step in steps] == [
        ("branches/0/steps/0", 0),
        ("branches/0/steps/9", 0),
        ("branches/0/steps/10", 0),
        ("branches/1/steps/0", 0),
        ("reduce", 0),
        ("steps/0", 0),
        ("steps/0/workflow/steps/0", 1),
        ("steps/0/workflow/steps/1", 1),
        ("steps/1", 0),
    ]


def test_rounds_of_a_pattern_come_one_after_the_other() -> None:
    run = RecordedRun("rounds00")
    for turn in (1, 2):
        run.step(f"producer#{turn}", turn * 2, 1, turn=turn).step(
            f"evaluator#{turn}", turn * 2 + 1, 1, turn=turn
        )
    rows = {key: encode_row(value) for key, value in run.rows.items()}
    keys = [step.key for step in read_run(run.id, rows, BEGAN).steps]
    assert keys == ["producer#1", "evaluator#1", "producer#2", "evaluator#2"]


def test_json_has_all_of_a_run(project: Project) -> None:
    record(project, three_branches(), failed())
    run = project.strands("runs", "show", "k3f9", "--json").json
    assert run["head"]["variables"] == {"topic": "tea"}
    step = run["steps"][0]
    assert (step["title"], step["status"], step["seconds"]) == ("history", "done", 6.0)
    assert [entry["what"] for entry in step["entries"]] == ["sent", "answered", "called", "answered"]
    assert step["entries"][2]["result"]["content"] == [{"text": "Tea came from China."}]
    two = project.strands("runs", "show", "fa1", "--json").json["steps"][1]
    assert (two["status"], two["error"], two["code"]) == ("failed", "It cannot be reached.", "provider")


def test_the_ways_to_show_a_run_exclude_each_other(project: Project) -> None:
    assert project.strands("runs", "show", "x", "--json", "--transcript").json["error"]["code"] == "usage"


def test_a_run_is_found_by_its_first_characters(project: Project) -> None:
    record(project, RecordedRun("abc00000").ended("done", 1), RecordedRun("abd00000").ended("done", 1))
    assert project.strands("runs", "show", "abc").exit_code == 0
    both = project.strands("runs", "show", "ab")
    assert both.exit_code == SessionError.exit_code
    assert "2 runs begin with 'ab'" in both.err
    assert "There is no run 'zz'" in project.strands("runs", "show", "zz").err


# --- the transcript -----------------------------------------------------------------------------------------


def test_a_transcript_has_every_message_and_call_step_by_step(project: Project) -> None:
    record(project, three_branches())
    shown = project.strands("runs", "show", "k3", "--transcript").out
    first = shown[shown.index("== 1 of 4: history (branches/0/steps/0)") : shown.index("== 2 of 4: trade")]
    assert re.sub(r"began \d\d:\d\d:\d\d", "began then", first) == (
        "== 1 of 4: history (branches/0/steps/0)\n"
        "   writer, ollama:m, began then, done after 6.0 s, 120 tokens\n"
        "   tools: search\n"
        "system prompt\n  | Write.\n"
        "to the model\n  | Do branches/0/steps/0.\n"
        "from the model, 3.0 s, 120 tokens\n  | I search.\n"
        'call search\n  | {"query": "tea"}\n'
        "result of search, 1.0 s\n  | Tea came from China.\n"
        "from the model, 2.0 s, 120 tokens\n  | Tea is from China.\n"
        "\n"
    )
    assert "result of search, 1.5 s, failed: not_found\n  | No such index\n" in shown


def test_a_transcript_has_questions_answers_retries_and_failures(project: Project) -> None:
    answered = paused("answered").answer("steps/1", 9, "yes").ended("failed", 9)
    answered.rows["steps/1/failed"] = {"at": BEGAN + 109, "error": "No room.", "code": "run"}
    record(project, answered, failed())
    shown = project.strands("runs", "show", "answered", "--transcript").out
    assert (
        "question to a person (human)\n  | Publish this?\nanswer, given to strands resume\n  | yes\n"
        "failed: No room.\n"
    ) in shown
    assert (
        "the request failed, again after 2.0 s: 503\n"
        in project.strands("runs", "show", "fa1", "--transcript").out
    )


def test_a_transcript_as_it_happens_names_the_step_that_speaks() -> None:
    written: list[str] = []
    live = LiveTranscript(written.extend)
    for key, value in three_branches().rows.items():
        live.row(key, value)
    text = "\n".join(written)
    assert text.startswith(
        "== history (branches/0/steps/0)\n   writer, ollama:m\n   tools: search\nsystem prompt\n"
    )
    assert (
        "== trade (branches/1/steps/0), continued\nfrom the model, 2.0 s, 120 tokens\n  | Let me look.\n"
        in text
    )
    assert text.count("  | Tea is from China.") == 1
    assert text.index("Trade is old.") < text.index("Tea is from China.")


def test_a_transcript_as_it_happens_names_no_step_that_has_nothing_to_say() -> None:
    written: list[str] = []
    live = LiveTranscript(written.extend)
    for key, value in (
        RecordedRun("r").step("a", 0, 1).step("b", 1, None).result("a", 0, 1, "Done.").rows.items()
    ):
        live.row(key, value)
    live.row("a/result", {"at": 3.0, "response": "Done."})
    assert [line for line in written if line.startswith("== ")] == ["== a", "== b"]


def test_a_question_and_its_answer_are_written_once_each_as_they_happen() -> None:
    written: list[str] = []
    live = LiveTranscript(written.extend)
    for key, value in paused().answer("steps/1", 9, "yes", by="person").rows.items():
        live.row(key, value)
    assert written[-4:] == [
        "question to a person (human)",
        "  | Publish this?",
        "answer, typed at the terminal",
        "  | yes",
    ]


# --- the page -----------------------------------------------------------------------------------------------


class PageTags(HTMLParser):
    """The tags and attributes of a page, and whether its elements are closed in order."""

    VOID = ("meta", "img", "br", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing_but_itself(project: Project) -> None:
    record(project, three_branches())
    outcome = project.strands("runs", "show", "k3", "--html", "run.html")
    assert (outcome.exit_code, outcome.out, outcome.err) == (0, "", "Wrote run.html\n")
    page = (project.root / "run.html").read_text("utf-8")
    tags = PageTags(page)
    assert tags.open == []
    assert not tags.tags & {"script", "link", "iframe", "object", "embed", "form", "base"}
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not {name for name, _ in tags.attributes} & {"href", "srcset", "style", "onclick"}
    assert page.count("<rect ") == 12
    for text in ("Tea is from China.", "I search.", "No such index", "system prompt", "1,200 tokens"):
        assert text in page


def test_a_page_says_how_to_continue_a_run(project: Project) -> None:
    record(project, failed())
    assert project.strands("runs", "show", "--html", "run.html").exit_code == 0
    page = (project.root / "run.html").read_text("utf-8")
    assert "<p>Continue: <code>strands resume fa1led00</code></p>" in page


def test_what_models_and_tools_wrote_is_data_everywhere(project: Project) -> None:
    record(project, hostile())
    assert project.strands("runs", "show", "h0", "--html", "run.html").exit_code == 0
    page = (project.root / "run.html").read_text("utf-8")
    tags = PageTags(page)
    assert tags.open == []
    assert "script" not in tags.tags
    assert not {name for name, _ in tags.attributes if name.startswith("on")}
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e]", page)
    for arguments in (["list"], ["show", "h0"], ["show", "h0", "--transcript"], ["show", "h0", "--json"]):
        outcome = project.strands("runs", *arguments)
        assert outcome.exit_code == 0, outcome
        assert harmless(outcome.out), repr(outcome.out)
    document = project.strands("runs", "show", "h0", "--json").json
    assert document["steps"][0]["prompt"] == HOSTILE


def test_a_password_in_an_address_is_not_shown(project: Project) -> None:
    run = RecordedRun("addre55e").step(
        "steps/0", 0, 1, "I read https://me:hunter2@host/?api_key=hunter2 now."
    )
    record(project, run.ended("done", 1))
    project.strands("runs", "show", "--html", "run.html")
    for text in (
        project.strands("runs", "show", "--transcript").out,
        (project.root / "run.html").read_text("utf-8"),
    ):
        assert "I read https://host/?api_key=" in text
        assert "hunter2" not in text


def test_a_page_that_cannot_be_written_is_an_error_with_its_reason(project: Project) -> None:
    record(project, three_branches())
    outcome = project.strands("runs", "show", "k3", "--html", "none/run.html")
    assert outcome.exit_code == 2
    assert "none/run.html cannot be written: No such file or directory" in outcome.err


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_a_page_without_complaints(project: Project, width: int) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail("chromium is missing")
        pytest.skip("needs chromium")
    record(project, hostile())
    project.strands("runs", "show", "h0", "--html", "run.html")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    options += [f"--user-data-dir={project.root / 'browser'}", f"--window-size={width},900"]
    outcome = subprocess.run(
        [browser, *options, (project.root / "run.html").as_uri()],
        capture_output=True, encoding="utf-8", timeout=50, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert "CONSOLE" not in outcome.stderr, outcome.stderr  # the policy refused nothing
    assert "<script" not in outcome.stdout
    assert outcome.stdout.count("<details") == (project.root / "run.html").read_text("utf-8").count(
        "<details"
    )


# --- real runs ----------------------------------------------------------------------------------------------

FLOW = """
version: 0
name: approve
runtime: {provider: scripted, model_id: answers.yaml}
agents: {writer: {prompt: You write.}}
tools: {python: [echo]}
pattern:
  type: chain
  config:
    steps:
      - {id: draft, agent: writer, input: Write.}
      - {id: ask, human: {prompt: "Publish {{ last_response }}?"}}
      - {id: publish, agent: writer, input: Publish.}
"""
ANSWERS = """
- {when: Write., answers: [{call: echo, with: {message: hi}}, A draft.]}
- {when: Publish., answers: [{wait: 0.1, text: Published.}]}
"""


def test_a_real_run_is_shown_and_goes_on_with_the_command_that_is_shown(project: Project) -> None:
    project.write("flow.yaml", FLOW)
    project.write("answers.yaml", ANSWERS)
    assert project.strands("run", "flow.yaml").exit_code == 19
    shown = project.strands("runs", "show").out
    assert re.search(r"✓ draft +writer .*▒.*20 tokens, 1 call\n", shown)
    assert re.search(r"\? ask +human .*waiting\n", shown)
    [command] = re.findall(r"  strands (resume \w+ --answer) TEXT\n", shown)
    assert project.strands(*command.split(), "yes").exit_code == 0
    [run] = project.strands("runs", "list", "--json").json["runs"]
    assert (run["status"], run["steps"], run["error"]) == ("done", 3, "")
    transcript = project.strands("runs", "show", "--transcript").out
    for said in (
        'call echo\n  | {"message": "hi"}\nresult of echo',
        "  | Publish A draft.?\nanswer, given to strands resume\n  | yes\n",
        "continues the conversation of steps/0",
        "  | Published.",
    ):
        assert said in transcript
    assert project.strands("runs", "show", "--html", "run.html").exit_code == 0
    assert PageTags((project.root / "run.html").read_text("utf-8")).open == []


def test_a_run_that_goes_on_is_shown_and_cannot_be_deleted(project: Project) -> None:
    project.write(
        "flow.yaml", FLOW.replace("{id: ask", "{id: pause, agent: writer, input: Wait.}\n      - {id: ask")
    )
    project.write("answers.yaml", ANSWERS + "- {when: Wait., answers: [{wait: 600, text: x}]}\n")
    going = subprocess.Popen(
        [sys.executable, "-m", "strands_cli", "run", "flow.yaml"],
        cwd=project.root, env=project.environment, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    try:
        assert going.stderr is not None
        while "pause: started" not in going.stderr.readline():
            assert going.poll() is None
        deadline = time.monotonic() + 30
        while "pause" not in (shown := project.strands("runs", "show").out):
            assert time.monotonic() < deadline, shown
        assert re.search(r"✓ draft.*\n> pause +writer +─.*running\n", shown)
        [run] = project.strands("runs", "list", "--json").json["runs"]
        assert (run["status"], run["steps"]) == ("running", 1)
        assert project.strands("runs", "delete", run["id"]).exit_code == SessionError.exit_code
    finally:
        going.kill()
        going.wait()
        going.stderr.close()
    [run] = project.strands("runs", "list", "--json").json["runs"]
    assert (run["status"], run["steps"], run["usage"]["output_tokens"]) == ("interrupted", 1, 10)
    assert "\n  strands resume " in project.strands("runs", "show").out


# --- delete and clean ---------------------------------------------------------------------------------------


def ids(project: Project) -> set[str]:
    return {*store_of(project).runs()}


def test_delete_removes_the_named_runs_and_says_so(project: Project) -> None:
    record(project, three_branches(), paused(), failed())
    outcome = project.strands("sessions", "delete", "k3", "fa1led00", "-f")
    assert outcome.exit_code == 0
    assert outcome.err == "Deleted k3f9a2x1 (research, done).\nDeleted fa1led00 (broken, failed).\n"
    assert ids(project) == {"pau5ed00"}


def test_delete_asks_on_a_terminal(project: Project) -> None:
    record(project, three_branches(), paused())
    assert "Delete 1 run?" in shown_on_terminal(project, "runs", "delete", "k3", answer=b"n\n")
    assert len(ids(project)) == 2
    assert "Deleted k3f9a2x1" in shown_on_terminal(project, "runs", "delete", "k3", answer=b"y\n")
    assert "Deleted pau5ed00" in shown_on_terminal(project, "runs", "delete", "pau5ed00", "-f")


def test_delete_removes_nothing_if_one_cannot_be_deleted(project: Project) -> None:
    here = this_process()
    owner = {"host": here.host, "pid": here.pid, "started": here.started}
    record(project, three_branches(), RecordedRun("running0").ended("running", 1, owner=owner))
    assert project.strands("runs", "delete", "k3", "none").exit_code == SessionError.exit_code
    refused = project.strands("runs", "delete", "k3", "running0")
    assert refused.exit_code == SessionError.exit_code
    assert "Run running0 is running." in refused.err
    assert len(ids(project)) == 2


def test_clean_removes_old_runs_that_are_done_and_only_when_that_is_agreed_to(project: Project) -> None:
    now, here = time.time(), this_process()
    owner = {"host": here.host, "pid": here.pid, "started": here.started}
    record(
        project,
        RecordedRun("old00000", began=now - 40 * 86_400).ended("done", 1),
        RecordedRun("new00000", began=now - 5 * 86_400).ended("done", 1),
        RecordedRun("paused00", began=now - 40 * 86_400).ended("paused", 1),
        RecordedRun("running0", began=now - 40 * 86_400).ended("running", 1, owner=owner),
    )
    asked = project.strands("runs", "clean")
    assert asked.exit_code == 2
    assert "old00000" in asked.out
    assert "1 run would be deleted, and nobody can be asked here." in asked.err
    assert len(ids(project)) == 4
    assert project.strands("runs", "clean", "--yes", "--json").json == {"deleted": ["old00000"]}
    assert project.strands("runs", "clean").err == "There is nothing to delete.\n"
    assert project.strands("sessions", "cleanup", "--max-age-days", "1", "--yes").exit_code == 0
    assert ids(project) == {"paused00", "running0"}
    record(project, RecordedRun("done0000", began=now - 40 * 86_400).ended("done", 1))
    assert project.strands("sessions", "cleanup", "--max-age-days", "7", "--keep-completed", "-f").err == (
        "Deleted paused00 (research, paused).\n"
    )
    record(project, RecordedRun("paused00", began=now - 40 * 86_400).ended("paused", 1))
    assert project.strands("runs", "clean", "--all", "--older-than", "0", "-y").exit_code == 0
    assert ids(project) == {"running0"}


def test_the_shell_completes_the_ids_of_runs(project: Project) -> None:
    record(project, three_branches(), paused())
    outcome = project.strands(
        _STRANDS_COMPLETE="bash_complete", COMP_WORDS="strands runs show k", COMP_CWORD="3"
    )
    assert outcome.out == "plain,k3f9a2x1\n"
    assert project.strands(
        _STRANDS_COMPLETE="bash_complete", COMP_WORDS="strands runs delete ", COMP_CWORD="3"
    ).out.split() == ["plain,pau5ed00", "plain,k3f9a2x1"]


# --- size ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_thousand_runs_and_ten_thousand_steps_are_shown_soon(project: Project) -> None:
    big = RecordedRun("b1g00000", began=BEGAN + 5000)
    for number in range(10_000):
        big.step(f"tasks/t{number}", number / 2, 2, "word " * 50)
    record(project, big.ended("done", 5002))
    record(
        project,
        *(RecordedRun(f"r{number:07}", began=BEGAN + number).ended("done", 1) for number in range(1000)),
    )
    assert len(project.strands("runs", "list", "-n", "0").out.splitlines()) == 1001
    shown = project.strands("runs", "show", "b1g")
    assert len(shown.out.splitlines()) < 220
    assert project.strands("runs", "show", "b1g", "--html", "run.html").exit_code == 0
    assert (project.root / "run.html").stat().st_size < 30_000_000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "at": st.floats(0, 1e11),
        "seconds": st.floats(0, 1e11),
        "content": st.lists(VALUES.filter(lambda value: isinstance(value, dict)), max_size=3),
        "message": st.fixed_dictionaries({"content": VALUES}),
        "messages": st.lists(st.fixed_dictionaries({"role": VALUES, "content": VALUES}), max_size=2),
        "result": VALUES,
        "output": VALUES,
        "status": st.sampled_from(["running", "paused", "failed", "done"]),
        "text": st.text(max_size=5),
        "granted": st.lists(st.integers(), max_size=2),
        "turn": st.integers(0, 3),
    },
)


@given(rows=st.dictionaries(st.sampled_from(KEYS), VALUES | FITTING, max_size=12))
def test_whatever_the_rows_are_a_run_is_shown_or_refused(rows: dict[str, Any]) -> None:
    encoded = {key: encode_row(value) for key, value in rows.items()}
    assert len(list_runs({"x": encoded})) == 1
    try:
        view = read_run("x", encoded, BEGAN)
    except SessionError:
        return
    for line in transcript_lines(view, 40):
        assert harmless(line.text)
    assert [*timeline_lines(view, sys.stdout, 80, 3)] if view.steps else True
    assert PageTags(page_text(view)).open == []


def test_rows_of_another_shape_are_errors_that_name_them() -> None:
    for key, value in {
        "steps/0/model/1": {"message": "text"},
        "head": [],
        "steps/0/begun": {"tools": 5},
    }.items():
        with pytest.raises(SessionError, match=re.escape(key)):
            read_run("x", {key: json.dumps(value).encode()}, 0.0)
    with pytest.raises(SessionError, match="status"):
        read_run("x", {"status": b"{"}, 0.0)
    rows: dict[str, Any] = {"something/new": {"a": 1}, "steps/0/result": {"at": 1}}
    view = read_run("x", {key: json.dumps(value).encode() for key, value in rows.items()}, 0.0)
    assert [step.status for step in view.steps] == ["done"]
