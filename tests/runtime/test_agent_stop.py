"""Long and stopped invocations of a real `strands.Agent`: nothing is lost, and the history can be sent on."""

import asyncio
import threading
import time
from typing import Any

import pytest
from strands.types.exceptions import EventLoopException

from strands_cli import CallContext, ToolContext, tool
from strands_cli.errors import ToolFailed
from strands_cli.runtime.model_requests import STOPPED_TEXT, invoke_in_slices, stream_in_slices
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import Tool
from tests.fakes import Pause, history_problems, tool_call
from tests.runtime.agents import Consent, Setting, add, codes, consent_tools, spec

pytestmark = pytest.mark.usefixtures("is_own")


def invoke_long(turns: int) -> Setting:
    setting = Setting(add)
    for _ in range(turns):
        setting.model.enqueue(tool_call("add", a=1))
    setting.model.enqueue("done")
    result = asyncio.run(invoke_in_slices(setting.agent, "go"))
    assert result.stop_reason == "end_turn"
    assert len(setting.model.requests) == turns + 1
    assert result.metrics.accumulated_usage["totalTokens"] == 10 * (turns + 1)
    assert setting.is_own or result.metrics.tool_metrics["add"].call_count == turns
    assert history_problems(setting.agent.messages) == []
    return setting


def test_an_invocation_of_sixty_turns() -> None:
    invoke_long(60)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_invocation_of_a_thousand_turns() -> None:
    invoke_long(1000)


@pytest.mark.parametrize(
    ("limits", "reason", "asked"),
    [
        ({"turns": 7}, "limit_turns", 7),
        ({"total_tokens": 95}, "limit_total_tokens", 10),
        ({"output_tokens": 40, "turns": 30}, "limit_output_tokens", 8),
    ],
)
def test_limits_hold_for_all_slices_together(limits: Any, reason: str, asked: int) -> None:
    setting = Setting(add)
    for _ in range(40):
        setting.model.enqueue(tool_call("add"))

    async def watch() -> list[Any]:
        return [event async for event in stream_in_slices(setting.agent, "go", turns=3, limits=limits)]

    events = asyncio.run(watch())
    results = [event["result"] for event in events if "result" in event]
    assert [result.stop_reason for result in results] == [reason]
    assert "result" in events[-1]
    assert len(setting.model.requests) == asked


def slow_tool(started: threading.Event, name: str = "slow") -> Tool:
    @tool(spec=spec(name), timeout=20)
    def slow(context: ToolContext) -> str:
        started.set()
        while not context.cancelled:
            time.sleep(0.01)
        return "stopped"

    return slow


@pytest.mark.parametrize("how", ["equipment", "run", "agent"])
def test_a_stop_ends_running_calls_and_leaves_a_history_that_takes_a_new_prompt(how: str) -> None:
    started, run = threading.Event(), Cancellation()
    setting = Setting(slow_tool(started), add, context=CallContext(cancel=run))
    setting.model.enqueue(tool_call("slow"), tool_call("add")).enqueue("never said")
    stops = {"equipment": setting.equipment.stop, "run": run.set, "agent": setting.agent.cancel}

    def stop() -> None:
        assert started.wait(5)
        stops[how]()

    async def through() -> Any:
        waiting = threading.Thread(target=stop)
        waiting.start()
        return await asyncio.wait_for(invoke_in_slices(setting.agent, "go"), 10)

    begun = time.monotonic()
    result = asyncio.run(through())
    assert time.monotonic() - begun < 5
    assert result.stop_reason == "cancelled"
    assert len(setting.model.requests) == 1
    messages = setting.agent.messages
    assert history_problems(messages) == []
    slow, quick = codes([block["toolResult"] for block in messages[2]["content"]])
    assert slow == "cancelled"
    assert quick in (None, "cancelled"), "it may not have begun yet"
    if how != "agent":
        assert messages[-1] == {**messages[-1], "role": "assistant", "content": [{"text": STOPPED_TEXT}]}


@pytest.mark.parametrize("how", ["equipment", "agent"])
def test_a_call_that_waits_for_another_does_not_start_after_a_stop(how: str) -> None:
    ran: list[str] = []

    @tool(spec=spec("write", {"n": {"type": "string"}}), effects={"writes": ["database"]}, timeout=20)
    async def write(n: str = "") -> None:
        ran.append(n)
        {"equipment": setting.equipment.stop, "agent": setting.agent.cancel}[how]()
        await asyncio.sleep(10)

    setting = Setting(write)
    setting.model.enqueue(tool_call("write", n="1"), tool_call("write", n="2"))
    begun = time.monotonic()
    assert setting.agent("go").stop_reason == "cancelled"
    assert time.monotonic() - begun < 5
    assert ran == ["1"]
    results = [block["toolResult"] for block in setting.agent.messages[2]["content"]]
    assert codes(results) == ["cancelled", "cancelled"]
    assert history_problems(setting.agent.messages) == []


def test_a_stop_while_calls_are_starting_ends_all_that_have_started() -> None:
    begun: list[str] = []
    ended: list[str] = []

    @tool(spec=spec("work", {"n": {"type": "string"}}), timeout=20)
    async def work(n: str = "") -> str:
        begun.append(n)
        try:
            if n == "3":
                setting.equipment.stop()
            await asyncio.sleep(0 if n == "1" else 10)
        finally:
            ended.append(n)
        return n

    async def through() -> None:
        result = await asyncio.wait_for(setting.agent.invoke_async("go"), 5)
        assert result.stop_reason == "cancelled"
        await asyncio.sleep(0.1)
        assert sorted(ended) == sorted(begun)

    setting = Setting(work)
    setting.model.enqueue(*[tool_call("work", n=str(n)) for n in range(50)])
    asyncio.run(through())
    results = [block["toolResult"] for block in setting.agent.messages[2]["content"]]
    assert len(results) == 50
    assert set(codes(results)) <= {None, "cancelled"}
    assert history_problems(setting.agent.messages) == []


@pytest.mark.parametrize("moments", range(6))
def test_no_body_goes_on_after_its_caller_was_cancelled_while_calls_were_starting(moments: int) -> None:
    first = asyncio.Event()
    begun: list[str] = []
    ended: list[str] = []

    @tool(spec=spec("work", {"n": {"type": "string"}}), timeout=20)
    async def work(n: str = "") -> None:
        first.set()
        begun.append(n)
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(n)

    async def through() -> None:
        invocation = asyncio.create_task(setting.agent.invoke_async("go"))
        await first.wait()
        for _ in range(moments):
            await asyncio.sleep(0)
        invocation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await invocation
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left or not (await asyncio.wait(left, timeout=5))[1]
        assert sorted(ended) == sorted(begun)

    setting = Setting(work)
    setting.model.enqueue(*[tool_call("work", n=str(n)) for n in range(30)])
    asyncio.run(through())


def test_a_call_that_failed_before_a_stop_keeps_its_own_error() -> None:
    @tool(spec=spec("work", {"n": {"type": "string"}}), timeout=20)
    async def work(n: str = "") -> None:
        if n == "0":
            raise ToolFailed("There is no such page", code="not_found")
        setting.equipment.stop()
        await asyncio.sleep(10)

    setting = Setting(work)
    setting.model.enqueue(tool_call("work", n="0"), tool_call("work", n="1"))
    assert setting.agent("go").stop_reason == "cancelled"
    results = [block["toolResult"] for block in setting.agent.messages[2]["content"]]
    assert codes(results) == ["not_found", "cancelled"]


def test_an_agent_of_a_run_that_is_stopped_already_asks_nobody_anything() -> None:
    run = Cancellation()
    run.set()
    setting = Setting(add, context=CallContext(cancel=run))
    assert setting.agent("go").stop_reason == "cancelled"
    setting.equipment.renew()
    assert setting.agent("go").stop_reason == "cancelled"
    assert setting.model.requests == []
    assert history_problems(setting.agent.messages) == []


def test_a_stopped_agent_goes_on_when_it_is_renewed() -> None:
    started = threading.Event()
    setting = Setting(slow_tool(started), add)
    setting.model.enqueue(tool_call("slow"))

    async def stop_soon() -> None:
        await asyncio.to_thread(started.wait, 5)
        setting.equipment.stop()

    async def through() -> None:
        result, _ = await asyncio.gather(setting.agent.invoke_async("go"), stop_soon())
        assert result.stop_reason == "cancelled"
        assert (await invoke_in_slices(setting.agent, "again")).stop_reason == "cancelled"
        assert len(setting.model.requests) == 1, "a stopped agent asks no model"
        setting.equipment.renew()
        assert codes(await setting.turn_async(tool_call("add"))) == [None]

    asyncio.run(through())


def test_a_model_that_is_silent_does_not_hold_up_a_stop() -> None:
    setting = Setting(add)
    setting.model.enqueue("begin", Pause(30), "end")

    async def through() -> Any:
        asyncio.get_running_loop().call_later(0.1, setting.equipment.stop)
        return await asyncio.wait_for(setting.agent.invoke_async("go"), 10)

    begun = time.monotonic()
    result = asyncio.run(through())
    assert (result.stop_reason, time.monotonic() - begun < 5) == ("cancelled", True)
    assert history_problems(setting.agent.messages) == []


def test_a_stop_between_two_slices_is_not_lost() -> None:
    setting = Setting(add)
    for _ in range(9):
        setting.model.enqueue(tool_call("add"))

    async def through() -> Any:
        result = None
        async for event in stream_in_slices(setting.agent, "go", turns=2):
            result = event.get("result") or result
            if event.get("init_event_loop") and len(setting.model.requests) == 4:
                setting.equipment.stop()
        return result

    assert asyncio.run(through()).stop_reason == "cancelled"
    assert len(setting.model.requests) == 4
    assert history_problems(setting.agent.messages) == []


def test_what_a_model_raises_is_raised() -> None:
    setting = Setting(add)
    setting.model.enqueue(tool_call("add")).enqueue(ConnectionError("gone"))
    with pytest.raises(EventLoopException, match="gone") as caught:
        setting.agent("go")
    assert isinstance(caught.value.original_exception, ConnectionError)
    assert history_problems(setting.agent.messages) == []


def test_consent_is_not_asked_when_the_run_is_stopped() -> None:
    _, tools = consent_tools()
    consent = Consent(True)
    setting = Setting(*tools, ask_consent=consent)
    setting.model.enqueue(Pause(0.05), tool_call("send"))

    async def through() -> Any:
        async for event in setting.agent.stream_async("go"):
            if "message" in event:
                setting.agent.cancel()
        return event["result"]

    assert asyncio.run(through()).stop_reason == "cancelled"
    assert consent.asked == []
    results = [block["toolResult"] for block in setting.agent.messages[2]["content"]]
    assert codes(results) == ["cancelled"], "what the SDK answers has our shape, too"
