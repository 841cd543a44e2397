"""Many calls in one turn of a real `strands.Agent`: their order, consent to them, questions to a human."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from strands.hooks import BeforeToolCallEvent
from strands.tools.executors import SequentialToolExecutor

from strands_cli import CallContext, ToolContext, ToolFailed, tool
from strands_cli.runtime.agent_hooks import ModelTurn, PendingCall
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.schedule import Turn
from tests.fakes import history_problems, tool_call
from tests.runtime.agents import (
    Consent,
    Log,
    Setting,
    add,
    answers,
    code_of,
    codes,
    consent_tools,
    spec,
    text_of,
)

READS = {"reads": ["file:{path}"]}
WRITES = {"writes": ["file:{path}"]}

NO_HOOKS = "nobody adds hooks to an agent of a run"


pytestmark = pytest.mark.usefixtures("is_own")


def test_conflicting_writes_keep_their_order_and_independent_reads_run_together() -> None:
    log = Log()
    write = log.tool("write", effects=WRITES)
    read = log.tool("read", effects=READS)
    setting = Setting(write, read)
    parts = [tool_call("write", path="x"), tool_call("write", path="x")]
    parts += [tool_call("read", path=name) for name in ("a", "b", "c")]
    results = setting.turn(*parts)
    assert [text_of(result) for result in results] == ["x", "x", "a", "b", "c"]
    writes = [line for line in log.lines if "write" in line]
    assert writes == ["+write x", "-write x", "+write x", "-write x"]
    assert log.most == 4, "one write and three reads at the same time"


def test_a_read_waits_for_the_write_before_it_even_if_that_fails() -> None:
    log = Log()

    @tool(spec=spec("write", {"path": {"type": "string"}}), effects=WRITES, timeout=0.1)
    async def write(path: str = "") -> None:
        log.lines.append("+write")
        await asyncio.sleep(5)

    read = log.tool("read", effects=READS)
    results = Setting(write, read).turn(tool_call("write", path="x"), tool_call("read", path="x"))
    assert codes(results) == ["timeout", None]
    assert log.lines == ["+write", "+read x", "-read x"]


def test_a_call_that_a_hook_cancels_holds_nobody_up(is_own: bool) -> None:
    if is_own:
        pytest.skip(NO_HOOKS)
    log = Log()
    write = log.tool("write", effects=WRITES)
    setting = Setting(write)

    def refuse(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["path"] == "x" and not log.lines:
            event.cancel_tool = "not this one"

    setting.agent.add_hook(refuse, BeforeToolCallEvent)
    results = setting.turn(tool_call("write", path="x"), tool_call("write", path="x"))
    assert codes(results)[0] == "denied"
    assert text_of(results[0]) == "not this one"
    assert len(results) == 2


def test_consent_is_asked_once_per_turn_before_any_body_starts() -> None:
    ran, tools = consent_tools()
    before: list[list[str]] = []

    class Watching(Consent):
        async def __call__(self, calls: Sequence[PendingCall]) -> list[str]:
            before.append(list(ran))
            return await super().__call__(calls)

    consent = Watching(True)
    setting = Setting(*tools, add, ask_consent=consent)
    parts = [
        tool_call("add"),
        tool_call("send", n="1"),
        tool_call("send", n=2),
        tool_call("delete", n="x"),
        tool_call("delete", n=4),
    ]
    assert codes(setting.turn(*parts)) == [None, None, None, "input_invalid", None]
    assert consent.asked == [[("send", {"n": 1}), ("send", {"n": 2}), ("delete", {"n": 4})]]
    assert before == [[]]
    assert sorted(ran) == ["delete4", "send1", "send2"]
    setting.turn(tool_call("add"))
    assert len(consent.asked) == 1, "nothing to ask about"


def test_what_is_refused_does_not_run_and_what_is_granted_does() -> None:
    ran, tools = consent_tools()
    results = Setting(*tools, ask_consent=Consent(["send"])).turn(tool_call("send"), tool_call("delete"))
    assert codes(results) == [None, "denied"]
    assert ran == ["send0"]


def test_without_anybody_to_ask_consent_is_missing_and_a_permit_decides_where_there_is_one() -> None:
    ran, tools = consent_tools()

    async def permit(judged: Tool, arguments: dict[str, Any]) -> None:
        if judged.id == "delete":
            raise ToolFailed("never", code="denied")

    assert codes(Setting(*tools).turn(tool_call("send"))) == ["consent_required"]
    results = Setting(*tools, context=CallContext(permit=permit)).turn(tool_call("send"), tool_call("delete"))
    assert codes(results) == [None, "denied"]
    both = Setting(*tools, context=CallContext(permit=permit), ask_consent=Consent(True))
    assert codes(both.turn(tool_call("send"), tool_call("delete"))) == [None, "denied"]
    assert ran == ["send0", "send0"]


def test_a_tool_that_a_granted_body_calls_is_asked_about_itself() -> None:
    ran, tools = consent_tools()

    @tool(spec=spec("outer"), requires_consent=True)
    async def outer(context: ToolContext) -> str:
        return str(await context.call("delete"))

    consent = Consent(["outer"])
    (result,) = Setting(outer, *tools, ask_consent=consent).turn(tool_call("outer"))
    assert code_of(result) == "denied"
    assert [[name for name, _ in asked] for asked in consent.asked] == [["outer"], ["delete"]]
    assert ran == []


@tool(spec=spec("ask"))
def ask(context: ToolContext) -> str:
    try:
        return f"they said {context.interrupt('sure?', {'about': 'it'})}"
    except Exception:  # noqa: BLE001 - as bodies do; a question to a human passes through it
        return "swallowed"


@tool(spec=spec("ask_async"))
async def ask_async(context: ToolContext) -> str:
    return f"they said {await context.interrupt('sure?')}"


@pytest.mark.parametrize("name", ["ask", "ask_async"])
def test_a_body_that_asks_a_human_goes_on_with_the_answer(name: str) -> None:
    ran: list[str] = []

    @tool(spec=spec("once"), requires_consent=True)
    def once() -> str:
        ran.append("once")
        return "one"

    consent = Consent(True)
    setting = Setting(ask, ask_async, once, ask_consent=consent)
    setting.model.enqueue(tool_call(name), tool_call("once")).enqueue("done")

    async def through() -> None:
        result = await setting.agent.invoke_async("go")
        assert result.stop_reason == "interrupt"
        assert [item.name for item in result.interrupts or []] == ["sure?"]
        result = await setting.agent.invoke_async(answers(result, "yes"))
        assert result.stop_reason == "end_turn"

    asyncio.run(through())
    results = setting.model.requests[-1].results
    assert [text_of(result) for result in results] == ["they said yes", "one"], "in request order"
    assert ran == ["once"], "what was finished is not done again"
    assert len(consent.asked) == 1
    assert history_problems(setting.agent.messages) == []


@pytest.mark.parametrize("by_hook", [False, True])
def test_what_depends_on_an_interrupted_call_is_blocked_and_nothing_else(by_hook: bool, is_own: bool) -> None:
    if by_hook and is_own:
        pytest.skip(NO_HOOKS)
    log = Log()
    write = log.tool("write", effects=WRITES)

    @tool(spec=spec("edit", {"path": {"type": "string"}}), effects=WRITES)
    async def edit(context: ToolContext, path: str = "") -> str:
        return path if by_hook else str(await context.interrupt("sure?"))

    setting = Setting(edit, write)

    def gate(event: BeforeToolCallEvent) -> None:
        if by_hook and event.tool_use["name"] == "edit":
            event.interrupt("sure?")

    setting.agent.add_hook(gate, BeforeToolCallEvent)
    parts = [tool_call("edit", path="x"), tool_call("write", path="x"), tool_call("write", path="y")]
    setting.model.enqueue(*parts).enqueue("done")

    async def through() -> None:
        result = await asyncio.wait_for(setting.agent.invoke_async("go"), 10)
        assert result.stop_reason == "interrupt"
        await asyncio.wait_for(setting.agent.invoke_async(answers(result, "yes")), 10)

    asyncio.run(through())
    assert codes(setting.model.requests[-1].results) == [None, "blocked", None]
    assert log.lines == ["+write y", "-write y"]
    assert history_problems(setting.agent.messages) == []


@pytest.mark.parametrize("is_answered", [False, True])
def test_calls_of_one_id_are_watched_each_for_itself(is_answered: bool) -> None:
    write = Log().tool("write", effects=WRITES)
    turn = ModelTurn(1, {"role": "assistant", "content": []})

    async def make_call(after: asyncio.Task[None] | None, asks_a_human: bool) -> None:
        turn.watch("same")
        await (after or asyncio.sleep(0.01))
        if asks_a_human:
            return
        async with turn.schedule.slot("same"):
            await asyncio.sleep(0.01)
        turn.answer("same")

    async def through() -> None:
        turn.schedule = Turn([(call_id, write, {"path": "x"}) for call_id in ("same", "same", "other")])
        first = asyncio.create_task(make_call(None, False))
        second = asyncio.create_task(make_call(first, not is_answered))
        async with turn.schedule.slot("other"):
            assert first.done()
        await second

    with nullcontext() if is_answered else pytest.raises(ToolFailed, match="waits for a human"):
        asyncio.run(asyncio.wait_for(through(), 10))


@pytest.mark.parametrize("was_interrupted", [False, True])
def test_a_restored_agent_does_not_wait_for_calls_that_another_one_finished(was_interrupted: bool) -> None:
    log = Log()
    write = log.tool("write", effects=WRITES)

    @tool(spec=spec("edit", {"path": {"type": "string"}}), effects=WRITES)
    async def edit(context: ToolContext, path: str = "") -> str:
        return str(await context.interrupt("sure?"))

    first, second = Setting(edit, write), Setting(edit, write)
    first.model.enqueue(tool_call("write", path="x"), tool_call("edit", path="x"))
    second.model.enqueue(tool_call("edit", path="y")).enqueue("done")

    async def through() -> None:
        result = await first.agent.invoke_async("go")
        if was_interrupted:
            assert (await second.agent.invoke_async("go")).stop_reason == "interrupt"
        else:
            second.model.answers.popleft()
        second.agent.load_snapshot(first.agent.take_snapshot(preset="session"))
        result = await asyncio.wait_for(second.agent.invoke_async(answers(result, "yes")), 10)
        assert result.stop_reason == "end_turn"

    asyncio.run(through())
    assert [text_of(result) for result in second.model.requests[-1].results] == ["x", "yes"]
    assert log.lines == ["+write x", "-write x"]


def test_the_sequential_executor_works_too() -> None:
    log = Log()
    write = log.tool("write", effects=WRITES)
    setting = Setting(write, ask_async, tool_executor=SequentialToolExecutor())
    assert codes(setting.turn(tool_call("write", path="x"), tool_call("write", path="x"))) == [None, None]
    setting.model.enqueue(tool_call("ask_async"), tool_call("write", path="z")).enqueue("done")

    async def through() -> None:
        result = await setting.agent.invoke_async("go")
        await setting.agent.invoke_async(answers(result, "yes"))

    asyncio.run(through())
    assert history_problems(setting.agent.messages) == []
    assert [text_of(result) for result in setting.model.requests[-1].results] == ["they said yes", "z"]
