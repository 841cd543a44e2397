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

Published = Literal["workflow", "plugin"]


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

    def accepts(self, value: object) -> bool:
        """Whether `value` is JSON and fits. This is the whole cost of a good call."""
        try:
            return self._compiled.is_valid(value)
        except ValueError:
            return False

    def problems(self, value: object, limit: int | None = None) -> list[Problem]:
        """All problems at once, or the first `limit`; an empty list where the value fits."""
        try:
            errors = islice(self._compiled.iter_errors(value), limit)
            return [problem for error in errors for problem in explain_validation_error(error, self.schema)]
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


def _refuse_to_fetch(uri: str) -> NoReturn:
    """A schema is complete in itself: compiling one never reaches for the network or a file."""
    raise ValueError(f"{uri} is outside the schema; copy what it holds under $defs")
