"""Bodies of every kind: isolated, yielding, methods, those that call others, those that say too much."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.errors import ToolError
from strands_cli.events import Event, ToolProgress, ToolStarted
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace
from tests.toolkit import isolated_tools
from tests.toolkit.test_call import ask, code_of, spec


def process_with(mark: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(mark) in (entry / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def wait_for_end(mark: str) -> bool:
    deadline = time.monotonic() + 5
    while process_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not process_with(mark)


def test_an_isolated_body_runs_in_a_process_group_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    answer = ask(isolated_tools.whoami)["content"][0]["json"]
    assert answer["pid"] != os.getpid()
    assert answer["group"] == answer["pid"]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "this goes to standard error" in captured.err


def test_an_isolated_body_that_holds_the_interpreter_lock_meets_its_deadline() -> None:
    started = time.monotonic()
    assert code_of(ask(isolated_tools.hold, {"seconds": 30})) == "timeout"
    assert time.monotonic() - started < 4


def test_the_children_of_an_isolated_body_end_with_it() -> None:
    mark = f"strands-test-{os.getpid()}-{time.monotonic_ns()}"
    assert code_of(ask(isolated_tools.spawn, {"mark": mark})) == "timeout"
    assert wait_for_end(mark)


def test_descendants_that_leave_the_group_end_with_an_isolated_body() -> None:
    for name in ("timeout", "cancelled", "answered", "crashed"):
        mark = f"strands-test-{os.getpid()}-{time.monotonic_ns()}"
        cancel = Cancellation()
        if name == "cancelled":
            threading.Timer(0.8, cancel.set).start()
        how = {"mark": mark, "then": name}
        result = ask(isolated_tools.leave_group, how, CallContext(cancel=cancel, timeout=1.5))
        assert code_of(result) == (None if name == "answered" else name)
        assert wait_for_end(mark), f"something survives when a body is {name}"


def test_an_isolated_body_ends_with_its_host() -> None:
    mark = f"strands-test-{os.getpid()}-{time.monotonic_ns()}"
    text = (
        "import asyncio, sys\nfrom strands_cli import CallContext, call_tool\n"
        "from tests.toolkit.isolated_tools import leave_group\n"
        "call = {'toolUseId': 't', 'input': {'mark': sys.argv[1], 'then': 'timeout'}}\n"
        "print(asyncio.run(call_tool(leave_group, call, CallContext(timeout=50))))\n"
    )
    with subprocess.Popen([sys.executable, "-c", text, mark], stdout=subprocess.PIPE) as host:
        assert host.stdout
        deadline = time.monotonic() + 40
        while not process_with(mark + "-twice") and host.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        is_running = process_with(mark + "-twice")
        host.kill()
        assert is_running, (host.wait(), host.stdout.read())
    assert wait_for_end(mark)


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("kill", "crashed", "SIGKILL"),
        ("exit", "crashed", "exit status 3"),
        ("system_exit", "crashed", "SystemExit"),
        ("failed", "not_found", "not here"),
        ("raise", "crashed", "ValueError: boom"),
        ("strange details", "not_found", "no such place"),
        ("unspeakable", "crashed", "Unspeakable"),
    ],
)
def test_however_an_isolated_body_ends_the_answer_is_coded(how: str, code: str, words: str) -> None:
    result = ask(isolated_tools.die, {"how": how})
    assert code_of(result) == code
    assert words in result["content"][0]["text"]


def test_an_isolated_async_body_whose_exception_has_no_text_is_answered() -> None:
    result = ask(isolated_tools.die_async)
    assert code_of(result) == "crashed"
    assert result["content"][0]["text"].startswith("Execution failed: Unspeakable")


def test_an_isolated_body_yields_progress_and_sees_its_context(tmp_path: Path) -> None:
    events: list[Event] = []
    result = ask(isolated_tools.count, context=CallContext(emit=events.append))
    assert result["content"] == [{"json": [3]}]
    assert [event.data for event in events if isinstance(event, ToolProgress)] == ["one", {"two": 2}, [3]]
    context = CallContext(
        workspace=Workspace((tmp_path,), tmp_path),
        key="k1",
        invocation_state={"user": "ada", "lock": threading.Lock()},
    )
    seen = ask(isolated_tools.look, context=context)["content"][0]["json"]
    assert (seen["id"], seen["root"], seen["key"], seen["user"]) == ("t1", str(tmp_path), "k1", "ada")
    assert ask(isolated_tools.number)["content"] == [{"text": "7"}]
    assert ask(isolated_tools.large_number)["content"] == [{"json": {"number": 2**80}}]


def test_an_isolated_call_can_be_cancelled() -> None:
    cancel = Cancellation()
    threading.Timer(0.3, cancel.set).start()
    started = time.monotonic()
    made = CallContext(cancel=cancel, timeout=20)
    assert code_of(ask(isolated_tools.hold, {"seconds": 20}, made)) == "cancelled"
    assert time.monotonic() - started < 4


def test_only_a_function_at_the_top_of_a_module_can_be_isolated() -> None:
    with pytest.raises(ToolError, match="top of a module"):

        @tool(spec=spec(), isolate="process")
        def probe() -> None:
            pass


def test_an_isolated_tool_of_a_script_and_of_a_project_is_found_by_the_child(tmp_path: Path) -> None:
    text = (
        "import asyncio, os\nfrom strands_cli import call_tool, tool\n"
        "S = {'name': 'here', 'inputSchema': {'type': 'object', 'properties': {}}}\n"
        "@tool(spec=S, isolate='process')\ndef here() -> int:\n    return os.getppid()\n"
        "if __name__ == '__main__':\n"
        "    r = asyncio.run(call_tool(here, {'input': {}}))\n"
        "    print(r['content'][0]['text'] == str(os.getpid()))\n"
    )
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n", done.stderr
    (tmp_path / "tools").mkdir()
    (tmp_path / "strands.toml").touch()
    (tmp_path / "tools" / "_shared.py").write_text("WORD = 'from a sibling'\n")
    (tmp_path / "tools" / "word.py").write_text(
        "from strands_cli import tool\nfrom ._shared import WORD\n"
        "TOOL_SPEC = {'name': 'word', 'inputSchema': {'type': 'object', 'properties': {}}}\n"
        "@tool(spec=TOOL_SPEC, isolate='process')\ndef word() -> str:\n    return WORD\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "strands_cli", "tool", "call", "word"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "from a sibling\n", done.stderr


def test_a_generators_last_yield_or_its_return_value_is_the_result() -> None:
    @tool(spec=spec())
    def last() -> Iterator[str]:
        yield "half"
        yield "all"

    @tool(spec=spec())
    def returned() -> Any:
        yield "half"
        yield "nearly"
        return {"answer": 42}

    @tool(spec=spec())
    async def streamed() -> AsyncIterator[str]:
        yield "half"
        await asyncio.sleep(0)
        yield "all"

    @tool(spec=spec())
    def empty() -> Iterator[str]:
        yield from ()

    events: list[Event] = []
    context = CallContext(emit=events.append)
    assert ask(last, context=context)["content"] == [{"text": "all"}]
    assert ask(returned, context=context)["content"] == [{"json": {"answer": 42}}]
    assert ask(streamed, context=context)["content"] == [{"text": "all"}]
    assert ask(empty)["content"] == [{"text": "None"}]
    reports = [event.data for event in events if isinstance(event, ToolProgress)]
    assert reports == ["half", "all", "half", "nearly", "half", "all"]


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_generator_yields_is_reported_before_it_goes_on(is_async: bool) -> None:
    heard = threading.Event()

    @tool(spec=spec())
    def sync_body() -> Iterator[Any]:
        yield "begun"
        yield {"status": "success", "content": [{"text": str(heard.wait(10))}]}

    @tool(spec=spec())
    async def async_body() -> AsyncIterator[Any]:
        yield "begun"
        yield {"status": "success", "content": [{"text": str(heard.is_set())}]}

    events: list[Event] = []

    def listen(event: Event) -> None:
        if isinstance(event, ToolProgress):
            events.append(event)
            heard.set()

    result = ask(async_body if is_async else sync_body, context=CallContext(emit=listen))
    assert result["content"] == [{"text": "True"}]
    assert len(events) == 1, "a result is not a report"


def test_a_generator_that_never_ends_is_answered_at_its_deadline_and_then_stops() -> None:
    steps = [0]

    @tool(spec=spec(), timeout=0.2)
    def forever() -> Iterator[int]:
        while True:
            steps[0] += 1
            yield steps[0]

    @tool(spec=spec(), timeout=0.2)
    async def forever_async() -> AsyncIterator[int]:
        while True:
            await asyncio.sleep(0.001)
            yield 1

    assert code_of(ask(forever)) == "timeout"
    time.sleep(0.1)
    seen = steps[0]
    time.sleep(0.1)
    assert steps[0] == seen, "nobody waits, so the body has stopped"
    assert code_of(ask(forever_async)) == "timeout"


def test_methods_are_tools_that_share_the_state_of_their_object() -> None:
    class Counter:
        def __init__(self, step: int) -> None:
            self.step, self.total = step, 0

        @tool(spec=spec({"times": {"type": "integer"}}, required=["times"]))
        def add(self, times: int) -> int:
            """Adds."""
            self.total += self.step * times
            return self.total

        @tool(spec=spec())
        async def read(self) -> int:
            return self.total

    one, ten = Counter(1), Counter(10)
    ask(one.add, {"times": 2})
    ask(ten.add, {"times": 2})
    assert [ask(item.read)["content"][0]["text"] for item in (one, ten)] == ["2", "20"]
    assert one.add(times=1) == 3
    assert code_of(ask(Counter.add, {"times": 1})) == "unavailable"


@pytest.mark.parametrize("is_async", [True, False])
def test_every_call_that_a_body_makes_has_its_own_id_below_that_of_its_caller(is_async: bool) -> None:
    @tool(spec=spec(), blocking=False)
    def inner() -> str:
        return "done"

    @tool(spec=spec())
    async def outer_async(context: ToolContext) -> None:
        await asyncio.gather(*(context.call("inner") for _ in range(20)))

    @tool(spec=spec())
    def outer(context: ToolContext) -> None:
        for _ in range(20):
            context.call("inner")

    events: list[Event] = []
    context = CallContext(emit=events.append, resolve=lambda _: inner)
    ask(outer_async if is_async else outer, context=context)
    started = [event.call_id for event in events if isinstance(event, ToolStarted)]
    assert len(set(started)) == 21
    assert all(call_id.startswith("t1/") for call_id in started[1:])


def test_a_body_calls_other_tools_the_same_way() -> None:
    @tool(spec=spec({"n": {"type": "integer"}}, required=["n"]))
    def double(n: int) -> int:
        return n * 2

    @tool(spec=spec({"n": {"type": "integer"}}, required=["n"]))
    async def twice(n: int, context: ToolContext) -> str:
        return str(await context.call("double", n=n)) + "!"

    @tool(spec=spec({"n": {"type": "integer"}}, required=["n"]))
    def twice_sync(n: int, context: ToolContext) -> str:
        return str(context.call("double", n=n)) + "!"

    @tool(spec=spec())
    def wrong(context: ToolContext) -> str:
        try:
            return str(context.call("double", n="many"))
        except ToolFailed as failed:
            return f"{failed.code} {failed.details[0]['pointer']}"

    @tool(spec=spec())
    async def endless(context: ToolContext) -> Any:
        return await context.call("endless")

    @tool
    async def more(context: ToolContext) -> int:
        return 1 + await context.call("count")

    @tool
    def count() -> int:
        return 41

    known: dict[str, Tool] = {"double": double, "endless": endless, "count": count}
    context = CallContext(resolve=known.__getitem__)
    assert ask(twice, {"n": 4}, context)["content"] == [{"text": "8!"}]
    assert ask(twice_sync, {"n": 4}, context)["content"] == [{"text": "8!"}]
    assert ask(more, context=context)["content"] == [{"text": "42"}]
    assert ask(wrong, context=context)["content"] == [{"text": "input_invalid /n"}]
    result = ask(endless, context=context)
    assert code_of(result) == "failed"
    assert "calls deep" in result["content"][0]["text"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_cancelled_call_is_answered_at_once(is_async: bool) -> None:
    saw = threading.Event()

    @tool(spec=spec(), timeout=30)
    def sync_body(context: ToolContext) -> None:
        while not context.cancelled:
            time.sleep(0.01)
        saw.set()

    @tool(spec=spec(), timeout=30)
    async def async_body() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            saw.set()

    cancel = Cancellation()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    assert (
        code_of(ask(async_body if is_async else sync_body, context=CallContext(cancel=cancel))) == "cancelled"
    )
    assert time.monotonic() - started < 2
    assert saw.wait(2), "the body heard of it"
    assert code_of(ask(sync_body, context=CallContext(cancel=cancel))) == "cancelled"


def test_retryable_failures_of_idempotent_tools_are_tried_again() -> None:
    tries = {"network": 0, "failed": 0}

    def made(code: str, retries: int) -> Tool:
        @tool(spec=spec(), retries=retries, annotations={"idempotentHint": True})
        def probe() -> str:
            tries[code] += 1
            if tries[code] < 3:
                raise ToolFailed("not yet", code=code)
            return "at last"

        return probe

    assert ask(made("network", 2))["content"] == [{"text": "at last"}]
    assert code_of(ask(made("failed", 2))) == "failed"
    assert tries == {"network": 3, "failed": 1}
    with pytest.raises(ToolError, match="idempotentHint"):

        @tool(spec=spec(), retries=1)
        def probe() -> None:
            pass


def test_a_long_answer_goes_to_a_file_and_the_model_gets_a_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = [{"number": number, "text": "é" * 20} for number in range(2000)]

    @tool(spec=spec(), max_output=5000)
    def table() -> Any:
        return rows

    @tool(spec=spec(), max_output=5000)
    def text() -> str:
        return "ünïcödé " * 5000

    answer = ask(table)["content"][0]["json"]
    assert answer["truncated"] is True
    assert len(json.dumps(answer)) < 10_000
    whole = answer["preview"][:-1]  # the last one may be cut
    assert len(whole) > 20
    assert whole == rows[: len(whole)]
    assert json.loads(Path(answer["path"]).read_text()) == rows
    shown = ask(text)["content"][0]["text"]
    assert len(shown.encode()) < 5000
    path = shown.rpartition(" is in ")[2].partition(";")[0]
    assert Path(path).read_text() == "ünïcödé " * 5000
    assert ask(table, context=CallContext(max_output=0))["content"] == [{"json": rows}]


def test_a_tool_can_read_the_file_of_a_long_answer_but_not_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strands_cli.tools.data_tools.parse_json import parse_json
    from strands_cli.tools.file_operations.file_read import file_read
    from strands_cli.tools.file_operations.file_write import file_write

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    @tool(spec=spec(), max_output=200)
    def table() -> Any:
        return {"rows": list(range(500))}

    path = ask(table)["content"][0]["json"]["path"]
    (tmp_path / "work").mkdir()
    context = CallContext(workspace=Workspace((tmp_path / "work",), tmp_path / "work"))
    found = ask(parse_json, {"path": path, "query": "/rows/499"}, context)
    assert found["content"] == [{"text": "499"}]
    assert code_of(ask(file_read, {"path": path}, context)) is None

    async def agree(_tool: Tool, _arguments: dict[str, Any]) -> None:
        pass

    allowed = CallContext(workspace=context.workspace, permit=agree)
    changed = ask(file_write, {"path": path, "content": "x", "mode": "overwrite"}, allowed)
    assert code_of(changed) == "forbidden"


def test_a_result_of_200_megabytes_leaves_the_host_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    @tool(spec=spec(), timeout=50)
    def huge() -> str:
        return "x" * 200_000_000

    result = ask(huge)
    assert len(result["content"][0]["text"]) < 100_001


def test_a_body_that_recurses_for_ever_is_a_crash() -> None:
    @tool(spec=spec())
    def deep() -> Any:
        def down(n: int) -> int:
            return down(n + 1)

        return down(0)

    assert "RecursionError" in ask(deep)["content"][0]["text"]
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]

    @tool(spec=spec(), blocking=False)
    def tangled() -> Any:
        return nested

    assert code_of(ask(tangled)) == "output_invalid"


def test_the_caller_being_cancelled_ends_the_body_and_is_reported() -> None:
    ended = []
    events: list[Event] = []

    @tool(spec=spec())
    async def probe() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    async def main() -> None:
        task = asyncio.create_task(call_tool(probe, {"toolUseId": "t"}, CallContext(emit=events.append)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ended == [True]
    assert events[-1].code == "cancelled"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "greater than zero"),
        ({"timout": 3}, "no option 'timout'"),
        ({"version": "one"}, "not a version"),
        ({"category": "filez"}, "no category"),
        ({"requires": {"x": 5}}, "version range"),
        ({"annotations": {"readonly": True}}, "readOnlyHint"),
        ({"isolate": "thread"}, "process"),
        ({"output_schema": {"type": "objec"}}, "output schema"),
    ],
)
def test_what_is_wrong_with_a_tool_is_said_when_it_is_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:

        @tool(spec=spec(), **options)
        def probe() -> None:
            pass

    assert caught.value.issue is not None
    assert caught.value.issue.file.endswith("test_bodies.py")
    assert caught.value.issue.line > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"description": "x", "inputSchema": {}},
        {"name": "x y", "inputSchema": {}},
        {"name": "x" * 65, "inputSchema": {}},
        {"name": "x"},
        {"name": "x", "inputSchema": {"type": "array"}},
        {"name": "x", "inputSchema": {"type": "object"}, "schema": {}},
        "not a dictionary",
    ],
)
def test_a_spec_that_says_too_little_is_refused(bad: Any) -> None:
    with pytest.raises(ToolError):
        tool(spec=bad)(lambda tool: None)


def test_a_call_that_is_cancelled_before_it_begins_never_runs() -> None:
    ran: list[int] = []

    @tool(spec=spec(), blocking=False)
    def probe() -> None:
        ran.append(1)

    cancel = Cancellation()
    cancel.set()
    assert code_of(ask(probe, context=CallContext(cancel=cancel))) == "cancelled"
    assert ran == []


def test_a_body_that_asks_a_human_is_reported_as_interrupted() -> None:
    from strands_cli.toolkit.context import InterruptRequested

    events: list[Event] = []

    @tool(spec=spec())
    async def probe(context: ToolContext) -> str:
        return f"answer: {await context.interrupt('name', 'what is your name?')}"

    def nobody_yet(name: str, reason: Any) -> Any:
        raise InterruptRequested(name, reason)

    with pytest.raises(InterruptRequested):
        ask(probe, context=CallContext(interrupt=nobody_yet, emit=events.append))
    assert events[-1].code == "interrupted"  # type: ignore[union-attr]
    answered = ask(probe, context=CallContext(interrupt=lambda name, reason: "Ada"))
    assert answered["content"] == [{"text": "answer: Ada"}]


def test_a_module_of_ours_in_a_plain_sdk_agent_is_called_as_a_tool() -> None:
    import strands

    from strands_cli.tools import echo
    from tests.fakes import ScriptedModel, tool_call

    model = ScriptedModel().enqueue(tool_call("echo", message="by module")).enqueue("done")
    strands.Agent(model=model, tools=[echo], callback_handler=None)("go")
    assert model.requests[-1].results[0]["content"] == [{"text": "by module"}]
