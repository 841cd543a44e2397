"""What the journal of a real run tells about it."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.cli.run_page import page_text
from strands_cli.cli.transcript import LiveTranscript, transcript_lines
from strands_cli.errors import AnswerError, Paused, ProviderError, RunError
from strands_cli.exec.history import Called, Retried, RunView, list_runs, read_run
from tests.exec.flows import AGENT, steps
from tests.exec.test_durable import Durable, outage
from tests.fakes import Pause, ScriptedModel, tool_call

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Durable:
    monkeypatch.chdir(tmp_path)
    return Durable(tmp_path)


def view_of(flow: Durable) -> RunView:
    return read_run(flow.run_id, flow.store.load(flow.run_id), time.time())


def transcript_of(flow: Durable) -> str:
    return "\n".join(line.text for line in transcript_lines(view_of(flow)))


def test_a_run_tells_what_was_asked_called_and_answered(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two")}, tools={"python": ["echo"]})
    model.enqueue(tool_call("echo", message="hi")).enqueue("first").enqueue("second")
    written: list[str] = []
    flow.go(spec, on_row=LiveTranscript(written.extend).row)
    view = view_of(flow)
    assert (view.status.status, view.status.steps, view.head.name) == ("done", 2, spec.name)
    first, second = view.steps
    assert [type(entry).__name__ for entry in first.entries] == ["Sent", "Answered", "Called", "Answered"]
    assert (first.status, first.response, second.continues) == ("done", "first", "steps/0")
    assert first.at <= first.end <= second.end
    [made] = [entry for entry in first.entries if isinstance(entry, Called)]
    assert (made.tool, made.arguments, made.code) == ("echo", {"message": "hi"}, None)
    text = transcript_of(flow)
    for said in (
        'call echo\n  | {"message": "hi"}',
        "result of echo",
        "  | hi",
        "continues the conversation",
    ):
        assert said in text
        assert said in "\n".join(written)
    [listed] = list_runs(flow.store.runs())
    assert (listed.status, listed.usage.total_tokens, listed.steps) == ("done", 30, 2)


def test_a_failure_and_the_retries_before_it_are_shown_and_then_the_success(
    flow: Durable, model: ScriptedModel
) -> None:
    runtime = {"provider": "ollama", "failure_policy": {"retries": 1, "wait_s": 0.01}}
    spec = flow.spec("chain", {"steps": steps("one", "two")}, runtime=runtime)
    model.enqueue("first").enqueue(outage()).enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    view = view_of(flow)
    assert [step.status for step in view.steps] == ["done", "failed"]
    assert view.status.status == "failed"
    assert "connection refused" in view.steps[1].error
    assert [entry.attempt for entry in view.steps[1].entries if isinstance(entry, Retried)] == [1]
    model.enqueue("second")
    flow.go(spec)
    after = view_of(flow).steps[1]
    assert (after.status, after.response, after.retries) == ("done", "second", 1)
    assert "failed before: " in transcript_of(flow)


def test_an_answer_that_was_set_aside_is_shown_as_an_earlier_attempt(
    flow: Durable, model: ScriptedModel
) -> None:
    spec = flow.spec(
        "chain", {"steps": steps("one")}, agents={"worker": {"prompt": "W.", "output_schema": SCHEMA}}
    )
    for _ in range(8):
        model.enqueue("not data")
    with pytest.raises(AnswerError):
        flow.go(spec)
    [step] = view_of(flow).steps
    assert (step.key, step.title, step.status, len(step.attempts)) == ("steps/0", "step 1", "failed", 1)
    assert step.usage.total_tokens > 0
    assert view_of(flow).waiting == []
    shown = transcript_of(flow)
    assert shown.count("  | not data") >= 1
    assert "discarded attempt: a resumed run starts the step again" in shown
    assert "-- anew" not in shown
    page = page_text(view_of(flow))
    assert '<pre dir="auto" class="text">not data</pre>' in page
    assert "discarded attempt: a resumed run starts the step again</summary>" in page
    assert "started again" not in page
    with pytest.raises(AnswerError):
        flow.go(spec)
    first, second = re.findall("-- discarded attempt: (.*)", transcript_of(flow))
    assert first == "the step started again after this"
    assert second == "a resumed run starts the step again"
    assert re.findall("<summary>discarded attempt: (.*)</summary>", page_text(view_of(flow))) == [
        first,
        second,
    ]


def test_questions_that_wait_are_told_with_their_keys(flow: Durable, model: ScriptedModel) -> None:
    ask: dict[str, Any] = {"human": {"prompt": "Publish?"}, "id": "approve"}
    spec = flow.spec("chain", {"steps": [*steps("one"), ask]})
    model.enqueue("first")
    with pytest.raises(Paused):
        flow.go(spec)
    view = view_of(flow)
    assert [(asked.key, asked.kind, asked.question) for asked in view.waiting] == [
        ("steps/1", "human", "Publish?")
    ]
    assert [step.status for step in view.steps] == ["done", "waiting"]

    async def answer(question: str) -> str:
        return "yes"

    flow.go(spec, ask_human=answer)
    assert view_of(flow).waiting == []
    assert (
        "question to a person (human)\n  | Publish?\nanswer, typed at the terminal\n  | yes"
        in transcript_of(flow)
    )


def test_a_step_waits_as_long_as_a_part_of_it_waits(flow: Durable) -> None:
    inner = flow.document("chain", {"steps": [{"human": {"prompt": "{{ who }}?"}, "id": "ok"}]}, agents={})
    inner["inputs"] = {"required": {"who": "string"}}
    flow.directory.joinpath("inner.yaml").write_text(yaml.safe_dump(inner))
    each = {"workflow": "inner.yaml", "inputs": {"who": "{{ item }}"}, "foreach": ["Ann", "Bea"]}
    with pytest.raises(Paused):
        flow.go(flow.spec("chain", {"steps": [each]}, agents={}))
    view = view_of(flow)
    assert [(step.title, step.status) for step in view.steps] == [
        ("step 1", "waiting"),
        ("step 1 1/2", "waiting"),
        ("step 1 1/2: ok", "waiting"),
        ("step 1 2/2", "waiting"),
        ("step 1 2/2: ok", "waiting"),
    ]
    assert [asked.key for asked in view.waiting] == [f"steps/0/each/{at}/workflow/steps/0" for at in (0, 1)]


def test_a_step_whose_question_was_not_answered_in_time_began_with_the_question(
    flow: Durable, model: ScriptedModel
) -> None:
    ask = {"human": {"prompt": "Publish?", "timeout_s": 0.1}}
    spec = flow.spec("chain", {"steps": [*steps("one"), ask]})
    model.enqueue(Pause(1), "first")
    with pytest.raises(Paused):
        flow.go(spec)
    time.sleep(0.2)
    with pytest.raises(RunError, match="No answer within"):
        flow.go(spec)
    first, late = view_of(flow).steps
    assert (late.status, len(late.attempts)) == ("failed", 1)
    assert late.at >= first.end
    assert late.seconds == pytest.approx(late.end - late.at)
    assert transcript_of(flow).count("failed: ") == 1


def test_a_question_that_is_answered_at_once_is_told_too(flow: Durable) -> None:
    async def answer(question: str) -> str:
        return "yes"

    spec = flow.spec("chain", {"steps": [{"human": {"prompt": "Publish?"}}]}, agents={"worker": AGENT})
    flow.go(spec, ask_human=answer)
    assert (
        "question to a person (human)\n  | Publish?\nanswer, typed at the terminal\n  | yes"
        in transcript_of(flow)
    )
