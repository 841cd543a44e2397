"""Python types as JSON Schema: what may be sent for a parameter, or what a body's value looks like as JSON.

Types are read here, and not by msgspec, because the schema is also what is enforced: objects are closed,
dates may be naive, and metadata that only pydantic understands is never passed over.
"""

import types
from collections import abc
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

import msgspec

from strands_cli.toolkit.docstring import Docstring, read_docstring
from strands_cli.toolkit.structures import (
    NOT_JSON,
    Field,
    NeedsPydantic,
    Unknown,
    Unreadable,
    is_positional,
    is_typed_dict,
    structure_fields,
)

Schema = dict[str, Any]


DATE_TIME: Schema = {
    "type": "string",
    # The format date-time would refuse what datetime.isoformat() writes, a time without an offset.
    "pattern": r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:?\d{2}(:\d{2})?)?$",
    "examples": ["2026-01-31T14:30:00Z"],
}
TIME: Schema = {
    "type": "string",
    "pattern": r"^\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:?\d{2}(:\d{2})?)?$",
    "examples": ["14:30:00"],
}
DURATION: Schema = {
    "type": "string",
    # The format duration would refuse fractions and negative ones.
    "pattern": r"^[+-]?P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$",
    "examples": ["PT1H30M"],
}
DECIMAL_TEXT: Schema = {"type": "string", "pattern": r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"}
_DECIMAL: Schema = {"anyOf": [{"type": "number"}, DECIMAL_TEXT]}
_NO_TYPE = "Write list[…] or dict[…]."
_BASE64: Schema = {"type": "string", "contentEncoding": "base64"}
_HASHABLE: Schema = {"type": ["string", "number", "boolean", "null"]}
_PATH: Schema = {"type": "string", "format": "path"}

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    datetime: DATE_TIME,
    date: {"type": "string", "format": "date"},
    time: TIME,
    timedelta: DURATION,
    UUID: {"type": "string", "format": "uuid"},
    Decimal: _DECIMAL,
    bytes: _BASE64,
    bytearray: _BASE64,
}
# What JSON values already are. An int is not among them: for JSON, 5.0 is an integer too.
_SAME_AS_JSON = frozenset({str, float, bool, None, type(None), Any, object})

_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_LIMITS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
    "examples": "examples",
}


class SchemaReader:
    """Reads the types of one function; those with a name of their own are shared under `definitions`."""

    def __init__(self, *, output: bool = False) -> None:
        self.definitions: dict[str, Schema] = {}
        self.converts = False
        """Whether something that was read is another thing in Python than in JSON."""
        self._output = output
        self._names: dict[Any, str] = {}
        self._converting: set[str] = set()

    def read_parameter(self, annotation: Any) -> tuple[Schema, bool]:
        """The schema of a type, and whether its values have to be converted.

        Where a type cannot be read, none of its parts are left among the definitions.
        """
        definitions, names = self.definitions.copy(), self._names.copy()
        self.converts = False
        try:
            schema = self.read(annotation)
        except (NeedsPydantic, Unreadable):
            self.definitions, self._names = definitions, names
            raise
        # For a parameter that is an int itself, the platform makes 5 of 5.0 before anything is converted.
        return schema, self.converts and _without_metadata(annotation) is not int

    def read(self, annotation: Any) -> Schema:
        origin = get_origin(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin is None:
            return self._bare(annotation)
        read = _GENERIC.get(origin)
        if read is not None:
            return read(self, get_args(annotation))
        if isinstance(origin, type):
            return self._class(annotation, origin)
        raise Unknown(annotation)

    def _bare(self, annotation: Any) -> Schema:
        try:
            scalar = _SCALARS.get(annotation)
        except TypeError:  # a list or a dict, which some write for their types
            raise Unreadable(f"is annotated with {annotation!r}, which is no type", _NO_TYPE) from None
        if scalar is not None:
            self.converts = self.converts or annotation not in _SAME_AS_JSON
            # A Decimal is written as text, and NaN is one too.
            return {"type": "string"} if self._output and annotation is Decimal else {**scalar}
        if annotation in _GENERIC:
            return _GENERIC[annotation](self, ())
        if isinstance(annotation, type):
            return self._class(annotation, annotation)
        if isinstance(annotation, TypeVar):
            bound = annotation.__bound__
            return self._union(annotation.__constraints__ or (Any,)) if bound is None else self.read(bound)
        if hasattr(annotation, "__supertype__"):  # a NewType
            return self.read(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # a type alias, which may name itself
            return self._named(annotation, annotation.__name__, lambda: self.read(annotation.__value__))
        raise Unknown(annotation)

    def _class(self, annotation: Any, cls: type) -> Schema:
        if issubclass(cls, Enum):
            self.converts = True
            return _choice([member.value for member in cls], cls.__name__)
        if issubclass(cls, PurePath):
            self.converts = True
            return {**_PATH}
        if hasattr(cls, "__pydantic_core_schema__") or hasattr(cls, "__get_pydantic_core_schema__"):
            raise NeedsPydantic(annotation)
        label = "_".join([cls.__name__, *(getattr(part, "__name__", "of") for part in get_args(annotation))])
        return self._named(annotation, label, lambda: self._structure(annotation, cls))

    # --- types with fields --------------------------------------------------------------------------------

    def _named(self, key: Any, label: str, build: Callable[[], Schema]) -> Schema:
        """A reference to a definition, which is named before it is built: a type may contain itself."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._free_name(label)
            self.definitions[name] = {}
            self._converting.add(name)  # until it is known: one that meets itself on the way is converted
            before, self.converts = self.converts, False
            self.definitions[name] = build()
            if not self.converts:
                self._converting.discard(name)
            self.converts = self.converts or before
        self.converts = self.converts or name in self._converting
        return {"$ref": f"#/$defs/{name}"}

    def _structure(self, annotation: Any, cls: type) -> Schema:
        fields = structure_fields(annotation, cls, output=self._output)
        if fields is None:
            raise Unknown(annotation)
        return self._tuple_of_fields(fields) if is_positional(cls) else self._object(cls, fields)

    def _free_name(self, label: str) -> str:
        numbered = (f"{label}_{number}" for number in range(2, len(self.definitions) + 3))
        return next(name for name in (label, *numbered) if name not in self.definitions)

    def _object(self, cls: type, fields: list[Field]) -> Schema:
        self.converts = self.converts or not is_typed_dict(cls)
        made: Schema = {"type": "object"}
        documented = _class_docstring(cls)
        if documented.description:
            made["description"] = documented.description
        said = documented.parameters
        made["properties"] = {
            field.name: self._property(field, said.get(field.attribute, "")) for field in fields
        }
        made["required"] = [field.name for field in fields if field.required]
        # A body may return more than its annotation promises, an object of a derived class for one.
        return made if self._output else {**made, "additionalProperties": False}

    def _property(self, field: Field, documented: str) -> Schema:
        schema = self.read(field.type)
        if documented:
            schema.setdefault("description", documented)
        if field.default is not NOT_JSON and _could_be(field.default, schema):
            schema["default"] = field.default
        return schema

    def _tuple_of_fields(self, fields: list[Field]) -> Schema:
        self.converts = True
        items = [{"title": field.name, **self.read(field.type)} for field in fields]
        return {**_sequence(items), "minItems": sum(field.required for field in fields)}

    # --- types of types -----------------------------------------------------------------------------------

    def _annotated(self, annotation: Any) -> Schema:
        if any(map(_is_for_pydantic, annotation.__metadata__)):
            raise NeedsPydantic(annotation)
        return annotated(self.read(annotation.__origin__), annotation)

    def _union(self, parts: tuple[Any, ...]) -> Schema:
        schemas: list[Schema] = []
        for part in parts:
            schema = {} if part is msgspec.UnsetType else self.read(part)
            if part is not msgspec.UnsetType and schema not in schemas:
                schemas.append(schema)
        if {} in schemas:
            return {}
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _literal(self, values: tuple[Any, ...]) -> Schema:
        if not self._output and any(isinstance(value, Enum) for value in values):
            raise Unreadable("has members of an enum as choices", "Use the enum, or a Literal of its values.")
        return _choice([value.value if isinstance(value, Enum) else value for value in values], "Literal")

    def _list(self, parts: tuple[Any, ...]) -> Schema:
        items = self.read(parts[0]) if parts else {}
        return {"type": "array", "items": items} if items else {"type": "array"}

    def _set(self, parts: tuple[Any, ...]) -> Schema:
        self.converts = True
        if self._output:
            return self._list(parts)
        return {"items": _HASHABLE, **self._list(parts), "uniqueItems": True}

    def _tuple(self, parts: tuple[Any, ...]) -> Schema:
        self.converts = True
        if not parts or (len(parts) == 2 and parts[1] is ...):
            return self._list(parts)
        return _sequence([self.read(part) for part in parts])

    def _mapping(self, parts: tuple[Any, ...]) -> Schema:
        made: Schema = {"type": "object"}
        key, value = parts or (str, Any)
        values = self.read(value)
        if values:
            made["additionalProperties"] = values
        if key not in (str, Any) and not self._output:
            made["propertyNames"] = self._key(key)
        return made

    def _key(self, key: Any) -> Schema:
        """The names in JSON that become the keys of a dictionary."""
        schema = self.read(key)
        if key is int:
            return {"pattern": r"^-?\d+$"}
        if schema.get("type") != "string":
            raise Unknown(key)
        return schema

    def _refuse_lazy(self, _parts: tuple[Any, ...]) -> Schema:
        raise Unreadable("is read only while the body runs, too late to refuse what is in it", "Use list[…].")

    def _refuse_type(self, _parts: tuple[Any, ...]) -> Schema:
        raise Unreadable("is a class, which JSON does not have", "Take its name, as a Literal or an enum.")


_GENERIC: dict[Any, Callable[[SchemaReader, tuple[Any, ...]], Schema]] = {
    Union: SchemaReader._union,
    types.UnionType: SchemaReader._union,
    Literal: SchemaReader._literal,
    tuple: SchemaReader._tuple,
    type: SchemaReader._refuse_type,
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection), SchemaReader._list),
    **dict.fromkeys((set, frozenset, abc.Set, abc.MutableSet), SchemaReader._set),
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), SchemaReader._mapping),
    **dict.fromkeys((abc.Iterable, abc.Iterator, abc.Generator), SchemaReader._refuse_lazy),
}


def annotated(schema: Schema, annotation: Any) -> Schema:
    """A schema with what the `Annotated` around a type says in words or in a msgspec.Meta."""
    for said in getattr(annotation, "__metadata__", ()):
        schema = schema | _keywords(said, schema)
    return schema


def _sequence(items: list[Schema]) -> Schema:
    return {
        "type": "array",
        "prefixItems": items,
        "items": False,
        "minItems": len(items),
        "maxItems": len(items),
    }


def _choice(values: list[Any], name: str) -> Schema:
    strange = [value for value in values if isinstance(value, list | dict) or type(value) not in _JSON_TYPES]
    if strange:
        raise Unreadable(
            f"has the choice {strange[0]!r} of {name}, which JSON does not have", "Use strings or numbers."
        )
    kinds = {_JSON_TYPES[type(value)] for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}


def _without_metadata(annotation: Any) -> Any:
    return annotation.__origin__ if get_origin(annotation) is Annotated else annotation


def _is_for_pydantic(said: Any) -> bool:
    package = type(said).__module__.partition(".")[0]
    return package in ("pydantic", "pydantic_core", "annotated_types") or hasattr(
        said, "__get_pydantic_core_schema__"
    )


def _keywords(said: Any, schema: Schema) -> Schema:
    """What one piece of `Annotated` adds: a description, or the limits in a msgspec.Meta."""
    if isinstance(said, str):
        return {"description": said}
    if not isinstance(said, msgspec.Meta):
        documentation = getattr(said, "documentation", None)  # a Doc of typing_extensions
        return {"description": documentation} if isinstance(documentation, str) else {}
    made = {key: getattr(said, limit) for limit, key in _LIMITS.items() if getattr(said, limit) is not None}
    for kind in _kinds(schema):
        for key, length in zip(_LENGTHS.get(kind, ()), (said.min_length, said.max_length), strict=False):
            made |= {} if length is None else {key: length}
    return made | (said.extra_json_schema or {})


def _kinds(schema: Schema) -> Iterator[str]:
    if "type" in schema:
        yield schema["type"]
    for part in schema.get("anyOf", ()):
        yield from _kinds(part)


def _could_be(default: Any, schema: Schema) -> bool:
    """Whether a default is of its own type: where some write `= None`, it must not be filled in."""
    kinds = {_JSON_TYPES[type(default)], "number" if type(default) is int else ""}
    return not schema or default in schema.get("enum", ()) or not kinds.isdisjoint(_kinds(schema))


def _class_docstring(cls: type) -> Docstring:
    text = cls.__dict__.get("__doc__") or ""
    # Dataclasses without a docstring get their signature as one.
    return Docstring() if text.startswith(f"{cls.__name__}(") else read_docstring(text)
