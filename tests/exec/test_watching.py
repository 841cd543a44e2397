"""A run that is watched through its rows is shown as the process that runs it shows it."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.cli.board import Board
from strands_cli.errors import StrandsError
from strands_cli.events import Event, RunFinished, RunStarted, StepFinished, StepStarted, ToolStarted
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.exec.watching import RowEvents
from strands_cli.loader.spec import Spec
from tests.exec.flows import Flow, steps
from tests.exec.test_durable import outage
from tests.exec.test_prefixes import AGENTS, CASES, NOTE, agree, answer, ask
from tests.fakes import Call, Pause, ScriptedModel, tool_call

SEND = """
from strands_cli import ToolContext, ToolFailed, tool

@tool(requires_consent={consent})
def send(text: str, context: ToolContext) -> str:
    '''Sends.

    Args:
        text: What.
    '''
    if text == "bad":
        raise ToolFailed("The other side hung up", code="conflict", hint="Try later.")
    return context.interrupt("sure", "Sure?") if text == "ask" else text
"""
BEGUN = {"kind": "agent", "title": "write", "agent": "writer", "model": "ollama m"}
MORE: dict[str, Any] = {
    "agents": AGENTS,
    "tools": {"python": ["./tools/note.py"]},
    "runtime": {"provider": "ollama", "max_parallel": 2},
    "context_policy": {"compaction": {"when_tokens_over": 1000, "preserve_recent_messages": 2}},
}


class WatchedFlow(Flow):
    """A workflow with a journal in memory, and everything that a process tells about its run."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.store, self.run_id = MemoryStore(), ""
        self.rows: list[tuple[str, Any]] = []
        """In the order in which they were put, with all that were replaced."""

    def tool(self, name: str, text: str) -> None:
        self.directory.joinpath("tools").mkdir(exist_ok=True)
        self.directory.joinpath(f"tools/{name}.py").write_text(text)

    def go(self, spec: Spec, **options: Any) -> None:
        """Runs it or resumes it, to whatever end it comes."""
        given = RunOptions(
            listeners=(self.events.append,),
            on_row=lambda key, value: self.rows.append((key, value)),
            directory=self.directory,
            store=self.store,
            resume=self.run_id,
            **options,
        )
        with suppress(StrandsError):
            asyncio.run(run(spec, None, given))
        [self.run_id] = self.store.runs()

    def chain(self, *listed: dict[str, Any], **more: Any) -> Spec:
        return self.spec("chain", {"steps": [*listed]}, **more)

    def shown(self) -> list[str]:
        return lines(self.events)

    def watched(self, *sizes: int) -> list[str]:
        """What somebody shows who reads so many changes at a time; the last size is repeated."""
        return lines(events_of(self.rows, *sizes or (1,)))


def events_of(rows: list[tuple[str, Any]], *sizes: int) -> list[Event]:
    events: list[Event] = []
    watching, at = RowEvents(events.append), 0
    for number in range(len(rows)):
        size = sizes[min(number, len(sizes) - 1)]
        watching.add_all(dict(rows[at : at + size]))
        at += size
    return events


def lines(events: list[Event]) -> list[str]:
    """The lines of progress with all calls, without their times."""
    board = Board(0.0, verbose=True)
    told = [line.plain() for event in events for line in board.take(event, 0.0)]
    return [re.sub(r"\b\d[\d.]* (ms|s)\b", "T", line) for line in told]


def sending(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": "send", "arguments": {"text": text}, **more}


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedFlow:
    monkeypatch.chdir(tmp_path)
    flow = WatchedFlow(tmp_path)
    flow.tool("note", NOTE)
    flow.tool("send", SEND.format(consent=False))
    inner = flow.document("chain", {"steps": [ask("in"), ask("more")]}, **MORE)
    flow.directory.joinpath("inner.yaml").write_text(yaml.safe_dump(inner))
    return flow


# --- As in the process of the run ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_every_pattern_is_shown_as_in_its_own_process(flow: WatchedFlow, case: str) -> None:
    kind, config = CASES[case]
    spec = flow.spec(kind, config, **MORE)
    flow.go(spec, model=ScriptedModel(reply=answer, tokens=3000), ask_human=agree)
    assert any("tool call" in line for line in flow.shown())
    assert case != "chain" or any("context compacted" in line for line in flow.shown())
    assert flow.watched() == flow.shown()


@pytest.mark.parametrize("case", CASES)
def test_it_makes_no_difference_how_many_rows_are_read_at_once(flow: WatchedFlow, case: str) -> None:
    kind, config = CASES[case]
    spec = flow.spec(kind, config, **MORE)
    flow.go(spec, model=ScriptedModel(reply=answer, tokens=3000), ask_human=agree)
    for size in (2, 3, 7, 20, len(flow.rows)):
        assert sorted(flow.watched(size)) == sorted(flow.shown()), size


def test_who_comes_after_the_end_is_shown_all_of_it(flow: WatchedFlow, model: ScriptedModel) -> None:
    model.enqueue("first").enqueue("second")
    flow.go(flow.chain(*steps("one", "two")))
    events: list[Event] = []
    _, rows = flow.store.changed(flow.run_id)
    RowEvents(events.append).add_all({key: decode_row(row) for key, row in rows.items()})
    assert lines(events) == flow.shown()


def test_calls_that_fail_and_requests_that_are_repeated_are_shown(
    flow: WatchedFlow, model: ScriptedModel
) -> None:
    model.enqueue(outage()).enqueue(Call("send", {"text": "bad"}), Call("sand", {"text": "x"}))
    model.enqueue("first")
    runtime = {"provider": "ollama", "failure_policy": {"retries": 1, "wait_s": 0.01}}
    flow.go(flow.chain(*steps("one"), runtime=runtime, tools={"python": ["./tools/send.py"]}))
    assert "again in" in flow.shown()[2]
    for why in ("The other side hung up [conflict]", "Unknown tool: sand [unknown_tool]"):
        assert why in "\n".join(flow.shown())
    assert sorted(flow.watched()) == sorted(flow.shown())


def test_a_step_that_fails_says_why_and_its_run_too(flow: WatchedFlow, model: ScriptedModel) -> None:
    model.enqueue("first").enqueue(outage())
    flow.go(flow.chain(*steps("one", "two", "three")))
    assert flow.shown()[-2:] == [
        "step 2: failed, T, The connection to ollama was lost: connection refused.",
        "flow: failed, T, 10 tokens, 2 steps, 1 failed",
    ]
    assert flow.watched() == flow.shown()


def test_a_tool_step_that_fails_shows_its_call(flow: WatchedFlow) -> None:
    flow.go(flow.chain(sending("fine"), sending("bad"), tools={"python": ["./tools/send.py"]}))
    assert 'step 2: send(text="bad") failed: The other side hung up [conflict], T' in flow.shown()
    assert flow.watched() == flow.shown()
    assert flow.watched(len(flow.rows)) == flow.shown()  # its rows were set aside when they are read


def test_an_answer_that_does_not_fit_is_shown_also_if_its_rows_were_set_aside(
    flow: WatchedFlow, model: ScriptedModel
) -> None:
    model.enqueue(tool_call("note", text="x"))
    for _ in range(8):
        model.enqueue("not data")
    agents = {"worker": {"prompt": "W.", "output_schema": {"type": "integer"}}}
    flow.go(flow.chain(*steps("one"), agents=agents, tools={"python": ["./tools/note.py"]}))
    assert "step 1: failed" in flow.shown()[-2]
    assert flow.watched() == flow.shown()
    assert flow.watched(len(flow.rows)) == flow.shown()


def test_what_another_failure_stops_is_not_shown_as_failed(flow: WatchedFlow, model: ScriptedModel) -> None:
    inner = flow.document("chain", {"steps": steps("in")})
    flow.directory.joinpath("inner.yaml").write_text(yaml.safe_dump(inner))
    model.reply = lambda request: Pause(60) if "slow" in request.prompt else [outage()]
    branches = {"a": [{"workflow": "inner.yaml"}], "b": steps("slow"), "c": [ask("slow", foreach=[1])]}
    config = {"branches": [{"id": name, "steps": listed} for name, listed in branches.items()]}
    flow.go(flow.spec("parallel", config))
    assert "a: step 1: failed, T, The connection to ollama was lost: connection refused." in flow.shown()
    assert flow.shown().count("a: stopped, T, not finished") == 1
    assert flow.shown()[-1] == "flow: failed, T, 5 steps, 1 failed"
    assert sorted(flow.watched()) == sorted(flow.shown())


def test_a_run_that_is_over_its_budget_is_shown_so(flow: WatchedFlow, model: ScriptedModel) -> None:
    model.default_answer = "again"
    runtime = {"provider": "ollama", "budgets": {"max_tokens": 25, "warn_threshold": 0.4}}
    flow.go(flow.chain(*steps("one", "two", "three", "four"), runtime=runtime))
    assert "40 % of the budget of 25 tokens is spent." in flow.shown()
    assert "over budget" in flow.shown()[-1]
    assert flow.watched() == flow.shown()


def test_a_notice_about_a_step_is_shown_with_its_title(flow: WatchedFlow, model: ScriptedModel) -> None:
    agents = {"worker": {"prompt": "W.", "input_schema": {"type": "object"}}}
    model.enqueue("first")
    flow.go(flow.chain({"id": "write", **ask("no JSON")}, agents=agents))
    assert flow.shown()[2] == "write: The input of agent 'worker' is not JSON: its input_schema is not used."
    assert flow.watched() == flow.shown()


@pytest.mark.parametrize("size", [1, 99])
def test_artifacts_are_shown_at_the_end_without_their_sizes(
    flow: WatchedFlow, model: ScriptedModel, size: int
) -> None:
    model.enqueue("first")
    written = [{"path": f"./{name}.md", "from": "{{ last_response }}"} for name in ("a", "b")]
    flow.go(flow.chain(*steps("one"), outputs={"artifacts": written}))
    assert flow.shown()[-2:] == [f"wrote {flow.directory}/{name}.md, 5 B" for name in ("a", "b")]
    assert flow.watched(size) == [line.removesuffix(", 5 B") for line in flow.shown()]


# --- People, and runs that go on -----------------------------------------------------------------------------


def test_a_step_that_asks_a_person_waits_while_the_others_go_on(
    flow: WatchedFlow, model: ScriptedModel
) -> None:
    model.default_answer = "done"
    human = {"id": "ok", "human": {"prompt": "Fine?"}}
    inner = flow.document("chain", {"steps": [human]}, agents={})
    flow.directory.joinpath("inner.yaml").write_text(yaml.safe_dump(inner))
    branches = {"a": [*steps("one"), human], "b": steps("two"), "c": [{"workflow": "inner.yaml"}]}
    config = {"branches": [{"id": name, "steps": listed} for name, listed in branches.items()]}
    flow.go(flow.spec("parallel", config))
    assert {"a: ok: stopped, T, waits for an answer", "c: stopped, T, waits for an answer"} < {*flow.shown()}
    assert flow.shown()[-1] == "flow: stopped, T, 20 tokens, paused, 5 steps, 2 waiting"
    for size in (1, 5, 99):
        assert sorted(flow.watched(size)) == sorted(flow.shown())


@pytest.mark.parametrize("text", ["hi", "ask"])
def test_consent_and_the_questions_of_tools_are_waited_for(
    flow: WatchedFlow, model: ScriptedModel, text: str
) -> None:
    flow.tool("send", SEND.format(consent=text != "ask"))
    model.enqueue(tool_call("send", text=text)).enqueue("sent")
    spec = flow.chain(*steps("one"), tools={"python": ["./tools/send.py"]})
    flow.go(spec)
    assert flow.shown()[-2] == "step 1: stopped, T, 10 tokens, waits for an answer"
    assert flow.watched() == flow.shown()


def test_a_run_that_goes_on_is_shown_from_where_it_was(flow: WatchedFlow, model: ScriptedModel) -> None:
    model.enqueue("first").enqueue("third")
    human = {"id": "ok", "human": {"prompt": "Fine?"}}
    spec = flow.chain(*steps("one"), human, *steps("three"))
    flow.go(spec)
    flow.go(spec, ask_human=agree)
    events = events_of(flow.rows, 1)
    begun = [event.step for event in events if isinstance(event, StepStarted)]
    ended = [(event.step, event.waiting) for event in events if isinstance(event, StepFinished)]
    assert begun == ["steps/0", "steps/1", "steps/1", "steps/2"]
    assert ended == [("steps/0", False), ("steps/1", True), ("steps/1", False), ("steps/2", False)]
    assert [event.outcome for event in events if isinstance(event, RunFinished)] == ["paused", "done"]
    assert sum(isinstance(event, RunStarted) for event in events) == 2
    later = lines(events_of(flow.rows, len(flow.rows)))  # for who comes now, nothing has waited
    assert later[-1] == "flow: done, T, 20 tokens, 3 steps"
    assert not any("waits" in line for line in later)


@pytest.mark.parametrize("case", ["items", "branches"])
def test_a_run_that_another_worker_takes_over_starts_no_step_twice(flow: WatchedFlow, case: str) -> None:
    kind, config = CASES[case]
    spec = flow.spec(kind, config, **MORE)
    flow.go(spec, model=ScriptedModel(reply=answer, tokens=3000), ask_human=agree)
    whole, rows = flow.shown(), flow.rows
    cuts = [number for number, (key, _) in enumerate(rows, 1) if "/tool/" in key or key.endswith("begun")]
    for cut in cuts[::4]:
        flow.rows, flow.store = rows[:cut], MemoryStore()  # the first worker ends here, without a word
        fence = flow.store.take(flow.run_id)
        flow.store.put(flow.run_id, fence, {key: encode_row(value) for key, value in flow.rows})
        flow.store.release(flow.run_id, fence)
        flow.go(spec, model=ScriptedModel(reply=answer, tokens=3000), ask_human=agree)
        assert sorted(flow.watched()) == sorted(whole), rows[cut - 1][0]


def test_a_question_that_is_set_aside_and_asked_again_is_waited_for_again() -> None:
    key, asked = "steps/0/consent/1/question", {"kind": "consent", "question": "Allow it?", "title": "write"}
    paused, running = ("status", {"status": "paused"}), ("status", {"status": "running"})
    before: list[tuple[str, Any]] = [
        ("head", {"name": "flow"}),
        ("steps/0/begun", BEGUN),
        (key, asked),
        paused,
    ]
    rows: list[tuple[str, Any]] = [*before, running, (key, None), (key, asked), paused]
    told = [line for line in lines(events_of(rows, 1)) if line.startswith("write")]
    assert told == 2 * ["write: started, writer, ollama m", "write: stopped, T, waits for an answer"]


def test_a_step_that_goes_on_without_an_answer_does_not_wait() -> None:
    asked = {"kind": "consent", "question": "Allow it?", "title": "write"}
    result = {"toolUseId": "1", "status": "success", "content": [{"text": "sent"}]}
    rows: list[tuple[str, Any]] = [
        ("head", {"name": "flow"}),
        ("steps/0/begun", BEGUN),
        ("steps/0/consent/1/question", asked),
        ("steps/0/tool/1/0", {"tool": "send", "result": result}),  # the settings allow it by now
    ]
    assert activity(rows) == "waiting for ollama m"
    assert not any("waits" in line for line in lines(events_of(rows, 4)))


def test_a_running_step_that_begins_again_is_not_started_again() -> None:
    said = {"content": [{"text": "Write."}]}
    answer = {"message": {"content": [{"text": "Here."}]}, "usage": {"input_tokens": 7}}
    begun = [("steps/0/begun", BEGUN), ("steps/0/user/1", said), ("steps/0/model/1", answer)]
    rows: list[tuple[str, Any]] = [("head", {"name": "flow"}), *begun, *begun]
    rows += [("steps/0/failed", {"error": "Lost."}), ("status", {"status": "failed"})]
    assert lines(events_of(rows, 1))[1:] == [
        "write: started, writer, ollama m",
        "write: failed, T, 7 tokens, Lost.",
        "flow: failed, T, 1 step, 1 failed",
    ]


# --- While it runs -------------------------------------------------------------------------------------------


def activity(rows: list[tuple[str, Any]]) -> str:
    """What the display says of the only running step."""
    board = Board(0.0, verbose=False)
    for event in events_of(rows, 1):
        board.take(event, 0.0)
    [line] = board.still_running(0.0)
    return line.rest


def test_a_running_call_is_shown_until_its_result_comes(flow: WatchedFlow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("note", text="x")).enqueue("first")
    spec = flow.chain(*steps("one"), tools={"python": ["./tools/note.py"]})
    flow.go(spec)
    keys = [key for key, _ in flow.rows]
    [asked], [called] = (
        [at for at, key in enumerate(keys, 1) if part in key] for part in ("model/1", "tool/")
    )
    assert activity(flow.rows[:asked]) == "calling note"
    assert activity(flow.rows[:called]) == "waiting for ollama scripted"


def test_a_tool_step_shows_its_call_from_the_beginning(flow: WatchedFlow) -> None:
    flow.go(flow.chain(sending("http://me:secret@host/"), tools={"python": ["./tools/send.py"]}))
    begun = next(at for at, (key, _) in enumerate(flow.rows, 1) if key.endswith("begun"))
    assert activity(flow.rows[:begun]) == "calling send"
    [started] = [event for event in events_of(flow.rows, 1) if isinstance(event, ToolStarted)]
    assert started.arguments == flow.heard(ToolStarted)[0].arguments
    assert "secret" not in str(started)


def test_the_rows_of_a_transaction_come_before_its_status_wherever_it_stands() -> None:
    rows = {
        "head": {"name": "flow", "pattern": "chain"},
        "steps/0/begun": BEGUN,
        "status": {"status": "done", "seconds": 2.0},
        "steps/0/result": {"at": 2.0, "seconds": 2.0, "usage": {"input_tokens": 7}},
    }
    assert lines(events_of([*rows.items()], 4)) == [
        "flow (chain)",
        "write: started, writer, ollama m",
        "write: done, T, 7 tokens",
        "flow: done, T, 1 step",
    ]
