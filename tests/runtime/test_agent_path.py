"""Tools of ours in a real `strands.Agent`: whatever the model and the bodies do, as the contract says."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from strands.types.tools import AgentTool, ToolGenerator, ToolSpec, ToolUse

from strands_cli import CallContext, ToolContext, ToolFailed, tool
from strands_cli.events import Event, ToolFinished, ToolStarted
from strands_cli.runtime.model_output import MALFORMED_KEY
from strands_cli.runtime.model_requests import invoke_in_slices
from tests.fakes import Call, tool_call
from tests.runtime.agents import Setting, add, code_of, codes, spec, text_of

# --- What the model sends ---------------------------------------------------------------------------------


def test_a_call_goes_through_the_contract() -> None:
    results = Setting(add).turn(tool_call("add", a=1), tool_call("add", a="40"))
    assert [result["content"] for result in results] == [[{"text": "3"}], [{"text": "42"}]]


@pytest.mark.parametrize("text", ["{", '{"a": 1', "not json", "[1, 2]", "5", "null", '"a"', '{"a": NaN}'])
@pytest.mark.parametrize("pieces", [1, 3])
def test_input_that_is_no_json_object_is_malformed_and_the_body_does_not_run(text: str, pieces: int) -> None:
    ran: list[int] = []

    @tool(spec=spec("note", {"a": {"type": "integer", "default": 1}}))
    def note(a: int = 1) -> str:
        ran.append(a)
        return "noted"

    setting = Setting(note)
    (result,) = setting.turn(Call("note", text, pieces=pieces))
    assert code_of(result) == "input_malformed"
    assert ran == []
    sent_back = setting.model.requests[-1].messages[-2]["content"][0]["toolUse"]["input"]
    assert sent_back == {MALFORMED_KEY: text}, "the model sees what it sent, as an object"


def test_no_input_at_all_is_a_call_without_arguments_and_spaces_are_malformed() -> None:
    @tool(spec=spec("count", {"n": {"type": "integer", "default": 3}}))
    def count(n: int) -> int:
        return n

    @tool(spec=spec("need", {"n": {"type": "integer"}}, required=["n"]))
    def need(n: int) -> int:
        return n

    results = Setting(count, need).turn(Call("count", ""), Call("need", ""), Call("count", "  "))
    assert codes(results) == [None, "input_invalid", "input_malformed"]
    assert text_of(results[0]) == "3"


def test_a_body_gets_its_own_copy_of_the_request_and_no_history() -> None:
    def change(use: Any) -> None:
        use["name"] = "other"
        use["input"]["x"]["y"] = "changed"
        use["input"]["z"] = "new"

    @tool(spec=spec("ours", {"x": {"type": "object"}}, required=["x"]))
    def ours(x: dict[str, Any], context: ToolContext) -> str:
        change(context.tool_use)
        x["y"] = "changed"
        return f"{context.tool_use['input']['z']}"

    @tool(spec=spec("module", {"x": {"type": "object"}}))
    def module(tool: Any, **_state: Any) -> str:
        change(tool)
        return "done"

    setting = Setting(ours, module)
    results = setting.turn(tool_call("ours", x={"y": 1}), tool_call("module", x={"y": 1}))
    assert codes(results) == [None, None]
    assert text_of(results[0]) == "new"
    uses = [block["toolUse"] for block in setting.agent.messages[1]["content"]]
    assert [(use["name"], use["input"]) for use in uses] == [
        ("ours", {"x": {"y": 1}}),
        ("module", {"x": {"y": 1}}),
    ]


def test_a_body_sees_neither_the_agent_nor_what_it_holds() -> None:
    seen: list[Any] = []

    @tool(spec=spec("ours"))
    def ours(context: ToolContext) -> None:
        names = [name for name in dir(context) if not name.startswith("_")]
        seen.extend(getattr(context, name) for name in names)
        seen.extend(context.invocation_state.values())
        seen.extend(getattr(context.agent, name) for name in dir(context.agent) if not name.startswith("_"))

    @tool(spec=spec("module"))
    def module(tool: Any, **state: Any) -> None:
        seen.extend([*tool.values(), *state.values()])

    setting = Setting(ours, module, system_prompt="A secret prompt")
    assert codes(
        setting.turn(tool_call("ours"), tool_call("module"), invocation_state={"passed": "along"})
    ) == [
        None,
        None,
    ]
    assert seen.count("along") == 2
    agent = setting.agent
    hidden = [agent, agent.messages, agent.model, agent.tool_registry]
    assert not [value for value in seen for secret in hidden if value is secret]
    assert agent.system_prompt not in [value for value in seen if isinstance(value, str)]


def test_a_good_call_beside_a_malformed_one_runs() -> None:
    results = Setting(add).turn(Call("add", "{"), tool_call("add", a=5), Call("add", "[]"))
    assert codes(results) == ["input_malformed", None, "input_malformed"]


def test_invalid_arguments_are_told_with_their_pointer() -> None:
    (result,) = Setting(add).turn(tool_call("add", a="many"))
    assert code_of(result) == "input_invalid"
    assert result["content"][1]["json"]["error"]["details"][0]["pointer"] == "/a"


def test_an_unknown_tool_is_answered_with_the_closest_name() -> None:
    events: list[Event] = []
    results = Setting(add, context=CallContext(emit=events.append)).turn(
        tool_call("ad", a=1), tool_call("zzz")
    )
    assert codes(results) == ["unknown_tool", "unknown_tool"]
    assert "Did you mean 'add'?" in text_of(results[0])
    assert "Available tools: add." in text_of(results[1])
    finished = [event.code for event in events if isinstance(event, ToolFinished)]
    assert finished == ["unknown_tool", "unknown_tool"]


@pytest.mark.parametrize("name", ["a d d", "add.it", "ädd", "add" * 30])
def test_a_name_that_no_tool_can_have_is_unknown_and_answered_in_its_place(name: str) -> None:
    setting = Setting(add)
    results = setting.turn(tool_call("add"), Call(name, {"a": 1}), tool_call("add"))
    assert codes(results) == [None, "unknown_tool", None]
    assert name in text_of(results[1])
    uses = [block["toolUse"] for block in setting.agent.messages[1]["content"]]
    assert uses[1]["name"] == "INVALID_TOOL_NAME", "no provider takes the name that the model made up"


def test_an_id_that_the_model_uses_twice_is_made_unique() -> None:
    results = Setting(add).turn(Call("add", {"a": 1}, id="x"), Call("add", {"a": 2}, id="x"))
    assert [(result["toolUseId"], text_of(result)) for result in results] == [("x", "3"), ("x-2", "4")]


def test_a_call_without_a_name_leaves_a_history_that_can_be_sent() -> None:
    setting = Setting(add)
    assert setting.turn(Call("", {}, id="x")) == []


def test_a_foreign_tool_is_left_alone_by_malformed_input() -> None:
    class Foreign(AgentTool):
        ran = False
        tool_name, tool_type = "foreign", "agent"
        tool_spec: ClassVar[ToolSpec] = {"name": "foreign", "description": "", "inputSchema": {"json": {}}}

        async def stream(
            self, tool_use: ToolUse, invocation_state: dict[str, Any], **_: Any
        ) -> ToolGenerator:
            Foreign.ran = True
            yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": "hi"}]}

    setting = Setting(Foreign())
    assert codes(setting.turn(Call("foreign", "{"))) == ["input_malformed"]
    assert not Foreign.ran
    assert codes(setting.turn(Call("foreign", "{}"))) == [None]


def test_a_structured_answer_goes_through_untouched_and_a_malformed_one_is_asked_again() -> None:
    class Person(BaseModel):
        name: str

    setting = Setting(add)
    setting.model.enqueue(Call("Person", '{"name": ')).enqueue(tool_call("Person", name="ada"))

    async def through() -> Any:
        return await invoke_in_slices(setting.agent, "who?", structured_output_model=Person)

    assert asyncio.run(through()).structured_output == Person(name="ada")
    assert codes(setting.model.requests[-1].results) == ["input_malformed"]


# --- What the bodies do -----------------------------------------------------------------------------------


def test_a_body_that_hangs_is_answered_at_its_deadline_beside_one_that_does_not() -> None:
    @tool(spec=spec("hang"), timeout=0.2)
    def hang() -> str:
        time.sleep(5)
        return "late"

    @tool(spec=spec("hang_async"), timeout=0.2)
    async def hang_async() -> str:
        await asyncio.sleep(5)
        return "late"

    started = time.monotonic()
    results = Setting(hang, hang_async, add).turn(
        tool_call("hang"), tool_call("hang_async"), tool_call("add")
    )
    assert codes(results) == ["timeout", "timeout", None]
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError()])
def test_a_body_that_raises_anything_is_a_coded_result_and_the_agent_goes_on(error: BaseException) -> None:
    @tool(spec=spec("crash"))
    def crash() -> None:
        raise error

    @tool(spec=spec("crash_async"))
    async def crash_async() -> None:
        raise error

    results = Setting(crash, crash_async, add).turn(
        tool_call("crash"), tool_call("crash_async"), tool_call("add")
    )
    assert codes(results) == ["crashed", "crashed", None]


def test_a_body_that_says_no_is_told_to_the_model_with_its_code() -> None:
    @tool(spec=spec("find"))
    def find() -> None:
        raise ToolFailed("No such thing", code="not_found", hint="Look elsewhere.")

    (result,) = Setting(find).turn(tool_call("find"))
    assert code_of(result) == "not_found"
    assert text_of(result) == "No such thing\nLook elsewhere."


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"a": 1}, [{"json": {"a": 1}}]),
        ([1, "ä"], [{"text": '[1, "ä"]'}]),
        ("", [{"text": "(the tool returned nothing)"}]),
        ({"status": "success", "content": []}, [{"text": "(the tool returned nothing)"}]),
    ],
)
def test_a_result_has_a_form_that_every_provider_takes(value: object, content: list[Any]) -> None:
    @tool(spec=spec("give"))
    def give() -> object:
        return value

    (result,) = Setting(give).turn(tool_call("give"))
    assert result["content"] == content


def test_a_body_sees_its_agent_its_state_and_the_other_tools() -> None:
    @tool(spec=spec("look"))
    def look(context: ToolContext) -> dict[str, Any]:
        count = (context.agent.state.get("count") or 0) + 1
        context.agent.state.set("count", count)
        context.invocation_state["seen"] = count  # type: ignore[index]
        return {
            "name": context.agent.name,
            "passed": sorted(context.invocation_state),
            "model": context.invocation_state.get("model"),
            "sum": int(context.call("add", a=3)),
            "key": context.key.rpartition("/")[0],
        }

    setting = Setting(look, add, name="ada", context=CallContext(key="run/step"))
    state: dict[str, Any] = {"user": "eve", "model": "of the caller"}
    first, second = setting.turn(tool_call("look"), tool_call("look"), invocation_state=state)
    assert first["content"][0]["json"] == {
        "name": "ada",
        "passed": ["model", "seen", "user"],
        "model": "of the caller",
        "sum": 5,
        "key": "run/step/1/0",
    }
    assert second["content"][0]["json"]["key"] == "run/step/1/1"
    assert state["seen"] == 2, "what a tool writes, the caller sees"


def test_listeners_hear_of_every_call() -> None:
    events: list[Event] = []
    Setting(add, context=CallContext(emit=events.append)).turn(tool_call("add", a=1), tool_call("add", a="x"))
    assert [event.arguments for event in events if isinstance(event, ToolStarted)] == [{"a": 1}, {"a": "x"}]
    assert {event.code for event in events if isinstance(event, ToolFinished)} == {None, "input_invalid"}


@pytest.mark.parametrize("kind", ["thread", "generator", "async", "inline"])
def test_progress_is_seen_in_the_stream_while_the_body_runs(kind: str) -> None:
    gate = threading.Event()

    @tool(spec=spec("thread"))
    def in_thread(context: ToolContext) -> str:
        context.progress("half")
        assert gate.wait(5), "the progress was not passed on while the body ran"
        return "done"

    @tool(spec=spec("generator"))
    def in_generator() -> Iterator[str]:
        yield "half"
        yield "done"

    @tool(spec=spec("async"))
    async def in_async(context: ToolContext) -> str:
        context.progress("half")
        await asyncio.to_thread(gate.wait, 5)
        return "done"

    @tool(spec=spec("inline"), blocking=False)
    def inline(context: ToolContext) -> str:
        context.progress("half")
        return "done"

    setting = Setting(in_thread, in_generator, in_async, inline)
    setting.model.enqueue(tool_call(kind)).enqueue("bye")

    async def watch() -> list[Any]:
        seen = []
        async for event in setting.agent.stream_async("go"):
            if "tool_stream_event" in event:
                seen.append(
                    (event["tool_stream_event"]["tool_use"]["name"], event["tool_stream_event"]["data"])
                )
                gate.set()
        return seen

    last = [(kind, "done")] if kind == "generator" else []
    assert asyncio.run(watch()) == [(kind, "half"), *last]
    assert text_of(setting.model.requests[-1].results[0]) == "done"
