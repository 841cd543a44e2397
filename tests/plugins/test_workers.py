"""Workers: one process for many calls, told apart by their ids."""

import asyncio
import time
from typing import Any

from strands_cli.events import ToolProgress
from strands_cli.plugins.manifest import Configuration
from strands_cli.plugins.processes import Workers, launch_of
from strands_cli.secrets import NOTHING_SECRET
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace
from tests.plugins.makers import PYTHON, SH, Bench, error, json_of, text_of, until

WORKER = f"""{PYTHON}import json, os, sys, threading, time

lock = threading.Lock()
cancelled = set()

def say(**message):
    with lock:
        print(json.dumps(message), flush=True)

def work(id, key, input):
    do = input.get("do", "")
    if do == "die":
        print("I am done for", file=sys.stderr, flush=True)
        os._exit(3)
    if do == "wait":
        until = time.monotonic() + input.get("seconds", 60)
        while time.monotonic() < until and not (id in cancelled and not input.get("stubborn")):
            time.sleep(0.01)
        if id in cancelled:
            return say(id=id, error="cancelled")
    if do == "flood":
        print("x" * 3_000_000, flush=True)
    if do == "count":
        for n in range(3):
            say(id=id, progress=n)
    if do == "fail":
        return say(id=id, error={{"code": "not_found", "message": "gone"}})
    if do == "noise":
        print("noise", flush=True)
        print('{{"id": "unknown", "result": 1}}', flush=True)
    say(id=id, result={{"pid": os.getpid(), "key": key, "n": input.get("n"), "env": os.environ.get("KEY", "")}})

for line in sys.stdin:
    message = json.loads(line)
    if "cancel" in message:
        cancelled.add(message["cancel"])
    else:
        threading.Thread(target=work, args=(message["id"], message["key"], message["input"]), daemon=True).start()
"""


def worker(bench: Bench, **keys: Any) -> Tool:
    return bench.tool(WORKER, mode="worker", **keys)


def test_many_calls_are_answered_by_one_process_in_any_order(bench: Bench) -> None:
    tool = worker(bench)

    async def calls() -> list[Any]:
        slow = asyncio.create_task(bench.ask(tool, {"do": "wait", "seconds": 0.3, "n": -1}))
        quick = await asyncio.gather(*(bench.ask(tool, {"n": n}) for n in range(20)))
        assert not slow.done()
        return [json_of(result) for result in [*quick, await slow]]

    found = asyncio.run(calls())
    assert [answer["n"] for answer in found] == [*range(20), -1]
    assert len({answer["pid"] for answer in found}) == 1
    assert bench.nothing_survives()


def test_a_call_carries_its_idempotency_key(bench: Bench) -> None:
    assert json_of(bench.call(worker(bench), key="step/1"))["key"] == "step/1"


def test_progress_and_errors_are_those_of_their_call(bench: Bench) -> None:
    tool = worker(bench)
    assert json_of(bench.call(tool, {"do": "count", "n": 1}))["n"] == 1
    assert [event.data for event in bench.events if isinstance(event, ToolProgress)] == [0, 1, 2]
    found = error(bench.call(tool, {"do": "fail"}))
    assert (found["code"], found["message"]) == ("not_found", "gone")


def test_noise_between_the_messages_is_passed_over(bench: Bench) -> None:
    assert json_of(bench.call(worker(bench), {"do": "noise", "n": 5}))["n"] == 5


def test_a_worker_that_dies_is_told_and_replaced(bench: Bench) -> None:
    tool = worker(bench)

    async def calls() -> tuple[Any, Any]:
        await bench.ask(tool)
        died = error(await bench.ask(tool, {"do": "die"}))
        return died, json_of(await bench.ask(tool, {"n": 2}))

    died, after = asyncio.run(calls())
    assert died["code"] == "crashed"
    assert "ended with exit status 3: I am done for" in died["message"]
    assert after["n"] == 2


def test_a_call_that_is_too_late_ends_the_worker_that_goes_on(bench: Bench) -> None:
    tool = worker(bench, timeout=1)

    async def calls() -> tuple[Any, float, Any]:
        started = time.monotonic()
        late = error(await bench.ask(tool, {"do": "wait", "stubborn": True}))
        seconds = time.monotonic() - started
        await asyncio.sleep(0.5)
        assert not bench.survivors()
        return late, seconds, json_of(await bench.ask(tool, {"n": 2}))

    late, seconds, after = asyncio.run(calls())
    assert late["code"] == "timeout"
    assert seconds < 2
    assert after["n"] == 2


def test_a_worker_that_heeds_a_cancellation_stays(bench: Bench) -> None:
    tool = worker(bench)

    async def calls() -> tuple[Any, Any, Any]:
        before = json_of(await bench.ask(tool))
        cancel = Cancellation()
        call = asyncio.create_task(bench.ask(tool, {"do": "wait"}, cancel=cancel))
        await asyncio.sleep(0.1)
        cancel.set()
        found = error(await call)
        await asyncio.sleep(0.5)
        return before, found, json_of(await bench.ask(tool))

    before, found, after = asyncio.run(calls())
    assert found["code"] == "cancelled"
    assert before["pid"] == after["pid"]


def test_silence_is_bounded_for_each_call(bench: Bench) -> None:
    found = error(bench.call(worker(bench, idle_timeout=0.3), {"do": "wait"}))
    assert (found["code"], "said nothing" in found["message"]) == ("timeout", True)


def test_a_worker_that_floods_its_output_is_ended(bench: Bench) -> None:
    found = error(bench.call(worker(bench), {"do": "flood"}))
    assert (found["code"], "wrote more than it may" in found["message"]) == ("output_invalid", True)
    assert bench.nothing_survives()


def test_a_program_that_is_no_worker_is_told_at_its_limit(bench: Bench) -> None:
    never = bench.tool(f"{SH}sleep 60\n", mode="worker", timeout=1)
    assert error(bench.call(never, {"text": "x" * 1_000_000}))["code"] == "timeout"
    ended = bench.tool(f"{SH}exit 0\n", mode="worker")
    assert error(bench.call(ended))["code"] == "crashed"
    assert bench.nothing_survives()


def test_a_secret_of_a_worker_is_shown_nowhere(bench: Bench, monkeypatch: Any) -> None:
    monkeypatch.setenv("KEY", "sesame-open")
    found = json_of(bench.call(worker(bench, config={"key": {"sensitive": True, "env": "KEY"}})))
    assert found["env"] == "***"


def test_plain_text_is_a_result_too(bench: Bench) -> None:
    source = f"{PYTHON}import json, sys\nfor line in sys.stdin:\n    print(json.dumps({{'id': json.loads(line)['id'], 'result': 'hi'}}), flush=True)\n"
    assert text_of(bench.call(bench.tool(source, mode="worker"))) == "hi"


def test_an_idle_worker_is_ended(bench: Bench) -> None:
    worker(bench)
    plugin = bench.loaded()
    workspace = Workspace((bench.project,), bench.project)
    found = Configuration({"STRANDS_TEST_MARK": bench.mark}, NOTHING_SECRET)
    launch = launch_of(plugin, plugin.manifest.cli_tools[0], found, workspace, "")

    async def idle() -> None:
        held = Workers(idle_seconds=0.3)
        running = await held.get("p__t", launch, NOTHING_SECRET)
        answer = await running.ask({}, key="", seconds=5, idle_seconds=None, on_progress=print)
        assert answer["status"] == "success"
        assert bench.survivors()
        await until(lambda: running.is_over and not bench.survivors())
        assert await held.get("p__t", launch, NOTHING_SECRET) is not running

    asyncio.run(idle())
    assert bench.nothing_survives()
