"""JSON Schemas, compiled once and asked many times: those that are published here, and anybody's."""

from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import jsonschema_rs
import msgspec

from strands_cli.documents.problems import (
    JsonPath,
    Problem,
    describe_value,
    explain_validation_error,
    json_pointer,
)

Published = Literal["workflow", "plugin", "script", "eval"]


def schema_text(name: Published) -> str:
    """The JSON Schema of a file that people write, for editors."""
    # importlib.resources would cost as much as reading the file does ten times over.
    return (Path(__file__).parent / f"strands-{name}.schema.json").read_text("utf-8")


@cache
def published_schema(name: Published) -> "Validator":
    return Validator(msgspec.json.decode(schema_text(name)))


class SchemaInvalid(ValueError):
    """The schema itself is wrong: said when it is compiled, with the place."""

    def __init__(self, reason: str, path: JsonPath = ()) -> None:
        super().__init__(f"{json_pointer(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class Validator:
    """What a schema accepts, and why it refuses the rest."""

    __slots__ = ("_compiled", "schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._compiled = _compile_schema(schema)
        if place := _misplaced_property(schema):
            name = place[-1]
            raise SchemaInvalid(
                f"{name!r} is a property where a keyword belongs; write "
                f'"properties": {{"{name}": …}} around it',
                place,
            )

    def accepts(self, value: object) -> bool:
        """Whether `value` is JSON and fits. This is the whole cost of a good call."""
        try:
            return self._compiled.is_valid(value)
        except ValueError:
            return False

    def problems(self, value: object, limit: int | None = None) -> list[Problem]:
        """All problems at once, or the first `limit`; an empty list where the value fits."""
        try:
            errors = self._compiled.iter_errors(value)
            found = (problem for error in errors for problem in explain_validation_error(error, self.schema))
            return [*islice(found, limit)]
        except ValueError as error:
            return [
                Problem(path=(), keyword="json", expected="JSON", got=describe_value(value), hint=f"{error}.")
            ]


def _compile_schema(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse_to_fetch)
    except jsonschema_rs.ValidationError as error:
        raise SchemaInvalid(error.message, tuple(error.instance_path)) from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaInvalid(str(error)) from None


_OF_SCHEMAS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_SCHEMA_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_ONE_SCHEMA = {"items", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema"}
_ONE_SCHEMA |= {"additionalProperties", "additionalItems", "unevaluatedItems", "unevaluatedProperties"}
_OTHER_OBJECTS = {"default", "const", "example", "examples", "dependencies", "dependentRequired"}
_OTHER_OBJECTS |= {"discriminator", "externalDocs", "$vocabulary"}
_MARKS = {"type", "description", "enum", "const", "default", "$ref", "properties", "items", *_SCHEMA_LISTS}
"""One of these in an object makes it look like a schema, where its neighbours name no properties."""
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def _misplaced_property(schema: object, place: JsonPath = ()) -> JsonPath | None:
    """Where a property stands that its author put beside the keywords, and not under `properties`.

    JSON Schema ignores keywords that it does not know, so such a schema would accept anything.
    """
    if not isinstance(schema, dict):
        return None
    parts: list[tuple[object, JsonPath]] = []
    for key, value in schema.items():
        if key in _SCHEMA_LISTS and isinstance(value, list):
            parts += [(part, (*place, key, index)) for index, part in enumerate(value)]
        elif not isinstance(value, dict) or key in _OTHER_OBJECTS or key.startswith("x-"):
            continue
        elif key in _OF_SCHEMAS:
            parts += [(part, (*place, key, name)) for name, part in value.items()]
        elif key in _ONE_SCHEMA:
            parts.append((value, (*place, key)))
        elif _looks_like_property(value, schema):
            return (*place, key)
    return next((found for part, where in parts if (found := _misplaced_property(part, where))), None)


def _looks_like_property(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether an object beside the keywords of a schema is a property, and not an annotation."""
    if "object" not in _type_names(schema) and "type" in schema:
        return False
    if "properties" not in schema:
        return not _MARKS.isdisjoint(value)
    kinds = _type_names(value)
    return bool(kinds) and all(kind in _TYPES for kind in kinds)


def _type_names(schema: dict[str, Any]) -> list[Any]:
    names = schema.get("type", [])
    return names if isinstance(names, list) else [names]


def _refuse_to_fetch(uri: str) -> NoReturn:
    """A schema is complete in itself: compiling one never reaches for the network or a file."""
    raise ValueError(f"{uri} is outside the schema; copy what it holds under $defs")
