"""What a resumed run must not take for an answer, lose, or mix up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

import pytest
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.errors import (
    AnswerError,
    ArtifactError,
    BudgetExceeded,
    Interrupted,
    Paused,
    ProviderError,
    RunError,
    SessionError,
    UsageError,
)
from strands_cli.events import RunNoticed, ToolFinished, ToolProgress
from strands_cli.exec.journal import decode_row
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.runtime.agent_hooks import PendingCall
from strands_cli.toolkit.cancellation import Cancellation
from tests.exec.flows import steps
from tests.exec.test_durable import Durable, answer_question, outage
from tests.exec.test_durable import flow as flow
from tests.fakes import ScriptedModel, tool_call


def add_tool(flow: Durable, name: str, text: str) -> None:
    flow.directory.joinpath("tools").mkdir(exist_ok=True)
    flow.directory.joinpath(f"tools/{name}.py").write_text(text)


def row(flow: Durable, key: str) -> Any:
    return decode_row(flow.store.load(flow.run_id)[key])


# --- People --------------------------------------------------------------------------------------------------


def test_a_consent_that_was_cancelled_while_it_was_asked_for_is_asked_for_again(
    flow: Durable, model: ScriptedModel
) -> None:
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["file_write"]})
    model.enqueue(tool_call("file_write", path="out.txt", content="x"))
    cancel = Cancellation()

    async def interrupted(calls: Sequence[PendingCall]) -> Collection[str]:
        cancel.set()
        await asyncio.sleep(60)
        return ()

    with pytest.raises(Interrupted):
        flow.go(spec, ask_consent=interrupted, cancel=cancel)
    assert not [key for key in flow.row_keys() if "consent" in key or "/tool/" in key]

    async def agree(calls: Sequence[PendingCall]) -> Collection[str]:
        return {one.call_id for one in calls}

    model.enqueue("done")
    assert flow.go(spec, ask_consent=agree).last_response == "done"
    assert flow.directory.joinpath("out.txt").read_text() == "x"


def test_consent_to_a_call_is_not_consent_to_another_one(flow: Durable) -> None:
    arguments = {"path": "{{ path }}", "content": "x"}
    spec = flow.spec(
        "chain",
        {"steps": [{"tool": "file_write", "arguments": arguments}]},
        agents={"worker": {"prompt": "p"}},
        tools={"python": ["file_write"]},
        inputs={"required": {"path": "string"}},
    )
    with pytest.raises(Paused) as caught:
        flow.go(spec, {"path": "a.txt"})
    answer_question(flow, caught.value.questions[0].key, "yes")
    with pytest.raises(Paused, match=r"b\.txt"):
        flow.go(spec, {"path": "b.txt"})
    assert not list(flow.directory.glob("?.txt"))


TRIP = """
from strands_cli import ToolContext, tool

@tool
async def trip(city: str, questions: int, context: ToolContext) -> str:
    '''Books a trip.

    Args:
        city: Where to.
        questions: How many.
    '''
    said = [await context.interrupt(f"q{n}", f"{city} {n}?") for n in range(questions)]
    return f"{city}: {' '.join(said)}"
"""


def test_each_question_of_tools_gets_its_own_answer_though_others_are_done(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "trip", TRIP)
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["trip"]})
    model.enqueue(tool_call("trip", city="Rome", questions=1), tool_call("trip", city="Paris", questions=2))
    for _ in range(3):
        with pytest.raises(Paused) as caught:
            flow.go(spec)
        [question] = caught.value.questions
        answer_question(flow, question.key, question.text.replace("?", "!"))
    model.enqueue("done")
    flow.go(spec)
    texts = [result["content"][0]["text"] for result in model.requests[-1].results]
    assert texts == ["Rome: Rome 0!", "Paris: Paris 0! Paris 1!"]


CALLING = """
from strands_cli import ToolContext, tool

@tool
async def save(context: ToolContext) -> str:
    '''Saves.'''
    return await context.call("file_write", path="out.txt", content="x")
"""


def test_a_step_that_could_not_do_without_a_refused_call_is_done_again_with_consent(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "save", CALLING)
    spec = flow.spec("chain", {"steps": steps("go", "then")}, tools={"python": ["save", "file_write"]})
    model.enqueue(tool_call("save")).enqueue("I could not.")
    with pytest.raises(Paused, match="needs consent"):
        flow.go(spec)

    async def agree(calls: Sequence[PendingCall]) -> Collection[str]:
        return {one.call_id for one in calls}

    model.enqueue(tool_call("save")).enqueue("saved").enqueue("end")
    result = flow.go(spec, ask_consent=agree)
    assert [step.response for step in result.steps] == ["saved", "end"]
    assert flow.directory.joinpath("out.txt").exists()


# --- Failures ------------------------------------------------------------------------------------------------


def test_a_condition_that_fails_does_not_undo_the_answers_that_it_judges(
    flow: Durable, model: ScriptedModel
) -> None:
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object"}}}
    nodes = {"a": {"agent": "worker", "input": "go"}, "b": {"agent": "worker", "input": "b"}}
    edges = [
        {"from": "a", "to": "a", "when": "nodes.a.output.n < 2"},
        {"from": "a", "to": "b", "when": "nodes.a.output.n >= 2"},
    ]
    spec = flow.spec("graph", {"nodes": nodes, "edges": edges, "start": "a"}, agents=agents)
    model.enqueue('{"n": 1}').enqueue('{"n": "many"}')
    for _ in range(2):
        with pytest.raises(RunError, match="have no order"):
            flow.go(spec)
    assert len(model.requests) == 2


def test_all_answers_that_do_not_fit_are_asked_for_again_at_once(flow: Durable, model: ScriptedModel) -> None:
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    branches = [{"id": name, "steps": steps(name)} for name in ("a", "b", "c")]
    spec = flow.spec("parallel", {"branches": branches}, agents=agents)
    for _ in range(9):
        model.enqueue("x")
    with pytest.raises(AnswerError):
        flow.go(spec)
    for _ in range(9):
        model.enqueue('{"n": 1}')
    assert [step.output for step in flow.go(spec).steps] == [{"n": 1}] * 3


# --- Changes -------------------------------------------------------------------------------------------------


def test_a_step_with_another_name_is_kept_and_found_by_that_name(flow: Durable, model: ScriptedModel) -> None:
    def spec(name: str) -> Any:
        first, second = steps("one", f"two {{{{ steps.{name}.response }}}}")
        return flow.spec("chain", {"steps": [{**first, "id": name}, second]})

    model.enqueue("first").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec("before"))
    model.enqueue("second")
    result = flow.go(spec("after"), accept_changes=True)
    assert [step.id for step in result.steps] == ["after", "step 2"]
    assert model.requests[-1].messages[-1]["content"][0]["text"] == "two first"


# --- Which run -----------------------------------------------------------------------------------------------


def test_a_run_that_is_not_there_is_not_resumed(flow: Durable, model: ScriptedModel) -> None:
    flow.run_id = "nowhere1"
    with pytest.raises(SessionError, match="There is no run 'nowhere1'"):
        flow.go(flow.spec("chain", {"steps": steps("go")}))
    assert flow.store.runs() == {}


def test_a_run_cannot_be_resumed_without_a_store(flow: Durable) -> None:
    with pytest.raises(UsageError, match="store"):
        flow.run_spec(flow.spec("chain", {"steps": steps("go")}), resume="abc")


def test_consent_that_the_settings_give_is_not_asked_for(
    flow: Durable, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYPASS_TOOL_CONSENT", "true")
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["file_write"]})
    model.enqueue(tool_call("file_write", path="out.txt", content="x")).enqueue("done")
    assert flow.go(spec).last_response == "done"
    assert flow.directory.joinpath("out.txt").exists()


# --- Long conversations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["too long for the model", "over the limit"])
def test_a_conversation_that_was_summarised_goes_on_as_it_was(
    flow: Durable, model: ScriptedModel, reason: str
) -> None:
    limit = 1000 if reason == "over the limit" else 1_000_000
    compaction = {"when_tokens_over": limit, "preserve_recent_messages": 2}
    spec = flow.spec(
        "chain",
        {"steps": steps("go")},
        tools={"python": ["echo"]},
        context_policy={"compaction": compaction},
    )
    for text in ("a", "b"):
        model.enqueue(tool_call("echo", message=text * 4000))
    if limit > 1000:
        model.enqueue(ContextWindowOverflowException("too long"))
    model.enqueue("the summary").enqueue(tool_call("echo", message="c")).enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    before, asked = model.requests[-1].messages, len(model.requests)
    model.enqueue("done")
    result = flow.go(spec)
    assert model.requests[-1].messages == before
    assert len(model.requests) == asked + 1
    assert result.usage.total_tokens == 50
    assert result.last_response == "done"


class Cutting(ScriptedModel):
    """Answers "cut", and nothing else, are cut at the limit of tokens."""

    async def stream(self, messages: Any, *given: Any, **more: Any) -> AsyncIterator[Any]:
        said = ""
        async for event in super().stream(messages, *given, **more):
            said += event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
            is_cut = "messageStop" in event and said == "cut"
            yield {"messageStop": {"stopReason": "max_tokens"}} if is_cut else event


@pytest.mark.parametrize("first", ["the first summary", "", "cut"])
def test_each_summary_keeps_its_own_place_whatever_became_of_those_before_it(
    flow: Durable, first: str
) -> None:
    model = Cutting()
    compaction = {"when_tokens_over": 1000, "preserve_recent_messages": 2}
    spec = flow.spec(
        "chain",
        {"steps": steps("go")},
        tools={"python": ["echo"]},
        context_policy={"compaction": compaction},
    )
    reading = tool_call("echo", message="a" * 4000)
    model.enqueue(reading).enqueue(reading)
    model.enqueue(*filter(None, [first])).enqueue(reading)
    model.enqueue("the second summary").enqueue(reading)
    model.enqueue("the third summary").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec, model=model)
    before, asked = model.requests[-1].messages, len(model.requests)
    assert "the third summary" in str(before)
    model.enqueue(reading).enqueue("the fourth summary").enqueue("done")
    assert flow.go(spec, model=model).last_response == "done"
    again, summarised, last = model.requests[asked:]
    assert again.messages == before
    assert "the third summary" in str(summarised.messages)
    assert "the fourth summary" in str(last.messages)


def test_a_later_step_summarises_its_conversation_as_if_nothing_had_happened(
    flow: Durable, model: ScriptedModel
) -> None:
    compaction = {"when_tokens_over": 2000, "preserve_recent_messages": 2}
    spec = flow.spec(
        "chain",
        {"steps": steps("one", "two")},
        tools={"python": ["echo"]},
        context_policy={"compaction": compaction},
    )
    model.tokens = 3000  # of which the system prompt and the tools are a part
    model.enqueue(tool_call("echo", message="a" * 2000)).enqueue("first").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    request = model.requests[-1]
    assert "summarise" in str(request.system_prompt)
    model.enqueue("the summary").enqueue("second")
    assert flow.go(spec).last_response == "second"
    assert model.requests[-2].messages == request.messages


def test_a_conversation_keeps_its_order_after_a_second_attempt(flow: Durable, model: ScriptedModel) -> None:
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    spec = flow.spec("chain", {"steps": steps("one", "two")}, agents=agents, tools={"python": ["echo"]})
    model.enqueue("x").enqueue("x").enqueue("x")
    with pytest.raises(AnswerError):
        flow.go(spec)
    model.enqueue(tool_call("echo", message="hi")).enqueue("y").enqueue('{"n": 1}').enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    before = model.requests[-1].messages
    model.enqueue('{"n": 2}')
    flow.go(spec)
    assert model.requests[-1].messages == before


SENDING = """
from strands_cli import ToolContext, ToolFailed, tool

@tool(blocking=False)
def send(code: str, context: ToolContext) -> str:
    '''Sends.

    Args:
        code: How it fails.
    '''
    with open("log.txt", "a") as file:
        file.write(code + "\\n")
    context.progress("sending")
    raise ToolFailed("The other side hung up", code=code)
"""


def test_a_call_whose_tool_says_that_it_was_cancelled_is_not_made_again(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "send", SENDING)
    spec = flow.spec("chain", {"steps": steps("go", "on")}, tools={"python": ["send"]})
    model.enqueue(tool_call("send", code="cancelled")).enqueue("sent").enqueue(outage())
    with pytest.raises(ProviderError):
        flow.go(spec)
    before = model.requests[-1].messages
    model.enqueue("done")
    flow.go(spec)
    assert flow.directory.joinpath("log.txt").read_text() == "cancelled\n"
    assert model.requests[-1].messages == before


def test_a_call_that_failed_while_the_run_was_stopped_is_made_again(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "send", SENDING)
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["send"]})
    cancel = Cancellation()
    flow.listeners.append(lambda event: cancel.set() if isinstance(event, ToolProgress) else None)
    model.enqueue(tool_call("send", code="upstream"))
    with pytest.raises(Interrupted):
        flow.go(spec, cancel=cancel)
    flow.listeners.clear()
    model.enqueue("done")
    flow.go(spec)
    assert flow.directory.joinpath("log.txt").read_text() == "upstream\n" * 2


def test_a_resumed_run_without_money_makes_no_call_that_its_last_answer_asks_for(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "send", SENDING)
    runtime = {"provider": "ollama", "budgets": {"max_tokens": 15}}
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["send"]}, runtime=runtime)
    model.enqueue(tool_call("send", code="one")).enqueue(tool_call("send", code="two"))
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="20 tokens"):
            flow.go(spec)
        assert flow.directory.joinpath("log.txt").read_text() == "one\n"
    assert len(model.requests) == 2


POSTING = """
from strands_cli import ToolContext, tool

@tool
def post(text: str, context: ToolContext) -> str:
    '''Posts.

    Args:
        text: What.
    '''
    with open("log.txt", "a") as file:
        file.write(f"{text} {context.key}\\n")
    return "posted"
"""


def posts(flow: Durable) -> dict[str, set[str]]:
    """The idempotency keys that each text was posted with."""
    found: dict[str, set[str]] = {}
    for line in flow.directory.joinpath("log.txt").read_text().splitlines():
        text, key = line.split()
        found.setdefault(text, set()).add(key)
    return found


def test_another_call_in_the_place_of_an_earlier_one_has_another_key(
    flow: Durable, model: ScriptedModel
) -> None:
    add_tool(flow, "post", POSTING)
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    spec = flow.spec("chain", {"steps": steps("go")}, agents=agents, tools={"python": ["post"]})
    model.enqueue(tool_call("post", text="one"), tool_call("post", text="two"))
    model.enqueue("x").enqueue("x").enqueue("x")
    with pytest.raises(AnswerError):
        flow.go(spec)
    model.enqueue(tool_call("post", text="one"), tool_call("post", text="three")).enqueue('{"n": 1}')
    flow.go(spec)
    [again], [other], [new] = posts(flow).values()
    assert len({again, other, new}) == 3, "and the same call has the same key in both attempts"


def test_calls_of_runs_that_are_not_kept_have_keys_of_their_own(flow: Durable, model: ScriptedModel) -> None:
    add_tool(flow, "post", POSTING)
    written = {"tool": "post", "arguments": {"text": "two"}}
    spec = flow.spec("chain", {"steps": [*steps("go"), written]}, tools={"python": ["post"]})
    for _ in range(2):
        model.enqueue(tool_call("post", text="one")).enqueue("done")
        flow.run_spec(spec)
    assert [len(keys) for keys in posts(flow).values()] == [2, 2]


# --- Secrets -------------------------------------------------------------------------------------------------

LOGIN = """
from strands_cli import tool

@tool
def login(key: str) -> str:
    '''Logs in.

    Args:
        key: The key.
    '''
    with open("log.txt", "a") as file:
        file.write(key + "\\n")
    return "in"
"""


def test_a_call_with_a_secret_is_asked_for_again_rather_than_made_without_it(
    flow: Durable, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-very-secret-value")
    add_tool(flow, "login", LOGIN)
    spec = flow.spec(
        "chain",
        {"steps": steps("go")},
        tools={"python": ["login"]},
        env={"secrets": [{"name": "API_KEY"}]},
        security={"consent": {"login": "ask"}},
    )
    model.enqueue(tool_call("login", key="sk-very-secret-value"))
    cancel = Cancellation()

    async def interrupted(calls: Sequence[PendingCall]) -> Collection[str]:
        cancel.set()
        return ()

    with pytest.raises(Interrupted):
        flow.go(spec, ask_consent=interrupted, cancel=cancel)

    async def agree(calls: Sequence[PendingCall]) -> Collection[str]:
        return {one.call_id for one in calls}

    model.enqueue(tool_call("login", key="sk-very-secret-value")).enqueue("done")
    assert flow.go(spec, ask_consent=agree).last_response == "done"
    assert flow.directory.joinpath("log.txt").read_text() == "sk-very-secret-value\n"


def test_a_call_that_only_looks_masked_is_not_asked_for_again(
    flow: Durable, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-very-secret-value")
    secrets = {"secrets": [{"name": "API_KEY"}]}
    spec = flow.spec("chain", {"steps": steps("go")}, tools={"python": ["file_write"]}, env=secrets)
    model.enqueue(tool_call("file_write", path="out.txt", content="one\n***\ntwo"))
    with pytest.raises(Paused) as caught:
        flow.go(spec)
    answer_question(flow, caught.value.questions[0].key, "yes")
    model.enqueue("done")
    assert flow.go(spec).last_response == "done"
    assert flow.directory.joinpath("out.txt").read_text() == "one\n***\ntwo"


# --- Artifacts -----------------------------------------------------------------------------------------------


def test_a_run_with_changes_replaces_what_it_has_written_and_nothing_else(
    flow: Durable, model: ScriptedModel
) -> None:
    outputs = {"artifacts": [{"path": "out.txt", "from": "{{ last_response }}"}]}

    def spec(text: str) -> Any:
        return flow.spec("chain", {"steps": steps(text)}, outputs=outputs)

    model.enqueue("one")
    flow.go(spec("a"))
    assert list(row(flow, "artifacts")) == [str(flow.directory / "out.txt")]
    model.enqueue("two")
    flow.go(spec("b"), accept_changes=True)
    assert flow.directory.joinpath("out.txt").read_text() == "two"
    flow.directory.joinpath("out.txt").write_text("mine")
    model.enqueue("three")
    with pytest.raises(ArtifactError, match="exists"):
        flow.go(spec("c"), accept_changes=True)
    assert flow.directory.joinpath("out.txt").read_text() == "mine"


# --- A store that takes its time, or fails -------------------------------------------------------------------


class SlowStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def release(self, run: str, fence: int) -> None:
        self.is_asked.set()
        self.may_go_on.wait(30)
        super().release(run, fence)


def test_the_loop_goes_on_while_the_journal_is_closed(flow: Durable, model: ScriptedModel) -> None:
    model.enqueue("done")
    store, spec = SlowStore(), flow.spec("chain", {"steps": steps("go")})

    async def watch() -> str:
        running = asyncio.ensure_future(run(spec, None, RunOptions(store=store)))
        assert await asyncio.to_thread(store.is_asked.wait, 30)
        assert not running.done()
        store.may_go_on.set()
        return (await running).last_response

    assert asyncio.run(watch()) == "done"


class FullStore(MemoryStore):
    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        raise SessionError("The disk is full.")


class GatedStore(MemoryStore):
    """Writes the first answer of the model when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        if "steps/0/model/1" in rows:
            assert self.gate.wait(5)
        super().put(run, fence, rows)


@pytest.mark.parametrize(
    "made",
    [tool_call("echo", message="hi"), tool_call("parse_json", text="1"), tool_call("answer", n=1)],
    ids=lambda made: str(made.name),
)
def test_what_changes_nothing_is_called_before_the_request_for_it_is_kept(
    flow: Durable, model: ScriptedModel, made: Any
) -> None:
    store = GatedStore()
    flow.store = store  # type: ignore[assignment]
    flow.listeners.append(lambda event: store.gate.set() if isinstance(event, ToolFinished) else None)
    agents = {"worker": {"prompt": "p", "output_schema": {"type": "object", "required": ["n"]}}}
    spec = flow.spec("chain", {"steps": steps("go")}, agents=agents, tools={"python": ["echo", "parse_json"]})
    model.enqueue(made).enqueue('{"n": 1}')
    assert flow.go(spec).output == {"n": 1}


class FullAtTheEnd(MemoryStore):
    """Has no room for the row that says that a run is done."""

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        if b'"status":"done"' in rows.get("status", b""):
            raise SessionError("The disk is full.")
        super().put(run, fence, rows)


def test_a_run_whose_end_is_not_recorded_says_so_and_has_its_result(
    flow: Durable, model: ScriptedModel
) -> None:
    flow.store = FullAtTheEnd()  # type: ignore[assignment]
    model.enqueue("done")
    assert flow.go(flow.spec("chain", {"steps": steps("go")})).last_response == "done"
    assert [event.text for event in flow.heard(RunNoticed)] == ["The disk is full."]


def test_no_model_is_asked_in_a_run_that_cannot_be_kept(flow: Durable, model: ScriptedModel) -> None:
    with pytest.raises(SessionError, match="full"):
        asyncio.run(run(flow.spec("chain", {"steps": steps("go")}), None, RunOptions(store=FullStore())))
    assert model.requests == []
