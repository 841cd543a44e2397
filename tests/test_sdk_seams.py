"""What we rest on in the SDK, one test per seam. When all pass on a new release, its upper bound may be raised.

Some seams are defects that we work around: when such a test fails, the work-around may go.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from strands import Agent
from strands.hooks import (
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
)
from strands.interrupt import Interrupt, InterruptException
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.types.events import ModelStopReason, ToolResultEvent
from strands.types.tools import ToolGenerator, ToolUse

from strands_cli.toolkit.bridge import is_engine_key
from tests.fakes import Call, ScriptedModel, tool_call
from tests.runtime.probes import Asking, Probe, result_of
from tests.runtime.spans import exported_spans


def agent_with(*tools: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel()
    return Agent(model=model, tools=list(tools), callback_handler=None, **options), model


def texts(model: ScriptedModel) -> list[str]:
    return [result["content"][0]["text"] for result in model.requests[-1].results]


def answer(result: Any, text: str = "yes") -> list[Any]:
    return [{"interruptResponse": {"interruptId": item.id, "response": text}} for item in result.interrupts]


# --- tools ------------------------------------------------------------------------------------------------


def test_an_iterable_is_taken_for_a_collection_of_tools() -> None:
    class Holder:
        def __iter__(self) -> Any:
            yield Probe()

    agent, _ = agent_with(Holder())
    assert agent.tool_names == ["probe"]


def test_a_raw_value_of_a_stream_becomes_a_tool_stream_event_and_a_result_event_the_result() -> None:
    agent, model = agent_with(Probe())
    model.enqueue(tool_call("probe")).enqueue("bye")

    async def watch() -> list[Any]:
        return [
            event["tool_stream_event"]
            async for event in agent.stream_async("go")
            if "tool_stream_event" in event
        ]

    (event,) = asyncio.run(watch())
    assert (event["tool_use"]["name"], event["data"]) == ("probe", "half")
    assert texts(model) == ["done"]


def test_an_interrupt_exception_from_a_stream_pauses_the_agent_and_the_answer_comes_on_resume() -> None:
    agent, model = agent_with(Asking())
    model.enqueue(tool_call("probe")).enqueue("bye")
    result = agent("go")
    assert (result.stop_reason, [item.name for item in result.interrupts or []]) == ("interrupt", ["sure?"])
    agent(answer(result))
    assert texts(model) == ["yes"]


def test_a_subclass_of_interrupt_exception_with_a_text_of_its_own_is_taken_too() -> None:
    class Discreet(InterruptException):
        def __str__(self) -> str:
            return "discreet"

    class Raising(Probe):
        async def stream(
            self, tool_use: ToolUse, invocation_state: dict[str, Any], **_: Any
        ) -> ToolGenerator:
            raise Discreet(Interrupt(id="i", name="sure?", reason="secret"))
            yield

    agent, model = agent_with(Raising())
    model.enqueue(tool_call("probe"))
    assert agent("go").stop_reason == "interrupt"


def test_all_that_the_sdk_adds_to_the_invocation_state_has_a_name_that_we_know() -> None:
    probe = Probe()
    agent, model = agent_with(probe)
    model.enqueue(tool_call("probe")).enqueue(tool_call("probe")).enqueue("bye")
    state = {"mine": 1}
    agent("go", invocation_state=state)
    unknown = [name for _, seen in probe.seen for name in seen if not is_engine_key(name)]
    assert unknown == ["mine", "mine"]
    assert [name for name in state if not is_engine_key(name)] == ["mine"], (
        "it is the caller's own dictionary"
    )


def test_a_property_without_a_type_is_advertised_as_a_string() -> None:
    agent, _ = agent_with(Probe(a={"enum": [1, 2]}, b={"anyOf": [{"type": "integer"}]}))
    schema = agent.tool_registry.get_all_tools_config()["probe"]["inputSchema"]["json"]
    assert schema["properties"]["a"]["type"] == "string"
    assert "type" not in schema["properties"]["b"]


def test_tools_are_looked_up_by_name_in_two_public_tables() -> None:
    probe = Probe()
    agent, _ = agent_with(probe)
    assert agent.tool_registry.registry["probe"] is probe
    assert agent.tool_registry.dynamic_tools == {}


# --- the model's side -------------------------------------------------------------------------------------


def test_malformed_input_becomes_an_empty_object_and_its_text_is_in_the_chunks() -> None:
    probe = Probe()
    agent, model = agent_with(probe)
    chunks: list[Any] = []

    async def listen(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        async for event in next_fn(context):
            chunks.append(event.get("event"))
            yield event

    agent.add_middleware(InvokeModelStage, listen)
    model.enqueue(Call("probe", '{"a": ', pieces=2)).enqueue("bye")
    agent("go")
    assert probe.seen[0][0]["input"] == {}
    deltas = [
        chunk["contentBlockDelta"]["delta"] for chunk in chunks if chunk and "contentBlockDelta" in chunk
    ]
    assert "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta) == '{"a": '


def test_what_a_middleware_changes_in_the_answer_is_called_and_kept() -> None:
    probe = Probe()
    agent, model = agent_with(probe)

    async def change(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        async for event in next_fn(context):
            if isinstance(event, ModelStopReason):
                for block in event.message["content"]:
                    if "toolUse" in block:
                        block["toolUse"]["input"] = {"changed": True}
            yield event

    agent.add_middleware(InvokeModelStage, change)
    model.enqueue(tool_call("probe")).enqueue("bye")
    agent("go")
    assert probe.seen[0][0]["input"] == {"changed": True}
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {"changed": True}


def test_a_middleware_may_answer_in_the_models_place_that_the_run_is_cancelled() -> None:
    agent, model = agent_with()

    async def stop(_context: Any, _next_fn: Any) -> AsyncGenerator[Any, None]:
        yield ModelStopReason(
            stop_reason="cancelled",
            message={"role": "assistant", "content": [{"text": "stopped"}]},
            usage={"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
            metrics={"latencyMs": 0},
        )

    agent.add_middleware(InvokeModelStage, stop)
    assert agent("go").stop_reason == "cancelled"
    assert model.requests == []
    assert agent.messages[-1]["content"] == [{"text": "stopped"}]


def test_the_model_gets_a_deep_copy_of_the_messages_of_its_request() -> None:
    class Hidden(list[Any]):
        def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
            return [{"role": "user", "content": [{"text": "copied"}]}]

    agent, model = agent_with()

    async def hide(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        async for event in next_fn(context.replace(messages=Hidden())):
            yield event

    agent.add_middleware(InvokeModelStage, hide)
    model.enqueue("bye")
    agent("go")
    assert model.requests[-1].prompt == "copied"


# --- a turn -----------------------------------------------------------------------------------------------


def test_an_unknown_tool_reaches_the_middleware_which_may_answer() -> None:
    agent, model = agent_with(Probe())

    async def reply(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        assert context.tool is None
        yield ToolResultEvent(result_of(context.tool_use, "mine"))

    agent.add_middleware(ExecuteToolStage, reply)
    model.enqueue(tool_call("nothing")).enqueue("bye")
    agent("go")
    assert texts(model) == ["mine"]


def test_a_middleware_may_answer_a_call_and_the_sdk_counts_none() -> None:
    agent, model = agent_with(Probe())

    async def reply(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        yield ToolResultEvent(result_of(context.tool_use, "mine"))

    agent.add_middleware(ExecuteToolStage, reply)
    model.enqueue(tool_call("probe")).enqueue("bye")
    assert agent("go").metrics.tool_metrics == {}
    assert texts(model) == ["mine"]


def test_a_call_gets_the_tool_use_and_the_state_that_a_middleware_gives_it_alone() -> None:
    probe = Probe()
    agent, model = agent_with(probe)

    async def give(context: Any, next_fn: Any) -> AsyncGenerator[Any, None]:
        use = {**context.tool_use, "input": "raw text"}
        state = {**context.invocation_state, "ours": 1}
        async for event in next_fn(context.replace(tool_use=use, invocation_state=state)):
            yield event

    agent.add_middleware(ExecuteToolStage, give)
    model.enqueue(tool_call("probe", a=1)).enqueue("bye")
    state: dict[str, Any] = {}
    agent("go", invocation_state=state)
    use, seen = probe.seen[0]
    assert (use["input"], seen["ours"], "ours" in state) == ("raw text", 1, False)
    assert agent.messages[1]["content"][0]["toolUse"]["input"] == {"a": 1}


def test_the_hooks_of_a_turn_come_in_order_and_each_concurrent_call_has_its_own_task() -> None:
    agent, model = agent_with(Probe("a"), Probe("b"))
    seen: list[Any] = []
    tasks: set[Any] = set()
    for kind in (
        BeforeInvocationEvent,
        BeforeToolsEvent,
        BeforeToolCallEvent,
        AfterToolCallEvent,
        AfterToolsEvent,
    ):
        agent.add_hook(lambda event: seen.append(type(event)), kind)
    agent.add_hook(lambda event: tasks.add(asyncio.current_task()), BeforeToolCallEvent)
    model.enqueue(tool_call("a"), tool_call("b")).enqueue("bye")
    agent("go")
    assert seen[:4] == [BeforeInvocationEvent, BeforeToolsEvent, BeforeToolCallEvent, BeforeToolCallEvent]
    assert seen[4:] == [AfterToolCallEvent, AfterToolCallEvent, AfterToolsEvent]
    assert len(tasks) == 2


def test_an_async_hook_before_the_tools_is_awaited_before_any_of_them_starts() -> None:
    probe = Probe()
    agent, model = agent_with(probe)
    before: list[int] = []

    async def wait(event: BeforeToolsEvent) -> None:
        await asyncio.sleep(0.01)
        before.append(len(probe.seen))

    agent.add_hook(wait, BeforeToolsEvent)
    model.enqueue(tool_call("probe"), tool_call("probe")).enqueue("bye")
    agent("go")
    assert before == [0]


def test_a_call_with_an_invalid_name_is_answered_first_and_a_hook_may_put_results_in_order() -> None:
    agent, model = agent_with(Probe())
    ids: list[list[str]] = []

    def sort(event: AfterToolsEvent) -> None:
        content = event.message["content"]
        ids.append([block["toolResult"]["toolUseId"] for block in content])
        content.sort(key=lambda block: block["toolResult"]["toolUseId"])

    agent.add_hook(sort, AfterToolsEvent)
    model.enqueue(Call("probe", {}, id="1"), Call("no name", {}, id="2")).enqueue("bye")
    agent("go")
    assert ids == [["2", "1"]]
    assert [result["toolUseId"] for result in model.requests[-1].results] == ["1", "2"]


def test_after_a_resume_the_finished_results_come_first_and_a_snapshot_tells_them() -> None:
    agent, model = agent_with(Asking("ask"), Probe())
    done: list[Any] = []
    messages: list[Any] = []

    def look(event: BeforeToolsEvent) -> None:
        messages.append(event.message)
        state = agent.take_snapshot(include=["interrupt_state"]).data["interrupt_state"]
        pending = state.get("pending_tool_execution") or {}
        done.append([result["toolUseId"] for result in pending.get("completed_tool_results", ())])

    agent.add_hook(look, BeforeToolsEvent)
    model.enqueue(Call("ask", {}, id="1"), Call("probe", {}, id="2")).enqueue("bye")
    agent(answer(agent("go")))
    assert done == [[], ["2"]]
    assert messages[0] == messages[1], "the hook is called again, with the same message"
    assert [result["toolUseId"] for result in model.requests[-1].results] == ["2", "1"]


def test_a_hook_may_cancel_a_call_and_the_hook_after_it_is_told_and_may_replace_the_result() -> None:
    probe = Probe()
    agent, model = agent_with(probe)

    def refuse(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "no"

    def replace(event: AfterToolCallEvent) -> None:
        assert event.cancel_message == "no"
        event.result = result_of(event.tool_use, "replaced")

    agent.add_hook(refuse, BeforeToolCallEvent)
    agent.add_hook(replace, AfterToolCallEvent)
    model.enqueue(tool_call("probe")).enqueue("bye")
    agent("go")
    assert (texts(model), probe.seen) == (["replaced"], [])


def test_a_hook_that_asks_a_human_ends_a_call_without_a_hook_after_it() -> None:
    agent, model = agent_with(Probe())
    after: list[Any] = []
    agent.add_hook(lambda event: event.interrupt("sure?"), BeforeToolCallEvent)
    agent.add_hook(lambda event: after.append(event.tool_use), AfterToolCallEvent)
    model.enqueue(tool_call("probe"))
    assert agent("go").stop_reason == "interrupt"
    assert after == []


# --- an invocation ----------------------------------------------------------------------------------------


def test_an_invocation_stops_at_its_turns_and_goes_on_without_a_prompt_with_metrics_added_up() -> None:
    agent, model = agent_with(Probe())
    for _ in range(3):
        model.enqueue(tool_call("probe"))
    model.enqueue("bye")
    first = asyncio.run(agent.invoke_async("go", limits={"turns": 2}))
    assert (first.stop_reason, len(model.requests)) == ("limit_turns", 2)
    second = asyncio.run(agent.invoke_async(None, limits={"turns": 2}))
    assert (second.stop_reason, len(model.requests)) == ("end_turn", 4)
    assert second.metrics.accumulated_usage["totalTokens"] == 40
    spent = second.metrics.latest_agent_invocation
    assert spent is not None
    assert (len(spent.cycles), spent.usage["totalTokens"]) == (2, 20)


def test_a_cancelled_agent_ends_its_history_with_the_message_that_it_was_given() -> None:
    class Cancelling(Probe):
        async def stream(
            self, tool_use: ToolUse, invocation_state: dict[str, Any], **_: Any
        ) -> ToolGenerator:
            agent = invocation_state["agent"]
            agent.cancel(message="stopped")
            assert agent.cancel_signal.is_set()
            yield ToolResultEvent(result_of(tool_use, "done"))

    agent, model = agent_with(Cancelling())
    model.enqueue(tool_call("probe"))
    assert agent("go").stop_reason == "cancelled"
    assert agent.messages[-1]["role"] == "assistant"
    assert agent.messages[-1]["content"] == [{"text": "stopped"}]
    assert not agent.cancel_signal.is_set(), "the agent can be used again"


def test_a_cancelled_agent_answers_the_calls_that_it_does_not_make() -> None:
    agent, model = agent_with(Probe())
    agent.add_hook(lambda event: agent.cancel(), BeforeToolsEvent)
    model.enqueue(tool_call("probe"))
    assert agent("go").stop_reason == "cancelled"
    (block,) = agent.messages[-1]["content"]
    assert block["toolResult"]["content"] == [{"text": "Tool execution cancelled"}]


# --- spans ------------------------------------------------------------------------------------------------

SPANS = """
from strands import Agent, tool

@tool
def give(x: str) -> str:
    "Gives it back."
    return x

model = ScriptedModel().enqueue(tool_call("give", x="s3cret")).enqueue("bye")
Agent(model=model, tools=[give], callback_handler=None)("go")
"""


@pytest.mark.parametrize(("token", "leaks"), [("", True), ("gen_ai_unredacted_attributes=", False)])
def test_the_redaction_token_keeps_what_is_said_out_of_the_spans(token: str, leaks: bool) -> None:
    spans = exported_spans(SPANS, token)
    assert len(spans) > 3
    assert ("s3cret" in json.dumps(spans)) is leaks
