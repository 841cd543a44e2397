"""The parameters that a caller fills: their schema, and the way from JSON to what they are in Python.

What is the same in both stays as it is; msgspec makes most of the rest, and pydantic what only it can make.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.conversion import Arguments, Convert, converter, msgspec_takes
from strands_cli.toolkit.declaration import NO_DEFAULT, Declaration, Parameter, is_pydantic_field
from strands_cli.toolkit.structures import NOT_JSON, NeedsPydantic, Unreadable
from strands_cli.toolkit.type_schemas import Schema, SchemaReader, annotated
from strands_cli.toolkit.values import plain_json

if TYPE_CHECKING:
    from strands_cli.toolkit.pydantic_types import PydanticTypes

UNREAD: Schema = {}
"""In the place of a schema that pydantic has yet to make, so that the order is the function's."""

Supply = dict[str, Callable[[], Any]]

_CHANGEABLE = (list, dict, set, bytearray)
_OF_STRUCTURES = ("__dataclass_fields__", "__pydantic_fields__", "__struct_fields__")
_SCALARS: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}


class Inputs:
    def __init__(self, declared: Declaration, documented: dict[str, str]) -> None:
        self._declared = declared
        self._reader = SchemaReader()
        self._properties: dict[str, Schema] = {}
        self._by_msgspec: dict[str, Any] = {}
        self._by_pydantic: dict[str, Any] = {}
        for parameter in declared.parameters:
            self._read(parameter)
        self._pydantic = self._read_by_pydantic() if self._by_pydantic else None
        self._describe(documented)
        self._convert = self._conversion()
        self.convert = _supplying(self._add_defaults(), self._convert)

    @property
    def schema(self) -> Schema:
        parameters = self._declared.parameters
        required = [parameter.name for parameter in parameters if default_of(parameter) is NO_DEFAULT]
        made: Schema = {"type": "object", "properties": self._properties, "required": required}
        if self._declared.takes_others:
            made["additionalProperties"] = True
        if self._reader.definitions:
            made["$defs"] = self._reader.definitions
        return made

    # --- types --------------------------------------------------------------------------------------------

    def _read(self, parameter: Parameter) -> None:
        name, annotation = parameter.name, parameter.type
        try:
            self._properties[name], converts = self._reader.read_parameter(annotation)
        except NeedsPydantic:
            self._properties[name] = UNREAD
            self._by_pydantic[name] = annotation
        except Unreadable as error:
            raise self._declared.refused_parameter(parameter, error) from None
        else:
            if converts:
                (self._by_msgspec if msgspec_takes(annotation) else self._by_pydantic)[name] = annotation

    def _read_by_pydantic(self) -> "PydanticTypes":
        types = self._pydantic_types(self._by_pydantic)
        unread = {name: kind for name, kind in self._by_pydantic.items() if self._properties[name] is UNREAD}
        if not unread:
            return types
        # Types that only pydantic can convert, but that were read here, keep the schema they have.
        source = types if len(unread) == len(self._by_pydantic) else self._pydantic_types(unread)
        properties, definitions = source.schemas(self._reader.definitions)
        for name, annotation in unread.items():
            self._properties[name] = annotated(properties[name], annotation)
        self._reader.definitions |= definitions
        return types

    def _pydantic_types(self, types: dict[str, Any]) -> "PydanticTypes":
        from strands_cli.toolkit.pydantic_types import PydanticTypes

        try:
            return PydanticTypes(types)
        except Unreadable as error:
            if len(types) > 1:  # one after the other, to find out which of them it is
                for name, annotation in types.items():
                    self._pydantic_types({name: annotation})
            culprit = Parameter(*next(iter(types.items())))
            raise self._declared.refused_parameter(culprit, error) from None

    def _describe(self, documented: dict[str, str]) -> None:
        for name, schema in self._properties.items():
            if documented.get(name):
                schema.setdefault("description", documented[name])

    def _conversion(self) -> Convert | None:
        by_msgspec = converter(self._by_msgspec) if self._by_msgspec else None
        by_pydantic = self._pydantic.convert if self._pydantic else None
        if by_msgspec and by_pydantic:
            return lambda arguments: by_pydantic(by_msgspec(arguments))
        return by_msgspec or by_pydantic

    # --- defaults -----------------------------------------------------------------------------------------

    def _add_defaults(self) -> Supply:
        """Puts defaults into the schema; returns those that have to be made anew for each call."""
        supply: Supply = {}
        for parameter in self._declared.parameters:
            default = default_of(parameter)
            if default is NO_DEFAULT:
                continue
            told = self._as_json(parameter, default)
            if told is not NOT_JSON:
                self._properties[parameter.name]["default"] = told
            elif is_pydantic_field(parameter.default):
                supply[parameter.name] = partial(parameter.default.get_default, call_default_factory=True)
            elif _can_change(default):
                supply[parameter.name] = partial(deepcopy, default)
        return supply

    def _as_json(self, parameter: Parameter, default: Any) -> Any:
        """A default in JSON, if it comes back from there as it was; NOT_JSON otherwise."""
        name, annotation = parameter.name, parameter.type
        if default is None:
            return None  # such a parameter takes null, whatever its annotation says
        if annotation in _SCALARS and type(default) not in _SCALARS[annotation]:
            return NOT_JSON  # not of its own type, a mark for "nothing" perhaps
        try:
            told = self._encode(name, default)
            back = self._convert({name: told})[name] if self._convert else told
        except (ToolFailed, ValueError, TypeError, AttributeError):
            return NOT_JSON
        return told if back == default else NOT_JSON

    def _encode(self, name: str, default: Any) -> Any:
        if self._pydantic is not None and name in self._by_pydantic:
            return self._pydantic.encode(name, default)
        return default if type(default) in (str, int, bool, type(None)) else plain_json(default)


def default_of(parameter: Parameter) -> Any:
    if not is_pydantic_field(parameter.default):
        return parameter.default
    field = parameter.default
    if field.is_required():
        return NO_DEFAULT
    return field.default if field.default_factory is None else field.default_factory


def _can_change(default: Any) -> bool:
    """Whether calls could see each other's changes of a default; one that cannot be copied stays as it is."""
    is_structure = any(hasattr(type(default), name) for name in _OF_STRUCTURES)
    if not is_structure and not isinstance(default, _CHANGEABLE):
        return False
    try:
        return deepcopy(default) is not default
    except TypeError:
        return False


def _supplying(supply: Supply, convert: Convert | None) -> Convert | None:
    """Converts, and gives what was omitted and could not be told in the schema."""
    if not supply:
        return convert

    def completed(arguments: Arguments) -> Arguments:
        made = convert(arguments) if convert else arguments
        return {name: make() for name, make in supply.items() if name not in made} | made

    return completed
