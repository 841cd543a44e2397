"""`call_tool`: whatever comes in and whatever the body does, the answer is a coded result."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.events import Event, ToolFinished, ToolProgress, ToolStarted
from strands_cli.settings import load_settings
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.execution import MAX_ABANDONED, DaemonPool, Job
from strands_cli.toolkit.results import CODES, error_of


def spec(properties: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, **rest}
    return {"name": "probe", "description": "A probe", "inputSchema": {"json": schema}}


def ask(made: Tool, sent: object = None, context: CallContext | None = None) -> dict[str, Any]:
    call = {"toolUseId": "t1", "name": made.id, "input": {} if sent is None else sent}
    return dict(asyncio.run(call_tool(made, call, context or CallContext())))  # type: ignore[arg-type]


def code_of(result: dict[str, Any]) -> str | None:
    error = error_of(result)  # type: ignore[arg-type]
    return error["code"] if error else None


def recorder(properties: dict[str, Any], **rest: Any) -> tuple[Tool, list[dict[str, Any]]]:
    """A tool that notes every call that reached its body."""
    seen: list[dict[str, Any]] = []

    @tool(spec=spec(properties, **rest), blocking=False)
    def probe(**arguments: Any) -> str:
        seen.append(arguments)
        return "done"

    return probe, seen


MALFORMED = [
    "",
    "{",
    "[1, 2]",
    "null",
    '"text"',
    "5",
    '{"a": NaN}',
    "{'a': 1}",
    '{"a": 1}}',
    "not json",
    "[" * 100_000,
]


@pytest.mark.parametrize("text", MALFORMED)
def test_text_that_is_not_a_json_object_never_reaches_the_body(text: str) -> None:
    probe, seen = recorder({"a": {"type": "integer"}})
    assert code_of(ask(probe, text)) == "input_malformed"
    assert seen == []


def test_thirty_problems_are_told_at_once() -> None:
    probe, _ = recorder({f"p{number}": {"type": "integer"} for number in range(30)})
    error = error_of(ask(probe, {f"p{number}": "x" for number in range(30)}))  # type: ignore[arg-type]
    assert error is not None
    assert [detail["pointer"] for detail in error["details"]] == [f"/p{number}" for number in range(30)]
    assert all(f"/p{number} " in error["message"] for number in range(30))


def test_a_text_that_is_not_a_date_does_not_hide_the_problems_beside_it() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    @tool
    def probe(when: datetime, until: list[datetime], count: int = 1, even: Even | None = None) -> str:
        return "done"

    good, bad = "2026-01-31T12:00:00", "2026-02-31T12:00:00"

    def pointers(**sent: object) -> list[str]:
        error = error_of(ask(probe, sent))  # type: ignore[arg-type]
        assert error is not None
        assert error["code"] == "input_invalid"
        return [detail["pointer"] for detail in error["details"]]

    assert pointers(when=bad, until=[bad, good, bad], count="x") == [
        "/count",
        "/when",
        "/until/0",
        "/until/2",
    ]
    assert pointers(when=bad, until=[good, bad], even={"n": 1}) == ["/when", "/until/1", "/even/n"]
    assert pointers(when=bad, until="x") == ["/until", "/when"]


UNIT = {
    "type": "object",
    "properties": {"unit": {"type": "string", "default": "cm"}, "n": {"type": "integer"}},
}
CIRCLE = {"properties": {"kind": {"const": "circle"}, "r": {"default": 1}}, "required": ["kind"]}
BOX = {"properties": {"kind": {"const": "box"}, "w": {"default": 2}}, "required": ["kind"]}
TREE = {"properties": {"leaf": {"default": "green"}, "next": {"$ref": "#/$defs/tree"}}}


@pytest.mark.parametrize(
    ("part", "sent", "got"),
    [
        ({"anyOf": [UNIT, {"type": "null"}]}, {"n": 2.0}, {"unit": "cm", "n": 2}),
        ({"anyOf": [UNIT, {"type": "null"}]}, None, None),
        ({"anyOf": [CIRCLE, BOX]}, {"kind": "box"}, {"kind": "box", "w": 2}),
        ({"oneOf": [CIRCLE, BOX]}, {"kind": "circle"}, {"kind": "circle", "r": 1}),
        ({"anyOf": [CIRCLE, {"$ref": "#/$defs/box"}]}, {"kind": "box"}, {"kind": "box", "w": 2}),
        ({"allOf": [UNIT, {"properties": {"m": {"default": 3}}}]}, {}, {"unit": "cm", "m": 3}),
        ({"additionalProperties": UNIT}, {"a": {}, "b": {"n": 1}}, {"a": {"unit": "cm"}, "b": {"unit": "cm", "n": 1}}),
        ({"type": "array", "items": {"type": "array", "items": UNIT}}, [[{}], []], [[{"unit": "cm"}], []]),
        ({"type": "array", "items": {"type": "integer"}}, [1.0, 2], [1, 2]),
        ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, [1.0, "a"], [1, "a"]),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, 1.5, 1.5),
        ({"$ref": "#/$defs/box", "properties": {"d": {"default": 4}}}, {"kind": "box"}, {"kind": "box", "w": 2, "d": 4}),
        ({"$ref": "#/$defs/tree"}, {"next": {}}, {"leaf": "green", "next": {}}),
    ],
)  # fmt: skip
def test_defaults_are_filled_in_wherever_the_schema_has_them(part: Any, sent: Any, got: Any) -> None:
    probe, seen = recorder({"x": part}, **{"$defs": {"box": BOX, "tree": TREE}})
    before = json.dumps(sent)
    assert code_of(ask(probe, {"x": sent})) is None
    assert json.dumps(seen, sort_keys=True) == json.dumps([{"x": got}], sort_keys=True)
    assert json.dumps(sent) == before


@pytest.mark.parametrize("value", [[1], 5, 2.5, True, (1, 2)])
def test_a_value_that_is_not_an_object_never_reaches_the_body(value: object) -> None:
    probe, seen = recorder({})
    assert code_of(ask(probe, value)) == "input_malformed"
    assert seen == []


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"a": {"type": "integer"}}, {"a": "five"}, "/a"),
    ({"a": {"type": "integer"}}, {"a": "5.5"}, "/a"),
    ({"a": {"type": "integer"}}, {"a": True}, "/a"),
    ({"a": {"type": "integer"}}, {"a": None}, "/a"),
    ({"a": {"type": "number"}}, {"a": "1e400x"}, "/a"),
    ({"a": {"type": "string"}}, {"a": 5}, "/a"),
    ({"a": {"type": "boolean"}}, {"a": "yes"}, "/a"),
    ({"a": {"type": "array"}}, {"a": "[1]"}, "/a"),
    ({"a": {"type": "array", "items": {"type": "integer"}}}, {"a": [1, "x"]}, "/a/1"),
    ({"a": {"enum": ["GET", "POST"]}}, {"a": "PUT"}, "/a"),
    ({"a": {"enum": ["A", "a"]}}, {"a": "á"}, "/a"),
    ({"a": {"type": "integer", "minimum": 3}}, {"a": 2}, "/a"),
    ({"a": {"type": "string", "format": "uri"}}, {"a": "no uri"}, "/a"),
    ({"a": {"type": "string", "pattern": "^x"}}, {"a": "y"}, "/a"),
    (
        {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}},
        {"a": {}},
        "/a/b",
    ),
    ({"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, {"a": "x"}, "/a"),
    ({"a": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["q"]}]}}, {"a": {}}, "/a/q"),
    ({"a~b/c": {"type": "integer"}}, {"a~b/c": "x"}, "/a~0b~1c"),
    ({"message": {"type": "string"}}, {"mesage": "x"}, "/mesage"),
]


@pytest.mark.parametrize(("properties", "sent", "pointer"), REFUSED)
def test_what_the_schema_refuses_is_told_with_its_pointer(
    properties: dict[str, Any], sent: dict[str, Any], pointer: str
) -> None:
    probe, seen = recorder(properties)
    result = ask(probe, sent)
    error = error_of(result)  # type: ignore[arg-type]
    assert error is not None
    assert error["code"] == "input_invalid"
    assert [detail["pointer"] for detail in error["details"]] == [pointer]
    assert all(detail["expected"] and detail["got"] for detail in error["details"])
    assert pointer in result["content"][0]["text"]
    assert seen == []


COERCED: list[tuple[dict[str, Any], object, object]] = [
    ({"type": "integer"}, "5", 5),
    ({"type": "integer"}, "-17", -17),
    ({"type": "integer"}, 5.0, 5),
    ({"type": ["integer", "null"]}, 5.0, 5),
    ({"type": ["integer", "number"]}, 5.0, 5.0),
    ({"type": "number"}, "2.5", 2.5),
    ({"type": "boolean"}, "True", True),
    ({"enum": ["GET", "POST"]}, "get", "GET"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
    ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
    ({"type": "object", "properties": {"b": {"type": "integer"}}}, {"b": "3"}, {"b": 3}),
]


@pytest.mark.parametrize(("part", "sent", "received"), COERCED)
def test_what_a_value_plainly_means_is_what_the_body_gets(
    part: dict[str, Any], sent: object, received: object
) -> None:
    probe, seen = recorder({"a": part})
    original = {"a": sent}
    assert code_of(ask(probe, original)) is None
    assert seen == [{"a": received}]
    assert type(seen[0]["a"]) is type(received)
    assert original == {"a": sent}, "the caller's own input is left alone"


def test_every_problem_is_told_at_once() -> None:
    probe, _ = recorder({"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}, required=["b", "c"])
    error = error_of(ask(probe, {"a": "x", "d": 1}))  # type: ignore[arg-type]
    assert error is not None
    assert {detail["pointer"] for detail in error["details"]} == {"/a", "/b", "/c", "/d"}


def test_an_unknown_argument_is_told_the_nearest_known_name() -> None:
    probe, _ = recorder({"message": {"type": "string"}})
    result = ask(probe, {"mesage": "x"})
    assert "Did you mean 'message'?" in result["content"][0]["text"]


def test_a_schema_that_allows_other_arguments_gets_them() -> None:
    probe, seen = recorder({"a": {"type": "integer"}}, additionalProperties=True)
    ask(probe, {"a": 1, "b": 2})
    assert seen == [{"a": 1, "b": 2}]


def test_arguments_declared_by_a_composed_schema_are_known() -> None:
    probe, seen = recorder({"a": {}}, allOf=[{"properties": {"b": {}}}])
    assert code_of(ask(probe, {"a": 1, "b": 2})) is None
    assert code_of(ask(probe, {"a": 1, "c": 2})) == "input_invalid"
    assert seen == [{"a": 1, "b": 2}]


def test_defaults_are_filled_in_at_every_depth_and_never_shared() -> None:
    inner = {"type": "object", "properties": {"tags": {"type": "array", "default": []}}}
    rows = {
        "type": "array",
        "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}},
    }
    probe, seen = recorder({"mode": {"type": "string", "default": "fast"}, "inner": inner, "rows": rows})
    for _ in range(2):
        ask(probe, {"inner": {}, "rows": [{}, {"n": 1}]})
        seen[-1]["inner"]["tags"].append("x")
    assert seen[1] == {"mode": "fast", "inner": {"tags": ["x"]}, "rows": [{"n": 7}, {"n": 1}]}


def test_defaults_behind_a_reference_are_filled_in_and_recursion_ends() -> None:
    node = {
        "type": "object",
        "properties": {"n": {"type": "integer", "default": 1}, "next": {"$ref": "#/$defs/node"}},
    }
    probe, seen = recorder({"start": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}})
    ask(probe, {"start": {"next": {}}})
    assert seen[0]["start"]["n"] == 1


def test_a_remote_reference_is_refused_when_the_tool_is_made() -> None:
    with pytest.raises(Exception, match="outside the schema"):
        recorder({"a": {"$ref": "http://127.0.0.1:1/schema.json"}})


@given(
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.integers(), st.text(), st.none(), st.booleans()), max_size=4
    )
)
def test_the_body_gets_just_what_the_schema_accepts(sent: dict[str, Any]) -> None:
    probe, seen = recorder({"a": {"type": "integer"}, "b": {"type": "string"}}, required=["a"])
    failed = code_of(ask(probe, sent)) is not None
    assert failed == (seen == [])
    for arguments in seen:
        assert type(arguments["a"]) is int
        assert isinstance(arguments.get("b", ""), str)


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("boom"), "crashed"),
        (SystemExit(3), "crashed"),
        (KeyboardInterrupt(), "crashed"),
        (StopIteration(1), "crashed"),
        (RecursionError("deep"), "crashed"),
        (ToolFailed("no such thing", code="not_found"), "not_found"),
        (ToolFailed("own word", code="quota"), "quota"),
    ],
)
def test_whatever_a_body_raises_becomes_a_coded_result(
    error: BaseException, code: str, blocking: bool
) -> None:
    @tool(spec=spec(), blocking=blocking, timeout=5)
    def probe() -> None:
        raise error

    @tool(spec=spec(), timeout=5)
    async def async_probe() -> None:
        raise error

    assert code_of(ask(probe)) == code
    if not isinstance(error, StopIteration):  # Python itself turns that one into a RuntimeError there
        assert code_of(ask(async_probe)) == code


def test_a_crash_tells_its_type_and_a_capped_message_but_no_traceback() -> None:
    @tool(spec=spec())
    def probe() -> None:
        raise ValueError("x" * 10_000)

    text = ask(probe)["content"][0]["text"]
    assert text.startswith("Execution failed: ValueError: xxx")
    assert len(text) < 2200
    assert "Traceback" not in text


def test_a_sync_body_that_hangs_is_answered_at_its_deadline_again_and_again() -> None:
    @tool(spec=spec(), timeout=0.1)
    def probe() -> None:
        time.sleep(2)

    started = time.monotonic()
    assert [code_of(ask(probe)) for _ in range(10)] == ["timeout"] * 10
    assert time.monotonic() - started < 3


def test_an_async_body_that_swallows_its_cancellation_is_answered_at_its_deadline() -> None:
    @tool(spec=spec(), timeout=0.1)
    async def probe() -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
        return "too late"

    async def measured() -> tuple[str | None, float]:
        started = time.monotonic()
        result = await call_tool(probe, {"input": {}})
        return code_of(dict(result)), time.monotonic() - started

    code, seconds = asyncio.run(measured())
    assert code == "timeout"
    assert seconds < 0.4


def test_a_setting_bounds_every_tool_and_the_caller_may_set_its_own_limit(tmp_path: Path) -> None:
    @tool(spec=spec(), timeout=5)
    def probe() -> str:
        time.sleep(0.3)
        return "done"

    (tmp_path / "strands.toml").write_text("timeout = 0.1")
    settings = load_settings(tmp_path)
    assert code_of(ask(probe, context=CallContext(settings=settings))) == "timeout"
    assert code_of(ask(probe, context=CallContext(settings=settings, timeout=5))) is None


def test_blocking_bodies_run_side_by_side() -> None:
    @tool(spec=spec())
    def probe() -> str:
        time.sleep(0.2)
        return threading.current_thread().name

    async def many() -> list[Any]:
        return await asyncio.gather(*(call_tool(probe, {"input": {}}) for _ in range(20)))

    started = time.monotonic()
    results = asyncio.run(many())
    assert time.monotonic() - started < 1.5
    assert {result["status"] for result in results} == {"success"}


def refuse_one_for_want_of_a_thread(pool: DaemonPool) -> None:
    size = threading.stack_size(1 << 46)  # more than any machine has
    try:
        with pytest.raises(ToolFailed, match="Cannot start a thread"):
            pool.submit(Job(lambda: None, lambda _: None, "probe"))
    finally:
        threading.stack_size(size)


@pytest.mark.parametrize("before", [lambda _: None, refuse_one_for_want_of_a_thread], ids=["new", "refused"])
def test_a_pool_runs_no_more_bodies_at_once_than_its_size(before: Callable[[DaemonPool], None]) -> None:
    pool = DaemonPool(3)
    before(pool)
    running, most, finished = [0], [0], threading.Semaphore(0)
    lock = threading.Lock()

    def body() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    for _ in range(30):
        pool.submit(Job(body, lambda _: finished.release(), "probe"))
    for _ in range(30):
        assert finished.acquire(timeout=5)
    assert most[0] == 3


def test_a_pool_with_too_many_abandoned_bodies_says_so_and_recovers() -> None:
    pool, release, started = DaemonPool(2), threading.Event(), threading.Semaphore(0)

    def body() -> None:
        started.release()
        release.wait(10)

    for number in range(MAX_ABANDONED):
        job = Job(body, lambda _: None, f"tool{number // 10}")
        pool.submit(job)
        assert started.acquire(timeout=5)
        pool.abandon(job)
    with pytest.raises(ToolFailed) as caught:
        pool.submit(Job(body, lambda _: None, "probe"))
    assert caught.value.code == "overloaded"
    release.set()
    delivered = threading.Event()
    for _ in range(100):
        try:
            pool.submit(Job(lambda: None, lambda _: delivered.set(), "probe"))
            break
        except ToolFailed:
            time.sleep(0.05)
    assert delivered.wait(5)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: datetime


STAMP = datetime(2026, 1, 2, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8

NORMALISED: list[tuple[object, list[dict[str, Any]]]] = [
    ("text", [{"text": "text"}]),
    (5, [{"text": "5"}]),
    (None, [{"text": "None"}]),
    (True, [{"text": "True"}]),
    ({"a": [1, None]}, [{"json": {"a": [1, None]}}]),
    ([1, "b"], [{"json": [1, "b"]}]),
    ((1, 2), [{"json": [1, 2]}]),
    (Point(1, STAMP), [{"json": {"x": 1, "when": "2026-01-02T00:00:00Z"}}]),
    ({"c": Colour.RED}, [{"json": {"c": "red"}}]),
    (Colour.RED, [{"text": "red"}]),
    ({"p": Path("a/b")}, [{"json": {"p": "a/b"}}]),
    ({1: "one"}, [{"json": {"1": "one"}}]),
    ({"big": 2**80, "pair": (1, 2)}, [{"json": {"big": 2**80, "pair": [1, 2]}}]),
    (PNG, [{"image": {"format": "png", "source": {"bytes": PNG}}}]),
    ("half \ud800 pair", [{"text": "half ? pair"}]),
    ({"status": "success", "content": [{"text": "own"}]}, [{"text": "own"}]),
    (
        {"status": "success", "content": [{"image": PNG}]},
        [{"image": {"format": "png", "source": {"bytes": PNG}}}],
    ),
    ({"status": "active", "content": "x"}, [{"json": {"status": "active", "content": "x"}}]),
]


@pytest.mark.parametrize(("value", "content"), NORMALISED, ids=[str(case[0])[:30] for case in NORMALISED])
def test_a_body_may_return_any_value(value: object, content: list[dict[str, Any]]) -> None:
    @tool(spec=spec(), blocking=False)
    def probe() -> object:
        return value

    assert ask(probe) == {"toolUseId": "t1", "status": "success", "content": content}


UNUSABLE: list[Callable[[], object]] = [
    lambda: {"x": object()},
    lambda: {"x": float("nan")},
    lambda: float("nan"),
    lambda: [1, [float("inf")]],
    lambda: b"\x00\x01 no image",
    lambda: {"status": "success", "content": ["not a block"]},
    lambda: {"x": ValueError("an exception is no answer")},
]


@pytest.mark.parametrize("make", UNUSABLE)
def test_a_value_without_a_json_form_is_the_tools_fault(make: Callable[[], object]) -> None:
    @tool(spec=spec(), blocking=False)
    def probe() -> object:
        return make()

    assert code_of(ask(probe)) == "output_invalid"


def test_an_answer_that_breaks_the_output_schema_is_told_with_its_pointer() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    @tool(spec=spec({"n": {}}, required=["n"]), blocking=False, output_schema=schema)
    def probe(n: object) -> object:
        return {"n": n}

    assert code_of(ask(probe, {"n": 5})) is None
    error = error_of(ask(probe, {"n": "five"}))  # type: ignore[arg-type]
    assert error is not None
    assert error["code"] == "output_invalid"
    assert error["details"][0]["pointer"] == "/n"
    assert "bug in the tool" in error["hint"]


def test_an_output_schema_speaks_of_the_json_block_of_an_own_result_and_of_plain_scalars() -> None:
    def made(value: object, schema: dict[str, Any]) -> str | None:
        @tool(spec=spec(), blocking=False, output_schema=schema)
        def probe() -> object:
            return value

        return code_of(ask(probe))

    own = {"status": "success", "content": [{"text": "note"}, {"json": [1]}]}
    assert made(own, {"type": "array"}) is None
    assert made(own, {"type": "object"}) == "output_invalid"
    assert made(5, {"type": "integer"}) is None
    assert made("5", {"type": "integer"}) == "output_invalid"


def test_consent_that_nobody_can_give_stops_the_call_before_the_body() -> None:
    ran = []

    @tool(spec=spec(), requires_consent=True)
    def probe() -> str:
        ran.append(1)
        return "done"

    async def refuse(_tool: Tool, _arguments: dict[str, Any]) -> None:
        raise ToolFailed("no", code="denied")

    async def agree(_tool: Tool, _arguments: dict[str, Any]) -> None:
        pass

    assert code_of(ask(probe)) == "consent_required"
    bypassed = load_settings(environment={"BYPASS_TOOL_CONSENT": "yes"})
    assert code_of(ask(probe, context=CallContext(permit=refuse))) == "denied"
    assert ran == []
    assert code_of(ask(probe, context=CallContext(permit=agree))) is None
    assert code_of(ask(probe, context=CallContext(settings=bypassed))) is None


@pytest.mark.parametrize(
    ("requires", "word"),
    [
        ({"no-such-package": ">=1.0"}, "no-such-package"),
        ({"msgspec": ">=999"}, ">=999"),
        ({"binaries": ["no-such-program"]}, "no-such-program"),
        ({"env": ["NO_SUCH_VARIABLE"]}, "NO_SUCH_VARIABLE"),
        ({"platforms": ["plan9"]}, "plan9"),
    ],
)
def test_a_tool_that_lacks_something_says_what(requires: dict[str, Any], word: str) -> None:
    @tool(spec=spec(), requires=requires)
    def probe() -> str:
        return "done"

    result = ask(probe)
    assert code_of(result) == "unavailable"
    assert word in result["content"][0]["text"]


def test_a_tool_whose_needs_are_met_runs() -> None:
    @tool(
        spec=spec(),
        requires={"msgspec": ">=0.1", "binaries": ["python3"], "platforms": ["linux", "darwin", "win32"]},
    )
    def probe() -> str:
        return "done"

    assert code_of(ask(probe)) is None


def test_a_call_is_reported_when_it_starts_and_when_it_ends() -> None:
    events: list[Event] = []

    @tool(spec=spec({"fail": {"type": "boolean"}}), version="1.2.3")
    def probe(fail: bool = False) -> str:
        if fail:
            raise ToolFailed("no")
        return "12345"

    ask(probe, {}, CallContext(emit=events.append))
    ask(probe, {"fail": True}, CallContext(emit=events.append))
    assert events[0] == ToolStarted("probe", "1.2.3", "t1", {})
    assert isinstance(events[1], ToolFinished)
    assert (events[1].output_size, events[1].code) == (5, None)
    assert isinstance(events[3], ToolFinished)
    assert events[3].code == "failed"


def test_a_body_sees_its_tool_use_and_what_the_caller_passed_along() -> None:
    @tool(spec=spec({"a": {"type": "integer"}}, required=["a"]))
    def probe(a: int, context: ToolContext) -> dict[str, Any]:
        return {"id": context.tool_use["toolUseId"], "a": a, "user": context.invocation_state["user"]}

    result = ask(probe, {"a": 1}, CallContext(invocation_state={"user": "ada"}))
    assert result["content"] == [{"json": {"id": "t1", "a": 1, "user": "ada"}}]


def test_a_direct_call_of_an_async_tool_works_inside_a_running_loop() -> None:
    @tool(spec=spec())
    async def probe() -> str:
        await asyncio.sleep(0)
        return "done"

    async def inside() -> Any:
        return probe({"toolUseId": "d", "input": {}})

    assert asyncio.run(inside())["content"] == [{"text": "done"}]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    "error",
    [ValueError("boom"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), Unspeakable()],
    ids=lambda error: type(error).__name__,
)
def test_a_direct_call_of_an_async_tool_answers_whatever_its_body_raises(error: BaseException) -> None:
    @tool(spec=spec())
    async def probe() -> str:
        await asyncio.sleep(0)
        raise error

    result = probe({"toolUseId": "d", "input": {}})
    assert code_of(result) == "crashed"
    assert result["content"][0]["text"].startswith(f"Execution failed: {type(error).__name__}")


def test_a_direct_call_of_an_async_tool_that_says_no_has_its_code() -> None:
    @tool(spec=spec())
    async def probe() -> str:
        raise ToolFailed("not here", code="not_found")

    assert code_of(probe({"toolUseId": "d", "input": {}})) == "not_found"


@pytest.mark.parametrize("kind", ["inline", "thread", "async"])
def test_a_listener_that_fails_is_not_the_tools_crash(kind: str) -> None:
    @tool(spec=spec(), blocking=kind != "inline")
    def sync_body(context: ToolContext) -> str:
        context.progress("half")
        return "done"

    @tool(spec=spec())
    async def async_body(context: ToolContext) -> str:
        context.progress("half")
        return "done"

    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        raise ValueError("the listener's own trouble")

    result = ask(async_body if kind == "async" else sync_body, context=CallContext(emit=listen))
    assert result["content"] == [{"text": "done"}]
    assert [type(event) for event in heard] == [ToolStarted, ToolProgress, ToolFinished]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), ValueError("boom")], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("blocking", [True, False])
def test_a_value_whose_own_methods_raise_is_the_tools_fault(error: BaseException, blocking: bool) -> None:
    class Answer:
        def model_dump(self, mode: str) -> Any:
            raise error

    @tool(spec=spec(), blocking=blocking)
    def probe() -> object:
        return Answer()

    assert code_of(ask(probe)) == "output_invalid"
    assert code_of(probe({"toolUseId": "d", "input": {}})) == "output_invalid"


def test_a_failure_that_a_tool_returns_reaches_the_model_with_a_code() -> None:
    def answer(content: list[Any], **options: Any) -> dict[str, Any]:
        @tool(spec=spec(), blocking=False, **options)
        def probe() -> object:
            return {"status": "error", "content": content}

        return ask(probe)

    result = answer([{"text": "No such city"}])
    assert result["content"][0] == {"text": "No such city"}
    assert result["content"][1:] == [
        {"json": {"error": {"code": "failed", "message": "No such city", "retryable": False, "details": []}}}
    ]
    own = {"json": {"error": {"code": "not_found", "message": "No such city"}}}
    assert answer([{"text": "No such city"}, own])["content"] == [{"text": "No such city"}, own]
    assert code_of(answer([])) == "failed"
    assert answer([])["content"][0]["text"] == "The tool failed and gave no reason"
    long = answer([{"text": "x" * 100_000}], max_output=1000)
    assert code_of(long) == "failed"
    assert len(str(long["content"])) < 8000


def test_a_decorated_function_called_with_ordinary_arguments_is_the_function() -> None:
    @tool(spec=spec({"a": {"type": "integer"}}, required=["a"]))
    def probe(a: int) -> int:
        """Doubles."""
        return a * 2

    assert probe(21) == 42
    assert probe(a=1) == 2
    assert (probe.__name__, probe.__doc__) == ("probe", "Doubles.")


def test_every_code_says_who_must_act_and_has_an_exit_code() -> None:
    for row in CODES.values():
        assert row.acts in {"model", "user", "author", "nobody"}
        assert row.meaning.endswith(".")
        assert 2 <= row.exit_code <= 130
