"""Every form in which a tool can be written, with good and bad values of every type: one contract for all."""

import asyncio
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import strands
from hypothesis import given
from hypothesis import strategies as st

from strands_cli import call_tool, tool
from strands_cli.errors import ToolError
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import as_tool, tools_in
from strands_cli.toolkit.results import error_of
from strands_cli.tools.base import NativeTool

Seen = list[Any]
Form = Callable[[Any, dict[str, Any], Seen], Tool]


def with_type(annotation: Any, function: Any) -> Any:
    function.__annotations__ = {"value": annotation}
    return function


def decorated(annotation: Any, _schema: dict[str, Any], seen: Seen) -> Tool:
    def probe(value):  # type: ignore[no-untyped-def]
        seen.append(value)

    return tool(with_type(annotation, probe))


def decorated_async(annotation: Any, _schema: dict[str, Any], seen: Seen) -> Tool:
    async def probe(value):  # type: ignore[no-untyped-def]
        seen.append(value)

    return tool(with_type(annotation, probe))


def generator(annotation: Any, _schema: dict[str, Any], seen: Seen) -> Tool:
    def probe(value):  # type: ignore[no-untyped-def]
        seen.append(value)
        yield "done"

    return tool(with_type(annotation, probe))


def method(annotation: Any, _schema: dict[str, Any], seen: Seen) -> Tool:
    def probe(self, value):  # type: ignore[no-untyped-def]
        seen.append(value)

    holder = type("Holder", (), {"probe": tool(with_type(annotation, probe))})
    return holder().probe  # type: ignore[attr-defined,no-any-return]


def explicit_schema(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    @tool(inputSchema={"json": schema})
    def probe(value):  # type: ignore[no-untyped-def]
        seen.append(value)

    return probe


def spec_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "probe", "description": "A probe", "inputSchema": {"json": schema}}


def decorated_spec(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    @tool(spec=spec_of(schema))
    def probe(value: Any) -> None:
        seen.append(value)

    return probe


def module(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    def probe(tool: Any, **kwargs: Any) -> dict[str, Any]:
        seen.append(tool["input"]["value"])
        return {"status": "success", "content": [{"text": "done"}]}

    made = types.ModuleType("probe")
    made.TOOL_SPEC = spec_of(schema)  # type: ignore[attr-defined]
    made.probe = probe  # type: ignore[attr-defined]
    return tools_in(made)[0]


def native_class(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    class Probe(NativeTool):
        def execute(self, tool: dict[str, Any], **kwargs: Any) -> str:
            seen.append(tool["input"]["value"])
            return "done"

    return as_tool(Probe, spec_of(schema))


def sdk_function(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    @strands.tool(name="probe", description="A probe", inputSchema={"json": schema})
    def probe(value: Any) -> str:
        seen.append(value)
        return "done"

    return as_tool(probe)


def sdk_class(_annotation: Any, schema: dict[str, Any], seen: Seen) -> Tool:
    class Probe(strands.types.tools.AgentTool):  # type: ignore[name-defined,misc]
        tool_name = "probe"
        tool_type = "python"
        tool_spec = spec_of(schema)

        async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
            seen.append(tool_use["input"]["value"])
            yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": "done"}]}

    return as_tool(Probe())


FORMS: list[Form] = [
    decorated, decorated_async, generator, method, explicit_schema, decorated_spec, module, native_class, sdk_function,
    sdk_class,
]  # fmt: skip


@dataclass
class Point:
    x: int


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}

# annotation, the same as a schema, a good value, bad values with the pointer of what is wrong in them
TYPES: dict[str, tuple[Any, dict[str, Any], Any, list[tuple[Any, str]]]] = {
    "string": (str, {"type": "string"}, "a", [(5, "/value"), (None, "/value"), ([], "/value")]),
    "integer": (int, {"type": "integer"}, 5, [("five", "/value"), (5.5, "/value"), (True, "/value")]),
    "number": (float, {"type": "number"}, 2.5, [("x", "/value"), (True, "/value")]),
    "boolean": (bool, {"type": "boolean"}, True, [(1, "/value"), ("maybe", "/value")]),
    "list": (
        list[int],
        {"type": "array", "items": {"type": "integer"}},
        [1],
        [([1, "x"], "/value/1"), ({}, "/value")],
    ),
    "choice": (Literal["a", "b"], {"enum": ["a", "b"]}, "a", [("c", "/value"), (1, "/value")]),
    "object": (
        Point,
        POINT,
        {"x": 1},
        [({"x": "y"}, "/value/x"), ({}, "/value/x"), ({"x": 1, "z": 2}, "/value/z")],
    ),
}

CASES = [
    (form, kind, bad, pointer) for form in FORMS for kind, entry in TYPES.items() for bad, pointer in entry[3]
]


def made_with(form: Form, kind: str) -> tuple[Tool, Seen]:
    annotation, part, _, _ = TYPES[kind]
    seen: Seen = []
    schema = {"type": "object", "properties": {"value": part}, "required": ["value"]}
    return form(annotation, schema, seen), seen


def answer(made: Tool, sent: object) -> dict[str, Any] | None:
    result = asyncio.run(call_tool(made, {"toolUseId": "t1", "name": made.id, "input": sent}))
    return error_of(result)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 120


@pytest.mark.parametrize(
    ("form", "kind", "bad", "pointer"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_a_bad_value_never_reaches_the_body_and_is_pointed_at(
    form: Form, kind: str, bad: Any, pointer: str
) -> None:
    made, seen = made_with(form, kind)
    error = answer(made, {"value": bad})
    assert error is not None
    assert error["code"] == "input_invalid"
    assert pointer in [detail["pointer"] for detail in error["details"]]
    assert seen == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("sent", ["{", "[1]", "null", '"x"', "", '{"value": NaN}'])
def test_malformed_input_never_reaches_the_body(form: Form, sent: str) -> None:
    made, seen = made_with(form, "string")
    error = answer(made, sent)
    assert error is not None
    assert error["code"] == "input_malformed"
    assert seen == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("kind", TYPES)
def test_a_good_value_reaches_the_body(form: Form, kind: str) -> None:
    made, seen = made_with(form, kind)
    good = TYPES[kind][2]
    assert answer(made, {"value": good}) is None
    typed = Point(1) if kind == "object" and form in (decorated, decorated_async, generator, method) else good
    assert seen == [typed]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-2, 2, allow_nan=False)
    | st.sampled_from(["a", "c", "5"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(form=st.sampled_from(FORMS), kind=st.sampled_from(list(TYPES)), value=json_values)
def test_the_body_sees_what_the_schema_accepts_and_nothing_else(form: Form, kind: str, value: Any) -> None:
    made, seen = made_with(form, kind)
    accepted = Validator({"type": "object", "properties": {"value": TYPES[kind][1]}}).accepts(
        {"value": value}
    )
    error = answer(made, {"value": value})
    if accepted:
        assert error is None
        assert len(seen) == 1
    elif error is None:
        # Only what plainly means the right thing is let through in another form.
        assert isinstance(value, str) or (isinstance(value, list) and any(isinstance(item, str) for item in value)) or (
            isinstance(value, dict) and any(isinstance(item, str) for item in value.values())
        )  # fmt: skip
    else:
        assert seen == []


def test_a_native_class_may_refuse_what_its_schema_cannot() -> None:
    class Probe(NativeTool):
        def validate_inputs(self, inputs: dict[str, Any]) -> tuple[bool, str | None]:
            return inputs["value"] != "no", "value must not be no"

        async def execute(self, tool: dict[str, Any], **kwargs: Any) -> str:
            return "done"

    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    made = as_tool(Probe, spec_of(schema))
    assert answer(made, {"value": "yes"}) is None
    error = answer(made, {"value": "no"})
    assert error is not None
    assert (error["code"], "must not be no" in error["message"]) == ("input_invalid", True)


def test_a_module_gives_what_its_all_names() -> None:
    made = types.ModuleType("several")

    @tool
    def one() -> str:
        return "1"

    @strands.tool
    def two() -> str:
        """Two."""
        return "2"

    hidden = tool(name="hidden")(lambda: "3")
    vars(made).update({"one": one, "two": two, "hidden": hidden, "__all__": ["one", "two"]})
    assert [item.id for item in tools_in(made)] == ["one", "two"]
    made.TOOL_SPEC = {"name": "nobody", "inputSchema": {}}  # type: ignore[attr-defined]
    with pytest.raises(ToolError, match="nobody"):
        tools_in(made)


def test_an_sdk_tool_streams_its_progress_and_crashes_as_a_coded_result() -> None:
    @strands.tool
    async def count() -> Any:
        """Count."""
        yield "one"
        yield "two"

    @strands.tool
    def boom() -> str:
        """Boom."""
        raise ValueError("kaput")

    from strands_cli import CallContext
    from strands_cli.events import Event, ToolProgress

    events: list[Event] = []
    made = as_tool(count)
    result = asyncio.run(call_tool(made, {"toolUseId": "t"}, CallContext(emit=events.append)))
    assert result["content"] == [{"text": "two"}]
    assert "one" in [event.data for event in events if isinstance(event, ToolProgress)]
    error = answer(as_tool(boom), {})
    assert error is not None
    assert "kaput" in error["message"]


def test_what_is_no_tool_is_refused() -> None:
    for value in (5, "text", None, object()):
        with pytest.raises(ToolError, match="not a tool"):
            as_tool(value)


def test_a_generators_arguments_are_checked_before_its_first_step() -> None:
    steps: Seen = []

    @tool
    def probe(value: int) -> Iterator[str]:
        steps.append(value)
        yield "x"

    assert answer(probe, {"value": "x"}) is not None
    assert steps == []
