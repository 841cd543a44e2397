"""Tools made of tools: a composition is called, checked, timed and reported like any other tool."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from strands import tool as sdk_decorator

from strands_cli import CallContext, ToolContext, ToolFailed, call_tool, tool
from strands_cli.errors import ToolError
from strands_cli.events import Event, ToolFinished, ToolStarted
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.composition import each, fallback, fan_out, pipe
from strands_cli.toolkit.context import InterruptRequested
from strands_cli.toolkit.contract import Effects, Tool, parse_effects
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.values import value_of_result

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def make(
    name: str,
    body: Callable[..., Any],
    properties: dict[str, Any],
    required: list[str] | None = None,
    output: dict[str, Any] | None = None,
    effects: object = None,
    **options: Any,
) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    spec: dict[str, Any] = {"name": name, "description": f"The tool {name}.", "inputSchema": {"json": schema}}
    if output is not None:
        spec["outputSchema"] = output
    if effects is not None:
        options["effects"] = parse_effects(effects, schema)
    made: Tool = tool(spec=spec, **{"blocking": False, **options})(body)
    return made


def ask(made: Tool, sent: object = None, **given: Any) -> ToolResult:
    call = {"toolUseId": "t1", "name": made.id, "input": {} if sent is None else sent}
    return asyncio.run(call_tool(made, call, CallContext(**given)))  # type: ignore[arg-type]


def value(made: Tool, sent: object = None, **given: Any) -> Any:
    return value_of_result(ask(made, sent, **given), made)


def error(made: Tool, sent: object = None, **given: Any) -> dict[str, Any]:
    found = error_of(ask(made, sent, **given))
    assert found is not None
    return found


def failing(name: str, code: str = "failed", message: str = "no") -> Tool:
    def body(**_: Any) -> None:
        raise ToolFailed(message, code=code, hint="a hint", details=[{"pointer": "/deep"}])

    return make(name, body, {"text": TEXT})


def hanging(name: str, timeout: float) -> Tool:
    async def body(**_: Any) -> None:
        await asyncio.sleep(30)

    return make(name, body, {"text": TEXT}, timeout=timeout)


def refused(build: Callable[[], Tool]) -> str:
    with pytest.raises(ToolError) as refusal:
        build()
    assert refusal.value.code == "unavailable"
    return f"{refusal.value.message} {refusal.value.hint}"


upper = make("upper", lambda text: text.upper(), {"text": TEXT}, output=TEXT)
length = make("length", lambda text: len([*text]), {"text": TEXT}, output=NUMBER)
double = make("double", lambda number: number * 2, {"number": NUMBER}, output=NUMBER)
split = make("split", lambda text: {"words": text.split()}, {"text": TEXT})
count = make("count", lambda words: len([*words]), {"words": {"type": "array"}})
join = make("join", lambda left, right: f"{left}+{right}", {"left": TEXT, "right": TEXT})


# --- pipe -------------------------------------------------------------------------------------------------


def test_a_pipe_passes_objects_as_arguments_and_scalars_to_the_only_property() -> None:
    assert value(pipe(split, count), {"text": "a b c"}) == "3"
    assert value(pipe(upper, length, double), {"text": "abc"}) == 6
    assert value(pipe(upper), {"text": "a"}) == "A"


def test_a_pipe_is_a_tool_with_the_schemas_of_its_ends() -> None:
    made = pipe(upper, length, version="1.2.3")
    assert (made.id, made.version) == ("upper_then_length", "1.2.3")
    assert made.input_schema == upper.input_schema
    assert made.output_schema == NUMBER
    assert "The tool length." in made.description
    assert made.timeout == upper.timeout + length.timeout + 1
    assert error(made, {"txt": "a"})["code"] == "input_invalid"
    named = pipe(upper, length, name="measure", description="Measures.", timeout=5)
    assert (named.id, named.description, named.timeout) == ("measure", "Measures.", 5)


def test_a_function_between_two_steps_makes_the_arguments_of_the_next() -> None:
    made = pipe(upper, lambda text: {"left": text, "right": text}, join)
    assert value(made, {"text": "a"}) == "A+A"
    assert value(pipe(split, lambda found: found["words"][0]), {"text": "a b"}) == "a"
    crash = error(pipe(split, lambda found: found["nothing"], count), {"text": "a"})
    assert crash["code"] == "crashed"


def test_a_pipe_keeps_blocks_that_are_no_values() -> None:
    picture = make("picture", lambda text: b"\x89PNG\r\n\x1a\n" + text.encode(), {"text": TEXT})
    answer = ask(pipe(upper, picture), {"text": "a"})
    assert answer["toolUseId"] == "t1"
    assert answer["content"][0]["image"]["source"]["bytes"].endswith(b"A")


def test_a_json_value_that_looks_like_a_result_stays_a_value() -> None:
    looks = {"status": "success", "content": []}
    own = make("own", lambda: {"status": "success", "content": [{"json": looks}]}, {})
    assert value(pipe(own)) == looks


def test_a_failing_step_is_named_and_keeps_its_code() -> None:
    found = error(pipe(upper, failing("breaks", "not_found")), {"text": "a"})
    assert found["code"] == "not_found"
    assert found["message"] == "Step 1 (breaks): no"
    assert found["hint"] == "a hint"
    assert found["details"] == [{"pointer": "/deep", "step": 1, "tool": "breaks"}]


def test_input_that_a_later_step_refuses_is_not_the_callers_fault() -> None:
    found = error(pipe(split, double), {"text": "a b"})
    assert found["code"] == "failed"
    assert found["details"][0]["tool"] == "double"
    assert error(pipe(make("silent", lambda: "x", {}), join))["code"] == "failed"


def test_steps_that_can_never_fit_are_refused() -> None:
    assert "takes several arguments" in refused(lambda: pipe(upper, join))
    assert "another type" in refused(lambda: pipe(upper, double))
    wordy = make(
        "wordy", lambda: {"number": "x"}, {}, output={"type": "object", "properties": {"number": TEXT}}
    )
    assert "'number' of double" in refused(lambda: pipe(wordy, double))
    referring = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "array"}, {"type": "null"}]}}}
    assert "another type" in refused(lambda: pipe(make("lists", lambda: [], {}, output=referring), double))
    assert "Begin with a tool" in refused(lambda: pipe(lambda text: text, upper))  # type: ignore[arg-type]
    assert "not a tool" in refused(lambda: pipe(upper, 5))  # type: ignore[arg-type]


def test_numbers_and_integers_fit_one_another() -> None:
    half = make("half", lambda number: number / 2, {"number": {"type": "number"}}, output={"type": "number"})
    assert value(pipe(double, half), {"number": 3}) == 3
    assert value(pipe(half, double), {"number": 3.0 + 1}) == 4


# --- fan_out ----------------------------------------------------------------------------------------------


def test_a_fan_out_gives_the_value_of_each_tool_under_its_name() -> None:
    assert value(fan_out(upper, length), {"text": "ab"}) == {"upper": "AB", "length": 2}
    assert value(fan_out(one=upper, two=upper), {"text": "a"}) == {"one": "A", "two": "A"}
    assert fan_out(upper, length).id == "upper_and_length"


def test_a_fan_out_runs_its_tools_at_the_same_time() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(text: str) -> str:
        await meeting.wait()
        return text

    meets = make("meets", meet, {"text": TEXT}, timeout=5)
    assert value(fan_out(a=meets, b=meets, c=meets), {"text": "x"}) == {"a": "x", "b": "x", "c": "x"}
    assert fan_out(a=meets, b=meets).timeout == 6


def test_each_tool_of_a_fan_out_gets_the_arguments_that_it_takes() -> None:
    repeat = make("repeat", lambda text, times=2: text * times, {"text": TEXT, "times": NUMBER}, ["text"])
    anything = make("anything", lambda **all_of_it: sorted(all_of_it), {}, output={"type": "array"})
    anything_more = tool(
        spec={"name": "more", "description": "", "inputSchema": {"type": "object"}}, blocking=False
    )(lambda **all_of_it: sorted(all_of_it))
    made = fan_out(upper, repeat)
    assert value(made, {"text": "a", "times": 3}) == {"upper": "A", "repeat": "aaa"}
    assert value(made, {"text": "a"}) == {"upper": "A", "repeat": "aa"}
    assert error(made, {"text": "a", "tims": 3})["code"] == "input_invalid"
    assert error(made, {"times": 3})["code"] == "input_invalid"
    open_one = fan_out(upper, anything_more)
    assert value(open_one, {"text": "a", "x": 1}) == {"upper": "A", "more": ["text", "x"]}
    assert value(fan_out(anything)) == {"anything": []}


def test_schemas_that_refer_to_themselves_are_combined_too() -> None:
    def tree(name: str) -> Tool:
        node = {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}},
            "additionalProperties": False,
        }
        schema = {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}, name: TEXT},
            "required": ["tree"],
            "additionalProperties": False,
            "$defs": {"node": node},
        }
        spec = {"name": name, "description": "", "inputSchema": schema}
        return tool(spec=spec, blocking=False)(lambda **arguments: sorted(arguments))

    made = fan_out(tree("a"), tree("b"))
    assert value(made, {"tree": {"next": {}}, "b": "x"}) == {"a": ["tree"], "b": ["b", "tree"]}
    assert error(made, {"tree": {"nxt": {}}})["code"] == "input_invalid"
    assert error(made, {"tree": {}, "c": "x"})["code"] == "input_invalid"
    listed = each(tree("a"))
    assert value(listed, {"items": [{"tree": {"next": {}}}]}) == [["tree"]]
    assert error(listed, {"items": [{"tree": {"next": 5}}]})["details"][0]["pointer"] == "/items/0/tree/next"


def test_a_property_that_all_must_accept_meets_all_their_conditions() -> None:
    short = make("short", lambda text: text, {"text": {"type": "string", "maxLength": 3}})
    long = make("long", lambda text: text, {"text": {"type": "string", "minLength": 3}})
    made = fan_out(short, long, upper)
    assert value(made, {"text": "abc"})["upper"] == "ABC"
    assert error(made, {"text": "ab"})["code"] == error(made, {"text": "abcd"})["code"] == "input_invalid"


def test_a_failure_in_a_fan_out_is_the_answer_with_the_details_of_all() -> None:
    made = fan_out(upper, failing("lost", "not_found", "gone"), failing("broken", "network", "down"))
    found = error(made, {"text": "a"})
    assert found["code"] == "not_found"
    assert found["message"] == "/lost: gone (1 more failed)"
    assert [(d["pointer"], d["code"], d["got"]) for d in found["details"]] == [
        ("/lost", "not_found", "gone"),
        ("/broken", "network", "down"),
    ]


def test_a_partial_fan_out_gives_failures_as_values() -> None:
    made = fan_out(length, failing("lost", "not_found", "gone"), partial=True)
    found = value(made, {"text": "ab"})
    assert found["length"] == 2
    assert found["lost"]["error"]["code"] == "not_found"


def test_a_fan_out_that_cannot_work_is_refused() -> None:
    assert "Name them" in refused(lambda: fan_out(upper, upper))
    assert "Name them" in refused(lambda: fan_out(upper, upper=length))
    number = make("number", lambda text: text, {"text": NUMBER})
    assert "different types of 'text'" in refused(lambda: fan_out(upper, number))
    assert "no tools" in refused(fan_out)
    assert "not a tool" in refused(lambda: fan_out(print))  # type: ignore[arg-type]


# --- fallback ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", ["failed", "not_found", "network", "crashed", "input_invalid", "a_word_of_its_own"]
)
def test_a_fallback_answers_with_the_first_that_does_not_fail(code: str) -> None:
    assert value(fallback(failing("first", code), upper, failing("never")), {"text": "a"}) == "A"


def test_a_fallback_goes_on_when_a_tool_hangs_or_is_unavailable() -> None:
    missing = make(
        "missing", lambda text: text, {"text": TEXT}, requires={"binaries": ["no-such-binary-here"]}
    )
    made = fallback(hanging("slow", 0.1), missing, upper)
    assert made.id == "slow_or_missing_or_upper"
    assert value(made, {"text": "a"}) == "A"


def test_the_last_failure_of_a_fallback_has_all_in_its_details() -> None:
    found = error(fallback(failing("one", "network", "down"), hanging("two", 0.1)), {"text": "a"})
    assert found["code"] == "timeout"
    assert [(detail["tool"], detail["code"]) for detail in found["details"]] == [
        ("one", "network"),
        ("two", "timeout"),
    ]


@pytest.mark.parametrize("code", ["denied", "cancelled", "consent_required", "blocked"])
def test_a_fallback_does_not_go_round_a_refusal(code: str) -> None:
    found = error(fallback(failing("first", code), upper), {"text": "a"})
    assert found["code"] == code


def test_a_fallback_of_different_outputs_allows_each_of_them() -> None:
    made = fallback(failing("first"), length)
    assert made.output_schema is None
    made = fallback(upper, length)
    assert made.output_schema == {"anyOf": [TEXT, NUMBER]}
    assert value(made, {"text": "a"}) == "A"


# --- each -------------------------------------------------------------------------------------------------


def test_each_gives_the_values_in_the_order_of_the_items() -> None:
    async def wait(number: int) -> int:
        await asyncio.sleep(0.02 - number / 100)
        return number

    waits = make("waits", wait, {"number": NUMBER}, output=NUMBER)
    made = each(waits)
    assert value(made, {"items": [{"number": 0}, {"number": "1"}, {"number": 2}]}) == [0, 1, 2]
    assert value(made, {"items": []}) == []
    assert made.timeout == waits.timeout * 13 + 1


def test_each_names_the_item_that_is_wrong_or_fails() -> None:
    found = error(each(double), {"items": [{"number": 1}, {"numbr": 1}]})
    assert found["code"] == "input_invalid"
    assert {detail["pointer"] for detail in found["details"]} >= {"/items/1/numbr"}

    def odd(number: int) -> int:
        if number % 2:
            raise ToolFailed(f"{number} is odd")
        return number

    evens = make("evens", odd, {"number": NUMBER})
    items = {"items": [{"number": number} for number in (0, 1, 2, 3)]}
    found = error(each(evens), items)
    assert found["message"] == "/items/1: 1 is odd (1 more failed)"
    assert [detail["pointer"] for detail in found["details"]] == ["/items/1", "/items/3"]
    answers = value(each(evens, partial=True), items)
    assert [answer if isinstance(answer, str) else answer["error"]["code"] for answer in answers] == [
        "0",
        "failed",
        "2",
        "failed",
    ]


def test_each_has_limits_on_items_and_on_how_many_run_at_once() -> None:
    running = most = 0

    async def watch(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    made = each(make("watch", watch, {"number": NUMBER}), max_items=8, max_parallel=3)
    items = [{"number": 1}] * 8
    value(made, {"items": items})
    assert most == 3
    most = 0
    value(made, {"items": items, "max_parallel": 1})
    assert most == 1
    assert error(made, {"items": items, "max_parallel": 4})["code"] == "input_invalid"
    assert error(made, {"items": [*items, {"number": 1}]})["code"] == "input_invalid"


# --- All of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_parallel": 0}, {"max_parallel": -1}, {"max_items": 0}])
def test_each_refuses_limits_under_which_nothing_could_run(limits: dict[str, int]) -> None:
    (name,) = limits
    with pytest.raises(ToolError, match=f"{name} must be 1 or more"):
        each(make("watch", lambda **_: "", {"number": NUMBER}), **limits)  # type: ignore[arg-type]


def test_compositions_nest() -> None:
    both = fan_out(left=upper, right=pipe(length, double))
    made = pipe(both, lambda found: {"left": found["left"], "right": str(found["right"])}, join)
    assert value(made, {"text": "ab"}) == "AB+4"
    assert value(each(fallback(failing("first"), made)), {"items": [{"text": "a"}, {"text": "bc"}]}) == [
        "A+2",
        "BC+4",
    ]
    assert len(pipe(made, made, made).id) <= 64


def test_a_composition_is_called_from_python_like_a_function() -> None:
    made = pipe(upper, length)
    assert asyncio.run(made(text="abc")) == 3
    assert made({"toolUseId": "x", "input": {"text": "abc"}})["content"] == [{"text": "3"}]
    with pytest.raises(ToolFailed, match="no"):
        asyncio.run(pipe(failing("first"))(text="a"))


def test_every_step_is_reported_inside_its_composition() -> None:
    seen: list[Event] = []
    value(pipe(upper, length), {"text": "a"}, emit=seen.append)
    assert [(type(event), event.tool_id, event.call_id) for event in seen] == [
        (ToolStarted, "upper_then_length", "t1"),
        (ToolStarted, "upper", "t1/0"),
        (ToolFinished, "upper", "t1/0"),
        (ToolStarted, "length", "t1/1"),
        (ToolFinished, "length", "t1/1"),
        (ToolFinished, "upper_then_length", "t1"),
    ]


def test_steps_ask_for_consent_and_the_composition_does_not() -> None:
    careful = make("careful", lambda text: text, {"text": TEXT}, requires_consent=True)
    asked: list[str] = []

    async def permit(asking: Tool, arguments: dict[str, Any]) -> None:
        if asking.requires_consent:
            asked.append(f"{asking.id} {arguments['text']}")

    assert value(pipe(upper, careful), {"text": "a"}, permit=permit) == "A"
    assert asked == ["careful A"]
    assert error(pipe(upper, careful), {"text": "a"})["code"] == "consent_required"


def test_steps_have_keys_of_their_own() -> None:
    keys: list[str] = []

    def note(text: str, context: ToolContext) -> str:
        keys.append(context.key)
        return text

    notes = make("notes", note, {"text": TEXT}, output=TEXT)
    value(pipe(notes, fan_out(a=notes, b=notes)), {"text": "x"}, key="run")
    value(pipe(notes, notes), {"text": "x"})
    assert sorted(keys) == ["", "", "run/0", "run/1/0", "run/1/1"]


def test_a_long_value_passes_between_steps_and_is_capped_only_at_the_end() -> None:
    long = make("long", lambda text: text * 50_000, {"text": TEXT}, max_output=100)
    assert value(pipe(long, length), {"text": "abcd"}) == 200_000


def test_what_hangs_in_a_composition_ends_at_its_own_limit() -> None:
    started = time.perf_counter()
    found = error(pipe(upper, hanging("slow", 0.1), length), {"text": "a"})
    assert (found["code"], found["message"][:13]) == ("timeout", "Step 1 (slow)")
    assert error(fan_out(upper, hanging("slow", 0.1)), {"text": "a"})["code"] == "timeout"
    assert error(pipe(hanging("slow", 30), timeout=0.1), {"text": "a"})["code"] == "timeout"
    assert time.perf_counter() - started < 5


def test_cancelling_a_composition_cancels_the_step_that_runs() -> None:
    ends: list[str] = []

    async def wait(text: str) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ends.append(text)
        return text

    waits = make("waits", wait, {"text": TEXT})
    made = fan_out(a=pipe(upper, waits), b=each(waits), c=waits)
    call = {"toolUseId": "", "input": {"text": "x", "items": [{"text": "y"}]}}

    async def scenario() -> ToolResult:
        wish = Cancellation()
        running = asyncio.create_task(call_tool(made, call, CallContext(cancel=wish)))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        wish.set()
        answer = await running
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return answer

    found = error_of(asyncio.run(scenario()))
    assert found is not None
    assert found["code"] == "cancelled"
    assert sorted(ends) == ["X", "x", "y"]


def test_a_question_to_a_human_ends_a_composition_until_it_is_answered() -> None:
    async def ask_human(text: str, context: ToolContext) -> str:
        return f"{text} {await context.interrupt('approve')}"

    asks = make("asks", ask_human, {"text": TEXT})

    def nobody(name: str, reason: object) -> None:
        raise InterruptRequested(name, reason)

    made = fallback(fan_out(upper, asks), upper)
    with pytest.raises(InterruptRequested):
        ask(made, {"text": "a"}, interrupt=nobody)
    assert value(made, {"text": "a"}, interrupt=lambda name, reason: "yes")["asks"] == "a yes"


def test_compositions_do_not_nest_without_end() -> None:
    made = upper
    for level in range(20):
        made = pipe(made, name=f"level{level}")
    assert "deep" in error(made, {"text": "a"})["message"]


def test_a_composition_touches_what_its_steps_touch() -> None:
    read = make("read", lambda path: path, {"path": TEXT}, output=TEXT, effects={"reads": ["file:{path}"]})
    write = make("write", lambda path: path, {"path": TEXT}, effects={"writes": ["file:{path}", "log"]})
    log = make("log", lambda text: text, {"text": TEXT}, effects={"writes": ["log"]})
    alone = make("alone", lambda text: text, {"text": TEXT}, effects="exclusive")
    assert fan_out(read, write).effects == Effects(reads=("file:{path}",), writes=("file:{path}", "log"))
    assert fallback(read, upper).effects == Effects(reads=("file:{path}",))
    assert pipe(read, log).effects == Effects(reads=("file:{path}",), writes=("log",))
    assert pipe(upper, write).effects == Effects(exclusive=True)
    assert pipe(upper, length).effects is None
    assert each(write).effects == Effects(writes=("file:{items.path}", "log"))
    assert each(alone).effects == fan_out(log, alone).effects == Effects(exclusive=True)
    parse_effects(each(write).effects, each(write).input_schema)


def test_conflicting_items_of_each_keep_their_order() -> None:
    written: list[int] = []

    async def write(path: str, number: int) -> None:
        await asyncio.sleep(0.01 if number == 0 else 0)
        written.append(number)

    writes = make("writes", write, {"path": TEXT, "number": NUMBER}, effects={"writes": ["file:{path}"]})
    value(each(writes), {"items": [{"path": "x", "number": number} for number in range(4)]})
    assert written == [0, 1, 2, 3]


def test_a_composition_promises_no_more_than_its_steps() -> None:
    safe = make("safe", lambda text: text, {"text": TEXT}, annotations={"readOnlyHint": True})
    risky = make(
        "risky", lambda text: text, {"text": TEXT}, annotations={"destructiveHint": True}, max_output=0
    )
    assert pipe(safe, safe).annotations == {"readOnlyHint": True}
    assert fan_out(safe, risky).annotations == {"destructiveHint": True}
    assert fan_out(safe, risky).max_output == 0


# --- Results back to values -------------------------------------------------------------------------------


def result(*content: dict[str, Any]) -> ToolResult:
    return {"toolUseId": "", "status": "success", "content": list(content)}


def test_a_result_is_its_json_its_text_or_the_list_of_its_blocks() -> None:
    assert value_of_result(result({"json": {"a": 1}})) == {"a": 1}
    assert value_of_result(result({"text": "5"})) == "5"
    assert value_of_result(result({"text": "5"}, {"json": 1}, {"image": {}})) == ["5", 1, {"image": {}}]
    assert value_of_result(result()) is None


@pytest.mark.parametrize(
    ("schema", "text", "meant"),
    [
        (NUMBER, "5", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "True", True),
        ({"type": ["null", "boolean"]}, "None", None),
        (TEXT, "5", "5"),
        (NUMBER, "five", "five"),
        (NUMBER, "[5]", "[5]"),
    ],
)
def test_a_scalar_is_what_the_output_schema_says(schema: dict[str, Any], text: str, meant: object) -> None:
    made = make("made", lambda: text, {}, output=schema)
    assert value_of_result(result({"text": text}), made) == meant


def test_an_error_is_raised_as_the_failure_that_it_was() -> None:
    with pytest.raises(ToolFailed) as failed:
        value_of_result(ask(failing("gone", "not_found", "It is gone"), {"text": "a"}))
    assert failed.value.message == "It is gone"
    assert (failed.value.code, failed.value.hint) == ("not_found", "a hint")
    assert failed.value.details == [{"pointer": "/deep"}]


def test_a_tool_of_the_sdk_is_a_step_with_validated_input() -> None:
    @sdk_decorator
    def twice(n: int) -> int:
        """Double a number."""
        return 2 * n

    count = make("count", lambda text: {"n": len(text.split())}, {"text": TEXT})

    def answer(made: Tool, **sent: Any) -> ToolResult:
        return asyncio.run(call_tool(made, {"toolUseId": "t", "input": sent}))

    assert answer(pipe(count, twice), text="a b c")["content"] == [{"text": "6"}]
    refused = answer(pipe(count, lambda found: {"n": "many"}, twice), text="a b")
    assert "/n must be an integer" in refused["content"][0]["text"]
    assert answer(fan_out(twice, again=twice), n=2)["content"] == [{"json": {"twice": "4", "again": "4"}}]
    assert answer(fallback(twice), n=2)["content"] == [{"text": "4"}]
    assert answer(each(twice), items=[{"n": 1}, {"n": 2}])["content"] == [{"json": ["2", "4"]}]
