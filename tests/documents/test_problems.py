"""Ways through a schema."""

from strands_cli.documents.problems import local_reference_target, relocated_schema, schemas_at

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
