"""From tools to grammars (LLGuidance's Lark): what the model may write next, and nothing else."""

import json
from collections.abc import Iterable
from typing import Any

from strands_cli.providers.local.wording import is_spoken_of

_HEADER = "%llguidance {}\nstart: "
# As the model was trained to write JSON: on one line, with a space after a comma and a colon.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_LONGEST = 400
"""Characters of an optional text."""


def name_grammar(names: Iterable[str]) -> str:
    """One of the names, and the quotation mark after it."""
    return _HEADER + " | ".join(json.dumps(name + '"') for name in names)


def arguments_grammar(schema: dict[str, Any]) -> str:
    """A JSON object that is valid under the schema."""
    return f"{_HEADER}%json {json.dumps({**schema, 'x-guidance': _LAYOUT})}"


def narrowed(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema with required properties first, and without optional ones that the text does not mention.

    A small model fills in whatever it may. Optional text stays, not without end, and is judged once written.
    """
    form = required_only(schema)
    for name, part in schema.get("properties", {}).items():
        if _is_free(part):
            form["properties"].setdefault(name, {"maxLength": _LONGEST, **part})
        elif isinstance(part, dict) and is_spoken_of(name, part, text):
            form["properties"].setdefault(name, part)
    return form


def required_only(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    properties = {name: part for name, part in schema.get("properties", {}).items() if name in required}
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}


def _is_free(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema
