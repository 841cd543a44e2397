"""The types that only pydantic can read. This module is imported with the first of them."""
# ruff: noqa: TID253 - being the one that knows pydantic is what this module is for

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, to_json
from typing_extensions import TypedDict

from strands_cli.documents.problems import Problem, Refusal, describe_value, follow_path
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.arguments import InputInvalid
from strands_cli.toolkit.type_schemas import (
    DATE_TIME,
    DECIMAL_TEXT,
    DURATION,
    NOT_JSON,
    TIME,
    Arguments,
    Schema,
)

_ORDINARY_TYPES = "Use JSON types, enums, dataclasses, TypedDicts or pydantic models."
_REMEDIES = {"typed-dict-version": "Import TypedDict from typing_extensions."}
_ABOUT_SHAPE = ("missing", "extra_forbidden", "unexpected_keyword_argument")
_MESSAGE_PREFIXES = ("Value error, ", "Assertion failed, ")


class PydanticTypes:
    """Some parameters of a function, read as one TypedDict, so that all problems are reported at once."""

    def __init__(self, types: dict[str, Any]) -> None:
        shape = TypedDict("Arguments", types, total=False)  # type: ignore[misc]
        # This holds for the dataclasses within; models have a configuration of their own.
        config = ConfigDict(extra="forbid", val_json_bytes="base64", ser_json_bytes="base64")
        shape.__pydantic_config__ = config  # type: ignore[attr-defined]
        with _pydantic_refusals():
            self._adapter: TypeAdapter[Any] = TypeAdapter(shape)
            self._schema = _pydantic_schema(self._adapter)
        self._names = tuple(types)

    def schemas(self, taken: Mapping[str, Schema]) -> tuple[dict[str, Schema], dict[str, Schema]]:
        """The parameters' schemas, and their definitions under names that are not taken."""
        definitions = self._schema.get("$defs", {})
        if definitions.keys().isdisjoint(taken):
            return self._schema["properties"], definitions
        renamed = _pydantic_schema(self._adapter, prefix="pydantic.")
        definitions = {f"pydantic.{name}": schema for name, schema in renamed["$defs"].items()}
        return renamed["properties"], definitions

    def convert(self, arguments: Arguments) -> Arguments:
        sent = {name: arguments[name] for name in self._names if name in arguments}
        try:
            # As JSON, so that a strict model takes a date from text.
            converted: Arguments = self._adapter.validate_json(to_json(sent))
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            # The schema let the value through, so an alternative of another shape is not what was meant.
            relevant = [
                item
                for item in errors
                if not item["type"].endswith("_type") and item["type"] not in _ABOUT_SHAPE
            ]
            raise InputInvalid([_pydantic_problem(item, sent) for item in relevant or errors]) from None
        return arguments | converted

    def default_as_json(self, name: str, default: Any) -> Any:
        """A parameter's default in JSON, if it comes back from there as it was; NOT_JSON otherwise."""
        dump = self._adapter.dump_python
        try:
            value = dump({name: default}, mode="json", by_alias=True, exclude_unset=True, warnings="none")
            back = self.convert(value)
        except (ToolFailed, ValueError, TypeError, AttributeError):
            return NOT_JSON
        return value[name] if back[name] == default else NOT_JSON


def pydantic_output(annotation: Any) -> Schema:
    """The schema of what `values.plain_json` makes of a value with pydantic models in it."""
    with _pydantic_refusals():
        return _pydantic_schema(TypeAdapter(annotation), output=True)


@contextmanager
def _pydantic_refusals() -> Iterator[None]:
    """What pydantic cannot read, in one sentence and without the address of its manual."""
    try:
        yield
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        reason = error.message.partition("\n")[0].partition(". ")[0].rstrip(".")
        remedy = _REMEDIES.get(error.code or "", _ORDINARY_TYPES)
        raise Refusal(f"is of a type that has no JSON Schema ({reason})", remedy) from None


def _pydantic_problem(error: ErrorDetails, sent: Arguments) -> Problem:
    path, value = follow_path(sent, error["loc"])  # which also names the alternatives of unions
    words = error["msg"]
    for prefix in _MESSAGE_PREFIXES:
        words = words.removeprefix(prefix)
    return Problem(path=path, keyword="value", expected=words, got=describe_value(value))


def _pydantic_schema(adapter: TypeAdapter[Any], *, prefix: str = "", output: bool = False) -> Schema:
    return adapter.json_schema(
        by_alias=not output,  # plain_json dumps models by the names of their fields
        ref_template=f"#/$defs/{prefix}{{model}}",
        schema_generator=_SchemaGenerator,
        mode="serialization" if output else "validation",
    )


class _SchemaGenerator(GenerateJsonSchema):
    """pydantic's schemas in the form of ours: closed where input comes in, no titles made of names."""

    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
        "skipped-discriminator",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> Schema:
        config = schema["cls"].model_config
        before = self.by_alias
        if self.mode == "serialization":
            self.by_alias = config.get("serialize_by_alias", False)
        json_schema = super().model_schema(schema)
        self.by_alias = before
        return self._finished(json_schema, schema["cls"], config.get("extra"))

    def dataclass_schema(self, schema: Any) -> Schema:
        json_schema = super().dataclass_schema(schema)
        for field in schema["schema"].get("fields", ()):
            if field.get("init") is False and self.mode == "validation":
                json_schema["properties"].pop(field["name"], None)
        return self._finished(json_schema, schema["cls"])

    def typed_dict_schema(self, schema: Any) -> Schema:
        return self._finished(super().typed_dict_schema(schema), schema.get("cls"))

    def _finished(self, json_schema: Schema, cls: type | None, extra: str | None = None) -> Schema:
        if json_schema.get("title") == getattr(cls, "__name__", None):
            del json_schema["title"]
        if self.mode == "serialization" and json_schema.get("additionalProperties") is False:
            del json_schema["additionalProperties"]  # an object of a derived class may say more
        if self.mode == "validation" and "properties" in json_schema:
            json_schema.setdefault("additionalProperties", extra == "ignore")
        return json_schema

    def default_schema(self, schema: Any) -> Schema:
        """Without the default: the platform fills in those that it sees, and a model tells what was set."""
        return self.generate_inner(schema["schema"])

    def datetime_schema(self, schema: Any) -> Schema:
        return {**DATE_TIME}

    def time_schema(self, schema: Any) -> Schema:
        return {**TIME}

    def timedelta_schema(self, schema: Any) -> Schema:
        return {**DURATION}

    def get_decimal_pattern(self, schema: Any) -> str | None:
        own = super().get_decimal_pattern(schema)
        return own if own or self.mode == "serialization" else str(DECIMAL_TEXT["pattern"])
