"""Python types as JSON Schema, for a parameter or for what a body returns; and from validated JSON to them.

`msgspec.json.schema` will not do: it has one schema for datetimes and all other text, leaves objects open,
refuses a union of two dataclasses, and passes over what `Annotated` says in words or in pydantic's terms.
"""

import re
import types
from collections import abc
from collections.abc import Callable, Iterator
from dataclasses import MISSING, InitVar, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import msgspec

from strands_cli.documents.problems import Problem, Refusal, describe_value, follow_path
from strands_cli.errors import ToolFailed
from strands_cli.toolkit.arguments import InputInvalid
from strands_cli.toolkit.docstring import Docstring, read_docstring
from strands_cli.toolkit.values import plain_json

Schema = dict[str, Any]
Arguments = dict[str, Any]

NOT_JSON: Any = object()
"""In the place of a default that JSON does not have."""

UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)
"""What evaluating an annotation that is written as a string may raise."""
MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)

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
_BASE64: Schema = {"type": "string", "contentEncoding": "base64"}
_HASHABLE: Schema = {"type": ["string", "number", "boolean", "null"]}

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
    Decimal: {"anyOf": [{"type": "number"}, DECIMAL_TEXT]},
    bytes: _BASE64,
    bytearray: _BASE64,
}
# What JSON values already are. An int is not among them: for JSON, 5.0 is an integer too.
_SAME_AS_JSON = frozenset({str, float, bool, None, type(None), Any, object})
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_LAZY = ("is read only while the body runs, too late to refuse what is in it", "Use list[…].")
_REFUSED: dict[Any, tuple[str, str]] = {
    **dict.fromkeys((abc.Iterable, abc.Iterator, abc.Generator), _LAZY),
    type: ("is a class, which JSON does not have", "Take its name, as a Literal or an enum."),
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


class NeedsPydantic(Exception):
    """A type, or the metadata of one, that only pydantic understands."""


class Unknown(NeedsPydantic):
    """A type that is unknown here, though pydantic may know it."""


def unresolved_annotation(error: Exception, prefix: str) -> Refusal:
    """Why an annotation that is a string, or has strings in it, means nothing here."""
    name = getattr(error, "name", None)
    what = f"{name!r}, which is not defined" if name else f"something that is not a type ({error})"
    remedy = "Define it at the top level of the module, and import it for more than type checkers."
    return Refusal(f"{prefix} {what}", remedy)


class SchemaReader:
    """Reads the types of one function; those with a name of their own are shared under `definitions`.

    `read` raises NeedsPydantic for what only pydantic knows, and Refusal for what no parameter can be.
    """

    def __init__(self, *, output: bool = False) -> None:
        self.definitions: dict[str, Schema] = {}
        self._output = output
        self._converts = False
        """Whether something that was read is another thing in Python than in JSON."""
        self._names: dict[Any, str] = {}

    def read_parameter(self, annotation: Any) -> tuple[Schema, bool]:
        """The schema of a type, and whether its values have to be converted.

        Where a type cannot be read, none of its parts are left among the definitions.
        """
        definitions, names = self.definitions.copy(), self._names.copy()
        self._converts = False
        try:
            schema = self.read(annotation)
        except (NeedsPydantic, Refusal):
            self.definitions, self._names = definitions, names
            raise
        # For a parameter that is an int itself, the platform makes 5 of 5.0 before anything is converted.
        bare = annotation.__origin__ if get_origin(annotation) is Annotated else annotation
        return schema, self._converts and bare is not int

    def read(self, annotation: Any) -> Schema:
        origin, parts = get_origin(annotation) or annotation, get_args(annotation)
        if origin is Annotated:
            if any(map(_is_for_pydantic, annotation.__metadata__)):
                raise NeedsPydantic(annotation)
            return annotated_schema(self.read(annotation.__origin__), annotation)
        if not parts and not isinstance(annotation, abc.Hashable):  # as some write a list for its type
            reason = f"is annotated with {annotation!r}, which is not a type"
            raise Refusal(reason, "Write list[…] or dict[…].")
        if not parts and annotation in _SCALARS:
            self._converts |= annotation not in _SAME_AS_JSON
            # A Decimal is written as text, and NaN is one too.
            return {"type": "string"} if self._output and annotation is Decimal else {**_SCALARS[annotation]}
        if origin in _REFUSED:
            raise Refusal(*_REFUSED[origin])
        if origin in _GENERIC:
            return _GENERIC[origin](self, parts)
        return self._class(annotation, origin) if isinstance(origin, type) else self._stand_in(annotation)

    def _stand_in(self, annotation: Any) -> Schema:
        """What stands for another type."""
        if isinstance(annotation, TypeVar):
            bound = annotation.__bound__
            return self._union(annotation.__constraints__ or (Any,)) if bound is None else self.read(bound)
        if hasattr(annotation, "__supertype__"):  # a NewType
            return self.read(annotation.__supertype__)
        if hasattr(annotation, "__value__"):  # a type alias, which may name itself
            self._converts = True
            return self._named(annotation, annotation.__name__, lambda: self.read(annotation.__value__))
        raise Unknown(annotation)

    # --- types of types -----------------------------------------------------------------------------------

    def _union(self, parts: tuple[Any, ...]) -> Schema:
        schemas: list[Schema] = []
        for part in parts:
            if part is not msgspec.UnsetType and (schema := self.read(part)) not in schemas:
                schemas.append(schema)
        if {} in schemas:
            return {}
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _literal(self, values: tuple[Any, ...]) -> Schema:
        if not self._output and any(isinstance(value, Enum) for value in values):
            raise Refusal("has members of an enum as choices", "Use the enum, or a Literal of its values.")
        plain = [value.value if isinstance(value, Enum) else value for value in values]
        return _enum_schema(plain, "Literal")

    def _list(self, parts: tuple[Any, ...]) -> Schema:
        items = self.read(parts[0]) if parts else {}
        return {"type": "array", "items": items} if items else {"type": "array"}

    def _set(self, parts: tuple[Any, ...]) -> Schema:
        self._converts = True
        if self._output:
            return self._list(parts)
        return {"items": _HASHABLE, **self._list(parts), "uniqueItems": True}

    def _tuple(self, parts: tuple[Any, ...]) -> Schema:
        self._converts = True
        is_uniform = not parts or (len(parts) == 2 and parts[1] is ...)
        return self._list(parts) if is_uniform else _fixed_array_schema([self.read(part) for part in parts])

    def _mapping(self, parts: tuple[Any, ...]) -> Schema:
        key, value = parts or (str, Any)
        schema: Schema = {"type": "object"}
        values = self.read(value)
        if values:
            schema["additionalProperties"] = values
        if key in (str, Any) or self._output:
            return schema
        names = self.read(key)  # that become the keys of the dictionary
        if key is not int and names.get("type") != "string":
            raise Unknown(key)
        return {**schema, "propertyNames": {"pattern": r"^-?\d+$"} if key is int else names}

    # --- classes ------------------------------------------------------------------------------------------

    def _class(self, annotation: Any, cls: type) -> Schema:
        self._converts = True
        if issubclass(cls, Enum):
            return _enum_schema([member.value for member in cls], cls.__name__)
        if issubclass(cls, PurePath):
            return {"type": "string", "format": "path"}
        if hasattr(cls, "__pydantic_core_schema__") or hasattr(cls, "__get_pydantic_core_schema__"):
            raise NeedsPydantic(annotation)
        label = "_".join([cls.__name__, *(getattr(part, "__name__", "of") for part in get_args(annotation))])
        return self._named(annotation, label, lambda: self._structure(annotation, cls))

    def _named(self, key: Any, label: str, build: Callable[[], Schema]) -> Schema:
        """A reference to a definition, which is named before it is built: a type may contain itself."""
        name = self._names.get(key)
        if name is None:
            numbered = (f"{label}_{number}" for number in range(2, len(self.definitions) + 3))
            name = next(name for name in (label, *numbered) if name not in self.definitions)
            self._names[key] = name
            self.definitions[name] = {}
            self.definitions[name] = build()
        return {"$ref": f"#/$defs/{name}"}

    def _structure(self, annotation: Any, cls: type) -> Schema:
        try:
            fields = _class_fields(annotation, cls, output=self._output)
        except UNRESOLVED as error:
            raise unresolved_annotation(error, f"uses {cls.__name__}, which names") from None
        if issubclass(cls, tuple) or (issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like):
            items = [{"title": field.name, **self.read(field.type)} for field in fields]
            return {**_fixed_array_schema(items), "minItems": sum(field.required for field in fields)}
        text = cls.__dict__.get("__doc__") or ""
        # Dataclasses without a docstring get their signature as one.
        documented = Docstring() if text.startswith(f"{cls.__name__}(") else read_docstring(text)
        schema: Schema = {"type": "object"}
        if documented.description:
            schema["description"] = documented.description
        schema["properties"] = {
            field.name: self._property(field, documented.parameters.get(field.attribute, ""))
            for field in fields
        }
        schema["required"] = [field.name for field in fields if field.required]
        # A body may return more than its annotation promises, an object of a derived class for one.
        return schema if self._output else {**schema, "additionalProperties": False}

    def _property(self, field: "_ClassField", documented: str) -> Schema:
        schema = self.read(field.type)
        if documented:
            schema.setdefault("description", documented)
        # Where some write `= None` for a text, it must not be filled in.
        default = default_as_json(field.default, field.type)
        return schema if default is NOT_JSON else {**schema, "default": default}


_GENERIC: dict[Any, Callable[[SchemaReader, tuple[Any, ...]], Schema]] = {
    Union: SchemaReader._union,
    types.UnionType: SchemaReader._union,
    Literal: SchemaReader._literal,
    tuple: SchemaReader._tuple,
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Collection), SchemaReader._list),
    **dict.fromkeys((set, frozenset, abc.Set, abc.MutableSet), SchemaReader._set),
    **dict.fromkeys(MAPPINGS, SchemaReader._mapping),
}


class _ClassField(NamedTuple):
    """A field of a dataclass, a TypedDict, a named tuple or a msgspec Struct."""

    name: str
    """Its name in JSON."""
    attribute: str
    type: Any
    required: bool
    default: Any = NOT_JSON


def _class_fields(annotation: Any, cls: Any, *, output: bool) -> list[_ClassField]:
    """The fields of a class whose type parameters may be filled in; Unknown if it has none."""
    if issubclass(cls, msgspec.Struct):
        tag, tag_field = cls.__struct_config__.tag, cls.__struct_config__.tag_field
        found = [] if tag is None else [_ClassField(tag_field, tag_field, Literal[tag], required=True)]
        for field in msgspec.structs.fields(annotation):
            default = NOT_JSON if field.default is msgspec.NODEFAULT else field.default
            found.append(_ClassField(field.encode_name, field.name, field.type, field.required, default))
        return found
    hints = get_type_hints(cls, include_extras=True)
    filled = dict(zip(getattr(cls, "__parameters__", ()), get_args(annotation), strict=False))
    if filled:
        hints = {name: _hint_with_type_arguments(hint, filled) for name, hint in hints.items()}
    if hasattr(cls, "__dataclass_fields__"):
        if not output and any(isinstance(hint, InitVar) for hint in hints.values()):
            raise NeedsPydantic(annotation)
        return [_dataclass_field(field, hints[field.name]) for field in fields(cls) if field.init or output]
    if is_typed_dict(cls):
        return [_typed_dict_field(name, hint, name in cls.__required_keys__) for name, hint in hints.items()]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        optional = cls._field_defaults
        return [_ClassField(name, name, hints.get(name, Any), name not in optional) for name in cls._fields]
    raise Unknown(annotation)


def _dataclass_field(field: Any, hint: Any) -> _ClassField:
    is_required = field.init and field.default is MISSING and field.default_factory is MISSING
    default = NOT_JSON if field.default is MISSING else field.default
    return _ClassField(field.name, field.name, hint, is_required, default)


def _typed_dict_field(name: str, hint: Any, required: bool) -> _ClassField:
    """A key of a TypedDict. Where annotations are strings, the class itself did not see these words."""
    while True:
        origin = get_origin(hint)
        if origin in (Required, NotRequired):
            required = origin is Required
        elif getattr(origin, "_name", "") != "ReadOnly":
            return _ClassField(name, name, hint, required)
        hint = get_args(hint)[0]


def _hint_with_type_arguments(hint: Any, filled: dict[Any, Any]) -> Any:
    """A hint with its type variables replaced: `list[T]` of a `Box[int]` is `list[int]`."""
    if isinstance(hint, TypeVar):
        return filled.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(filled.get(variable, Any) for variable in variables)] if variables else hint


def is_typed_dict(cls: type) -> bool:
    """Those of typing and of typing_extensions alike."""
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


# --- parts of schemas -------------------------------------------------------------------------------------


def _fixed_array_schema(items: list[Schema]) -> Schema:
    length = len(items)
    return {"type": "array", "prefixItems": items, "items": False, "minItems": length, "maxItems": length}


def _enum_schema(values: list[Any], name: str) -> Schema:
    strange = [value for value in values if type(value) not in _JSON_TYPES]
    if strange:
        reason = f"has the choice {strange[0]!r} of {name}, which JSON does not have"
        raise Refusal(reason, "Use strings or numbers.")
    kinds = {_JSON_TYPES[type(value)] for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}


def _is_for_pydantic(metadata: Any) -> bool:
    package = type(metadata).__module__.partition(".")[0]
    is_known = package in ("pydantic", "pydantic_core", "annotated_types")
    return is_known or hasattr(metadata, "__get_pydantic_core_schema__")


def annotated_schema(schema: Schema, annotation: Any) -> Schema:
    """A schema with what the `Annotated` around a type says in words or in a msgspec.Meta."""
    schema = {**schema}
    for metadata in getattr(annotation, "__metadata__", ()):
        if not isinstance(metadata, msgspec.Meta):
            text = getattr(metadata, "documentation", metadata)  # a Doc of typing_extensions, or text itself
            schema |= {"description": text} if isinstance(text, str) else {}
            continue
        limits = {key: getattr(metadata, name) for name, key in _LIMITS.items()}
        for kind in _schema_types(schema):
            lengths = (metadata.min_length, metadata.max_length)
            limits |= dict(zip(_LENGTHS.get(kind, ()), lengths, strict=False))
        schema |= {key: limit for key, limit in limits.items() if limit is not None}
        schema |= metadata.extra_json_schema or {}
    return schema


def _schema_types(schema: Schema) -> Iterator[str]:
    if "type" in schema:
        yield schema["type"]
    for part in schema.get("anyOf", ()):
        yield from _schema_types(part)


# --- from JSON to objects, by msgspec ---------------------------------------------------------------------

_MESSAGE = re.compile(r"(?P<reason>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def msgspec_can_convert(annotation: Any) -> bool:
    """Whether msgspec can convert to a type that has a schema; it cannot tell two dataclasses apart, say."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=_msgspec_decode_hook)
    except (TypeError, RecursionError):
        return False
    return True


def msgspec_converter(types: dict[str, Any]) -> Callable[[Arguments], Arguments]:
    """Converts these arguments, as fields of one Struct: msgspec prepares that once, other types anew."""
    fields: list[tuple[str, Any, Any]] = [(name, annotation, None) for name, annotation in types.items()]
    shape = msgspec.defstruct("Arguments", fields)
    names = tuple(types)

    def convert(arguments: Arguments) -> Arguments:
        try:
            # Not strict only so that 5.0 is an int: strings for numbers the schema has refused already.
            converted = msgspec.convert(
                arguments, shape, strict=False, str_keys=True, dec_hook=_msgspec_decode_hook
            )
        except msgspec.ValidationError:
            given = [name for name in names if name in arguments]
            problems = [one for name in given for one in _msgspec_problems(shape, name, arguments[name])]
            raise InputInvalid(problems) from None
        return arguments | {name: getattr(converted, name) for name in names if name in arguments}

    return convert


def default_as_json(default: Any, annotation: Any) -> Any:
    """A default in JSON, if it comes back from there as it was; NOT_JSON otherwise."""
    try:
        value = plain_json(default)
        back = msgspec.convert(value, annotation, str_keys=True, dec_hook=_msgspec_decode_hook)
    except (ToolFailed, ValueError, TypeError, RecursionError):
        return NOT_JSON
    return value if back == default else NOT_JSON


def _msgspec_decode_hook(kind: type, value: Any) -> Any:
    """What msgspec has no form for itself."""
    if kind is object:
        return value
    if issubclass(kind, PurePath):
        return kind(value)
    raise NotImplementedError


def _msgspec_problems(shape: Any, name: str, value: Any) -> Iterator[Problem]:
    """What is wrong with an argument, and with each item if it is a list: msgspec tells the first only."""
    offset = 0
    while True:
        sent = {name: value}
        try:
            msgspec.convert(sent, shape, strict=False, str_keys=True, dec_hook=_msgspec_decode_hook)
            return
        except msgspec.ValidationError as error:
            problem = _msgspec_problem(str(error), sent)
        steps = problem.path[1:]
        if not isinstance(value, list) or not steps:
            if not offset:  # otherwise it is about a list that is too short without its first items
                yield problem
            return
        index = int(steps[0])
        yield msgspec.structs.replace(problem, path=(name, offset + index, *steps[1:]))
        value, offset = value[index + 1 :], offset + index + 1


def _msgspec_problem(message: str, arguments: Arguments) -> Problem:
    match = _MESSAGE.fullmatch(message)
    reason, place = (match["reason"], match["path"] or "") if match else (message, "")
    # For the values of a dictionary msgspec does not tell the key: its path is followed up to there.
    steps = (step[1] or int(step[2]) for step in _STEP.finditer(place.partition("[...]")[0]))
    path, value = follow_path(arguments, steps)
    return Problem(path=path, keyword="value", expected=reason, got=describe_value(value))
