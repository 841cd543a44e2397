"""The grammars are texts; what they let through is tested with the model itself."""

import json
from typing import Any

from strands_cli.providers.local.decisions import (
    arguments_grammar,
    name_grammar,
    narrowed_schema,
    required_schema,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "subject": {"type": "string"},
        "to": {"type": "string"},
        "copies": {"type": "integer", "description": "How many copies"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
    },
    "required": ["to"],
}


def test_a_name_is_one_of_the_tools_and_ends_with_its_quotation_mark() -> None:
    assert name_grammar(["echo", "file_read"]) == '%llguidance {}\nstart: "echo\\"" | "file_read\\""'


def test_arguments_are_a_schema_that_the_engine_enforces() -> None:
    header, _, schema = arguments_grammar(SCHEMA).partition("%json ")
    assert header == "%llguidance {}\nstart: "
    assert json.loads(schema)["required"] == ["to"]


def test_optional_arguments_that_nobody_mentions_are_not_offered() -> None:
    assert list(narrowed_schema(SCHEMA, "write to Ann")["properties"]) == ["to", "subject"]


def test_optional_arguments_that_are_mentioned_are_offered() -> None:
    assert set(narrowed_schema(SCHEMA, "send 3 copies, fast")["properties"]) == {
        "to",
        "subject",
        "copies",
        "mode",
    }


def test_required_arguments_come_first_and_nothing_unknown_is_allowed() -> None:
    form = narrowed_schema(SCHEMA, "")
    assert next(iter(form["properties"])) == "to"
    assert form["additionalProperties"] is False


def test_the_required_arguments_alone_are_a_form_too() -> None:
    assert list(required_schema(SCHEMA)["properties"]) == ["to"]


def test_the_tools_own_schema_is_left_as_it_is() -> None:
    before = json.dumps(SCHEMA)
    narrowed_schema(SCHEMA, "send 3 copies, fast")
    assert json.dumps(SCHEMA) == before
