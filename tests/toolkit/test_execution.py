"""How bodies run: what counts against their limits, and what becomes of those that outlive them."""

import asyncio
import functools
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from strands import Agent

from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, run_sync, tool
from strands_cli.events import Event, ToolFinished, ToolProgress
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.execution import MAX_ABANDONED_OF_ONE
from strands_cli.toolkit.results import ToolResult, ToolUse
from strands_cli.toolkit.schedule import call_tools
from strands_cli.tools import get_registry
from tests.exec.flows import Flow
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project
from tests.toolkit.test_call import ask, code_of, spec

PATH = {"path": {"type": "string"}}
WRITES = {"writes": ["file:{path}"]}


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What bodies wait for that outlive their calls; open at the end of the test, so that they end too."""
    event = threading.Event()
    yield event
    event.set()


def few_threads(**fields: Any) -> CallContext:
    return CallContext(settings=Settings(project=Path(), workspace=(), **fields))


def named(name: str, properties: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**spec(properties, required=list(properties or ())), "name": name}


async def ask_many(made: Tool, count: int, context: CallContext) -> list[str | None]:
    calls = (call_tool(made, {"toolUseId": f"t{number}", "input": {}}, context) for number in range(count))
    return [code_of(dict(result)) for result in await asyncio.gather(*calls)]


# --- waiting for a thread -----------------------------------------------------------------------------------


def test_waiting_for_a_thread_does_not_count_against_the_time_limit() -> None:
    @tool(spec=spec(), timeout=2)
    def probe() -> None:
        time.sleep(0.3)

    assert asyncio.run(ask_many(probe, 12, few_threads(threads=1))) == [None] * 12


def test_a_body_that_had_to_wait_for_a_thread_still_has_its_own_limit(gate: threading.Event) -> None:
    @tool(spec=spec(), timeout=1)
    def probe() -> None:
        gate.wait(30)

    assert asyncio.run(ask_many(probe, 2, few_threads(threads=1))) == ["timeout"] * 2


def test_waiting_for_a_thread_has_a_bound_and_a_code_of_its_own(gate: threading.Event) -> None:
    begun, ran = threading.Event(), []

    @tool(spec=named("hold"), timeout=30)
    def hold() -> None:
        begun.set()
        gate.wait(30)

    @tool(spec=named("late"), timeout=30)
    def late() -> None:
        ran.append(1)

    async def both() -> tuple[ToolResult, ToolResult]:
        context = few_threads(threads=1, thread_wait=0.3)
        first = asyncio.create_task(call_tool(hold, {"input": {}}, context))
        await asyncio.to_thread(begun.wait, 30)
        second = await call_tool(late, {"input": {}}, context)
        gate.set()
        return await first, second

    first, second = asyncio.run(both())
    assert code_of(dict(first)) is None
    assert code_of(dict(second)) == "overloaded"
    assert second["content"][0]["text"].startswith("late did not run: no worker thread was free for 0.3 s")
    assert ran == []


def test_a_call_inside_a_call_gets_a_thread_before_the_calls_that_wait() -> None:
    in_turn = asyncio.Lock()  # without it every outer body would get its own thread for its inner call

    @tool(spec=named("leaf"))
    def leaf() -> str:
        return "done"

    @tool(spec=named("middle"))
    async def middle(context: ToolContext) -> Any:
        async with in_turn:
            return await context.call("leaf")

    @tool(spec=named("top"), timeout=20)
    def top(context: ToolContext) -> Any:
        return context.call("middle")

    context = msgspec.structs.replace(
        few_threads(threads=1), resolve=lambda name: {"leaf": leaf, "middle": middle}[name]
    )
    assert asyncio.run(ask_many(top, 6, context)) == [None] * 6


def test_a_plain_function_around_an_async_one_waits_for_a_thread_as_others_do() -> None:
    running, most = [0], [0]

    async def written() -> str:
        return "done"

    @tool(spec=named("wrapped"), timeout=2)
    @functools.wraps(written)
    def wrapper() -> Any:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.4)
        running[0] -= 1
        return written()

    assert asyncio.run(ask_many(wrapper, 8, few_threads(threads=1))) == [None] * 8
    assert most == [1]


def test_a_log_handler_may_call_tools_when_a_tool_is_overloaded(gate: threading.Event) -> None:
    @tool(spec=named("hangs"), timeout=0.1)
    def hangs() -> None:
        gate.wait(50)

    @tool(spec=named("after"))
    def after() -> str:
        return "done"

    context, answers = few_threads(threads=2 * MAX_ABANDONED_OF_ONE), []

    class Calls(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            if not answers:
                answers.append("")
                thread = threading.Thread(
                    target=lambda: answers.append(ask(after, context=context)), daemon=True
                )
                thread.start()
                thread.join(10)

    handler = Calls()
    logging.getLogger("strands_cli.tools").addHandler(handler)
    try:
        asyncio.run(ask_many(hangs, MAX_ABANDONED_OF_ONE + 1, context))
        ask(hangs, context=context)
    finally:
        logging.getLogger("strands_cli.tools").removeHandler(handler)
    assert [answer["content"] for answer in answers[1:]] == [[{"text": "done"}]]


def test_a_tool_that_hangs_is_refused_by_name_and_the_others_go_on(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(spec=named("hang"), timeout=0.2)
    def hang() -> None:
        gate.wait(50)

    @tool(spec=named("quick"))
    def quick() -> str:
        return "done"

    context = few_threads(threads=MAX_ABANDONED_OF_ONE + 1)
    many = 3 * MAX_ABANDONED_OF_ONE
    codes = asyncio.run(ask_many(hang, many, context))
    assert set(codes) == {"timeout", "overloaded"}
    refused = ask(hang, context=context)
    assert code_of(refused) == "overloaded"
    assert "earlier calls of hang were given up" in refused["content"][0]["text"]
    assert "hang (" in caplog.text
    assert ask(quick, context=context)["content"] == [{"text": "done"}]


# --- bodies that do not end when they should ----------------------------------------------------------------


@tool(spec=named("deaf"), timeout=0.2)
async def deaf() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


DEAF_TOOL = """
import asyncio
from strands_cli import tool

@tool(timeout=0.2)
async def deaf() -> str:
    '''Hear nothing.'''
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            continue
"""


def test_a_loop_ends_though_a_body_swallows_every_cancellation() -> None:
    assert code_of(ask(deaf)) == "timeout"


def test_an_agent_answers_though_a_body_swallows_every_cancellation() -> None:
    model = ScriptedModel().enqueue(tool_call("deaf")).enqueue("done")
    agent = Agent(model=model, tools=[deaf], callback_handler=None)
    assert str(agent("go")).strip() == "done"
    assert code_of(model.requests[-1].results[0]) == "timeout"


def test_a_workflow_ends_though_a_body_swallows_every_cancellation(
    inside: Project, model: ScriptedModel
) -> None:
    inside.write("tools/deaf.py", DEAF_TOOL.replace("BaseException", "asyncio.CancelledError"))
    get_registry().refresh()
    flow = Flow(inside.root).spec(
        "chain", {"steps": [{"agent": "a", "input": "go"}]}, tools={"python": ["deaf"]}
    )
    model.enqueue(tool_call("deaf")).enqueue("done")
    assert run_sync(flow).last_response == "done"
    assert code_of(model.requests[-1].results[0]) == "timeout"


def test_a_program_ends_though_a_body_swallows_even_its_own_end() -> None:
    ending = (
        "from strands_cli import call_tool\nprint(asyncio.run(call_tool(deaf, {'input': {}}))['status'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", DEAF_TOOL + ending], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "error\n"), done.stderr


def test_a_body_that_is_given_up_has_a_moment_to_clean_up() -> None:
    steps: list[str] = []

    @tool(spec=spec(), timeout=0.1)
    async def probe() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    assert code_of(ask(probe)) == "timeout"
    assert steps == ["cleaned up"]


def test_an_async_body_that_blocks_the_loop_is_late_however_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    @tool(spec=named("block"), timeout=0.1)
    async def block() -> str:
        time.sleep(0.4)  # noqa: ASYNC251 - that is what it is about
        return "too late"

    assert code_of(ask(block)) == "timeout"
    assert "block answered after 0." in caplog.text
    assert "a body blocked the event loop" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
def test_nothing_is_reported_after_the_end_of_a_call(is_async: bool, gate: threading.Event) -> None:
    said = threading.Event()

    @tool(spec=spec(), timeout=0.2)
    def sync_body(context: ToolContext) -> None:
        context.progress("in time")
        gate.wait(30)
        context.progress("too late")
        said.set()

    @tool(spec=spec(), timeout=0.2)
    async def async_body(context: ToolContext) -> None:
        context.progress("in time")
        try:
            await asyncio.sleep(30)
        finally:
            context.progress("too late")
            said.set()

    events: list[Event] = []

    async def watch() -> None:
        await call_tool(async_body if is_async else sync_body, {"input": {}}, CallContext(emit=events.append))
        gate.set()
        await asyncio.to_thread(said.wait, 30)
        await asyncio.sleep(0.05)

    asyncio.run(watch())
    assert [event.data for event in events if isinstance(event, ToolProgress)] == ["in time"]
    assert isinstance(events[-1], ToolFinished)


def test_what_a_body_reports_stays_as_it_was_when_it_was_reported() -> None:
    @tool(spec=spec())
    def probe(context: ToolContext) -> None:
        state = {"done": 0}
        for _ in range(3):
            state["done"] += 1
            context.progress(state)

    events: list[Event] = []
    ask(probe, context=CallContext(emit=events.append))
    assert [event.data["done"] for event in events if isinstance(event, ToolProgress)] == [1, 2, 3]


# --- what such a body still touches -------------------------------------------------------------------------


def late_writer(gate: threading.Event, **options: Any) -> Tool:
    @tool(spec=named("slow", PATH), timeout=0.2, effects=WRITES, **options)
    def slow(path: str) -> None:
        gate.wait(50)
        Path(path).write_text("first")

    return slow


@tool(spec=named("write", PATH), effects=WRITES)
def write(path: str) -> None:
    Path(path).write_text("second")


@tool(spec=named("peek", PATH), effects={"reads": ["file:{path}"]}, blocking=False)
def peek(path: str) -> str:
    return Path(path).read_text()


@tool(spec=named("alone", PATH), effects="exclusive", blocking=False)
def alone(path: str) -> str:
    return Path(path).read_text()


def use(path: Path) -> ToolUse:
    return {"toolUseId": path.name, "input": {"path": str(path)}}


def release_soon(gate: threading.Event) -> None:
    threading.Timer(0.8, gate.set).start()


def test_a_write_that_comes_too_late_does_not_overwrite_a_later_one(
    tmp_path: Path, gate: threading.Event
) -> None:
    release_soon(gate)
    file = tmp_path / "file"
    results = asyncio.run(call_tools([(late_writer(gate), use(file)), (write, use(file))]))
    assert [code_of(dict(result)) for result in results] == ["timeout", None]
    assert file.read_text() == "second"


def test_a_plain_function_around_an_async_one_is_waited_for_too(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def written(path: str) -> None:
        """Write."""

    @tool(spec=named("wrapped", PATH), timeout=0.2, effects=WRITES)
    @functools.wraps(written)
    def wrapped(path: str) -> Any:
        gate.wait(50)
        Path(path).write_text("first")
        return written(path)

    release_soon(gate)
    file = tmp_path / "file"
    results = asyncio.run(call_tools([(wrapped, use(file)), (write, use(file))]))
    assert [code_of(dict(result)) for result in results] == ["timeout", None]
    assert file.read_text() == "second"


@pytest.mark.parametrize("later", [peek, alone])
def test_later_calls_see_what_an_abandoned_body_still_writes(
    later: Tool, tmp_path: Path, gate: threading.Event
) -> None:
    file = tmp_path / "file"
    file.write_text("before")
    assert code_of(ask(late_writer(gate), {"path": str(file)})) == "timeout"
    release_soon(gate)
    assert ask(later, {"path": str(file)})["content"] == [{"text": "first"}]


@pytest.mark.long
def test_a_call_that_cannot_wait_any_longer_for_an_abandoned_body_says_why(
    tmp_path: Path, gate: threading.Event
) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    assert code_of(ask(late_writer(gate), {"path": str(file)})) == "timeout"
    assert code_of(ask(write, {"path": str(other)})) is None, "it touches something else"
    refused = ask(write, {"path": str(file)})
    assert code_of(refused) == "busy"
    assert "an earlier call of slow was given up and still runs" in refused["content"][0]["text"]
    assert not file.exists()
    started = time.monotonic()
    assert code_of(ask(write, {"path": str(file)})) == "busy"
    assert time.monotonic() - started < 3, "it is not waited for again"
    gate.set()
    while code_of(ask(write, {"path": str(file)})):
        time.sleep(0.01)
    assert file.read_text() == "second"


def test_an_abandoned_body_that_only_reads_holds_nobody_up(tmp_path: Path, gate: threading.Event) -> None:
    @tool(spec=named("look", PATH), timeout=0.2, effects={"reads": ["file:{path}"]})
    def look(path: str) -> None:
        gate.wait(50)

    file = tmp_path / "file"
    assert code_of(ask(look, {"path": str(file)})) == "timeout"
    assert code_of(ask(write, {"path": str(file)})) is None
    assert not gate.is_set()


@pytest.mark.parametrize("is_wrapper", [False, True])
def test_a_stop_begins_no_body_that_waits_for_a_thread(gate: threading.Event, is_wrapper: bool) -> None:
    began, cancel = [], Cancellation()

    def hang() -> None:
        began.append("body")
        cancel.set()
        gate.wait(30)

    async def written() -> None:
        """Is what a wrapper is around."""

    @tool(spec=named("free"))
    def free() -> None:
        """Runs after all that waited for the thread before it."""

    hanging = tool(spec=named("hanging"), timeout=30)(functools.wraps(written)(hang) if is_wrapper else hang)
    stopped = msgspec.structs.replace(few_threads(threads=1), cancel=cancel)
    assert asyncio.run(ask_many(hanging, 6, stopped)) == ["cancelled"] * 6
    assert asyncio.run(ask_many(free, 1, few_threads(threads=1))) == [None]
    assert began == ["body"]


def test_a_call_that_waits_for_an_abandoned_body_can_be_cancelled(
    tmp_path: Path, gate: threading.Event
) -> None:
    file, cancel = tmp_path / "file", Cancellation()
    assert code_of(ask(late_writer(gate), {"path": str(file)})) == "timeout"
    threading.Timer(0.3, cancel.set).start()
    assert code_of(ask(write, {"path": str(file)}, CallContext(cancel=cancel))) == "cancelled"
    assert not file.exists()


def repeatable(body: Callable[[], str]) -> Tool:
    return tool(spec=spec(), timeout=0.2, retries=1, annotations={"idempotentHint": True})(body)


def test_a_call_is_not_tried_again_before_its_first_body_has_ended(gate: threading.Event) -> None:
    lines: list[str] = []

    def body() -> str:
        lines.append("+")
        if len(lines) == 1:
            gate.wait(50)
        lines.append("-")
        return "done"

    release_soon(gate)
    assert ask(repeatable(body))["content"] == [{"text": "done"}]
    assert lines == ["+", "-", "+", "-"]


@pytest.mark.long
def test_a_call_whose_first_body_never_ends_is_not_tried_again(gate: threading.Event) -> None:
    runs: list[int] = []

    def body() -> str:
        runs.append(1)
        gate.wait(50)
        return "done"

    assert code_of(ask(repeatable(body))) == "timeout"
    assert runs == [1]


# --- calls of other tools -----------------------------------------------------------------------------------


def test_a_sync_body_calls_an_async_tool_in_the_loop_of_its_caller() -> None:
    lock: list[asyncio.Lock] = []

    @tool(spec=named("inner"))
    async def inner() -> int:
        async with lock[0]:
            await asyncio.sleep(0.01)
        return id(asyncio.get_running_loop())

    @tool(spec=named("outer"), timeout=20)
    def outer(context: ToolContext) -> list[int]:
        return [context.call("inner"), context.call("inner")]

    async def share() -> tuple[list[str | None], list[Any], int]:
        lock.append(asyncio.Lock())
        context = CallContext(resolve=lambda _: inner)
        async with lock[0]:
            waiting = asyncio.gather(*(call_tool(outer, {"input": {}}, context) for _ in range(3)))
            await asyncio.sleep(0.1)
        results = await waiting
        values = [number for result in results for number in result["content"][0].get("json", ())]
        return [code_of(dict(result)) for result in results], values, id(asyncio.get_running_loop())

    codes, loops, own = asyncio.run(share())
    assert codes == [None] * 3
    assert [int(loop) for loop in loops] == [own] * 6


def test_a_body_whose_time_is_up_is_told_so_by_the_call_it_waits_for() -> None:
    told: list[str] = []
    ended = threading.Event()

    @tool(spec=named("inner"))
    async def inner() -> None:
        await asyncio.sleep(30)

    @tool(spec=named("outer"), timeout=0.2)
    def outer(context: ToolContext) -> None:
        for _ in range(2):
            try:
                context.call("inner")
            except ToolFailed as failed:
                told.append(failed.code)
        ended.set()

    assert code_of(ask(outer, context=CallContext(resolve=lambda _: inner))) == "timeout"
    assert ended.wait(20)
    assert told == ["cancelled", "cancelled"]
