"""Spans as a collector gets them: each below what it belongs to, and nothing in them that was said."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

import msgspec
import pytest
from opentelemetry import trace

from strands_cli import CallContext, call_tool, tool
from strands_cli.errors import ToolFailed
from strands_cli.events import (
    ContextCompacted,
    Listener,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    ToolStderr,
)
from strands_cli.secrets import Redactor
from strands_cli.telemetry import open_telemetry
from strands_cli.types.run_results import Usage
from strands_cli.types.sections import Redact, Telemetry
from tests.telemetry.collector import Collector, collecting
from tests.telemetry.runs import USAGE, ask, inner, refuse, run, run_step, spec, use

ERROR = trace.StatusCode.ERROR.value
SHOW = Redact(tool_inputs=False, tool_outputs=False)

Play = Callable[[Listener], Coroutine[Any, Any, None]]


def played(play: Play, redact: Redact = Redact(), secrets: tuple[str, ...] = ()) -> Collector:  # noqa: B008
    """What a collector has got after the coroutine has told its story."""
    warnings: list[str] = []
    with collecting() as collector:
        telemetry = Telemetry(otlp_endpoint=collector.url, redact=redact)
        with open_telemetry(telemetry, Redactor(secrets), warnings.append, {}) as exporting:
            assert exporting.listener is not None
            asyncio.run(play(exporting.listener))
    assert warnings == []
    return collector


def test_each_span_of_twenty_parallel_steps_is_below_its_own_step() -> None:
    keys = [f"branches/{index}/steps/0" for index in range(20)]
    collector = played(lambda emit: run(emit, *keys))
    assert len(collector.spans) == 1 + 20 * (1 + 2 + 2 + 2)
    assert len({span.trace for span in collector.spans}) == 1
    root = collector.one("run:flow")
    assert root.parent == b""
    for key in keys:
        step = collector.one(f"step:title {key}")
        assert step.parent == root.id
        own = [span for span in collector.spans if span.attributes.get("strands.step") == key]
        below = sorted(span.name for span in own if span.parent == step.id)
        assert below == ["model:acme one", "model:acme one", "tool:inner", "tool:outer"]
        (caller,) = [span for span in own if span.name == "tool:outer"]
        assert [span.name for span in own if span.parent == caller.id] == ["tool:inner", "tool:inner"]
        assert all(step.start <= span.start <= span.end <= step.end for span in own)


def test_a_body_finds_its_own_span_as_the_current_one() -> None:
    seen: list[int] = []

    @tool(spec=spec("look"))
    def look(text: str = "") -> str:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "ok"

    async def play(emit: Listener) -> None:
        before = trace.get_current_span()
        await run(emit, "steps/0", "steps/1", body=lambda emit, key: use(emit, key, look))
        assert trace.get_current_span() is before, "what a run makes current is so no longer"

    collector = played(play)
    assert sorted(seen) == sorted(int.from_bytes(span.id, "big") for span in collector.named("tool:look"))


def test_a_step_in_a_context_of_its_own_is_still_below_its_run() -> None:
    """Where a task was not made from the run's own, the key says what belongs to what."""

    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        await asyncio.create_task(run_step(emit, "steps/0", ask), context=Context())
        emit(RunFinished("done", 1, USAGE))

    collector = played(play)
    assert collector.parent_of(collector.one("step:title steps/0")) == "run:flow"


def test_events_of_a_step_are_placed_by_its_key_wherever_they_come_from() -> None:
    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        for key in ("steps/0", "steps/1"):
            emit(StepStarted(key, key, "writer"))
        await asyncio.create_task(use(emit, "steps/0", inner), context=Context())
        await asyncio.create_task(ask(emit, "steps/1"), context=Context())
        for key in ("steps/0", "steps/1"):
            emit(StepFinished(key, key, "writer", 1, USAGE))
        emit(RunFinished("done", 1, USAGE))

    collector = played(play)
    assert collector.parent_of(collector.one("tool:inner")) == "step:steps/0"
    assert collector.parent_of(collector.one("model:acme one")) == "step:steps/1"


def test_spans_tell_tokens_reasons_and_outcomes() -> None:
    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        await run_step(emit, "steps/0", ask, error="The model cannot be reached\nHere is what it was asked")
        emit(RunFinished("budget", 2, Usage(20, 30), "1 token is the limit"))

    collector = played(play)
    model = collector.one("model:acme one")
    assert model.attributes == {
        "strands.step": "steps/0",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "acme one",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.response.finish_reasons": ["end_turn"],
    }
    step = collector.one("step:title steps/0")
    assert (step.status, step.status_text) == (ERROR, "The model cannot be reached")
    assert step.attributes["gen_ai.agent.name"] == "writer"
    root = collector.one("run:flow")
    assert (root.status, root.status_text) == (ERROR, "1 token is the limit")
    assert root.attributes["strands.outcome"] == "budget"
    assert root.attributes["gen_ai.usage.output_tokens"] == 30


def test_each_attempt_is_a_span_and_retries_are_events_of_the_step() -> None:
    async def body(emit: Listener, key: str) -> None:
        await ask(emit, key, retries=2)
        emit(ContextCompacted(key, 40, 12))

    collector = played(lambda emit: run(emit, "steps/0", body=body))
    assert [span.status_text for span in collector.named("model:acme one")] == 2 * ["429 too many"] + [""]
    step = collector.one("step:title steps/0")
    retry = {"retry.attempt": 1, "retry.wait_seconds": 0.5, "retry.reason": "429 too many"}
    assert step.events == [
        ("retry", retry),
        ("retry", retry | {"retry.attempt": 2}),
        ("compaction", {"messages.before": 40, "messages.after": 12}),
    ]
    assert step.status != ERROR


def test_a_call_that_fails_is_an_error_and_one_that_waits_for_a_human_is_not() -> None:
    async def body(emit: Listener, key: str) -> None:
        await use(emit, key, refuse)
        emit(ToolStarted("ask", "1.0.0", "t2", {}, key))
        emit(ToolFinished("ask", "1.0.0", "t2", 0.1, 0, "interrupted", step=key))

    collector = played(lambda emit: run(emit, "steps/0", body=body))
    refused = collector.one("tool:refuse")
    assert (refused.status, refused.status_text, refused.attributes["tool.code"]) == (
        ERROR,
        "not_found",
        "not_found",
    )
    asked = collector.one("tool:ask")
    assert (asked.status == ERROR, asked.attributes["tool.code"]) == (False, "interrupted")


def test_what_nobody_finished_ends_with_what_is_around_it() -> None:
    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        emit(StepStarted("steps/0", "first", "writer"))
        emit(ModelStarted("steps/0", "acme one"))
        emit(ToolStarted("slow", "", "t1", step="steps/0"))
        emit(RunFinished("interrupted", 1, USAGE))

    collector = played(play)
    left = {span.name for span in collector.spans if span.attributes.get("strands.unfinished")}
    assert left == {"step:first", "model:acme one", "tool:slow"}
    assert collector.one("run:flow").status != ERROR


def test_events_without_a_beginning_are_passed_over() -> None:
    async def play(emit: Listener) -> None:
        emit(ToolFinished("slow", "", "t1", 1, 1))
        emit(ModelRetried("steps/0", 1, 1, "?"))
        emit(ModelFinished("steps/0", "acme", 1, USAGE))
        emit(StepFinished("steps/0", "first", "writer", 1, USAGE))
        emit(RunFinished("done", 1, USAGE))
        await use(emit, "", inner)

    assert [span.name for span in played(play).spans] == ["tool:inner"]


def test_inputs_and_outputs_are_left_out_unless_the_workflow_shows_them() -> None:
    def play(emit: Listener) -> Coroutine[Any, Any, None]:
        return run(emit, "steps/0", body=lambda emit, key: use(emit, key, inner, "hunter2-of-ada"))

    hidden = played(play)
    assert b"hunter2-of-ada" not in b"".join(hidden.bodies)
    assert b"the answer" not in b"".join(hidden.bodies)
    inputs = played(play, Redact(tool_inputs=False)).one("tool:inner").attributes
    assert json.loads(inputs["tool.inputs"]) == {"text": "hunter2-of-ada"}
    assert "tool.outputs" not in inputs
    outputs = played(play, Redact(tool_outputs=False)).one("tool:inner").attributes
    assert json.loads(outputs["tool.outputs"]) == [{"text": "got hunter2-of-ada"}]
    assert "tool.inputs" not in outputs


def test_what_is_shown_has_no_secrets_and_a_limit() -> None:
    secret = 'p"ss\nwörd'

    async def play(emit: Listener) -> None:
        emit(RunStarted("flow", "chain"))
        await use(emit, "", inner, f"{secret} and {'x' * 50_000}")
        emit(RunFinished("failed", 1, USAGE, f"{secret} is wrong".replace("\n", "\\n")))

    collector = played(play, SHOW, (secret,))
    told = collector.one("tool:inner").attributes
    assert told["tool.inputs"].startswith('{"text": "*** and xxx')
    assert len(told["tool.inputs"]) == len(told["tool.outputs"]) == 10_000
    assert secret.encode() not in b"".join(collector.bodies)
    assert collector.one("run:flow").status_text == "*** is wrong"


class Odd:
    def __str__(self) -> str:
        return "an object with s3cret-word"


class Broken:
    def __str__(self) -> str:
        raise LookupError("not even a text")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"text": ', '"{\\"text\\": "'),
        ({"image": b"\x89PNG"}, '{"image": "(4 bytes)"}'),
        (Odd(), '"an object with ***"'),
        ({("a", "b"): 1}, '"(cannot be shown as JSON)"'),
        ({"text": "\ud800"}, '{"text": "?"}'),
    ],
)
def test_inputs_of_any_kind_are_told(arguments: object, told: str) -> None:
    async def play(emit: Listener) -> None:
        emit(ToolStarted("\ud800 name", "", "t1", arguments))
        emit(ToolFinished("\ud800 name", "", "t1", 0, 0, "unknown_tool"))

    collector = played(play, SHOW, ("s3cret-word",))
    assert collector.one("tool:? name").attributes["tool.inputs"] == told


def test_an_output_too_large_to_search_is_told_by_its_size() -> None:
    async def play(emit: Listener) -> None:
        emit(ToolStarted("big", "", "t1"))
        emit(ToolFinished("big", "", "t1", 0, 2_000_000, None, [{"text": "y" * 2_000_000}]))

    assert (
        played(play, SHOW).one("tool:big").attributes["tool.outputs"]
        == '"(2000000 bytes, too many to be shown)"'
    )


def test_a_value_that_cannot_be_told_costs_its_span_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def play(emit: Listener) -> None:
        for call_id in ("t1", "t2"):
            emit(ToolStarted("odd", "", call_id, Broken()))
            emit(ToolFinished("odd", "", call_id, 0, 0))
        await use(emit, "", inner)

    assert [span.name for span in played(play, SHOW).spans] == ["tool:inner"]
    said = [record.getMessage() for record in caplog.records if record.name.startswith("strands_cli.")]
    assert [text for text in said if text.startswith("Spans")] == ["Spans failed at ToolStarted"]


def test_the_agent_engine_s_own_spans_do_not_get_there() -> None:
    from strands import Agent

    from strands_cli import agent_tools, equip
    from tests.fakes import ScriptedModel, tool_call

    @tool(spec=spec("greet"))
    async def greet(text: str = "") -> str:
        if text == "no":
            raise ToolFailed("refused")
        return f"hello {text}"

    async def body(emit: Listener, key: str) -> None:
        def tell(event: Any) -> None:
            emit(msgspec.structs.replace(event, step=key))

        model = ScriptedModel().enqueue("thinking", tool_call("greet", text="Ada")).enqueue("the final word")
        agent = Agent(
            model=model, tools=agent_tools([greet]), callback_handler=None, system_prompt="be brief"
        )
        equip(agent, context=CallContext(emit=tell))
        await agent.invoke_async("the very prompt")

    collector = played(lambda emit: run(emit, "steps/0", "steps/1", body=body))
    names = sorted(span.name for span in collector.spans)
    assert names == ["run:flow", "step:title steps/0", "step:title steps/1", "tool:greet", "tool:greet"]
    assert sorted(collector.parent_of(span) for span in collector.named("tool:greet")) == names[1:3]
    for said in (b"the very prompt", b"be brief", b"thinking", b"Ada", b"final word"):
        assert said not in b"".join(collector.bodies)


async def _direct(emit: Listener) -> None:
    await call_tool(inner, {"toolUseId": "t1", "input": {}}, CallContext(emit=emit))


def test_a_call_outside_of_any_run_is_a_span_of_its_own() -> None:
    span = played(_direct).one("tool:inner")
    assert span.parent == b""
    assert span.attributes == {
        "tool.id": "inner",
        "tool.version": "1.2.3",
        "tool.call_id": "t1",
        "tool.output_size": 4,
    }


def test_a_span_has_what_an_executable_said_beside_its_answer() -> None:
    async def call(emit: Listener) -> None:
        emit(ToolStarted("p__t", "1.0.0", "t1"))
        emit(ToolStderr("p__t", "t1", "careful", "It tried to write a.txt"))
        emit(ToolFinished("p__t", "1.0.0", "t1", 0.1, 3))

    span = played(call, SHOW).one("tool:p__t")
    assert span.attributes["tool.stderr"] == '"careful"'
    assert span.attributes["tool.refused"] == "It tried to write a.txt"
    assert "tool.stderr" not in played(call).one("tool:p__t").attributes
