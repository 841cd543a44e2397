"""`--record` and `--replay`: a run whose models are asked once, and never again."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from strands_cli import Cancellation, MemoryStore, RunOptions, RunResult, get_registry, run_sync
from strands_cli.errors import ArtifactError, Interrupted, ProviderError, RunError, UsageError
from strands_cli.events import ModelFinished, ModelText, ToolFinished
from strands_cli.testing import ScriptedModel, failure, tool_call
from tests.projects import Project

FLOW = """\
version: 0
name: flow
runtime: {provider: openai, failure_policy: {retries: 2, wait_s: 0.01}}
inputs: {optional: {animal: {type: string, default: owls}}}
tools: {python: [echo, now]}
agents:
  writer: {prompt: 'You write about {{ animal }}.'}
  critic: {prompt: You judge., tools: []}
pattern:
  type: chain
  config: {steps: [{agent: writer, input: 'Write about {{ animal }}.'}, {agent: critic}]}
"""


HEAD = '{"format": "strands-recording/1"}\n'
LINE = (
    '{"step": "steps/0", "number": 1, "system": "", "tools": [], "after": 0, '
    '"messages": [{"role": "user", "content": [{"text": "hi"}]}], "answer": {"error": "x"}}\n'
)
NOW = """\
from pathlib import Path
from strands_cli import tool

@tool
def now() -> str:
    \"""Tell the time.\"""
    return Path("now.txt").read_text()
"""


@pytest.fixture
def recorded(inside: Project) -> Project:
    """A project in which a run of two steps was recorded."""
    inside.write("flow.yaml", FLOW)
    write_now(inside, "10:00")
    model = ScriptedModel()
    model.enqueue("I look.", tool_call("echo", message="hoo"), tool_call("now"))
    model.enqueue(failure("server"))
    model.enqueue("Owls say hoo.")
    model.enqueue("Good.")
    result = run_sync("flow.yaml", options=RunOptions(model=model, record=Path("run.jsonl")))
    assert result.last_response == "Good."
    return inside


def write_now(project: Project, time: str) -> None:
    project.write("now.txt", f"It is {time}.")
    project.write("tools/now.py", NOW)
    get_registry().refresh()


def replay(variables: dict[str, Any] | None = None, **options: Any) -> RunResult:
    return run_sync("flow.yaml", variables, RunOptions(replay=Path("run.jsonl"), **options))


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_a_recording_has_every_request_with_its_answer(recorded: Project) -> None:
    head, *rows = lines(recorded.root / "run.jsonl")
    assert head == {"format": "strands-recording/1", "workflow": "flow"}
    assert [(row["step"], row["number"], row["after"]) for row in rows] == [
        ("steps/0", 1, 0),
        ("steps/0", 2, 1),
        ("steps/1", 1, 0),
    ]
    assert rows[0]["system"] == "You write about owls."
    assert rows[0]["tools"] == ["echo", "now"]
    assert rows[0]["messages"] == [{"role": "user", "content": [{"text": "Write about owls."}]}]
    assert [block["toolResult"]["status"] for block in rows[1]["messages"][1]["content"]] == ["success"] * 2
    assert rows[1]["answer"]["message"]["content"] == [{"text": "Owls say hoo."}]
    assert stat.S_IMODE((recorded.root / "run.jsonl").stat().st_mode) == 0o600


def test_a_replay_gives_the_same_result_without_a_model_or_a_key(recorded: Project) -> None:
    seen: list[Any] = []
    result = replay(listeners=[seen.append])
    assert result.last_response == "Good."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (15, 15)
    assert [event.text for event in seen if isinstance(event, ModelText)] == [
        "I look.",
        "Owls say hoo.",
        "Good.",
    ]
    assert sum(isinstance(event, ModelFinished) for event in seen) == 3


def test_the_command_records_and_replays(project: Project) -> None:
    text = FLOW.replace(", now", "").replace("openai", "scripted")
    project.write("flow.yaml", text)
    project.write("answers.yaml", "[{call: echo, with: {message: hoo}}, Owls say hoo., Good.]")
    assert project.strands("run", "flow.yaml", "--record", "run.jsonl").exit_code == 0
    again = project.strands("run", "flow.yaml", "--record", "run.jsonl")
    assert again.exit_code == 12
    assert "Use --force to replace it" in again.err
    project.write("flow.yaml", text.replace("scripted", "openai"))
    outcome = project.strands("run", "flow.yaml", "--replay", "run.jsonl", OPENAI_API_KEY="")
    assert outcome.exit_code == 0, outcome
    assert outcome.out == "Good.\n"
    other = project.strands("run", "flow.yaml", "--replay", "run.jsonl", "--var", "animal=cats")
    assert other.exit_code == 10
    assert "differs from run.jsonl in request 1 of this step: the system prompt" in other.err
    assert "It was: 'You write about owls.'" in other.err
    assert "It is:  'You write about cats.'" in other.err
    refused = project.strands("run", "flow.yaml", "--auto-resume", "--replay", "run.jsonl")
    assert (refused.exit_code, "--replay cannot be combined with --auto-resume" in refused.err) == (2, True)


# --- where a replay parts -----------------------------------------------------------------------------------


def test_a_result_that_differs_is_shown_and_may_be_ignored(recorded: Project) -> None:
    write_now(recorded, "11:00")
    with pytest.raises(RunError) as raised:
        replay()
    assert raised.value.step == "steps/0"
    assert "request 2 of this step: message 3 (the result of now)" in raised.value.message
    assert raised.value.message.endswith("It was: 'It is 10:00.'\nIt is:  'It is 11:00.'")
    assert "--replay-ignore now" in raised.value.hint
    assert replay(replay_ignore=["now"]).last_response == "Good."


def test_a_tool_to_ignore_that_no_request_has_is_refused_with_the_nearest_name(recorded: Project) -> None:
    with pytest.raises(UsageError, match=r"No request in run.jsonl has a tool 'noww'") as raised:
        replay(replay_ignore=["noww"])
    assert raised.value.hint == "Did you mean 'now'?"


def test_other_tools_are_told(recorded: Project) -> None:
    recorded.write("flow.yaml", FLOW.replace(", now", ""))
    with pytest.raises(RunError, match="the list of tools is not the same") as raised:
        replay()
    assert "It was: echo, now\nIt is:  echo" in raised.value.message


def test_another_prompt_is_told_at_its_first_difference(recorded: Project) -> None:
    text = f"{'Please. ' * 40}Write about owls."
    recorded.write("flow.yaml", FLOW.replace("Write about {{ animal }}.", text))
    with pytest.raises(RunError, match=r"message 1 \(the prompt\)") as raised:
        replay()
    assert "It was: 'Write about owls.'\n" in raised.value.message
    assert len(raised.value.message) < 400


def test_a_step_that_was_not_recorded_is_told(recorded: Project) -> None:
    recorded.write("flow.yaml", FLOW.replace("{agent: critic}", "{agent: critic}, {agent: critic}"))
    with pytest.raises(RunError, match=r"No request of this step is recorded in run.jsonl") as raised:
        replay()
    assert raised.value.step == "steps/2"


def test_answers_that_nobody_asks_for_are_told_at_the_end(recorded: Project) -> None:
    recorded.write(
        "flow.yaml",
        FLOW.replace(", {agent: critic}", "").replace("  critic: {prompt: You judge., tools: []}\n", ""),
    )
    with pytest.raises(
        RunError, match=r"without making all requests recorded in run.jsonl: steps/1 \(1\)"
    ) as raised:
        replay()
    assert raised.value.kept.last_response == "Owls say hoo."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a recording of this version"),
        ("{}\n", "is not a recording of this version"),
        ("[\n", "is not a recording of this version"),
        ('{"format": "strands-recording/1"}\n{"step": 1}\n', "run.jsonl:2 is not a line of a recording"),
        ('{"format": "strands-recording/1"}\n{\n', "run.jsonl:2 is not a line of a recording"),
        (HEAD + LINE.replace('"after": 0', '"after": 1'), "run.jsonl:2 is not a line of a recording"),
        (HEAD + LINE.replace('"role": "user"', '"role": "owl"'), "run.jsonl:2 is not a line of a recording"),
        (HEAD + LINE.replace('"error": "x"', '"message": {}'), "run.jsonl:2 is not a line of a recording"),
        (None, "The recording run.jsonl was not found."),
    ],
)
def test_what_is_not_a_recording_is_refused(inside: Project, text: str | None, reason: str) -> None:
    inside.write("flow.yaml", FLOW.replace(", now", ""))
    if text is not None:
        inside.write("run.jsonl", text)
    with pytest.raises(UsageError, match=reason):
        replay()


# --- what is recorded ---------------------------------------------------------------------------------------


def test_a_recording_can_be_replayed_in_another_directory(
    recorded: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded.write("flow.yaml", FLOW.replace("'Write about {{ animal }}.'", "'Look at {{ animal }}\\n'"))
    answer = tool_call("echo", message=f"in {recorded.root}/owls.txt")
    model = ScriptedModel().enqueue(answer).enqueue("Done.").enqueue("Good.")
    here = {"animal": f"x\n{recorded.root}/owls.txt"}
    run_sync("flow.yaml", here, RunOptions(model=model, record=Path("run.jsonl"), force=True))
    assert str(recorded.root) not in (recorded.root / "run.jsonl").read_text("utf-8")
    other = Project(tmp_path / "another" / "clone")
    for name in ("flow.yaml", "run.jsonl", "tools/now.py"):
        other.write(name, (recorded.root / name).read_text("utf-8"))
    monkeypatch.chdir(other.root)
    assert replay({"animal": f"x\n{other.root}/owls.txt"}).last_response == "Good."


def test_secrets_are_not_recorded(inside: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWL_TOKEN", "hunter2hunter2")
    text = FLOW.replace(", now", "")
    inside.write("flow.yaml", text + "env: {secrets: [{name: OWL_TOKEN}]}\n")
    model = (
        ScriptedModel()
        .enqueue(tool_call("echo", message="hunter2hunter2"))
        .enqueue("It is hunter2hunter2.")
        .enqueue("Good.")
    )
    options = RunOptions(model=model, record=Path("run.jsonl"))
    run_sync("flow.yaml", {"animal": "hunter2hunter2"}, options)
    assert "hunter2" not in (inside.root / "run.jsonl").read_text("utf-8")
    assert replay({"animal": "hunter2hunter2"}).last_response == "Good."


def test_branches_that_run_at_the_same_time_get_their_own_answers(inside: Project) -> None:
    branches = ", ".join(f"{{id: b{n}, steps: [{{agent: writer, input: number {n}}}]}}" for n in range(8))
    head = FLOW.partition("pattern:")[0].replace(", now", "")
    head = head.replace("  critic: {prompt: You judge., tools: []}\n", "")
    inside.write("flow.yaml", f"{head}pattern: {{type: parallel, config: {{branches: [{branches}]}}}}\n")
    model = ScriptedModel(
        lambda request: f"It was {request.prompt}." if request.turn else tool_call("echo", message="x")
    )
    first = run_sync("flow.yaml", options=RunOptions(model=model, record=Path("run.jsonl")))
    rows = lines(inside.root / "run.jsonl")[1:]
    assert [row["step"] for row in rows] == [f"branches/{n}/steps/0" for n in range(8) for _ in range(2)]
    assert [step.response for step in replay().steps] == [step.response for step in first.steps]


def test_a_run_that_fails_is_recorded_and_fails_again(inside: Project) -> None:
    inside.write("flow.yaml", FLOW.replace(", now", ""))
    model = ScriptedModel().enqueue("Owls fly.").enqueue(failure("credentials", "wrong key"))
    with pytest.raises(ProviderError, match="wrong key"):
        run_sync("flow.yaml", options=RunOptions(model=model, record=Path("run.jsonl")))
    with pytest.raises(ProviderError, match="wrong key"):
        replay()


def test_a_conversation_that_was_too_long_is_compacted_again(inside: Project) -> None:
    text = FLOW.replace(", now", "").replace(", {agent: critic}", "")
    text = text.replace("  critic: {prompt: You judge., tools: []}\n", "")
    inside.write(
        "flow.yaml", text + "context_policy: {compaction: {enabled: true, when_tokens_over: 100000}}\n"
    )
    model = ScriptedModel()
    for number in range(4):
        model.enqueue(tool_call("echo", message=f"{number}" * 200))
    model.enqueue(failure("overflow")).enqueue("The summary.").enqueue("Done.")
    run_sync("flow.yaml", options=RunOptions(model=model, record=Path("run.jsonl")))
    assert replay().last_response == "Done."


def test_a_replay_is_journalled_and_can_be_resumed(recorded: Project) -> None:
    store, seen = MemoryStore(), Cancellation()

    def stop(event: Any) -> None:
        if isinstance(event, ToolFinished):
            seen.set()

    with pytest.raises(Interrupted) as raised:
        replay(store=store, listeners=[stop], cancel=seen)
    run_id = raised.value.run_id
    result = replay(store=store, resume=run_id)
    assert result.last_response == "Good."
    rows = store.load(run_id)
    assert {"steps/0/model/1", "steps/0/model/2", "steps/1/model/1"} <= rows.keys()
    with pytest.raises(UsageError, match="A resumed run cannot be recorded"):
        replay(store=store, resume=run_id, record=Path("again.jsonl"))


def test_an_unwritable_recording_is_told_before_the_run(inside: Project) -> None:
    inside.write("flow.yaml", FLOW.replace(", now", ""))
    with pytest.raises(ArtifactError, match="There is no directory nowhere"):
        run_sync("flow.yaml", options=RunOptions(model=ScriptedModel(), record=Path("nowhere/run.jsonl")))
