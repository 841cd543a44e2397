"""A run that is interrupted goes on where it was: what is in the journal is not done again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import AnswerError, Interrupted, Paused, ProviderError, RunError, SessionError
from strands_cli.events import Event, Listener, ModelText, StepFinished, StepRestored
from strands_cli.exec.journal import encode_row
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore, SqliteStore
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types import RunResult
from tests.exec.flows import Flow, steps
from tests.fakes import Call, Pause, ScriptedModel, tool_call


class Durable(Flow):
    """A workflow with a journal."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.store = SqliteStore(directory / "runs.db")
        self.run_id = ""
        self.listeners: list[Listener] = []

    def go(self, spec: Any, variables: dict[str, Any] | None = None, **options: Any) -> RunResult:
        """Runs it, or goes on with it; the id is kept even if the run ends with an error."""
        given = RunOptions(
            listeners=(self.events.append, *self.listeners),
            directory=self.directory,
            store=self.store,
            resume=self.run_id,
            **options,
        )
        try:
            result = asyncio.run(run(spec, variables, given))
        except Exception as error:
            self.run_id = getattr(error, "run_id", "") or self.run_id
            raise
        self.run_id = result.run_id
        return result

    def row_keys(self) -> list[str]:
        return list(self.store.load(self.run_id))


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Durable:
    monkeypatch.chdir(tmp_path)
    return Durable(tmp_path)


def outage() -> Exception:
    return ConnectionError("connection refused")


def test_a_resumed_run_asks_only_what_was_not_answered(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two {{ steps[0].response }}", "three")})
    model.enqueue("first").enqueue(outage())
    with pytest.raises(ProviderError) as caught:
        flow.go(spec)
    assert caught.value.run_id == flow.run_id != ""
    model.enqueue("second").enqueue("third")
    result = flow.go(spec)
    assert [step.response for step in result.steps] == ["first", "second", "third"]
    assert result.usage.total_tokens == 30
    assert [event.step for event in flow.heard(StepRestored)] == ["steps/0"]
    assert len(model.requests) == 4


def test_a_tool_call_that_is_done_is_not_made_again(flow: Durable, model: ScriptedModel) -> None:
    flow.directory.joinpath("tools").mkdir()
    flow.directory.joinpath("tools/note.py").write_text(
        'from strands_cli import tool\n@tool\ndef note(text: str) -> str:\n    """Notes.\n\n'
        '    Args:\n        text: What.\n    """\n'
        '    with open("log.txt", "a") as file:\n        file.write(text + "\\n")\n    return "noted " + text\n'
    )
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["note"]})
    model.enqueue(tool_call("note", text="a"), tool_call("note", text="b")).enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    model.enqueue("done")
    assert flow.go(spec).last_response == "done"
    assert sorted(flow.directory.joinpath("log.txt").read_text().split()) == ["a", "b"]
    results = [result["content"][0]["text"] for result in model.requests[-1].results]
    assert results == ["noted a", "noted b"]


def test_turns_that_repeat_the_ids_of_calls_keep_their_own_results(
    flow: Durable, model: ScriptedModel
) -> None:
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["echo"]})
    for text in ("one", "two"):
        model.enqueue(Call("echo", {"message": text}, id="call_0"))
    model.enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    asked = model.requests[-1].messages
    model.enqueue("done")
    flow.go(spec)
    assert model.requests[-1].messages == asked


def test_a_finished_run_answers_from_its_journal_alone(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two")})
    model.enqueue("first").enqueue("second")
    once = flow.go(spec)
    again = flow.go(spec)
    assert (again.last_response, again.usage, again.steps) == (once.last_response, once.usage, once.steps)
    assert len(model.requests) == 2


def test_an_answer_that_does_not_fit_is_asked_for_again_and_kept_to_be_seen(
    flow: Durable, model: ScriptedModel
) -> None:
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    spec = flow.spec("chain", {"steps": steps("go")}, agents=agents)
    model.enqueue("x").enqueue("x").enqueue("x")
    with pytest.raises(AnswerError):
        flow.go(spec)
    model.enqueue('{"n": 1}')
    assert flow.go(spec).output == {"n": 1}
    assert "steps/0/tried/1/model/3" in flow.row_keys()


def test_what_an_attempt_has_cost_is_counted_after_the_step_began_anew(
    flow: Durable, model: ScriptedModel
) -> None:
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    spec = flow.spec("chain", {"steps": steps("go")}, agents=agents)
    model.enqueue("x").enqueue("x").enqueue("x")
    with pytest.raises(AnswerError):
        flow.go(spec)
    model.enqueue('{"n": 1}')
    assert flow.go(spec).usage.total_tokens == 40
    changed = flow.spec("chain", {"steps": steps("go on")}, agents=agents)
    model.enqueue('{"n": 2}')
    assert flow.go(changed, accept_changes=True).usage.total_tokens == 50
    assert flow.go(changed).usage.total_tokens == 50


def test_a_run_without_anybody_to_ask_pauses_and_goes_on_with_the_answer(
    flow: Durable, model: ScriptedModel
) -> None:
    human = {"id": "ok", "human": {"prompt": "Publish {{ last_response }}?"}}
    spec = flow.spec("chain", {"steps": [*steps("write"), human, *steps("{{ steps.ok.response }}")]})
    model.enqueue("a text")
    with pytest.raises(Paused) as caught:
        flow.go(spec)
    [question] = caught.value.questions
    assert (question.key, question.text) == ("steps/1", "Publish a text?")
    fence = flow.store.take(flow.run_id)
    flow.store.put(flow.run_id, fence, {"steps/1/answer": b'{"at": 0, "text": "yes", "by": "resume"}'})
    flow.store.release(flow.run_id, fence)
    model.enqueue("published")
    assert flow.go(spec).last_response == "published"
    assert model.requests[-1].messages[-1]["content"] == [{"text": "yes"}]


def test_branches_that_wait_do_not_stop_the_others(flow: Durable, model: ScriptedModel) -> None:
    branches = [
        {"id": name, "steps": [{"human": {"prompt": f"{name}?"}}, *steps("go")]} for name in ("a", "b")
    ]
    branches.append({"id": "c", "steps": steps("go")})
    spec = flow.spec("parallel", {"branches": branches})
    model.enqueue("c is done")
    with pytest.raises(Paused) as caught:
        flow.go(spec)
    assert {question.text for question in caught.value.questions} == {"a?", "b?"}
    assert "branches/2/steps/0/result" in flow.row_keys()


def test_an_agent_that_appears_again_goes_on_with_its_conversation(
    flow: Durable, model: ScriptedModel
) -> None:
    spec = flow.spec("chain", {"steps": [*steps("one", "two"), *steps("x", agent="other"), *steps("three")]})
    for answer in ("1", "2", "x", "3"):
        model.enqueue(answer)
    flow.go(spec)
    texts = [
        [block["text"] for m in request.messages for block in m["content"]] for request in model.requests
    ]
    assert texts[1] == ["one", "1", "two", "2"][:3]
    assert texts[2] == ["x"]
    assert texts[3] == ["one", "1", "two", "2", "three"]


def test_a_resumed_conversation_is_the_same(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two", "three")}, tools={"python": ["echo"]})
    model.enqueue("a", tool_call("echo", message="m")).enqueue("1").enqueue("2").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    asked = model.requests[-1].messages
    model.enqueue("3")
    flow.go(spec)
    assert model.requests[-1].messages == asked


@pytest.mark.parametrize("place", ["step", "agent"])
def test_a_fresh_conversation_begins_anew(flow: Durable, model: ScriptedModel, place: str) -> None:
    first, second = steps("one", "two")
    agents = {"worker": {"prompt": "p", **({"conversation": "fresh"} if place == "agent" else {})}}
    second = second | ({"conversation": "fresh"} if place == "step" else {})
    model.enqueue("1").enqueue("2")
    flow.go(flow.spec("chain", {"steps": [first, second]}, agents=agents))
    assert len(model.requests[1].messages) == 1


def test_changes_that_are_accepted_keep_what_still_matches(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two", "{{ last_response }}!")})
    agents = {"worker": {"prompt": "You work.", "conversation": "fresh"}}
    spec = flow.spec("chain", {"steps": steps("one", "two", "{{ last_response }}!")}, agents=agents)
    for answer in ("1", "2", "3"):
        model.enqueue(answer)
    flow.go(spec)
    changed = flow.spec("chain", {"steps": steps("one", "zwei", "{{ last_response }}!")}, agents=agents)
    model.enqueue("two").enqueue("three")
    result = flow.go(changed, accept_changes=True)
    assert [step.response for step in result.steps] == ["1", "two", "three"]


def test_consent_is_asked_for_again_where_a_step_begins_again(flow: Durable, model: ScriptedModel) -> None:
    shown: list[Any] = []

    async def ask(calls: Any) -> set[str]:
        shown.extend(call.arguments["path"] for call in calls)
        return {call.call_id for call in calls}

    tools = {"python": ["file_write"]}
    for path, prompt in (("a.txt", "one"), (".git/hooks/pre-commit", "two")):
        spec = flow.spec("chain", {"steps": steps(prompt)}, tools=tools)
        model.enqueue(tool_call("file_write", path=path, content="x")).enqueue("done")
        flow.go(spec, ask_consent=ask, accept_changes=bool(flow.run_id))
    assert shown == ["a.txt", ".git/hooks/pre-commit"]


def test_replayed_answers_count_against_the_budget(flow: Durable, model: ScriptedModel) -> None:
    runtime = {"provider": "ollama", "budgets": {"max_tokens": 25}, "failure_policy": {"retries": 0}}
    spec = flow.spec("chain", {"steps": steps("one", "two", "three", "four")}, runtime=runtime)
    model.enqueue("1").enqueue("2").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    model.enqueue("3").enqueue("4")
    with pytest.raises(RunError, match="30 tokens"):
        flow.go(spec)


def test_a_run_in_memory_can_be_resumed_too(flow: Durable, model: ScriptedModel) -> None:
    flow.store = MemoryStore()  # type: ignore[assignment]
    test_a_resumed_run_asks_only_what_was_not_answered(flow, model)


# --- Questions in the middle of a step -----------------------------------------------------------------------

ASKING = """
from strands_cli import ToolContext, tool

@tool
async def book(city: str, context: ToolContext) -> str:
    '''Books a trip.

    Args:
        city: Where to.
    '''
    answer = await context.interrupt("confirm", f"Book {city}?")
    with open("log.txt", "a") as file:
        file.write(f"{context.key.rpartition('/')[0]} {answer}\\n")
    return f"{city}: {answer}"
"""


def answer_question(flow: Durable, key: str, text: str) -> None:
    fence = flow.store.take(flow.run_id)
    flow.store.put(flow.run_id, fence, {f"{key}/answer": encode_row({"at": 0, "text": text, "by": "resume"})})
    flow.store.release(flow.run_id, fence)


def test_a_question_of_a_tool_pauses_the_run_and_is_answered_when_it_is_resumed(
    flow: Durable, model: ScriptedModel
) -> None:
    flow.directory.joinpath("tools").mkdir()
    flow.directory.joinpath("tools/book.py").write_text(ASKING)
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["book", "echo"]})
    model.enqueue(tool_call("echo", message="hi"), tool_call("book", city="Rome"))
    with pytest.raises(Paused) as caught:
        flow.go(spec)
    [question] = caught.value.questions
    assert (question.key, question.kind, question.text) == ("steps/0/ask/1", "interrupt", "Book Rome?")
    answer_question(flow, "steps/0/ask/1", "yes")
    model.enqueue("booked")
    assert flow.go(spec).last_response == "booked"
    texts = [result["content"][0]["text"] for result in model.requests[-1].results]
    assert texts == ["hi", "Rome: yes"]
    assert flow.directory.joinpath("log.txt").read_text() == f"{flow.run_id}/steps/0/1/1 yes\n"


@pytest.mark.parametrize(("answer", "code"), [("yes", None), ("no", "denied")])
def test_a_call_that_needs_consent_pauses_the_run_until_somebody_decides(
    flow: Durable, model: ScriptedModel, answer: str, code: str | None
) -> None:
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["file_write"]})
    model.enqueue(tool_call("file_write", path="out.txt", content="x"))
    with pytest.raises(Paused) as caught:
        flow.go(spec)
    [question] = caught.value.questions
    assert (question.key, question.kind) == ("steps/0/consent/1", "consent")
    assert "file_write" in question.text
    assert "out.txt" in question.text
    assert not flow.directory.joinpath("out.txt").exists()
    answer_question(flow, question.key, answer)
    model.enqueue("done")
    flow.go(spec)
    [result] = model.requests[-1].results
    error = result["content"][-1].get("json", {}).get("error", {})
    assert error.get("code") == code
    assert flow.directory.joinpath("out.txt").exists() == (code is None)


# --- What is not kept ----------------------------------------------------------------------------------------


def test_an_answer_that_is_cut_short_is_not_kept(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("go")})
    model.enqueue("half of it", Pause(30))
    cancel = Cancellation()

    def stop(event: Event) -> None:
        if isinstance(event, ModelText):
            cancel.set()

    flow.listeners.append(stop)
    with pytest.raises(Interrupted):
        flow.go(spec, cancel=cancel)
    assert not [key for key in flow.row_keys() if "model" in key]
    model.enqueue("all of it")
    assert flow.go(spec).last_response == "all of it"


def test_no_secret_is_in_the_journal(
    flow: Durable, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-very-secret-value")
    spec = flow.spec(
        "chain",
        {"steps": steps("go {{ topic }}")},
        env={"secrets": [{"name": "API_KEY"}]},
        inputs={"required": {"topic": "string"}},
    )
    model.enqueue("the key is sk-very-secret-value")
    flow.go(spec, {"topic": "sk-very-secret-value"})
    assert b"very-secret" not in b"".join(flow.store.load(flow.run_id).values())
    assert b"very-secret" not in (flow.directory / "runs.db").read_bytes()


# --- Another owner -------------------------------------------------------------------------------------------


def test_a_run_that_is_taken_over_ends_and_writes_nothing_more(flow: Durable, model: ScriptedModel) -> None:
    spec = flow.spec("chain", {"steps": steps("one", "two", "three")})
    model.enqueue("1").enqueue("2").enqueue("3")
    taken: list[int] = []

    def take(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == "steps/0":
            [run_id] = flow.store.runs()
            taken.append(flow.store.take(run_id, take_over=True))
            taken.append(len(flow.store.load(run_id)))

    flow.listeners.append(take)
    with pytest.raises(SessionError, match="another process"):
        flow.go(spec)
    [run_id] = flow.store.runs()
    assert len(flow.store.load(run_id)) == taken[1]


def test_the_evaluator_and_the_producer_each_go_on_with_their_own_conversation(
    flow: Durable, model: ScriptedModel
) -> None:
    config = {
        "producer": {"agent": "writer", "input": "Write."},
        "evaluator": {"agent": "critic", "input": "Judge {{ draft }}"},
        "max_iters": 2,
    }
    for answer in ("bad", '{"score": 10, "feedback": "longer"}', "good", '{"score": 90, "feedback": ""}'):
        model.enqueue(answer)
    flow.go(flow.spec("evaluator_optimizer", config))
    sizes = [len(request.messages) for request in model.requests]
    assert sizes == [1, 1, 3, 3]
