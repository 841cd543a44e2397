"""What a function says of itself as a tool, by its annotations and its docstring.

`Declaration` finds the parameters and those that the platform fills; `_InputParameters` makes a schema of the
rest, and the way from JSON to what they are in Python: what is the same in both stays as it is, msgspec makes
most of the others, and pydantic what only it can make.
"""

import inspect
import re
from collections import abc
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Never,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from strands_cli.documents.problems import Refusal
from strands_cli.errors import Issue, ToolError
from strands_cli.toolkit.arguments import Convert, InputInvalid, conversion_problems
from strands_cli.toolkit.docstring import read_docstring
from strands_cli.toolkit.functions import Function, innermost_function, parameters_of
from strands_cli.toolkit.type_schemas import (
    MAPPINGS,
    NOT_JSON,
    UNRESOLVED,
    Arguments,
    NeedsPydantic,
    Schema,
    SchemaReader,
    Unknown,
    annotated_schema,
    default_as_json,
    is_typed_dict,
    msgspec_can_convert,
    msgspec_converter,
    unresolved_annotation,
)

if TYPE_CHECKING:
    from strands_cli.toolkit.pydantic_types import PydanticTypes

_NO_DEFAULT: Any = inspect.Parameter.empty
_OF_STRUCTURES = ("__dataclass_fields__", "__pydantic_fields__", "__struct_fields__")
# A body that promises no more than these may return anything, a whole ToolResult too; and bytes at the top of
# a result become an image, not text.
_ANYTHING = (Any, object, None, type(None), NoReturn, Never, dict, list, abc.Mapping, abc.Sequence)


class Signature(msgspec.Struct, frozen=True):
    description: str
    input_schema: Schema
    output_schema: Schema | None
    """None if the annotation of the result says nothing that could be checked."""
    convert: Convert | None
    """From validated arguments to the objects that the body declared; None if they are the same."""
    check: Convert | None
    """As much of `convert` as runs no code of the tool's author."""
    context_parameter: str | None
    agent_parameter: str | None = None
    """A parameter `agent` in the SDK's manner, for as much of the agent as a tool may see."""


def read_signature(function: Function, *, context: bool | str = False) -> Signature:
    """ToolError (`unavailable`) names the parameter that no tool can have, and what to write instead."""
    declared = Declaration(function, context)
    documented = read_docstring(declared.plain.__doc__)
    inputs = _InputParameters(declared, documented.parameters)
    return Signature(
        documented.description,
        inputs.schema,
        _output_schema(declared),
        inputs.convert,
        inputs.check,
        declared.context_parameter,
        declared.agent_parameter,
    )


# --- the function as it is declared -----------------------------------------------------------------------


class Parameter(NamedTuple):
    name: str
    type: Any
    default: Any = _NO_DEFAULT
    field: Any = None
    """pydantic's `Field(…)` that stands in the place of a default, as in models."""


class Declaration:
    """A function's parameters with their types; ToolError where it cannot be a tool."""

    def __init__(self, function: Function, context: bool | str) -> None:
        self.plain = innermost_function(function)
        self.name = getattr(self.plain, "__name__", type(function).__name__)
        self.hints, self._unresolved = _type_hints(self.plain)
        self.takes_others = False
        """Whether there is a `**kwargs`, so that arguments without a parameter are welcome."""
        self.context_parameter: str | None = None
        self.agent_parameter: str | None = None
        self.parameters = list(self._read(function, context))
        if isinstance(context, str) and self.context_parameter != context:
            raise self.refused(
                f"it has no parameter {context!r} for its context", f"Add {context}: ToolContext."
            )

    def refused(self, reason: str, remedy: str) -> ToolError:
        issue = Issue(reason=reason, remediation=remedy)
        message = f"{self.name} cannot be a tool: {reason}"
        return ToolError(message, code="unavailable", hint=remedy, issue=issue)

    def refused_parameter(self, name: str, annotation: Any, why: Refusal) -> ToolError:
        written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return self.refused(f"its parameter '{name}: {written}' {why.reason}", why.remedy)

    def _read(self, function: Function, context: bool | str) -> Iterator[Parameter]:
        for parameter in parameters_of(function):
            name = parameter.name
            if self._is_filled_by_platform(parameter, context):
                continue
            # Arguments come by name, so a parameter that only takes a position gets none.
            if parameter.kind is parameter.VAR_POSITIONAL:
                reason = f"its *{name} takes arguments that have no name"
                raise self.refused(reason, f"Take a list: {name}: list[…].")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                reason = f"its parameter {name!r} is positional-only, and arguments come by name"
                raise self.refused(reason, "Remove the '/' from the signature.")
            if parameter.kind is parameter.VAR_KEYWORD:
                self.takes_others = True
            elif name in self._unresolved:
                why = unresolved_annotation(self._unresolved[name], "names")
                raise self.refused_parameter(name, parameter.annotation, why)
            else:
                yield _read_parameter(name, self.hints.get(name, Any), parameter.default)

    def _is_filled_by_platform(self, parameter: inspect.Parameter, context: bool | str) -> bool:
        is_named = parameter.name == ("tool_context" if context is True else context)
        if is_named or self._is_of_class(parameter, "ToolContext"):
            if self.context_parameter is not None:
                both = f"{self.context_parameter!r} and {parameter.name!r}"
                raise self.refused(f"it has two parameters for its context, {both}", "Keep one of them.")
            self.context_parameter = parameter.name
            return True
        is_untyped = parameter.annotation is parameter.empty
        if parameter.name == "agent" and (is_untyped or self._is_of_class(parameter, "Agent")):
            self.agent_parameter = parameter.name
            return True
        return False

    def _is_of_class(self, parameter: inspect.Parameter, name: str) -> bool:
        """Whether it is annotated with a class of ours or of the SDK, which is not imported to find out."""
        if parameter.name in self._unresolved:  # imported for type checkers only, most likely
            return re.search(rf"\b{name}\b", str(parameter.annotation)) is not None
        annotation: Any = self.hints.get(parameter.name)
        if get_origin(annotation) is Annotated:
            annotation = annotation.__origin__
        return any(
            part.__name__ == name and part.__module__.partition(".")[0] in ("strands", "strands_cli")
            for part in (get_args(annotation) if _is_union(annotation) else (annotation,))
            if isinstance(part, type)
        )


def _type_hints(function: Any) -> tuple[dict[str, Any], dict[str, Exception]]:
    """The types of the parameters, and why some have none: each is resolved by itself."""
    enclosed: dict[str, Any] = {}
    names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
    for variable, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with suppress(ValueError):  # not filled yet
            enclosed[variable] = cell.cell_contents

    def alone() -> None: ...

    hints: dict[str, Any] = {}
    errors: dict[str, Exception] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        alone.__annotations__ = {name: annotation}
        try:
            resolved = get_type_hints(
                alone, getattr(function, "__globals__", {}), enclosed, include_extras=True
            )
        except UNRESOLVED as error:
            errors[name] = error
        else:
            hints[name] = resolved[name]
    return hints, errors


def _read_parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """With what `= None`, `= Field(…)` and `Iterable` mean for the type written out."""
    if annotation is abc.Iterable or get_origin(annotation) is abc.Iterable:
        annotation = list[get_args(annotation) or Any]  # type: ignore[misc]
    kind = type(default)
    if kind.__name__ == "FieldInfo" and kind.__module__.partition(".")[0] == "pydantic":
        value = default.default if default.default_factory is None else default.default_factory
        value = _NO_DEFAULT if default.is_required() else value
        return Parameter(name, Annotated[annotation, default], value, default)
    return Parameter(name, _optional_type(annotation) if default is None else annotation, default)


def _optional_type(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return Union[annotation, None]  # noqa: UP007 - not every annotation knows the operator
    # A description of the parameter stays one of the whole of it.
    return Annotated[(_optional_type(annotation.__origin__), *annotation.__metadata__)]


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


# --- what a caller fills ----------------------------------------------------------------------------------


class _InputParameters:
    """The schema of the parameters that a caller fills, and how their arguments are converted."""

    def __init__(self, declared: Declaration, documented: dict[str, str]) -> None:
        self._declared = declared
        self._reader = SchemaReader()
        self._properties: dict[str, Schema] = {}
        self._pydantic: PydanticTypes | None = None
        self._by_pydantic: dict[str, Any] = {}
        self.check: Convert | None = None
        """Converts texts such as dates, and nothing whose class could run code of the author's."""
        convert = self._read_types()
        for name, schema in self._properties.items():
            if documented.get(name):
                schema.setdefault("description", documented[name])
        self.convert = _converter_with_defaults(self._add_defaults(), convert)

    @property
    def schema(self) -> Schema:
        parameters = self._declared.parameters
        required = [parameter.name for parameter in parameters if parameter.default is _NO_DEFAULT]
        schema: Schema = {"type": "object", "properties": self._properties, "required": required}
        if self._declared.takes_others:
            schema["additionalProperties"] = True
        if self._reader.definitions:
            schema["$defs"] = self._reader.definitions
        return schema

    def _read_types(self) -> Convert | None:
        by_msgspec: dict[str, Any] = {}
        unread: dict[str, Any] = {}
        for name, annotation, *_ in self._declared.parameters:
            self._properties[name] = {}  # so that the order is the function's
            try:
                self._properties[name], converts = self._reader.read_parameter(annotation)
            except NeedsPydantic:
                unread[name] = self._by_pydantic[name] = annotation
            except Refusal as why:
                raise self._declared.refused_parameter(name, annotation, why) from None
            else:
                if converts:
                    (by_msgspec if msgspec_can_convert(annotation) else self._by_pydantic)[name] = annotation
        first = msgspec_converter(by_msgspec) if by_msgspec else None
        self.check = self._plain_converter(by_msgspec, first)
        if not self._by_pydantic:
            return first
        self._pydantic = self._pydantic_types(self._by_pydantic)
        if unread:
            # Types that only pydantic can convert, but that were read here, keep the schema they have.
            whole = self._pydantic if unread == self._by_pydantic else self._pydantic_types(unread)
            properties, definitions = whole.schemas(self._reader.definitions)
            for name, annotation in unread.items():
                self._properties[name] = annotated_schema(properties[name], annotation)
            self._reader.definitions |= definitions
        return _both_converters(first, self._pydantic.convert) if first else self._pydantic.convert

    def _plain_converter(self, types: dict[str, Any], whole: Convert | None) -> Convert | None:
        plain = {name: types[name] for name in types if _is_plain_schema(self._properties[name])}
        return whole if plain == types else msgspec_converter(plain) if plain else None

    def _pydantic_types(self, types: dict[str, Any]) -> "PydanticTypes":
        from strands_cli.toolkit.pydantic_types import PydanticTypes

        try:
            return PydanticTypes(types)
        except Refusal as why:
            if len(types) > 1:  # one after the other, to find out which of them it is
                for name, annotation in types.items():
                    self._pydantic_types({name: annotation})
            raise self._declared.refused_parameter(*next(iter(types.items())), why) from None

    def _add_defaults(self) -> dict[str, Callable[[], Any]]:
        """Puts defaults into the schema; returns those that have to be made anew for each call."""
        defaults: dict[str, Callable[[], Any]] = {}
        for name, annotation, default, field in self._declared.parameters:
            if default is _NO_DEFAULT:
                continue
            if default is None:
                value = None  # such a parameter takes null, whatever its annotation says
            elif self._pydantic is not None and name in self._by_pydantic:
                value = self._pydantic.default_as_json(name, default)
            else:
                value = default_as_json(default, annotation)
            if value is not NOT_JSON:
                self._properties[name]["default"] = value
            elif field is not None:
                defaults[name] = partial(field.get_default, call_default_factory=True)
            elif _can_be_changed(default):  # calls must not see each other's changes
                with suppress(TypeError):  # one that cannot be copied is shared all the same
                    deepcopy(default)
                    defaults[name] = partial(deepcopy, default)
        return defaults


def _both_converters(first: Convert, second: Convert) -> Convert:
    def convert(arguments: Arguments) -> Arguments:
        try:
            converted = first(arguments)
        except InputInvalid as refused:
            raise InputInvalid(refused.problems + conversion_problems(second, arguments)) from None
        return second(converted)

    return convert


def _is_plain_schema(schema: Schema) -> bool:
    return "$ref" not in str(schema) and "properties" not in str(schema)


def _can_be_changed(default: Any) -> bool:
    """A frozen structure counts too: it may have a list in it."""
    kind = type(default)
    return kind.__hash__ is None or any(hasattr(kind, name) for name in _OF_STRUCTURES)


def _converter_with_defaults(
    defaults: dict[str, Callable[[], Any]], convert: Convert | None
) -> Convert | None:
    """Converts, and adds the omitted defaults that the schema cannot hold."""
    if not defaults:
        return convert

    def completed(arguments: Arguments) -> Arguments:
        converted = convert(arguments) if convert else arguments
        return {name: make() for name, make in defaults.items() if name not in converted} | converted

    return completed


# --- what the body returns --------------------------------------------------------------------------------


def _output_schema(declared: Declaration) -> Schema | None:
    annotation = declared.hints.get("return", Any)
    if get_origin(annotation) in (abc.Awaitable, abc.Coroutine):
        annotation = get_args(annotation)[-1]
    is_generator = inspect.isgeneratorfunction(declared.plain) or inspect.isasyncgenfunction(declared.plain)
    if is_generator or not _is_checkable_type(annotation):
        return None
    reader = SchemaReader(output=True)
    try:
        schema = reader.read(annotation)
    except (Unknown, Refusal):  # a class of somebody's own, which is for the body to encode
        return None
    except NeedsPydantic:
        from strands_cli.toolkit.pydantic_types import pydantic_output

        with suppress(Refusal):
            return pydantic_output(annotation)
        return None
    if not schema:
        return None
    return schema | {"$defs": reader.definitions} if reader.definitions else schema


def _is_checkable_type(annotation: Any) -> bool:
    """Whether an annotation tells one value from another, and whether the value is checked as it stands."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_checkable_type(parts[0])
    if _is_union(annotation):
        return all(part is type(None) or _is_checkable_type(part) for part in parts)
    if origin in MAPPINGS:
        return bool(parts) and parts[1] not in (Any, object)
    if origin is not None:
        return bool(parts)
    if isinstance(annotation, type) and is_typed_dict(annotation):  # a ToolResult is one too
        return not {"status", "content"}.issubset(annotation.__annotations__)
    return annotation not in (*_ANYTHING, bytes, bytearray)
