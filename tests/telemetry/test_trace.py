"""The trace: a run as one document, which holds what was done and not what was said."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from strands_cli.events import (
    ContextCompacted,
    Listener,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunNoticed,
    RunStarted,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from strands_cli.secrets import Redactor
from strands_cli.telemetry import Trace
from strands_cli.types.sections import Redact
from tests.telemetry.runs import USAGE, a_turn, ask, inner, outer, refuse, run, run_step, use

SHOW = Redact(tool_inputs=False, tool_outputs=False)
TOKENS = {"input_tokens": 11, "output_tokens": 7}


def traced(*keys: str, listener: Trace | None = None, **options: Any) -> dict[str, Any]:
    listener = listener or Trace()
    asyncio.run(run(listener, *keys, **options))
    return listener.document()


def untimed(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in {"at", "seconds"}}


def test_a_run_is_one_document_with_its_steps_in_the_order_of_their_start() -> None:
    keys = [f"branches/{index}/steps/0" for index in range(20)]
    document = traced(*keys)
    assert [*document] == ["format", "run", "steps", "notices", "cut"]
    assert [step["key"] for step in document["steps"]] == keys
    started = datetime.fromisoformat(document["run"]["started"])
    assert datetime.now(UTC) - started < timedelta(minutes=1)
    assert untimed(document["run"]) == {
        "workflow": "flow",
        "pattern": "parallel",
        "started": document["run"]["started"],
        "outcome": "done",
        "usage": {"input_tokens": 220, "output_tokens": 140},
    }
    assert document["run"]["seconds"] == 1.5
    for step in document["steps"]:
        assert (step["title"], step["agent"], step["model"]) == (f"title {step['key']}", "writer", "acme one")
        assert (step["seconds"], step["usage"], "error" in step) == (0.5, TOKENS, False)
        assert [untimed(model) for model in step["models"]] == 2 * [
            {"model": "acme one", "usage": TOKENS, "stop_reason": "end_turn"}
        ]
        assert [call["id"] for call in step["tools"]] == ["outer", "inner"]
        assert [call["id"] for call in step["tools"][0]["tools"]] == ["inner", "inner"]
        assert all(call["seconds"] > 0 and call["at"] >= step["at"] for call in step["tools"])


def test_the_text_is_the_document_as_json() -> None:
    listener = Trace()
    document = traced("steps/0", listener=listener)
    assert json.loads(listener.text()) == document


def test_failures_and_retries_are_told_and_nothing_that_was_said() -> None:
    async def body(emit: Listener, key: str) -> None:
        await ask(emit, key, retries=1, error="500\nthe prompt")
        emit(ContextCompacted(key, 40, 12))
        await use(emit, key, refuse, "hunter2")

    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        await run_step(emit, "steps/0", body, error="It went wrong\nthe prompt")
        emit(RunNoticed("shell needs consent\nthe prompt", "steps/0"))
        emit(RunFinished("failed", 1, USAGE, "It went wrong"))

    listener = Trace()
    asyncio.run(play(listener))
    document = listener.document()
    assert (document["run"]["outcome"], document["run"]["error"]) == ("failed", "It went wrong")
    assert [untimed(one) for one in document["notices"]] == [
        {"text": "shell needs consent", "step": "steps/0"}
    ]
    (step,) = document["steps"]
    assert step["error"] == "It went wrong"
    assert [model["error"] for model in step["models"]] == ["429 too many", "500"]
    assert [untimed(retry) for retry in step["retries"]] == [
        {"attempt": 1, "wait_seconds": 0.5, "reason": "429 too many"}
    ]
    assert [untimed(one) for one in step["compactions"]] == [{"before": 40, "after": 12}]
    (call,) = step["tools"]
    assert call["size"] > 0
    assert untimed(call) | {"size": 0} == {
        "id": "refuse", "version": "0.0.0", "call_id": "t1", "size": 0, "code": "not_found",
    }  # fmt: skip
    for said in ("hunter2", "the prompt", "the answer", "the body"):
        assert said not in listener.text()


def test_inputs_and_outputs_are_in_it_where_the_workflow_shows_them_without_secrets() -> None:
    listener = Trace(SHOW, Redactor(["hunter2-of-ada"]))
    document = traced(
        "steps/0", listener=listener, body=lambda emit, key: use(emit, key, outer, "hunter2-of-ada!")
    )
    (call,) = document["steps"][0]["tools"]
    assert call["inputs"] == {"text": "***!"}
    assert call["outputs"] == [{"text": "got ***! got ***!"}]
    assert [nested["inputs"] for nested in call["tools"]] == 2 * [{"text": "***!"}]
    assert document["cut"] == {"entries": 0, "characters": 0}


def test_a_long_value_is_cut_and_the_document_says_so() -> None:
    listener = Trace(Redact(tool_inputs=False))
    document = traced(
        "steps/0", listener=listener, body=lambda emit, key: use(emit, key, inner, "x" * 20_000)
    )
    (call,) = document["steps"][0]["tools"]
    assert call["inputs"] == '{"text": "' + "x" * 9_990 + "…"
    assert document["cut"] == {"entries": 0, "characters": 20_012 - 10_000}


def test_values_have_a_limit_together() -> None:
    async def body(emit: Listener, key: str) -> None:
        for _ in range(10):
            await use(emit, key, inner, "x" * 13)

    listener = Trace(Redact(tool_inputs=False), most_characters=100)
    document = traced("steps/0", listener=listener, body=body)
    shown = [call["inputs"] for call in document["steps"][0]["tools"]]
    assert shown == 4 * [{"text": "x" * 13}] + 6 * ["…"]
    assert document["cut"]["characters"] == 6 * 25


def test_entries_have_a_limit_and_what_is_left_out_is_counted() -> None:
    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        for index in range(4):
            await run_step(emit, f"steps/{index}", a_turn)
        emit(RunFinished("done", 1, USAGE))

    listener = Trace(most_entries=10)
    asyncio.run(play(listener))
    document = listener.document()
    assert [len(step["models"]) + len(step["tools"]) for step in document["steps"]] == [4, 2]
    assert document["cut"]["entries"] == 4 * 7 - 10
    assert document["run"]["outcome"] == "done"


def test_while_the_run_goes_on_it_tells_what_is_done_so_far() -> None:
    listener = Trace()

    async def play() -> None:
        listener(RunStarted("flow", "chain"))
        await run_step(listener, "steps/0", ask)
        listener(StepStarted("steps/1", "second", "writer"))
        listener(ModelStarted("steps/1", "acme one"))

    asyncio.run(play())
    before = listener.document()
    assert (before["run"]["outcome"], before["run"]["usage"]) == ("running", TOKENS)
    assert before["run"]["seconds"] > 0
    assert "seconds" not in before["steps"][1]
    assert "seconds" not in before["steps"][1]["models"][0]
    listener(RunFinished("interrupted", 2, USAGE))
    assert before["run"]["outcome"] == "running", "a document that was given away stays as it is"
    assert listener.document()["run"]["outcome"] == "interrupted"


def test_what_belongs_to_no_step_is_kept_apart() -> None:
    listener = Trace()
    listener(ToolStarted("loose", "", "t1"))
    listener(ToolFinished("loose", "", "t1", 0.5, 3))
    listener(ModelRetried("", 1, 1, "429"))
    listener(ToolFinished("unseen", "", "t2", 0.5, 3))
    outside = listener.document()["outside"]
    assert [call["id"] for call in outside["tools"]] == ["loose"]
    assert len(outside["retries"]) == 1
