"""What a provider is told of a tool's input: a plain object, whatever the tool's own schema is made of."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands.tools.registry import ToolRegistry

from strands_cli import tool
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.bridge import ToolBridge
from strands_cli.toolkit.provider_schema import MAX_INLINED, provider_schema

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": INTEGER},
    "required": ["kind", "r"],
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "a": INTEGER},
    "required": ["kind", "a"],
}


def made(schema: dict[str, Any]) -> dict[str, Any]:
    before = json.dumps(schema)
    result = provider_schema(schema)
    assert json.dumps(schema) == before, "the tool's own schema is left alone"
    assert result["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf", "$ref", "not", "if", "then", "else"} & result.keys()
    return result


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}
    assert made(schema) == schema


def test_an_empty_schema_becomes_an_object_without_properties() -> None:
    assert made({}) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_alternatives_become_one_object_that_requires_what_all_of_them_require(keyword: str) -> None:
    result = made({"type": "object", keyword: [CIRCLE, SQUARE], "description": "A shape."})
    assert result["required"] == ["kind"]
    assert result["properties"] == {
        "kind": {"enum": ["circle", "square"], "type": "string"},
        "r": INTEGER,
        "a": INTEGER,
    }
    assert result["description"] == "A shape. Give one of these groups: kind, r; or kind, a."


def test_alternatives_that_differ_in_one_property_offer_both() -> None:
    one, two = {"properties": {"x": STRING}}, {"properties": {"x": INTEGER}}
    assert made({"anyOf": [one, two, one]})["properties"] == {"x": {"anyOf": [STRING, INTEGER]}}


def test_parts_that_all_hold_are_joined() -> None:
    base = {"properties": {"a": STRING}, "required": ["a"]}
    result = made({"allOf": [base, {"properties": {"b": INTEGER, "a": {"minLength": 2}}, "required": ["b"]}]})
    assert result["required"] == ["a", "b"]
    assert result["properties"]["b"] == INTEGER
    assert result["properties"]["a"]["allOf"][0] == STRING


def test_conditions_add_their_properties_and_tighten_nothing() -> None:
    result = made(
        {
            "properties": {"a": STRING},
            "if": {"properties": {"a": {"const": "x"}}},
            "then": {"properties": {"a": {"maxLength": 1}, "b": INTEGER}, "required": ["b"]},
            "else": {"properties": {"c": STRING}},
            "dependentSchemas": {"a": {"properties": {"d": STRING}}},
            "dependentRequired": {"a": ["b"]},
        }
    )
    assert result["properties"] == {"a": STRING, "b": INTEGER, "c": STRING, "d": STRING}
    assert result["required"] == []


def test_references_are_replaced_by_what_they_point_at() -> None:
    result = made(
        {
            "$ref": "#/$defs/top",
            "$defs": {
                "top": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/definitions/a~1b"}},
                    "required": ["a"],
                },
            },
            "definitions": {"a/b": {"type": "string", "description": "there"}},
        }
    )
    assert result == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "there"}},
        "required": ["a"],
    }


def test_what_stands_beside_a_reference_counts_too() -> None:
    defs = {"name": {"type": "string", "minLength": 1}}
    said = {"$ref": "#/$defs/name", "description": "here"}
    tightened = {"$ref": "#/$defs/name", "minLength": 3}
    result = made({"properties": {"a": said, "b": tightened}, "$defs": defs})
    assert result["properties"]["a"] == {"type": "string", "minLength": 1, "description": "here"}
    assert result["properties"]["b"] == {"allOf": [defs["name"], {"minLength": 3}]}


@pytest.mark.parametrize("at_top", [True, False])
def test_a_recursive_schema_keeps_its_recursion_and_only_that(at_top: bool) -> None:
    node = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}, "next": {"$ref": "#/$defs/node"}}}
    root = {"$ref": "#/$defs/node"} if at_top else {"properties": {"start": {"$ref": "#/$defs/node"}}}
    result = made({**root, "$defs": {"node": node, "n": INTEGER}})
    inlined = result if at_top else result["properties"]["start"]
    assert inlined["properties"]["n"] == INTEGER
    assert inlined["properties"]["next"] == {"$ref": "#/$defs/node"}
    assert result["$defs"]["node"]["properties"]["next"] == {"$ref": "#/$defs/node"}
    Validator(result)


def test_a_schema_that_contains_itself_as_a_whole() -> None:
    result = made({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert result["$defs"]["root"]["properties"]["child"] == {"$ref": "#/$defs/root"}
    Validator(result)


def test_a_schema_that_would_grow_without_bound_is_kept_small() -> None:
    defs: dict[str, Any] = {"d0": STRING}
    for level in range(1, 40):
        part = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"type": "object", "properties": {"a": part, "b": part}}
    result = made({"properties": {"x": {"$ref": "#/$defs/d39"}}, "$defs": defs})
    assert len(json.dumps(result)) < 400 * MAX_INLINED
    Validator(result)


def test_what_providers_do_not_know_is_dropped_at_every_depth() -> None:
    inner = {"type": "object", "properties": {}, "unevaluatedProperties": False, "$comment": "x"}
    result = made(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "properties": {"a": inner}}
    )
    assert result["properties"] == {"a": {"type": "object", "properties": {}}}
    assert result.keys() == {"type", "properties", "required"}


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"enum": [1, 2]}, {"enum": [1, 2], "type": "integer"}),
        ({"enum": ["a", None]}, {"enum": ["a", None], "type": ["null", "string"]}),
        ({"const": True}, {"const": True, "type": "boolean"}),
    ],
)
def test_a_property_says_its_type(part: Any, told: Any) -> None:
    assert made({"properties": {"a": part}})["properties"] == {"a": told}


@pytest.mark.parametrize("part", [True, {}, {"description": "anything"}])
def test_a_property_that_takes_anything_says_so(part: Any) -> None:
    told = made({"properties": {"a": part}})["properties"]["a"]
    accepted = Validator({"properties": {"a": told}})
    values: list[Any] = ["x", 1, 1.5, True, None, [], {}]
    assert all(accepted.accepts({"a": value}) for value in values)


def test_a_property_that_may_not_be_there_is_not_told() -> None:
    assert made({"properties": {"a": False, "b": STRING}})["properties"] == {"b": STRING}


def test_the_sdk_takes_the_schema_as_it_is() -> None:
    @tool(
        spec={
            "name": "probe",
            "description": "A probe",
            "inputSchema": {"json": {"oneOf": [CIRCLE, SQUARE], "properties": {"x": {"enum": [1]}}}},
        }
    )
    def probe(**_: Any) -> str:
        return ""

    bridge = ToolBridge(probe)
    registry = ToolRegistry()
    registry.register_tool(bridge)
    (spec,) = registry.get_all_tool_specs()
    told, taken = bridge.tool_spec["inputSchema"]["json"], spec["inputSchema"]["json"]
    for name, part in taken["properties"].items():
        assert {**told["properties"][name], "description": part["description"]} == part


# --- In general -------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from(
    [
        STRING,
        INTEGER,
        {"type": "boolean"},
        {"enum": [1, "x"]},
        {"const": "x"},
        True,
        {},
        {"$ref": "#/$defs/s"},
    ]
)
OBJECTS = st.fixed_dictionaries(
    {"properties": st.dictionaries(NAMES, SCALARS), "additionalProperties": st.just(False)},
    optional={"required": st.lists(NAMES, unique=True, max_size=2)},
)
COMPOSED = st.one_of(
    OBJECTS,
    st.fixed_dictionaries({"anyOf": st.lists(OBJECTS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"oneOf": st.lists(OBJECTS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"allOf": st.lists(OBJECTS, min_size=1, max_size=2)}),
    st.just({"$ref": "#/$defs/o"}),
)
VALUES = st.dictionaries(NAMES, st.sampled_from(["x", "y", 1, 2, True, None]))


@given(COMPOSED, OBJECTS, VALUES)
def test_what_the_tool_accepts_the_advertised_schema_accepts(
    schema: dict[str, Any], other: dict[str, Any], value: dict[str, Any]
) -> None:
    whole = {"type": "object", **schema, "$defs": {"s": {"type": ["string", "null"]}, "o": other}}
    told = Validator(made(whole))
    if Validator(whole).accepts(value):
        assert told.accepts(value)
