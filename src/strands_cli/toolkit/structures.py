"""The fields of dataclasses, TypedDicts, named tuples and msgspec Structs, all in one form."""

import math
from collections.abc import Callable
from enum import Enum
from typing import (
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)
"""What evaluating an annotation that is written as a string may raise."""

NOT_JSON: Any = object()
"""In the place of a default that JSON does not have, or where there is none."""

_PLAIN_SCALARS = frozenset({str, int, bool, type(None)})
_NEEDED = "Define it at the top level of the module, and import it for more than type checkers."


class NeedsPydantic(Exception):
    """A type, or the metadata of one, that only pydantic understands."""


class Unknown(NeedsPydantic):
    """A type that is unknown here, though pydantic may know it."""


class Unreadable(Exception):
    """A type that cannot be a parameter: what it does, and what to write in its place."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class Field(NamedTuple):
    name: str
    """Its name in JSON."""
    attribute: str
    type: Any
    required: bool
    default: Any = NOT_JSON
    """As JSON has it."""


def unresolved(error: Exception, what: str) -> Unreadable:
    """Why an annotation that is a string, or has strings in it, means nothing here."""
    name = getattr(error, "name", None)
    return Unreadable(
        f"{what} {name!r}, which is not defined" if name else f"{what} no type ({error})", _NEEDED
    )


def is_typed_dict(cls: type) -> bool:
    """Those of typing and of typing_extensions alike."""
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_field_defaults")


def is_positional(cls: type) -> bool:
    """Whether its JSON is an array."""
    return is_named_tuple(cls) or bool(issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like)


def structure_fields(annotation: Any, cls: type, *, output: bool) -> list[Field] | None:
    """The fields of a class, whose type parameters may be filled in; None where it is of another kind."""
    read = _reader(cls)
    if read is None:
        return None
    try:
        return read(annotation, cls, output)
    except UNRESOLVED as error:
        raise unresolved(error, f"uses {cls.__name__}, which names") from None


def _reader(cls: type) -> "Callable[[Any, Any, bool], list[Field]] | None":
    if hasattr(cls, "__dataclass_fields__"):
        return _dataclass_fields
    if is_typed_dict(cls):
        return _typed_dict_fields
    if is_named_tuple(cls):
        return _named_tuple_fields
    return _struct_fields if issubclass(cls, msgspec.Struct) else None


def _dataclass_fields(annotation: Any, cls: Any, output: bool) -> list[Field]:
    from dataclasses import MISSING, InitVar, fields

    hints = _hints(annotation, cls)
    if not output and any(isinstance(hint, InitVar) for hint in hints.values()):
        raise NeedsPydantic(annotation)
    return [
        Field(
            field.name,
            field.name,
            hints[field.name],
            field.init and field.default is MISSING and field.default_factory is MISSING,
            as_default(field.default),
        )
        for field in fields(cls)
        if field.init or output
    ]


def _typed_dict_fields(annotation: Any, cls: Any, _output: bool) -> list[Field]:
    found = []
    for name, hint in _hints(annotation, cls).items():
        required = name in cls.__required_keys__
        # Where annotations are strings, the class itself did not see these words.
        while get_origin(hint) in (Required, NotRequired) or _is_read_only(hint):
            required = required if _is_read_only(hint) else get_origin(hint) is Required
            hint = get_args(hint)[0]
        found.append(Field(name, name, hint, required))
    return found


def _is_read_only(hint: Any) -> bool:
    return getattr(get_origin(hint), "_name", "") == "ReadOnly"


def _named_tuple_fields(annotation: Any, cls: Any, _output: bool) -> list[Field]:
    hints = _hints(annotation, cls)
    return [Field(name, name, hints.get(name, Any), name not in cls._field_defaults) for name in cls._fields]


def _struct_fields(annotation: Any, cls: Any, _output: bool) -> list[Field]:
    config = cls.__struct_config__
    found = [
        Field(field.encode_name, field.name, field.type, field.required, as_default(field.default))
        for field in msgspec.structs.fields(annotation)
    ]
    if config.tag is None:
        return found
    return [Field(config.tag_field, config.tag_field, Literal[config.tag], required=True), *found]


def _hints(annotation: Any, cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    filled = dict(zip(getattr(cls, "__parameters__", ()), get_args(annotation), strict=False))
    return {name: _filled_in(hint, filled) for name, hint in hints.items()} if filled else hints


def _filled_in(hint: Any, filled: dict[Any, Any]) -> Any:
    """A hint with its type variables replaced: `list[T]` of a `Box[int]` is `list[int]`."""
    if isinstance(hint, TypeVar):
        return filled.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(filled.get(variable, Any) for variable in variables)] if variables else hint


def as_default(value: Any) -> Any:
    """A default as a schema can tell it, and as it comes back from there; NOT_JSON for all others."""
    if type(value) in _PLAIN_SCALARS or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Enum):
        return as_default(value.value)
    if type(value) is list:
        items = [as_default(item) for item in value]
        return NOT_JSON if NOT_JSON in items else items
    if type(value) is dict and all(type(key) is str for key in value):
        entries = {key: as_default(item) for key, item in value.items()}
        return NOT_JSON if NOT_JSON in entries.values() else entries
    return NOT_JSON
