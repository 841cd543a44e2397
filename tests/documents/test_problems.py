"""Ways through a schema, and what is wrong with a value."""

from typing import Any

import pytest

from strands_cli.documents.problems import local_reference_target, relocated_schema, schemas_at
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.arguments import InputInvalid, fit_arguments

SCHEMA = {
    "anyOf": [{"type": "null"}, {"$ref": "#/$defs/a~1b"}],
    "$defs": {"a/b": {"properties": {"items": {"items": {"const": 1}}}}},
}


def test_a_reference_may_lead_into_a_list_and_an_anchor_is_not_the_whole() -> None:
    assert local_reference_target("#", SCHEMA) is SCHEMA
    assert local_reference_target("#/anyOf/0", SCHEMA) == {"type": "null"}
    assert local_reference_target("#/$defs/a~1b", SCHEMA) == SCHEMA["$defs"]["a/b"]  # type: ignore[index, call-overload]
    for reference in ("#/anyOf/2", "#/anyOf/x", "#/$defs/c/d", "#anchor", "other.json#/a", None):
        assert local_reference_target(reference, SCHEMA) is None


def test_what_a_schema_says_of_a_place_is_found_behind_references_and_alternatives() -> None:
    assert schemas_at(SCHEMA, "items", 3) == [{"const": 1}]
    assert schemas_at(SCHEMA, "nothing") == []


def test_a_schema_that_moves_takes_its_references_along() -> None:
    moved = relocated_schema(SCHEMA, "/properties/x")
    assert moved["anyOf"][1] == {"$ref": "#/properties/x/$defs/a~1b"}
    assert (
        local_reference_target("#/properties/x/$defs/a~1b", {"properties": {"x": moved}})
        == moved["$defs"]["a/b"]
    )


def shape(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NUMBER = {"type": "number"}
TAGGED = [shape(kind={"const": "circle"}, radius=NUMBER), shape(kind={"const": "box"}, w=NUMBER, h=NUMBER)]
UNTAGGED = [shape(radius=NUMBER), shape(w=NUMBER, h=NUMBER)]
NEEDS_ONE = [{"required": ["path"]}, {"required": ["url"]}]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("alternatives", "value", "sentences"),
    [
        (TAGGED, {"kind": "box", "w": 1}, ["/x/h is missing"]),
        (
            TAGGED,
            {"kind": "box", "w": "a", "h": "b"},
            ["/x/w must be a number, got string 'a'", "/x/h must be a number, got string 'b'"],
        ),
        (
            TAGGED,
            {"kind": "bax"},
            ["/x/kind must be one of 'circle', 'box', got string 'bax' (Did you mean 'box'?)"],
        ),
        (
            TAGGED,
            {},
            [
                "/x must be an object with 'kind' and 'radius' or with 'kind' and 'w' and 'h', "
                "got object with 0 keys"
            ],
        ),
        (UNTAGGED, {"w": 1}, ["/x/h is missing"]),
        (UNTAGGED, {"radius": "far"}, ["/x/radius must be a number, got string 'far'"]),
        (NEEDS_ONE, {"z": 1}, ["/x must be an object with 'path' or with 'url', got object with 1 key"]),
        ([{"const": "a"}, {"const": "b"}], "c", ["/x must be one of 'a', 'b', got string 'c'"]),
        (
            [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}],
            "c",
            ["/x must be text that matches ^a or text that matches ^b, got string 'c'"],
        ),
        (
            [{"enum": ["a", "b"]}, {**shape(type=NUMBER), "additionalProperties": False}],
            {"typ": 1},
            ["/x/typ is unknown (Did you mean 'type'?)", "/x/type is missing"],
        ),
        (
            [{"enum": ["a", "b"]}, {"type": "object"}],
            5,
            ["/x must be one of 'a', 'b' or an object, got integer 5"],
        ),
        (
            [{"type": "string"}, {"type": "array"}, {"type": "null"}],
            5,
            ["/x must be an array, null or a string, got integer 5"],
        ),
        (
            [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}],
            ["a"],
            ["/x/0 must be an integer, got string 'a'"],
        ),
    ],
)
def test_the_problem_is_about_the_alternative_that_was_meant(
    keyword: str, alternatives: list[Any], value: Any, sentences: list[str]
) -> None:
    direct = {"properties": {"x": {keyword: alternatives}}}
    behind = {
        "properties": {"x": {"$ref": "#/$defs/x"}},
        "$defs": {
            "x": {keyword: [{"$ref": f"#/$defs/{index}"} for index in range(len(alternatives))]},
            **{str(index): part for index, part in enumerate(alternatives)},
        },
    }
    for schema in (direct, behind):
        assert [problem.sentence for problem in Validator(schema).problems({"x": value})] == sentences


WORD = {"anyOf": [{"type": "integer"}, {"const": "auto"}]}


@pytest.mark.parametrize(
    ("alternatives", "value", "sentence"),
    [
        ([WORD, {"type": "boolean"}], 1.5, "/x must be an integer or 'auto' or a boolean, got number 1.5"),
        ([{"const": 5}, {"type": "boolean"}], "a", "/x must be 5 or a boolean, got string 'a'"),
        ([{"anyOf": [{"const": 5}, {"type": "null"}]}, {"enum": [7]}], "a", "/x must be 5 or null or one of 7, got string 'a'"),
        ([WORD, {"enum": ["auto", "none"]}], "a", "/x must be one of 'auto', 'none', got string 'a'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_of_types_and_values_are_told_together(
    keyword: str, alternatives: list[Any], value: Any, sentence: str
) -> None:
    schema = {"type": "object", "properties": {"x": {keyword: alternatives}}}
    (problem,) = Validator(schema).problems({"x": value})
    assert problem.sentence.partition(" (")[0] == sentence
    with pytest.raises(InputInvalid, match="x must be"):
        fit_arguments({"x": value}, Validator(schema))


def test_a_key_of_another_alternative_is_not_suggested_for_itself() -> None:
    closed = [{**part, "additionalProperties": False} for part in UNTAGGED]
    (problem,) = Validator({"properties": {"x": {"anyOf": closed}}}).problems({"x": {"radius": 1, "w": 1}})
    assert problem.sentence == "/x/w is unknown (It belongs to another alternative)"
