"""Tools of ours in anyone's `strands.Agent`, with nothing else of ours around it."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from strands import Agent
from strands import tool as sdk_decorator

from strands_cli import CallContext, ToolContext, ToolFailed, tool
from strands_cli.events import Event, ToolFinished
from strands_cli.toolkit.bridge import CONTEXT_KEY, CallerState, bridge_of
from strands_cli.toolkit.context import InterruptRequested, Permit
from strands_cli.toolkit.decorator import as_tool
from strands_cli.tools.base import NativeTool
from tests.fakes import Call, ScriptedModel, history_problems, tool_call
from tests.projects import Project
from tests.runtime.agents import add, answers, code_of, codes, spec, text_of


def results_of(tools: list[Any], *calls: Call, **invocation: Any) -> list[dict[str, Any]]:
    model = ScriptedModel().enqueue(*calls).enqueue("done")
    agent = Agent(model=model, tools=tools, callback_handler=None, name="ada")
    agent("go", **invocation)
    assert history_problems(agent.messages) == []
    return model.requests[-1].results


ORDERS = {
    "ours first": "import strands_cli\nfrom strands_cli import tool\nfrom strands import Agent",
    "theirs first": "from strands import Agent\nimport strands_cli\nfrom strands_cli import tool",
}
SCRIPT = """
from tests.fakes import ScriptedModel, tool_call
@tool(spec={"name": "greet", "description": "Greet.", "inputSchema": {"json": {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}})
def greet(name):
    return f"hello {name}"
model = ScriptedModel().enqueue(tool_call("greet", name="ada"), tool_call("greet")).enqueue("bye")
agent = Agent(model=model, tools=[greet], callback_handler=None)
agent("go")
print(agent.tool_names, *[result["content"][0]["text"] for result in model.requests[-1].results], sep="|")
"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_plain_agent_takes_our_tools_in_either_import_order(order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORDERS[order] + SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['greet']|hello ada|Invalid input: /name is missing"


TWO_TOOLS = """
from strands_cli import tool

@tool
def greet(name: str) -> str:
    \"\"\"Greet.\"\"\"
    return f"hello {name}"

@tool
async def wave(times: int = 1) -> str:
    \"\"\"Wave.\"\"\"
    return "o/" * times
"""


def module_of(file: Path) -> ModuleType:
    found = spec_from_file_location(file.stem, file)
    assert found
    assert found.loader
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def register_each(file: Path) -> Agent:
    agent, module = Agent(callback_handler=None, model=ScriptedModel()), module_of(file)
    agent.tool_registry.register_tool(module.greet)
    agent.tool_registry.process_tools([module.wave])
    return agent


WAYS: dict[str, Callable[[Path], Agent]] = {
    "a module": lambda file: Agent(tools=[module_of(file)], callback_handler=None),
    "a file": lambda _: Agent(tools=["./tools/deco.py"], callback_handler=None),
    "a file in a dictionary": lambda file: Agent(tools=[{"path": str(file)}], callback_handler=None),
    "a directory": lambda _: Agent(load_tools_from_directory=True, callback_handler=None),
    "the agent's registry": register_each,
    "a list of tools": lambda file: Agent(
        tools=[[module_of(file).greet], module_of(file).wave], callback_handler=None
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_plain_agent_finds_the_tools_of_a_file_in_every_way_that_it_has(way: str, inside: Project) -> None:
    agent = WAYS[way](inside.write("tools/deco.py", TWO_TOOLS))
    assert sorted(agent.tool_names) == ["greet", "wave"]
    model = ScriptedModel().enqueue(
        tool_call("greet", name="ada"), tool_call("wave", times="2"), tool_call("greet")
    )
    agent.model = model.enqueue("done")
    agent("go")
    assert [result["content"][0]["text"] for result in model.requests[-1].results] == [
        "hello ada",
        "o/o/",
        "Invalid input: /name is missing",
    ]
    agent.cleanup()


def test_our_tools_do_not_pass_for_the_sdks_before_it_is_imported() -> None:
    script = (
        "import sys; from strands_cli import tool\n"
        "@tool\ndef f() -> None: ...\n"
        "assert f.__class__ is type(f)\nassert hasattr(f, 'no_such_thing') is False\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] == 'strands']"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_class_and_an_sdk_tool_go_into_a_plain_agent_too() -> None:
    class Shout(NativeTool):
        def execute(self, tool: dict[str, Any], **kwargs: Any) -> str:
            return str(tool["input"]["text"]).upper()

    @sdk_decorator
    def whisper(text: str) -> str:
        """Whisper."""
        return text.lower()

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    shout = as_tool(Shout, {"name": "shout", "description": "Shout.", "inputSchema": schema})
    loud, quiet = results_of(
        [shout, as_tool(whisper)], tool_call("shout", text="Hi"), tool_call("whisper", text="Hi")
    )
    assert (loud["content"], quiet["content"]) == ([{"text": "HI"}], [{"text": "hi"}])


def test_a_decorated_function_is_the_tool_and_the_same_one_each_time() -> None:
    assert list(add) == [bridge_of(add)] == [bridge_of(add)]
    bridge = bridge_of(add)
    assert (bridge.tool_name, bridge.tool_type, bridge.tool) == ("add", "strands_cli", add)
    assert bridge.tool_spec == {
        "name": "add",
        "description": "The tool add",
        "inputSchema": {
            "json": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
                "required": [],
            }
        },
    }


def test_each_object_has_a_bridge_of_its_own() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.count = start

        @tool(spec=spec("count"))
        def count_up(self) -> int:
            self.count += 1
            return self.count

    assert bridge_of(Counter.count_up).tool is Counter.count_up
    one, two = Counter(1), Counter(10)
    assert text_of(results_of([one.count_up], tool_call("count"))[0]) == "2"
    assert text_of(results_of([two.count_up], tool_call("count"))[0]) == "11"


def test_what_a_tool_promises_and_hints_is_in_its_spec() -> None:
    @tool(spec=spec("give"), output_schema={"type": "integer"}, annotations={"readOnlyHint": True})
    def give() -> int:
        return 1

    told: Any = bridge_of(give).tool_spec
    assert told["outputSchema"] == {"json": {"type": "integer"}}
    assert told["annotations"] == {"readOnlyHint": True}


def test_a_call_is_validated_coded_and_held_to_its_limit() -> None:
    @tool(spec=spec("hang"), timeout=0.1)
    def hang() -> None:
        time.sleep(5)

    @tool(spec=spec("leave"))
    def leave() -> None:
        raise SystemExit(1)

    @tool(spec=spec("refuse"), requires_consent=True)
    def refuse() -> None: ...

    calls = [
        tool_call("add", a="40"),
        tool_call("add", a="x"),
        tool_call("hang"),
        tool_call("leave"),
        tool_call("refuse"),
    ]
    results = results_of([add, hang, leave, refuse], *calls)
    assert text_of(results[0]) == "42"
    assert codes(results[1:]) == ["input_invalid", "timeout", "crashed", "consent_required"]


def test_a_body_sees_the_agent_and_what_its_caller_passed_but_nothing_of_the_engine() -> None:
    @tool(spec=spec("look"))
    async def look(context: ToolContext) -> dict[str, Any]:
        context.agent.state.set("seen", True)
        context.invocation_state["mine"] = 2  # type: ignore[index]
        return {
            "name": context.agent.name,
            "names": list(context.invocation_state),
            "sum": int(await context.call("add", a=1)),
        }

    state: dict[str, Any] = {"mine": 1}
    (result,) = results_of([look, add], tool_call("look"), invocation_state=state)
    assert result["content"] == [{"json": {"name": "ada", "names": ["mine"], "sum": 3}}]
    assert state["mine"] == 2


def test_a_body_that_calls_a_tool_which_its_agent_lacks_is_told_the_closest_name() -> None:
    @tool(spec=spec("look"))
    def look(context: ToolContext) -> Any:
        return context.call("ad")

    (result,) = results_of([look, add], tool_call("look"))
    assert (code_of(result), "Did you mean 'add'?" in text_of(result)) == ("unknown_tool", True)


def test_a_context_may_be_passed_along_by_hand() -> None:
    events: list[Event] = []
    state = {CONTEXT_KEY: CallContext(emit=events.append, timeout=5)}
    results_of([add], tool_call("add"), invocation_state=state)
    assert [event.code for event in events if isinstance(event, ToolFinished)] == [None]


def test_text_in_place_of_an_object_is_malformed() -> None:
    async def ask() -> list[Any]:
        use: Any = {"toolUseId": "t", "name": "add", "input": '{"a": '}
        return [event async for event in bridge_of(add).stream(use, {})]

    (event,) = asyncio.run(ask())
    assert code_of(event.tool_result) == "input_malformed"
    assert str(event.exception) == "input_malformed"


def test_a_body_asks_a_human_and_gets_the_answer() -> None:
    @tool(spec=spec("ask"))
    def ask(context: ToolContext) -> str:
        return str(context.interrupt("sure?", {"about": 1}))

    model = ScriptedModel().enqueue(tool_call("ask")).enqueue("done")
    agent = Agent(model=model, tools=[ask], callback_handler=None)
    result = agent("go")
    assert [(item.name, item.reason) for item in result.interrupts or []] == [("sure?", {"about": 1})]
    agent(answers(result, "yes"))
    assert text_of(model.requests[-1].results[0]) == "yes"


def test_a_question_that_the_engine_does_not_know_pauses_the_agent_too() -> None:
    @tool(spec=spec("ask"))
    def ask() -> str:
        raise InterruptRequested("sure?", "because")

    agent = Agent(model=ScriptedModel().enqueue(tool_call("ask")), tools=[ask], callback_handler=None)
    (interrupt,) = agent("go").interrupts or []
    assert (interrupt.name, interrupt.reason) == ("sure?", "because")


def test_progress_is_streamed_and_what_a_called_tool_reports_is_not() -> None:
    @tool(spec=spec("inner"))
    def inner() -> Iterator[str]:
        yield "inner half"
        yield "inner done"

    @tool(spec=spec("outer"))
    def outer(context: ToolContext) -> Iterator[str]:
        yield "half"
        yield str(context.call("inner"))

    model = ScriptedModel().enqueue(tool_call("outer")).enqueue("done")
    agent = Agent(model=model, tools=[outer, inner], callback_handler=None)

    async def watch() -> list[Any]:
        events = [event.get("tool_stream_event") async for event in agent.stream_async("go")]
        return [event["data"] for event in events if event]

    assert asyncio.run(watch()) == ["half", "inner done"]
    assert text_of(model.requests[-1].results[0]) == "inner done"


def test_a_cancelled_agent_does_not_wait_for_a_body() -> None:
    started = threading.Event()

    @tool(spec=spec("wait"), timeout=30)
    def wait() -> str:
        started.set()
        time.sleep(10)
        return "late"

    model = ScriptedModel().enqueue(tool_call("wait"))
    agent = Agent(model=model, tools=[wait], callback_handler=None)

    def cancel_when_it_runs() -> None:
        assert started.wait(5)
        agent.cancel()

    threading.Thread(target=cancel_when_it_runs).start()
    begun = time.monotonic()
    assert agent("go").stop_reason == "cancelled"
    assert time.monotonic() - begun < 5
    assert history_problems(agent.messages) == []


def test_a_call_can_be_cancelled_while_an_earlier_cancelled_one_has_a_question_open() -> None:
    agent = Agent(model=ScriptedModel(), callback_handler=None)

    @tool(spec=spec("wait"), timeout=3, requires_consent=True)
    async def wait() -> None:
        agent.cancel()
        await asyncio.sleep(50)

    async def call(permit: Permit) -> Any:
        use, state = {"toolUseId": "t", "name": "wait", "input": {}}, CallContext(permit=permit)
        stream = bridge_of(wait).stream(use, {"agent": agent, CONTEXT_KEY: state})
        return [event async for event in stream][-1]["tool_result"]

    async def cancel_twice() -> list[Any]:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def ask(tool: Any, arguments: Any) -> None:
            asked.set()
            await answered.wait()

        async def agree(tool: Any, arguments: Any) -> None: ...

        first = asyncio.create_task(call(ask))
        await asked.wait()
        agent.cancel()
        await asyncio.sleep(0.5)  # long enough for the signal to be seen
        agent.cancel_signal.clear()  # as the SDK does between invocations
        second = await call(agree)
        answered.set()
        return [code_of(await first), code_of(second)]

    assert asyncio.run(cancel_twice()) == ["cancelled", "cancelled"]


def test_an_abandoned_stream_ends_its_call() -> None:
    ended = threading.Event()

    @tool(spec=spec("wait"))
    async def wait(context: ToolContext) -> None:
        context.progress("begun")
        try:
            await asyncio.sleep(10)
        finally:
            ended.set()

    async def leave() -> None:
        use: Any = {"toolUseId": "t", "name": "wait", "input": {}}
        stream: Any = bridge_of(wait).stream(use, {})
        assert await anext(stream) == "begun"
        await stream.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(leave())
    assert ended.is_set()


def test_the_callers_state_hides_and_protects_what_is_the_engines() -> None:
    live: dict[str, Any] = {"mine": 1, "agent": object(), "event_loop_cycle_id": 5, CONTEXT_KEY: 0}
    state = CallerState(live, {"model": "passed"})
    assert dict(state) == {"mine": 1, "model": "passed"}
    assert (len(state), "agent" in state) == (2, False)
    state["more"] = 2
    del state["mine"]
    assert "mine" not in live
    assert live["more"] == 2
    with pytest.raises(KeyError):
        state["agent"] = 1
    with pytest.raises(KeyError):
        del state["agent"]


def test_a_failure_of_a_body_is_not_told_to_the_engine_in_words() -> None:
    @tool(spec=spec("refuse"))
    def refuse() -> None:
        raise ToolFailed("about a secret", code="not_found")

    async def ask() -> list[Any]:
        use: Any = {"toolUseId": "t", "name": "refuse", "input": {}}
        return [event async for event in bridge_of(refuse).stream(use, {})]

    (event,) = asyncio.run(ask())
    assert (str(event.exception), text_of(event.tool_result)) == ("not_found", "about a secret")
